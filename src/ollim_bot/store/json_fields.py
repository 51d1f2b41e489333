"""Reads and writes the fields of JSON values, with a sentence for each wrong one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import NoReturn, TypeVar

from ollim_bot.store.file_store import FormatIsNewer, Malformed

FORMAT = 1

E = TypeVar("E", bound=StrEnum)


def parse_json(raw: bytes) -> object:
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise Malformed("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


# Created once: `json.loads` with an option would create one for each line of a log.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def render_json(value: object, *, indent: int | None = None) -> bytes:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8 form, but it can be escaped.
        return json.dumps(value, indent=indent).encode()


def versioned(value: object) -> dict[str, object]:
    """The object without its format version. Raises `Malformed` or `FormatIsNewer`."""
    if not isinstance(value, dict):
        raise Malformed("not an object")
    found = value.pop("version", FORMAT)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise Malformed("version is not a positive whole number")
    if found > FORMAT:
        raise FormatIsNewer(found, FORMAT)
    return value


def versioned_list(value: object) -> list[object]:
    """A bare list is format 1; later formats would be objects with a version."""
    if isinstance(value, dict) and "version" in value:
        versioned(value)
    if not isinstance(value, list):
        raise Malformed("not a list")
    return value


class Fields:
    """An object's fields by name and type."""

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise Malformed(f"{where or 'the entry'} is not an object")
        self._value = value
        self._where = f"{where}." if where else ""

    def _malformed(self, name: str, expected: str) -> Malformed:
        if name not in self._value:
            return Malformed(f"{self._where}{name} is missing")
        return Malformed(f"{self._where}{name} is not {expected}")

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if not isinstance(value, str):
            raise self._malformed(name, "text")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._value.get(name) is None else self.text(name)

    def choice(self, name: str, kind: type[E]) -> E:
        try:
            return kind(self.text(name))
        except ValueError:
            raise self._malformed(name, "one that is known") from None

    def flag(self, name: str) -> bool:
        """False where it is missing."""
        value = self._value.get(name, False)
        if not isinstance(value, bool):
            raise self._malformed(name, "true or false")
        return value

    def items(self, name: str) -> list[object]:
        """Empty where it is missing."""
        value = self._value.get(name, [])
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        return value

    def texts(self, name: str) -> list[str]:
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise self._malformed(name, "a list of texts")
        return [str(value) for value in values]

    def texts_by_name(self, name: str) -> dict[str, str]:
        """Empty where it is missing."""
        value = self._value.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self._malformed(name, "an object of texts")
        return value

    def whole(self, name: str, *, least: int = 0, most: int = 2**63) -> int:
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._malformed(name, f"a whole number from {least} to {most}")
        return value

    def whole_or_none(self, name: str) -> int | None:
        return None if self._value.get(name) is None else self.whole(name)

    def number(self, name: str) -> float:
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._malformed(name, "a number")
        try:
            number = float(value)
        except OverflowError:
            raise self._malformed(name, "a number of a sensible size") from None
        if not math.isfinite(number):
            raise self._malformed(name, "a finite number")
        return number

    def moment(self, name: str) -> datetime:
        try:
            moment = datetime.fromisoformat(self.text(name))
        except ValueError:
            raise self._malformed(name, "an ISO 8601 time") from None
        if moment.utcoffset() is None:
            raise self._malformed(name, "a time with an offset such as +01:00")
        # Arithmetic on a moment at the edge of the calendar would overflow later.
        if not 1970 <= moment.year < 9999:
            raise self._malformed(name, "a time between 1970 and 9998")
        return moment

    def day(self, name: str) -> date:
        try:
            return date.fromisoformat(self.text(name))
        except ValueError:
            raise self._malformed(name, "an ISO 8601 date") from None

    def below(self, name: str) -> Fields | None:
        """The fields of a nested object; None if it is missing."""
        value = self._value.get(name)
        return None if value is None else Fields(value, f"{self._where}{name}")

    def others(self, *known: str) -> dict[str, object]:
        return {name: value for name, value in self._value.items() if name not in known}

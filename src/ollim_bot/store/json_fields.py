"""Reads and writes JSON, and the version of a format."""

from __future__ import annotations

import json
from typing import NoReturn

from ollim_bot.store.file_store import FormatIsNewer, Malformed

FORMAT = 1


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


def parse_object(raw: bytes) -> dict[str, object]:
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise Malformed("the entry is not an object")
    return value


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

"""Frozen dataclasses as JSON objects, by the types of their fields.

A class is looked at once: the functions that read and write its values are kept.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import (
    Any,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ollim_bot.kernel.store.file_store import Malformed, parse_json, render_json

T = TypeVar("T")

# `Read` raises `Malformed`. `Write` is None for a value that is JSON as it is.
Read = Callable[[object], Any]
Write = Callable[[Any], object] | None
Form = tuple[Read, Write]


class Layout(NamedTuple):
    """How the object of a class is written, as far as its fields do not say it.

    All required fields are written, and those that differ from their default; with `full` all.
    `first` come before the others. `always` are written with their default too, and `needed` must
    also be there when the object is read. `stored_as` has the names in the object that are not
    those of the fields, `forms` the fields that are not written as their types are. `rest` is the
    field that has what belongs to no other one. A complaint calls the object by its `title`, or by
    the fields that lead to it.
    """

    title: str = ""
    full: bool = False
    first: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    stored_as: Mapping[str, str] = MappingProxyType({})
    forms: Mapping[str, Form] = MappingProxyType({})
    rest: str = ""


class Wrong(Malformed):
    """The field at `place` is wrong in a way that `what` says. A title ends the place."""

    def __init__(self, what: str, place: str = "", *, is_titled: bool = False) -> None:
        super().__init__(what, place)
        self._what = what
        self._place = place
        self._is_titled = is_titled

    def __str__(self) -> str:
        return f"{self._place or 'the entry'} {self._what}"

    def below(self, name: str, *, is_title: bool = False) -> Wrong:
        if self._is_titled or not name:
            return self
        place = f"{name}.{self._place}" if self._place else name
        return Wrong(self._what, place, is_titled=is_title)


class JsonFormat:
    """Reads and writes objects of texts, numbers, flags, choices, moments, days and objects.

    An object is a dataclass or a named tuple. A missing field has its default; fields that the
    class does not have are passed over. `layouts` are by class, `other` is that of all other
    classes. `forms` are of types that are not known here, or are written in another way.
    """

    def __init__(
        self,
        layouts: Mapping[type, Layout] | None = None,
        *,
        other: Layout | None = None,
        forms: Mapping[Any, Form] | None = None,
    ) -> None:
        self._layouts = layouts or {}
        self._other = other or Layout()
        self._forms: dict[Any, Form] = {**_KNOWN, **(forms or {})}

    def read(self, kind: type[T], value: object) -> T:
        """The value of an object. Raises `Malformed`."""
        return cast(T, self.form(kind)[0](value))

    def read_all(self, kind: type[T], values: object) -> tuple[T, ...]:
        """The values of a list of objects. Raises `Malformed`."""
        read = self.form(kind)[0]
        return tuple([read(value) for value in _as_list(values)])

    def write(self, value: object) -> dict[str, object]:
        _, write = self.form(type(value))
        return cast(dict[str, object], value if write is None else write(value))

    def form(self, kind: Any) -> Form:
        if (known := self._forms.get(kind)) is None:
            known = self._forms[kind] = self._form_of(kind)
        return known

    def _form_of(self, kind: Any) -> Form:
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            (wanted,) = (part for part in parts if part is not type(None))
            return _optional(self.form(wanted), is_id=hasattr(wanted, "__supertype__"))
        if origin is tuple and parts[1:] == (...,):
            return _TEXTS if self._is_text(parts[0]) else _list_of(self.form(parts[0]))
        if origin is tuple:
            return _row_of([self.form(part) for part in parts])
        if origin is Mapping:
            return _TEXTS_BY_NAME if self._is_text(parts[1]) else _by_name(self.form(parts[1]))
        if is_dataclass(kind) or hasattr(kind, "_field_defaults"):
            return self._object(kind)
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            known = {each.value: each for each in kind}

            def read(value: object) -> StrEnum:
                found = known.get(_text(value))
                if found is None:
                    raise Wrong("is not one that is known")
                return found

            return read, None
        return self.form(kind.__supertype__)

    def _is_text(self, kind: Any) -> bool:
        return self.form(kind) is _KNOWN[str]

    def _object(self, kind: Any) -> Form:
        layout, hints = self._layouts.get(kind, self._other), get_type_hints(kind)
        if is_dataclass(kind):
            known = {
                one.name: one.default if one.default_factory is MISSING else one.default_factory()
                for one in fields(kind)
            }
        else:
            known = {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
        plan = [
            self._planned(name, known[name], hints[name], layout)
            for name in dict.fromkeys((*layout.first, *known))
            if name != layout.rest
        ]
        return _reader(kind, plan, layout), _writer(plan, layout.rest)

    def _planned(self, name: str, default: object, hint: Any, layout: Layout) -> _PlannedField:
        is_optional = type(None) in get_args(hint)
        is_needed = name in layout.needed or (default is MISSING and not is_optional)
        is_always = layout.full or is_needed or name in layout.always
        return _PlannedField(
            name,
            layout.stored_as.get(name, name),
            *(layout.forms.get(name) or self.form(hint)),
            unless=MISSING if is_always else default,
            is_needed=is_needed,
            is_none_if_missing=default is MISSING and is_optional,
            null_is_missing=not is_needed and hint in (str, int, float),
        )


class _PlannedField(NamedTuple):
    """`unless` is the value that is not written."""

    name: str
    stored_as: str
    read: Read
    write: Write
    unless: object
    is_needed: bool
    is_none_if_missing: bool
    null_is_missing: bool


def _reader(kind: type, plan: Sequence[_PlannedField], layout: Layout) -> Read:
    title, rest = layout.title, layout.rest
    known = {each.stored_as: (each.name, each.read, each.null_is_missing) for each in plan}
    in_order = [each.stored_as for each in plan if each.is_needed]
    needed = frozenset(in_order)
    none = dict.fromkeys(each.name for each in plan if each.is_none_if_missing)

    def read(value: object) -> object:
        found, others = none.copy(), {}
        name = ""
        try:
            if not isinstance(value, dict):
                raise Wrong("is not an object")
            if not needed <= value.keys():
                raise Wrong("is missing", next(each for each in in_order if each not in value))
            for name, part in value.items():
                if (one := known.get(name)) is None:
                    others[name] = part
                elif part is not None or not one[2]:
                    found[one[0]] = one[1](part)
        except Wrong as wrong:
            raise wrong.below(name).below(title, is_title=True) from None
        if rest:
            found[rest] = others
        try:
            return kind(**found)
        except ValueError as wrong:
            raise Malformed(str(wrong)) from None

    return read


def _writer(plan: Sequence[_PlannedField], rest: str) -> Write:
    parts = [(each.stored_as, each.write, each.unless) for each in plan]
    # All fields in one call. With a second name, also one field comes as a tuple.
    values_of = attrgetter(*(each.name for each in plan), "__class__")

    def write(value: object) -> dict[str, object]:
        stored: dict[str, object] = {}
        for found, (name, write_part, unless) in zip(values_of(value), parts, strict=False):
            # Identity first: most fields of a message are their default.
            if found is not unless and (unless is MISSING or found != unless):
                stored[name] = found if write_part is None else write_part(found)
        return {**stored, **getattr(value, rest), **stored} if rest else stored

    return write


def _optional(form: Form, *, is_id: bool) -> Form:
    """An empty id is none."""
    read, write = form

    def read_one(value: object) -> object:
        return None if value is None else (read(value) or None) if is_id else read(value)

    if write is None:
        return read_one, None
    return read_one, lambda found: None if found is None else write(found)


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Wrong("is not a list")
    return value


def _list_of(form: Form) -> Form:
    read, write = form
    return (
        lambda value: tuple([read(part) for part in _as_list(value)]),
        list if write is None else lambda found: [write(part) for part in found],
    )


def _row_of(forms: Sequence[Form]) -> Form:
    def read(value: object) -> tuple[object, ...]:
        parts = _as_list(value)
        if len(parts) != len(forms):
            raise Wrong(f"is not a list of {len(forms)}")
        return tuple([form[0](part) for form, part in zip(forms, parts, strict=True)])

    def write(found: Sequence[object]) -> list[object]:
        pairs = zip(forms, found, strict=True)
        return [part if form[1] is None else form[1](part) for form, part in pairs]

    return read, write


def _by_name(form: Form) -> Form:
    read_part, write = form

    def read(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise Wrong("is not an object")
        found, name = {}, ""
        try:
            for name, part in value.items():
                found[name] = read_part(part)
        except Wrong as wrong:
            raise wrong.below(name) from None
        return found

    if write is None:
        return read, dict
    return read, lambda found: {name: write(part) for name, part in found.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong("is not text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not all(isinstance(part, str) for part in _as_list(value)):
        raise Wrong("is not a list of texts")
    return tuple(cast(list[str], value))


def _texts_by_name(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise Wrong("is not an object of texts")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong("is not true or false")
    return value


def whole(least: int = 0, most: int = 2**63) -> Form:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong(f"is not a whole number from {least} to {most}")
        return value

    return read, None


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Wrong("is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise Wrong("is not a number of a sensible size") from None
    if not math.isfinite(number):
        raise Wrong("is not a finite number")
    return number


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(_text(value))
    except ValueError:
        raise Wrong("is not an ISO 8601 time") from None
    if moment.utcoffset() is None:
        raise Wrong("is not a time with an offset such as +01:00")
    # Arithmetic on a moment at the edge of the calendar would overflow later.
    if not 1970 <= moment.year < 9999:
        raise Wrong("is not a time between 1970 and 9998")
    return moment


def _day(value: object) -> date:
    try:
        return date.fromisoformat(_text(value))
    except ValueError:
        raise Wrong("is not an ISO 8601 date") from None


_TEXTS: Form = (_texts, list)
_TEXTS_BY_NAME: Form = (_texts_by_name, dict)
_KNOWN: Mapping[Any, Form] = {
    str: (_text, None),
    bool: (_flag, None),
    int: whole(),
    float: (_number, None),
    datetime: (_moment, datetime.isoformat),
    date: (_day, date.isoformat),
    object: (lambda value: value, None),
}

PLAIN = JsonFormat(other=Layout(full=True))


def decode_plain(kind: type[T], raw: bytes) -> T:
    """Raises `Malformed` if `raw` is not a value of that kind."""
    return PLAIN.read(kind, parse_json(raw))


def encode_plain(value: object) -> bytes:
    return render_json(PLAIN.write(value))


class LineCodec(NamedTuple, Generic[T]):
    """`decode` raises `Malformed`, and nothing else, for a line that is not an entry."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def lines_of(kind: type[T], form: JsonFormat) -> LineCodec[T]:
    return LineCodec(
        lambda value: render_json(form.write(value)), lambda line: form.read(kind, parse_json(line))
    )


class ValueCodec(NamedTuple, Generic[T]):
    """A `Codec` whose values are read whole or not at all: nothing in them can be ignored."""

    missing: Callable[[], T]
    read: Callable[[bytes], T]
    encode: Callable[[T], bytes | None]

    def decode(self, raw: bytes) -> tuple[T, tuple[str, ...]]:
        return self.read(raw), ()


def plain_codec(kind: type[T]) -> ValueCodec[T]:
    """A value with only defaults has no file."""
    return ValueCodec(
        kind,
        lambda raw: decode_plain(kind, raw),
        lambda value: None if value == kind() else encode_plain(value),
    )

"""Frozen dataclasses as JSON objects, by the types of their fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import parse_json, render_json

T = TypeVar("T")
Decoder = Callable[[object], Any]


class PlainCodec(Generic[T]):
    """For a dataclass of texts, choices, flags, moments and days, and tuples and mappings of these.

    A missing field has its default. A value with only defaults has no file.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def missing(self) -> T:
        return self._kind()

    def decode(self, raw: bytes) -> tuple[T, tuple[str, ...]]:
        return decode_plain(self._kind, raw), ()

    def encode(self, value: T) -> bytes | None:
        return None if value == self._kind() else encode_plain(value)


def decode_plain(kind: type[T], raw: bytes) -> T:
    """Raises `Malformed` if `raw` is not a value of that kind."""
    wanted: Any = kind
    value: T = _decoder(wanted)(parse_json(raw))
    return value


def encode_plain(value: object) -> bytes:
    return render_json(_encoded(value))


def _encoded(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_encoded(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _encoded(each) for name, each in value.items()}
    if is_dataclass(value):
        return {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
    return value


@cache
def _decoder(kind: Any) -> Decoder:
    """What decodes a value of that kind. To look at a type takes longer than to decode a value."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        wanted, *_ = (each for each in of if each is not type(None))
        decoded = _decoder(wanted)
        return lambda value: None if value is None else decoded(value)
    if origin is tuple:
        return _tuple_decoder(of)
    if origin is Mapping:
        part = _decoder(of[1])
        return lambda value: {name: part(each) for name, each in _checked(value, dict).items()}
    if is_dataclass(kind):
        return lambda value: _dataclass(kind, _checked(value, dict))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return lambda value: _choice(kind, _checked(value, str))
    if kind in (datetime, date):
        return lambda value: _moment(kind, _checked(value, str))
    plain = getattr(kind, "__supertype__", kind)
    return lambda value: _checked(value, plain)


def _tuple_decoder(of: Sequence[Any]) -> Decoder:
    parts = [_decoder(each) for each in of if each is not ...]
    if of[1:] == (...,):
        (part,) = parts
        return lambda value: tuple(part(each) for each in _checked(value, list))
    return lambda value: tuple(
        part(each) for part, each in zip(parts, _checked(value, list), strict=True)
    )


@cache
def _field_decoders(kind: Any) -> Mapping[str, Decoder]:
    return {name: _decoder(each) for name, each in get_type_hints(kind).items()}


def _dataclass(kind: Any, given: Mapping[str, object]) -> Any:
    known = _field_decoders(kind)
    return kind(**{name: known[name](each) for name, each in given.items() if name in known})


def _choice(kind: type[StrEnum], text: str) -> StrEnum:
    try:
        return kind(text)
    except ValueError:
        raise Malformed(f"{text} is not one of {', '.join(kind)}") from None


def _moment(kind: Any, text: str) -> Any:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{text} is not an ISO 8601 {kind.__name__}") from None


def _checked(value: object, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise Malformed(f"{value!r} is not of type {kind.__name__}")
    return value

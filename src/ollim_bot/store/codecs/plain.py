"""Frozen dataclasses as JSON objects, by the types of their fields."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import parse_json, render_json

T = TypeVar("T")

# Evaluating the hints of a dataclass takes longer than decoding one.
_type_hints = cache(get_type_hints)


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
    value: T = _decoded(kind, parse_json(raw))
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


def _decoded(kind: Any, value: object) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        wanted, *_ = (each for each in get_args(kind) if each is not type(None))
        return None if value is None else _decoded(wanted, value)
    if get_origin(kind) is tuple:
        of, *more = get_args(kind)
        if more == [...]:
            return tuple(_decoded(of, each) for each in _checked(value, list))
        pairs = zip((of, *more), _checked(value, list), strict=True)
        return tuple(_decoded(each, part) for each, part in pairs)
    if get_origin(kind) is Mapping:
        of = get_args(kind)[1]
        return {name: _decoded(of, each) for name, each in _checked(value, dict).items()}
    if is_dataclass(kind):
        return _dataclass(kind, _checked(value, dict))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _choice(kind, _checked(value, str))
    if kind in (datetime, date):
        return _moment(kind, _checked(value, str))
    return _checked(value, getattr(kind, "__supertype__", kind))


def _dataclass(kind: Any, given: Mapping[str, object]) -> Any:
    hints = _type_hints(kind)
    known = {name: each for name, each in given.items() if name in hints}
    return kind(**{name: _decoded(hints[name], each) for name, each in known.items()})


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

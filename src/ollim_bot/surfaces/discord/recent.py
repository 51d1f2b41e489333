"""A memory of limited size."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by name. When there are too many, the one that was put longest ago is forgotten."""

    def __init__(self, limit: int = 300) -> None:
        self._limit = limit
        self._kept: dict[str, T] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def get(self, name: str) -> T | None:
        return self._kept.get(name)

    def put(self, name: str, value: T) -> None:
        self._kept.pop(name, None)
        self._kept[name] = value
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]

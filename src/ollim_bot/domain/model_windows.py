"""Which model a history fits into, so that a branch of it is not cut short at once."""

from __future__ import annotations

from collections.abc import Mapping

# From the smallest to the largest, with the tokens that each takes.
_WINDOWS: Mapping[str, int] = {"haiku": 200_000, "sonnet": 1_000_000, "opus": 1_000_000}

# So much of a window the engine keeps free: beyond that it compacts.
_KEPT_FREE = 33_000


def fitting_model(wanted: str, context: int) -> str:
    """The model that is wanted, or the next larger one if a history of `context` is too long."""
    size = next((name for name in _WINDOWS if name in wanted.lower()), None)
    if size is None or context <= _WINDOWS[size] - _KEPT_FREE:
        return wanted
    names = list(_WINDOWS)
    larger = (name for name in names[names.index(size) + 1 :] if _WINDOWS[name] > _WINDOWS[size])
    return next(larger, wanted)

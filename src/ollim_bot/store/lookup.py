"""What is imported when it is first used, so that a command loads only what it asks for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any


@cache
def look_up(place: str) -> Any:
    """What a place such as `domain.chat:ChatMessage` of this package names."""
    module, _, name = place.partition(":")
    return attrgetter(name)(import_module(f"ollim_bot.{module}"))

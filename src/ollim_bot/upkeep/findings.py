"""What a check found, how bad that is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """`next` is the step to take, which everything but a PASS has."""

    level: Level
    name: str
    detail: str
    next: str = ""


def passed(name: str, detail: str) -> Finding:
    return Finding(Level.PASS, name, detail)


def warned(name: str, detail: str, step: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(Level.WARN, name, detail, step)


def failed(name: str, detail: str, step: str) -> Finding:
    """Something does not work, or will not."""
    return Finding(Level.FAIL, name, detail, step)


def counted(number: int, noun: str) -> str:
    """`1 routine`, `2 routines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""What the checker finds: something is missing and may still come, or something is wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`is_final` says that waiting changes nothing."""

    sentence: str
    is_final: bool

    def __str__(self) -> str:
        return self.sentence


def missing(sentence: str) -> Finding:
    """Something that may still come."""
    return Finding(sentence, is_final=False)


def wrong(sentence: str) -> Finding:
    """Something that waiting does not repair, unless the bot is repairing it right now."""
    return Finding(sentence, is_final=True)

"""What can be wrong: a thing that may still come, or one that can never be right again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    sentence: str
    is_final: bool

    def __str__(self) -> str:
        return self.sentence


def missing(sentence: str) -> Finding:
    """It may still come."""
    return Finding(sentence, is_final=False)


def wrong(sentence: str) -> Finding:
    """Waiting mends nothing, unless it is being mended at this moment."""
    return Finding(sentence, is_final=True)

"""Looks for fewer steps that break the same, within so many tries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from chaos.steps import SETTLE, Step

Breaks = Callable[[Sequence[Step]], Awaitable[bool]]


async def shrunk(steps: Sequence[Step], breaks: Breaks, tries: int) -> list[Step]:
    """Leaves out ever smaller parts, and what is left still broke when it was last played.

    The end comes first: what was played long before has the least to do with it.
    """
    best = list(steps)
    size = max(1, len(best) // 2)
    while tries > 0:
        start = 0
        while start < len(best) and tries > 0:
            fewer = _without(best, start, size)
            tries -= 1
            if fewer and await breaks(fewer):
                best = fewer
            else:
                start += size
        if size == 1:
            break
        size = max(1, size // 2)
    return best


def _without(steps: Sequence[Step], start: int, size: int) -> list[Step]:
    """And without looks at a rest in which nothing has happened."""
    left = [*steps[:start], *steps[start + size :]]
    pairs = zip([Step(SETTLE), *left], left, strict=False)
    return [step for before, step in pairs if not before.name == step.name == SETTLE]

"""The search for fewer steps that still break something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from chaos.steps import SETTLE, Step

Breaks = Callable[[Sequence[Step]], Awaitable[bool]]


async def shrunk(steps: Sequence[Step], breaks: Breaks, tries: int) -> list[Step]:
    """Leave out ever smaller parts, as long as the rest still breaks, in at most `tries` runs.

    The earliest steps are left out first: they are the least likely to have broken anything.
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
    """Also leaves out each `SETTLE` that would follow another one."""
    left = [*steps[:start], *steps[start + size :]]
    pairs = zip([Step(SETTLE), *left], left, strict=False)
    return [step for before, step in pairs if not before.name == step.name == SETTLE]

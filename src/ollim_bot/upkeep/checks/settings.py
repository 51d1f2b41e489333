"""Whether all that is set is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ollim_bot.upkeep.findings import Finding, failed, passed, warned

NAME = "environment"
_MEND = "Set it right there and start the bot again."


def environment(problems: Sequence[str], warnings: Sequence[str]) -> Iterator[Finding]:
    """`problems` keep the bot from starting. All are sentences with the place and what is right."""
    for problem in problems:
        yield failed(NAME, problem, _MEND)
    for warning in warnings:
        yield warned(NAME, warning, _MEND)
    if not problems and not warnings:
        yield passed(NAME, "all settings are right")

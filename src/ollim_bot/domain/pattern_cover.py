"""Whether one pattern for calls of tools allows all that another one allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ollim_bot.domain.globs import covers, fits_words
from ollim_bot.domain.tool_policy import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    WORD_ARGUMENTS,
    Pattern,
    from_root,
    problems,
)

_ANY_NUMBER = " "


def is_covered(pattern: Pattern, by: Iterable[Pattern]) -> bool:
    """Whether one of several allows every call that `pattern` allows; False where it is unclear.

    What several allow only together counts as unclear, and so do paths of more than one line.
    """
    return any(_covers(wider, pattern) for wider in by)


def beyond_main(patterns: Iterable[str], allowed: Sequence[Pattern]) -> Iterator[str]:
    """What is wrong with each pattern that the agent gives a job, in sentences.

    `allowed` is what the conversation itself may use: what the agent allows a job goes no further.
    """
    for text in patterns:
        errors = problems(text).errors
        yield from errors
        if not errors and not is_covered(Pattern.of(text), allowed):
            yield _goes_beyond(Pattern.of(text), allowed)


def _goes_beyond(pattern: Pattern, allowed: Sequence[Pattern]) -> str:
    near = [f"`{each}`" for each in allowed if each.names(pattern.tool)]
    instead = f"Allowed: {', '.join(near)}, or less" if near else "Leave it out"
    return (
        f"`{pattern}` goes beyond what the conversation itself may use. {instead}; only the owner "
        "can add more, by hand."
    )


def _covers(wider: Pattern, narrower: Pattern) -> bool:
    if wider == narrower:
        return True
    if not wider.names(narrower.tool.removesuffix("*")) or _is_wider_name(narrower, wider):
        return False
    if wider.argument is None:
        return narrower.tool != "Bash"
    return narrower.argument is not None and _covers_argument(
        narrower.tool, wider.argument, narrower.argument
    )


def _is_wider_name(pattern: Pattern, than: Pattern) -> bool:
    return pattern.tool.endswith("*") and not than.tool.endswith("*")


def _covers_argument(tool: str, wider: str, narrower: str) -> bool:
    if tool == "Bash" or tool in WORD_ARGUMENTS:
        return _covers_words(wider.split(), narrower.split())
    if tool in FILE_ARGUMENTS or tool in SEARCH_ARGUMENTS:
        return _covers_glob(from_root(wider), from_root(narrower))
    return _covers_glob(wider, narrower)


def _covers_words(wider: Sequence[str], narrower: Sequence[str]) -> bool:
    """A part that stands for any number of words is covered only by another such part."""
    last = len(narrower) - 1
    marked = [
        _ANY_NUMBER if word == "**" or (word == "*" and at == last) else word
        for at, word in enumerate(narrower)
    ]
    return fits_words(
        wider, marked, lambda one, other: other != _ANY_NUMBER and _covers_glob(one, other)
    )


def _covers_glob(wider: str, narrower: str) -> bool:
    leaves = ".." in narrower.split("/")
    return wider == narrower or (not leaves and covers(wider, narrower))

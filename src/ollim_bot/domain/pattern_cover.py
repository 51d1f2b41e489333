"""Whether one pattern for calls of tools allows all that another one allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ollim_bot.domain.globs import covers
from ollim_bot.domain.tool_policy import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    WORD_ARGUMENTS,
    Pattern,
    from_root,
)


def is_covered(pattern: Pattern, by: Iterable[Pattern]) -> bool:
    """Whether one of several allows every call that `pattern` allows; False where it is unclear.

    What several allow only together counts as unclear, and so do paths of more than one line.
    """
    return any(_covers(wider, pattern) for wider in by)


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
    """A last `*` stands for all further words, and so does `**`; else each is one word for one."""
    if not wider:
        return not narrower
    first, others = wider[0], wider[1:]
    if first == "*" and not others:
        return True
    if first == "**":
        starts = range(len(narrower) + 1)
        return any(_covers_words(others, narrower[start:]) for start in starts)
    if not narrower or narrower[0] == "**" or narrower == ["*"]:
        return False
    return _covers_word(first, narrower[0]) and _covers_words(others, narrower[1:])


def _covers_word(wider: str, narrower: str) -> bool:
    # A word that is `*` alone also stands for words with globs of their own, which no other does.
    if narrower == "*":
        return wider == "*"
    return _covers_glob(wider, narrower)


def _covers_glob(wider: str, narrower: str) -> bool:
    leaves = ".." in narrower.split("/")
    return wider == narrower or (not leaves and covers(wider, narrower))

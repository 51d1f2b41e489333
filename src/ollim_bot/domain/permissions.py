"""What happens to a call that no pattern allows, and what its approval for good would allow."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto

from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.shell_words import Word, shell_words
from ollim_bot.domain.tool_policy import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    WRITING,
    Pattern,
    matches,
    problems,
    relative,
    searched,
    text_argument,
)

# What is longer can be said neither on a button nor in a list.
LONGEST_GRANT = 200

# Their second word says what they do. The words of all others may be files, or further programs.
_WITH_SUBCOMMANDS = frozenset(
    {"ollim-bot", "git", "gh", "hg", "brew", "cargo", "npm", "pip", "systemctl", "uv"}
)
# These run, or change, whatever comes after them.
_OPEN_ENDED = frozenset({"run", "exec", "x", "alias", "config"})
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_NAMED_BY: Mapping[str, tuple[str, str]] = {
    "Skill": ("skill", " *"),
    "Agent": ("subagent_type", ""),
    "Task": ("subagent_type", ""),
}
_SITE = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
_WILD = re.compile(r"[*?]")
_TOPS = ("", ".", "/")


class Verdict(Enum):
    REFUSE = auto()
    ASK = auto()
    LET_THROUGH = auto()


def verdict(mode: PermissionMode, tool: str) -> Verdict:
    """What a mode says to a call that no pattern allows."""
    if mode is PermissionMode.BYPASS:
        return Verdict.LET_THROUGH
    if mode is PermissionMode.ACCEPT_EDITS and tool in WRITING:
        return Verdict.LET_THROUGH
    return Verdict.REFUSE if mode is PermissionMode.DONT_ASK else Verdict.ASK


def is_allowed(
    patterns: Iterable[Pattern], tool: str, arguments: Mapping[str, object], *roots: str
) -> bool:
    """`roots` are all names of the folder that `./` stands for."""
    return any(matches(each, tool, arguments, root) for each in patterns for root in roots)


def grant_for(tool: str, arguments: Mapping[str, object], *roots: str) -> Pattern | None:
    """What is allowed from now on where a call is approved for good: what was asked, and its like.

    A command is known by its first words, a file by its folder, an address by its site, a search by
    where it looks, all else by the tool. None where that cannot be said in a pattern.
    """
    found = [grant for root in roots if (grant := _grant(tool, arguments, root)) is not None]
    # Below one of the roots, if there: the others see the same place from the top.
    found.sort(key=lambda grant: (grant.argument or "").startswith("/"))
    return found[0] if found else None


def _grant(tool: str, arguments: Mapping[str, object], root: str) -> Pattern | None:
    text = _text_of_grant(tool, arguments, root)
    is_plain = text.isprintable() and "`" not in text and len(text) <= LONGEST_GRANT
    found = problems(text)
    if not is_plain or found.errors or found.warnings:
        return None
    grant = Pattern.of(text)
    return grant if matches(grant, tool, arguments, root) else None


def _text_of_grant(tool: str, arguments: Mapping[str, object], root: str) -> str:
    """Empty where there is none."""
    if "*" in tool:
        return ""
    if tool == "Bash":
        return _scoped(tool, _first_words(shell_words(text_argument(arguments, "command")) or ()))
    if tool in FILE_ARGUMENTS:
        path = text_argument(arguments, FILE_ARGUMENTS[tool])
        return _scoped(tool, _folder(relative(path, root)) if path else "")
    if tool in SEARCH_ARGUMENTS:
        return _scoped(tool, _searched_folder(searched(tool, arguments, root)))
    if tool == "WebFetch":
        site = _SITE.match(text_argument(arguments, "url"))
        return _scoped(tool, f"{site[0]}/**" if site else "")
    if tool in _NAMED_BY and (name := text_argument(arguments, _NAMED_BY[tool][0])):
        return _scoped(tool, name + _NAMED_BY[tool][1] if _is_one_word(name) else "")
    return tool


def _scoped(tool: str, argument: str) -> str:
    return f"{tool}({argument})" if argument else ""


def _first_words(words: tuple[Word, ...]) -> str:
    """Program and subcommand where there is one; else the whole command and nothing but it."""
    first = [word.text for word in words[:2]]
    if len(first) == 2 and first[0] in _WITH_SUBCOMMANDS and _is_subcommand(first[1]):
        return f"{first[0]} {first[1]} *"
    texts = [word.text for word in words]
    return " ".join(texts) if all(map(_is_one_word, texts)) else ""


def _is_subcommand(word: str) -> bool:
    return _SUBCOMMAND.fullmatch(word) is not None and word not in _OPEN_ENDED


def _folder(path: str) -> str:
    """All that is below the folder of a file; a file at the top stands for itself."""
    folder = posixpath.dirname(path)
    whole = path if folder in _TOPS else f"{folder}/**"
    return "" if _WILD.search(path) else whole


def _searched_folder(glob: str) -> str:
    """Where a search begins; one that begins at the top, or at one place, stands for itself."""
    if not _WILD.search(glob):
        return glob
    folder = posixpath.dirname(_WILD.split(glob)[0])
    return glob if folder in _TOPS else f"{folder}/**"


def _is_one_word(text: str) -> bool:
    """Whether it stands in a pattern for nothing but itself."""
    return bool(text) and " " not in text and not _WILD.search(text)

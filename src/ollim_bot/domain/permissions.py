"""Which tool calls the policy allows, and the narrowest grant for one call."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

from ollim_bot.domain.globs import covers, fits_words
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.shell_words import shell_words
from ollim_bot.domain.tool_patterns import WRITING, problems
from ollim_bot.domain.tool_policy import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    WORD_ARGUMENTS,
    Pattern,
    from_root,
    matches,
    relative,
    searched,
    text_argument,
)

_ANY_NUMBER = " "
# A longer grant fits neither a button nor a list.
LONGEST_GRANT = 200
# Programs, or programs with their first words, that with any arguments change nothing, open no file
# and start no other program. For all others only the exact command is offered.
_HARMLESS = (
    *(("ollim-bot", noun) for noun in ("help", "version", "runs", "rehearse", "doses")),
    *(("ollim-bot", noun, "list") for noun in (*JobKind, "tasks", "skill")),
    *((program,) for program in ("cal", "echo", "nproc", "pwd", "uname", "uptime", "whoami")),
)
_NAMED_BY: Mapping[str, tuple[str, str]] = {
    "Skill": ("skill", " *"),
    "Agent": ("subagent_type", ""),
    "Task": ("subagent_type", ""),
}
_SITE = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
_WILD = re.compile(r"[*?]")
_TOPS = ("", ".", "/")


def is_covered(pattern: Pattern, by: Iterable[Pattern]) -> bool:
    """Whether a single pattern of `by` allows every call that `pattern` allows.

    False where that is unclear: calls that several patterns allow only together, and paths of more
    than one line.
    """
    return any(_covers(wider, pattern) for wider in by)


def beyond_main(patterns: Iterable[str], allowed: Sequence[Pattern]) -> Iterator[str]:
    """A sentence for each wrong pattern that the agent gives a job.

    `allowed` is what the conversation itself may use; the agent cannot allow a job more than that.
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
    """A part that matches any number of words is covered only by another such part."""
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


class Verdict(Enum):
    REFUSE = auto()
    ASK = auto()
    LET_THROUGH = auto()


def verdict(mode: PermissionMode, tool: str) -> Verdict:
    """The decision of a mode about a call that no pattern allows."""
    if mode is PermissionMode.BYPASS:
        return Verdict.LET_THROUGH
    if mode is PermissionMode.ACCEPT_EDITS and tool in WRITING:
        return Verdict.LET_THROUGH
    return Verdict.REFUSE if mode is PermissionMode.DONT_ASK else Verdict.ASK


def is_allowed(
    patterns: Iterable[Pattern], tool: str, arguments: Mapping[str, object], *roots: str
) -> bool:
    """Whether a pattern allows the call; `roots` are all names of the folder that `./` means."""
    return any(matches(each, tool, arguments, root) for each in patterns for root in roots)


def grant_for(tool: str, arguments: Mapping[str, object], *roots: str) -> Pattern | None:
    """The pattern to allow from now on when a call is approved for good.

    A command grants itself, or its program if that is harmless with any arguments. A file grants
    its folder, an address its site, a search the place it searches, any other call the tool. None
    where no pattern can express that.
    """
    found = [grant for root in roots if (grant := _grant(tool, arguments, root)) is not None]
    # A pattern below one of the roots first: the other roots give an absolute path.
    found.sort(key=lambda grant: (grant.argument or "").startswith("/"))
    return found[0] if found else None


def in_words(grant: Pattern) -> str:
    """What a grant allows, for the person who is asked for it."""
    tool, argument = grant.tool, grant.argument
    if argument is None:
        return "any use of it"
    if tool == "Bash":
        known = argument.removesuffix(" *")
        return "exactly this command" if known == argument else f"`{known}` with any arguments"
    if tool == "WebFetch":
        return "every page of this site"
    if not argument.endswith("/**"):
        return "this and nothing else"
    return "every file below this folder"


def _grant(tool: str, arguments: Mapping[str, object], root: str) -> Pattern | None:
    text = _text_of_grant(tool, arguments, root)
    is_plain = text.isprintable() and "`" not in text and len(text) <= LONGEST_GRANT
    found = problems(text)
    if not is_plain or found.errors or found.warnings:
        return None
    grant = Pattern.of(text)
    return grant if matches(grant, tool, arguments, root) else None


def _text_of_grant(tool: str, arguments: Mapping[str, object], root: str) -> str:
    """The text of the grant; empty if no pattern can express it."""
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


def _first_words(words: Sequence[str]) -> str:
    """A harmless program with any arguments, else exactly the whole command."""
    for known in _HARMLESS:
        if tuple(words[: len(known)]) == known:
            return f"{' '.join(known)} *"
    return " ".join(words) if all(map(_is_one_word, words)) else ""


def _folder(path: str) -> str:
    """Everything below the folder of a file; a file at the top grants only itself."""
    folder = posixpath.dirname(path)
    whole = path if folder in _TOPS else f"{folder}/**"
    return "" if _WILD.search(path) else whole


def _searched_folder(glob: str) -> str:
    """The folder where a search begins; a search at the top, or of one file, grants itself."""
    if not _WILD.search(glob):
        return glob
    folder = posixpath.dirname(_WILD.split(glob)[0])
    return glob if folder in _TOPS else f"{folder}/**"


def _is_one_word(text: str) -> bool:
    """Whether a pattern with this text matches only this text."""
    return bool(text) and " " not in text and not _WILD.search(text)

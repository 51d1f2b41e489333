"""What the engine's own tools do in a careful session, where that depends on the call."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.permissions.path_rules import is_within, job_files, profile_files
from ollim_bot.kernel.values.agent_caller import (
    LOOKS,
    MARKED,
    PROGRAM,
    Does,
    Effect,
    asks,
    effect_of,
    read_command_line,
    shell_words,
)
from ollim_bot.kernel.values.permissions import FILE_ARGUMENTS, Pattern, matches, relative
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.taint import OTHERS
from ollim_bot.kernel.values.tool_patterns import text_argument

MOST_SEARCHES = 10
LONGEST_SEARCH = 200

# What a file changes later, by its first name below the data directory.
_LASTING: Mapping[str, str] = {
    "identity.md": "change the profile",
    "user.md": "change the profile",
    **{job.plural: f"change a {job}" for job in JobKind},
    "skills": "change a skill",
    "tasks.md": "change the tasks",
}
_INTO_OTHERS = (
    f"Write it as a new note in `{OTHERS}/`, or ask the owner to say so in a message of their own."
)
_OWN_WORDS = "Ask the owner to give the address in a message of their own."
_SITE = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/|$)")


# Whether the note at the path was made by the session, which was careful then.
IsOwn = Callable[[str, SessionId | None], bool]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides beside the call itself; `allowed` are the patterns of a background run."""

    root: Path
    run: Run
    allowed: Sequence[Pattern]
    is_own: IsOwn


Rule = Does | Callable[[ToolCall, Surroundings], Does]


def writing(call: ToolCall, at: Surroundings) -> Does:
    """A new note among those of careful sessions is marked, and so is a change of one of these."""
    path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
    behind = (*job_files(at.root, path), *profile_files(at.root, path))
    names = [*names_below(at.root, path), *map(str, behind)]
    is_note = all(name.startswith(f"{OTHERS}/") and name.endswith(".md") for name in names)
    is_new = call.tool == "Write" and not os.path.lexists(at.root / path)
    if is_note and (is_new or at.is_own(path, at.run.session)):
        return MARKED._replace(step=names[0])
    # A folder can be called `user.md`, too.
    tops = (re.sub(r"(?<!\.md)/.*", "", name.casefold()) for name in names)
    lasting = filter(None, map(_LASTING.get, tops))
    return next(map(asks, lasting), asks("write a file of the owner's", _INTO_OTHERS))


def running(call: ToolCall, _: Surroundings) -> Does:
    """A command of ours does what it declares; any other program asks."""
    words = shell_words(text_argument(call.arguments, "command")) or ("",)
    does = effect_of(read_command_line(words[1:])) if words[0] == PROGRAM else asks("run a program")
    # A guard refuses the commands that are the owner's alone; this rule closes what it misses.
    return asks("run this command") if does.effect is Effect.OWNERS else does


def fetching(call: ToolCall, at: Surroundings) -> Does:
    """An address can give data away: the owner, a search or the job must have named it."""
    sites = (each for each in at.allowed if _SITE.match(each.argument or ""))
    is_named = at.run.taint.names(text_argument(call.arguments, "url"))
    if is_named or any(matches(each, "WebFetch", call.arguments, "") for each in sites):
        return LOOKS
    return asks("fetch an address that the owner did not type", _OWN_WORDS)


def searching(call: ToolCall, _: Surroundings) -> Does:
    """A query reaches the search provider, so it is short, and shown whole."""
    if len(text_argument(call.arguments, "query")) > LONGEST_SEARCH:
        return asks("search for so many words", f"Use at most {LONGEST_SEARCH} characters.")
    return LOOKS._replace(
        wanted=f"search more than {MOST_SEARCHES} times", step="search", limit=MOST_SEARCHES
    )


def names_below(root: Path, path: str) -> Iterator[str]:
    """The path relative to the data directory, with links followed and as written."""
    real, home = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    yield posixpath.relpath(real, home) if is_within(real, home) else real
    written = (relative(path, each) for each in (str(root), home))
    yield from (name.removeprefix("./") for name in written if not name.startswith("/"))

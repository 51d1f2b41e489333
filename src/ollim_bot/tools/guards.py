"""Guards: what no pattern can allow. Each may give a reason to refuse a call."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from ollim_bot.agent import ToolCall
from ollim_bot.domain.agent_caller import (
    PROGRAM,
    for_the_owner_alone,
    hidden_owners_command,
    owners_command,
)
from ollim_bot.domain.shell_words import shell_words
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, SEARCH_ARGUMENTS, WRITING, text_argument
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import Resolver, address_problem
from ollim_bot.tools.reach import LONGEST_PATH, Reach
from ollim_bot.tools.skills import skill_guard

# Gives a reason to refuse a call, or None. It reads files, so it is asked in a thread.
Guard = Callable[[ToolCall], str | None]

# What tools that are not known here may call a path of theirs.
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "directory", "folder", "cwd")

_SUBAGENTS = frozenset({"Agent", "Task"})
# To look at one takes a tenth of a millisecond.
_MOST_PATHS = 2000
_LEAVING = frozenset({"cd", "pushd", "popd"})
# These begin where they are run if no path is named, and which word is one cannot be told.
_GOING_DOWN = {
    "rgrep": re.compile(""),
    "ls": re.compile(r"-[A-Za-z0-9]*R|--rec"),
    **dict.fromkeys(
        ("grep", "egrep", "fgrep", "zgrep"), re.compile(r"-[A-Za-z0-9]*[rRd]|--(?:rec|der|dir)")
    ),
}
_ADDRESS = re.compile(r"\bhttps?://[^\s'\"]*")
_BETWEEN_PATHS = re.compile(r"[\s=,:@;|&<>()'\"`$]+")


def state_dir_guard(call: ToolCall, reach: Reach) -> str | None:
    """Keeps the agent to the data directory, and out of what in it is the program's own."""
    return _of_paths(call, reach) or skill_guard(call, reach.root) or _of_subagent(call)


def _of_paths(call: ToolCall, reach: Reach) -> str | None:
    if call.tool == "Bash":
        return _of_command(text_argument(call.arguments, "command"), reach)
    if call.tool in SEARCH_ARGUMENTS:
        where = text_argument(call.arguments, "path")
        looked_for = text_argument(call.arguments, SEARCH_ARGUMENTS[call.tool])
        return reach.to_search(where, looked_for, begins_at_glob=call.tool == "Glob")
    if call.tool in FILE_ARGUMENTS:
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        return reach.to_write(path) if call.tool in WRITING else reach.to_read(path)
    named = (
        text_argument(call.arguments, name) for name in _PATH_ARGUMENTS if name in call.arguments
    )
    return next(filter(None, map(reach.to_write, named)), None)


def address_guard(call: ToolCall, resolver: Resolver) -> str | None:
    """Keeps what is fetched from the web to the web."""
    if call.tool != "WebFetch":
        return None
    return address_problem(text_argument(call.arguments, "url"), resolver)


def _of_subagent(call: ToolCall) -> str | None:
    """With `isolation`, git would copy the folder to where nothing else is written."""
    is_apart = call.tool in _SUBAGENTS and bool(call.arguments.get("isolation"))
    return texts.SAME_FOLDER if is_apart else None


def _of_command(command: str, reach: Reach) -> str | None:
    words = shell_words(command)
    if not words:
        return texts.UNCLEAR_COMMAND
    program, others = words[0], words[1:]
    if program in _LEAVING:
        return texts.STAYS_HERE
    if program == PROGRAM:
        return _of_our_command(others, reach)
    if owners := hidden_owners_command(words):
        return for_the_owner_alone(owners)
    named = list(dict.fromkeys(path for word in words for path in _paths(word)))
    # A program may shorten such a path to one that it can open.
    if any("/" in path and len(path) > LONGEST_PATH for path in named):
        return texts.TOO_MUCH
    # Some programs can be told to begin elsewhere, and their paths then begin there too.
    starts = ["", *(path for path in named if os.path.isdir(os.path.join(reach.root, path)))]
    if len(starts) * len(named) > _MOST_PATHS:
        return texts.TOO_MUCH
    paths = [os.path.join(start, path) for start in starts for path in named]
    handed_over = [path for path in paths if path != program]
    reason = reach.to_name(paths) or reach.to_hand_over(handed_over)
    return reason or (texts.REACHES_TOO_FAR if _goes_down(words) else None)


def _of_our_command(words: Sequence[str], reach: Reach) -> str | None:
    """Our own commands take texts, in which `state` is a word: only a whole one may be a path."""
    if owners := owners_command(words):
        return for_the_owner_alone(owners)
    whole = (*words, *(word.partition("=")[2] for word in words if word.startswith("-")))
    named = (word for word in whole if "/" in word or word.startswith("."))
    return reach.to_name([word for word in named if len(word) <= LONGEST_PATH])


def _goes_down(words: Sequence[str]) -> bool:
    """Whether a program looks at everything below where it is run."""
    flag = _GOING_DOWN.get(posixpath.basename(words[0]))
    return flag is not None and any(flag.match(word) for word in words)


def _paths(word: str) -> Iterator[str]:
    """Every part of a word that may be a path."""
    parts = [word, word[2:] if word.startswith("-") else ""]
    yield from filter(None, [*parts, *_BETWEEN_PATHS.split(_ADDRESS.sub(" ", word))])

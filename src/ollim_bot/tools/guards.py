"""Guards: what no pattern can allow. Each may give a reason to refuse a call."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping

from ollim_bot.agent import ToolCall
from ollim_bot.domain.shell_words import Word, shell_words
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, SEARCH_ARGUMENTS, WRITING
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import Resolver, address_problem
from ollim_bot.tools.reach import Reach

# What tools that are not known here may call a path of theirs.
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "directory", "folder", "cwd")

_OURS = "ollim-bot"
_LEAVING = frozenset({"cd", "pushd", "popd"})
_BETWEEN_PATHS = re.compile(r"[\s=,:@;|&<>()'\"`$]+")


def state_dir_guard(call: ToolCall, reach: Reach) -> str | None:
    """Keeps the agent to the data directory, and out of what in it is the program's own."""
    if call.tool == "Bash":
        return _of_command(_text(call.arguments, "command"), reach)
    if call.tool in SEARCH_ARGUMENTS:
        where = _text(call.arguments, "path")
        looked_for = _text(call.arguments, SEARCH_ARGUMENTS[call.tool])
        return reach.to_search(where, looked_for, begins_at_glob=call.tool == "Glob")
    if call.tool in FILE_ARGUMENTS:
        path = _text(call.arguments, FILE_ARGUMENTS[call.tool])
        return reach.to_write(path) if call.tool in WRITING else reach.to_read(path)
    named = (_text(call.arguments, name) for name in _PATH_ARGUMENTS if name in call.arguments)
    return next(filter(None, map(reach.to_write, named)), None)


def address_guard(call: ToolCall, resolver: Resolver) -> str | None:
    """Keeps what is fetched from the web to the web."""
    if call.tool != "WebFetch":
        return None
    return address_problem(_text(call.arguments, "url"), resolver)


def _of_command(command: str, reach: Reach) -> str | None:
    words = shell_words(command)
    if not words:
        return texts.UNCLEAR_COMMAND
    program = words[0].text
    if program in _LEAVING:
        return texts.STAYS_HERE
    is_ours = program == _OURS
    for word in words:
        for path in _paths(word, reach, is_ours=is_ours):
            if reason := reach.to_name(path, as_a_whole=not is_ours):
                return reason
    return None


def _paths(word: Word, reach: Reach, *, is_ours: bool) -> Iterator[str]:
    """Whatever in a word may be a path. Our own commands take texts, in which `state` is a word."""
    parts = [word.text, *_BETWEEN_PATHS.split(word.text)]
    if word.text.startswith("-"):
        parts.append(word.text[2:])
    if word.has_glob:
        parts += glob.glob(word.text, root_dir=reach.root)
    for part in parts:
        if part and (not is_ours or "/" in part or part.startswith(".")):
            yield part


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name, "")
    return value if isinstance(value, str) else ""

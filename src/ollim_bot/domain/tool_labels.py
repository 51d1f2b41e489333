"""What a surface calls the use of a tool: `Read(notes/today.md)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ollim_bot.domain.shortening import shortened

_LONGEST_NAME = 60
_LONGEST_ARGUMENT = 50
_NOTHING: Mapping[str, object] = {}


def tool_label(tool: str, arguments: Mapping[str, object] = _NOTHING) -> str:
    """One line of at most 112 characters, whatever the model sent."""
    name = _short(_without_server(tool), _LONGEST_NAME)
    for argument, shown in _SHOWN.items():
        value = arguments.get(argument)
        if isinstance(value, str) and (text := _short(shown(value), _LONGEST_ARGUMENT)):
            return f"{name}({text})"
    return name


def _without_server(tool: str) -> str:
    """`ping_user` of `mcp__discord__ping_user`."""
    if not tool.startswith("mcp__"):
        return tool
    return tool.removeprefix("mcp__").partition("__")[2] or tool


def _last_two_parts(path: str) -> str:
    return "/".join([part for part in path.split("/") if part][-2:]) or path


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _short(text: str, longest: int) -> str:
    printable = "".join(each if each.isprintable() else " " for each in text[: 4 * longest])
    return shortened(" ".join(printable.split()), longest)


# The first of these that a call has is the one that says most about it.
_SHOWN: Mapping[str, Callable[[str], str]] = {
    "file_path": _last_two_parts,
    "notebook_path": _last_two_parts,
    "command": _first_line,
    "pattern": _first_line,
    "url": _first_line,
    "query": _first_line,
    "path": _last_two_parts,
    "description": _first_line,
    "skill": _first_line,
}

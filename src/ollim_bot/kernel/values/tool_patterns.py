"""The written form of the patterns of allowed tool calls, and what is wrong with one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_NEVER_WRITTEN = frozenset({"state", "tool-policy.yaml", ".claude", "mcp.json"})
_SKILL_ORIGINS = "skills/skills.lock"

# The servers of the program itself; every other server is the owner's.
OWN_SERVERS = frozenset({"discord", "docs"})
# Of the tools of one server, in a sentence.
_MOST_NAMED = 12

# More than any real pattern needs. The time of matching grows with these.
LONGEST_PATTERN = 500
MOST_WILDCARDS = 8

# Programs whose arguments can name another program to start.
_STARTS_OTHERS = frozenset(
    {
        *("ash", "awk", "bash", "bun", "busybox", "cargo", "chroot", "dash", "deno", "docker"),
        *("doas", "ed", "emacs", "env", "eval", "exec", "expect", "find", "fish", "flock", "gawk"),
        *("gdb", "gh", "git", "go", "hg", "ionice", "java", "ksh", "less", "lua", "make", "man"),
        *("mawk", "more", "nano", "nice", "node", "nohup", "npm", "npx", "parallel", "perl"),
        *("php", "pip", "pipx", "podman", "psql", "python", "python3", "rsync", "ruby", "scp"),
        *("screen", "script", "sed", "setsid", "sftp", "sh", "socat", "sqlite3", "ssh", "stdbuf"),
        *("strace", "su", "sudo", "systemctl", "systemd-run", "tar", "tclsh", "time", "timeout"),
        *("tmux", "uv", "uvx", "vi", "view", "vim", "watch", "xargs", "zip", "zsh"),
    }
)

# Compiled when they are first used: every command loads them, and few use them.
_FORM = r"(?s)(?P<tool>[^\s()]+)(?:\((?P<argument>.*)\))?"
_TOOL = r"[A-Za-z]\w*"
_SERVER_TOOL = r"mcp__[\w-]+?__(?:[\w-]+\*?|\*)"
_FULL_NAME = r"mcp__(?P<server>.+?)__.+"
_NOT_ONE_COMMAND = r"[;&|`<>\n]|\$\("
_ANYTHING = r"[*\s]+"
_WILDCARD = r"\*+|\?"
_ONLY_WILD = r"[.*?]*"


class Problems(NamedTuple):
    """`errors` make a pattern unusable; `warnings` are for the owner to know."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def problems(text: str) -> Problems:
    """Check a pattern; each problem is a sentence."""
    pattern = text.strip()
    if not pattern:
        return Problems(("A pattern is empty. Name a tool, such as `Read(./**.md)`.",))
    if len(pattern) > LONGEST_PATTERN:
        long = f"`{pattern[:40]}…` is longer than {LONGEST_PATTERN} characters. Name less in one."
        return Problems((long,))
    if len(re.findall(_WILDCARD, pattern)) > MOST_WILDCARDS:
        wild = f"`{pattern}` has more than {MOST_WILDCARDS} wildcards. Name what is meant."
        return Problems((wild,))
    form = re.fullmatch(_FORM, pattern)
    if form is None or form["argument"] == "":
        return Problems((f"`{pattern}` is not written like `Tool` or `Tool(argument)`.",))
    tool, argument = form["tool"], form["argument"]
    errors = [*_wrong_name(pattern, tool, argument), *_too_wide(pattern, tool, argument)]
    if tool in WRITING and argument is not None and _names_protected(argument):
        errors.append(f"`{pattern}` is not possible: the agent never writes there.")
    return Problems(tuple(errors), () if errors else tuple(_gives_away(pattern, tool, argument)))


def parts_of(text: str) -> tuple[str, str | None]:
    """The tool and the argument of a pattern that has no errors."""
    form = re.fullmatch(_FORM, text.strip())
    assert form is not None
    return form["tool"], form["argument"]


def server_of(tool: str) -> str | None:
    """The owner's server that `mcp__server__tool` belongs to; None for every other tool."""
    name = re.fullmatch(_FULL_NAME, tool)
    return None if name is None or name["server"] in OWN_SERVERS else name["server"]


def is_open(pattern: str) -> bool:
    """Whether a pattern leaves open which tools of an owner's server it means.

    In the background it allows nothing, since a server can come to offer more.
    """
    return pattern.strip().endswith("*") and server_of(pattern.strip()) is not None


def open_problem(pattern: str, known: Iterable[str] = ()) -> str:
    """What to write instead of a pattern that `is_open`; `known` may name tools of the server."""
    written = pattern.strip()
    names = [f"`{each}`" for each in known if each.startswith(written[:-1]) and "*" not in each]
    more = f" or another of its {len(names)} tools" if len(names) > _MOST_NAMED else ""
    server = server_of(written)
    instead = ", ".join(names[:_MOST_NAMED]) + more or (
        f"`mcp__{server}__` with a name that `ollim-bot mcp list {server}` shows"
    )
    return f"`{written}` allows a background run nothing, since it names no tool. Write {instead}."


def _gives_away(pattern: str, tool: str, argument: str | None) -> Iterable[str]:
    if argument is None:
        return
    if tool != "Bash":
        if re.fullmatch(_ANYTHING, argument):
            yield f"`{pattern}` allows any argument, like `{tool}` alone. Say which ones are meant."
        return
    program = posixpath.basename(argument.split()[0])
    if program in _STARTS_OTHERS and re.search(_WILDCARD, argument):
        yield (
            f"`{pattern}` lets the agent run anything: `{program}` can start other programs. "
            "Write out the whole command."
        )


def _wrong_name(pattern: str, tool: str, argument: str | None) -> Iterable[str]:
    if tool.startswith("mcp__"):
        if not re.fullmatch(_SERVER_TOOL, tool):
            yield f"`{pattern}` names no server. Write `mcp__server__tool` or `mcp__server__*`."
        elif argument is not None:
            yield f"`{pattern}` has an argument, which the tools of a server cannot have here."
    elif not re.fullmatch(_TOOL, tool):
        yield f"`{pattern}` begins with no name of a tool, such as `Read` or `Bash`."


def _too_wide(pattern: str, tool: str, argument: str | None) -> Iterable[str]:
    if tool != "Bash":
        return
    if argument is None or re.fullmatch(_ANYTHING, argument):
        yield f"`{pattern}` would allow every command. Name one, such as `Bash(ollim-bot help)`."
    elif re.search(_NOT_ONE_COMMAND, argument):
        yield (
            f"`{pattern}` is more than one plain command: "
            "leave out ; & | < > backticks, $( and line breaks."
        )
    elif re.search(r"[*?]", argument.split()[0]):
        yield f"`{pattern}` leaves open which program is run. Write its name out."


def _names_protected(argument: str) -> bool:
    """Whether the path names a protected file at the top, or below wildcards that may match it."""
    if argument.casefold().removeprefix("./") == _SKILL_ORIGINS:
        return True
    is_absolute = argument.startswith(("/", "~"))
    for part in argument.casefold().split("/"):
        if part.rstrip("*?") in _NEVER_WRITTEN or part.startswith(".env"):
            return True
        if not is_absolute and not re.fullmatch(_ONLY_WILD, part):
            return False
    return False


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """The argument if it is a text, else empty."""
    value = arguments.get(name, "")
    return value if isinstance(value, str) else ""

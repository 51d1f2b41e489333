"""Patterns of allowed tool calls: `Tool`, `Tool(argument glob)`, `mcp__server__*`.

A pattern allows a call only if it certainly covers all of it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ollim_bot.domain.globs import covers, fits, fits_words
from ollim_bot.domain.shell_words import LONGEST_COMMAND, shell_words
from ollim_bot.errors import WrongInput

# The argument that a pattern is compared with: a path, or the glob of a search.
FILE_ARGUMENTS: Mapping[str, str] = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
SEARCH_ARGUMENTS: Mapping[str, str] = {"Glob": "pattern", "Grep": "glob"}
_NEVER_WRITTEN = frozenset({"state", "tool-policy.yaml", ".claude", "mcp.json"})
_SKILL_ORIGINS = "skills/skills.lock"
WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})

WORD_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "Skill": ("skill", "args"),
    "Agent": ("subagent_type",),
    "Task": ("subagent_type",),
    "WebSearch": ("query",),
}

# More than any real pattern needs. The time of matching grows with these.
LONGEST_PATTERN = 500
MOST_WILDCARDS = 8

# The servers of the program itself; every other server is the owner's.
OWN_SERVERS = frozenset({"discord", "docs"})

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
_FULL_NAME = r"mcp__(?P<server>.+?)__.+"
_SERVER_TOOL = r"mcp__[\w-]+?__(?:[\w-]+\*?|\*)"
_NOT_ONE_COMMAND = r"[;&|`<>\n]|\$\("
_ANYTHING = r"[*\s]+"
_WILDCARD = r"\*+|\?"
_ONLY_WILD = r"[.*?]*"
_PLAIN_HOST = r"https?://[A-Za-z0-9.:\[\]-]+(?:/|$)"


@dataclass(frozen=True, slots=True)
class Problems:
    """`errors` make a pattern unusable; `warnings` are for the owner to know."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """`argument` is None if the pattern allows every call of the tool."""

    tool: str
    argument: str | None = None

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Raises `WrongInput` with all errors of the text."""
        if errors := problems(text).errors:
            raise WrongInput("\n".join(errors))
        form = re.fullmatch(_FORM, text.strip())
        assert form is not None
        return cls(form["tool"], form["argument"])

    def __str__(self) -> str:
        return self.tool if self.argument is None else f"{self.tool}({self.argument})"

    def names(self, tool: str) -> bool:
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool == self.tool


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What the owner allows in addition to the defaults; `background_instead` replaces them."""

    main_more: tuple[str, ...] = ()
    background_more: tuple[str, ...] = ()
    background_instead: tuple[str, ...] | None = None

    def main(self, defaults: tuple[str, ...]) -> tuple[str, ...]:
        return (*defaults, *self.main_more)

    def background(self, defaults: tuple[str, ...]) -> tuple[str, ...]:
        usual = defaults if self.background_instead is None else self.background_instead
        return (*usual, *self.background_more)


def server_of(tool: str) -> str | None:
    """The owner's server that `mcp__server__tool` belongs to; None for every other tool."""
    name = re.fullmatch(_FULL_NAME, tool)
    return None if name is None or name["server"] in OWN_SERVERS else name["server"]


def source_of(tool: str) -> str | None:
    """The untrusted source that a call of a tool of the owner's servers reads, else None.

    `result of the tool server notes`, to stand after “a”.
    """
    server = server_of(tool)
    return None if server is None else f"result of the tool server {server}"


def problems(text: str) -> Problems:
    """Check a pattern; each problem is a sentence."""
    pattern = text.strip()
    if not pattern:
        return Problems(("A pattern is empty. Name a tool, such as `Read(./**.md)`.",))
    if too_much := _too_much(pattern):
        return Problems((too_much,))
    form = re.fullmatch(_FORM, pattern)
    if form is None or form["argument"] == "":
        return Problems((f"`{pattern}` is not written like `Tool` or `Tool(argument)`.",))
    tool, argument = form["tool"], form["argument"]
    errors = [*_wrong_name(pattern, tool, argument), *_too_wide(pattern, tool, argument)]
    if tool in WRITING and argument is not None and _names_protected(argument):
        errors.append(f"`{pattern}` is not possible: the agent never writes there.")
    return Problems(tuple(errors), () if errors else tuple(_gives_away(pattern, tool, argument)))


def _too_much(pattern: str) -> str | None:
    if len(pattern) > LONGEST_PATTERN:
        return f"`{pattern[:40]}…` is longer than {LONGEST_PATTERN} characters. Name less in one."
    if len(re.findall(_WILDCARD, pattern)) > MOST_WILDCARDS:
        return f"`{pattern}` has more than {MOST_WILDCARDS} wildcards. Name what is meant."
    return None


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


def matches(pattern: Pattern, tool: str, arguments: Mapping[str, object], root: str) -> bool:
    """Whether a pattern allows a call; `root` is the folder that `./` stands for."""
    if not pattern.names(tool):
        return False
    if tool == "Bash":
        return _allows_command(pattern.argument or "", text_argument(arguments, "command"))
    if pattern.argument is None:
        return True
    return _allows_argument(pattern.argument, tool, arguments, root)


def _allows_argument(wanted: str, tool: str, arguments: Mapping[str, object], root: str) -> bool:
    if tool in FILE_ARGUMENTS:
        path = text_argument(arguments, FILE_ARGUMENTS[tool])
        return fits(from_root(wanted), relative(path, root))
    if tool in SEARCH_ARGUMENTS:
        return covers(from_root(wanted), searched(tool, arguments, root))
    if tool in WORD_ARGUMENTS:
        text = " ".join(text_argument(arguments, name) for name in WORD_ARGUMENTS[tool])
        return len(text) <= LONGEST_COMMAND and fits_words(wanted.split(), text.split())
    url = text_argument(arguments, "url") if tool == "WebFetch" else ""
    # A pattern for `b.example` must not match `https://a.example?.b.example/`.
    host = re.match(_PLAIN_HOST, url)
    if host is None:
        return False
    # An address without a path is the top page of its site.
    return fits(wanted, url) or (host[0] == url and fits(wanted, f"{url}/"))


def _allows_command(wanted: str, command: str) -> bool:
    words = shell_words(command) or ()
    return bool(words) and fits_words(wanted.split(), words)


def relative(path: str, root: str) -> str:
    """The path as patterns write it: `./notes/a.md` below the root, else absolute."""
    whole = "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")
    if whole == root:
        return "."
    inside = whole.removeprefix(f"{root.rstrip('/')}/")
    return whole if inside == whole else f"./{inside}"


def searched(tool: str, arguments: Mapping[str, object], root: str) -> str:
    """The glob of all files that a search may read; empty if that is unclear."""
    glob = text_argument(arguments, SEARCH_ARGUMENTS[tool])
    if ".." in glob.split("/"):
        return ""
    if tool == "Grep" and glob and "/" not in glob:
        # A name without a folder matches in all folders.
        glob = f"**/{glob}"
    where = posixpath.join(root, text_argument(arguments, "path"))
    return relative(posixpath.join(where, glob), root)


def from_root(glob: str) -> str:
    return glob if glob.startswith(("/", "./")) else f"./{glob}"


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """The argument if it is a text, else empty."""
    value = arguments.get(name, "")
    return value if isinstance(value, str) else ""

"""Which tool calls are allowed: the owner's policy, and the decision."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.agent_caller import LONGEST_COMMAND, shell_words
from ollim_bot.kernel.values.runtime_config import PermissionMode
from ollim_bot.kernel.values.tool_patterns import (
    WRITING,
    is_open,
    open_problem,
    parts_of,
    problems,
    text_argument,
)

# A longer text matches no glob: paths, addresses and words are far shorter.
LONGEST_TEXT = 8192

# Where a folder may begin, `**/` also matches no folder.
_TOKENS = re.compile(r"(?<![^/])(?:\*\*+/)+|\*\*+|.", re.DOTALL)

# They replace the wildcards of a glob while another glob is matched against it.
_ANY_FOLDERS, _ANY, _ONE = "\ue000", "\ue001", "\ue002"
_UNCLEAR = re.compile(r"[!\[\]{}(),\\\s\ue000-\ue002]")


def fits(glob: str, text: str) -> bool:
    """Whether the glob matches the text, taken literally."""
    if len(text) > LONGEST_TEXT:
        return False
    masks, end = _masks(glob)
    reached = _skipping_wild(masks, 1)
    for char in text:
        takes, stays = masks.get(char, 0), 0 if char == "\n" else masks["**"]
        if char not in ("/", _ANY_FOLDERS):
            takes |= 0 if char == _ANY else masks["?"]
            stays |= masks["*"]
        reached = _skipping_wild(masks, (reached & takes) << 1 | (reached & stays))
        if not reached:
            return False
    return bool(reached & end)


def covers(wider: str, narrower: str) -> bool:
    """Whether a glob matches everything that another one matches; False where that is unclear."""
    if _UNCLEAR.search(narrower):
        return False
    marked = re.sub(r"\*\*+", _ANY_FOLDERS, narrower).replace("*", _ANY).replace("?", _ONE)
    return fits(wider, marked)


def fits_words(
    wanted: Sequence[str], words: Sequence[str], is_same: Callable[[str, str], bool] = fits
) -> bool:
    """Whether a pattern matches the words, one by one.

    `**` matches any number of words, and so does a `*` at the end.
    """
    reached = {*_skipping(wanted, {0})}
    for word in words:
        stays = {at for at in reached if _is_any_number(wanted, at)}
        goes_on = {
            at + 1
            for at in reached
            if at < len(wanted) and at not in stays and is_same(wanted[at], word)
        }
        reached = _skipping(wanted, stays | goes_on)
        if not reached:
            return False
    return len(wanted) in reached


def _is_any_number(wanted: Sequence[str], at: int) -> bool:
    return wanted[at : at + 1] == ["**"] or (at == len(wanted) - 1 and wanted[at] == "*")


def _skipping(wanted: Sequence[str], reached: set[int]) -> set[int]:
    """Add the positions that are reached without a further word."""
    found = set(reached)
    for at in range(len(wanted)):
        if at in found and _is_any_number(wanted, at):
            found.add(at + 1)
    return found


def _skipping_wild(masks: Mapping[str, int], reached: int) -> int:
    """Add the positions that are reached without a further character."""
    while True:
        more = reached | (reached & (masks["**"] | masks["*"] | masks["**/"])) << 1
        more |= (reached & masks["**/"]) << 3
        if more == reached:
            return reached
        reached = more


@lru_cache(maxsize=512)
def _masks(glob: str) -> tuple[Mapping[str, int], int]:
    """The positions before each plain character and each wildcard, and the end: a bit for each.

    At `**` any number of characters may follow, at `*` any number except `/`, at `?` exactly one.
    `**/` stands before a `**` and the `/` behind it, both of which may be left out.
    """
    masks, place = dict.fromkeys(("**", "*", "?", "**/"), 0), 1
    for token in _TOKENS.findall(glob):
        is_run = token.startswith("**")
        for char in ("**/", "**", "/") if is_run and token.endswith("/") else (token[:2],):
            masks[char] = masks.get(char, 0) | place
            place <<= 1
    return masks, place


# The argument that a pattern is compared with: a path, or the glob of a search.
FILE_ARGUMENTS: Mapping[str, str] = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
SEARCH_ARGUMENTS: Mapping[str, str] = {"Glob": "pattern", "Grep": "glob"}

WORD_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "Skill": ("skill", "args"),
    "Agent": ("subagent_type",),
    "Task": ("subagent_type",),
    "WebSearch": ("query",),
}

_PLAIN_HOST = r"https?://[A-Za-z0-9.:\[\]-]+(?:/|$)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """`argument` is None if the pattern allows every call of the tool."""

    tool: str
    argument: str | None = None

    @classmethod
    @lru_cache(maxsize=512)
    def of(cls, text: str) -> Pattern:
        """Raises `WrongInput` with all errors of the text."""
        if errors := problems(text).errors:
            raise WrongInput("\n".join(errors))
        return cls(*parts_of(text))

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

    @property
    def allowed(self) -> Iterator[str]:
        """All that it allows, as a sentence names it."""
        yield from (f"`{each}`" for each in self.main_more)
        yield from (f"`{each}` in the background" for each in self.background(()))
        if self.background_instead is None:
            yield "the usual tools in the background"


def matches(pattern: Pattern, tool: str, arguments: Mapping[str, object], root: str) -> bool:
    """Whether a pattern allows a call; `root` is the folder that `./` stands for."""
    if not pattern.names(tool):
        return False
    if tool == "Bash":
        words = shell_words(text_argument(arguments, "command")) or ()
        return bool(words) and fits_words((pattern.argument or "").split(), words)
    wanted = pattern.argument
    if wanted is None:
        return True
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
        if not errors and is_open(text):
            yield open_problem(text, [each.tool for each in allowed])
        elif not errors and not is_covered(Pattern.of(text), allowed):
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
    is_wider_name = narrower.tool.endswith("*") and not wider.tool.endswith("*")
    if is_wider_name or not wider.names(narrower.tool.removesuffix("*")):
        return False
    if wider.argument is None:
        return narrower.tool != "Bash"
    if narrower.argument is None:
        return False
    if narrower.tool == "Bash" or narrower.tool in WORD_ARGUMENTS:
        return _covers_words(wider.argument.split(), narrower.argument.split())
    if narrower.tool in FILE_ARGUMENTS or narrower.tool in SEARCH_ARGUMENTS:
        return _covers_glob(from_root(wider.argument), from_root(narrower.argument))
    return _covers_glob(wider.argument, narrower.argument)


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


def verdict(mode: PermissionMode, tool: str, *, needs_word: bool = False) -> Verdict:
    """The decision of a mode about a call that no pattern allows, or that needs the owner's word.

    A mode that accepts edits accepts none that text of others may have caused.
    """
    if mode is PermissionMode.BYPASS:
        return Verdict.LET_THROUGH
    if mode is PermissionMode.ACCEPT_EDITS and tool in WRITING and not needs_word:
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
    argument = _argument_of_grant(tool, arguments, root)
    text = tool if argument is None else f"{tool}({argument})"
    is_plain = text.isprintable() and "`" not in text and len(text) <= LONGEST_GRANT
    found = problems(text)
    if "*" in tool or not is_plain or found.errors or found.warnings:
        return None
    grant = Pattern.of(text)
    return grant if matches(grant, tool, arguments, root) else None


def _argument_of_grant(tool: str, arguments: Mapping[str, object], root: str) -> str | None:
    """None for the whole tool; empty if no pattern can express the argument."""
    if tool == "Bash":
        words = shell_words(text_argument(arguments, "command")) or ()
        # A harmless program with any arguments, else exactly the whole command.
        known = next((each for each in _HARMLESS if tuple(words[: len(each)]) == each), None)
        exactly = " ".join(words) if all(map(_is_one_word, words)) else ""
        return exactly if known is None else f"{' '.join(known)} *"
    if tool in FILE_ARGUMENTS:
        path = text_argument(arguments, FILE_ARGUMENTS[tool])
        return "" if not path or _WILD.search(path) else _below_folder(relative(path, root))
    if tool in SEARCH_ARGUMENTS:
        # A search of one file grants itself.
        glob = searched(tool, arguments, root)
        return _below_folder(glob) if _WILD.search(glob) else glob
    if tool == "WebFetch":
        site = _SITE.match(text_argument(arguments, "url"))
        return f"{site[0]}/**" if site else ""
    if tool in _NAMED_BY and (name := text_argument(arguments, _NAMED_BY[tool][0])):
        return name + _NAMED_BY[tool][1] if _is_one_word(name) else ""
    return None


def _below_folder(path: str) -> str:
    """All below the folder of a path, or where a search begins; at the top, only the path."""
    folder = posixpath.dirname(_WILD.split(path)[0])
    return path if folder in _TOPS else f"{folder}/**"


def _is_one_word(text: str) -> bool:
    """Whether a pattern with this text matches only this text."""
    return bool(text) and " " not in text and not _WILD.search(text)


@dataclass(frozen=True, slots=True)
class Grants:
    """The patterns that the owner has allowed for good when asked, as texts."""

    texts: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The valid patterns; an invalid one allows nothing."""
        return tuple(Pattern.of(each) for each in self.texts if not problems(each).errors)

    def granting(self, pattern: Pattern) -> Grants:
        others = (each for each in self.texts if each != str(pattern))
        return Grants((*others, str(pattern)))

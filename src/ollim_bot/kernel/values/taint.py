"""Untrusted text: what a run has read of it, what it left, and the careful session."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import comma_parts, shortened
from ollim_bot.kernel.values.agent_caller import PROGRAM, shell_words
from ollim_bot.kernel.values.cards import Button, ButtonStyle
from ollim_bot.kernel.values.tool_patterns import text_argument

ATTACHMENT = "attachment"
PICTURE = "picture"
TASK_NOTE = "task note"
WEBHOOK_REQUEST = "webhook request"
LOST = "something that is not known any more"
_WEB_PAGE = "web page"

# Where a careful session makes its notes, below the data directory.
OTHERS = "notes/others"
_COMMAND_SOURCES = {
    "history": "part of the history that others wrote",
    "gmail": "mail",
    "cal": "calendar entry",
    "tasks": TASK_NOTE,
}
_FENCED_TEXT = "text that others wrote"
_FENCE = re.compile(r"<untrusted-[0-9a-f]{16}>")
_SERVER = re.compile(r"mcp__(.+?)__")
_BETWEEN_ADDRESSES = re.compile(r"[\s<>\"'`|]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_LINK = re.compile(r'(?:^|"url": ?")(https?://[^\s"]+)(?:"|$)', re.I | re.M)
_HOST = re.compile(r"https?://([a-z0-9.-]+)(?::\d*)?(?:[/?#]|$)", re.IGNORECASE | re.ASCII)
_LONGEST_HOST = 60
_AROUND_ADDRESSES = ".,;:!?*_~"
_MOST_SITES = 20
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Untrusted:
    """`source` names the kind of text, such as `forwarded message`; `about` describes this one."""

    source: str
    about: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Untrusted text that a tool result holds, and the addresses that a search has found.

    `source` is as `untrusted:` in a job file.
    """

    source: str
    found: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Taint:
    """The untrusted sources that a run has read, and the addresses that it may still fetch.

    `addresses` stand in the owner's words or in the job; a search has `found` the others.
    """

    sources: tuple[str, ...] = ()
    addresses: frozenset[str] = frozenset()
    found: frozenset[str] = frozenset()

    @property
    def in_words(self) -> str:
        named = [f"a{'n' * (each[:1] in 'aeiou')} {each}" for each in dict.fromkeys(self.sources)]
        more = len(named) - _MOST_NAMED
        return " and ".join([*named[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])

    @property
    def mark(self) -> str:
        """The sources as the value of `untrusted:` in a job file; empty if there are none."""
        return ", ".join(dict.fromkeys(self.sources))

    def after(self, reading: Reading) -> Taint:
        has_room = sum(kind_of(source) != source for source in self.sources) < _MOST_SITES
        sources = marked_taint(reading.source).sources
        read = self.having_read(*(sources if has_room else map(kind_of, sources)))
        return replace(read, found=self.found | reading.found)

    def names(self, url: str) -> bool:
        """Whether the address may be fetched: the owner, the job or a search has named it."""
        return _plain_address(url) in self.addresses | self.found

    def having_read(self, *sources: str) -> Taint:
        return replace(self, sources=tuple(dict.fromkeys((*self.sources, *sources))))


def untrusted_label(taint: Taint) -> str:
    """The line below a message that a tainted run sends; empty if it has read nothing untrusted."""
    return f"From untrusted content: {taint.in_words}." if taint.sources else ""


def untrusted_message(taint: Taint) -> Untrusted | None:
    """The mark of a message that a tainted run sends; None if it has read nothing untrusted."""
    if not taint.sources:
        return None
    return Untrusted(taint.mark, f"a message that was written after reading {taint.in_words}")


def kind_of(source: str) -> str:
    """The source without the site of a page."""
    return _WEB_PAGE if source.startswith(f"{_WEB_PAGE} ") else source


def marked_taint(mark: str | None) -> Taint:
    """The taint of a run whose job file has this `untrusted:`."""
    return Taint(comma_parts(mark or ""))


@dataclass(frozen=True, slots=True)
class TaintMark:
    """What a session has read of others, or has left in a note or in a task.

    `source` is as `untrusted:` in a job file. A note has a `path` below the data directory, the
    `session` that made it, if a careful one did, and the `hash` of what the agent wrote there last,
    empty while it may be writing. A task has a `title`, by which it is known whichever list has it,
    and its id as `untold` until the owner is shown it.
    """

    source: str
    since: datetime
    path: str = ""
    title: str = ""
    untold: str = ""
    session: str = ""
    hash: str = ""


def reading_of(
    tool: str, arguments: Mapping[str, object], result: str, own_servers: Collection[str]
) -> Reading | None:
    """The untrusted text in the result of a call, wherever it was read; None if there is none."""
    if tool == "WebFetch":
        return Reading(f"{_WEB_PAGE} {site_of(text_argument(arguments, 'url'))}".rstrip())
    if tool == "WebSearch":
        # The result repeats the query, whose words are the agent's own.
        asked = addresses_in(text_argument(arguments, "query"))
        # The addresses that stand alone; others are in prose, which a query can have written.
        links = frozenset(map(_plain_address, _LINK.findall(result)))
        return Reading("search result", links - asked)
    server = _SERVER.match(tool)
    if server is not None and server[1] not in own_servers:
        return Reading(f"result of the tool server {server[1]}")
    if not _FENCE.search(result):
        return None
    program, noun = [*(shell_words(text_argument(arguments, "command")) or ()), "", ""][:2]
    # The engine names a program that it has run by its path.
    is_ours = program.rpartition("/")[2] == PROGRAM
    return Reading(_COMMAND_SOURCES.get(noun if is_ours else "", _FENCED_TEXT))


def addresses_in(text: str) -> frozenset[str]:
    """Every part of a text that may be a web address, in the form that `Taint.names` compares."""
    words = (word.strip(_AROUND_ADDRESSES) for word in _BETWEEN_ADDRESSES.split(text))
    return frozenset(_plain_address(_without_brackets(word)) for word in words if "." in word)


def site_of(url: str) -> str:
    """The end of the host of an address, 60 characters at most; empty if it is not plain."""
    found = _HOST.match(url.strip())
    return found[1].casefold()[-_LONGEST_HOST:].strip(".-") if found else ""


def _without_brackets(word: str) -> str:
    """Strip brackets around an address, which may contain some but begins with none."""
    if word.startswith(("(", "[", "{")):
        word = word[1:].rstrip(_AROUND_ADDRESSES).removesuffix(")").removesuffix("]")
    return word


def _plain_address(url: str) -> str:
    """The address without the parts that do not change where it leads."""
    host, slash, path = _SCHEME.sub("", url, count=1).partition("#")[0].partition("/")
    return f"{host.casefold()}{slash}{path}".rstrip("/")


GO_ON = "go_on"
_LONGEST_SOURCE = 80


@dataclass(frozen=True, slots=True)
class CarefulTime:
    """Since when the conversation is careful, and why, in words; `key` is for `go_on`."""

    words: str
    key: str

    @property
    def button(self) -> Button:
        return Button("Go on, it is all right", GO_ON, self.key, ButtonStyle.PRIMARY)


@dataclass(frozen=True, slots=True)
class CarefulSession:
    """A session that has read these, the oldest first, since the owner last wrote in it.

    `key` is another one after each further source.
    """

    session: SessionId | None
    sources: tuple[str, ...]
    since: datetime

    @property
    def key(self) -> str:
        what = repr((self.session, self.sources, self.since.timestamp()))
        return hashlib.sha256(what.encode()).hexdigest()[:16]

    @property
    def named(self) -> list[str]:
        """The sources as a person reads them, on one line each."""
        return [shortened(" ".join(each.split()), _LONGEST_SOURCE) for each in self.sources]

    def since_when(self, now: datetime) -> str:
        """`careful since 14:02`, with the day if it is not today."""
        return f"careful since {describe(self.since, now).removeprefix('today ')}"

    def shown(self, now: datetime) -> CarefulTime:
        """`careful since 14:02: web page example.org and 2 more`."""
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return CarefulTime(f"{self.since_when(now)}: {self.named[0]}{more}", self.key)

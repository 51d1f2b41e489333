"""Untrusted text: what a run has read of it, and what was left after reading it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ollim_bot.domain.agent_caller import PROGRAM, shell_words
from ollim_bot.domain.permissions import text_argument
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.tasks import Task

ATTACHMENT = "attachment"
PICTURE = "picture"
TASK_NOTE = "task note"
WEBHOOK_REQUEST = "webhook request"
LOST = "something that is not known any more"

# Where a careful session makes its notes, below the data directory.
OTHERS = "notes/others"
# Where files that came with messages are kept, below the data directory.
_DOWNLOADS = "downloads"
_COMMAND_SOURCES = {
    "history": "part of the history that others wrote",
    "gmail": "mail",
    "cal": "calendar entry",
    "tasks": TASK_NOTE,
}
_FENCED_TEXT = "text that others wrote"
_FENCE = re.compile(r"<untrusted-[0-9a-f]{16}>")
# A line of a search begins with a path, and a colon ends the path.
_IN_DOWNLOADS = re.compile(rf"^(?:[^:\n]*/)?{_DOWNLOADS}/", re.MULTILINE | re.IGNORECASE)
_SERVER = re.compile(r"mcp__(.+?)__")
_BETWEEN_ADDRESSES = re.compile(r"[\s<>\"'`|]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_AROUND_ADDRESSES = ".,;:!?*_~"
_REMEMBERED = timedelta(hours=24)
_MOST_READINGS = 50
_MOST_SESSIONS = 300
_MOST_TASKS = 500


@dataclass(frozen=True, slots=True)
class Untrusted:
    """`source` names the kind of text, such as `forwarded message`; `about` describes this one."""

    source: str
    about: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Untrusted text that a tool result holds, and the addresses that a search has found."""

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
        return " and ".join(map(_with_article, dict.fromkeys(self.sources)))

    @property
    def mark(self) -> str:
        """The sources as the value of `untrusted:` in a job file; empty if there are none."""
        return ", ".join(dict.fromkeys(self.sources))

    def after(self, reading: Reading) -> Taint:
        return replace(self.having_read(reading.source), found=self.found | reading.found)

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


def marked_taint(mark: str | None) -> Taint:
    """The taint of a run whose job file has this `untrusted:`."""
    return Taint(tuple(part.strip() for part in (mark or "").split(",") if part.strip()))


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """A source, and when the conversation read it."""

    source: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SessionTaint:
    """The untrusted sources in the history of a session, since the owner last wrote in it."""

    session: SessionId
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaintedTask:
    """A task that a tainted turn has added; known by its title, whichever list has it."""

    title: str
    untrusted: str
    id: str = ""
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class TaintRecord:
    """What each session has read since the owner last wrote in it, the newest session last.

    `recent` is what the conversation has read in the last day. `tasks` are those that tainted turns
    have added. `standing` counts for each session until the owner writes: it was written before
    sessions were told apart, or says that what they have read was lost.
    """

    standing: tuple[str, ...] = ()
    sessions: tuple[SessionTaint, ...] = ()
    recent: tuple[ReadBefore, ...] = ()
    tasks: tuple[TaintedTask, ...] = ()

    def of(self, session: SessionId | None) -> tuple[str, ...]:
        own = (
            source for each in self.sessions if each.session == session for source in each.sources
        )
        return tuple(dict.fromkeys((*self.standing, *own)))

    def with_read(self, session: SessionId, sources: Iterable[str]) -> TaintRecord:
        """The session has read these, or goes on from a history that has them."""
        known = tuple(dict.fromkeys((*self.of(session), *sources)))
        others = tuple(each for each in self.sessions if each.session != session)
        if known:
            others = (*others, SessionTaint(session, known))
        return replace(self, sessions=others[-_MOST_SESSIONS:])

    def after_turn(self, session: SessionId, sources: Iterable[str], now: datetime) -> TaintRecord:
        """A turn of the conversation has read these."""
        added = tuple(dict.fromkeys(sources))
        others = (
            each
            for each in self.recent
            if each.source not in added and abs(now - each.at) < _REMEMBERED
        )
        recent = (*others, *(ReadBefore(source, now) for source in added))
        return replace(self.with_read(session, added), recent=recent[-_MOST_READINGS:])

    def lost(self) -> TaintRecord:
        """What the sessions have read since this was written is not known."""
        return replace(self, standing=tuple(dict.fromkeys((*self.standing, LOST))))

    def after_owner(self, session: SessionId) -> TaintRecord:
        """The owner wrote in the session: what it read before taints no further turn of it."""
        others = tuple(each for each in self.sessions if each.session != session)
        return replace(self, standing=(), sessions=others)

    def with_task(self, task: TaintedTask) -> TaintRecord:
        """Add the task, or replace the one with its title."""
        others = (each for each in self.tasks if _key(each.title) != _key(task.title))
        return replace(self, tasks=(*others, task)[-_MOST_TASKS:])

    def mark_of(self, title: str) -> str:
        """What the turn had read that added a task with this title; empty for any other task."""
        found = (each.untrusted for each in self.tasks if _key(each.title) == _key(title))
        return next(found, "")

    def marks_in(self, text: str) -> list[str]:
        """The marks of the tasks whose titles stand in the text."""
        line = _key(text)
        return [each.untrusted for each in self.tasks if _key(each.title) in line]

    def marked(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks, those of tainted turns with their mark."""
        return [replace(each, untrusted=self.mark_of(each.title)) for each in tasks]

    def in_last_day(self, now: datetime) -> Taint:
        """The sources that may have led to a change now."""
        return Taint(tuple(each.source for each in self.recent if abs(now - each.at) < _REMEMBERED))


def reading_of(
    tool: str,
    arguments: Mapping[str, object],
    result: str,
    own_servers: Collection[str],
    *,
    read: Iterable[str] = (),
    marks: Iterable[str] = (),
) -> Reading | None:
    """The untrusted text in the result of a call; None if there is none.

    `read` are the paths that a reading tool was given, relative to the data directory; `marks` are
    the values of `untrusted:` in the job files that the result shows.
    """
    if tool == "WebFetch":
        return Reading("web page")
    if tool == "WebSearch":
        return Reading("search result", addresses_in(result))
    server = _SERVER.match(tool)
    if server is not None and server[1] not in own_servers:
        return Reading(f"result of the tool server {server[1]}")
    if _shows_download(tool, result, read):
        return Reading(ATTACHMENT)
    if mark := next(iter(marks), ""):
        return Reading(mark)
    if tool == "Bash" and _names_download(shell_words(text_argument(arguments, "command")) or ()):
        return Reading(ATTACHMENT)
    if _FENCE.search(result):
        return Reading(_fenced_source(arguments))
    return None


def addresses_in(text: str) -> frozenset[str]:
    """Every part of a text that may be a web address, in the form that `Taint.names` compares."""
    words = (word.strip(_AROUND_ADDRESSES) for word in _BETWEEN_ADDRESSES.split(text))
    return frozenset(_plain_address(_without_brackets(word)) for word in words if "." in word)


def _shows_download(tool: str, result: str, read: Iterable[str]) -> bool:
    tops = (path.casefold().removeprefix("./").partition("/")[0] for path in read)
    return _DOWNLOADS in tops or (tool == "Grep" and bool(_IN_DOWNLOADS.search(result)))


def _names_download(words: Sequence[str]) -> bool:
    return any(_DOWNLOADS in word.casefold().split("/") for word in words[1:])


def _fenced_source(arguments: Mapping[str, object]) -> str:
    program, noun = [*(shell_words(text_argument(arguments, "command")) or ()), "", ""][:2]
    # The engine names a program that it has run by its path.
    is_ours = program.rpartition("/")[2] == PROGRAM
    return _COMMAND_SOURCES.get(noun, _FENCED_TEXT) if is_ours else _FENCED_TEXT


def _key(title: str) -> str:
    """The same for two spellings of a title that look the same."""
    return " ".join(title.casefold().split())


def _with_article(source: str) -> str:
    return f"{'an' if source[:1] in 'aeiou' else 'a'} {source}"


def _without_brackets(word: str) -> str:
    """Strip brackets around an address, which may contain some but begins with none."""
    if word.startswith(("(", "[", "{")):
        word = word[1:].rstrip(_AROUND_ADDRESSES).removesuffix(")").removesuffix("]")
    return word


def _plain_address(url: str) -> str:
    """The address without the parts that do not change where it leads."""
    host, slash, path = _SCHEME.sub("", url, count=1).partition("#")[0].partition("/")
    return f"{host.casefold()}{slash}{path}".rstrip("/")

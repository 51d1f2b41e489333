"""Untrusted text: what a run has read of it, and what the run may not do afterwards."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ollim_bot.domain.agent_caller import PROGRAM, read_command_line, shell_words
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.permissions import Pattern, Verdict, matches, text_argument
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.tasks import Task
from ollim_bot.domain.tool_patterns import WRITING

ATTACHMENT = "attachment"
PICTURE = "picture"
TASK_NOTE = "task note"
WEBHOOK_REQUEST = "webhook request"
LOST = "something that is not known any more"
_WEB_PAGE = "web page"

# Where files that came with messages are kept, below the data directory.
_DOWNLOADS = "downloads"
_READING = frozenset({"", "list", "show"})
# The verbs that a tainted turn of the conversation may call unasked, and what others would change.
_UNASKED: Mapping[str, tuple[Collection[str], str]] = {
    "cal": (("today", "upcoming", "show", "calendars", "refresh"), "add or change an event"),
    "tasks": (("list", "show", "lists", "add"), "change a task"),
    **{job: (_READING, f"change a {job}") for job in JobKind},
}
# Files that change what the agent does later, by their first name below the data directory.
_LASTING: Mapping[str, str] = {
    "identity.md": "change the profile",
    "user.md": "change the profile",
    **{job.plural: f"change a {job}" for job in JobKind},
    "skills": "change a skill",
    ".claude": "change an agent or a skill",
    "tool-policy.yaml": "change what is allowed",
    "tasks.md": "change the tasks",
}
# The commands that a tainted background run may run; all verbs where none is named.
_READING_COMMANDS: Mapping[str, Collection[str]] = {
    "help": (),
    "gmail": (),
    "history": (),
    "runs": (),
    "cal": ("today", "upcoming", "show"),
    "tasks": ("list", "show"),
    **dict.fromkeys(("receipt", "cost", "changes", "doses"), ()),
}
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
_SITE = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/|$)")
_BETWEEN_ADDRESSES = re.compile(r"[\s<>\"'`|]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_HOST = re.compile(r"https?://([a-z0-9.-]+)(?::\d*)?(?:[/?#]|$)", re.IGNORECASE | re.ASCII)
_LONGEST_HOST = 60
_AROUND_ADDRESSES = ".,;:!?*_~"
_REMEMBERED = timedelta(hours=24)
_MOST_READINGS = 50
_MOST_SESSIONS = 300
_MOST_TASKS = 500
_MOST_SITES = 20
_MOST_NAMED = 3


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

    `addresses` stand in the owner's words or in the job. Only the conversation may fetch those that
    a search has `found`: an address can give data away, and no owner watches a background run.
    """

    sources: tuple[str, ...] = ()
    addresses: frozenset[str] = frozenset()
    found: frozenset[str] = frozenset()

    @property
    def in_words(self) -> str:
        named = [_with_article(source) for source in dict.fromkeys(self.sources)]
        more = len(named) - _MOST_NAMED
        return " and ".join([*named[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])

    @property
    def mark(self) -> str:
        """The sources as the value of `untrusted:` in a job file; empty if there are none."""
        return ", ".join(dict.fromkeys(self.sources))

    def after(self, reading: Reading) -> Taint:
        sites = sum(kind_of(source) != source for source in self.sources)
        source = kind_of(reading.source) if sites >= _MOST_SITES else reading.source
        return replace(self.having_read(source), found=self.found | reading.found)

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
    return Taint(tuple(part.strip() for part in (mark or "").split(",") if part.strip()))


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """A source, and when the conversation read it."""

    source: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SessionTaint:
    """The untrusted sources in the history of a session, since the owner last wrote in it.

    `since` is when the first of them was read, if that is known.
    """

    session: SessionId
    sources: tuple[str, ...]
    since: datetime | None = None


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

    def since(self, session: SessionId | None) -> datetime | None:
        """When the first of what the session has read was read; None if it is not known."""
        own = (each.since for each in self.sessions if each.session == session)
        return None if self.standing else next(own, None)

    def with_read(
        self, session: SessionId, sources: Iterable[str], since: datetime | None = None
    ) -> TaintRecord:
        """The session has read these, the first of them at `since`."""
        before = self.of(session)
        known = tuple(dict.fromkeys((*before, *sources)))
        others = tuple(each for each in self.sessions if each.session != session)
        if known:
            since = self.since(session) if before else since
            others = (*others, SessionTaint(session, known, since))
        return replace(self, sessions=others[-_MOST_SESSIONS:])

    def going_on(self, session: SessionId, before: SessionId | None) -> TaintRecord:
        """The session goes on from the history of `before`."""
        return self.with_read(session, self.of(before), self.since(before))

    def after_turn(self, session: SessionId, sources: Iterable[str], now: datetime) -> TaintRecord:
        """A turn of the conversation has read these."""
        sources = tuple(sources)
        added = tuple(dict.fromkeys(map(kind_of, sources)))
        others = (
            each
            for each in self.recent
            if each.source not in added and abs(now - each.at) < _REMEMBERED
        )
        recent = (*others, *(ReadBefore(source, now) for source in added))
        return replace(self.with_read(session, sources, now), recent=recent[-_MOST_READINGS:])

    def lost(self) -> TaintRecord:
        """What the sessions have read since this was written is not known."""
        return replace(self, standing=tuple(dict.fromkeys((*self.standing, LOST))))

    def after_owner(self, session: SessionId | None) -> TaintRecord:
        """The owner has spoken in the session: what it read before taints no further turn of it."""
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


@dataclass(frozen=True, slots=True)
class TaintedCall:
    """A call that untrusted text may have caused: the sources read before, and what it would do.

    `instead` says how it can be done all the same.
    """

    read: str
    wanted: str
    instead: str = "Ask the owner to say so in a message of their own."

    @property
    def refusal(self) -> str:
        return (
            f"You have read {self.read}, so you may not {self.wanted} by yourself now. "
            f"{self.instead}"
        )


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
        return Reading(f"{_WEB_PAGE} {site_of(text_argument(arguments, 'url'))}".rstrip())
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


def tainted_call(
    taint: Taint,
    tool: str,
    arguments: Mapping[str, object],
    changed: Iterable[str],
    changes: Mapping[str, str],
) -> TaintedCall | None:
    """What a call of the conversation needs the owner's approval for; None if it needs none.

    `changed` are the paths that a writing tool would change, relative to the data directory.
    `changes` says, by tool, what a call would change that needs the owner's approval.
    """
    if not taint.sources:
        return None
    wanted = _wanted(taint, tool, arguments, changed) or changes.get(tool)
    return TaintedCall(taint.in_words, wanted) if wanted else None


def tainted_in_background(
    taint: Taint,
    tool: str,
    arguments: Mapping[str, object],
    allowed: Iterable[Pattern],
    changes: Mapping[str, str],
) -> TaintedCall | None:
    """What a tainted background run may not do; None if it may make the call.

    `allowed` are the patterns of the run, which may name sites; `changes` is as in `tainted_call`.
    """
    if not taint.sources:
        return None
    wanted = changes.get(tool)
    if tool in WRITING:
        wanted = "write a file"
    elif tool == "Bash" and not _is_reading(text_argument(arguments, "command")):
        wanted = "run this command"
    elif tool == "WebFetch" and not _may_fetch(taint, arguments, allowed):
        wanted = "fetch an address that the job does not name"
    instead = "Say with `report_updates` what should be done, and end without it."
    return TaintedCall(taint.in_words, wanted, instead) if wanted else None


def tainted_verdict(mode: PermissionMode) -> Verdict:
    """What the mode decides about a tainted call; a mode that accepts edits still asks."""
    if mode is PermissionMode.BYPASS:
        return Verdict.LET_THROUGH
    return Verdict.REFUSE if mode is PermissionMode.DONT_ASK else Verdict.ASK


def addresses_in(text: str) -> frozenset[str]:
    """Every part of a text that may be a web address, in the form that `tainted_call` compares."""
    words = (word.strip(_AROUND_ADDRESSES) for word in _BETWEEN_ADDRESSES.split(text))
    return frozenset(_plain_address(_without_brackets(word)) for word in words if "." in word)


def site_of(url: str) -> str:
    """The end of the host of an address, 60 characters at most; empty if it is not plain."""
    found = _HOST.match(url.strip())
    return found[1].casefold()[-_LONGEST_HOST:].strip(".-") if found else ""


def _wanted(
    taint: Taint, tool: str, arguments: Mapping[str, object], changed: Iterable[str]
) -> str | None:
    if tool in WRITING:
        return next(filter(None, map(_lasting_change, changed)), None)
    if tool == "Bash":
        return _command(shell_words(text_argument(arguments, "command")) or ())
    if tool == "WebFetch":
        address = _plain_address(text_argument(arguments, "url"))
        is_known = address in taint.addresses or address in taint.found
        return None if is_known else "fetch an address that the owner did not type"
    return None


def _lasting_change(path: str) -> str | None:
    top, _, below = path.casefold().removeprefix("./").partition("/")
    return None if below and top.endswith(".md") else _LASTING.get(top)


def _command(words: Sequence[str]) -> str | None:
    """What the command would change. Any other program needs approval."""
    if not words or words[0] != PROGRAM:
        return "run a program"
    noun, verb, _ = read_command_line(words[1:])
    if noun.startswith("-"):
        return "run a command of ollim-bot"
    unasked, change = _UNASKED.get(noun, ((verb,), ""))
    return None if verb in unasked else change


def _is_reading(command: str) -> bool:
    words = shell_words(command) or [""]
    noun, verb, _ = read_command_line(words[1:])
    if words[0] != PROGRAM or noun not in _READING_COMMANDS:
        return False
    verbs = _READING_COMMANDS[noun]
    return not verbs or verb in verbs


def _may_fetch(taint: Taint, arguments: Mapping[str, object], allowed: Iterable[Pattern]) -> bool:
    """Whether the job names the address, or a pattern names its site without a wildcard."""
    if _plain_address(text_argument(arguments, "url")) in taint.addresses:
        return True
    sites = (each for each in allowed if _SITE.match(each.argument or ""))
    return any(matches(each, "WebFetch", arguments, "") for each in sites)


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

"""`ollim-bot history`: what was said, found again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, counted
from ollim_bot.kernel.store.search_index import FoundRow, SearchIndex
from ollim_bot.kernel.values.search import Search, Speaker, Term, excerpt, terms_of, who_spoke
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    ArgumentSpec,
    Given,
    Noun,
    argument,
    columns,
    fenced_for,
    number_given,
    only_one,
    past_moment,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data

if TYPE_CHECKING:
    from ollim_bot.kernel.store.connection import Statements
    from ollim_bot.kernel.store.message_log import LoggedMessage
    from ollim_bot.kernel.store.transaction import Transaction
    from ollim_bot.kernel.values.forks import ForkStory

_USUAL = 20
_RECENT = "7d"
_MOST = 1000
_SHOWN_ID = 8
_SHORTEST_PREFIX = 4
_LONGEST_EXCERPT = 160
_DATE = len("2026-11-16")
_PROMPT = "prompt"
_LEFT = "Side conversations that you left:"
_SPEAKERS = {Speaker.OWNER: "you", Speaker.BOT: "bot", Speaker.JOB: "job", _PROMPT: "asked"}
_KINDS = {
    SessionChange.INTERACTIVE_FORK: "side conversation",
    SessionChange.BG_FORK: "background run",
    SessionChange.ISOLATED_BG: "background run",
}
_FENCE = re.compile("<untrusted-[0-9a-f]{16}>")
_TAINTED = ("part of the history that others wrote", "the record of a session with untrusted text")
_ALL = 2**62
_BACKGROUND = frozenset({SessionChange.BG_FORK, SessionChange.ISOLATED_BG})


def _shown(row: FoundRow, text: str, agent: str | None) -> str:
    """The text; for the agent, what the owner did not write is marked as data."""
    return fenced_for(agent, text, *row.untrusted) if row.untrusted else text


_HISTORY = Noun("history")
run = _HISTORY.run


def _since(usual: str) -> ArgumentSpec:
    when = "a date such as 2026-11-01, or how long ago, such as 30d"
    return argument("--since", metavar="WHEN", help=f"not older: {when}; {usual} if omitted")


_LIMIT = argument("--limit", metavar="N", help=f"at most so many; {_USUAL} if omitted")


@_HISTORY.verb(
    "what was said with these words, also before a /clear",
    "dentist --since 30d",
    argument("words", metavar="WORDS", nargs="+", help="words, or a phrase: '\"the dentist\"'"),
    _since("all"),
    argument("--until", metavar="WHEN", help="not newer; a day counts to its end"),
    argument("--session", metavar="ID", help="only of this session"),
    argument("--who", choices=list(Speaker), help="only what the owner, bot or a job said"),
    _LIMIT,
    JSON,
)
def _search(given: Given, caller: Caller) -> None:
    now = caller.now().astimezone(caller.place().zone)
    words = " ".join(given["words"])
    moment = past_moment(given, "until", now)
    is_day = len(str(given.get("until"))) == _DATE
    wanted = Search(
        terms_of(words),
        past_moment(given, "since", now),
        moment + timedelta(days=1) if moment is not None and is_day else moment,
        _session(open_data(caller), given["session"]) if "session" in given else None,
        Speaker(given["who"]) if "who" in given else None,
        number_given(given, "limit", _USUAL, _MOST),
    )
    # To open the whole store takes several times as long as a search.
    from ollim_bot.kernel.store.database_errors import NoDatabase
    from ollim_bot.kernel.store.questions import ask_rows

    def question(statements: Statements) -> list[FoundRow] | None:
        index = SearchIndex(statements)
        return index.rows(wanted) if index.is_used else None

    data = open_data(caller)
    try:
        found = None if data.shared is not None else ask_rows(data.paths, question)
    except NoDatabase:
        found = None
    if found is None:
        found = data.ask_if_used(lambda tx: _logged(tx, tx.messages.search(wanted)))
    found = found or []
    if "json" in given:
        _print_objects("messages", found, caller)
    elif found:
        show(_excerpts(found, wanted.terms, now, caller))
    else:
        show(plain(f"Nothing was said with “{title(words)}”."))


@_HISTORY.verb(
    "the conversations: what about, how long, and how they ended",
    "",
    argument("--all", action="store_true", help="with background runs"),
    _LIMIT,
    JSON,
)
def _sessions(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    limit = number_given(given, "limit", _USUAL, _MOST)

    def question(tx: Transaction) -> list[Mapping[str, object]]:
        is_all, for_agent = "all" in given, caller.agent is not None
        return [*_session_rows(tx, limit, is_all=is_all, for_agent=for_agent)]

    rows = data.ask_if_used(question) or []
    if "json" in given:
        print_json({"sessions": rows})
    elif rows:
        show("\n\n".join(_session_blocks(rows, data.now)))
    else:
        show("No conversations yet.")


@_HISTORY.verb(
    "one conversation or background run, in words",
    "1a2b3c4d",
    argument("session", metavar="SESSION", help="its id, or the beginning of it"),
    JSON,
)
def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    session = _session(data, given["session"])
    said = data.ask(lambda tx: _logged(tx, tx.messages.of_session(session)))
    events = data.ask(lambda tx: tx.session_history.all())
    kinds = {each.event for each in events if each.session_id == session}
    if not said or kinds & _BACKGROUND:
        is_tainted = data.ask(partial(_is_tainted, session))
        recorded = _transcript(caller, session, is_tainted=is_tainted)
        said = sorted([*recorded, *said], key=lambda each: each.at)
    if "json" in given:
        _print_objects("messages", said, caller)
    elif said:
        parts = []
        for row in said:
            head = f"{describe(row.at, data.now)} {_SPEAKERS[row.who]}"
            parts.append(plain(f"{head}\n{_shown(row, row.text, caller.agent)}"))
        show("\n\n".join(parts))
    else:
        raise OllimError(f"Nothing is left of the session {session[:_SHOWN_ID]}.")


@_HISTORY.verb(
    "what jobs and the program asked the agent", "--since 30d", _since(_RECENT), _LIMIT, JSON
)
def _prompts(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    since = past_moment({"since": _RECENT, **given}, "since", data.now)
    assert since is not None
    asked = sorted(_asked(caller, data, since), key=lambda each: each.at, reverse=True)
    found = asked[: number_given(given, "limit", _USUAL, _MOST)]
    if "json" in given:
        _print_objects("prompts", found, caller)
    elif found:
        from ollim_bot.kernel.prompts.turn_prompts import task_words

        lines = []
        for row in found:
            words = FROM_UNTRUSTED if caller.agent and row.untrusted else task_words(row.text)
            job = plain(row.text.partition("]")[0].lstrip("["))
            lines.append((describe(row.at, data.now), job, row.session[:_SHOWN_ID], title(words)))
        show(columns(lines))
    else:
        show("Nothing was asked by jobs or by the program.")


def _session(data: Data, word: str) -> SessionId:
    """The session that the word begins; raises `OllimError` unless there is exactly one."""
    events = data.ask_if_used(lambda tx: tx.session_history.all()) or ()
    known = {event.session_id for event in events}
    found = {each for each in known if each == word} or {
        each for each in known if len(word) >= _SHORTEST_PREFIX and each.startswith(word)
    }
    return only_one(found, "session", word, "`ollim-bot history sessions` shows them.")


def _logged(tx: Transaction, messages: Iterable[LoggedMessage]) -> list[FoundRow]:
    found = []
    for each in messages:
        said, read = each.message, each.message.untrusted
        source = None if read is None else (read.source, read.about)
        session = tx.messages.session_of(each) or ""
        found.append(FoundRow(said.at, who_spoke(said.author), session, said.text, said.id, source))
    return found


def _transcript(caller: Caller, session: SessionId, *, is_tainted: bool) -> Iterator[FoundRow]:
    from ollim_bot.kernel.engine.transcripts import Transcripts

    for each in Transcripts(caller.environ).said(session):
        who = _PROMPT if each.is_prompt else Speaker.JOB
        source = _TAINTED if is_tainted or each.is_tainted else None
        yield FoundRow(each.at, who, session, each.text, each.id, source)


def _is_tainted(session: SessionId, tx: Transaction) -> bool:
    """Whether the session is known to have begun or gone on with untrusted text."""
    if tx.marks.of(session):
        return True
    rows, _ = tx.ledger.page(0, _ALL)
    return any(row.facts.get("session") == session and row.facts.get("untrusted") for row in rows)


def _asked(caller: Caller, data: Data, since: datetime) -> Iterator[FoundRow]:
    """The prompts since a moment that neither the owner nor a button sent."""
    from ollim_bot.kernel.engine.transcripts import Transcripts
    from ollim_bot.kernel.prompts.turn_prompts import is_of_program

    transcripts = Transcripts(caller.environ)
    for stored in transcripts.sessions(data.paths.root, _MOST):
        if stored.changed_at < since:
            return
        for each in transcripts.said(stored.id):
            if each.at >= since and each.is_prompt and is_of_program(each.text):
                source = _TAINTED if _FENCE.search(each.text) else None
                yield FoundRow(each.at, _PROMPT, stored.id, each.text, each.id, source)


def _print_objects(name: str, rows: Iterable[FoundRow], caller: Caller) -> None:
    objects = [
        {
            **each._asdict(),
            "text": _shown(each, each.text, caller.agent),
            "untrusted": each.untrusted[0] if each.untrusted else None,
        }
        for each in rows
    ]
    print_json({name: objects})


def _excerpts(
    rows: Sequence[FoundRow], terms: Sequence[Term], now: datetime, caller: Caller
) -> str:
    lines = []
    for row in rows:
        words = "".join(part.text for part in excerpt(row.text, terms, _LONGEST_EXCERPT))
        shown = _shown(row, plain(words), caller.agent)
        if row.untrusted and caller.agent:
            shown = f"\n{shown}"
        session = row.session[:_SHOWN_ID] or "-"
        lines.append((describe(row.at, now), _SPEAKERS[row.who], session, shown))
    return columns(lines)


def _session_rows(
    tx: Transaction, limit: int, *, is_all: bool, for_agent: bool
) -> Iterator[Mapping[str, object]]:
    """The sessions, the newest first; background runs only with `is_all`."""
    events = tx.session_history.all()
    begins: dict[SessionId, SessionEvent] = {}
    for event in events:
        begins.setdefault(event.session_id, event)
    listed = [each for each in begins.values() if is_all or each.event not in _BACKGROUND]
    for first in listed[::-1][:limit]:
        newest = tx.messages.newest_of_session(first.session_id, 1)
        yield {
            "id": first.session_id,
            "kind": _KINDS.get(first.event, "conversation"),
            "began": first.timestamp,
            "last": newest[0].message.at if newest else None,
            "ended": _end(tx, first, events),
            "topic": _topic(tx, first, for_agent=for_agent),
            "answers": tx.messages.count_of_session(first.session_id),
            "first_words": title(tx.messages.opening_of(first.session_id)),
        }


def _topic(tx: Transaction, first: SessionEvent, *, for_agent: bool) -> str:
    """What a side conversation was about; empty for any other session."""
    story, read = _story(tx, first), tx.marks.of
    is_tainted = read(first.session_id) or read(first.parent_session_id)
    if story is not None and for_agent and is_tainted:
        return FROM_UNTRUSTED
    return title(story.topic) if story else ""


def _end(tx: Transaction, first: SessionEvent, events: Sequence[SessionEvent]) -> str:
    """How the session ended, in a word or two; empty if it goes on."""
    session, fork = first.session_id, tx.fork.get()
    if session == tx.session.get() or (fork is not None and fork.session == session):
        return ""
    for event in reversed(events):
        if event.session_id == session and event.event is SessionChange.CLEARED:
            return "cleared"
        if event.parent_session_id == session and event.event is SessionChange.SWAPPED:
            return "replaced"
    story = _story(tx, first)
    return story.end if story else "over"


def _story(tx: Transaction, first: SessionEvent) -> ForkStory | None:
    from ollim_bot.kernel.store.steps import story_of_fork

    is_fork = first.event is SessionChange.INTERACTIVE_FORK
    return story_of_fork(tx, first.session_id) if is_fork else None


def _session_blocks(rows: Sequence[Mapping[str, object]], now: datetime) -> Iterator[str]:
    """The sessions, and apart from them the side conversations that the owner left."""
    from ollim_bot.kernel.values.forks import ENDINGS, Discard

    left = [row for row in rows if row["ended"] == ENDINGS[Discard]]
    kept = [row for row in rows if row not in left]
    if kept:
        yield columns([_session_line(row, now) for row in kept])
    if left:
        lines = [_session_line(row, now) for row in left]
        yield f"{_LEFT}\n{columns(lines)}"


def _session_line(row: Mapping[str, object], now: datetime) -> tuple[str, ...]:
    began, ended = row["began"], str(row["ended"]) or "goes on"
    assert isinstance(began, datetime)
    when = describe(began.replace(second=0, microsecond=0), now)
    words = str(row["topic"]) or str(row["first_words"]) or "no words of yours"
    size = counted(int(str(row["answers"])), "answer")
    return str(row["id"])[:_SHOWN_ID], when, str(row["kind"]), ended, size, words

"""What was said before: its words are found, and the owner goes back to a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import counted, literal, one_line, shortened
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, Uses
from ollim_bot.kernel.conversation.chat_sessions import replace_session
from ollim_bot.kernel.conversation.command_handlers import left_words
from ollim_bot.kernel.conversation.fork_commands import Forks
from ollim_bot.kernel.conversation.message_poster import CommandChange, MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.prompts.turn_prompts import first_words
from ollim_bot.kernel.store.session_history import KeptHistory
from ollim_bot.kernel.store.steps import story_of_fork
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import LINK, Argument, CommandAnswer, slash_command
from ollim_bot.kernel.values.forks import ForkStory
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.ports import AgentEngine, StoredSession
from ollim_bot.kernel.values.search import Search, Speaker, Term, excerpt, terms_of, who_spoke
from ollim_bot.kernel.values.sessions import (
    Cause,
    CompactionLine,
    SessionChange,
    SessionEvent,
    SessionLine,
    SessionList,
    session_list,
)
from ollim_bot.kernel.values.views import ActingView, ViewAnswer
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    joined_parts,
    list_section,
    show_more,
    time_html,
)

RESUME = "resume"
_LISTED = 10
_LEFT = "Side conversations that you left"
_LONGEST_TOPIC = 60
_FOUND = 5
_BACKGROUND = (SessionChange.BG_FORK, SessionChange.ISOLATED_BG)


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A session in the owner's words: the topic of a fork, or what was said first.

    `topic` is that of a fork that is not the main session now.
    """

    id: SessionId
    at: datetime
    words: str
    answers: int
    is_left: bool
    topic: str | None = None

    @classmethod
    def of(
        cls, stored: StoredSession, words: str, story: ForkStory | None, answers: int
    ) -> _Conversation:
        if story is None:
            return cls(stored.id, stored.changed_at, words, answers, is_left=False)
        topic = shortened(story.topic, _LONGEST_TOPIC)
        if story.topic and story.is_left:
            words = topic
        elif story.topic:
            # One that took the place of the main session keeps its words.
            is_main = story.is_kept_whole
            words = f"{words}, with {topic}" if is_main else f"side conversation: {topic}"
        side = None if story.is_kept_whole else topic
        return cls(stored.id, stored.changed_at, words, answers, story.is_left, side)

    def line(self, current: SessionId | None) -> SessionLine:
        words = self.topic or self.words
        return SessionLine(self.id, self.at, words, self.answers, self.id == current)


class SessionCommands(ActingView[SessionList]):
    """The commands about earlier conversations, and their view; going back is `/resume`."""

    def __init__(
        self,
        engine: AgentEngine,
        store: Store,
        state: ConversationState,
        poster: MessagePoster,
        forks: Forks,
        clock: Clock,
        working_directory: Path,
    ) -> None:
        self._engine = engine
        self._store = store
        self._state = state
        self._poster = poster
        self._forks = forks
        self._clock = clock
        self._folder = working_directory
        self._history = KeptHistory()
        self.actions: Mapping[str, Action] = {RESUME: Action(self._click, Uses.NOTHING)}

    @slash_command(120, "sessions", "Earlier conversations, to go back to one")
    async def list(self, _: CommandCall) -> str:
        newest = (await self.conversations())[:_LISTED]
        if not newest:
            return "There are no earlier conversations."
        shown = sorted(newest, key=lambda each: each.is_left)
        buttons = (
            Button("Go back to it", RESUME, each.id, line=line)
            for line, each in enumerate(shown, 1)
            if each.id != self._forks.current.id
        )
        first_left = next((each for each in shown if each.is_left), None)
        lines = []
        for each in shown:
            mark = " (this one)" if each.id == self._forks.current.id else ""
            size = f" · {counted(each.answers, 'answer')}" if each.answers else ""
            words = f"{self._when(each)} · {each.words or 'no words yet'}{size}{mark}"
            lines.append(CardLine(words, _LEFT if each is first_left else ""))
        card = Card("Conversations", lines=tuple(lines), buttons=tuple(buttons))
        note = self._poster.note(card)
        await self._store.transact(lambda tx: self._poster.add_note(tx, note))
        return ""

    async def look(self, _: Mapping[str, str]) -> SessionList:
        found = await self.conversations()
        events = await self._store.read(self.events)
        current = self._forks.current.id
        sides = {each.id for each in found if each.topic is not None}
        lines = [each.line(current) for each in found]
        return session_list(self._clock.now(), lines, sides, events)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        wanted = SessionId(fields.get("id", ""))
        if action != RESUME or wanted not in [each.id for each in await self.conversations()]:
            return ViewAnswer(texts.SESSION_GONE, is_error=True)
        await self._queue_resume(surface, wanted)
        return ViewAnswer(go="/")

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "session", "fork", "session_history")

    async def _click(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        await self._queue_resume(surface, SessionId(button.data))
        return CommandAnswer()

    async def _queue_resume(self, surface: str, session: SessionId) -> None:
        """Go back to the session after the running turn."""
        await self._state.queue(RESUME, self._clock.now(), surface, {"id": session})

    @slash_command(
        130,
        "resume",
        "Go back to an earlier conversation",
        Argument("id", "words of it, or the start of its id", is_required=True, takes_rest=True),
        is_queued=True,
        completions={"id": "names"},
    )
    async def resume(self, call: CommandCall) -> CommandChange:
        """Make another session the main one; an open fork is left, as by `/clear`."""
        found, now = await self._found(call.arguments["id"].strip()), self._clock.now()
        words = f"of {self._when(found)}: “{found.words}”"

        def step(tx: Transaction) -> str:
            fork, main = tx.fork.get(), tx.session.get()
            if found.id == (main if fork is None else fork.session):
                return texts.SAME_CONVERSATION if fork is None else texts.SAME_FORK
            self._forks.leave(tx)
            if found.id != main:
                replace_session(tx, found.id, Cause.RESUMED, now)
            return f"Back in the conversation {words}.{left_words(fork)}"

        return CommandChange(step, after=self._forks.close)

    @slash_command(
        60,
        "search",
        "Find what was said, by its words",
        Argument(
            "words", "all must be there; a phrase in quotes", is_required=True, takes_rest=True
        ),
    )
    async def search(self, call: CommandCall) -> str:
        """The best matches, each with its place on the caller's surface if that is known."""
        wanted = Search(terms_of(call.arguments["words"]), limit=_FOUND + 1)

        def question(tx: Transaction) -> list[tuple[ChatMessage, str]]:
            found = [each.message for each in tx.messages.search(wanted)]
            places = [tx.deliveries.refs(each.id).get(call.surface, ()) for each in found]
            return [(one, next(iter(refs), "")) for one, refs in zip(found, places, strict=True)]

        found, now = await self._store.read(question), self._clock.now()
        if not found:
            return "Nothing was said with these words."
        lines = await asyncio.to_thread(
            lambda: [_found_line(message, place, wanted.terms, now) for message, place in found]
        )
        more = ["There are more. A further word narrows it down."] if len(found) > _FOUND else []
        return "\n".join([*lines[:_FOUND], *more])

    async def names(self) -> Sequence[str]:
        """The beginning of each id, with the first words of the conversation."""
        stored = (await self.conversations())[:_LISTED]
        return [f"{each.id[:8]} {each.words}".strip() for each in stored]

    async def _found(self, words: str) -> _Conversation:
        """The conversation by the beginning of its id, or else by its words."""
        stored, prefix = await self.conversations(), words.partition(" ")[0].lower()
        if len(prefix) >= 4:
            by_id = [each for each in stored if each.id.startswith(prefix)]
            if len(by_id) == 1:
                return by_id[0]
        by_words = [each for each in stored if words.lower() in each.words.lower()]
        if not by_words:
            raise WrongInput(f"There is no conversation `{words}`. `/sessions` shows them.")
        if len(by_words) > 1:
            raise WrongInput(f"Several conversations have `{words}`. Choose one in `/sessions`.")
        return by_words[0]

    def events(self, tx: Transaction) -> Sequence[SessionEvent]:
        """All events of sessions, in order."""
        return self._history.events(tx.session_history)

    async def conversations(self) -> Sequence[_Conversation]:
        """Sessions in which the owner talked; background runs are left out.

        A session without words of the owner shows those of the session it branched off from.
        """
        stored = await self._engine.sessions(self._folder, 200)
        prompts = {each.id: each.first_prompt for each in stored}

        def question(tx: Transaction) -> list[_Conversation]:
            events = self.events(tx)
            background = {event.session_id for event in events if event.event in _BACKGROUND}
            parents = {event.session_id: event.parent_session_id for event in events}
            forks = {e.session_id for e in events if e.event is SessionChange.INTERACTIVE_FORK}
            found = []
            for each in stored:
                words = _spoken(tx, each.id, prompts, parents)
                story = story_of_fork(tx, each.id) if each.id in forks else None
                answers = tx.messages.count_of_session(each.id)
                found.append(_Conversation.of(each, words, story, answers))
            return [each for each in found if each.id not in background]

        return await self._store.read(question)

    def _when(self, conversation: _Conversation) -> str:
        return describe(conversation.at.replace(second=0, microsecond=0), self._clock.now())


def _found_line(message: ChatMessage, place: str, terms: Sequence[Term], now: datetime) -> str:
    when = describe(message.at.replace(second=0, microsecond=0), now)
    linked = f"[{when}]({LINK}{place})" if place else when
    parts = (
        f"**{literal(part.text)}**" if part.is_match else literal(part.text)
        for part in excerpt(message.text, terms, 160)
    )
    speakers = {Speaker.OWNER: "you", Speaker.JOB: message.job or "a job"}
    speaker = speakers.get(who_spoke(message.author), "bot")
    return f"- {linked}, {literal(speaker)}: {''.join(parts)}"


def _spoken(
    tx: Transaction,
    session: SessionId,
    prompts: Mapping[SessionId, str],
    parents: Mapping[SessionId, SessionId | None],
) -> str:
    """The owner's first words in the session or its nearest ancestor, or a job's title."""
    seen: set[SessionId] = set()
    at: SessionId | None = session
    while at is not None and at not in seen:
        seen.add(at)
        words = tx.messages.opening_of(at) or first_words(prompts.get(at, ""))
        if words:
            return one_line(words, _LONGEST_TOPIC)
        at = parents.get(at)
    return ""


_EMPTY = "There are no conversations yet. Write a message, and the first one stands here."
_NO_WORDS = "no words yet"
_LONGEST_SHOWN = 300


@joined_parts
def sessions_html(listed: SessionList, most: int) -> Iterator[str]:
    """The main conversations, those beside them, and what was shortened, `most` of each."""
    yield "<h2>Sessions</h2>"
    if not listed.main and not listed.side:
        yield f'<p class="empty">{_EMPTY}</p>'
    main = [_session(each, listed.now) for each in listed.main[:most]]
    side = [_session(each, listed.now) for each in listed.side[:most]]
    compactions = [_compaction(each, listed.now) for each in listed.compactions[:most]]
    parts = (
        ("main", "Conversations", main),
        ("side", "Side conversations", side),
        ("compactions", "Compactions", compactions),
    )
    for name, heading, lines in parts:
        yield list_section(f"sessions-{name}", heading, lines)
    lists = (listed.main, listed.side, listed.compactions)
    yield show_more(sum(max(0, len(each) - most) for each in lists))


def _session(line: SessionLine, now: datetime) -> str:
    notes = [counted(line.answers, "answer")] if line.answers else []
    notes += ["this one"] if line.is_current else []
    back_to = None if line.is_current else line.id
    return _line(line, " · ".join(notes), back_to, "Go back to it", now)


def _compaction(line: CompactionLine, now: datetime) -> str:
    note = "shortened to a summary" if line.before else "shortened to a summary, in place"
    return _line(line, note, line.before, "Go back before it", now)


def _line(
    line: SessionLine | CompactionLine,
    note: str,
    back_to: SessionId | None,
    label: str,
    now: datetime,
) -> str:
    words, button = shortened(line.words, _LONGEST_SHOWN) or _NO_WORDS, ""
    if back_to:
        button = (
            f'<div class="buttons"><button type="button" data-action="resume" '
            f'data-field-id="{escape(back_to)}" aria-label="{escape(f"{label}: {words}")}">'
            f"{label}</button></div>"
        )
    return (
        f'<li class="thing"><p>{time_html(line.at, describe(line.at, now), "about")} '
        f'<bdi class="what">{escape(words)}</bdi>{about(note)}</p>{button}</li>'
    )


PAGES = (ViewPage("sessions", "Sessions", sessions_html, "s"),)

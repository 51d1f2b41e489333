"""What the slash commands do, but for those that another part of the conversation answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from uuid import uuid4

from ollim_bot import __version__
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError, WrongInput
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import counted, literal, nearest, one_line, shortened
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.approvals import Approvals, CarefulTimes
from ollim_bot.kernel.conversation.buttons import Action, Uses
from ollim_bot.kernel.conversation.chat_sessions import leave_session, replace_session
from ollim_bot.kernel.conversation.fork_commands import Forks
from ollim_bot.kernel.conversation.message_poster import CommandChange, MessagePoster, answer_name
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.conversation.turn_runner import TurnRunner
from ollim_bot.kernel.prompts.turn_prompts import first_words
from ollim_bot.kernel.store.message_log import LoggedMessage
from ollim_bot.kernel.store.session_history import KeptHistory
from ollim_bot.kernel.store.steps import end_clear_undo, set_by_owner, story_of_fork
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import OF_SET_UP, ChatMessage
from ollim_bot.kernel.values.commands import LINK, Argument, CommandAnswer, slash_command
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.events import EndCause
from ollim_bot.kernel.values.forks import Fork, ForkStory
from ollim_bot.kernel.values.inbox import CommandCall, InputId
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    IncomingMessage,
    JobRepositories,
    Status,
    StoredSession,
)
from ollim_bot.kernel.values.run_history import History, RunStory, part_in_words
from ollim_bot.kernel.values.run_words import in_words, reason
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, PermissionMode, RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.search import Search, Speaker, Term, excerpt, terms_of, who_spoke
from ollim_bot.kernel.values.session_list import (
    SessionLine,
    SessionList,
    answers,
    began_at,
    compacted_history,
    percent_used,
    session_list,
    thousands,
)
from ollim_bot.kernel.values.sessions import Cause, ClearedConversation, SessionChange, SessionEvent
from ollim_bot.kernel.values.travel import zone_answer
from ollim_bot.kernel.values.usage import Price, UsageRow
from ollim_bot.kernel.values.view_ports import ActingView
from ollim_bot.kernel.values.views import ViewAnswer

UNDO_CLEAR = "undo_clear"


def _left(fork: Fork | None) -> str:
    """The sentence about the side conversation that was left; empty if there was none."""
    if fork is None:
        return ""
    about = f" about “{fork.topic}”" if fork.topic else ""
    return f" The side conversation{about} was left too."


class ConversationCommands:
    """The commands that stop a turn, or begin a new conversation and undo that."""

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        turns: TurnRunner,
        approvals: Approvals,
        forks: Forks,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._turns = turns
        self._approvals = approvals
        self._forks = forks
        self._poster = poster
        self._clock = clock
        self.actions: Mapping[str, Action] = {"undo:clear": Action(self._undo, Uses.NOTHING)}

    async def stop(self) -> bool:
        """Interrupt the running turn; False if none runs."""
        return await self._turns.interrupt()

    @slash_command(160, "interrupt", "Stop the answer that is being written")
    async def interrupt(self, _: CommandCall) -> str:
        return "" if await self.stop() else texts.NOTHING_RUNS

    @slash_command(
        150,
        "clear",
        "Begin a new conversation, with an Undo",
        is_queued=True,
        can_repeat=True,
        before="stop",
    )
    async def clear(self, call: CommandCall) -> CommandChange:
        grants = await self._store.read(lambda tx: tx.grants.get())
        await self._approvals.reset()
        now = self._clock.now()

        def step(tx: Transaction) -> str | Card:
            fork, session = self._forks.leave(tx), leave_session(tx, now)
            if fork is None and session is None:
                return texts.NOTHING_TO_CLEAR
            end_clear_undo(tx)
            tx.cleared.put(ClearedConversation(call.id, answer_name(call.id), session, now))
            tx.cleared_fork.put(fork)
            tx.cleared_grants.put(grants)
            kept = "The next message begins a new conversation; `/sessions` keeps the old one."
            undo = Button("Undo", "undo", f"clear:{call.id}")
            return Card("Cleared", f"{kept}{_left(fork)}", buttons=(undo,))

        return CommandChange(step, after=self._forks.close)

    async def _undo(self, surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Queue the return: a turn of the new conversation ends first."""
        key, now = button.data.removeprefix("clear:"), self._clock.now()
        if self._forks.open is not None:
            return CommandAnswer(texts.UNDO_IN_FORK, is_error=True)
        cleared = await self._store.read(lambda tx: tx.cleared.get())
        if not cleared.can_return(key, now):
            return CommandAnswer(texts.UNDO_TOO_LATE, is_error=True)
        await self._turns.interrupt()
        arguments = {"clear": key, "message": message.id}
        await self._state.queue(UNDO_CLEAR, now, surface, arguments)
        return CommandAnswer()

    async def undo_clear(self, call: CommandCall) -> CommandChange:
        """Return to the cleared session, with its grants and the fork that was left."""
        now = self._clock.now()

        def step(tx: Transaction) -> str | Card:
            cleared, since = tx.cleared.get(), tx.session.get()
            if cleared.id != call.arguments["clear"] or tx.fork.get() is not None:
                return ""
            if cleared.session is not None:
                replace_session(tx, cleared.session, Cause.RESUMED, now)
            if fork := tx.cleared_fork.get():
                self._forks.reopen(tx, fork, now)
            tx.grants.put(tx.cleared_grants.get())
            tx.cleared.put(ClearedConversation())
            tx.cleared_fork.put(None)
            tx.cleared_grants.put(Grants())
            message = tx.messages.get(MessageId(call.arguments["message"]))
            if message is not None:
                newer = "" if since is None else " What was said since is in `/sessions`."
                card = Card("Undone", f"You are back in the conversation as it was.{newer}")
                self._poster.add_to_log(tx, replace(message, text=card.text, card=card))
            return ""

        return CommandChange(step, after=self._forks.close)

    @slash_command(
        140,
        "compact",
        "Make the conversation shorter, keeping what matters",
        Argument("instructions", "what to keep, in your words", takes_rest=True),
        is_queued=True,
    )
    async def compact(self, call: CommandCall) -> str:
        session_id = self._forks.current.id
        if session_id is None:
            return texts.NOTHING_TO_COMPACT
        events = await self._store.read(lambda tx: tx.session_history.all())
        began = began_at(session_id, events) or self._clock.now()
        line = f"/compact {call.arguments.get('instructions', '')}".strip()
        turn, end = await self._turns.run_command(call.id, line)
        if end.failure is not None:
            return end.failure.sentence
        if turn.compacted is None:
            return texts.STOPPED if end.cause is EndCause.INTERRUPTED else texts.COMPACTED_NOTHING
        now = self._clock.now()
        logged = await self._store.read(lambda tx: tx.messages.since(began))
        messages = [each.message for each in logged]
        tokens = turn.compacted.tokens_before or 0
        return str(compacted_history(session_id, began, now, messages, tokens))


RESUME = "resume"

_LISTED = 10
_LEFT = "Side conversations that you left"
_LONGEST_TOPIC = 60
_FOUND = 5
_BACKGROUND = (SessionChange.BG_FORK, SessionChange.ISOLATED_BG)


_MORE_COSTS = "`ollim-bot cost` shows the month, by job and by model."


class InquiryCommands:
    """What was said, what ran, and what it has cost."""

    def __init__(self, store: Store, clock: Clock, price: Price) -> None:
        self._store = store
        self._clock = clock
        self._price = price

    @slash_command(220, "cost", "What today has cost, and how full the context is")
    async def cost(self, _: CommandCall) -> str:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

        def question(tx: Transaction) -> tuple[Sequence[UsageRow], Sequence[LoggedMessage]]:
            return tx.usage.since(midnight), tx.messages.since(midnight)

        rows, logged = await self._store.read(question)
        messages = [each.message for each in logged]
        said = sum(each.spent is not None for each in answers(messages))
        runs = len({row.occurrence for row in rows if row.kind.is_background})
        number = counted(said, "answer")
        if runs:
            number += f" and {counted(runs, 'background run')}"
        today = Amount.of(rows) if rows else Amount(prices=frozenset({self._price}))
        more = f" {_MORE_COSTS}" if rows else ""
        last = next((each.spent for each in reversed(messages) if each.spent), None)
        percent, full = percent_used(last.context, last.window) if last else None, ""
        if last is not None and percent is not None:
            full = f" The context is {percent}% full ({thousands(last.context)} tokens)."
        return f"Today: {number}, {today.in_words()}.{full}{more}"

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

    @slash_command(50, "runs", "What ran by itself, and what came of it")
    async def runs(self, _: CommandCall) -> str:
        rows = await self._store.read(lambda tx: tx.ledger.tail(400))
        found = History.of(rows).newest_first
        stories = [story for story in found if story.state is not OccurrenceState.PLANNED]
        if not stories:
            return "Nothing has run yet."
        now = self._clock.now()
        lines = [_job_line(story, now) for story in stories[:10]]
        return "\n".join([*lines, "`ollim-bot runs` in a terminal shows more."])


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
            return f"Back in the conversation {words}.{_left(fork)}"

        return CommandChange(step, after=self._forks.close)

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


# The label of the welcome's button, which the log also shows as the owner's message.
SET_UP = "Set up"


_HOW_TO_CHANGE = "`/config KEY VALUE` changes one, `/config KEY` says what it takes."
_BUILT_IN_ANSWERS = "The built-in model answers until a real one is connected."
_KNOWN_MODELS = ("opus", "sonnet", "haiku", "default", "none")


class SettingCommands:
    """`default_zone` is the time zone while the configuration names none.

    `status` is what the surfaces show.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        clock: Clock,
        default_zone: tzinfo,
        status: Callable[[], Status],
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._default_zone = default_zone
        self._status = status

    @slash_command(
        210,
        "config",
        "Show or change a setting",
        Argument("key", "which setting", tuple(CONFIG_KEYS)),
        Argument("value", "its new value", takes_rest=True),
    )
    async def config(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "key" not in arguments:
            config = await self._read()
            lines = [f"- {_line(config, key)}" for key in CONFIG_KEYS]
            return "\n".join([*lines, "", _HOW_TO_CHANGE])
        key = arguments["key"].replace("-", "_")
        if key not in CONFIG_KEYS:
            meant = nearest(key, CONFIG_KEYS)
            hint = f"Did you mean `{meant}`?" if meant else "`/config` shows them all."
            raise WrongInput(f"There is no setting `{arguments['key']}`. {hint}")
        if "value" not in arguments:
            config = await self._read()
            return f"{_line(config, key)}.\nIt takes {CONFIG_KEYS[key].takes}."
        return await self.change(Changer.CHAT, key, arguments["value"])

    @slash_command(
        170,
        "model",
        "Which model answers",
        Argument("name", "opus, sonnet, haiku, default, or a full model id", _KNOWN_MODELS[:-1]),
    )
    async def model(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "name" not in arguments:
            config, status = await self._read(), self._status()
            model = "" if status.model == "default" else f", with {status.model}"
            who = _BUILT_IN_ANSWERS if status.is_offline else f"{status.provider} answers{model}."
            takes = CONFIG_KEYS["model.main"].takes
            return f"{who} Model: {config.in_words('model.main')}. It takes {takes}."
        told = await self.change(Changer.CHAT, "model.main", arguments["name"])
        if self._status().is_offline:
            return f"{told} {_BUILT_IN_ANSWERS}"
        is_known = arguments["name"].lower() in _KNOWN_MODELS
        return told if is_known else f"{told} It is taken as a full model id."

    @slash_command(
        180,
        "thinking",
        "How much the model thinks before it answers",
        Argument("mode", "off, adaptive, or a number of tokens", ("off", "adaptive", "4000")),
    )
    async def thinking(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "mode" not in arguments:
            config = await self._read()
            takes = CONFIG_KEYS["thinking.main"].takes
            return f"Thinking: {config.thinking_main}. It takes {takes}."
        return await self.change(Changer.CHAT, "thinking.main", arguments["mode"])

    async def _read(self) -> RuntimeConfig:
        return await self._store.read(lambda tx: tx.config.get())

    async def change(self, by: Changer, key: str, value: str | None) -> str:
        """Set it, or its default for None, and say what has changed; raises `WrongInput`."""
        if key == "timezone":
            return await self._set_zone(by, value)

        def step(tx: Transaction) -> tuple[str, str]:
            config = tx.config.get()
            wanted = config.defaults.in_words(key) if value is None else value
            changed = set_by_owner(tx, by, key, wanted)
            return config.in_words(key), changed.in_words(key)

        old, new = await self._store.transact(step)
        return f"{key} is {new} already." if old == new else f"{key} is now {new} (it was {old})."

    async def _set_zone(self, by: Changer, value: str | None) -> str:
        jobs: list[ScheduledJob] = []

        def read() -> None:
            # An unreadable repository must not prevent the change.
            with suppress(StorageError):
                jobs.extend(one.item for one in self._repositories.routines.all())
                jobs.extend(one.item for one in self._repositories.reminders.all())

        await asyncio.to_thread(read)
        now = self._clock.now()

        def step(tx: Transaction) -> str:
            config = set_by_owner(tx, by, "timezone", value)
            return zone_answer(jobs, now, config.timezone, self._default_zone, tx.ledger.has)

        return await self._store.transact(step)

    @slash_command(
        200,
        "ping-budget",
        "How often the bot may speak up by itself",
        Argument("capacity", "how many pings at most"),
        Argument("refill_rate", "minutes until one more"),
    )
    async def ping_budget(self, call: CommandCall) -> str:
        """Set the given limits and show all of them; raises `WrongInput`."""
        arguments = call.arguments
        now = self._clock.now()

        def after(budget: PingBudget) -> PingBudget:
            if not arguments:
                return budget.refilled(now)
            capacity = _number(arguments.get("capacity"), budget.capacity)
            rate = _number(arguments.get("refill_rate"), budget.refill_rate_minutes)
            return budget.resized(now, capacity=capacity, refill_rate_minutes=rate)

        budget = await self._store.transact(lambda tx: tx.budget.change(after))
        many = "1 ping" if budget.capacity == 1 else f"{budget.capacity} pings"
        limits = f"It holds {many} at most, and gets one more every"
        return f"{budget.full_status(now)}\n{limits} {budget.refill_rate_minutes} min."


def _line(config: RuntimeConfig, key: str) -> str:
    mark = " (changed)" if key in config.changed() else ""
    return f"`{key}` {config.shown(key)}{mark}: {CONFIG_KEYS[key].about}"


_MEANS: Mapping[PermissionMode, str] = {
    PermissionMode.DONT_ASK: "what is not allowed beforehand is refused",
    PermissionMode.DEFAULT: "you are asked about what is not allowed beforehand",
    PermissionMode.ACCEPT_EDITS: "files are written without asking, you are asked about the rest",
    PermissionMode.BYPASS: "nothing is asked, only what is out of reach always is refused",
}
_BY_NAME: Mapping[str, PermissionMode] = {mode.lower(): mode for mode in PermissionMode}


class PermissionCommands:
    def __init__(self, approvals: Approvals, careful: CarefulTimes) -> None:
        self._approvals = approvals
        self._careful = careful

    @slash_command(
        190,
        "permissions",
        "When the agent wants a tool you have not allowed",
        Argument("mode", "how it is decided, for now", tuple(PermissionMode)),
    )
    async def permissions(self, call: CommandCall) -> str:
        """Set the given mode, or show the current one; raises `WrongInput`.

        A card shows what makes the conversation careful now, with the button that ends it.
        """
        arguments = call.arguments
        if "mode" in arguments:
            wanted = _BY_NAME.get(arguments["mode"].strip().lower())
            if wanted is None:
                known = ", ".join(PermissionMode)
                raise WrongInput(
                    f"There is no mode `{arguments['mode']}`. It takes one of {known}."
                )
            await self._approvals.set_mode(wanted)
            return (
                f"Mode: `{wanted}` ({_MEANS[wanted]}), until `/clear` or a restart. "
                f"`/config permission_mode {wanted}` sets it for good."
            )
        await self._careful.show(call)
        mode = await self._approvals.mode()
        granted = await asyncio.to_thread(self._approvals.granted)
        lines = [f"Mode: `{mode}` ({_MEANS[mode]}). It takes {', '.join(PermissionMode)}."]
        if granted:
            lines.append("You have allowed, until `/clear`:")
            lines += [f"- `{pattern}`" for pattern in granted]
        else:
            lines.append("You have allowed nothing with 🔓.")
        return "\n".join(lines)


def _number(word: str | None, before: int) -> int:
    """The number; 0, which is not a valid limit, for any other word."""
    if word is None:
        return before
    is_number = word.isascii() and word.isdecimal() and len(word) <= 9
    return int(word) if is_number else 0


@dataclass(frozen=True, slots=True)
class ProgramCommands:
    """`examine` looks at the installation; `restart_bot` and `update_bot` are for the whole bot.

    `newer_version` is one that is known to exist.
    """

    examine: Callable[[], Awaitable[str]]
    restart_bot: Callable[[], None]
    update_bot: Callable[[], Awaitable[str]]
    newer_version: Callable[[], Awaitable[str | None]]
    set_up_prompt: str
    receive: Callable[[IncomingMessage], Awaitable[ChatMessage]]

    @slash_command(90, "setup", "A few questions, one at a time, so that the bot knows you")
    async def set_up(self, call: CommandCall) -> str:
        """Ask the set-up questions, as a click on the button of the welcome does.

        Returns when the prompt is accepted. Raises `OllimError` if it cannot be stored.
        """
        name = InputId(f"{OF_SET_UP}{uuid4().hex}")
        await self.receive(IncomingMessage(name, call.surface, self.set_up_prompt, button=SET_UP))
        return ""

    @slash_command(230, "doctor", "Whether everything is as it should be, and what to do if not")
    async def doctor(self, _: CommandCall) -> str:
        return await self.examine()

    @slash_command(250, "update", "Put a newer version in place, after a backup, if it works")
    async def update(self, _: CommandCall) -> str:
        return await self.update_bot()

    @slash_command(240, "version", "Which version this is")
    async def version(self, _: CommandCall) -> str:
        present, newer = f"ollim-bot {__version__}", await self.newer_version()
        return f"{present}. {newer} is there; `/update` puts it in place." if newer else present

    @slash_command(260, "restart", "Stop the bot and start it again")
    async def restart(self, _: CommandCall) -> str:
        self.restart_bot()
        return texts.RESTARTING


def _job_line(story: RunStory, now: datetime) -> str:
    name, note = _short(story.title), _short(reason(story, now))
    state = in_words(story.state) if story.state else "begun"
    state = "delivered" if story.is_delivered else state
    fired = describe(story.fired.replace(second=0, microsecond=0), now)
    by_hand = ", by hand" if story.occurrence.manual else ""
    notes = "; ".join(each for each in (part_in_words(story.occurrence), note) if each)
    return f"- {fired}{by_hand}: {name}, {state}" + (f" ({notes})" if notes else "")


def _short(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return shortened(line, 120)

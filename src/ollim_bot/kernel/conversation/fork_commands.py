"""Forks, which the owner knows as side conversations: each is a branch with one of three ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import SessionLost, WrongInput
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, Uses, nothing
from ollim_bot.kernel.conversation.chat_sessions import (
    ChatSession,
    MainSession,
    Spec,
    replace_session,
)
from ollim_bot.kernel.conversation.message_poster import MessagePoster, context_of
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.prompts.prompt_context import READ_ONLY
from ollim_bot.kernel.store.message_log import MAIN, Sender
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.chat import Author, ChatMessage, as_number
from ollim_bot.kernel.values.commands import Argument, CommandAnswer, slash_command
from ollim_bot.kernel.values.digest import OF_DIGEST
from ollim_bot.kernel.values.forks import (
    TOPIC,
    Discard,
    Fork,
    ForkExit,
    ForkMessage,
    ForkStatus,
    IdleAction,
    Report,
    Save,
    end_id,
    end_title,
    entry_id,
    fork_of,
    lookup_fork_session,
)
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    ForkOrigin,
    InputId,
    OwnerMessage,
    ProgramTurn,
    ProgramTurnReason,
)
from ollim_bot.kernel.values.ports import AgentEngine, AgentSession, SessionSpec, Toolset
from ollim_bot.kernel.values.runs import EnterFork, Intent, Run, RunKind, RunPolicy
from ollim_bot.kernel.values.sessions import Cause, SessionChange, SessionEvent, fitting_model
from ollim_bot.kernel.values.taint import Taint, marked_taint, untrusted_message
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

SEPARATE = "What is said here stays separate from the main conversation."
ALREADY_OPEN = "You are in a side conversation already. Leave it first, or keep what it brought."
NOTHING_ANSWERED = "Nothing has been answered here yet, so there is nothing to keep."
EXPIRED = "this session has expired — starting fresh with quoted context"
LOST = "What was said here before could not be found, so this side conversation begins anew."
TAKEN_HERE = "You are in a side conversation, so your reply is taken here, with what it quotes."


def entry_card(fork: Fork, wanted_model: str | None) -> Card:
    lines = [f"{TOPIC}{_cut(fork.topic, 300)}" if fork.topic else SEPARATE]
    if fork.model is not None:
        lines.append(f"The history does not fit into {wanted_model}, so {fork.model} answers here.")
    return Card("Side conversation", "\n".join(lines), Color.PURPLE, buttons=ways_out(fork))


def ways_out(fork: Fork) -> tuple[Button, ...]:
    keep_all = Button("Keep all of it", "fork_save", style=ButtonStyle.SUCCESS)
    return (
        *([keep_all] if fork.may_become_main else []),
        Button("Keep a summary", "fork_report", style=ButtonStyle.PRIMARY),
        Button("Leave it", "fork_exit", style=ButtonStyle.DANGER),
    )


def end_card(how: ForkExit) -> Card:
    match how:
        case Save():
            text = "This is the main conversation now."
        case Report(summary):
            text = _cut(summary, 1000)
        case Discard():
            text = "You are back in the main conversation, which knows nothing of it."
    return Card(end_title(how), text, Color.PURPLE)


def confirm_card(fork: Fork) -> Card:
    return Card(
        "Keep all of this side conversation?",
        "It becomes the main conversation. The one before it stays in `/sessions`.",
        Color.PURPLE,
        buttons=(
            Button("Go on talking", "fork_save_dismiss", fork.id),
            Button("Keep all of it", "fork_save_confirm", fork.id, ButtonStyle.SUCCESS),
        ),
    )


def refused_card(fork: Fork, obstacle: str) -> Card:
    return Card(
        "Not kept yet",
        f"This side conversation cannot become the main one: {obstacle}. "
        "A summary of it can be kept instead.",
        Color.YELLOW,
        buttons=(Button("Keep a summary", "fork_report", fork.id, ButtonStyle.PRIMARY),),
    )


def _cut(text: str, longest: int) -> str:
    return shortened(" ".join(text.split()), longest)


_POLICY = RunPolicy(RunKind.FORK, MAIN_TOOLS)


def change_fork(tx: Transaction, change: Callable[[Fork], Fork]) -> None:
    """Change the open fork; without one, do nothing."""
    fork = tx.fork.get()
    if fork is not None:
        tx.fork.put(change(fork))


class ForkSession(ChatSession):
    """The session of the open fork; closed before another fork opens."""

    in_fork = True
    header = READ_ONLY

    def __init__(
        self,
        engine: AgentEngine,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        *,
        spec: Spec,
        tools: Toolset,
    ) -> None:
        super().__init__(engine, state, clock, spec=spec, tools=tools)
        self._poster = poster

    @property
    def id(self) -> SessionId | None:
        return self._state.fork.session if self._state.fork else None

    @property
    def resumed_at(self) -> datetime | None:
        fork = self._state.fork
        return fork.resumed_at if fork and fork.session is None else None

    def run_at(self, now: datetime, session: SessionId) -> Run:
        return Run(_POLICY, now, session=session, parent=self._fork.parent)

    def claim(self, tx: Transaction) -> PendingUpdates:
        """The updates new to the fork. They stay pending for the main session."""
        fork = tx.fork.get()
        return PendingUpdates() if fork is None else fork.unseen(tx.updates.get())

    def settle(self, tx: Transaction, claim: PendingUpdates, *, is_taken: bool) -> None:
        if is_taken:
            change_fork(tx, lambda fork: fork.having_seen(claim))

    def adopt(self, tx: Transaction, session_id: SessionId, now: datetime) -> None:
        fork = tx.fork.get()
        if fork is not None and fork.session is None:
            _name(tx, fork, session_id, now)

    def answering(self, tx: Transaction, message: ChatMessage) -> Sender:
        fork = tx.fork.get()
        if fork is None:
            return MAIN
        tx.fork.put(fork.answered(message.text))
        return Sender(fork=fork.session, parent=fork.parent)

    async def touch(self) -> None:
        now = self._clock.now()
        await self._state.transact(lambda tx: change_fork(tx, lambda fork: fork.touched(now)))

    def rest(self, tx: Transaction, now: datetime) -> None:
        change_fork(tx, lambda fork: fork.rested(now))

    def forgetting(self) -> Step[None]:
        if self._fork.session is None:
            return lambda _: None
        return self._losing(lambda fork: replace(fork, session=None))

    @property
    def _fork(self) -> Fork:
        assert self._state.fork is not None
        return self._state.fork

    async def _begin(self, spec: SessionSpec) -> AgentSession:
        parent = self._fork.parent
        try:
            return await self._enter(replace(spec, branch_of=parent))
        except SessionLost:
            if parent is None:
                raise
            # The fork loses its history, but the owner gets an answer.
            step = self._losing(lambda fork: replace(fork, resumed_at=None))
            await self._state.transact(step)
            return await self._enter(spec)

    async def _named(self, session_id: SessionId) -> None:
        if self._fork.session == session_id:
            return
        now = self._clock.now()

        def step(tx: Transaction) -> None:
            fork = tx.fork.get()
            if fork is not None:
                _name(tx, fork, session_id, now)

        await self._state.transact(step)

    async def _compacted(self, session_id: SessionId) -> None:
        now, change = self._clock.now(), SessionChange.COMPACTED

        def step(tx: Transaction) -> None:
            fork = tx.fork.get()
            if fork is not None:
                before = fork.session or session_id
                tx.session_history.append(SessionEvent(session_id, change, now, before))
                tx.marks.go_on(session_id, tx.marks.of_session(before))
                tx.fork.put(fork.named(session_id))

        await self._state.transact(step)

    def _losing(self, change: Callable[[Fork], Fork]) -> Step[None]:
        """Post a note in the fork, because a notice might wait until the fork has ended."""
        note = self._poster.note(LOST, name=f"fork-lost-{self._fork.id}")

        def step(tx: Transaction) -> None:
            self._poster.add_note(tx, note)
            change_fork(tx, change)

        return step


def _name(tx: Transaction, fork: Fork, session_id: SessionId, now: datetime) -> None:
    change = SessionChange.INTERACTIVE_FORK
    tx.session_history.append(SessionEvent(session_id, change, now, fork.parent))
    tx.fork.put(fork.named(session_id))


def fork_spec(base: Spec, store: Store) -> Spec:
    """The specification of the main session, with the model and the thinking of forks."""

    async def spec() -> SessionSpec:
        config, fork = await store.read(lambda tx: (tx.config.get(), tx.fork.get()))
        fork_model = fork.model if fork else None
        like_main = await base()
        return replace(
            like_main,
            model=fork_model or config.model_fork or like_main.model,
            thinking=config.thinking_fork,
        )

    return spec


class Forks:
    """Opens and ends the fork, of which at most one is open; `current` is the owner's session.

    A command that a crash cut off can be run again from its beginning, with the same ids.
    """

    def __init__(
        self,
        state: ConversationState,
        main: MainSession,
        session: ForkSession,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._state = state
        self._main = main
        self._session = session
        self._poster = poster
        self._clock = clock

    @property
    def open(self) -> Fork | None:
        return self._state.fork

    @property
    def current(self) -> ChatSession:
        return self._main if self._state.fork is None else self._session

    def spoken_in(self, *, in_fork: bool) -> ChatSession:
        """The session in which a turn was begun."""
        return self._session if in_fork and self.open is not None else self._main

    async def close(self) -> None:
        """End the engine's processes. The sessions can be opened again."""
        await self._session.close()
        await self._main.close()

    async def enter(
        self,
        fork_id: str,
        *,
        topic: str = "",
        idle_minutes: int | None = None,
        origin: ForkOrigin | None = None,
        first: ProgramTurn | None = None,
    ) -> None:
        """Open a fork of the main session, or of `origin`, unless a fork is open.

        `first` is the first turn of the fork.
        """
        now = self._clock.now()
        session, length = origin.session if origin else self._state.session, 0
        if session is not None:
            length = await self._state.read(lambda tx: context_of(tx, session))

        def step(tx: Transaction) -> None:
            config = tx.config.get()
            wanted = config.model_fork or config.model_main
            fitting = fitting_model(wanted, length) if wanted else None
            fork = tx.fork.get() or Fork(
                fork_id,
                session=None,
                main=tx.session.get(),
                topic=topic,
                idle_limit=timedelta(minutes=idle_minutes or config.fork_idle_timeout),
                last_activity=now,
                began=now,
                resumed_from=origin.session if origin else None,
                resumed_at=origin.at if origin else None,
                model=None if fitting == wanted else fitting,
            )
            tx.fork.put(fork)
            if first is not None:
                tx.inbox.append(Accepted(first.at, first))
            self._add_card(tx, entry_id(fork.id), entry_card(fork, wanted), now)

        await self._state.transact(step)

    async def end(self, how: ForkExit) -> None:
        """End the open fork, if there is one. The caller makes sure that a save is possible."""
        fork, now = self.open, self._clock.now()
        if fork is None:
            return
        await self._session.close()
        if isinstance(how, Save):
            await self._main.close()

        def step(tx: Transaction) -> None:
            self._set_entry(tx, fork, is_open=False)
            read = Taint()
            if isinstance(how, Report):
                # What the fork had read may be in its report.
                read = marked_taint(how.untrusted).having_read(*tx.marks.of(fork.session))
                update = PendingUpdate(now, how.summary, f"fork-{fork.id}", read.mark)
                leave_update(tx, update)
            elif isinstance(how, Save) and fork.session is not None:
                replace_session(tx, fork.session, Cause.SAVED, now)
            self._add_card(tx, end_id(fork.id), end_card(how), now, ended_after=read)
            tx.fork.put(None)

        await self._state.transact(step)

    def leave(self, tx: Transaction) -> Fork | None:
        """Close the open fork without a word about it, as a part of a larger step."""
        fork = tx.fork.get()
        if fork is not None:
            self._set_entry(tx, fork, is_open=False)
            tx.fork.put(None)
        return fork

    def reopen(self, tx: Transaction, fork: Fork, now: datetime) -> None:
        """Open a fork again that `leave` has closed."""
        self._set_entry(tx, fork, is_open=True)
        tx.fork.put(fork.touched(now))

    async def post_card(self, message_id: MessageId, card: Card) -> None:
        now = self._clock.now()
        await self._state.transact(lambda tx: self._add_card(tx, message_id, card, now))

    def _add_card(
        self,
        tx: Transaction,
        message_id: MessageId,
        card: Card,
        now: datetime,
        *,
        ended_after: Taint | None = None,
    ) -> None:
        """Post the card unless a message with its id exists.

        `ended_after` is what the fork had read, on the card at its end.
        """
        if tx.messages.get(message_id) is None:
            untrusted = untrusted_message(ended_after) if ended_after is not None else None
            in_fork = ended_after is None
            message = ChatMessage(message_id, now, Author.PROGRAM, card.text, card=card)
            message = replace(message, in_fork=in_fork, untrusted=untrusted)
            self._poster.add_to_log(tx, message)

    def _set_entry(self, tx: Transaction, fork: Fork, *, is_open: bool) -> None:
        """Give the entry card its buttons, or take them: the card at the end says what was done."""
        entry = tx.messages.get(entry_id(fork.id))
        if entry is None or entry.card is None:
            return
        buttons = ways_out(fork) if is_open else ()
        self._poster.add_to_log(tx, replace(entry, card=entry.card._replace(buttons=buttons)))


class Replies:
    """Routes a reply to a message of a fork or of a background run into a fork of its own."""

    def __init__(
        self,
        engine: AgentEngine,
        store: Store,
        state: ConversationState,
        forks: Forks,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._store = store
        self._state = state
        self._forks = forks
        self._clock = clock

    async def origin(self, reply_to: MessageId) -> ForkOrigin | None:
        """The fork or background run that sent the message; None for the main session."""

        def question(tx: Transaction) -> tuple[int | None, Sequence[ForkMessage]]:
            """The number under which a fork is known as the sender, and all that are known."""
            records, is_digest = tx.fork_messages.get(), reply_to.startswith(OF_DIGEST)
            logged = tx.messages.logged(reply_to) if is_digest else None
            # Only a digest with one line has a sender.
            if is_digest and (logged is None or logged.sender.fork is None):
                return None, records
            return as_number(reply_to.removeprefix(OF_DIGEST)), records

        number, records = await self._store.read(question)
        if number is None:
            return None
        now = self._clock.now()
        found = lookup_fork_session(records, number, now.timestamp())
        if found.record is None:
            return None
        sent = datetime.fromtimestamp(found.record.ts, now.tzinfo)
        is_expired = found.status is ForkStatus.EXPIRED
        return ForkOrigin(found.record.fork_session_id, sent, is_expired)

    async def route(self, replies: Sequence[OwnerMessage]) -> tuple[str, ...]:
        """Open a fork for a reply that needs one; returns notes for the owner."""
        notes: list[str] = []
        for message in replies:
            fork, origin = self._forks.open, message.origin
            if origin is None:
                continue
            if fork is not None:
                is_its_own = message.id == fork.id or origin.session == fork.session
                notes += [] if is_its_own else [TAKEN_HERE]
            elif origin.is_expired:
                notes.append(EXPIRED)
            elif origin.session != self._state.session and await self._engine.knows(origin.session):
                # One that once became the main conversation has no fork of its own either.
                events = await self._store.read(lambda tx: tx.session_history.all())
                swapped = {e.session_id for e in events if e.event is SessionChange.SWAPPED}
                if origin.session not in swapped:
                    await self._forks.enter(message.id, origin=origin)
        return tuple(dict.fromkeys(notes))


ENTER, SAVE, REPORT, EXIT, IDLE = "fork", "fork_save", "fork_report", "fork_exit", "fork_idle"

_NOBODY = ""


class ForkRequests:
    """Queues commands about forks in the inbox, also that of a fork at its idle limit."""

    def __init__(self, state: ConversationState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def put(self, name: str, *, surface: str = _NOBODY, **arguments: str) -> None:
        await self._state.queue(name, self._clock.now(), surface, arguments)

    async def want(self, intent: Intent) -> None:
        """Queue what the agent asked for, to run after the agent's current turn."""
        if isinstance(intent, EnterFork):
            idle = {} if intent.idle_minutes is None else {"idle_minutes": str(intent.idle_minutes)}
            await self._put_unless_waiting(ENTER, topic=intent.topic, **idle)
            return
        fork = self._state.fork
        if fork is None:
            return
        match intent:
            case Save():
                await self.put(SAVE, fork=fork.id, is_asked="yes")
            case Report(summary, untrusted):
                await self.put(REPORT, fork=fork.id, summary=summary, untrusted=untrusted)
            case Discard():
                await self.put(EXIT, fork=fork.id)

    def call(
        self, name: InputId, command: str, surface: str = _NOBODY, **arguments: str
    ) -> CommandCall:
        return CommandCall(name, surface, self._clock.now(), command, arguments)

    async def _put_unless_waiting(self, name: str, **arguments: str) -> None:
        call = self.call(InputId(uuid4().hex), name, **arguments)

        def step(tx: Transaction) -> None:
            waiting = tx.inbox.get().waiting
            if not any(isinstance(each, CommandCall) and each.name == name for each in waiting):
                tx.inbox.append(Accepted(call.at, call))

        await self._state.transact(step)

    async def run(self) -> None:
        """Queue the command for a fork at its idle limit, once no turn runs; until cancelled."""

        async def next_fork() -> None:
            """Wait until the open fork, or a field of it, has changed."""
            before = self._state.fork
            while self._state.fork == before:
                await self._state.changed.wait()

        while True:
            change = asyncio.ensure_future(next_fork())
            alarm = asyncio.ensure_future(self._alarm())
            try:
                await asyncio.wait({change, alarm}, return_when=asyncio.FIRST_COMPLETED)
                if alarm.done():
                    alarm.result()
                    await change
            finally:
                change.cancel()
                alarm.cancel()

    async def _alarm(self) -> None:
        fork = self._state.fork
        if fork is None:
            await asyncio.Event().wait()
            return
        while fork.verdict(now := self._clock.now()) is IdleAction.KEEP:
            if fork.last_activity > now:
                # The clock was set back, which must not prolong the fork.
                await self._state.transact(
                    lambda tx: change_fork(tx, lambda fork: fork.rested(tx.now))
                )
                return
            await self._clock.sleep(max(fork.remaining(now).total_seconds(), 0.001))
        while not self._state.is_quiet:
            await self._clock.sleep(5.0)
        await self._put_unless_waiting(IDLE, fork=fork.id)


class ForkCommands:
    """Runs the commands about forks, and answers the buttons of their cards.

    A command that names a fork that is not open does nothing. `stop` ends the answer that is being
    written.
    """

    def __init__(
        self,
        forks: Forks,
        requests: ForkRequests,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._forks = forks
        self._requests = requests
        self._state = state
        self._poster = poster
        self._clock = clock
        self._stop = stop
        self.steps: Mapping[str, Callable[[CommandCall], Awaitable[str]]] = {
            SAVE: self._save,
            REPORT: self._report,
            EXIT: self._exit,
            IDLE: self._look,
        }
        self.actions: Mapping[str, Action] = {
            "fork_save": Action(self._putting(SAVE), Uses.NOTHING),
            "fork_report": Action(self._putting(REPORT), Uses.NOTHING),
            "fork_exit": Action(self._press_exit, Uses.NOTHING),
            "fork_save_confirm": Action(self._putting(SAVE), Uses.ALL),
            "fork_save_dismiss": Action(nothing, Uses.ALL),
        }

    @slash_command(
        110,
        "fork",
        "Begin a side conversation, apart from the main one",
        Argument("topic", "what it is about", takes_rest=True),
        is_queued=True,
        can_repeat=True,
    )
    async def enter(self, call: CommandCall) -> str:
        fork = self._forks.open
        if fork is not None and fork.id != call.id:
            raise WrongInput(ALREADY_OPEN)
        topic = " ".join(call.arguments.get("topic", "").split())
        idle = call.arguments.get("idle_minutes")
        first = self._turn(call, call.id, ProgramTurnReason.FORK_STARTED, topic)
        minutes = int(idle) if idle else None
        await self._forks.enter(call.id, topic=topic, idle_minutes=minutes, first=first)
        return ""

    async def _save(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        if obstacle := fork.obstacle_to_saving(self._state.session):
            card = refused_card(fork, obstacle)
            await self._forks.post_card(MessageId(f"fork-refused-{call.id}"), card)
        elif "is_asked" in call.arguments:
            card = confirm_card(fork)
            await self._forks.post_card(MessageId(f"fork-confirm-{call.id}"), card)
        else:
            await self._forks.end(Save())
        return ""

    async def _report(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        if report := _report_in(call.arguments):
            await self._forks.end(report)
        elif "is_last" in call.arguments:
            # The agent's newest summary, from a waiting report command or from the fork.
            calls = (each for each in self._state.inbox.waiting if isinstance(each, CommandCall))
            asked = (call.arguments for call in calls if call.name == REPORT)
            about_it = (_report_in(given) for given in asked if given.get("fork") == fork.id)
            await self._forks.end(next(filter(None, about_it), Report(fork.summary)))
        elif not fork.has_answered:
            raise WrongInput(NOTHING_ANSWERED)
        elif not any(
            isinstance(each, ProgramTurn) and each.occasion is ProgramTurnReason.FORK_REPORT
            for each in self._state.inbox.waiting
        ):
            turn = self._turn(call, fork.id, ProgramTurnReason.FORK_REPORT)
            name = InputId(f"last-{call.id}")
            last = self._requests.call(name, REPORT, fork=fork.id, is_last="yes")
            # Queue the end at once, so that the fork ends even if the agent leaves no summary.
            await self._state.append(Accepted(turn.at, turn), Accepted(last.at, last))
        return ""

    async def _exit(self, call: CommandCall) -> str:
        if self._named(call) is not None:
            await self._forks.end(Discard())
        return ""

    async def _look(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        now = self._clock.now()
        match fork.verdict(now):
            case IdleAction.PROMPT:
                minutes = max(1, int(fork.idle_limit.total_seconds() // 60))
                span = "a minute" if minutes == 1 else f"{minutes} minutes"
                said = f"Nothing was said here for {span}. After {span} more, a summary is kept"
                note = self._poster.note(f"{said} and it ends.", name=f"fork-idle-{call.id}")
                turn = self._turn(call, fork.id, ProgramTurnReason.FORK_IDLE)

                def prompt(tx: Transaction) -> None:
                    self._poster.add_note(tx, note)
                    tx.inbox.append(Accepted(turn.at, turn))
                    change_fork(tx, lambda fork: fork.prompted(now))

                await self._state.transact(prompt)
            case IdleAction.CLOSE:
                await self._forks.end(Report(fork.summary))
            case IdleAction.KEEP:
                pass
        return ""

    def _named(self, call: CommandCall) -> Fork | None:
        fork = self._forks.open
        return fork if fork is not None and fork.id == call.arguments.get("fork") else None

    def _turn(
        self, call: CommandCall, fork: str, occasion: ProgramTurnReason, topic: str = ""
    ) -> ProgramTurn:
        name = InputId(f"{occasion}-{call.id}")
        return ProgramTurn(name, _NOBODY, self._clock.now(), occasion, fork, topic)

    def _putting(
        self, command: str
    ) -> Callable[[str, ChatMessage, Button], Awaitable[CommandAnswer]]:
        async def put(surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
            fork = self._state.fork
            if fork is None or fork.id != (button.data or fork_of(message.id)):
                return CommandAnswer(texts.BUTTON_USED, is_error=True)
            await self._requests.put(command, surface=surface, fork=fork.id)
            return CommandAnswer()

        return put

    async def _press_exit(
        self, surface: str, message: ChatMessage, button: Button
    ) -> CommandAnswer:
        """Leave at once, except before the first answer: that answer is waited for."""
        answer = await self._putting(EXIT)(surface, message, button)
        fork = self._state.fork
        if not answer.is_error and fork is not None and fork.has_answered:
            await self._stop()
        return answer


def _report_in(given: Mapping[str, str]) -> Report | None:
    summary = given.get("summary")
    return Report(summary, given.get("untrusted", "")) if summary else None

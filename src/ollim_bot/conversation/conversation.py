"""The conversation: one inbox, one order; whoever wants something of the bot is received here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ollim_bot.conversation import texts
from ollim_bot.conversation.approvals import Approvals
from ollim_bot.conversation.buttons import ButtonRouter
from ollim_bot.conversation.chat_log import ChatLog
from ollim_bot.conversation.commands.dispatcher import CommandDispatcher
from ollim_bot.conversation.commands.table import COMMANDS
from ollim_bot.conversation.delivery_queues import DeliveryQueues
from ollim_bot.conversation.forks.forks import Forks, Replies
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.sessions.main_session import MainSession
from ollim_bot.conversation.status_board import StatusBoard
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.conversation.turns.questions import TurnInput, TurnInputs
from ollim_bot.conversation.turns.recovery import Recovery
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer, CommandSpec
from ollim_bot.domain.inbox import Accepted, Edited, Ended, InputEnd
from ollim_bot.domain.inputs import CommandCall, InputId, OwnerMessage, ProgramTurn, TurnRequest
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import StorageError, WrongInput
from ollim_bot.ports import AttachmentStore, Clock, IncomingMessage, LogChange, Status, Store
from ollim_bot.store.messages import LoggedMessage
from ollim_bot.store.store import Store as StateStore
from ollim_bot.store.transaction import Transaction

# How many seconds pass before a disk that refused is tried again.
_PAUSE = 5.0

_logger = logging.getLogger(__name__)


class Conversation:
    """An actor, and the `ChatService` of the surfaces. Only `interrupt` goes round the line."""

    def __init__(
        self,
        *,
        inbox: DurableInbox,
        poster: MessagePoster,
        deliveries: DeliveryQueues,
        chat: ChatLog,
        fanout: SurfaceFanout,
        store: StateStore,
        session: MainSession,
        forks: Forks,
        replies: Replies,
        answering: TurnRunner,
        approvals: Approvals,
        recovery: Recovery,
        questions: TurnInputs,
        desk: CommandDispatcher,
        clicks: ButtonRouter,
        notices: Notices,
        keeper: AttachmentStore,
        clock: Clock,
        config: Store[RuntimeConfig],
        status: Status,
    ) -> None:
        self._inbox = inbox
        self._poster = poster
        self._deliveries = deliveries
        self._store = store
        self._fanout = fanout
        self._chat = chat
        self._session = session
        self._forks = forks
        self._replies = replies
        self._answering = answering
        self._approvals = approvals
        self._recovery = recovery
        self._questions = questions
        self._desk = desk
        self._clicks = clicks
        self._notices = notices
        self._keeper = keeper
        self._clock = clock
        self._board = StatusBoard(
            fanout,
            config,
            status,
            is_busy=lambda: self.is_busy,
            fork=lambda: forks.shown,
            unkept=lambda: notices.unkept,
        )
        notices.shown_by(self._board.tell)
        self._is_ending = False
        # Whoever brings in, changes or takes a message: none of them sees another half-way.
        self._door = asyncio.Lock()

    @property
    def commands(self) -> Sequence[CommandSpec]:
        return COMMANDS

    @property
    def is_busy(self) -> bool:
        return self._inbox.state.is_busy

    @property
    def status(self) -> Status:
        return self._board.current

    async def load(self) -> None:
        """Read what is on disk; what was accepted before is then in line again."""
        await self._fanout.load()
        await self._inbox.load()
        await self._session.load()
        await self._forks.load()
        await self._load_deliveries()
        await self._clicks.load(self._inbox.state)
        await self._approvals.load(await self._chat.with_open_button("approve"))
        await self._notices.load()
        for waiting in (*self._inbox.state.taken, *self._inbox.state.waiting):
            if isinstance(waiting, OwnerMessage):
                await self._show_again(waiting)

    async def _load_deliveries(self) -> None:
        try:
            await self._deliveries.load()
        except StorageError:  # a start must not fail for want of room
            _logger.warning("The channels could not be noted", exc_info=True)

    async def _show_again(self, waiting: OwnerMessage) -> None:
        """What was accepted before a crash and is not in the log yet."""
        message = _shown(waiting)
        if await self._chat.find(message.id) is not None:
            return
        try:
            await self._poster.receive(message, waiting.surface, {})
        except StorageError:  # a start must not fail for want of room
            _logger.warning("A message has no place in the log yet", exc_info=True)
            self._poster.put_up(message)

    async def run(self) -> None:
        """Take one input after the other, until cancelled or told to end."""
        while not self._is_ending:
            try:
                await self._work()
            except StorageError as error:  # a full disk, say: what was accepted waits there
                _logger.exception("The conversation stands still")
                key = f"{error} {self._clock.now():%Y-%m-%d}"
                await self._notices.tell(str(error), key=key)
                await self._clock.sleep(_PAUSE)

    @property
    def is_idle(self) -> bool:
        return self._answering.is_idle

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and nothing waits that could run now."""
        in_fork = self._forks.open is not None
        return self.is_idle and not self._inbox.state.next_batch(in_fork=in_fork)

    def end_soon(self) -> None:
        """Take nothing more: `run` returns when what runs now has ended."""
        self._is_ending = True

    async def receive(self, message: IncomingMessage) -> ChatMessage:
        # Not to be stopped half-way by a surface that gives up: it may stand in the inbox by then.
        return await asyncio.shield(asyncio.ensure_future(self._receive(message)))

    async def edit(self, input_id: InputId, text: str) -> bool:
        async with self._door:
            if not self._waits(input_id):
                return False
            await self._inbox.append(Edited(self._clock.now(), input_id, text))
            known = await self._chat.find(MessageId(input_id))
            if known is not None:
                await self._poster.post(replace(known, text=text))
        return True

    async def withdraw(self, input_id: InputId) -> bool:
        async with self._door:
            if not self._waits(input_id):
                return False
            await self._inbox.append(Ended(self._clock.now(), (input_id,), InputEnd.WITHDRAWN))
        await self._board.tell()
        return True

    async def command(self, surface: str, line: str) -> CommandAnswer:
        answer = await self._desk.call(surface, line)
        await self._board.tell()
        return answer

    async def click(self, surface: str, message_id: MessageId, custom_id: str) -> CommandAnswer:
        return await self._clicks.click(surface, message_id, custom_id)

    async def interrupt(self) -> bool:
        return await self._answering.interrupt()

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        return await self._desk.completions(command, argument, typed)

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        found = await self._chat.page(limit, before)
        return found if before is not None else [*found, *self._poster.unkept][-limit:]

    async def message(self, message_id: MessageId) -> ChatMessage | None:
        return await self._chat.find(message_id)

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        return await self._deliveries.by_ref(surface, ref)

    async def by_refs(self, surface: str, newest: int) -> Mapping[str, ChatMessage]:
        return await self._deliveries.by_refs(surface, newest)

    async def caught_up(self, surface: str) -> None:
        await self._deliveries.caught_up(surface)

    async def place_of(self, message_id: MessageId) -> int | None:
        found = await self._store.read(lambda tx: tx.messages.logged(message_id))
        return None if found is None else found.seq

    async def trouble(self, sentence: str) -> None:
        await self._board.trouble(sentence)
        if not sentence:
            self._deliveries.nudge()

    async def last_change(self) -> int:
        return await self._store.read(lambda tx: tx.messages.last_change())

    async def changes_since(self, change: int, limit: int) -> Sequence[LogChange] | None:
        def changes(tx: Transaction) -> tuple[int, list[LoggedMessage]]:
            return tx.messages.last_change(), tx.messages.since_change(change, limit + 1)

        last, found = await self._store.read(changes)
        if change > last or len(found) > limit:
            return None
        unkept = [LogChange(each, 0) for each in self._poster.unkept]
        return [*(LogChange(each.message, each.change) for each in found), *unkept]

    async def _work(self) -> None:
        await self._recovery.run()
        await self._be_quiet()
        while not self._is_ending:
            await self._forks.current.be_ready()
            await self._inbox.work(in_fork=lambda: self._forks.open is not None)
            await self._take_next()
            await self._be_quiet()

    async def _be_quiet(self) -> None:
        """Nothing runs now: what waited for that may be said."""
        self._notices.nudge()
        await self._board.tell()

    async def _take_next(self) -> None:
        async with self._door:
            batch = self._inbox.state.next_batch(in_fork=self._forks.open is not None)
        # Nothing is awaited until a turn has begun: who comes after this finds one to interrupt.
        for command in (each for each in batch if isinstance(each, CommandCall)):
            await self._desk.run(command)
        asked = tuple(each for each in batch if not isinstance(each, CommandCall))
        if any(self._is_over(each) for each in asked):
            await self._answering.end(asked, InputEnd.WITHDRAWN)
        elif asked and await self._answering.ask(asked, self._question(asked)):
            await self._recovery.run()

    def _is_over(self, asked: TurnRequest) -> bool:
        """Whether it was about a fork that is not open any more."""
        fork = self._forks.open
        return isinstance(asked, ProgramTurn) and (fork is None or asked.fork != fork.id)

    async def _question(self, asked: tuple[TurnRequest, ...]) -> TurnInput:
        notes = await self._replies.route(asked)
        await self._board.tell()
        question = await self._questions.first(asked)
        return replace(question, notes=(*notes, *question.notes))

    async def _receive(self, message: IncomingMessage) -> ChatMessage:
        async with self._door:
            known = await self._known(message.id)
            if known is not None:
                return known
            if not message.text.strip() and not message.files:
                raise WrongInput(texts.NOTHING_IN_IT)
            accepted = await self._accepted(message)
            is_in_fork = self._forks.open is not None
            shown = replace(_shown(accepted), in_fork=is_in_fork)
            await self._poster.receive(shown, message.surface, message.refs)
            older = self._answering.running
        await self._answering.make_way(older, accepted.id)
        await self._board.tell()
        return shown

    async def _known(self, input_id: InputId) -> ChatMessage | None:
        """The message that came under this id before."""
        return await self._chat.find(MessageId(input_id))

    def _waits(self, input_id: InputId) -> bool:
        running = self._answering.running
        is_taken = running is not None and input_id in running.start.inputs
        return self._inbox.state.waits(input_id) and not is_taken

    async def _accepted(self, message: IncomingMessage) -> OwnerMessage:
        """On disk, with its files, when it returns."""
        attachments = await asyncio.to_thread(self._kept, message)
        quoted = await self._chat.find(message.reply_to) if message.reply_to else None
        accepted = OwnerMessage(
            message.id,
            message.surface,
            self._clock.now(),
            message.text,
            message.reply_to,
            message.quote or (quoted.text if quoted else ""),
            attachments,
            message.button,
            None if message.untrusted else await self._replies.origin(message.reply_to),
            message.untrusted,
            message.untrusted_quote or (quoted.untrusted if quoted else None),
        )
        await self._inbox.append(Accepted(accepted.at, accepted))
        return accepted

    def _kept(self, message: IncomingMessage) -> tuple[Attachment, ...]:
        return tuple(self._keeper.keep(message.id, file) for file in message.files)


def _shown(message: OwnerMessage) -> ChatMessage:
    return ChatMessage(
        MessageId(message.id),
        message.at,
        Author.OWNER,
        message.button or message.text,
        reply_to=message.reply_to,
        attachments=message.attachments,
        footer=message.untrusted.source if message.untrusted else "",
        untrusted=message.untrusted,
    )

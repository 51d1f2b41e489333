"""The `ChatService` that the surfaces call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ollim_bot.conversation.buttons import ButtonRouter
from ollim_bot.conversation.commands.dispatcher import COMMANDS, CommandDispatcher
from ollim_bot.conversation.delivery_queues import DeliveryQueues
from ollim_bot.conversation.intake import MessageIntake
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import StatusBoard
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer, CommandSpec
from ollim_bot.domain.search import Search, terms_of
from ollim_bot.domain.text import with_program
from ollim_bot.ports import DayService, LogChange, Status
from ollim_bot.store.messages import LoggedMessage
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


class Conversation:
    """Implements `ChatService` by delegating to the parts of the conversation."""

    def __init__(
        self,
        store: Store,
        intake: MessageIntake,
        dispatcher: CommandDispatcher,
        buttons: ButtonRouter,
        runner: TurnRunner,
        poster: MessagePoster,
        deliveries: DeliveryQueues,
        board: StatusBoard,
        day: DayService,
    ) -> None:
        self.day = day
        self._store = store
        self.receive, self.edit, self.withdraw = intake.receive, intake.edit, intake.withdraw
        self._dispatcher = dispatcher
        self._buttons = buttons
        self._runner = runner
        self._poster = poster
        self._deliveries = deliveries
        self._board = board

    @property
    def commands(self) -> Sequence[CommandSpec]:
        return COMMANDS

    @property
    def status(self) -> Status:
        return self._board.current

    async def command(self, surface: str, line: str) -> CommandAnswer:
        answer = await self._dispatcher.call(surface, line)
        await self._board.load()
        await self._board.tell()
        return self._as_typed(answer)

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        return self._as_typed(await self._buttons.click(surface, message_id, custom_id, words))

    async def interrupt(self) -> bool:
        return await self._runner.interrupt()

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        return await self._dispatcher.completions(command, argument, typed)

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        found = await self._store.read(lambda tx: tx.messages.page(limit, before))
        messages = [each.message for each in found]
        # What is shown though the disk did not take it stands at the end.
        return messages if before is not None else [*messages, *self._poster.unkept][-limit:]

    async def message(self, message_id: MessageId) -> ChatMessage | None:
        return await self._poster.find(message_id)

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        return await self._deliveries.by_ref(surface, ref)

    async def by_refs(self, surface: str, newest: int) -> Mapping[str, ChatMessage]:
        return await self._deliveries.by_refs(surface, newest)

    async def caught_up(self, surface: str) -> None:
        await self._deliveries.caught_up(surface)

    async def search(self, words: str, limit: int) -> Sequence[ChatMessage]:
        wanted = Search(terms_of(words), limit=limit)
        found = await self._store.read(lambda tx: tx.messages.search(wanted))
        return [each.message for each in found]

    async def around(self, message_id: MessageId, limit: int) -> Sequence[ChatMessage]:
        found = await self._store.read(lambda tx: tx.messages.around(message_id, limit))
        return [each.message for each in found]

    async def place_of(self, message_id: MessageId) -> int | None:
        found = await self._store.read(lambda tx: tx.messages.logged(message_id))
        return None if found is None else found.seq

    async def trouble(self, sentence: str) -> None:
        await self._board.trouble(sentence)
        if not sentence:
            self._deliveries.nudge()

    def _as_typed(self, answer: CommandAnswer) -> CommandAnswer:
        if not answer.text:
            return answer
        return replace(answer, text=with_program(answer.text, self.status.program))

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

"""The message log with its newest part at hand, so that no page waits for old history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import StorageError
from ollim_bot.ports import Log

_AT_HAND = 500

_logger = logging.getLogger(__name__)


class ChatLog:
    """A message that is added under the id of an earlier one takes its place.

    What was put up can be read as if it were there, as long as the process lives.
    """

    def __init__(self, log: Log[ChatMessage]) -> None:
        self._log = log
        self._recent: dict[MessageId, ChatMessage] = {}
        self._put_up: dict[MessageId, ChatMessage] = {}
        self._is_all = True
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        entries = (await asyncio.to_thread(self._log.tail, _AT_HAND)).entries
        self._is_all = len(entries) < _AT_HAND
        self._remember(entries)

    async def add(self, message: ChatMessage) -> ChatMessage:
        """When it returns, the message is on disk.

        Gives it as it stands there: where somebody else has written down meanwhile what it became
        on a surface, that stays.
        """
        async with self._one_at_a_time:
            message = _with_refs_of(message, self._recent.get(message.id))
            await asyncio.to_thread(self._log.append, message)
            self._remember([message])
            self._put_up.pop(message.id, None)
        return message

    async def add_or_put_up(self, message: ChatMessage) -> None:
        """As a start has to, which a full disk must not keep from it."""
        try:
            await self.add(message)
        except StorageError:
            _logger.warning("A message has no place in the log yet", exc_info=True)
            self.put_up(message)

    def put_up(self, message: ChatMessage) -> bool:
        """Let it be seen although there is no room for it on the disk; False if it is already."""
        is_new = message.id not in self._put_up
        self._put_up[message.id] = message
        return is_new

    async def note_ref(self, message: ChatMessage, surface: str, ids: str) -> None:
        """Write down what it has become on a surface, whatever else has become of it meanwhile."""
        async with self._one_at_a_time:
            known = await self.find(message.id) or message
            if known.refs.get(surface) != ids:
                noted = replace(known, refs={**known.refs, surface: ids})
                await asyncio.to_thread(self._log.append, noted)
                self._remember([noted])

    def recent(self, message_id: MessageId) -> ChatMessage | None:
        return self._recent.get(message_id)

    def newest_first(self) -> Iterator[ChatMessage]:
        """Those at hand."""
        yield from reversed({**self._recent, **self._put_up}.values())

    def answer_of(self, turn: TurnId) -> ChatMessage | None:
        """The whole answer that a turn ended in, if it was written down."""
        for message in reversed(self._recent.values()):
            is_answer = message.author is Author.ASSISTANT and not message.is_cut_off
            if message.turn == turn and is_answer:
                return message
        return None

    def context_of(self, session: SessionId) -> int:
        """How many tokens a session had when it last answered; 0 if that is not at hand."""
        for message in reversed(self._recent.values()):
            if message.session == session and message.spent is not None:
                return message.spent.context
        return 0

    def with_open_button(self, action: str) -> Sequence[ChatMessage]:
        """Those at hand that can still be clicked."""
        return [each for each in self._recent.values() if _can_be_clicked(each, action)]

    def since(self, last: MessageId) -> Sequence[ChatMessage] | None:
        """What came after `last`; None if that one is not at hand."""
        ids = list(self._recent)
        if last not in self._recent:
            return None
        after = [self._recent[each] for each in ids[ids.index(last) + 1 :]]
        return [*after, *self._put_up.values()]

    async def find(self, message_id: MessageId) -> ChatMessage | None:
        found = self.recent(message_id)
        if found is not None or self._is_all:
            return found
        everything = await self._everything()
        return everything.get(message_id)

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        """The message that bears this id on a surface."""
        found = _with_ref(self._recent.values(), surface, ref)
        if found is not None or self._is_all:
            return found
        return _with_ref((await self._everything()).values(), surface, ref)

    async def page(self, limit: int, before: MessageId | None) -> Sequence[ChatMessage]:
        """The newest, or those before one; oldest first."""
        messages = {**self._recent, **self._put_up}
        if before is not None and not self._reaches(limit, before):
            messages = await self._everything()
        ids = [*messages]
        if before is not None and before not in messages:
            return []
        end = len(ids) if before is None else ids.index(before)
        return [messages[each] for each in ids[max(0, end - limit) : end]]

    def _reaches(self, limit: int, before: MessageId) -> bool:
        return self._is_all or (
            before in self._recent and list(self._recent).index(before) >= limit
        )

    async def _everything(self) -> dict[MessageId, ChatMessage]:
        entries = (await asyncio.to_thread(self._log.read)).entries
        return {message.id: message for message in entries}

    def _remember(self, messages: Iterable[ChatMessage]) -> None:
        for message in messages:
            self._recent[message.id] = message
        while len(self._recent) > _AT_HAND:
            self._recent.pop(next(iter(self._recent)))
            self._is_all = False


def _with_refs_of(message: ChatMessage, known: ChatMessage | None) -> ChatMessage:
    if known is None or known.refs == message.refs:
        return message
    refs = dict(known.refs)
    for name, ids in message.refs.items():
        # The ids of the parts come one after the other, so a longer list is a newer one.
        if name not in refs or not refs[name].startswith(ids):
            refs[name] = ids
    return replace(message, refs=refs)


def _with_ref(messages: Iterable[ChatMessage], surface: str, ref: str) -> ChatMessage | None:
    return next((each for each in messages if ref in each.refs.get(surface, "").split()), None)


def _can_be_clicked(message: ChatMessage, action: str) -> bool:
    buttons = message.card.buttons if message.card else ()
    return any(button.action == action and not button.is_used for button in buttons)

"""What the program has to tell: posted as one small notice, and left for the agent to know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.facts import Facts
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

_PAUSE = timedelta(minutes=10)
_BETWEEN_TRIES = 5.0
_UNTOLD = "untold"

_logger = logging.getLogger(__name__)

Raw = Mapping[str, object]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Untold:
    """What waits to be told. `is_owed` until the agent was left a word about it."""

    id: str
    key: str
    text: str
    is_owed: bool


class Notices:
    """Each thing is told once, also across restarts; never in the middle of a turn.

    Things that come together, or within ten minutes, are one notice. `may_speak` says whether the
    conversation is quiet now.
    """

    def __init__(
        self, stores: Stores, poster: MessagePoster, clock: Clock, may_speak: Callable[[], bool]
    ) -> None:
        self._stores = stores
        self._poster = poster
        self._clock = clock
        self._may_speak = may_speak
        self._unkept: list[Untold] = []
        self._show: Callable[[], Awaitable[None]] | None = None
        self._wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    @property
    def unkept(self) -> str:
        """What only this process knows of, for want of room on the disk; empty if nothing is."""
        return self._unkept[0].text if self._unkept else ""

    def shown_by(self, show: Callable[[], Awaitable[None]]) -> None:
        """`show` is called when `unkept` is another one."""
        self._show = show

    async def load(self) -> None:
        """Finish what a crash has left half-done, before anything new is told."""
        try:
            await self._finish()
        except StorageError:  # on a full disk there is no more room for anything new
            _logger.warning("What was to be told could not be looked after", exc_info=True)

    async def _finish(self) -> None:
        untold = _untold(await asyncio.to_thread(self._stores.memory.read))
        for each in untold:
            if each.is_owed:
                await self._leave(each)
        posted = await self._poster.find(_notice_id(untold)) if untold else None
        if posted is not None:
            said = posted.text.splitlines()
            await self._note_told([each for each in untold if each.text in said], posted.at)

    async def tell(
        self, sentence: str, *, key: str | None = None, for_agent: bool = True
    ) -> StorageError | None:
        """`key` names what must not be told again; without one it is the sentence itself.

        `for_agent` is False where the agent has been left a word already. Gives what the disk says
        if it has no room: then only this process knows of it until there is.
        """
        new = Untold(uuid4().hex, key or sentence, " ".join(sentence.split()), for_agent)
        refused = None
        try:
            await self._keep(new)
        except StorageError as error:  # it must not be lost, nor hurt whoever has to tell it
            _logger.warning("What is to be told could not be kept yet: %s", sentence, exc_info=True)
            refused = error
            if not any(each.key == new.key for each in self._unkept):
                self._unkept.append(new)
                await self._show_unkept()
        self._wanted.set()
        return refused

    async def known(self, start: str) -> list[str]:
        """The keys that begin so, of all that was told or stands on disk to be."""
        raw = await asyncio.to_thread(self._stores.memory.read)
        waiting = (each.key for each in _untold(raw))
        return [key for key in (*Facts(raw).told, *waiting) if key.startswith(start)]

    async def forget(self, key: str) -> None:
        """What was told is over, so that it will be told when it comes again."""
        async with self._one_at_a_time:
            await self._changed(lambda raw: (Facts(raw).without_told(key).raw, None))

    async def run(self) -> None:
        """Post what there is to tell, as soon as that is right, until cancelled."""
        self._wanted.set()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._clock.sleep(await self._pause())
                await self._keep_rest()
                await self.flush()
            except StorageError as refused:  # a full disk, say
                _logger.warning("A notice has to wait: %s", refused)
                await self._clock.sleep(_BETWEEN_TRIES)
                self._wanted.set()

    async def flush(self) -> None:
        """Post it now, if the conversation is quiet."""
        async with self._one_at_a_time:
            untold = _untold(await asyncio.to_thread(self._stores.memory.read))
            if not untold or not self._may_speak():
                return
            now, text = self._clock.now(), "\n".join(each.text for each in untold)
            await self._poster.post(ChatMessage(_notice_id(untold), now, Author.PROGRAM, text))
            await self._note_told(untold, now)

    def nudge(self) -> None:
        """The conversation has become quiet."""
        self._wanted.set()

    async def _keep_rest(self) -> None:
        while self._unkept:
            await self._keep(self._unkept[0])
            self._unkept.pop(0)
            await self._show_unkept()

    async def _show_unkept(self) -> None:
        if self._show is not None:
            await self._show()

    async def _keep(self, new: Untold) -> None:
        """On disk, unless it is known already, when it returns."""
        if await self._changed(lambda raw: _with(raw, new)) and new.is_owed:
            await self._leave(new)

    async def _pause(self) -> float:
        """How many seconds the next notice has to wait, for the sake of the one before it."""
        last = Facts(await asyncio.to_thread(self._stores.memory.read)).last_told_at
        passed = None if last is None else self._clock.now() - last
        # A clock that was set back must not keep the owner waiting for longer than ever.
        is_soon = passed is not None and timedelta() <= passed < _PAUSE
        return (_PAUSE - passed).total_seconds() if passed is not None and is_soon else 0.0

    async def _leave(self, untold: Untold) -> None:
        now = self._clock.now()
        await asyncio.to_thread(self._stores.leave_update, untold.text, now, untold.id)
        await self._changed(lambda raw: (_without_debt(raw, untold), None))

    async def _note_told(self, told: Sequence[Untold], at: datetime) -> None:
        """Only their keys stay."""
        await self._changed(lambda raw: (_without(raw, told, at), None))

    async def _changed(self, step: Callable[[Raw], tuple[Raw, R]]) -> R:
        return await asyncio.to_thread(self._stores.memory.transact, step)


def _notice_id(untold: Sequence[Untold]) -> MessageId:
    return MessageId(f"notice-{untold[0].id}")


def _untold(raw: Raw) -> list[Untold]:
    value = raw.get(_UNTOLD)
    entries = value if isinstance(value, list) else []
    return [_entry(each) for each in entries if isinstance(each, Mapping)]


def _entry(value: Mapping[str, object]) -> Untold:
    name, key, text = (str(value.get(field, "")) for field in ("id", "key", "text"))
    return Untold(name, key, text, is_owed=value.get("is_owed") is True)


def _keeping(raw: Raw, untold: Iterable[Untold]) -> Raw:
    return {**raw, _UNTOLD: [asdict(each) for each in untold]}


def _with(raw: Raw, new: Untold) -> tuple[Raw, bool]:
    untold = _untold(raw)
    if new.key in Facts(raw).told or any(each.key == new.key for each in untold):
        return raw, False
    return _keeping(raw, [*untold, new]), True


def _without_debt(raw: Raw, paid: Untold) -> Raw:
    return _keeping(
        raw, (replace(e, is_owed=False) if e.id == paid.id else e for e in _untold(raw))
    )


def _without(raw: Raw, told: Sequence[Untold], at: datetime) -> Raw:
    ids = {each.id for each in told}
    left = _keeping(raw, (each for each in _untold(raw) if each.id not in ids))
    return Facts(left).having_told((each.key for each in told), at).raw

"""What the surface keeps in memory does not grow with the number of messages."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sized
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from tests.discord.draft_scene import part_of
from tests.discord.fake_channel import FakeChannel
from tests.discord.input_scene import SUNDAY, eventually, running_tasks

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.events import AgentEvent, EndCause, TextStreamed, TurnEnded
from ollim_bot.domain.ids import MessageId, TurnId
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import DeliveryFailed
from ollim_bot.ports import TurnStart
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.direct_messages import MessageCatchUp
from ollim_bot.surfaces.discord.drafts import DiscordPresenter, Drafts
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.rendering import ReceivedMessage
from ollim_bot.surfaces.discord.status_line import PendingReaction
from ollim_bot.surfaces.discord.surface import DiscordDelivery

MESSAGES = 2000
# After so many messages, every bounded collection has its full size.
UNTIL_FULL = 1200
BATCH = 20

# Objects that do not belong to the surface; their size does not count.
_OTHERS = (
    ModuleType,
    type,
    FunctionType,
    BuiltinFunctionType,
    FakeChannel,
    FakeReception,
    ManualClock,
    asyncio.AbstractEventLoop,
)


class SurfaceParts:
    """All parts of the surface but the connection, on a channel in memory."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(SUNDAY)
        self.channel = FakeChannel(self.clock)
        self.reception = FakeReception(self.clock, folder)
        self.background = BackgroundTasks(self.clock)
        # Repeating each transaction, as in other tests, would take too long with thousands of them.
        self.facts = DiscordFacts(RepeatingStore(self.clock.now, is_repeating=False))
        self.drafts = Drafts(self.channel, self.clock, self.background, self.facts)
        self.delivery = DiscordDelivery(self.channel, self.drafts, self.clock)
        self.pending_reaction = PendingReaction(self.channel, self.clock)
        self.presenter = DiscordPresenter(self.channel, self.drafts, self.clock, self.background)
        channel, reception, facts = self.channel, self.reception, self.facts
        files = folder / "discord"
        self.inbound = Inbound(channel, reception, self.pending_reaction, facts, self.clock, files)
        self.catch_up = MessageCatchUp(
            channel,
            reception,
            self.inbound,
            self.pending_reaction,
            facts,
            self.clock,
            reconnect=_nothing,
        )

    async def talk(self, begin: int) -> None:
        """Some messages in a row, then their turns."""
        seen = [self.channel.say(f"message {begin + each}") for each in range(BATCH)]
        for each in seen:
            self.inbound.message(each)
        await eventually(lambda: len(self.reception.received) == begin + BATCH)
        self.inbound.edited(seen[0].ref, "edited")
        self.inbound.deleted(seen[1].ref)
        for number, each in enumerate(seen, begin):
            await self.answer(each, number)

    async def answer(self, seen: ReceivedMessage, number: int) -> None:
        """Answer in a turn; some answers are refused by Discord, and some turns have none."""
        turn = TurnId(f"turn-{number}")
        start = TurnStart(turn, self.clock.now(), (InputId(f"discord-{seen.ref}"),))
        self.pending_reaction.open(seen.ref)
        presented = asyncio.create_task(self.presenter.present(start, _events()))
        await self.clock.advance(2)
        self.pending_reaction.close([seen.ref])
        if number % 13 == 0:
            await presented
            return
        answer = ChatMessage(
            MessageId(f"m{number}"),
            self.clock.now(),
            Author.ASSISTANT,
            f"answer {number}",
            turn=turn,
        )
        await self.deliver(answer, is_refused=number % 11 == 0)
        await presented

    async def deliver(self, answer: ChatMessage, *, is_refused: bool) -> None:
        """Deliver it as the delivery queue does."""
        part = part_of(answer)
        refs = list(await self.delivery.take_drafts(answer, [part.content]))
        if is_refused:
            self.channel.fail("edit", DeliveryFailed("no"))
            self.channel.fail("send", DeliveryFailed("no"))
            for ref in refs:
                with pytest.raises(DeliveryFailed):
                    await self.delivery.edit(ref, part.content)
            self.delivery.discard(refs)
            with pytest.raises(DeliveryFailed):
                await self.delivery.deliver(part)
            self.delivery.ended(answer, ())
            return
        for ref in refs:
            await self.delivery.edit(ref, part.content)
        self.delivery.ended(answer, refs or [await self.delivery.deliver(part)])

    async def size_at_rest(self) -> int:
        """The number of elements in all collections that the parts refer to."""
        await self.clock.advance(300)
        size = 0
        seen: set[int] = set()
        wanted: list[object] = [self.inbound, self.catch_up, self.presenter]
        wanted += [self.delivery, self.pending_reaction, self.drafts]
        while wanted:
            each = wanted.pop()
            if id(each) in seen or isinstance(each, _OTHERS):
                continue
            seen.add(id(each))
            if isinstance(each, Sized) and not isinstance(each, str | bytes):
                size += len(each)
            wanted += gc.get_referents(each)
        return size


async def _nothing(*_: object) -> None:
    pass


async def _events() -> AsyncIterator[AgentEvent]:
    yield TextStreamed("half an ans")
    yield TurnEnded(EndCause.COMPLETED)


async def test_what_is_remembered_does_not_grow_with_what_is_said(tmp_path: Path) -> None:
    parts = SurfaceParts(tmp_path)
    steps = (parts.inbound, parts.catch_up, parts.facts, parts.pending_reaction)
    async with running_tasks(*(each.run() for each in steps)):
        parts.catch_up.ready()
        for number in range(0, UNTIL_FULL, BATCH):
            await parts.talk(number)
        before = await parts.size_at_rest()
        for number in range(UNTIL_FULL, MESSAGES, BATCH):
            await parts.talk(number)
        after = await parts.size_at_rest()
        await parts.background.close()
    assert len(parts.reception.received) == MESSAGES
    assert after < before + 50

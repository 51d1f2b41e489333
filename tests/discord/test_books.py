"""A program that runs for months: what it remembers of Discord does not grow with what is said."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sized
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
from tests.discord.draft_scene import part_of
from tests.discord.fake_channel import FakeChannel
from tests.discord.input_scene import SUNDAY, doing, eventually

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.events import AgentEvent, EndCause, TextStreamed, TurnEnded
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import DeliveryFailed
from ollim_bot.ports import TurnStart
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.catch_up import MessageCatchUp
from ollim_bot.surfaces.discord.delivery import DiscordDelivery
from ollim_bot.surfaces.discord.draft_renderer import DiscordPresenter
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.messages import ReceivedMessage
from ollim_bot.surfaces.discord.pending_reaction import PendingReaction
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.reception import FakeReception
from ollim_bot.testing.repeating_store import RepeatingStore

MESSAGES = 2000
# By then every book is as full as it may be.
ENOUGH = 1200
AT_ONCE = 20

# What is not the surface's, and may be as large as it likes.
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


class Machine:
    """All parts of the surface but the connection, on a channel in memory."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(SUNDAY)
        self.channel = FakeChannel(self.clock)
        self.reception = FakeReception(self.clock, folder)
        self.background = BackgroundTasks(self.clock)
        # Other tests repeat the steps of these facts; here they are thousands.
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
        seen = [self.channel.say(f"message {begin + each}") for each in range(AT_ONCE)]
        for each in seen:
            self.inbound.message(each)
        await eventually(lambda: len(self.reception.received) == begin + AT_ONCE)
        self.inbound.edited(seen[0].ref, "edited")
        self.inbound.deleted(seen[1].ref)
        for number, each in enumerate(seen, begin):
            await self.answer(each, number)

    async def answer(self, seen: ReceivedMessage, number: int) -> None:
        """In a turn; some are refused, and some never come."""
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
        """As the queue of deliveries does it."""
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
        """How much there is in all that it holds on to."""
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
    machine = Machine(tmp_path)
    steps = (machine.inbound, machine.catch_up, machine.facts, machine.pending_reaction)
    async with doing(*(each.run() for each in steps)):
        machine.catch_up.ready()
        for number in range(0, ENOUGH, AT_ONCE):
            await machine.talk(number)
        before = await machine.size_at_rest()
        for number in range(ENOUGH, MESSAGES, AT_ONCE):
            await machine.talk(number)
        after = await machine.size_at_rest()
        await machine.background.close()
    assert len(machine.reception.received) == MESSAGES
    assert after < before + 50

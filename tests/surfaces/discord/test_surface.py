"""The whole surface with the real client: what is said arrives once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sized
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

import discord
import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Waits
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Delayed,
    ErrorResponse,
    Fault,
    Hanging,
)
from tests.garbage import collect_garbage_of_earlier_tests
from tests.kernel.conversation.scene import NOW
from tests.patience import eventually
from tests.surfaces.discord.draft_scene import part_of
from tests.surfaces.discord.fake_channel import FakeChannel
from tests.surfaces.discord.input_scene import SUNDAY, running_tasks
from tests.surfaces.discord.surface_scene import SurfaceScene, surface_scene

from ollim_bot.kernel.base.errors import DeliveryFailed, WriteFailed
from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.conversation.notice_poster import sentence_about
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState
from ollim_bot.kernel.store.message_log import LoggedMessage
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, EndCause, TextStreamed, TurnEnded
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import TurnStart
from ollim_bot.kernel.values.runs import DeliveryRight
from ollim_bot.kernel.values.usage import Usage
from ollim_bot.surfaces.discord import errors, inbound, interactions
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.direct_messages import MessageCatchUp
from ollim_bot.surfaces.discord.drafts import GOES_ON_BELOW, DiscordPresenter, Drafts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.rendering import ReceivedMessage
from ollim_bot.surfaces.discord.status_line import PendingReaction
from ollim_bot.surfaces.discord.surface import SHUTTING_DOWN, DiscordDelivery
from ollim_bot.surfaces.discord.translation import DiscordFacts

SEND, EDIT, READ = "POST /channels/*/messages", "PATCH /channels/*", "GET /channels/*/messages"


LONG = "One sentence of some words, as they come. " * 120


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[SurfaceScene]:
    async with surface_scene(tmp_path / "discord") as made:
        yield made


def is_of_the_server(task: asyncio.Task[object]) -> bool:
    return "RequestHandler" in repr(task.get_coro())


async def test_each_message_is_answered_once_in_the_order_of_the_log(scene: SurfaceScene) -> None:
    async with scene.started() as bot:
        await scene.ask(bot, "one", "first")
        await scene.ask(bot, "two", LONG)
        await scene.ask(bot, "three", "third")
    assert [each.id for each in scene.local.messages[:-1]] == scene.refs
    assert [each.text for each in scene.local.messages if each.author == scene.local.owner] == [
        "one",
        "two",
        "three",
    ]
    assert scene.local.texts[0] == "first"
    assert scene.local.texts[-2:] == ["third", SHUTTING_DOWN]


async def test_the_model_that_answers_is_shown_below_the_name_of_the_bot(
    scene: SurfaceScene,
) -> None:
    usage = Usage(1000, 10, model="claude-sonnet-4-6")
    scene.engine.then(TurnEnded(EndCause.COMPLETED, "ok", usage=usage))
    async with scene.started() as bot:
        assert scene.local.gateway.shown == ""
        scene.local.say("hello")
        await scene.until(lambda: scene.local.gateway.shown == "claude-sonnet-4-6")
        await scene.quiet(bot)


async def test_one_press_below_a_running_answer_ends_a_careful_time(scene: SurfaceScene) -> None:
    fetch = CallsTool("WebFetch", {"url": "https://news.example/", "prompt": "read"}, "News.")
    scene.engine.then(fetch, Waits())
    async with scene.started() as bot:
        bot.running.append(asyncio.create_task(bot.talk.board.run()))
        scene.local.say("what is new?")
        await scene.until(lambda: any(each.buttons for each in scene.local.said))
        (draft,) = scene.local.said
        assert "careful since 10\\:15\\: web page news.example" in draft.text
        (button,) = draft.buttons
        pressed = scene.local.click(draft.id, button["custom_id"])
        await scene.until(lambda: pressed.followups)
        assert "not careful any more" in await pressed.said()
        await scene.until(lambda: not draft.buttons)
        assert bot.chat.status.careful is None
        assert "careful" not in draft.text
        await bot.chat.interrupt()
        await scene.quiet(bot)


async def test_what_is_said_while_the_connection_is_gone_is_answered_once(
    scene: SurfaceScene,
) -> None:
    async with scene.started() as bot:
        await scene.ask(bot, "are you here?", "here")
        await scene.local.refuse_connections()
        await scene.until(lambda: bot.chat.status.trouble)
        await scene.local.accept_again()
        await scene.ask(bot, "and now?", "there")
        await scene.until(lambda: not bot.chat.status.trouble)
    assert scene.local.texts == ["here", "there", SHUTTING_DOWN]
    assert len(scene.engine.prompts) == 2


async def test_what_is_said_at_the_first_start_is_answered_though_that_is_cut_off(
    scene: SurfaceScene,
) -> None:
    scene.local.say("from before it was there")
    # It is let in, and then nothing can be read.
    scene.local.next_fail(READ, Delayed(0))
    scene.local.next_fail(READ, ErrorResponse(503), times=None)
    async with scene.started():
        scene.local.say("hello")
    scene.local.mend()
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
    assert len(scene.engine.prompts) == 1


@pytest.mark.parametrize("fault", [AnswerLost(), AnswerHanging()])
@pytest.mark.parametrize("forgets", [True, False])
async def test_an_answer_that_may_have_arrived_when_the_program_died_is_not_repeated(
    scene: SurfaceScene, fault: Fault, forgets: bool
) -> None:
    scene.engine.answers("whole")
    async with scene.started():
        scene.local.next_fail(EDIT, fault, times=None)
        scene.local.next_fail(SEND, fault, times=None)
        scene.local.say("hello")
        await scene.until(lambda: "whole" in scene.local.texts)
    scene.local.mend()
    if forgets:
        scene.local.forget_nonces()
    async with scene.started() as bot:
        await scene.quiet(bot)
        await scene.until(lambda: not any("Thinking…" in text for text in scene.local.texts))
        assert scene.local.texts.count("whole") == 1
        assert scene.refs == [
            each.id for each in scene.local.messages if each.text != SHUTTING_DOWN
        ]


async def test_an_answer_that_takes_over_a_draft_is_no_orphan_of_the_next_run(
    scene: SurfaceScene,
) -> None:
    scene.engine.answers("whole")
    # So tight that the draft is not edited while the turn runs, however slow this machine is.
    scene.local.allowance(1, 0.05)
    async with scene.started():
        scene.local.next_fail(EDIT, AnswerHanging(), times=None)
        scene.local.say("hello")
        await scene.until(lambda: "whole" in scene.local.texts)
        # The goodbye is a second message: it may not come in the moment of the draft.
        await scene.clock.advance(0.1)
    scene.local.mend()
    async with scene.started() as bot:
        await scene.until(lambda: not scene.drafts)
        await scene.quiet(bot)
        assert scene.local.texts == ["whole", SHUTTING_DOWN]


async def test_a_turn_that_died_leaves_no_running_one_behind(scene: SurfaceScene) -> None:
    scene.engine.then(TextStreamed("half an answer"), Waits())
    async with scene.started():
        scene.local.say("hello")
        await scene.until(lambda: "half an answer" in scene.local.texts)
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
        assert scene.local.texts[0] in (
            f"half an answer\n{GOES_ON_BELOW}",
            "half an answer\n-# cut off here",
        )


async def test_a_draft_that_was_not_noted_before_the_end_is_taken_away(scene: SurfaceScene) -> None:
    scene.engine.then(Waits())
    async with scene.started():
        scene.local.next_fail(SEND, AnswerHanging(), times=None)
        scene.local.say("hello")
        await scene.until(lambda: any("Thinking…" in text for text in scene.local.texts))
    scene.local.mend()
    scene.engine.answers("whole")
    async with scene.started() as bot:
        await scene.until(lambda: "whole" in scene.local.texts)
        await scene.quiet(bot)
        await scene.until(lambda: not any("Thinking…" in text for text in scene.local.texts))


async def test_nothing_is_left_running_when_it_has_stopped(scene: SurfaceScene) -> None:
    collect_garbage_of_earlier_tests()
    before = asyncio.all_tasks()
    async with scene.started() as bot:
        await scene.ask(bot, "one", "first")
        scene.engine.then(TextStreamed("half"), Waits())
        scene.local.say("two")
        await scene.until(lambda: "half" in scene.local.texts)
    assert scene.local.texts[-1] == SHUTTING_DOWN
    # What discord.py does not wait for ends by itself, soon.
    await scene.until(lambda: all(map(is_of_the_server, asyncio.all_tasks() - before)))
    await scene.until(lambda: not scene.local.gateway.lines)
    # What was not closed is found now, and told as a warning.
    gc.collect()


async def test_it_stops_within_seconds_while_discord_hangs(scene: SurfaceScene) -> None:
    scene.engine.then(TextStreamed("half"), Waits())
    async with scene.started() as bot:
        scene.local.say("one")
        await scene.until(lambda: "half" in scene.local.texts)
        scene.local.next_fail("*", Hanging(), times=None)
        async with asyncio.timeout(60):
            await bot.stop()


MESSAGES = 1400


# After so many messages, every bounded collection has its full size.
UNTIL_FULL = 1040


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
    assert after < before + 20


TOLD = ChatMessage(MessageId("1"), NOW, Author.BACKGROUND, "…")


DOCS = (Path(__file__).parents[3] / "docs" / "discord.md").read_text()


def ended(state: DeliveryState) -> Delivery:
    logged = LoggedMessage(TOLD, 1, 1)
    return Delivery("discord", logged, state, (), (), 1, None, "", 0, "the reason.")


def answered(status: int) -> str:
    """Our error text for this HTTP status of Discord."""
    response = cast("Any", SimpleNamespace(status=status, reason=""))
    return str(errors.translated_error(discord.HTTPException(response, "no")))


SENTENCES = (
    errors.NO_TOKEN,
    errors.NO_INTENTS,
    errors.NO_OWNER,
    str(errors.not_in_team(80351110224678912)),
    errors.OUT_OF_REACH,
    errors.BUSY,
    answered(403),
    answered(413),
    sentence_about(ended(DeliveryState.REFUSED)),
    sentence_about(ended(DeliveryState.UNKNOWN)),
    inbound.not_kept_yet("…"),
    inbound.NOTHING_TO_READ,
    interactions.UNKNOWN,
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_refusal_is_explained(sentence: str) -> None:
    assert f"| {sentence} |" in DOCS


def test_the_limits_are_the_real_ones() -> None:
    megabytes = inbound.MOST_BYTES // 1024**2
    assert inbound.MOST_FILES == 10
    assert f"Up to ten with a message, {megabytes} MB each." in DOCS


FULL = WriteFailed(Path("state/ollim.db"), "No space left on device.")


async def test_a_reminder_arrives_once_and_becomes_whole_when_there_is_room(
    scene: SurfaceScene,
) -> None:
    now = scene.clock.now()
    water = Reminder(JobSpec(id="w1", message="Drink water.", background=True), now)
    due, right = Occurrence.scheduled(JobKind.REMINDER, "w1", now), DeliveryRight()
    async with scene.started() as bot:
        scene.disk.fail_with(FULL)
        reminders = bot.talk.reminders
        for _ in range(2):
            assert not await reminders.deliver(water, due, right, "")
        [message] = scene.local.messages
        assert "\nDrink water.\n" in message.text
        assert "not kept" in message.text
        scene.disk.fail_with(None)
        assert await reminders.deliver(water, due, right, "")
        await scene.until(lambda: scene.local.messages[0].components)
        await scene.quiet(bot)
        assert len(scene.local.messages) == 1
        assert scene.refs == [scene.local.messages[0].id]

"""Wherever the bot crashes, each message has one end, and nothing that was asked happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from devtools.doubles.channel import FakeChatService
from hypothesis import given
from hypothesis import strategies as st
from tests.crashes.matrix import Scenario, crash_at_every_step, noted
from tests.crashes.restarted_bot import (
    UPDATES,
    OwnerActions,
    RestartedBot,
    check_answered,
    one_message,
)
from tests.kernel.conversation.crashing import StepCounter
from tests.kernel.conversation.forks.fork_scene import ForkScene
from tests.kernel.conversation.scene import NOW, InlineExecutor, Scene
from tests.kernel.conversation.transcript_engine import WRITE, EngineCrash, TranscriptEntry

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, ButtonPrompt, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    Ended,
    InputEnd,
    InputId,
    OwnerMessage,
)
from ollim_bot.kernel.values.sessions import SessionChange

# By step, how many entries of the turn are in the transcript.
STEPS_OF_THE_ENGINE = {
    "it is asked": 0,
    "the prompt is taken": 1,
    "the session is named": 1,
    "the tool is about to run": 1,
    "the tool has run": 1,
    "the call is recorded": 2,
    "it streams": 2,
    "the answer is recorded": 3,
    "the answer is given": 3,
}
WAYS_OUT = {
    "Keep all of it": ("fork_save", "Side conversation ended — all of it kept"),
    "Keep a summary": ("fork_report", "Side conversation ended — summary kept"),
    "Leave it": ("fork_exit", "Side conversation ended — nothing kept"),
}
LEFT = "the fork is to be left"
QUESTION = ButtonPrompt("0a1b2c3d", "hello", NOW.timestamp())
ASK = Button("Ask", "agent", QUESTION.key)


# What the owner does, unless an earlier run has accepted it


async def until_all_is_done(bot: RestartedBot, at: Scene) -> None:
    await at.until(lambda: at.is_quiet and not bot.waits)


async def two_messages(bot: RestartedBot, at: Scene) -> None:
    """The second comes in the middle of the answer to the first."""
    bot.engine.meanwhile = lambda: bot.send(at, "hello", "m2")
    await bot.send(at, WRITE, "m1")
    await at.until(lambda: "m2" in bot.done or at.is_quiet)
    await bot.send(at, "hello", "m2")
    await until_all_is_done(bot, at)


async def one_command(bot: RestartedBot, at: Scene) -> None:
    if "/clear" not in bot.done:
        bot.done.add("/clear")
        command = asyncio.create_task(at.chat.command("web", "/clear"))
        at.tasks.append(command)
        await at.until(command.done)
    await until_all_is_done(bot, at)


async def greeted(bot: RestartedBot, at: Scene) -> None:
    await at.talk.greeting.say()
    await until_all_is_done(bot, at)


async def clicked(bot: RestartedBot, at: Scene) -> None:
    if len(at.log) == 1:
        await at.chat.click("web", MessageId("card"), ASK.custom_id)
    await until_all_is_done(bot, at)


async def a_failing_turn(bot: RestartedBot, at: Scene) -> None:
    await at.send(WRITE, "m1")
    await until_all_is_done(bot, at)


async def use_fork(way_out: str, bot: RestartedBot, at: Scene) -> None:
    """The owner opens a fork, writes in it and ends it."""
    fork = ForkScene(at)
    await at.quiet()
    if not has_called(bot, "fork"):
        asked = asyncio.create_task(at.chat.command("web", "/fork Rome"))
        await at.until(asked.done)
        await asked
    await at.quiet()
    if not has_accepted(bot, lambda one: isinstance(one, OwnerMessage)):
        await at.send("hello", "m1")
    await at.quiet()
    bot.counter.step(LEFT)
    if not has_called(bot, WAYS_OUT[way_out][0]):
        await fork.press_only(way_out, fork.entry())
    await at.quiet()


def has_accepted(bot: RestartedBot, is_it: Callable[[object], bool]) -> bool:
    return any(isinstance(row, Accepted) and is_it(row.input) for row in bot.rows)


def has_called(bot: RestartedBot, name: str) -> bool:
    return has_accepted(bot, lambda one: isinstance(one, CommandCall) and one.name == name)


# What must hold after it


async def answered_in_one_session(bot: RestartedBot) -> None:
    await bot.send_another()
    check_answered(bot)
    session = bot.stores.session.read()
    assert bot.main in (None, session)
    assert [*bot.engine.transcripts] == [session]
    assert set(bot.created.values()) == {1}
    assert session in bot.created


async def told_that_the_session_is_lost(bot: RestartedBot) -> None:
    await bot.send_another()
    check_answered(bot)
    assert bot.told == [texts.SESSION_LOST]
    assert bot.times_shown(texts.SESSION_LOST) == 1


async def arrived_in_order(bot: RestartedBot) -> None:
    await bot.send_another()
    check_answered(bot)
    assert bot.service is not None
    assert bot.service.texts == [each.text for each in bot.log]
    ids = [(each.id,) for each in bot.service.history]
    refs = [bot.store.query(lambda tx, at=each.id: tx.deliveries.refs(at)) for each in bot.log]  # type: ignore[misc]
    assert [each.get("discord", ()) for each in refs] == ids


async def neither_is_lost(bot: RestartedBot) -> object:
    await bot.send_another("m3")
    (end_of_m1,) = ends_of(bot, "m1")
    assert ends_of(bot, "m2") == [InputEnd.ANSWERED]
    assert bot.texts.count("Hello.") == 3
    assert len(bot.answers) == (end_of_m1 is InputEnd.ANSWERED)
    assert bot.engine.effects == ["written"]
    assert [bot.times_shown(update) for update in UPDATES] == [1, 1]
    assert not bot.waits
    return end_of_m1


def ends_of(bot: RestartedBot, name: str) -> list[InputEnd]:
    rows = (row for row in bot.rows if isinstance(row, Ended))
    return [row.end for row in rows if InputId(name) in row.inputs]


async def cleared_if_accepted(bot: RestartedBot) -> object:
    is_cleared = bot.stores.session.read() is None
    assert is_cleared == bool(bot.rows)
    assert [told.partition("\n")[0] for told in bot.told] == ["Cleared"] * is_cleared
    assert not bot.waits
    await bot.send_another("m3")
    return is_cleared


async def welcomed_once(bot: RestartedBot) -> None:
    """There is a prompt behind its button."""
    (welcome,) = (each for each in bot.log if each.card)
    assert welcome.card is not None
    button, _ = welcome.card.buttons
    (behind,) = bot.store.query(lambda tx: tx.inquiries.get()).waiting
    assert behind.key == button.data


async def asked_once(bot: RestartedBot) -> None:
    card, *rest = bot.log
    assert card.card == Card("A question", buttons=(ASK._replace(is_used=True),))
    assert [each.text for each in rest] == [ASK.label, "Hello."]
    assert bot.store.query(lambda tx: tx.inquiries.get()).waiting == ()


async def said_or_answered(bot: RestartedBot) -> object:
    (how,) = ends_of(bot, "m1")
    assert len(bot.told) == (how is InputEnd.FAILED)
    assert len(bot.answers) == (how is InputEnd.ANSWERED)
    assert bot.engine.effects == ["written"]
    return how


async def forked_once(way_out: str, bot: RestartedBot) -> None:
    assert bot.stores.fork.read() is None
    cards = {one.id: one for one in bot.log if one.card}
    titles = [one.card.title for one in cards.values() if one.card]
    assert titles == ["Side conversation", WAYS_OUT[way_out][1]]
    events = bot.stores.session_history.read().entries
    (forked,) = [one for one in events if one.event is SessionChange.INTERACTIVE_FORK]
    assert forked.parent_session_id == bot.main
    assert bot.texts.count("Hello.") == 2
    assert [bot.times_shown(update) for update in UPDATES] == [1, 1]
    swapped = [one.session_id for one in events if one.event is SessionChange.SWAPPED]
    is_saved = way_out == "Keep all of it"
    assert swapped == ([forked.session_id] if is_saved else [])
    assert bot.stores.session.read() == (forked.session_id if is_saved else bot.main)
    pending = [entry.message for entry in bot.stores.updates.read().entries]
    assert pending[:2] == [*UPDATES]
    assert len(pending) == (3 if way_out == "Keep a summary" else 2)
    assert not bot.waits


# How it begins


def new() -> RestartedBot:
    return RestartedBot()


def mirrored() -> RestartedBot:
    bot = RestartedBot()
    bot.service = FakeChatService(bot.clock)
    return bot


def forgetful(bot: RestartedBot) -> None:
    bot.engine.transcripts.clear()


def overloaded(bot: RestartedBot) -> None:
    bot.engine.crashes.append(EngineCrash("the answer is recorded", FailureKind.OVERLOADED, 0))


def with_a_card(bot: RestartedBot) -> None:
    def offer(tx: Transaction) -> None:
        card = Card("A question", buttons=(ASK,))
        tx.inquiries.change(lambda known: known.stored(QUESTION))
        tx.messages.add(ChatMessage(MessageId("card"), NOW, Author.ASSISTANT, card.text, card=card))

    bot.store.run(offer)


def with_lost_entries(bot: RestartedBot) -> Iterator[tuple[str, RestartedBot]]:
    """The bot without the last entries of its transcript, for each number that it can lose."""
    transcripts: dict[SessionId, list[TranscriptEntry]] | None = None
    for lost in range(max(STEPS_OF_THE_ENGINE.values()) + 1):
        after = bot.copied()
        after.forget_last(lost)
        if after.engine.transcripts == transcripts:
            return
        transcripts = after.engine.copied().transcripts
        yield f", {lost} lost", after


def scenario(
    actions: OwnerActions,
    check: Any,
    *,
    make: Callable[[], RestartedBot] = new,
    is_prepared: bool = True,
    is_resumed: bool = True,
    prepare: Callable[[RestartedBot], None] = lambda _: None,
    ends: Sequence[object] = (None,),
    **more: Any,
) -> Scenario[RestartedBot]:
    async def begin(_: Path) -> RestartedBot:
        bot = make()
        if is_prepared:
            await bot.prepare(is_resumed=is_resumed)
        prepare(bot)
        bot.actions = actions
        return bot

    return Scenario(begin, check, outcomes=frozenset(ends), **more)


def fork(way_out: str, **more: Any) -> Scenario[RestartedBot]:
    return scenario(partial(use_fork, way_out), partial(forked_once, way_out), **more)


SCENARIOS = {
    "a message": scenario(
        one_message,
        answered_in_one_session,
        is_resumed=False,
        losses=with_lost_entries,
        crosses=[*STEPS_OF_THE_ENGINE],
    ),
    "a message in a session that goes on": scenario(
        one_message, answered_in_one_session, losses=with_lost_entries
    ),
    "a message whose session is lost": scenario(
        one_message,
        told_that_the_session_is_lost,
        prepare=forgetful,
        since="the engine is opened",
        crosses=["notices"],
    ),
    "a message that a service shows too": scenario(
        one_message,
        arrived_in_order,
        make=mirrored,
        is_resumed=False,
        crosses=["before a part is handed over", "after a part was handed over"],
    ),
    "a newer message": scenario(
        two_messages,
        neither_is_lost,
        since="the prompt is taken",
        ends=[InputEnd.SUPERSEDED, InputEnd.ANSWERED],
    ),
    "a command": scenario(one_command, cleared_if_accepted, ends=[True, False]),
    "a welcome": scenario(greeted, welcomed_once, is_prepared=False, crosses=["inquiries"]),
    "a click": scenario(
        clicked, asked_once, is_prepared=False, prepare=with_a_card, crosses=["inquiries"]
    ),
    "a turn that fails": scenario(
        a_failing_turn,
        said_or_answered,
        prepare=overloaded,
        since="the answer is recorded",
        ends=[InputEnd.FAILED, InputEnd.ANSWERED],
    ),
    "a fork that is kept": fork("Keep all of it", crosses=[LEFT, "fork"]),
    "a fork of which a summary is kept": fork("Keep a summary", since=LEFT),
    "a fork that is left": fork("Leave it", since=LEFT),
}


@pytest.mark.usefixtures("inline_executor")
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(
    tmp_path: Path, name: str
) -> None:
    """However many entries of its last turn the engine had not written down yet."""
    await crash_at_every_step(SCENARIOS[name], tmp_path)


@pytest.mark.usefixtures("inline_executor")
async def test_the_steps_are_all_there() -> None:
    """If a write were left out, the test above would not crash there."""
    bot, counter = RestartedBot(), StepCounter()
    await bot.prepare()
    await bot.run(counter)

    rows = [type(row).__name__ for row in bot.rows]
    assert rows == ["Accepted", "Taken", "ToolCalled", "Ended"]
    changes = [step.partition("changes ")[2] for step in counter.steps if "changes" in step]
    assert [each for each in changes if each != "nothing"] == [
        "inbox, messages",
        "inbox, mirrors, updates",
        "mirrors, session, session_history",
        "inbox",
        "inbox, messages, usage",
    ], "accepted, taken, named, called, concluded"


@pytest.mark.usefixtures("inline_executor")
@pytest.mark.parametrize("kind", [FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST])
async def test_where_the_engine_alone_dies_the_turn_goes_on(kind: FailureKind) -> None:
    begun = RestartedBot()
    await begun.prepare(is_resumed=True)
    for step, lost in losses(kind):
        bot = begun.copied()
        bot.engine.crashes.append(EngineCrash(step, kind, lost))
        with noted(f"{kind} at {step}, {lost} lost"):
            await bot.run(StepCounter())
            assert bot.engine.crashes == []
            if kind is FailureKind.ENGINE_DIED:
                await answered_in_one_session(bot)
                assert bot.told == []
            else:
                await told_that_the_session_is_lost(bot)
                assert bot.stores.session.read() != begun.main


def losses(kind: FailureKind) -> list[tuple[str, int]]:
    """Each step with all that the engine can lose there, if it does not lose everything."""
    return [
        (step, lost)
        for step, entries in STEPS_OF_THE_ENGINE.items()
        for lost in range(entries + 1 if kind is FailureKind.ENGINE_DIED else 1)
    ]


@cache
def begun(*, is_resumed: bool) -> RestartedBot:
    bot = RestartedBot()
    asyncio.run(bot.prepare(is_resumed=is_resumed))
    return bot


@given(
    crashes=st.lists(st.tuples(st.integers(1, 45), st.integers(0, 3)), min_size=1, max_size=4),
    is_resumed=st.booleans(),
)
def test_however_often_it_crashes_a_message_has_one_end(
    crashes: list[tuple[int, int]], is_resumed: bool
) -> None:
    """Each crash is a step and how many entries of its transcript the engine loses."""

    bot = begun(is_resumed=is_resumed).copied()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        for at, lost in crashes:
            await bot.run(StepCounter(at))
            bot.forget_last(lost)
        await bot.run(StepCounter())
        await bot.send_another()

        given_up = [line for line in bot.told if WRITE in line]
        if bot.ends == [InputEnd.SET_ASIDE]:
            assert bot.answers == []
            assert len(given_up) == 1
            assert bot.times_shown(given_up[0]) == 1
            assert len(bot.engine.effects) <= 1
            assert [bot.times_shown(update) for update in UPDATES] == [1, 1]
            assert (bot.attempts, bot.waits) == (2, False)
        else:
            assert given_up == []
            check_answered(bot)

    asyncio.run(run())

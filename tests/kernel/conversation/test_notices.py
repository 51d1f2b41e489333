"""What the program has to tell: once, in a quiet moment, and to the agent too."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from tests.kernel.conversation.crashing import Crash, crashing_stores, each_crash
from tests.kernel.conversation.delivery_scene import (
    FORK,
    PARENT,
    DeliveryScene,
    ping,
    run_of,
    with_a_token,
)
from tests.kernel.conversation.scene import NOW, STATUS, Scene, scene
from tests.kernel.conversation.slow_engine import half_way
from tests.stores import memory_stores

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.pings import PingRefused
from ollim_bot.kernel.values.runs import RunKind

pytestmark = pytest.mark.usefixtures("inline_executor")


MINUTE = 60.0


async def tell_first(at: Scene) -> None:
    await at.talk.notices.tell("First.")
    await at.gathered()
    await at.until(lambda: at.told == ["First."])


async def test_a_notice_is_posted_and_left_for_the_agent() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.talk.notices.tell("The disk is almost full. Remove something.")
        await at.gathered()
        await at.until(lambda: at.surface.posts)

        assert at.told == ["The disk is almost full. Remove something."]
        assert at.surface.posted_by(Author.PROGRAM) == at.told
        assert at.pending == at.told
        await at.ask("hello")
        assert "- (just now) The disk is almost full." in engine.prompts[0]


async def test_a_command_is_written_as_it_can_be_typed_where_the_bot_was_started() -> None:
    status = replace(STATUS, program=".venv/bin/ollim-bot")

    async def doctor() -> str:
        return "All is well. `ollim-bot doctor` says more."

    async with scene(ScriptedEngine(), status=status, doctor=doctor) as at:
        await at.talk.notices.tell("The login is gone. Run `ollim-bot auth login`.")
        await at.gathered()
        await at.until(lambda: at.told)
        assert at.told == ["The login is gone. Run `.venv/bin/ollim-bot auth login`."]
        # The agent finds the program by its name.
        assert at.pending == ["The login is gone. Run `ollim-bot auth login`."]
        answer = await at.chat.command("web", "/doctor")
        assert answer.text == "All is well. `.venv/bin/ollim-bot doctor` says more."
        await at.chat.trouble("Discord refused the token. Run `ollim-bot doctor`.")
        assert at.chat.status.trouble.endswith("Run `.venv/bin/ollim-bot doctor`.")


async def test_a_list_keeps_its_lines_and_is_one_line_for_the_agent() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.talk.notices.tell("Missed: 2 things:\n- Gym:  today 8:00\n\n- Plan: today 9:00")
        await at.gathered()
        await at.until(lambda: at.told)
        assert at.told == ["Missed: 2 things:\n- Gym: today 8:00\n- Plan: today 9:00"]
        assert at.pending == ["Missed: 2 things: - Gym: today 8:00 - Plan: today 9:00"]


async def test_a_notice_that_is_held_until_the_morning_says_the_day() -> None:
    clock = ManualClock(NOW.replace(hour=23))
    async with scene(ScriptedEngine(), clock=clock) as at:
        await at.chat.command("web", "/quiet until 7:00")
        await at.talk.notices.tell("Missed: “Gym”, today 8:00. The next is tomorrow 8:00.")
        await at.gathered()
        await clock.advance(9 * 60 * MINUTE)
        await at.until(lambda: "Gym" in "".join(each.text for each in at.log))
        digest = next(each.text for each in at.log if "Gym" in each.text)
        assert "“Gym”, Tue 24 Feb 08:00. The next is Wed 25 Feb 08:00." in digest


async def test_the_same_thing_is_told_once_also_after_a_restart() -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(), clock=clock) as at:
        await at.talk.notices.tell("No login.", key="login")
        await at.talk.notices.tell("Still no login.", key="login")
        await at.gathered()
        await at.until(lambda: at.told)
        await at.talk.notices.tell("Again no login.", key="login")
    async with scene(ScriptedEngine(), clock=clock, stores=at.stores) as again:
        await again.talk.notices.tell("No login yet.", key="login")
        await again.talk.notices.tell("No login.")
        await clock.advance(30 * MINUTE)
        await again.until(lambda: len(again.told) == 2)
        assert again.told == ["No login.", "No login."]
        assert again.pending == ["No login.", "No login."]


async def test_what_is_over_may_be_told_again() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.talk.notices.tell("No login.")
        await at.gathered()
        await at.until(lambda: at.told)
        await at.talk.notices.forget("No login.")
        await at.talk.notices.tell("No login.")
        await at.clock.advance(10 * MINUTE)
        await at.until(lambda: len(at.told) == 2)


async def test_what_is_over_before_it_was_told_is_told_to_nobody() -> None:
    async with scene(ScriptedEngine()) as at:
        await tell_first(at)
        await at.talk.notices.tell("routines/a.md: is broken.")
        await at.talk.notices.tell("Third.")
        await at.talk.notices.forget("routines/a.md: is broken.")
        await at.clock.advance(10 * MINUTE)
        await at.until(lambda: at.told == ["First.", "Third."])
        assert at.pending == ["First.", "Third."]


async def test_several_within_ten_minutes_are_one_notice() -> None:
    async with scene(ScriptedEngine()) as at:
        await tell_first(at)
        await at.talk.notices.tell("Second.")
        await at.clock.advance(5 * MINUTE)
        await at.talk.notices.tell("Third.")
        await at.clock.advance(5 * MINUTE - 1)
        assert at.told == ["First."]
        assert at.pending == ["First.", "Second.", "Third."]
        await at.clock.advance(1)
        await at.until(lambda: len(at.told) == 2)
        assert at.told == ["First.", "Second.\nThird."]


async def test_problems_that_come_together_are_one_notice_two_seconds_after_the_first() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.talk.notices.tell("First.")
        await at.clock.advance(1.5)
        await at.talk.notices.tell("Second.")
        await at.clock.advance(0.4)
        assert at.told == []
        await at.clock.advance(0.1)
        await at.until(lambda: at.told == ["First.\nSecond."])


async def test_a_reminder_at_stake_is_told_within_the_ten_minutes_with_what_waits() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.talk.notices.tell("First.")
        await at.clock.advance(2)
        await at.talk.notices.tell("Second.")
        await at.clock.advance(MINUTE)
        await at.talk.notices.tell("reminders/rent.md: is broken.", for_reminder=True)
        await at.clock.advance(1.9)
        assert at.told == ["First."]
        await at.clock.advance(0.1)
        await at.until(lambda: len(at.told) == 2)
        assert at.told[1] == "Second.\nreminders/rent.md: is broken."
        await at.talk.notices.tell("Fourth.")
        await at.clock.advance(9 * MINUTE)
        assert len(at.told) == 2


async def test_the_ten_minutes_count_across_a_restart() -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(), clock=clock) as at:
        await tell_first(at)
    await clock.advance(4 * MINUTE)
    async with scene(ScriptedEngine(), clock=clock, stores=at.stores) as again:
        await again.talk.notices.tell("Second.")
        await again.until(lambda: clock.sleeping)
        await clock.advance(6 * MINUTE - 1)
        assert again.told == ["First."]
        await clock.advance(1)
        await again.until(lambda: again.told == ["First.", "Second."])


async def test_a_clock_that_was_set_back_does_not_hold_up_a_notice() -> None:
    async with scene(ScriptedEngine()) as at:
        await tell_first(at)
        await at.until(lambda: at.store.query(lambda tx: tx.notices.get()).last_told_at)
        at.clock.jump(-3600)
        await at.talk.notices.tell("Second.")
        await at.gathered()
        await at.until(lambda: at.told == ["First.", "Second."])


async def test_nothing_is_told_in_the_middle_of_a_turn() -> None:
    engine = ScriptedEngine().then(Says("Half"), Waits())
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        await at.talk.notices.tell("The disk is almost full.")
        await at.talk.notices.flush()
        assert at.told == []
        await at.chat.interrupt()
        await at.gathered()
        await at.until(lambda: at.told)
        assert [each.text for each in at.log] == ["one", "Half", "The disk is almost full."]


async def test_a_crash_at_any_step_of_telling_tells_once_and_leaves_one_update() -> None:
    for counter in each_crash():
        stores, is_known = memory_stores(NOW), False
        with suppress(Crash):
            async with scene(
                ScriptedEngine(), stores=crashing_stores(stores, counter), runs=False
            ) as at:
                await at.talk.notices.tell("First.")
                is_known = True
                await at.talk.notices.flush()
                await at.talk.notices.tell("Second.")
        clock = ManualClock(NOW)
        await clock.advance(10 * MINUTE)
        async with scene(ScriptedEngine(), stores=stores, clock=clock, runs=False) as again:
            await again.talk.notices.tell("Second.")
            await again.talk.notices.flush()
            told = "\n".join(again.told).splitlines()
            where = f"step {len(counter.steps)}: {counter.steps[-1]}"
            assert told.count("First.") == again.pending.count("First."), where
            assert told.count("First.") == 1 or not is_known, where
            assert told.count("Second.") == again.pending.count("Second.") == 1, where
    assert len(counter.steps) > 7


BACKGROUND = run_of(RunKind.BACKGROUND)


async def test_a_ping_is_logged_paid_and_recorded_in_one_commit_before_it_is_seen() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        before = scene.store.commits
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert scene.store.commits == before + 1
        assert scene.texts == ["ping 7"]
        assert scene.spent == (1, 1, 0)
        assert scene.recorded == [(int(ping().id), FORK, PARENT)]
        await scene.until(lambda: scene.surfaces[-1].texts == ["ping 7"])


async def test_a_refused_payment_sends_and_writes_nothing() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        assert not await outbox.send(
            ping(), BACKGROUND, lambda budget: (budget, PingRefused("No."))
        )
        await scene.clock.advance(1)
    assert (scene.texts, scene.recorded, scene.surfaces[-1].texts) == ([], [], [])
    assert scene.spent == (0, 0, 0)


@pytest.mark.parametrize("kind", [RunKind.FORK, RunKind.BACKGROUND, RunKind.ISOLATED])
async def test_a_reply_to_what_a_fork_said_finds_its_session(kind: RunKind) -> None:
    scene, message = DeliveryScene(), ping()
    async with scene.running() as outbox:
        await outbox.send(message, run_of(kind))
    assert scene.recorded == [(int(message.id), FORK, PARENT)]
    known = scene.store.run(lambda tx: tx.fork_messages.get())
    assert [each.ts for each in known] == [NOW.timestamp()]


async def test_what_the_main_session_says_is_no_message_of_a_fork() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        await outbox.send(replace(ping(), id=MessageId("any-id")), run_of(RunKind.MAIN))
        await outbox.send(ping(), run_of(RunKind.BACKGROUND, session=None))
    assert scene.recorded == []
    assert scene.texts == ["ping 7", "ping 7"]

"""A quiet night: what must come comes, everything else is one digest in the morning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import ScheduleScene, schedule_scene

from ollim_bot.kernel.changes.item_answers import ItemAnswers, end_undo
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import Answer
from ollim_bot.kernel.values.pings import DEFAULT_CAPACITY
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.kernel.values.quiet import QuietChoice, ended_now
from ollim_bot.kernel.values.run_history import DROPPED

# A short night, because the clock of the tests stops every half minute.
EVENING = datetime(2026, 11, 16, 21, 59, tzinfo=UTC)
NIGHT = "22:00-22:20"
MORNING = EVENING.replace(hour=22, minute=20)
MINUTE = 60.0
FREELY: dict[str, Any] = {"update-main-session": "freely"}


@asynccontextmanager
async def evening(engine: ScriptedEngine, root: Path) -> AsyncIterator[ScheduleScene]:
    """A bot a minute before the quiet hours."""
    async with schedule_scene(engine, root, clock=ManualClock(EVENING)) as at:
        at.configure("quiet_hours", NIGHT)
        yield at


def routine(at: ScheduleScene, name: str, cron: str) -> None:
    at.routine(name, cron, **{"background": "true", **FREELY, "description": name})


def digests(at: ScheduleScene) -> list[ChatMessage]:
    return [each for each in at.log if each.id.startswith("digest-")]


def held(at: ScheduleScene) -> list[str]:
    return [each.message.text for each in at.store.query(lambda tx: tx.held.get()).waiting]


def buttons(message: ChatMessage) -> list[tuple[int, str]]:
    assert message.card is not None
    return [(each.line, each.label) for each in message.card.buttons]


def labels(message: ChatMessage) -> list[str]:
    return [label for _, label in buttons(message)]


async def press(at: ScheduleScene, message: ChatMessage, label: str, line: int = 0) -> None:
    assert message.card is not None
    named = (each for each in message.card.buttons if (each.line, each.label) == (line, label))
    await at.chat.click("web", message.id, next(named).custom_id)


async def asleep(at: ScheduleScene, minutes: float) -> None:
    await at.advance(minutes * MINUTE, 30)


async def test_a_night_has_its_reminders_and_its_alarm_and_the_rest_comes_in_the_morning(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    engine.then(pings("Tuesday is full."))
    engine.then(pings("Drink water."))
    engine.then(pings("The cellar is wet.", critical=True))
    engine.then(pings("The mail is sorted."))
    async with evening(engine, tmp_path) as at:
        at.configure("receipt_in_digest", "on")
        routine(at, "plan", "2 22 * * *")
        at.remind("water", timedelta(minutes=5), **FREELY)
        routine(at, "cellar", "6 22 * * *")
        routine(at, "mail", "12 22 * * *")
        await asleep(at, 9)
        await at.talk.notices.tell("The disk is almost full.")
        await asleep(at, 11)
        assert [each.text for each in at.log] == ["Drink water.", "The cellar is wet."]
        assert held(at) == ["Tuesday is full.", "The disk is almost full.", "The mail is sorted."]
        await asleep(at, 2)
        await at.until(lambda: digests(at))
        (digest,) = digests(at)
        assert digest.text == (
            "While it was quiet:\n"
            "- 22:02 · plan: Tuesday is full.\n"
            "- 22:08 · The disk is almost full.\n"
            "- 22:12 · mail: The mail is sorted.\n"
            "Today: due 4, came 4, held 0, late 0, lost 0."
        )
        assert digest.at == MORNING
        assert [each.text for each in at.log][2:] == [digest.text]
        assert held(at) == []
        kept = [row for row in at.rows if row.state in ("held", "released")]
        assert [row.state for row in kept] == ["held", "held", "released", "released"]
        assert kept[0].facts["until"] == MORNING.isoformat()
        assert at.is_right


async def test_what_a_page_made_the_agent_set_does_not_come_at_night_before_the_owner_orders_it(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Buy this!")).then(pings("The dentist opens."))
    async with evening(engine, tmp_path) as at:
        at.remind("spam", timedelta(minutes=3), untrusted="web page", **FREELY)
        at.remind("text", timedelta(minutes=5), "Sale!", untrusted="web page", plain="true")
        at.remind("dentist", timedelta(minutes=7), untrusted="web page", must="true", **FREELY)
        await asleep(at, 15)
        assert [each.text for each in at.log] == ["The dentist opens."]
        assert held(at) == ["Buy this!", "Sale!"]


async def test_a_held_ping_is_accepted_and_paid_for_once(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full."), pings("And Wednesday."))
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 4)
        (end,) = at.ended("plan")
        assert end.state == "done"
        assert "silent_because" not in end.facts
        assert "pinged once already" in str(end.facts["refused_pings"])
        assert at.store.query(lambda tx: tx.budget.get()).daily_used == 1


async def test_of_a_plain_routine_that_need_not_come_the_newest_comes_in_the_morning(
    tmp_path: Path,
) -> None:
    async with evening(ScriptedEngine(), tmp_path) as at:
        at.routine("water", "2-12/5 22 * * *", "Drink water.", plain="true")
        at.routine("pills", "4 22 * * *", "Take your pills.", plain="true", must="true")
        await asleep(at, 20)
        assert [each.text for each in at.log] == ["Take your pills."]
        await asleep(at, 2)
        _, digest = at.log
        assert digest.text.splitlines()[1:] == ["- 22:12 · Drink water."]
        assert labels(digest) == ["Done", "1 h"]
        assert [row.state for row in at.ended("water")] == ["done"] * 3
        assert at.is_right


@pytest.mark.parametrize(("came_before", "ends_early"), [(False, True), (True, False)])
async def test_of_a_nag_that_need_not_come_the_newest_is_a_line_of_the_digest(
    tmp_path: Path, came_before: bool, ends_early: bool
) -> None:
    more = {"plain": "true", "must": "false", "nag": "2m x 3"}
    async with evening(ScriptedEngine(), tmp_path) as at:
        at.remind("tea", timedelta(seconds=10 if came_before else 120), "Make tea.", **more)
        await asleep(at, 8)
        assert len(at.log) == came_before
        if ends_early:
            at.store.run(lambda tx: tx.quiet.put(ended_now(quiet_settings(tx), tx.now)))
            await asleep(at, 1)
        else:
            await asleep(at, 13)
        assert len(at.log) == came_before + 1
        (digest,) = digests(at)
        assert len(digest.text.splitlines()) == 2
        assert labels(digest) == ["Done", "1 h"]
        if came_before:
            assert labels(at.log[0]) == []
        await asleep(at, 3)
        digest, again = at.log[-2:]
        assert labels(digest) == []
        assert labels(again)[0] == "Done"
        assert at.is_right


async def test_an_undo_after_the_quiet_brings_the_card_that_had_not_come(tmp_path: Path) -> None:
    more = {"plain": "true", "must": "false", "nag": "2m x 3"}
    async with evening(ScriptedEngine(), tmp_path) as at:
        at.remind("tea", timedelta(minutes=2), "Make tea.", **more)
        await asleep(at, 19)
        (item,) = at.items
        answers = ItemAnswers(at.store, at.talk.job_file_changes)
        await answers.answer(item.key, Answer.DONE, "web")
        await asleep(at, 4)
        await answers.take_back(item.key, "web")
        (card,) = at.log
        assert card.card is not None
        assert [each.label for each in card.card.buttons][:1] == ["Done"]
        await asleep(at, 3)
        assert len(at.log) == 2
        assert at.is_right


async def test_what_was_answered_meanwhile_is_not_asked_again(tmp_path: Path) -> None:
    more = {"plain": "true", "must": "false"}
    async with evening(ScriptedEngine(), tmp_path) as at:
        at.remind("tea", timedelta(minutes=2), "Make tea.", nag="2m x 3", **more)
        at.remind("milk", timedelta(minutes=3), "Buy milk.", **more)
        await asleep(at, 10)
        (tea,) = (each for each in at.items if each.title == "Make tea.")
        answers = ItemAnswers(at.store, at.talk.job_file_changes)
        assert await answers.answer(tea.key, Answer.DONE, "web")
        await asleep(at, 12)
        (digest,) = at.log
        assert digest.text.splitlines()[1:] == ["- 22:02 · Buy milk."]
        dropped = [row.facts["why"] for row in at.rows if row.state == DROPPED]
        assert dropped == ["you had answered it"]
        assert held(at) == []
        assert at.is_right


async def test_the_lines_of_a_digest_are_answered_where_they_stand(tmp_path: Path) -> None:
    more = {"plain": "true", "must": "false"}
    async with evening(ScriptedEngine(), tmp_path) as at:
        at.remind("tea", timedelta(minutes=2), "Make tea.", **more)
        at.remind("milk", timedelta(minutes=3), "Buy milk.", **more)
        await asleep(at, 22)
        (digest,) = at.log
        assert buttons(digest) == [(1, "Done"), (1, "1 h"), (2, "Done"), (2, "1 h")]
        await press(at, digest, "Done", 2)
        await at.until(lambda: buttons(at.log[0])[2:] == [(2, "Undo")])
        (digest,) = at.log
        assert digest.text.splitlines()[1:] == ["- 22:01 · Make tea.", "- ✓ Buy milk · 22:21"]
        await press(at, digest, "1 h", 1)
        await at.until(lambda: buttons(at.log[0]) == [(1, "Undo"), (2, "Undo")])
        await press(at, at.log[0], "Undo", 2)
        await at.until(lambda: (2, "Done") in buttons(at.log[0]))
        await asleep(at, 11)
        at.store.run(end_undo)
        await at.until(lambda: buttons(at.log[0]) == [(2, "Done"), (2, "1 h")])


async def test_a_file_and_a_card_with_buttons_are_a_line_with_show_which_posts_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("Monday")
    embed = {"title": "Trip", "buttons": [{"label": "Book", "action": "agent:book it"}]}
    engine = ScriptedEngine()
    engine.then(CallsTool("mcp__discord__send_file", {"file_path": "notes/plan.md"}))
    engine.then(CallsTool("mcp__discord__discord_embed", embed))
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        routine(at, "trip", "3 22 * * *")
        await asleep(at, 22)
        (digest,) = at.log
        assert digest.text == "While it was quiet:\n- 22:02 · plan: plan.md\n- 22:03 · trip: Trip"
        assert buttons(digest) == [(1, "Show"), (2, "Show")]
        await press(at, digest, "Show", 1)
        await press(at, digest, "Show", 2)
        await press(at, digest, "Show", 2)
        digest, file, card = at.log
        assert digest.text.endswith("- 22:02 · plan: plan.md (below)\n- 22:03 · trip: Trip (below)")
        assert buttons(digest) == []
        assert [each.name for each in file.attachments] == ["plan.md"]
        assert card.card is not None
        (button,) = card.card.buttons
        prompts = at.store.query(lambda tx: tx.inquiries.get()).waiting
        assert [each.prompt for each in prompts if each.key == button.data] == ["book it"]


async def test_what_a_run_changes_at_night_can_be_undone_in_the_morning(tmp_path: Path) -> None:
    given = {"reminder_id": "train"}
    engine = ScriptedEngine().then(CallsTool("mcp__discord__cancel_reminder", given))
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        at.remind("train", timedelta(days=2), "Book the train.")
        await asleep(at, 20)
        assert at.log == []
        assert at.reminders == []
        await asleep(at, 2)
        (digest,) = at.log
        assert "Reminder cancelled: Book the train." in digest.text
        await press(at, digest, "Show", 1)
        assert labels(at.log[1]) == ["Undo"]


async def test_what_does_not_fit_is_on_the_next_page_of_the_same_message(tmp_path: Path) -> None:
    async with evening(ScriptedEngine(), tmp_path) as at:
        await asleep(at, 2)
        for number in range(27):
            await at.talk.notices.tell(f"Notice {number}.")
        await asleep(at, 20)
        (first,) = at.log
        assert len(first.text.splitlines()) == 22
        assert first.text.endswith("Notice 19.\n+7 more")
        assert labels(first) == ["Show the rest"]
        await press(at, first, "Show the rest")
        (second,) = at.log
        assert second.id == first.id
        assert [line[-10:] for line in second.text.splitlines()[1:]] == [
            f"Notice {number}." for number in range(20, 27)
        ]
        await press(at, second, "Back to the start")
        assert [each.text for each in at.log] == [first.text]


@pytest.mark.parametrize("lines", [1, 2])
async def test_a_reply_to_the_only_ping_of_a_digest_goes_to_its_fork(
    tmp_path: Path, lines: int
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full."))
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 5)
        if lines == 2:
            await at.talk.notices.tell("The disk is almost full.")
        await asleep(at, 17)
        (digest,) = at.log
        engine.then(Says("Moved."))
        reply = IncomingMessage(InputId("i1"), "web", "Move it.", reply_to=digest.id)
        await at.chat.receive(reply)
        await at.until(lambda: at.log[-1].text == "Moved.")
        assert at.log[-1].in_fork == (lines == 1)
        assert "Tuesday is full." in engine.prompts[-1]


async def test_the_answer_to_the_owner_is_not_held_and_no_digest_comes_into_it(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full.")).then(Says("I am"), Waits())
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 18)
        await at.chat.receive(IncomingMessage(InputId("i1"), "web", "Are you there?"))
        await at.until(lambda: at.talk.state.turn is not None)
        await asleep(at, 6)
        assert digests(at) == []
        await at.chat.interrupt()
        await at.until(lambda: digests(at))
        assert [each.text for each in at.log][:2] == ["Are you there?", "I am"]


@pytest.mark.parametrize("change", ["lifted", "hours off", "shorter", "jump", "longer"])
async def test_however_the_quiet_ends_there_is_one_digest(tmp_path: Path, change: str) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full."))
    async with evening(engine, tmp_path) as at:
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 5)
        assert held(at) == ["Tuesday is full."]
        match change:
            case "lifted":
                at.store.run(lambda tx: tx.quiet.put(ended_now(quiet_settings(tx), tx.now)))
            case "hours off":
                at.configure("quiet_hours", None)
            case "shorter":
                at.configure("quiet_hours", "22:00-22:03")
            case "jump":
                at.clock.jump(20 * MINUTE)
            case "longer":
                later = at.clock.now() + timedelta(minutes=25)
                at.store.run(lambda tx: tx.quiet.put(QuietChoice(until=later)))
                await asleep(at, 24)
                assert digests(at) == []
        await asleep(at, 2)
        await at.until(lambda: digests(at))
        await asleep(at, 20)
        assert len(digests(at)) == 1
        assert held(at) == []


async def test_a_digest_that_a_channel_refuses_gives_back_every_ping_of_its_lines(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full.")).then(pings("The mail is sorted."))
    clock = ManualClock(EVENING)
    service = FakeChatService(clock)
    async with schedule_scene(engine, tmp_path, clock=clock, channels=[service]) as at:
        at.configure("quiet_hours", NIGHT)
        routine(at, "plan", "2 22 * * *")
        routine(at, "mail", "3 22 * * *")
        await asleep(at, 6)
        assert at.store.query(lambda tx: tx.budget.get()).daily_used == 2
        service.refusal = "Your direct messages are closed."
        at.configure("quiet_hours", None)
        await asleep(at, 1)
        await at.until(lambda: at.store.query(lambda tx: tx.budget.get()).daily_used == 0)
        assert at.store.query(lambda tx: tx.budget.get()).tokens == DEFAULT_CAPACITY


def turns(at: ScheduleScene) -> list[tuple[str, str]]:
    said = (each for each in at.log if each.author is Author.ASSISTANT)
    return [(each.job, each.text) for each in said]


async def test_a_routine_in_the_conversation_waits_and_its_newest_moment_follows_the_digest(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full."))
    async with evening(engine, tmp_path) as at:
        routine(at, "mail", "3 22 * * *")
        at.routine("plan", "2-12/5 22 * * *", description="plan tomorrow")
        at.routine("pills", "4 22 * * *", description="pills", must="true", late="run")
        at.routine("loud", "6 22 * * *", description="alarm", quiet="false")
        engine.then(Says("Take them.")).then(Says("Wake up.")).then(Says("Here is the plan."))
        await asleep(at, 20)
        assert turns(at) == [("pills", "Take them."), ("alarm", "Wake up.")]
        await asleep(at, 2)
        await at.until(lambda: len(turns(at)) == 3)
        *_, digest, plan = at.log
        assert digest.id.startswith("digest-")
        assert (plan.job, plan.text) == ("plan tomorrow", "Here is the plan.")
        assert plan.footer == "It was due today 22:12, in the quiet."
        assert (
            "[routine:plan] [was due: 10:12 PM, in the owner's quiet hours]" in engine.prompts[-1]
        )
        ends = [(row.state, row.facts.get("reason")) for row in at.ended("plan")]
        assert ends == [("skipped", "quiet"), ("skipped", "quiet"), ("done", None)]
        assert at.is_right


async def test_a_moment_at_the_very_end_of_the_quiet_is_outside(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(Says("Good morning."))
    async with evening(engine, tmp_path) as at:
        at.routine("plan", "10,20 22 * * *", description="plan")
        await asleep(at, 23)
        (plan,) = at.log
        assert (plan.text, plan.footer) == ("Good morning.", "")
        ends = [(row.occurrence and row.occurrence.id[-6:], row.state) for row in at.ended("plan")]
        assert sorted(ends) == [("10:00Z", "skipped"), ("20:00Z", "done")]
        assert at.is_right


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_routine_that_waits_survives_a_restart_and_is_not_called_late(
    tmp_path: Path, is_over: bool
) -> None:
    clock = ManualClock(EVENING)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.configure("quiet_hours", NIGHT)
        at.routine("plan", "2 22 * * *", description="plan")
        await asleep(at, 5)
    clock.jump((300 if is_over else 1) * MINUTE)
    engine = ScriptedEngine().then(Says("Here is the plan."))
    async with schedule_scene(engine, tmp_path, clock=clock) as again:
        if not is_over:
            await asleep(again, 5)
            assert again.log == []
            await asleep(again, 15)
        await again.until(lambda: turns(again))
        assert "late" not in engine.prompts[-1].splitlines()[0]
        assert [row.state for row in again.ended("plan")] == ["done"]
        assert check(again.rows, clock.now(), clock.now()) == []

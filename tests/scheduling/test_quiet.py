"""A quiet night: what must come comes, everything else is one digest in the morning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.scheduling.scene import ScheduleScene, schedule_scene

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.pings import DEFAULT_CAPACITY
from ollim_bot.domain.quiet import QuietChoice, ended_now
from ollim_bot.ports import IncomingMessage
from ollim_bot.store.steps import quiet_settings
from ollim_bot.testing.channel import FakeChatService
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import CallsTool, Says, ScriptedEngine, Waits

# A short night, because the clock of the tests stops every half minute.
EVENING = datetime(2026, 11, 16, 21, 59, tzinfo=UTC)
NIGHT = "22:00-22:20"
MORNING = EVENING.replace(hour=22, minute=20)
MINUTE = 60.0
FREELY: dict[str, Any] = {"update-main-session": "freely"}


def quiet_hours(at: ScheduleScene, hours: str | None) -> None:
    at.store.run(lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", hours)))


def pings(words: str, **more: object) -> CallsTool:
    return CallsTool("mcp__discord__ping_user", {"message": words, **more})


def routine(at: ScheduleScene, name: str, cron: str) -> None:
    at.routine(name, cron, **{"background": "true", **FREELY, "description": name})


def digests(at: ScheduleScene) -> list[ChatMessage]:
    return [each for each in at.log if each.id.startswith("digest-")]


def held(at: ScheduleScene) -> list[str]:
    return [each.message.text for each in at.store.query(lambda tx: tx.held.get()).waiting]


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
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
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
            "- 22:12 · mail: The mail is sorted."
        )
        assert digest.at == MORNING
        assert [each.text for each in at.log][2:] == [digest.text]
        assert held(at) == []
        kept = [row for row in at.rows if row.state in ("held", "released")]
        assert [row.state for row in kept] == ["held", "held", "released", "released"]
        assert kept[0].facts["until"] == MORNING.isoformat()
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


async def test_what_a_page_made_the_agent_set_does_not_come_at_night_before_the_owner_orders_it(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Buy this!")).then(pings("The dentist opens."))
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        at.remind("spam", timedelta(minutes=3), untrusted="web page", **FREELY)
        at.remind("text", timedelta(minutes=5), "Sale!", untrusted="web page", plain="true")
        at.remind("dentist", timedelta(minutes=7), untrusted="web page", must="true", **FREELY)
        await asleep(at, 15)
        assert [each.text for each in at.log] == ["The dentist opens."]
        assert held(at) == ["Buy this!", "Sale!"]


async def test_a_held_ping_is_accepted_and_paid_for_once(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full."), pings("And Wednesday."))
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
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
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        at.routine("water", "2-12/5 22 * * *", "Drink water.", plain="true")
        at.routine("pills", "4 22 * * *", "Take your pills.", plain="true", must="true")
        await asleep(at, 20)
        assert [each.text for each in at.log] == ["Take your pills."]
        await asleep(at, 2)
        _, digest, water = at.log
        assert digest.text.splitlines()[1:] == ["- 22:12 · Drink water. (below)"]
        assert water.text == "Drink water."
        assert [row.state for row in at.ended("water")] == ["done"] * 3
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


@pytest.mark.parametrize("ends_early", [False, True])
async def test_of_a_nag_that_need_not_come_the_next_time_comes_when_the_quiet_ends(
    tmp_path: Path, ends_early: bool
) -> None:
    more = {"plain": "true", "must": "false", "nag": "2m x 3"}
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        at.remind("tea", timedelta(seconds=10), "Make tea.", **more)
        await asleep(at, 6)
        assert len(at.log) == 1
        if ends_early:
            at.store.run(lambda tx: tx.quiet.put(ended_now(quiet_settings(tx), tx.now)))
            await asleep(at, 1)
        else:
            await asleep(at, 16)
        assert len(at.log) == 2
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


async def test_files_and_buttons_follow_the_digest_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("Monday")
    embed = {"title": "Trip", "buttons": [{"label": "Book", "action": "agent:book it"}]}
    engine = ScriptedEngine()
    engine.then(CallsTool("mcp__discord__send_file", {"file_path": "notes/plan.md"}))
    engine.then(CallsTool("mcp__discord__discord_embed", embed))
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        routine(at, "plan", "2 22 * * *")
        routine(at, "trip", "3 22 * * *")
        await asleep(at, 20)
        assert at.log == []
        await asleep(at, 2)
        digest, file, card = at.log
        assert digest.text == (
            "While it was quiet:\n- 22:02 · plan: plan.md (below)\n- 22:03 · trip: Trip (below)"
        )
        assert [each.name for each in file.attachments] == ["plan.md"]
        assert card.card is not None
        (button,) = card.card.buttons
        prompts = at.store.query(lambda tx: tx.inquiries.get()).waiting
        assert [each.prompt for each in prompts if each.key == button.data] == ["book it"]


async def test_what_a_run_changes_at_night_is_shown_in_the_morning(tmp_path: Path) -> None:
    given = {"reminder_id": "train"}
    engine = ScriptedEngine().then(CallsTool("mcp__discord__cancel_reminder", given))
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        routine(at, "plan", "2 22 * * *")
        at.remind("train", timedelta(days=2), "Book the train.")
        await asleep(at, 20)
        assert at.log == []
        assert at.reminders == []
        await asleep(at, 2)
        digest, card = at.log
        assert "Reminder cancelled: Book the train. (below)" in digest.text
        assert card.card is not None
        assert [each.label for each in card.card.buttons] == ["Undo"]


async def test_the_answer_to_the_owner_is_not_held_and_no_digest_comes_into_it(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full.")).then(Says("I am"), Waits())
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
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
    async with schedule_scene(engine, tmp_path, clock=ManualClock(EVENING)) as at:
        quiet_hours(at, NIGHT)
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 5)
        assert held(at) == ["Tuesday is full."]
        match change:
            case "lifted":
                at.store.run(lambda tx: tx.quiet.put(ended_now(quiet_settings(tx), tx.now)))
            case "hours off":
                quiet_hours(at, None)
            case "shorter":
                quiet_hours(at, "22:00-22:03")
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


async def test_a_restart_in_the_quiet_and_a_start_after_it_bring_one_digest(tmp_path: Path) -> None:
    clock = ManualClock(EVENING)
    async with schedule_scene(
        ScriptedEngine().then(pings("Tuesday is full.")), tmp_path, clock=clock
    ) as at:
        quiet_hours(at, NIGHT)
        routine(at, "plan", "2 22 * * *")
        await asleep(at, 5)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as again:
        await asleep(again, 5)
        assert held(again) == ["Tuesday is full."]
    clock.jump(60 * MINUTE)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as later:
        await later.until(lambda: digests(later))
        await asleep(later, 5)
        assert len(digests(later)) == 1


async def test_a_digest_that_a_channel_refuses_gives_back_every_ping_of_its_lines(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine().then(pings("Tuesday is full.")).then(pings("The mail is sorted."))
    clock = ManualClock(EVENING)
    service = FakeChatService(clock)
    async with schedule_scene(engine, tmp_path, clock=clock, channels=[service]) as at:
        quiet_hours(at, NIGHT)
        routine(at, "plan", "2 22 * * *")
        routine(at, "mail", "3 22 * * *")
        await asleep(at, 6)
        assert at.store.query(lambda tx: tx.budget.get()).daily_used == 2
        service.refusal = "Your direct messages are closed."
        quiet_hours(at, None)
        await asleep(at, 1)
        await at.until(lambda: at.store.query(lambda tx: tx.budget.get()).daily_used == 0)
        assert at.store.query(lambda tx: tx.budget.get()).tokens == DEFAULT_CAPACITY

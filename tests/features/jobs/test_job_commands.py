"""`/routines`, `/reminders`, `/runs` and their buttons: what is scheduled, and what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from tests.kernel.conversation.scene import NOW, Scene, card_of, scene, scripted

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import later
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import snoozed_until
from ollim_bot.kernel.values.hook_jobs import WebhookCall, WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.run_history import claiming_row
from ollim_bot.kernel.values.schedule import key_of
from ollim_bot.kernel.values.updates import KNOWN_TO_OWNER

HOUR = timedelta(hours=1)
PLAN = Routine(
    JobSpec(id="plan", message="Plan the day.", description="Morning"), Cron.parse("0 8 * * *")
)
WATER = Reminder(JobSpec(id="w1", message="Drink water.", background=True), NOW + HOUR)


BELL = WebhookSpec(
    JobSpec(id="bell", message="Someone is at the door.", description="The bell", background=True),
    {"type": "object", "properties": {"door": {"enum": ["front", "back"]}}},
)


def routine(number: int) -> Routine:
    spec = JobSpec(id=f"r{number}", message=f"Number {number}")
    return Routine(spec, Cron.parse(f"{number} 12 * * *"))


def called(at: Scene, key: str, moment: datetime) -> None:
    call = WebhookCall("bell", "The bell", key, key, key, {})
    at.store.run(lambda tx: tx.webhook_deliveries.accept(call, moment))


async def listed(at: Scene, command: str) -> CommandAnswer:
    return await at.chat.command("web", command)


def labels(card: Card) -> list[str]:
    return [button.label for button in card.buttons]


async def opened(at: Scene, command: str) -> None:
    """The card of the first job that the overview shows."""
    await listed(at, command)
    assert await at.press("More") == CommandAnswer()


async def test_a_routine_is_shown_with_its_next_moment_and_its_buttons() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        card = at.cards[-1]
        assert card.title == "Morning"
        assert card.description == ("At 8:00 every day.\nNext: tomorrow 8:00 (in 21 h 45 min).")
        assert labels(card) == ["Run now", "Skip once", "Pause", "Cancel"]
        assert card.problems() == []


async def test_a_reminder_is_shown_with_its_moment_and_can_be_snoozed() -> None:
    async with scene(scripted()) as at:
        at.stores.reminders.add(WATER)
        await opened(at, "/reminders")
        card = at.cards[-1]
        assert card.text == "Drink water.\nDue: today 11:15 (in 1 h)."
        assert labels(card) == ["Run now", "Snooze 1 h", "Next day 9:00", "Pause", "Cancel"]
        assert card.problems() == []


async def test_all_jobs_are_one_message_with_an_action_for_each_line() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        assert await listed(at, "/routines") == CommandAnswer()
        (card,) = at.cards
        assert card.problems() == []
        assert card.text == "Routines\nMorning · At 8:00 every day · next tomorrow 8:00"
        assert labels(card) == ["Skip once", "More"]
        said = (await at.press("Skip once")).text
        assert said.startswith("Skipped: Morning, tomorrow 8:00.")
        (card,) = at.cards
        assert card.lines[0].text.endswith(" · next Thu 26 Feb 08:00")
        assert labels(card) == ["Do not skip", "More"]


async def test_the_soonest_come_first_paused_ones_last_and_the_rest_is_counted() -> None:
    async with scene(scripted()) as at:
        for number in reversed(range(9)):
            at.stores.routines.add(routine(number))
        for number in (20, 21, 22):
            paused = routine(number)
            at.stores.routines.add(replace(paused, spec=replace(paused.spec, enabled=False)))
        assert (await listed(at, "/routines")).text == ""
        (card,) = at.cards
        assert card.problems() == []
        shown = [line.text.partition(" · ")[0] for line in card.lines]
        assert shown == [f"Number {number}" for number in (*range(9), 20)]
        assert [line.heading for line in card.lines] == [*([""] * 9), "Paused"]
        left_out = "Not shown: 2 more routines. `ollim-bot routine list` shows all."
        assert card.description == left_out


async def test_webhooks_are_listed_with_the_routines_and_have_their_buttons() -> None:
    async with scene(scripted(), webhook_port=9100) as at:
        at.stores.routines.add(PLAN)
        at.stores.webhooks.add(BELL)
        await listed(at, "/routines")
        (card,) = at.cards
        assert card.problems() == []
        assert card.title == "Routines and webhooks"
        assert [(line.heading, line.text) for line in card.lines] == [
            ("", "Morning · At 8:00 every day · next tomorrow 8:00"),
            ("Webhooks", "The bell"),
        ]
        assert labels(card) == ["Skip once", "More", "Pause", "More"]
        await at.chat.click("web", at.log[-1].id, card.buttons[-1].custom_id)
        assert at.cards[-1].text == (
            "The bell\nAddress: `http://127.0.0.1:9100/hook/bell`.\n"
            "Opened by: the secret `WEBHOOK_SECRET`.\nTakes: `door`.\n"
            "Then: a background run reads the data as untrusted text, and may write to you."
        )
        assert labels(at.cards[-1]) == ["Pause", "Cancel"]


async def test_a_webhook_is_listed_with_its_last_call() -> None:
    async with scene(scripted()) as at:
        at.stores.webhooks.add(BELL)
        await listed(at, "/routines")
        for key, moment in (("a", NOW - 2 * HOUR), ("b", NOW - HOUR), ("c", NOW - 3 * HOUR)):
            called(at, key, moment)
        await listed(at, "/routines")
        assert [line.text for line in at.cards[-1].lines] == ["The bell · called today 9:15"]


async def test_a_webhook_is_paused_resumed_and_cancelled_on_its_card() -> None:
    async with scene(scripted()) as at:
        at.stores.webhooks.add(BELL)
        await opened(at, "/routines")
        message = at.log[-1]
        assert (await at.press("Pause")).text == "Paused: The bell."
        assert not at.stores.webhooks.get("bell").item.spec.enabled
        card = card_of(at.message(message.id))
        assert card.description.startswith("Paused: calls are refused until it is resumed.\n")
        assert labels(card) == ["Resume", "Cancel"]
        assert [line.heading for line in at.cards[0].lines] == ["Paused"]
        assert (await at.press("Resume")).text == "Resumed: The bell."
        assert at.stores.webhooks.get("bell").item == BELL
        assert (await at.press("Cancel")).text == "Cancelled: The bell."
        assert at.stores.webhooks.all() == []
        assert at.pending == [
            f"{KNOWN_TO_OWNER}{done}: The bell." for done in ("paused", "resumed", "cancelled")
        ]


async def test_many_routines_leave_room_for_webhooks() -> None:
    async with scene(scripted()) as at:
        for number in range(12):
            at.stores.routines.add(routine(number))
            at.stores.webhooks.add(replace(BELL, spec=replace(BELL.spec, id=f"h{number}")))
        await listed(at, "/routines")
        (card,) = at.cards
        assert card.problems() == []
        assert [line.heading for line in card.lines].index("Webhooks") == 7
        assert card.description == (
            "Not shown: 5 more routines. `ollim-bot routine list` shows all. "
            "Not shown: 9 more webhooks. `ollim-bot webhook list` shows all."
        )


@pytest.mark.parametrize("what", ["routines", "reminders"])
async def test_where_nothing_is_scheduled_it_says_so(what: str) -> None:
    async with scene(scripted()) as at:
        answer = await listed(at, f"/{what}")
        assert answer.text.startswith(f"There are no {what}. Tell me what to ")
        assert at.log == []


async def test_an_overdue_reminder_comes_first_and_says_so() -> None:
    async with scene(scripted()) as at:
        at.stores.reminders.add(WATER)
        late = Reminder(JobSpec(id="x1", message="Call."), NOW - HOUR)
        at.stores.reminders.add(late)
        await opened(at, "/reminders")
        assert [line.text for line in at.cards[0].lines] == [
            "Call · overdue since today 9:15",
            "Drink water · today 11:15",
        ]
        assert at.cards[-1].text == "Call.\nOverdue since: today 9:15 (1 h ago)."
        await at.press("Snooze 1 h")
        run_at = at.stores.reminders.get("x1").item.run_at
        assert run_at == later(at.clock.now(), HOUR, timedelta(minutes=1)), "it counts from now"


async def test_a_pause_is_seen_on_the_card_and_taken_back_there() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        message = at.log[-1]
        assert await at.press("Pause") == CommandAnswer("Paused: Morning.", is_shown=True)
        assert not at.stores.routines.get("plan").item.spec.enabled
        card = card_of(at.message(message.id))
        assert card.description.endswith("\nPaused: it does not run until it is resumed.")
        assert labels(card) == ["Run now", "Resume", "Cancel"]
        said = (await at.press("Resume")).text
        assert said == "Resumed: Morning, tomorrow 8:00 (in 21 h 45 min)."
        assert at.pending == [f"{KNOWN_TO_OWNER}paused: Morning.", f"{KNOWN_TO_OWNER}r{said[1:]}"]
        assert at.stores.routines.get("plan").item == PLAN
        assert at.message(message.id).card == message.card


async def test_a_skip_is_seen_on_the_card_and_taken_back_there() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        message = at.log[-1]
        said = (await at.press("Skip once")).text
        assert said == (
            "Skipped: Morning, tomorrow 8:00. It comes again Thu 26 Feb 08:00 (in 1 d 22 h)."
        )
        card = card_of(at.message(message.id))
        assert card.description.splitlines()[1:] == [
            "Skipped: tomorrow 8:00.",
            "Next: Thu 26 Feb 08:00 (in 1 d 22 h).",
        ]
        assert labels(card) == ["Run now", "Do not skip", "Pause", "Cancel"]
        assert at.pending == [f"{KNOWN_TO_OWNER}s{said[1:]}"]
        skipping = at.message(message.id).card
        await at.press("Pause")
        await at.press("Resume")
        assert at.message(message.id).card == skipping
        await at.press("Do not skip")
        assert at.message(message.id).card == message.card
        assert at.store.query(lambda tx: tx.skips.get()).moments == {}


async def test_skipping_twice_skips_one_moment() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        old = at.log[-1]
        await opened(at, "/routines")
        first = await at.press("Skip once")
        skips = at.store.query(lambda tx: tx.skips.get()).moments
        again = await at.press("Skip once", old)
        assert again == first
        assert at.store.query(lambda tx: tx.skips.get()).moments == skips


@pytest.mark.parametrize(
    ("label", "later"), [("Snooze 1 h", 2 * HOUR), ("Next day 9:00", timedelta(hours=22.75))]
)
async def test_a_snooze_counts_from_the_moment_of_the_reminder(
    label: str, later: timedelta
) -> None:
    async with scene(scripted()) as at:
        at.stores.reminders.add(WATER)
        await opened(at, "/reminders")
        answer = await at.press(label)
        assert answer.text.startswith("Snoozed: Drink water, t")
        (only,) = at.stores.reminders.all()
        assert only.item == replace(WATER, run_at=NOW + later)
        assert at.pending == [f"{KNOWN_TO_OWNER}s{answer.text[1:]}"]


async def test_a_snooze_into_the_quiet_says_so() -> None:
    async with scene(scripted()) as at:
        at.stores.reminders.add(WATER)
        at.store.run(
            lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", "12:00-13:00"))
        )
        await opened(at, "/reminders")
        assert (await at.press("Snooze 1 h")).text.endswith(", in your quiet hours.")


def test_an_hour_is_an_hour_also_in_the_night_when_the_clocks_are_set_back() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    assert snoozed_until("1h", now).isoformat() == "2026-10-25T02:30:00+01:00"
    assert snoozed_until("10m", now).isoformat() == "2026-10-25T02:40:00+02:00"


async def test_a_cancelled_job_is_gone_and_named() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        message = at.log[-1]
        assert await at.press("Cancel") == CommandAnswer("Cancelled: Morning.", is_shown=True)
        assert at.pending == [f"{KNOWN_TO_OWNER}cancelled: Morning."]
        assert at.stores.routines.all() == []
        card = at.message(message.id).card
        # The stores of this scene have no files that could be brought back.
        assert card == Card("Routine cancelled: Morning")


@pytest.mark.parametrize("label", ["Run now", "Skip once", "Pause", "Cancel"])
async def test_a_button_of_a_job_that_is_gone_says_so(label: str) -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        message = at.log[-1]
        at.stores.routines.remove("plan")
        answer = await at.press(label)
        assert (answer.is_error, answer.text[:30]) == (True, "There is no routine plan. `oll")
        assert at.log[-1] == message


async def test_run_now_requests_one_run_of_a_job_at_a_time() -> None:
    async with scene(scripted()) as at:
        at.stores.routines.add(PLAN)
        await opened(at, "/routines")
        answer = await at.press("Run now")
        assert answer == CommandAnswer("Running now: Morning. `/runs` shows what comes of it.")
        refused = await at.press("Run now")
        assert await at.talk.manual_runs.take() == PLAN
        run = asyncio.create_task(asyncio.Event().wait())
        at.talk.manual_runs.track(cast("Any", run), key_of(PLAN))
        again = await at.press("Run now")
        run.cancel()
        assert refused == again == CommandAnswer("“Morning” is running already.", is_error=True)


async def test_runs_are_told_the_newest_first_with_what_came_of_them() -> None:
    async with scene(scripted()) as at:
        assert (await listed(at, "/runs")).text == "Nothing has run yet."
        first = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW - 2 * HOUR)
        second = Occurrence.by_hand(JobKind.REMINDER, "w1", NOW - HOUR)
        skipped = {"job": "Morning", "reason": "policy", "silent_because": "it was not run"}
        at.stores.ledger.append(
            claiming_row(first, NOW - 2 * HOUR),
            LedgerRow(NOW - 2 * HOUR, "skipped", first, skipped),
            claiming_row(second, NOW - HOUR, {"job": "Drink water."}),
            LedgerRow(NOW - HOUR, "running", second),
            LedgerRow(NOW - HOUR, "effect", second),
            LedgerRow(NOW - HOUR, "timed_out", second, {"pings": ["1"], "report": "R"}),
            LedgerRow(NOW, "armed"),
        )
        assert (await listed(at, "/runs")).text.splitlines() == [
            "- today 9:15, by hand: Drink water, timed out (pinged and reported)",
            "- today 8:15: Morning, skipped (you wanted it skipped)",
            "`ollim-bot runs` in a terminal shows more.",
        ]


async def test_only_the_newest_runs_are_told() -> None:
    async with scene(scripted()) as at:
        for minutes in range(30):
            moment = NOW - HOUR + timedelta(minutes=minutes)
            occurrence = Occurrence.scheduled(JobKind.ROUTINE, "plan", moment)
            at.stores.ledger.append(claiming_row(occurrence, moment))
        lines = (await listed(at, "/runs")).text.splitlines()
        assert len(lines) == 11
        assert lines[0] == "- today 9:44: plan, due"

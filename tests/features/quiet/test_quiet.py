"""Quiet: for how long is said and kept; what was held comes once, in order, afterwards."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.conversation.delivery_scene import ping, run_of
from tests.kernel.conversation.scene import NOW, InlineExecutor, Scene, card_of, scene

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.steps import hold, quiet_settings
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.digest import HeldMessage
from ollim_bot.kernel.values.due_items import move_button
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.pings import Charge, PingAllowed, PingBudget, PingVerdict
from ollim_bot.kernel.values.quiet import QUIET, is_quiet
from ollim_bot.kernel.values.runs import RunKind

pytestmark = pytest.mark.usefixtures("inline_executor")


COMES = (
    "Reminders that must come and urgent messages still come. The rest waits, and comes in one "
    "message at the end."
)

HELD = HeldMessage(ChatMessage(MessageId("7"), NOW, Author.BACKGROUND, "Tuesday is full."))


def set_hours(at: Scene, hours: str | None) -> None:
    at.store.run(lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", hours)))


async def said(line: str, now: datetime = NOW, *, hours: str | None = None) -> str:
    async with scene(ScriptedEngine(), clock=ManualClock(now)) as at:
        set_hours(at, hours)
        return (await at.chat.command("web", line)).text


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("2h", "today 12:16"),
        ("for 90 minutes", "today 11:46"),
        ("until 15:00", "today 15:00"),
        ("Until tomorrow 9am", "tomorrow 9:00"),
        ("tomorrow 9am", "tomorrow 9:00"),
        ("20m", "today 10:36"),
    ],
)
async def test_a_length_or_a_moment_makes_it_quiet_until_then(words: str, until: str) -> None:
    assert await said(f"/quiet {words}") == f"Quiet until {until}. {COMES} `/quiet off` ends it."


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("soon", "`soon` is not exact. Write"),
        ("4 days", "It can be quiet for 3 d at most."),
        ("until 3", "Write"),
    ],
)
async def test_what_is_no_length_and_no_moment_is_refused_with_a_hint(
    words: str, hint: str
) -> None:
    assert hint in await said(f"/quiet {words}")


async def test_alone_it_says_what_holds() -> None:
    assert await said("/quiet") == (
        "It is not quiet. `/quiet 2h` or `/quiet until 15:00` makes it quiet for a while. "
        "`/config quiet_hours 22:00-07:00` does so every night."
    )
    assert await said("/quiet", hours="22:00-07:00") == (
        "It is not quiet now. The quiet hours are 22:00-07:00. "
        "`/quiet 2h` or `/quiet until 15:00` makes it quiet for a while."
    )
    assert await said("/quiet", hours="10:00-11:00") == (
        "Quiet until today 11:00. `/quiet off` ends it."
    )


async def test_it_survives_a_restart_and_says_what_waits() -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(), clock=clock) as at:
        await at.chat.command("web", "/quiet 2h")
    async with scene(ScriptedEngine(), clock=clock, stores=at.stores) as again:
        again.store.run(lambda tx: hold(tx, HELD, NOW))
        answer = await again.chat.command("web", "/quiet")
        assert answer.text == "Quiet until today 12:16. 1 message waiting. `/quiet off` ends it."


async def test_off_ends_it_at_once_and_brings_what_waited() -> None:
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        set_hours(at, "10:00-11:00")
        at.store.run(lambda tx: hold(tx, HELD, NOW))
        answer = await at.chat.command("web", "/quiet off")
        assert answer.text == (
            "It is not quiet any more. What waited follows now (1 message). "
            "The quiet hours 10:00-11:00 hold again later."
        )
        await at.until(lambda: any("Tuesday is full." in each.text for each in at.log))
        await at.clock.advance(timedelta(minutes=40).total_seconds())
        assert sum("Tuesday is full." in each.text for each in at.log) == 1
        assert (await at.chat.command("web", "/quiet")).text.startswith("It is not quiet now.")


@pytest.mark.parametrize(
    ("was_asked", "said"),
    [(False, []), (True, ["back after a restart."])],
    ids=["crash", "restart"],
)
async def test_in_the_quiet_only_a_restart_that_was_asked_for_is_greeted(
    was_asked: bool, said: list[str]
) -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(), clock=clock) as at:
        await at.talk.greeting.begun()
        await at.talk.greeting.say()
        await at.chat.command("web", "/quiet 2h")
        if was_asked:
            await at.talk.greeting.ended(for_restart=True)
    before = len(at.log)
    async with scene(ScriptedEngine(), clock=clock, stores=at.stores) as again:
        await again.talk.greeting.begun(NOW)
        await again.talk.greeting.say()
        assert [each.text for each in again.log[before:]] == said
        await clock.advance(3 * 3600)
        await again.until(lambda: len(again.log) > before)
        shown = "\n".join(each.text for each in again.log[before:])
        assert ("I was cut off without warning" in shown) is not was_asked


async def test_a_reminder_of_the_night_is_moved_to_its_end_by_a_button() -> None:
    async with scene(ScriptedEngine()) as at:
        night = Reminder(JobSpec(id="w1", message="Call mum."), NOW.replace(hour=23))
        at.stores.reminders.add(night)
        end = NOW.replace(hour=7, minute=0) + timedelta(days=1)
        card = Card("Call mum: today 23:00, in your quiet hours", buttons=(move_button("w1", end),))
        offer = ChatMessage(MessageId("1"), NOW, Author.PROGRAM, card.text, card=card)
        await at.talk.poster.post(offer)
        answer = await at.press(card.buttons[0].label)
        assert answer.text == "Moved: Call mum, tomorrow 7:00 (in 20 h 45 min)."
        assert at.stores.reminders.get("w1").item.due(UTC) == end
        after = card_of(at.log[-1])
        assert (after.title, after.buttons) == ("⏱ Call mum. · tomorrow 7:00", ())
        assert "moved: Call mum, tomorrow 7:00" in at.pending[0]


@pytest.mark.parametrize(("hour", "is_over"), [(15, False), (9, True)])
async def test_a_button_makes_it_quiet_until_its_moment(hour: int, is_over: bool) -> None:
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        until = NOW.replace(hour=hour, minute=0)
        card = Card("Quiet?", buttons=(Button("Yes", QUIET, f"2026-02-24T{hour:02}:00"),))
        offer = ChatMessage(MessageId("1"), NOW, Author.ASSISTANT, card.text, card=card)
        await at.talk.poster.post(offer)
        answer = await at.press("Yes")
        assert answer.is_error is is_over
        assert at.store.query(lambda tx: tx.quiet.get().until) == (None if is_over else until)
        if not is_over:
            assert answer.text == f"Quiet until today 15:00. {COMES} `/quiet off` ends it."
            assert (await at.press("Yes", offer)).is_error


MINUTE = 60.0

HOURS = ("off", "10:20-10:40", "10:00-11:30", "22:00-10:30")

actions = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["ping", "notice"]), st.just(0)),
        st.tuples(st.just("quiet"), st.integers(1, 60)),
        st.tuples(st.just("off"), st.just(0)),
        st.tuples(st.just("hours"), st.integers(0, len(HOURS) - 1)),
    ),
    max_size=14,
)


def for_a_token(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    return budget, PingAllowed(Charge.TOKEN)


def is_quiet_now(at: Scene) -> bool:
    return is_quiet(at.store.query(quiet_settings), at.clock.now())


async def perform(at: Scene, action: str, number: int, count: int) -> None:
    match action:
        case "passes":
            for _ in range(number):
                await at.clock.advance(MINUTE)
        case "ping":
            await at.talk.poster.send(ping(count), run_of(RunKind.BACKGROUND), for_a_token)
        case "notice":
            await at.talk.notices.tell(f"notice {count}")
        case "quiet":
            await at.chat.command("web", f"/quiet {number}m")
        case "off":
            await at.chat.command("web", "/quiet off")
        case "hours":
            await at.chat.command("web", f"/config quiet_hours {HOURS[number]}")
    await at.clock.advance(3)


async def check_history(history: list[tuple[str, int]]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        expected, shown = list[str](), 0
        for count, (action, number) in enumerate(history):
            was_quiet = is_quiet_now(at)
            await perform(at, action, number, count)
            if action in ("ping", "notice"):
                expected.append(f"{action} {count}")
            if was_quiet and is_quiet_now(at) and action != "passes":
                assert len(at.log) == shown, (action, count)
            shown = len(at.log)
        await at.chat.command("web", "/config quiet_hours off")
        await at.chat.command("web", "/quiet off")
        await at.clock.advance(15 * MINUTE)
        said = re.findall(r"(?:ping|notice) \d+", "\n".join(each.text for each in at.log))
        assert sorted(said) == sorted(expected)
        for each in at.log:
            for kind in ("ping", "notice"):
                of_one = [int(number) for number in re.findall(rf"{kind} (\d+)", each.text)]
                assert of_one == sorted(of_one)
            assert each.text.startswith("While it was quiet") == each.id.startswith("digest-")


@settings(max_examples=25, deadline=None)
@given(actions)
def test_nothing_is_shown_in_the_quiet_and_all_of_it_comes_once_in_order(
    history: list[tuple[str, int]],
) -> None:
    asyncio.run(check_history(history))


@pytest.mark.usefixtures("inline_executor")
async def test_what_a_digest_has_brought_is_not_sent_again() -> None:
    message = replace(ping(), occurrence="routine:plan:2026-02-24T10:15:00Z")
    async with scene(ScriptedEngine(), clock=ManualClock(NOW)) as at:
        await at.chat.command("web", "/quiet 1h")
        for _ in range(2):
            await at.talk.poster.send(message, run_of(RunKind.BACKGROUND), for_a_token)
        await at.chat.command("web", "/quiet off")
        await at.until(lambda: at.log)
        await at.talk.poster.send(message, run_of(RunKind.BACKGROUND), for_a_token)
        assert [each.text for each in at.log] == ["While it was quiet:\n- 10:15 · ping 7"]
        assert [row.state for row in at.stores.ledger.read().entries] == ["held", "released"]

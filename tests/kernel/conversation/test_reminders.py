"""A due reminder comes once, whichever part delivers it, with buttons that work once."""

from __future__ import annotations

from asyncio import gather
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.conversation.scene import NOW, Scene, card_of, scene, scripted

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import later
from ollim_bot.kernel.values.cards import Button, Card, Color
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.due_items import item_key, note_of, reminder_from, snoozed_until
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Late, Model, Reminder, ReportMode
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runs import DeliveryRight

WATER = Reminder(JobSpec(id="w1", message="Drink water.", background=True), NOW)
DUE = Occurrence.scheduled(JobKind.REMINDER, "w1", NOW)
UNDO = (Button("Undo", "undo", f"item:{item_key(DUE.id)}"),)
WHY = "The model did not answer, so here it is as you wrote it."

specs = st.builds(
    JobSpec,
    id=st.just("w1"),
    message=st.text(min_size=1),
    description=st.text(),
    background=st.booleans(),
    model=st.none() | st.sampled_from(Model),
    thinking=st.booleans(),
    isolated=st.booleans(),
    update_main_session=st.sampled_from(ReportMode),
    allow_ping=st.booleans(),
    allowed_tools=st.lists(st.text(min_size=1), max_size=2).map(tuple),
    skills=st.lists(st.text(min_size=1), max_size=2).map(tuple),
    timezone=st.none() | st.sampled_from([ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")]),
    late=st.none() | st.sampled_from(Late),
    must=st.none() | st.booleans(),
)
chains = st.builds(Chain, st.integers(0, 9), st.integers(0, 9), st.none() | st.just("root"))


async def delivered(at: Scene, reminder: Reminder = WATER) -> None:
    """It comes once, by whichever part."""
    right = DeliveryRight()
    for _ in range(2):
        assert await at.talk.reminders.deliver(reminder, DUE, right, WHY)
    assert len(at.log) == 1


async def test_a_reminder_is_delivered_as_it_was_written_and_says_why() -> None:
    async with scene(ScriptedEngine()) as at:
        await delivered(at)
        (message,) = at.log
        card = card_of(message)
        assert card.title == "Drink water."
        assert (message.text, message.footer) == ("Drink water.", WHY)
        assert message.occurrence == DUE.id
        labels = [one.label for one in card.buttons]
        assert labels == [
            *("Done", "Snooze 10 min", "1 h", "Tomorrow 9:00", "Other…", "Break it down")
        ]


async def test_an_untrusted_reminder_comes_marked_and_its_text_is_in_no_list() -> None:
    spec = replace(WATER.spec, untrusted="web page")
    async with scene(engine := ScriptedEngine().answers("Hello.")) as at:
        await delivered(at, replace(WATER, spec=spec))
        (message,) = at.log
        assert (message.text, card_of(message).title) == ("Drink water.", "Drink water.")
        assert message.footer == f"{WHY} From untrusted content: a web page."
        assert message.untrusted is not None
        await at.ask("hello")
        assert "Drink water." not in engine.prompts[-1]
        assert "\n- (from untrusted content) (key " in engine.prompts[-1]


@pytest.mark.parametrize(
    ("label", "later"),
    [
        ("Snooze 10 min", timedelta(minutes=11)),
        ("1 h", timedelta(minutes=61)),
        ("Tomorrow 9:00", timedelta(hours=22, minutes=45)),
    ],
)
async def test_snoozing_makes_a_new_reminder_with_the_same_text(
    label: str, later: timedelta
) -> None:
    async with scene(ScriptedEngine()) as at:
        await delivered(at)
        assert await at.press(label) == CommandAnswer()
        (new,) = at.stores.reminders.all()
        assert new.item.run_at == NOW + later
        assert new.item.spec == replace(WATER.spec, id=new.item.spec.id)
        assert new.item.spec.id != "w1"


async def test_only_the_first_click_counts() -> None:
    async with scene(ScriptedEngine()) as at:
        await delivered(at)
        asked = at.log[-1]
        labels = ("1 h", "1 h", "Done", "Snooze 10 min")
        answers = await gather(*(at.press(each, asked) for each in labels))
        assert [each.is_error for each in answers] == [False, True, True, True]
        assert len(at.stores.reminders.all()) == 1


async def test_done_ends_the_rest_of_the_chain_and_the_agent_hears_of_it() -> None:
    first = replace(WATER, chain=Chain(max=3))
    follow_up = Reminder(replace(WATER.spec, id="w2"), NOW, Chain(3, 1, "w1"))
    other = Reminder(replace(WATER.spec, id="x1"), NOW, Chain(3, 1, "x0"))
    async with scene(ScriptedEngine()) as at:
        at.stores.reminders.add(follow_up)
        at.stores.reminders.add(other)
        await delivered(at, first)
        assert await at.press("Done") == CommandAnswer()
        assert [one.item.spec.id for one in at.stores.reminders.all()] == ["x1"]
        assert at.pending == ["Known to the owner: done with “Drink water.”."]


async def test_snoozing_takes_the_rest_of_the_chain_along() -> None:
    second = Reminder(replace(WATER.spec, id="w2"), NOW, Chain(3, 1, "w1"))
    async with scene(ScriptedEngine()) as at:
        at.stores.reminders.add(Reminder(replace(WATER.spec, id="w3"), NOW, Chain(3, 2, "w1")))
        await delivered(at, second)
        await at.press("1 h")
        (new,) = at.stores.reminders.all()
        assert new.item.chain == Chain(3, 1, "w1")
        assert at.pending == ["Known to the owner: snoozed “Drink water.”, today 11:16."]


async def test_a_card_can_be_answered_after_weeks_and_the_ledger_says_when() -> None:
    async with scene(scripted()) as at:
        await delivered(at)
        await at.clock.advance(30 * 86400)
        assert not (await at.press("Done")).is_error
        rows = at.stores.state.query(lambda tx: tx.ledger.story(DUE).rows)
        assert rows[-1].state == "answered"
        assert rows[-1].facts == {"answer": "done", "after_s": 30 * 86400, "by": "web"}
        assert at.stores.state.query(lambda tx: tx.due_items.open()) == []


async def test_the_undo_of_a_click_goes_after_ten_minutes_also_after_a_restart() -> None:
    clock = ManualClock(NOW)
    async with scene(scripted(), clock=clock) as at:
        await delivered(at)
        await at.press("Done")
        await clock.advance(300)
        stores = at.stores
    async with scene(scripted(), stores=stores, clock=clock) as at:
        await clock.advance(299)
        assert at.log[-1].card == Card("✓ Drink water · 10:15", color=Color.GREEN, buttons=UNDO)
        await clock.advance(1)
        await at.until(lambda: at.log[-1].card == Card("✓ Drink water · 10:15", color=Color.GREEN))


async def test_other_takes_a_phrase_and_refuses_with_a_hint() -> None:
    async with scene(scripted()) as at:
        await delivered(at)
        refused = await at.press("Other…", words="in 20 minuts")
        assert refused.is_error
        assert "Write `in 20 minute`." in refused.text
        assert not (await at.press("Other…", words="in 20 minutes")).is_error
        (new,) = at.stores.reminders.all()
        assert new.item.run_at == later(at.clock.now(), timedelta(minutes=20))


async def test_a_reply_to_the_card_answers_it_without_the_agent() -> None:
    async with scene(scripted()) as at:
        await delivered(at)
        card = at.log[-1]
        await at.send("Did it.", reply_to=card.id)
        assert at.message(card.id).card == Card(
            "✓ Drink water · 10:15", color=Color.GREEN, buttons=UNDO
        )
        assert [each.text for each in at.log] == ["Drink water.", "Did it."]
        await at.quiet()
        assert at.answers == []
        assert at.pending == ["Known to the owner: done with “Drink water.”."]
        await at.send("Did it.", reply_to=card.id)
        assert len(at.log) == 2


async def test_a_reply_puts_the_reminder_off() -> None:
    async with scene(scripted()) as at:
        await delivered(at)
        await at.send("in an hour", reply_to=at.log[-1].id)
        (new,) = at.stores.reminders.all()
        assert new.item.run_at == later(at.clock.now(), timedelta(hours=1))


async def test_other_words_and_replies_elsewhere_go_to_the_agent_who_sees_what_is_open() -> None:
    engine = scripted("Well done.", "Sure.")
    async with scene(engine) as at:
        await delivered(at)
        card = at.log[-1]
        await at.ask("why water?", reply_to=card.id)
        await at.ask("done")
        assert at.message(card.id).card == card.card
        waiting = f"- Drink water. (key {item_key(DUE.id)}, due today 10:15)"
        assert f"owner says what became of one)\n{waiting}\n" in engine.prompts[-1]


@given(specs, chains)
def test_nothing_of_a_reminder_is_lost_by_putting_it_off(spec: JobSpec, chain: Chain) -> None:
    later = NOW + timedelta(hours=1)
    new = reminder_from(note_of(Reminder(spec, NOW, chain)), "n1", later)
    assert new == Reminder(replace(spec, id="n1"), later, chain)


@given(
    st.datetimes(max_value=datetime(9000, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["10m", "1h"]),
)
def test_what_is_put_off_has_a_moment_that_a_person_can_name(now: datetime, wait: str) -> None:
    later = snoozed_until(wait, now)
    assert later.second == later.microsecond == 0
    exact = timedelta(minutes=10) if wait == "10m" else timedelta(hours=1)
    assert timedelta() <= later - now - exact < timedelta(minutes=1)

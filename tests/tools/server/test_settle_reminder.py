"""`settle_reminder`: the owner's words, said to the agent, answer the reminder that they mean."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.tools.server.tool_scene import NOW, MakeToolScene, ToolScene

from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import ItemKind, JobSpec, Reminder
from ollim_bot.domain.moments import later
from ollim_bot.domain.occurrences import Answer, Occurrence
from ollim_bot.domain.runs import RunKind
from ollim_bot.errors import WrongInput

TOOL = "settle_reminder"


def ask(at: ToolScene, name: str, words: str, kind: ItemKind | None = None) -> DueItem:
    job = Reminder(JobSpec(id=name, message=words, kind=kind), NOW)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, name, NOW)
    item = DueItem.of(job, occurrence, MessageId(name), NOW)
    assert at.stores.state.run(lambda tx: tx.due_items.add(item))
    return item


def answer_of(at: ToolScene, item: DueItem) -> Answer | None:
    found = at.stores.state.query(lambda tx: tx.due_items.get(item.key))
    return found.answer if found else None


@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK])
async def test_a_reminder_is_settled_by_its_words_or_its_key(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    water, mum = ask(at, "w", "Drink water."), ask(at, "m", "Call mum.")
    assert "✓ Drink water · 9:00" in await at.works(TOOL, item="water", action="done")
    assert (answer_of(at, water), answer_of(at, mum)) == (Answer.DONE, None)
    await at.works(TOOL, item=mum.key, action="snooze", until="in 1 hour")
    (copy,) = at.stores.reminders.all()
    assert copy.item.run_at == later(at.clock.now(), timedelta(hours=1))


async def test_what_may_mean_two_is_asked_back(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    ask(at, "m", "Call mum.")
    ask(at, "d", "Call dad.")
    with pytest.raises(WrongInput, match=r"“Call mum.” .*, “Call dad.” "):
        await at.call(TOOL, item="call", action="done")
    await at.works(TOOL, item="mum", action="done")
    await at.works(TOOL, item="dad", action="done")
    with pytest.raises(WrongInput, match=r"“Call mum.” .*, “Call dad.” "):
        await at.call(TOOL, item="call", action="undo")


async def test_a_dose_that_is_done_is_taken(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    pill = ask(at, "p", "Pill", ItemKind.DOSE)
    await at.works(TOOL, item="Pill", action="done")
    assert answer_of(at, pill) is Answer.TAKEN
    with pytest.raises(WrongInput, match="No reminder waits"):
        await at.call(TOOL, item="Pill", action="done")


@pytest.mark.parametrize(
    ("action", "kind", "answer"),
    [
        ("done", None, Answer.DONE),
        ("not_today", None, Answer.MOVED),
        ("let_go", None, Answer.LET_GO),
        ("not_today", ItemKind.DOSE, Answer.NOT_TAKEN),
        ("let_go", ItemKind.DOSE, Answer.NOT_TAKEN),
    ],
)
async def test_each_action_is_that_of_its_button_and_can_be_undone(
    tool_scene: MakeToolScene, action: str, kind: ItemKind | None, answer: Answer
) -> None:
    at = tool_scene(RunKind.MAIN)
    item = ask(at, "p", "Pill", kind)
    await at.works(TOOL, item="pill", action=action)
    assert answer_of(at, item) is answer
    moved = [each.item.run_at for each in at.stores.reminders.all()]
    assert moved == ([NOW + timedelta(days=1)] if answer is Answer.MOVED else [])
    assert "Open again" in await at.works(TOOL, item="pill", action="undo")
    assert answer_of(at, item) is None
    assert not at.stores.reminders.all()
    assert not at.stores.state.query(lambda tx: tx.updates.get()).entries
    with pytest.raises(WrongInput, match="can be taken back any more"):
        await at.call(TOOL, item="pill", action="undo")


async def test_putting_off_needs_a_moment_and_a_background_run_settles_nothing(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.MAIN)
    pill = ask(at, "p", "Pill")
    with pytest.raises(WrongInput, match="until when"):
        await at.call(TOOL, item="Pill", action="snooze")
    alone = tool_scene(RunKind.BACKGROUND)
    await alone.is_refused(TOOL, item="Pill", action="done")
    assert answer_of(at, pill) is None

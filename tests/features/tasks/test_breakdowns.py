"""Break it down: one set of steps, by the agent or by the owner's words, with an Undo."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.tasks import MemoryTasks
from tests.features.tasks.test_task_buttons import Cut, CutTasks, crash
from tests.features.today.test_today import HOUR, PILLS, WATER, item, put
from tests.kernel.conversation.scene import NOW, STATUS, Scene, scene

from ollim_bot.kernel.base.errors import SignInNeeded
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.breakdowns import Thing
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.due_items import DueItem, first_step_in
from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.taint import TaintMark
from ollim_bot.kernel.values.tasks import Task
from ollim_bot.kernel.values.views import ViewAnswer

TOOL = "mcp__discord__break_down"
STEPS = ["find the letter", "call the office", "write the date down"]
DRINK = item(WATER, NOW - HOUR)
OFFLINE = replace(STATUS, is_offline=True)


def makes_steps(thing: str, steps: Sequence[str] = STEPS) -> CallsTool:
    return CallsTool(TOOL, {"thing": thing, "steps": [*steps]})


def taxes(tasks: MemoryTasks | None = None) -> tuple[MemoryTasks, Task]:
    tasks = tasks or MemoryTasks()
    return tasks, tasks.add("taxes", NOW.date())


def _types(card: Card) -> bool:
    return any(each.label == "Type the steps" and each.asks for each in card.buttons)


def steps_of(tasks: MemoryTasks, parent: str) -> list[str]:
    return [each.title for each in tasks.tasks(with_done=True) if each.parent == parent]


async def press_on_day(at: Scene, ref: str) -> ViewAnswer:
    fields = {"custom_id": f"act:break_down:{ref}"}
    found: ViewAnswer = await at.chat.views["today"].act("web", "press", fields)
    return found


async def last_button(at: Scene) -> CommandAnswer:
    """Press the last button of the newest card."""
    return await at.chat.click("web", at.newest_card.id, at.cards[-1].buttons[-1].custom_id)


def open_item(at: Scene) -> DueItem:
    found = at.store.query(lambda tx: tx.due_items.get(DRINK.key))
    assert found is not None
    return found


async def test_the_agent_makes_steps_of_a_task_once_and_undo_takes_them_away() -> None:
    tasks, task = taxes()
    thing = Thing.of_task(task)
    engine = ScriptedEngine().then(makes_steps(thing.key), Says("The letter first."))
    async with scene(engine, tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        listed = at.newest_card
        answers = await asyncio.gather(
            *(at.press("Break it down", listed, surface=each) for each in ("web", "discord"))
        )
        assert sorted(each.text for each in answers) == ["", texts.STEPS_COME]
        await at.quiet()
        assert "taxes" in engine.prompts[0]
        assert thing.key in engine.prompts[0]
        assert steps_of(tasks, task.id) == STEPS
        card = at.cards[-1]
        assert (card.title, [each.text for each in card.lines]) == ("3 steps: taxes", STEPS)
        assert card.problems() == []
        again = await at.press("Break it down", listed)
        assert (again.is_error, len(engine.prompts)) == (True, 1)
        assert "broken down already" in again.text
        await at.press("Done")
        assert not (await at.press("Undo")).is_error
        # The first Undo is that of the tick; the last one is that of the steps.
        assert not (await last_button(at)).is_error
        assert [each.title for each in tasks.tasks(with_done=True)] == ["taxes"]
        assert at.pending[-1].endswith("User took the steps of “taxes” back.")
        engine.then(makes_steps(thing.key, ["other"]), Says("So."))
        await at.press("Break it down", listed)
        await at.quiet()
        assert steps_of(tasks, task.id) == ["other"]


async def test_the_first_open_step_is_the_first_step_of_the_due_item() -> None:
    tasks = MemoryTasks("Google Tasks")
    engine = ScriptedEngine().then(makes_steps(Thing.of_item(DRINK).key), Says("Go."))
    async with scene(engine, tasks=lambda: tasks) as at:
        put(at, DRINK, item(PILLS, NOW - HOUR))
        assert (await press_on_day(at, f"item:{item(PILLS, NOW - HOUR).key}")).is_error
        assert (await press_on_day(at, f"item:{DRINK.key}")).text == ""
        await at.quiet()
        parent = tasks.tasks()[0]
        assert (parent.title, steps_of(tasks, parent.id)) == ("Drink water", STEPS)
        assert first_step_in(open_item(at).note) == STEPS[0]
        await at.press("Done")
        await at.until(lambda: first_step_in(open_item(at).note) == STEPS[1])
        tasks.complete(tasks.tasks()[1].id)
        by_hand = ChangeRow("0a0a0a0a", NOW, "tasks.md", Changer.HAND, "", "")
        at.store.run(lambda tx: tx.changes.put(by_hand))
        await at.until(lambda: first_step_in(open_item(at).note) == STEPS[2])
        tasks.reopen(tasks.tasks(with_done=True)[2].id)
        await at.press("Undo")
        await last_button(at)
        assert tasks.tasks(with_done=True) == []
        assert first_step_in(open_item(at).note) == ""
        kept = at.store.query(lambda tx: tx.changes.newest(20))
        added = [(each.did, each.by) for each in kept if each.did != "changed"]
        assert added == [("removed", Changer.BUTTON)] * 4 + [("added", Changer.AGENT)] * 4


async def test_steps_of_tainted_words_stay_tainted_and_reach_the_agent_fenced(
    tmp_path: Path,
) -> None:
    paths = DataPaths(tmp_path)
    paths.lock_of(paths.tasks).parent.mkdir(parents=True)
    tasks = TaskFile(paths, RecordingJournal(), lambda: NOW)
    task = tasks.add("taxes", NOW.date())
    mark = "web page"
    engine = ScriptedEngine().then(makes_steps(Thing.of_task(task).key), Says("Go."))
    engine.then(makes_steps("drink water", ["fill a glass (due 2026-11-20)"]), Says("Go."))
    async with scene(engine, tasks=lambda: tasks) as at:
        at.store.run(lambda tx: tx.marks.leave(TaintMark(mark, NOW, title="taxes")))
        await at.chat.command("web", "/tasks")
        await at.press("Break it down")
        await at.quiet()
        outside, inside = engine.prompts[0].split("<untrusted-")[:2]
        assert "taxes" not in outside
        assert "taxes" in inside
        assert at.store.query(lambda tx: {tx.marks.of_task(each) for each in STEPS}) == {mark}
        message, card = at.newest_card, at.cards[-1]
        assert message.untrusted is not None
        assert all("from untrusted" in each.text for each in card.lines)
        # A turn that has read such words taints the steps of the owner's own things.
        put(at, DRINK)
        await at.send("and the water", "click-1")
        await at.quiet()
        # The file takes the date off the title.
        assert at.store.query(lambda tx: tx.marks.of_task("fill a glass")) == mark
        assert open_item(at).untrusted == mark


@pytest.mark.parametrize("is_offline", [True, False])
async def test_without_steps_of_a_model_a_line_to_type_them_appears(is_offline: bool) -> None:
    """The built-in model is not asked; another may fail, and is then asked anew by a press."""
    tasks, task = taxes()
    engine = ScriptedEngine().then(Fails(FailureKind.UNREACHABLE))
    status = OFFLINE if is_offline else STATUS
    async with scene(engine, tasks=lambda: tasks, status=status) as at:
        assert not (await press_on_day(at, f"task:{task.id}")).is_error
        await at.until(lambda: any(each.card and _types(each.card) for each in at.log))
        await at.quiet()
        assert len(engine.prompts) == (0 if is_offline else 1)
        shown = len(at.log)
        if is_offline:
            await press_on_day(at, f"task:{task.id}")
            assert len(at.log) == shown
        assert "at least one step" in (await at.press("Type the steps", words=" ; ")).text
        assert not (await at.press("Type the steps", words="; ".join(STEPS))).is_error
        assert steps_of(tasks, task.id) == STEPS
        assert at.cards[-1].title == "3 steps: taxes"
        assert len(at.log) == shown
        assert at.pending[-1].endswith("User broke “taxes” down into 3 steps.")
        assert (await press_on_day(at, f"task:{task.id}")).is_error


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("number", [1, 2])
async def test_what_a_crash_has_cut_off_is_done_once_by_the_same_press(
    number: int, is_changed: bool
) -> None:
    tasks = CutTasks(number, is_changed=is_changed, cut=crash)
    label = "Undo" if number == 2 else "Type the steps"
    async with scene(ScriptedEngine(), tasks=lambda: tasks, status=OFFLINE) as at:
        put(at, DRINK)
        await press_on_day(at, f"item:{DRINK.key}")
        if number == 2:
            await at.press("Type the steps", words="one, two")
        with pytest.raises(Cut):
            await at.press(label, words="one, two")
    async with scene(ScriptedEngine(), stores=at.stores, tasks=lambda: tasks) as again:
        assert not (await again.press(label, words="one, two")).is_error
        titles = [each.title for each in tasks.tasks()]
        assert titles == ([] if number == 2 else ["Drink water", "one", "two"])
        assert first_step_in(open_item(again).note) == ("" if number == 2 else "one")
        cards = [each for each in again.log if each.card and "Drink water" in each.card.title]
        assert len(cards) == 1


async def test_a_list_that_refuses_changes_nothing_and_a_thing_that_is_done_says_so() -> None:
    tasks, task = taxes()
    async with scene(ScriptedEngine(), tasks=lambda: tasks, status=OFFLINE) as at:
        await press_on_day(at, f"task:{task.id}")
        tasks.failure = SignInNeeded("Google wants a new login.")
        assert (await at.press("Type the steps", words="one")).text == "Google wants a new login."
        tasks.failure = None
        assert steps_of(tasks, task.id) == []
        tasks.complete(task.id)
        assert (await at.press("Type the steps", words="one")).text == "That is done already."
        tasks.delete(task.id)
        assert (await at.press("Type the steps", words="one")).text == texts.TASK_GONE


async def test_after_ten_minutes_the_undo_of_the_steps_is_gone() -> None:
    tasks, task = taxes()
    async with scene(ScriptedEngine(), tasks=lambda: tasks, status=OFFLINE) as at:
        at.store.run(lambda tx: tx.marks.leave(TaintMark("mail", NOW, title="taxes")))
        await press_on_day(at, f"task:{task.id}")
        await at.press("Type the steps", words="one\ntwo, and more")
        assert at.store.query(lambda tx: tx.marks.of_task("one")) == "mail"
        asked = at.newest_card
        await at.clock.advance(601)
        await at.until(lambda: "Undo" not in [each.label for each in at.cards[-1].buttons])
        assert (await at.press("Undo", asked)).is_error
        assert steps_of(tasks, task.id) == ["one", "two, and more"]
        assert at.store.query(lambda tx: tx.breakdowns.get()).known == ()

"""`/tasks` and the buttons of tasks: once, at once, with an Undo of ten minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar

import pytest
from devtools.doubles.clock import settle
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from devtools.doubles.tasks import MemoryTasks
from tests.kernel.conversation.failing_stores import FullDiskStore
from tests.kernel.conversation.scene import NOW, Scene, button_of, scene
from tests.stores import memory_stores, on_store

from ollim_bot.kernel.base.errors import SignInNeeded
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.tasks import DeletedTask, Task

T = TypeVar("T")

CARD = "mcp__discord__discord_embed"


def listed() -> MemoryTasks:
    tasks = MemoryTasks()
    tasks.add("water the ferns")
    tasks.add("pay the rent", NOW.date() + timedelta(days=3), "from savings")
    tasks.add("call mum", NOW.date() - timedelta(days=1))
    return tasks


async def redrawn(at: Scene, condition: Callable[[], bool]) -> None:
    """Let seconds pass until the overview was redrawn so that the condition holds."""
    for _ in range(200):
        await at.clock.advance(1)
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(at.cards[-1])


def titles(tasks: MemoryTasks) -> list[str]:
    return [task.title for task in tasks.tasks()]


async def test_the_open_tasks_are_shown_with_the_due_ones_first() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        assert (await at.chat.command("web", "/tasks")).text == ""
        card = at.cards[-1]
        assert [(line.heading, line.text) for line in card.lines] == [
            ("Due", "call mum · overdue since yesterday"),
            ("Later", "pay the rent · due Fri 27 Feb, with notes"),
            ("No date", "water the ferns"),
        ]
        assert [each.label for each in card.buttons] == ["Done", "Delete", "Break it down"] * 3
        assert card.problems() == []


async def test_without_an_open_task_there_is_a_sentence() -> None:
    async with scene(ScriptedEngine(), tasks=MemoryTasks) as at:
        said = await at.chat.command("web", "/tasks")
        assert said.text == "No task is open. Tell me what you want to do, and I write it down."


async def test_many_tasks_fit_a_card_and_the_rest_is_named() -> None:
    tasks = MemoryTasks()
    for number in range(30):
        tasks.add(f"{number} {'x' * 900}", date(2026, 2, 1))
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        card = at.cards[-1]
        assert card.problems() == []
        assert card.description == "Not shown: 18 more. `ollim-bot tasks list` shows all."


async def test_a_tick_acts_at_once_and_undo_puts_everything_back() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        before = at.cards[-1]
        assert (await at.press("Done", line=1)).text == ""
        assert titles(tasks) == ["water the ferns", "pay the rent"]
        assert at.pending == ['Known to the owner: User completed task "call mum".']
        card = at.cards[-1]
        assert card.lines[0].text == f"✓ call mum · {NOW.hour}:{NOW.minute:02}"
        assert [each.label for each in card.buttons if each.line == 1] == ["Undo"]
        assert (await at.press("Undo")).text == ""
        assert len(titles(tasks)) == 3
        assert at.pending == []
        assert at.cards[-1] == before


async def test_a_deleted_task_comes_back_as_it_was() -> None:
    tasks = listed()
    before = list(tasks.tasks())
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        await at.press("Delete", line=2)
        assert "pay the rent" not in titles(tasks)
        assert at.pending == ['Known to the owner: User deleted task "pay the rent".']
        assert at.cards[-1].lines[1].text.startswith("– pay the rent · deleted ")
        await at.press("Undo")
        assert sorted(map(str, tasks.tasks())) == sorted(map(str, before))


async def test_an_agent_that_has_seen_the_tick_is_told_of_the_undo() -> None:
    tasks = listed()
    async with scene(ScriptedEngine().answers("Well done."), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        await at.press("Done", line=1)
        await at.ask("hello")
        await at.press("Undo")
        assert at.pending == ['Known to the owner: User reopened task "call mum".']


async def test_two_clicks_at_once_are_one() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        asked = at.newest_card
        answers = await asyncio.gather(
            *(at.press("Delete", asked, surface=name) for name in ("web", "discord"))
        )
        assert sorted(each.text for each in answers) == ["", texts.BUTTON_USED]
        assert len(at.pending) == 1
        assert len(titles(tasks)) == 2


async def test_after_ten_minutes_the_undo_is_gone() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        await at.press("Done", line=1)
        message = at.newest_card
        await at.clock.advance(601)
        await at.until(lambda: not any(each.label == "Undo" for each in at.cards[-1].buttons))
        assert (await at.press("Undo", message)).is_error
        assert at.cards[-1].lines[0].text.startswith("✓ call mum")
        assert "call mum" not in titles(tasks)
        assert at.store.query(lambda tx: tx.task_undos.get().undos) == ()


async def test_an_undo_ends_on_time_although_the_machine_slept() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        await at.press("Done", line=1)
        await settle()
        at.clock.jump(601)
        await at.clock.advance(10)
        assert "Undo" not in [each.label for each in at.cards[-1].buttons]


class Cut(Exception):
    """The bot crashes."""


class CutTasks(MemoryTasks):
    """Its `at`-th change crashes the bot, before or after the list has changed."""

    def __init__(self, at: int, *, is_changed: bool, cut: Callable[[], None]) -> None:
        super().__init__()
        self._left = at
        self._is_changed = is_changed
        self._cut = cut

    def complete(self, task_id: str) -> Task:
        return self._changing(lambda: super(CutTasks, self).complete(task_id))

    def reopen(self, task_id: str) -> Task:
        return self._changing(lambda: super(CutTasks, self).reopen(task_id))

    def delete(self, task_id: str) -> DeletedTask:
        return self._changing(lambda: super(CutTasks, self).delete(task_id))

    def restore(self, deleted: DeletedTask) -> Task:
        again = deleted.task._replace(id=f"{deleted.task.id}-again")
        return self._changing(lambda: self._put(again))

    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        return self._changing(lambda: super(CutTasks, self).add_steps(steps, task_id, title))

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        return self._changing(lambda: super(CutTasks, self).remove_open(task_ids))

    def _changing(self, change: Callable[[], T]) -> T:
        self._left -= 1
        if self._left == 0 and not self._is_changed:
            self._cut()
        made = change()
        if self._left == 0 and self._is_changed:
            self._cut()
        return made


def crash() -> None:
    raise Cut


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("label", ["Done", "Delete"])
async def test_a_click_that_a_crash_cut_off_is_carried_out_once_and_can_be_undone(
    label: str, number: int, is_changed: bool
) -> None:
    tasks = CutTasks(number, is_changed=is_changed, cut=crash)
    tasks.add("call mum")
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        if number == 2:
            await at.press(label)
        with pytest.raises(Cut):
            await at.press("Undo" if number == 2 else label)
    async with scene(ScriptedEngine(), stores=at.stores, tasks=lambda: tasks) as again:
        await again.until(lambda: not again.store.query(lambda tx: tx.task_undos.get()).begun)
        is_undone = number == 2
        assert titles(tasks) == (["call mum"] if is_undone else [])
        assert len(again.pending) == (0 if is_undone else 1)
        if not is_undone:
            assert (await again.press("Undo")).text == ""
        assert titles(tasks) == ["call mum"]
        assert [each.label for each in again.cards[-1].buttons] == [
            "Done",
            "Delete",
            "Break it down",
        ]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("label", ["Done", "Delete"])
async def test_a_disk_that_is_full_after_the_change_makes_no_refusal_of_it(
    label: str, number: int
) -> None:
    disk = FullDiskStore(memory_stores(lambda: NOW).state, is_full=False)

    def fill() -> None:
        disk.is_full = True

    tasks = CutTasks(number, is_changed=True, cut=fill)
    tasks.add("call mum")
    stores = on_store(memory_stores(lambda: NOW), disk)
    async with scene(ScriptedEngine(), stores=stores, tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        answers = [(await at.press(label)).text]
        if number == 2:
            answers.append((await at.press("Undo")).text)
        assert answers == [""] * number
        disk.is_full = False
        await at.clock.advance(60)
        assert not at.store.query(lambda tx: tx.task_undos.get()).begun
        assert titles(tasks) == (["call mum"] if number == 2 else [])


async def test_on_a_full_disk_a_click_is_refused_before_anything_changes() -> None:
    disk = FullDiskStore(memory_stores(lambda: NOW).state, is_full=False)
    tasks, stores = listed(), on_store(memory_stores(lambda: NOW), disk)
    async with scene(ScriptedEngine(), stores=stores, tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        disk.is_full = True
        for label in ("Done", "Delete"):
            assert "No space left" in (await at.press(label)).text
        assert len(titles(tasks)) == 3


async def test_a_task_that_is_gone_or_done_already_says_so() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        mum = button_of(at.newest_card, "Done").data
        tasks.complete(mum)
        assert (await at.press("Done")).text == "That task is done already."
        tasks.delete(mum)
        assert (await at.press("Done")).text == "That task is not there any more."
        assert at.pending == []


async def test_a_service_that_needs_a_login_says_so() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/tasks")
        tasks.failure = SignInNeeded("Google wants a new login.")
        assert (await at.press("Done", line=1)).text == "Google wants a new login."
        said = await at.chat.command("web", "/tasks")
        assert (said.text, said.is_error) == ("Google wants a new login.", True)


async def test_the_agent_can_put_such_buttons_on_a_card() -> None:
    tasks = MemoryTasks()
    task: Task = tasks.add("water the ferns")
    buttons: list[dict[str, Any]] = [
        {"label": "Watered", "action": f"task_done:{task.id}"},
        {"label": "Forget it", "action": f"task_del:{task.id}"},
        {"label": "Later", "action": "dismiss"},
    ]
    engine = ScriptedEngine().then(
        CallsTool(CARD, {"title": "The ferns", "buttons": buttons}), Says("See.")
    )
    async with scene(engine, tasks=lambda: tasks) as at:
        await at.ask("what about the ferns?")
        await at.press("Watered")
        assert titles(tasks) == []
        labels = [each.label for each in at.cards[-1].buttons]
        assert labels == ["Undo “water the ferns”", "Forget it", "Later"]
        await at.press(labels[0])
        assert titles(tasks) == ["water the ferns"]
        await at.press("Watered")
        await at.clock.advance(601)
        await at.until(lambda: at.cards[-1].buttons[0].is_used)
        assert at.cards[-1].buttons[0].label == "Watered"


async def test_today_has_the_due_tasks_with_a_tick_and_its_undo() -> None:
    tasks = listed()
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        await at.chat.command("web", "/today")
        before = at.cards[-1]
        assert [(line.heading, line.text) for line in before.lines] == [
            ("Tasks", "call mum · overdue since yesterday")
        ]
        assert (await at.press("Done")).text == ""
        assert "call mum" not in titles(tasks)
        await redrawn(at, lambda: [each.label for each in at.cards[-1].buttons] == ["Undo"])
        assert at.cards[-1].lines[0].text.startswith("✓ call mum")
        assert (await at.press("Undo")).text == ""
        await redrawn(at, lambda: at.cards[-1] == before)
        assert "call mum" in titles(tasks)


async def test_tasks_that_cannot_be_read_do_not_hide_the_day() -> None:
    tasks = listed()
    tasks.failure = SignInNeeded("Google wants a new login.")
    async with scene(ScriptedEngine(), tasks=lambda: tasks) as at:
        assert (await at.chat.command("web", "/today")).text == ""
        assert at.cards[-1].lines == ()

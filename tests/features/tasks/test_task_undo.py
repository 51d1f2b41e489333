"""A change of a task at a service is taken back once, or nothing changes and the reason is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import count

import pytest
from devtools.doubles.memory import RecordingStore
from devtools.doubles.tasks import MemoryTasks

from ollim_bot.kernel.base.errors import Unreachable
from ollim_bot.kernel.changes.file_changes import UndoRefused
from ollim_bot.kernel.changes.task_undo import TaskUndoer, begin_click, end_click
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.changes import TASK, Changer, ChangeRow, task_in, task_words
from ollim_bot.kernel.values.task_cards import TaskStep, TaskUndo
from ollim_bot.kernel.values.tasks import DeletedTask, Task, TaskChange

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
DUE = date(2026, 11, 20)


class ServiceTasks(MemoryTasks):
    """As at Google: what is restored is a new task. Dies after so many changes of the list."""

    def __init__(self) -> None:
        super().__init__("Google Tasks")
        self.ids = count(1)
        self.left = 10**6

    def restore(self, deleted: DeletedTask) -> Task:
        return super().restore(
            deleted._replace(task=deleted.task._replace(id=f"new-{next(self.ids)}"))
        )

    def _put(self, task: Task) -> Task:
        put = super()._put(task)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return put


class Kept:
    """A list at a service with one task, and the changes of it."""

    def __init__(self) -> None:
        self.tasks = ServiceTasks()
        self.store = RecordingStore(lambda: NOW)
        self.task = self.tasks.add("pay the rent (twice)", DUE, "from savings\n\nsoon")

    def change(self, do: Callable[[], object], receipt: str = "") -> ChangeRow:
        """Do it, and keep the change as a command does."""
        before = self.words
        do()
        place = f"{TASK}:{self.task.id}"

        def step(tx):  # type: ignore[no-untyped-def]
            key = tx.changes.new_key(place)
            row = ChangeRow(key, NOW, place, Changer.COMMAND, before, self.words, receipt=receipt)
            tx.changes.put(row)
            return row

        row: ChangeRow = self.store.run(step)
        return row

    def undo(self, change: ChangeRow) -> Task | None:
        return TaskUndoer(self.tasks, self.store, lambda: NOW).undo(change, Changer.COMMAND)

    def click(self, click: TaskStep) -> None:
        self.store.run(lambda tx: begin_click(tx, click))
        self.store.run(lambda tx: end_click(tx, click))

    @property
    def words(self) -> str | None:
        found = [each for each in self.all if each.id == self.task.id]
        return task_words(found[0]) if found else None

    @property
    def all(self) -> list[Task]:
        return [*self.tasks.tasks(with_done=True)]

    @property
    def newest(self) -> ChangeRow:
        return self.store.query(lambda tx: tx.changes.newest(1))[0]

    def ways(self) -> dict[str, Callable[[], object]]:
        tasks, name = self.tasks, self.task.id
        wanted = TaskChange("pay", notes="", clears_due=True)
        return {
            "done": lambda: tasks.complete(name),
            "changed": lambda: tasks.update(name, wanted),
            "deleted": lambda: tasks.delete(name),
        }


def shape(tasks: list[Task]) -> list[Task]:
    return [each._replace(id="", list="") for each in tasks]


def test_each_change_is_taken_back_and_that_too() -> None:
    for way in ("done", "changed", "deleted"):
        kept = Kept()
        before = shape(kept.all)
        change = kept.change(kept.ways()[way], receipt="list" if way == "deleted" else "")
        after = shape(kept.all)
        kept.undo(change)
        assert shape(kept.all) == before, way
        with pytest.raises(UndoRefused, match="undone before"):
            kept.undo(change)
        undone = kept.newest
        assert (undone.undoes, undone.is_begun) == (change.key, False)
        kept.undo(undone)
        assert shape(kept.all) == after, way
    kept = Kept()
    added = kept.change(lambda: None)
    assert kept.undo(replace(added, before=None)) is None
    assert kept.all == []
    assert kept.undo(kept.newest) is not None
    assert len(kept.all) == 1


def test_what_was_changed_since_is_left_alone() -> None:
    for way in ("done", "changed", "deleted"):
        kept = Kept()
        change = kept.change(kept.ways()[way])
        if way == "deleted":
            kept.tasks._put(kept.task._replace(title="another"))
        else:
            kept.tasks.update(kept.task.id, TaskChange("another"))
        now = kept.all
        with pytest.raises(UndoRefused) as refused:
            kept.undo(change)
        assert "changed since" in str(refused.value)
        assert kept.all == now
    kept = Kept()
    change = kept.change(kept.ways()["deleted"])
    kept.tasks.failure = Unreachable("Google", "it is down")
    with pytest.raises(Unreachable):
        kept.undo(change)
    kept.tasks.failure = None
    assert kept.undo(change) is not None


def test_a_crash_brings_a_deleted_task_back_once() -> None:
    kept = Kept()
    change = kept.change(kept.ways()["deleted"], receipt="list")
    kept.tasks.left = 1
    with pytest.raises(KeyboardInterrupt):
        kept.undo(change)
    kept.tasks.left = 10**6
    kept.undo(change)
    assert shape(kept.all) == shape([kept.task])
    with pytest.raises(UndoRefused, match="undone before"):
        kept.undo(change)


def test_a_card_and_the_terminal_do_not_both_bring_a_task_back() -> None:
    buttons = (Button("Delete", "task_del", "x"),)
    for is_first_on_card in (True, False):
        kept = Kept()
        deleted = kept.tasks.delete(kept.task.id)
        click = TaskStep(TaskUndo("k1", kept.task, deleted.receipt, "m1", buttons, "", NOW))
        kept.click(click)
        change = kept.newest
        assert change.by is Changer.BUTTON
        if is_first_on_card:
            kept.tasks.restore(deleted)
            kept.click(replace(click, takes_back=True))
            with pytest.raises(UndoRefused, match="undone before"):
                kept.undo(change)
        else:
            kept.undo(change)
            assert kept.store.query(lambda tx: tx.task_undos.get().undos) == ()
        assert len(kept.all) == 1


def test_the_words_of_a_task_have_all_of_it() -> None:
    for task in (
        Task("1", "pay (due tomorrow)", DUE, "a\nb"),
        Task("2", "- [x] odd", None, "", done=True),
        Task("3", "x", DUE, "(due 2026-01-01)"),
    ):
        assert task_in(task_words(task), task.id) == task._replace(list="")

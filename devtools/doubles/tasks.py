"""Tasks in memory, and the promises of every `TaskList` as a test class.

Derive a class, make the adapter, and let a test runner collect it:

    class TestMemoryTasks(TaskListContract):
        def make(self) -> TaskList:
            return MemoryTasks()
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import count

from devtools.doubles.contracts import raising
from ollim_bot.kernel.base.errors import OllimError, TaskNotFound, WrongInput
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    DeletedTask,
    Task,
    TaskChange,
    is_titled,
    note_lines,
    one_line,
    task_row,
)


class MemoryTasks:
    """A `TaskList` of one list. While `failure` is set, every call raises it."""

    def __init__(self, name: str = FILE_LIST) -> None:
        self.failure: OllimError | None = None
        self._name = name
        self._tasks: dict[str, Task] = {}
        self._numbers = count(1)

    def tasks(self, list_name: str = "", *, with_done: bool = False) -> Sequence[Task]:
        self._check(list_name)
        return [task for task in self._tasks.values() if with_done or not task.done]

    def get(self, task_id: str) -> Task:
        self._check()
        try:
            return self._tasks[task_id]
        except KeyError:
            raise TaskNotFound(task_id) from None

    def add(
        self, title: str, due: date | None = None, notes: str = "", list_name: str = ""
    ) -> Task:
        self._check(list_name)
        task_id = f"{self._name}-{next(self._numbers)}"
        return self._put(Task(task_id, one_line(title), due, note_lines(notes), list=self._name))

    def complete(self, task_id: str) -> Task:
        return self._put(self.get(task_id)._replace(done=True))

    def reopen(self, task_id: str) -> Task:
        return self._put(self.get(task_id)._replace(done=False))

    def update(self, task_id: str, change: TaskChange) -> Task:
        task = self.get(task_id)
        if change.title is not None:
            task = task._replace(title=one_line(change.title))
        if change.notes is not None:
            task = task._replace(notes=note_lines(change.notes))
        if change.due is not None or change.clears_due:
            task = task._replace(due=change.due)
        return self._put(task)

    def deletion(self, task_id: str) -> DeletedTask:
        task = self.get(task_id)
        return DeletedTask(task, json.dumps(task_row(task)))

    def delete(self, task_id: str) -> DeletedTask:
        deleted = self.deletion(task_id)
        del self._tasks[task_id]
        return deleted

    def restore(self, deleted: DeletedTask) -> Task:
        self._check()
        return self._put(deleted.task)

    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        named = next((each for each in self.tasks() if is_titled(each, title)), None)
        parent = self.get(task_id) if task_id else named or self.add(title)
        made: list[Task] = []
        for words in steps:
            parts = (each for each in self._tasks.values() if each.parent == parent.id)
            found = next((each for each in parts if is_titled(each, words)), None)
            made.append(found or self._put(self.add(words)._replace(parent=parent.id)))
        return [parent, *made]

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        self._check()
        gone: list[str] = []
        for task_id in task_ids:
            has_parts = any(each.parent == task_id for each in self._tasks.values())
            if task_id in self._tasks and not self._tasks[task_id].done and not has_parts:
                del self._tasks[task_id]
                gone.append(task_id)
        return gone

    def lists(self) -> Mapping[str, str]:
        self._check()
        return {self._name: self._name}

    def _put(self, task: Task) -> Task:
        self._tasks[task.id] = task
        return task

    def _check(self, list_name: str = "") -> None:
        if self.failure is not None:
            raise self.failure
        if list_name not in ("", self._name):
            raise WrongInput(f"There is no list {list_name}. There is {self._name}.")


class TaskListContract(ABC):
    @abstractmethod
    def make(self) -> TaskList:
        """A new list without tasks."""

    def test_a_new_list_has_no_tasks_and_a_name(self) -> None:
        tasks = self.make()
        assert list(tasks.tasks(with_done=True)) == []
        assert all(tasks.lists())

    def test_what_is_added_is_found_with_all_its_parts(self) -> None:
        tasks = self.make()
        added = tasks.add("  pay\n the rent ", date(2026, 11, 20), "  from savings\n\n  twice\n")
        assert (added.title, added.due) == ("pay the rent", date(2026, 11, 20))
        assert added.notes == "from savings\n\ntwice"
        assert not added.done
        assert added.list in tasks.lists()
        assert tasks.get(added.id) == added
        assert list(tasks.tasks()) == list(tasks.tasks(added.list)) == [added]

    def test_two_tasks_of_one_title_are_two_tasks(self) -> None:
        tasks = self.make()
        one, other = tasks.add("water"), tasks.add("water")
        tasks.complete(one.id)
        assert [task.id for task in tasks.tasks()] == [other.id]
        tasks.delete(one.id)
        assert tasks.get(other.id) == other

    def test_a_done_task_is_listed_only_when_asked_for(self) -> None:
        tasks = self.make()
        task = tasks.add("water")
        done = tasks.complete(task.id)
        assert done == task._replace(done=True)
        assert list(tasks.tasks()) == []
        assert list(tasks.tasks(with_done=True)) == [done]

    def test_to_complete_and_to_reopen_twice_is_once(self) -> None:
        tasks = self.make()
        task = tasks.add("water")
        assert tasks.complete(task.id) == tasks.complete(task.id)
        assert tasks.reopen(task.id) == tasks.reopen(task.id) == task

    def test_an_update_changes_what_it_names_only(self) -> None:
        tasks = self.make()
        task = tasks.add("water", date(2026, 11, 20), "the ferns")
        assert tasks.update(task.id, TaskChange(due=date(2027, 2, 28))).due == date(2027, 2, 28)
        assert tasks.update(task.id, TaskChange(notes="")).notes == ""
        changed = tasks.update(task.id, TaskChange(title="water all", clears_due=True))
        assert (changed.title, changed.due) == ("water all", None)
        assert tasks.get(changed.id) == changed

    def test_a_deleted_task_is_gone_until_it_is_restored(self) -> None:
        tasks = self.make()
        task = tasks.add("water", date(2026, 11, 20), "the ferns")
        announced = tasks.deletion(task.id)
        assert tasks.get(task.id) == task
        deleted = tasks.delete(task.id)
        assert deleted == announced
        assert deleted.task == task
        for vain in (tasks.get, tasks.complete, tasks.reopen, tasks.delete, tasks.deletion):
            with raising(TaskNotFound):
                vain(task.id)
        restored = tasks.restore(deleted)
        assert restored._replace(id=task.id) == task
        assert list(tasks.tasks()) == [restored]

    def test_steps_become_parts_of_their_task_once(self) -> None:
        tasks = self.make()
        task = tasks.add("taxes", date(2026, 11, 20), "the blue folder")
        tasks.add("other")
        steps = ["find the letter", "call the office"]
        parent, *parts = tasks.add_steps(steps, task.id)
        assert tasks.add_steps(steps, task.id) == [parent, *parts]
        assert parent == task
        assert [(each.title, each.parent) for each in parts] == [(each, task.id) for each in steps]
        assert len(tasks.tasks()) == 4
        with raising(TaskNotFound):
            tasks.add_steps(steps, "no-such-task")

    def test_steps_of_a_title_go_to_its_task_which_is_made_if_there_is_none(self) -> None:
        tasks = self.make()
        parent, step = tasks.add_steps(["fill a glass"], title="drink water")
        again, other = tasks.add_steps(["drink it"], title="Drink  water")
        assert parent.title == "drink water"
        assert again.id == step.parent == other.parent == parent.id

    def test_only_open_steps_are_taken_away_and_their_task_if_none_is_left(self) -> None:
        tasks = self.make()
        parent, *parts = tasks.add_steps(["one", "two"], title="taxes")
        ids = [*(each.id for each in parts), parent.id]
        tasks.complete(parts[0].id)
        for gone in ([parts[1].id], []):
            assert list(tasks.remove_open(ids)) == gone
            assert {each.id for each in tasks.tasks(with_done=True)} == {parent.id, parts[0].id}
        tasks.reopen(parts[0].id)
        tasks.remove_open(ids)
        assert list(tasks.tasks(with_done=True)) == []

    def test_a_task_without_a_title_is_refused(self) -> None:
        tasks = self.make()
        task = tasks.add("water")
        with raising(WrongInput):
            tasks.add(" \n ")
        with raising(WrongInput):
            tasks.update(task.id, TaskChange(title=""))
        assert list(tasks.tasks()) == [task]

    def test_an_unknown_list_is_refused_with_those_that_exist(self) -> None:
        with raising(WrongInput):
            self.make().tasks("No such list")

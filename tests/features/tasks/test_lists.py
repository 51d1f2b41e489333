"""The list of tasks in use: the file alone, or a service with the file beside it."""

from __future__ import annotations

from datetime import date

import pytest
from devtools.doubles.tasks import MemoryTasks, TaskListContract

from ollim_bot.features.tasks.task_lists import active_tasks
from ollim_bot.kernel.base.errors import SignInNeeded, TaskNotFound
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.tasks import FILE_LIST, TaskChange

SERVICE = "My Tasks"


class TestMemoryTasks(TaskListContract):
    def make(self) -> TaskList:
        return MemoryTasks()


class TestServiceWithAnEmptyFile(TaskListContract):
    def make(self) -> TaskList:
        return active_tasks(MemoryTasks(), MemoryTasks(SERVICE))


def test_without_a_service_the_file_is_in_use() -> None:
    file = MemoryTasks()
    active_tasks(file, None).add("water")
    assert [task.title for task in file.tasks()] == ["water"]


def test_with_a_service_the_tasks_of_the_file_stay_listed_and_can_be_changed() -> None:
    file, service = MemoryTasks(), MemoryTasks(SERVICE)
    old = file.add("old", date(2026, 11, 20))
    both = active_tasks(file, service)
    new = both.add("new")
    assert [(task.title, task.list) for task in both.tasks()] == [
        ("new", SERVICE),
        ("old", FILE_LIST),
    ]
    assert list(both.tasks(FILE_LIST)) == [old]
    assert list(both.tasks(SERVICE)) == [new]
    assert list(both.lists()) == [SERVICE, FILE_LIST]
    assert both.update(old.id, TaskChange(clears_due=True)).due is None
    assert both.complete(old.id).done
    assert not both.reopen(old.id).done
    deleted = both.delete(old.id)
    assert file.tasks() == []
    both.restore(deleted)
    assert [task.title for task in file.tasks()] == ["old"]
    assert list(service.tasks()) == [new]


def test_a_service_whose_login_has_ended_is_not_replaced_by_the_file() -> None:
    file, service = MemoryTasks(), MemoryTasks(SERVICE)
    service.failure = SignInNeeded("Google wants a new login: `ollim-bot google login`.")
    both = active_tasks(file, service)
    for refused in (
        both.tasks,
        both.lists,
        lambda: both.add("new"),
        lambda: both.complete("unknown"),
    ):
        with pytest.raises(SignInNeeded):
            refused()
    assert file.tasks() == []


def test_an_unknown_id_is_in_neither() -> None:
    with pytest.raises(TaskNotFound):
        active_tasks(MemoryTasks(), MemoryTasks(SERVICE)).get("nothing")

"""Which list of tasks is in use: the file alone, or a service with the file beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import TaskNotFound, WrongInput
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    DeletedTask,
    Task,
    TaskChange,
    is_titled,
    named_section,
)

# Only annotations name it: a command of the CLI imports this file, and should start fast.
if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import TaskList


def active_tasks(file: TaskList, service: TaskList | None) -> TaskList:
    """The list that all commands and buttons use.

    `service` is None if the owner has connected none. A service whose login has ended raises
    `SignInNeeded`; then the file does not take its place.
    """
    return file if service is None else _ServiceAndFile(service, file)


def has_service(tasks: TaskList) -> bool:
    """Whether the list that `active_tasks` gave has a service beside the file."""
    return isinstance(tasks, _ServiceAndFile)


class _ServiceAndFile:
    """New tasks go to the service; those of the file stay listed and can be changed."""

    def __init__(self, service: TaskList, file: TaskList) -> None:
        self._service = service
        self._file = file

    def tasks(self, list_name: str = "", *, with_done: bool = False) -> Sequence[Task]:
        if list_name == FILE_LIST:
            return self._file.tasks(with_done=with_done)
        if not list_name:
            found = self._service.tasks(with_done=with_done)
            return [*found, *self._file.tasks(with_done=with_done)]
        try:
            return self._service.tasks(list_name, with_done=with_done)
        except WrongInput:
            if named_section([*self._file.lists()], list_name) is None:
                raise
            return self._file.tasks(list_name, with_done=with_done)

    def get(self, task_id: str) -> Task:
        return self._holder(task_id).get(task_id)

    def add(
        self, title: str, due: date | None = None, notes: str = "", list_name: str = ""
    ) -> Task:
        return self._service.add(title, due, notes, list_name)

    def complete(self, task_id: str) -> Task:
        return self._holder(task_id).complete(task_id)

    def reopen(self, task_id: str) -> Task:
        return self._holder(task_id).reopen(task_id)

    def update(self, task_id: str, change: TaskChange) -> Task:
        return self._holder(task_id).update(task_id, change)

    def deletion(self, task_id: str) -> DeletedTask:
        return self._holder(task_id).deletion(task_id)

    def delete(self, task_id: str) -> DeletedTask:
        return self._holder(task_id).delete(task_id)

    def restore(self, deleted: DeletedTask) -> Task:
        holder = self._file if deleted.task.list == FILE_LIST else self._service
        return holder.restore(deleted)

    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        if task_id:
            holder = self._holder(task_id)
        else:
            is_in_file = any(is_titled(each, title) for each in self._file.tasks())
            holder = self._file if is_in_file else self._service
        return holder.add_steps(steps, task_id, title)

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        known = {each.id for each in self._file.tasks(with_done=True)}
        gone = self._file.remove_open([each for each in task_ids if each in known])
        others = [each for each in task_ids if each not in known]
        return [*gone, *self._service.remove_open(others)]

    def lists(self) -> Mapping[str, str]:
        return {**self._service.lists(), **self._file.lists()}

    def _holder(self, task_id: str) -> TaskList:
        try:
            self._file.get(task_id)
        except TaskNotFound:
            return self._service
        return self._file

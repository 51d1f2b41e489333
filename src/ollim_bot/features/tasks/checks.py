"""Checks the list of tasks."""

from __future__ import annotations

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.files import ReadOnlyJournal
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.upkeep.findings import Check, DoctorInput, Found, failed, passed


def check_tasks(given: DoctorInput) -> Found:
    try:
        tasks = TaskFile(given.data.paths, ReadOnlyJournal(), lambda: given.now).peek()
    except StorageError as unreadable:
        yield failed(f"tasks.md {unreadable.reason}")
        return
    still_open = sum(not task.done for task in tasks)
    yield passed(f"{counted(still_open, 'open task')} in tasks.md" if tasks else "none")


_LOOK = "`ollim-bot tasks list` shows whether it is right."
CHECKS = (Check("tasks", check_tasks, _LOOK, place=120),)

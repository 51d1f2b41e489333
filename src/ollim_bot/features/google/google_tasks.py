"""The owner's tasks at Google."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any
from urllib.parse import quote

from ollim_bot.features.google.google_client import GoogleClient, Params
from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.features.google.tokens import GoogleTokenStore
from ollim_bot.kernel.base.errors import GoogleRefused, TaskNotFound, WrongInput
from ollim_bot.kernel.values.tasks import (
    DeletedTask,
    Task,
    TaskChange,
    is_titled,
    note_lines,
    one_line,
)

# The name of the list in use, whose own title would cost a call more.
LIST_IN_USE = "Google Tasks"
DEFAULT_LIST = "@default"

_LISTS = "/tasks/v1/users/@me/lists"
_OF_A_PAGE = 100
_MOST_PAGES = 100
_OPEN, _DONE = "needsAction", "completed"


def connected_tasks(
    tokens: GoogleTokenStore, client: GoogleClient, list_id: str = DEFAULT_LIST
) -> GoogleTasks | None:
    """The tasks at Google; None if the owner did not connect them.

    After Google ended the connection every call raises `SignInNeeded`. Raises `StorageError`.
    """
    token = tokens.read()
    is_ours = GoogleService.TASKS in token.services if token else tokens.revocation() is not None
    return GoogleTasks(client, list_id) if is_ours else None


class GoogleTasks:
    """A `TaskList` of all lists of the account; new tasks go to the one with the id `list_id`."""

    def __init__(self, client: GoogleClient, list_id: str = DEFAULT_LIST) -> None:
        self._client = client
        self._list_id = list_id

    def tasks(self, list_name: str = "", *, with_done: bool = False) -> Sequence[Task]:
        """Those of the named list, or of the list in use."""
        return self._tasks_of(*self._named_list(list_name), with_done=with_done)

    def get(self, task_id: str) -> Task:
        return self._find(task_id)[1]

    def add(
        self, title: str, due: date | None = None, notes: str = "", list_name: str = ""
    ) -> Task:
        body = _fields(Task("", one_line(title), due, note_lines(notes)))
        list_id, name = self._named_list(list_name)
        answer = self._client.call("POST", _tasks_path(list_id), body=body)
        return _task_of(answer, name)

    def complete(self, task_id: str) -> Task:
        return self._patch(task_id, {"status": _DONE})

    def reopen(self, task_id: str) -> Task:
        return self._patch(task_id, {"status": _OPEN})

    def update(self, task_id: str, change: TaskChange) -> Task:
        body: dict[str, object] = {}
        if change.title is not None:
            body["title"] = one_line(change.title)
        if change.notes is not None:
            body["notes"] = note_lines(change.notes)
        if change.due is not None or change.clears_due:
            body["due"] = None if change.due is None else _stamp(change.due)
        return self._patch(task_id, body)

    def deletion(self, task_id: str) -> DeletedTask:
        list_id, task = self._find(task_id)
        return DeletedTask(task, receipt=list_id)

    def delete(self, task_id: str) -> DeletedTask:
        deleted = self.deletion(task_id)
        self._client.call("DELETE", _task_path(deleted.receipt, task_id))
        return deleted

    def restore(self, deleted: DeletedTask) -> Task:
        """Google gives a deleted task no way back, so a new one takes its place."""
        path = _tasks_path(deleted.receipt)
        answer = self._client.call("POST", path, body=_fields(deleted.task))
        return _task_of(answer, deleted.task.list)._replace(done=deleted.task.done)

    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        """Google takes one task at a call: those of a call that was cut off are found again."""
        list_id, parent = self._find(task_id) if task_id else self._titled(title)
        parts = [each for each in self._tasks_of(list_id, parent.list) if each.parent == parent.id]
        made: list[Task] = []
        for words in map(one_line, steps):
            found = next((each for each in parts if is_titled(each, words)), None)
            if found is None:
                below = {"parent": parent.id, **({"previous": made[-1].id} if made else {})}
                body = _fields(Task("", words))
                answer = self._client.call("POST", _tasks_path(list_id), below, body)
                found = _task_of(answer, parent.list)
            made.append(found)
        return [parent, *made]

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        gone: list[str] = []
        for task_id in task_ids:
            with suppress(TaskNotFound):
                list_id, task = self._find(task_id)
                others = self._tasks_of(list_id, task.list)
                if not task.done and not any(each.parent == task_id for each in others):
                    self._client.call("DELETE", _task_path(list_id, task_id))
                    gone.append(task_id)
        return gone

    def lists(self) -> Mapping[str, str]:
        """The list in use first, the others by their titles."""
        used = self._client.call("GET", f"{_LISTS}/{quote(self._list_id, safe='@')}")
        items = (item for item in self._pages(_LISTS) if item.get("id") != used.get("id"))
        others = {str(item.get("title")): str(item.get("title")) for item in items}
        return {LIST_IN_USE: str(used.get("title") or LIST_IN_USE), **others}

    def _titled(self, title: str) -> tuple[str, Task]:
        """The open task with this title in the list in use, and the id of that list."""
        found = next((each for each in self.tasks() if is_titled(each, title)), None)
        return self._list_id, found or self.add(title)

    def _tasks_of(self, list_id: str, name: str, *, with_done: bool = True) -> list[Task]:
        shown: Params = (
            {"showCompleted": True, "showHidden": True} if with_done else {"showCompleted": False}
        )
        items = self._pages(_tasks_path(list_id), shown)
        return [_task_of(item, name) for item in items if not item.get("deleted")]

    def _named_list(self, name: str) -> tuple[str, str]:
        if name in ("", LIST_IN_USE):
            return self._list_id, LIST_IN_USE
        lists = {str(item.get("id")): str(item.get("title")) for item in self._pages(_LISTS)}
        found = [key for key, title in lists.items() if name in (key, title)]
        found = found or [key for key, title in lists.items() if title.lower() == name.lower()]
        if not found:
            known = ", ".join([LIST_IN_USE, *lists.values()])
            raise WrongInput(f"There is no list {name}. There are {known}.")
        return found[0], lists[found[0]]

    def _find(self, task_id: str) -> tuple[str, Task]:
        """The id of its list and the task, looked for in the list in use first."""
        item = self._item(self._list_id, task_id)
        if item is not None:
            return self._list_id, _task_of(item, LIST_IN_USE)
        for each in self._pages(_LISTS):
            list_id = str(each.get("id"))
            item = self._item(list_id, task_id)
            if item is not None:
                return list_id, _task_of(item, str(each.get("title")))
        raise TaskNotFound(task_id)

    def _item(self, list_id: str, task_id: str) -> Mapping[str, Any] | None:
        try:
            item = self._client.call("GET", _task_path(list_id, task_id))
        except GoogleRefused as refused:
            if refused.status in (400, 404):
                return None
            raise
        return None if item.get("deleted") else item

    def _patch(self, task_id: str, body: Mapping[str, object]) -> Task:
        list_id, task = self._find(task_id)
        if not body:
            return task
        answer = self._client.call("PATCH", _task_path(list_id, task_id), body=body)
        return _task_of(answer, task.list)

    def _pages(self, path: str, params: Params | None = None) -> Iterator[Mapping[str, Any]]:
        wanted: dict[str, Any] = {**(params or {}), "maxResults": _OF_A_PAGE}
        for _ in range(_MOST_PAGES):
            answer = self._client.call("GET", path, wanted)
            yield from (item for item in answer.get("items") or () if isinstance(item, dict))
            if not answer.get("nextPageToken"):
                return
            wanted["pageToken"] = str(answer["nextPageToken"])


def _task_of(item: Mapping[str, Any], list_name: str) -> Task:
    due = None
    # Google's due is a date, written as midnight in UTC. It is the same date in every zone.
    with suppress(ValueError):
        due = date.fromisoformat(str(item.get("due") or "")[:10])
    return Task(
        str(item.get("id", "")),
        " ".join(str(item.get("title") or "").split()) or "(no title)",
        due,
        str(item.get("notes") or ""),
        item.get("status") == _DONE,
        list_name,
        parent=str(item.get("parent") or ""),
    )


def _stamp(due: date) -> str:
    return f"{due.isoformat()}T00:00:00.000Z"


def _fields(task: Task) -> Mapping[str, object]:
    fields: dict[str, object] = {"title": task.title, "status": _DONE if task.done else _OPEN}
    if task.notes:
        fields["notes"] = task.notes
    if task.due is not None:
        fields["due"] = _stamp(task.due)
    return fields


def _tasks_path(list_id: str) -> str:
    return f"/tasks/v1/lists/{quote(list_id, safe='@')}/tasks"


def _task_path(list_id: str, task_id: str) -> str:
    return f"{_tasks_path(list_id)}/{quote(task_id, safe='')}"

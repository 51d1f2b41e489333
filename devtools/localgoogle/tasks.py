"""Tasks of the local Google."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count

from devtools.localgoogle.protocol import (
    ApiCall,
    ApiRoute,
    GoogleError,
    Json,
    flag,
    invalid,
    not_found,
    page,
    require_fields,
)

_TASKS = ("https://www.googleapis.com/auth/tasks",)
_FIELDS = frozenset(
    {
        *("assignmentInfo", "completed", "deleted", "due", "etag", "hidden", "id", "kind", "links"),
        *("notes", "parent", "position", "selfLink", "status", "title", "updated", "webViewLink"),
    }
)
_LISTING = frozenset(
    {
        *("completedMax", "completedMin", "dueMax", "dueMin", "maxResults", "pageToken"),
        *("showAssigned", "showCompleted", "showDeleted", "showHidden", "updatedMin"),
    }
)
_LONGEST_TITLE = 1024
_LONGEST_NOTES = 8192
DEFAULT = "@default"


class TasksApi:
    """The task lists of the account. The first is the default one."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.lists: dict[str, str] = {"MDAx": "My Tasks"}
        self.tasks: dict[str, dict[str, Json]] = {"MDAx": {}}

    def add_list(self, list_id: str, title: str) -> None:
        self.lists[list_id] = title
        self.tasks[list_id] = {}

    def add(self, title: str, list_id: str = DEFAULT, **fields: object) -> Json:
        """A task that the owner made elsewhere."""
        return self._insert(self._list(list_id), {"title": title, **fields}, datetime.now(UTC))

    @property
    def open_titles(self) -> list[str]:
        tasks = (task for tasks in self.tasks.values() for task in tasks.values())
        return [
            task["title"]
            for task in tasks
            if task["status"] == "needsAction" and not task.get("deleted")
        ]

    def routes(self) -> Sequence[ApiRoute]:
        one = "/tasks/v1/lists/{list}/tasks/{task}"
        some = "/tasks/v1/lists/{list}/tasks"
        paging = frozenset({"maxResults", "pageToken"})
        adding = frozenset({"parent", "previous"})
        return (
            ApiRoute("GET", "/tasks/v1/users/@me/lists", _TASKS, self._lists, paging),
            ApiRoute("GET", "/tasks/v1/users/@me/lists/{list}", _TASKS, self._one_list),
            ApiRoute("GET", some, _TASKS, self._tasks, _LISTING),
            ApiRoute("POST", some, _TASKS, self._post, adding, has_body=True),
            ApiRoute("GET", one, _TASKS, self._get),
            ApiRoute("PATCH", one, _TASKS, self._patch, has_body=True),
            ApiRoute("DELETE", one, _TASKS, self._delete),
        )

    def _lists(self, call: ApiCall) -> Json:
        items = [self._list_resource(list_id) for list_id in self.lists]
        return {"kind": "tasks#taskLists", **page(call, items, 1000, 1000)}

    def _one_list(self, call: ApiCall) -> Json:
        return self._list_resource(self._list(call.parts["list"]))

    def _list_resource(self, list_id: str) -> Json:
        return {"kind": "tasks#taskList", "id": list_id, "title": self.lists[list_id]}

    def _tasks(self, call: ApiCall) -> Json:
        shows_done = flag(call, "showCompleted", otherwise=True)
        shows_hidden = flag(call, "showHidden")
        shows_deleted = flag(call, "showDeleted")
        items = [
            task
            for task in self.tasks[self._list(call.parts["list"])].values()
            if (shows_deleted or not task.get("deleted"))
            and (shows_done or task["status"] == "needsAction")
            and (shows_hidden or not task.get("hidden"))
        ]
        return {"kind": "tasks#tasks", **page(call, items, 20, 100)}

    def _get(self, call: ApiCall) -> Json:
        return self._task(call)

    def _post(self, call: ApiCall) -> Json:
        list_id, parent = self._list(call.parts["list"]), call.param("parent")
        if parent and parent not in self.tasks[list_id]:
            raise invalid("Invalid task ID")
        below = {"parent": parent} if parent else {}
        return self._insert(list_id, {**call.body, **below}, call.now)

    def _insert(self, list_id: str, body: Mapping[str, object], now: datetime) -> Json:
        number = next(self._numbers)
        task: Json = {
            "kind": "tasks#task",
            "id": f"dGFzay{number:06}",
            "title": "",
            "status": "needsAction",
            "position": f"{number:020}",
        }
        self.tasks[list_id][task["id"]] = task
        return self._changed(task, body, now)

    def _patch(self, call: ApiCall) -> Json:
        task = self._task(call)
        asked = call.headers.get("If-Match")
        if asked is not None and asked != task["etag"]:
            raise GoogleError(412, "conditionNotMet", "Precondition Failed")
        return self._changed(task, call.body, call.now)

    def _delete(self, call: ApiCall) -> None:
        task = self._task(call)
        if task.get("deleted"):
            raise not_found()
        self._changed(task, {"deleted": True}, call.now)

    def _changed(self, task: Json, body: Mapping[str, object], now: datetime) -> Json:
        require_fields(body, _FIELDS)
        for name, value in body.items():
            if name in ("id", "kind", "etag"):
                continue
            if value is None:
                task.pop(name, None)
            else:
                task[name] = _checked(name, value)
        if task["status"] == "completed":
            task.setdefault("completed", _stamp(now))
        else:
            task.pop("completed", None)
            task.pop("hidden", None)
        task["updated"] = _stamp(now)
        task["etag"] = f'"{next(self._numbers)}"'
        return dict(task)

    def _list(self, list_id: str) -> str:
        if list_id == DEFAULT:
            return next(iter(self.lists))
        if list_id not in self.lists:
            raise GoogleError(404, "notFound", "Task list not found.")
        return list_id

    def _task(self, call: ApiCall) -> Json:
        tasks = self.tasks[self._list(call.parts["list"])]
        if call.parts["task"] not in tasks:
            raise GoogleError(404, "notFound", "Task not found.")
        return tasks[call.parts["task"]]


def _checked(name: str, value: object) -> object:
    if name == "status" and value not in ("needsAction", "completed"):
        raise invalid("Invalid value for status.")
    if name in ("deleted", "hidden"):
        return bool(value)
    if not isinstance(value, str):
        raise invalid(f"Invalid value for {name}.")
    if len(value) > {"title": _LONGEST_TITLE, "notes": _LONGEST_NOTES}.get(name, 100):
        raise invalid(f"{name} is too long.")
    if name == "due":
        # Google keeps the date and drops the time.
        return _stamp(_moment(value).replace(hour=0, minute=0, second=0, microsecond=0))
    return value


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise invalid("Invalid value for due.") from None
    if moment.tzinfo is None:
        raise invalid("Invalid value for due.")
    return moment.astimezone(UTC)


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.000Z"

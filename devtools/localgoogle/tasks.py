"""Tasks of the local Google."""

from __future__ import annotations

from collections.abc import Sequence

from devtools.localgoogle.protocol import ApiCall, ApiRoute, Json

_TASKS = ("https://www.googleapis.com/auth/tasks",)


class TasksApi:
    def routes(self) -> Sequence[ApiRoute]:
        params = frozenset({"maxResults", "pageToken"})
        return (ApiRoute("GET", "/tasks/v1/users/@me/lists", _TASKS, self._lists, params),)

    def _lists(self, _: ApiCall) -> Json:
        return {"kind": "tasks#taskLists", "items": []}

"""Calendar of the local Google."""

from __future__ import annotations

from collections.abc import Sequence

from devtools.localgoogle.protocol import ApiCall, ApiRoute, Json, not_found

_LIST = ("https://www.googleapis.com/auth/calendar.calendarlist.readonly",)


class CalendarApi:
    def routes(self) -> Sequence[ApiRoute]:
        path = "/calendar/v3/users/me/calendarList/{calendar}"
        return (ApiRoute("GET", path, _LIST, self._calendar),)

    def _calendar(self, call: ApiCall) -> Json:
        if call.parts["calendar"] not in ("primary", call.account):
            raise not_found()
        return {
            "kind": "calendar#calendarListEntry",
            "id": call.account,
            "summary": call.account,
            "timeZone": "Europe/Berlin",
            "accessRole": "owner",
            "primary": True,
        }

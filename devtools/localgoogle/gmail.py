"""Gmail of the local Google."""

from __future__ import annotations

from collections.abc import Sequence

from devtools.localgoogle.protocol import ApiCall, ApiRoute, Json

_READ = ("https://www.googleapis.com/auth/gmail.readonly",)


class GmailApi:
    def routes(self) -> Sequence[ApiRoute]:
        return (ApiRoute("GET", "/gmail/v1/users/me/profile", _READ, self._profile),)

    def _profile(self, call: ApiCall) -> Json:
        return {
            "emailAddress": call.account,
            "messagesTotal": 0,
            "threadsTotal": 0,
            "historyId": "1",
        }

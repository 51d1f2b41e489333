"""The one client of Google's REST APIs; synchronous, for the commands and for the bot's threads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.features.google.tokens import GoogleToken, GoogleTokenStore
from ollim_bot.features.google.wire import Pause, Transient, ask_google, understood, with_retries
from ollim_bot.kernel.base.errors import GoogleRefused, SignInNeeded, Unreachable
from ollim_bot.kernel.base.http_exchange import HttpLimits, HttpResponse

Params = Mapping[str, str | int | bool | Sequence[str]]

_HOSTS = {
    "tasks": "https://tasks.googleapis.com",
    "calendar": "https://www.googleapis.com",
    "gmail": "https://gmail.googleapis.com",
}
_LEFT_OUT = (
    "{} was left out when Google was connected. `/google-auth` or `ollim-bot google login` asks "
    "for it again."
)
_NAMES = {
    GoogleService.TASKS: "Google Tasks",
    GoogleService.CALENDAR: "Google Calendar",
    GoogleService.MAIL: "Gmail",
}
_UNCERTAIN = (
    "Google did not answer, so it is not known whether this was done. Look before you try again."
)

_OTHERS_LEAD = "Another machine may lead by now, so this one changes nothing at Google."


class GoogleClient:
    """Calls one API of Google after the other; each thread may use it.

    `api_url` takes the place of the hosts of all APIs. `pause` waits between two tries. Nothing is
    changed at Google unless `may_act` says so right before.
    """

    def __init__(
        self,
        tokens: GoogleTokenStore,
        api_url: str | None = None,
        *,
        pause: Pause = time.sleep,
        limits: HttpLimits | None = None,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_act = may_act
        self._tokens = tokens
        self._api_url = api_url
        self._pause = pause
        self._limits = limits

    def require(self, service: GoogleService) -> GoogleToken:
        """The token, if the owner connected this service. Raises `SignInNeeded` otherwise."""
        token = self._tokens.valid()
        if service not in token.services:
            raise SignInNeeded(_LEFT_OUT.format(_NAMES[service]))
        return token

    def call(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool | None = None,
    ) -> dict[str, Any]:
        """The answer to one call, `{}` if it has no content. `path` is such as `/tasks/v1/…`.

        A failure that may pass is tried again, a few times. A POST that may have been carried out
        is repeated only if it `is_repeatable`. A DELETE of what is gone at the second try is done.
        Raises `SignInNeeded` if Google is not connected (any more), `GoogleRefused` with its status
        and reason, and `Unreachable`.
        """
        host = self._api_url or _HOSTS[path.split("/")[1]]
        query = urlencode(
            {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in (params or {}).items()
            },
            doseq=True,
        )
        address = f"{host}{path}{'?' if query else ''}{query}"
        given = {**(headers or {}), "Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        repeatable = method != "POST" if is_repeatable is None else is_repeatable
        tries = 0

        def ask(token: GoogleToken) -> HttpResponse:
            bearer = {"Authorization": f"Bearer {token.access.reveal()}"}
            return ask_google(method, address, {**given, **bearer}, content, self._limits)

        def attempt() -> dict[str, Any]:
            nonlocal tries
            tries += 1
            token = self._tokens.valid()
            if method != "GET" and not self._may_act():
                raise Unreachable(_OTHERS_LEAD)
            answer = ask(token)
            if answer.status == 401:
                answer = ask(self._tokens.renewed(token))
            return understood(answer)

        try:
            return with_retries(attempt, self._pause, is_repeatable=repeatable)
        except Transient as failed:
            if failed.may_be_done and method != "GET":
                raise Unreachable(_UNCERTAIN) from failed
            raise
        except GoogleRefused as refused:
            if method == "DELETE" and tries > 1 and refused.status in (404, 410):
                return {}
            if refused.reason == "insufficientPermissions":
                raise SignInNeeded(_LEFT_OUT.format("This part of Google")) from refused
            raise

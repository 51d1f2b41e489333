"""Signing in: an address to open, the redirect that answers it, and the outcome in words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlencode, urljoin

from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_values import (
    GoogleRedirect,
    GoogleService,
    in_words,
    redirect_answer,
    scopes_of,
)
from ollim_bot.features.google.tokens import GoogleToken, GoogleTokenStore, read_client
from ollim_bot.features.google.wire import ask_google, understood
from ollim_bot.kernel.base.errors import (
    GoogleRefused,
    OllimError,
    SignInNeeded,
    StorageError,
    Unreachable,
    WrongInput,
)
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import GoogleAddresses
from ollim_bot.kernel.store.files import PRIVATE
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorInput,
    Found,
    failed,
    off,
    open_to_others,
    passed,
    warned,
)

PATIENCE = timedelta(minutes=5)
EVERYTHING = tuple(GoogleService)
TIMED_OUT = "The sign-in at Google was not finished within 5 minutes. Nothing was connected."
_SECONDS_FOR_A_REQUEST = 2.0
# The call that shows whether a service answers, and the field of its answer that names the account.
_PROBES = {
    GoogleService.MAIL: ("/gmail/v1/users/me/profile", "emailAddress"),
    GoogleService.CALENDAR: ("/calendar/v3/users/me/calendarList/primary", "id"),
    GoogleService.TASKS: ("/tasks/v1/users/@me/lists", ""),
}
_NOT_ENABLED = ("accessNotConfigured", "SERVICE_DISABLED")
_LIBRARY = "https://console.cloud.google.com/apis/library"
_BY_HAND = "https://myaccount.google.com/connections removes it there."
_AUDIENCE = "https://console.cloud.google.com/auth/audience"


class SignInRefused(OllimError):
    """The sign-in is over, and nothing was connected."""


@dataclass(frozen=True, slots=True)
class Connected:
    """What the owner connected. `off` are services that are not enabled in their project."""

    token: GoogleToken
    off: tuple[GoogleService, ...] = ()

    def sentence(self, now: datetime) -> str:
        """What was connected, as whom, what was not, and until when."""
        parts = [f"Google is connected{_as(self.token.account)}: {in_words(self.token.services)}."]
        if left_out := [each for each in EVERYTHING if each not in self.token.services]:
            parts.append(f"Left out: {in_words(left_out)}.")
        if self.off:
            parts.append(
                f"Not enabled in your project yet: {in_words(self.off)}; {_LIBRARY} enables it."
            )
        if self.token.refresh_ends_at is not None:
            parts.append(ending(self.token.refresh_ends_at, now))
        return " ".join(parts)


def ending(at: datetime, now: datetime) -> str:
    """When Google ends the connection of an app in testing, and the cure."""
    return (
        f"Google ends this connection {describe(at, now)}, since your app is in testing. "
        f"Publish it at {_AUDIENCE} and sign in again: then it lasts."
    )


def _as(account: str) -> str:
    return f" as {account}" if account else ""


class SignIn:
    """One sign-in, from its address to its one answer.

    Raises `SignInNeeded` at the start if there is no usable OAuth client; one that others may read
    is closed to them. `redirects` listens until `close`. Each thread may call it.
    """

    def __init__(
        self,
        paths: DataPaths,
        tokens: GoogleTokenStore,
        addresses: GoogleAddresses,
        now: Callable[[], datetime],
        services: Sequence[GoogleService] = EVERYTHING,
    ) -> None:
        from ollim_bot.features.google.oauth import Consent

        client = self._client = read_client(paths)
        os.chmod(paths.credentials, PRIVATE)
        self.redirects = RedirectServer()
        self.ends_at = now() + PATIENCE
        self._tokens = tokens
        self._addresses = addresses
        self._now = now
        self._answered = threading.Lock()
        try:
            scopes = scopes_of(services)
            self._asked = Consent(tokens.reached(client), scopes, self.redirects.address)
        except BaseException:  # also if interrupted: nobody else would close the port
            self.redirects.server_close()
            raise

    @property
    def address(self) -> str:
        """What the owner opens in a browser."""
        return self._asked.address

    @property
    def is_answered(self) -> bool:
        return self._answered.locked()

    def knock(self) -> GoogleRedirect | None:
        """Answer one browser at the door; the redirect that it brings, if it is the awaited one."""
        return self.redirects.receive(self._asked.state)

    def take(self, redirect: GoogleRedirect | str) -> Connected:
        """Connect with the redirect. Its code is used once.

        Raises `WrongInput` if it is not the answer to this sign-in, which then goes on;
        `SignInRefused`, `GoogleRefused` or `Unreachable` if the sign-in failed, which ends it.
        """
        answer = redirect_answer(redirect) if isinstance(redirect, str) else redirect
        if answer is None or answer.state != self._asked.state:
            raise WrongInput(
                "That address belongs to another sign-in. Right: the address of the page that "
                "Google led to after the newest link was opened."
            )
        if not self._answered.acquire(blocking=False):
            raise WrongInput("This sign-in was answered before.")
        if answer.error:
            reason = "you declined" if answer.error == "access_denied" else answer.error[:60]
            raise SignInRefused(f"Google was not connected: {reason} on Google's page.")
        answer_of_google = self._asked.redeem(answer.code)
        token = GoogleToken.granted(self._client, answer_of_google, self._now())
        if not token.services:
            with suppress(OllimError):
                _revoke(token, self._addresses)
            raise SignInRefused(
                "Google was not connected: nothing was ticked on Google's page. "
                "Tick what you want to use."
            )
        self._tokens.keep(token)
        connected = Connected(token)
        with suppress(OllimError):  # the connection stands; the next call will say what is wrong
            connected = checked(self._tokens, self._addresses)
            self._tokens.keep(connected.token)
        return connected

    def close(self) -> None:
        self.redirects.server_close()


def checked(tokens: GoogleTokenStore, addresses: GoogleAddresses) -> Connected:
    """Ask each connected service whether it answers, and as whom.

    Raises `SignInNeeded` if Google is not connected (any more), `Unreachable` if it is silent.
    """
    client = GoogleClient(tokens, addresses.api)
    account, off = "", []
    for service in tokens.valid().services:
        path, name = _PROBES[service]
        try:
            account = str(client.call("GET", path).get(name) or "") or account
        except GoogleRefused as refused:
            if refused.reason in _NOT_ENABLED:
                off.append(service)
    token = tokens.valid()
    return Connected(token.of_account(account or token.account), tuple(off))


def disconnect(tokens: GoogleTokenStore, addresses: GoogleAddresses) -> str:
    """End the connection here, and at Google if it can be reached; returns what to say."""
    try:
        token, revoked = tokens.read(), tokens.revocation()
    except StorageError:
        tokens.forget()
        return f"The token for Google could not be read, and is removed. {_BY_HAND}"
    if token is None:
        tokens.forget()
        return "Google is left out now." if revoked else "Google was not connected."
    is_ended = True
    try:
        _revoke(token, addresses)
    except GoogleRefused as refused:
        is_ended = refused.reason in ("invalid_token", "invalid_grant")
    except Unreachable:
        is_ended = False
    tokens.forget()
    if is_ended:
        return f"Google is disconnected{_as(token.account)}, here and at Google."
    return (
        f"Google is disconnected{_as(token.account)} here. It could not be ended at Google. "
        f"{_BY_HAND}"
    )


def _revoke(token: GoogleToken, addresses: GoogleAddresses) -> None:
    address = urljoin(addresses.token or token.client["token_uri"], "revoke")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"token": token.refresh.reveal()}).encode()
    understood(ask_google("POST", address, form, body))


_PAGE = (
    "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<meta name=color-scheme content='light dark'><title>ollim-bot</title>"
    "<body style='font: 1.1em system-ui; max-width: 34em; margin: 3em auto; padding: 0 1em'>"
    "<p>{}</p>"
)
_RECEIVED = "ollim-bot has the answer. Go back to it: it says whether Google is connected."
_STRANGE = "This is not the answer that ollim-bot waits for. Open the newest link that it gave you."


class RedirectServer(HTTPServer):
    """Listens on a port of this machine that Google's page leads the browser to."""

    # `receive` waits for no browser: its caller waits.
    timeout = 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _RedirectRequest)
        self.awaited_state = ""
        self.received: GoogleRedirect | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def receive(self, state: str) -> GoogleRedirect | None:
        """Answer one request; the redirect, if it has this state."""
        self.awaited_state, self.received = state, None
        self.handle_request()
        return self.received

    def handle_error(self, *_: object) -> None:
        """A browser that goes away is no error; the default would print the request."""


class _RedirectRequest(BaseHTTPRequestHandler):
    server: RedirectServer
    timeout = _SECONDS_FOR_A_REQUEST
    server_version, sys_version = "ollim-bot", ""

    def do_GET(self) -> None:
        redirect = redirect_answer(self.path)
        is_awaited = redirect is not None and redirect.state == self.server.awaited_state
        if is_awaited:
            self.server.received = redirect
        page = _PAGE.format(_RECEIVED if is_awaited else _STRANGE).encode()
        self.send_response(200 if is_awaited else 400)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """The path has a code in it, so it is never logged."""


_PUBLISH = (
    "Publish the app at https://console.cloud.google.com/auth/audience, then run "
    "`ollim-bot google login`."
)
_CONNECT_AGAIN = "Run `ollim-bot google login`, or `ollim-bot google logout` to leave it out."


def check_google(given: DoctorInput) -> Found:
    """Looks at the files only: `ollim-bot google status` asks Google."""
    paths = given.data.paths
    for path in (paths.credentials, paths.token):
        yield from open_to_others(path)
    if paths.credentials.exists():
        try:
            read_client(paths)
        except SignInNeeded:
            step = "Run `ollim-bot google login`: it says what is wrong with it."
            yield failed("state/credentials.json is not right", step)
    tokens = GoogleTokenStore(paths, lambda: given.now)
    try:
        token, revoked = tokens.read(), tokens.revocation()
    except StorageError as unreadable:
        yield failed(f"state/token.json {unreadable.reason}")
        return
    if token is not None:
        whom = f" as {token.account}" if token.account else ""
        words = f"connected{whom}: {in_words(token.services)}"
        if token.refresh_ends_at is None:
            yield passed(words)
        else:
            ends = describe(token.refresh_ends_at, given.local_now)
            yield warned(f"{words}; Google ends it {ends}", _PUBLISH)
    elif revoked is not None:
        whom = f" to {revoked.account}" if revoked.account else ""
        yield warned(f"the connection{whom} was revoked or has expired")
    else:
        yield off("not connected; `/google-auth` in the chat connects it")


CHECKS = (Check("Google", check_google, _CONNECT_AGAIN, place=260),)

"""The files of the connection to Google, shared by all processes: one renews the token for all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ollim_bot.errors import GoogleRefused, NewerFormat, SignInNeeded, Unreadable
from ollim_bot.integrations.google.token import GoogleToken, OAuthClient, token_fields, token_of
from ollim_bot.integrations.google.wire import Pause, is_safe_address
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.settings import GoogleAddresses, Secret
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically

_FORMAT = 1
_LOGIN = "`ollim-bot google login` connects it"
NOT_CONNECTED = "Google is not connected. `/google-auth` or `ollim-bot google login` connects it."
# The owner deleted or replaced the client at Google, so its secret is refused.
_CLIENT_REFUSED = ("deleted_client", "disabled_client", "invalid_client", "unauthorized_client")


@dataclass(frozen=True, slots=True)
class Revocation:
    """Google ended the connection at this moment; the owner has not answered it yet."""

    at: datetime
    account: str

    @property
    def sentence(self) -> str:
        whom = f" to {self.account}" if self.account else ""
        return (
            f"The connection{whom} at Google was revoked or has expired. "
            "`/google-auth` or `ollim-bot google login` connects it again, "
            "`ollim-bot google logout` leaves it out."
        )


class GoogleTokenStore:
    """The token of the connected account, shared by all processes.

    Reading follows what other processes wrote. Nothing is created by reading.
    """

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        addresses: GoogleAddresses | None = None,
        pause: Pause = time.sleep,
    ) -> None:
        self._paths = paths
        self._now = now
        self._addresses = addresses or GoogleAddresses()
        self._pause = pause

    def read(self) -> GoogleToken | None:
        """The token, also one that has ended; None if there is none. Raises `StorageError`."""
        try:
            fields = _read_fields(self._paths.token)
            return None if fields is None else token_of(fields)
        except (ValueError, TypeError, KeyError):
            raise Unreadable(
                self._paths.token, f"is not a token of ollim-bot. {_LOGIN} anew."
            ) from None

    def revocation(self) -> Revocation | None:
        """What is left of a connection that Google ended."""
        try:
            fields = _read_fields(self._paths.google_revoked)
            if fields is None:
                return None
            return Revocation(datetime.fromisoformat(fields["at"]), str(fields["account"]))
        except (Unreadable, ValueError, TypeError, KeyError):
            # The file's existence says it; the rest is detail.
            return Revocation(datetime.fromtimestamp(0, UTC), "")

    @property
    def is_set_up(self) -> bool:
        """Whether tasks are at Google: connected, or revoked and not answered yet."""
        return self.read() is not None or self.revocation() is not None

    def valid(self) -> GoogleToken:
        """A token that lasts, renewed if need be.

        Raises `SignInNeeded` if Google is not connected or has ended the connection, `Unreachable`
        if Google does not answer.
        """
        token = self._connected()
        return token if token.lasts(self._now()) else self.renewed(token)

    def renewed(self, refused: GoogleToken) -> GoogleToken:
        """Another token than the one that Google refused; the first process renews it for all."""
        with FileLock(self._paths.lock_of(self._paths.token)).held():
            token = self._connected()
            if token.access != refused.access and token.lasts(self._now()):
                return token
            return self._renewed_at_google(token)

    def keep(self, token: GoogleToken) -> None:
        """Connect with this token, in place of any other. Raises `WriteFailed`."""
        with FileLock(self._paths.lock_of(self._paths.token)).held():
            self._write(token)
            remove_durably(OsDisk(), self._paths.google_revoked)

    def forget(self) -> None:
        """Remove the token, and what is left of an ended connection. Raises `WriteFailed`."""
        with FileLock(self._paths.lock_of(self._paths.token)).held():
            remove_durably(OsDisk(), self._paths.token)
            remove_durably(OsDisk(), self._paths.google_revoked)

    def _connected(self) -> GoogleToken:
        if (token := self.read()) is not None:
            return token
        revoked = self.revocation()
        raise SignInNeeded(revoked.sentence if revoked else NOT_CONNECTED)

    def _renewed_at_google(self, token: GoogleToken) -> GoogleToken:
        from ollim_bot.integrations.google.oauth import renew

        try:
            renewed = renew(token, self._now(), self._addresses, self._pause)
        except GoogleRefused as refused:
            if refused.reason == "invalid_grant":
                raise self._revoked(token) from refused
            if refused.reason in _CLIENT_REFUSED:
                raise SignInNeeded(
                    f"Google does not accept this connection's OAuth client ({refused.reason}). "
                    f"Put a new one in state/credentials.json; {_LOGIN} then."
                ) from refused
            raise
        self._write(renewed)
        return renewed

    def _revoked(self, token: GoogleToken) -> SignInNeeded:
        revoked = Revocation(self._now(), token.account)
        fields = {"version": _FORMAT, "at": revoked.at.isoformat(), "account": revoked.account}
        # In this order a crash leaves the token, which Google refuses again.
        write_atomically(OsDisk(), self._paths.google_revoked, _encoded(fields), PRIVATE)
        remove_durably(OsDisk(), self._paths.token)
        return SignInNeeded(revoked.sentence)

    def _write(self, token: GoogleToken) -> None:
        path = self._paths.token
        # An existing file keeps its mode when it is written.
        if path.exists():
            os.chmod(path, PRIVATE)
        fields = {"version": _FORMAT, **token_fields(token)}
        write_atomically(OsDisk(), path, _encoded(fields), PRIVATE)


def _read_fields(path: Path) -> dict[str, Any] | None:
    try:
        content = read_file(path, SizeLimit.NOTE)
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise Unreadable(path, f"cannot be read: {refused.strerror}.") from refused
    fields = json.loads(content)
    if not isinstance(fields, dict):
        raise ValueError("The file is not an object.")
    if int(fields["version"]) > _FORMAT:
        raise NewerFormat(path, int(fields["version"]), _FORMAT)
    return fields


def _encoded(fields: dict[str, Any]) -> bytes:
    return f"{json.dumps(fields, indent=2)}\n".encode()


_AUTH_URI = "https://accounts.google.com/o/oauth2/auth"
_TOKEN_URI = "https://oauth2.googleapis.com/token"
_STEPS = """\
Google needs an OAuth client of your own, which you make once:
1. https://console.cloud.google.com/projectcreate makes a project; any name will do.
2. https://console.cloud.google.com/apis/library has the Google Tasks API, the Google Calendar API \
and the Gmail API; enable those you want.
3. https://console.cloud.google.com/auth/overview asks for a name and your address; choose \
External. Then open Audience there and publish the app, or Google ends the connection every 7 days.
4. https://console.cloud.google.com/auth/clients creates the client; choose Desktop app, and \
download its JSON file.
5. Save that file as {path}, and begin again."""


def read_client(paths: DataPaths) -> OAuthClient:
    """The client. Raises `SignInNeeded` that says what is wrong, or how to get one."""
    path = paths.credentials
    try:
        content = read_file(path, SizeLimit.NOTE)
    except FileNotFoundError:
        raise SignInNeeded(_STEPS.format(path=path)) from None
    except OSError as refused:
        raise SignInNeeded(f"{path} cannot be read: {refused.strerror}.") from refused
    try:
        return _client(json.loads(content))
    except _WrongClient as wrong:
        raise SignInNeeded(f"{path} {wrong}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SignInNeeded(
            f"{path} is not the file that Google gives. Right: the JSON file that "
            "https://console.cloud.google.com/auth/clients offers for a client of type Desktop app."
        ) from None


class _WrongClient(Exception):
    """Completes a sentence that begins with the file."""


def _client(fields: dict[str, Any]) -> OAuthClient:
    if "web" in fields:
        raise _WrongClient(
            "is a client of type Web application. Right: one of type Desktop app, from "
            "https://console.cloud.google.com/auth/clients."
        )
    if "type" in fields:
        kind = str(fields["type"]).replace("_", " ")
        raise _WrongClient(f"is a key of another kind ({kind}). Right: an OAuth client.")
    installed = fields["installed"]
    client = OAuthClient(
        str(installed["client_id"]),
        Secret(str(installed["client_secret"])),
        str(installed.get("auth_uri") or _AUTH_URI),
        str(installed.get("token_uri") or _TOKEN_URI),
    )
    if not (is_safe_address(client.auth_uri) and is_safe_address(client.token_uri)):
        raise _WrongClient("names an address that is not https. Right: as Google gave the file.")
    return client

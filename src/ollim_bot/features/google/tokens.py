"""The files of the connection to Google, shared by all processes: one renews the token for all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ollim_bot.features.google.google_values import services_in
from ollim_bot.features.google.wire import NOT_UNDERSTOOD, Pause, is_safe_address
from ollim_bot.kernel.base.errors import (
    GoogleRefused,
    NewerFormat,
    SignInNeeded,
    Unreachable,
    Unreadable,
)
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.settings import GoogleAddresses, Secret
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically

_FORMAT = 1
_LOGIN = "`ollim-bot google login` connects it"
NOT_CONNECTED = f"Google is not connected. `/google-auth` or {_LOGIN}."
# The owner deleted or replaced the client at Google, so its secret is refused.
_CLIENT_REFUSED = ("deleted_client", "disabled_client", "invalid_client", "unauthorized_client")
_CLIENT = ("client_id", "client_secret", "auth_uri", "token_uri")
# A token that ends so soon may end on its way to Google.
_MARGIN = timedelta(seconds=60)
_AUTH_URI = "https://accounts.google.com/o/oauth2/auth"
_TOKEN_URI = "https://oauth2.googleapis.com/token"
_CLIENTS = "https://console.cloud.google.com/auth/clients"
_STEPS = f"""\
Google needs an OAuth client of your own, which you make once:
1. https://console.cloud.google.com/projectcreate makes a project; any name will do.
2. https://console.cloud.google.com/apis/library has the Google Tasks API, the Google Calendar API \
and the Gmail API; enable those you want.
3. https://console.cloud.google.com/auth/overview asks for a name and your address; choose \
External. Then open Audience there and publish the app, or Google ends the connection every 7 days.
4. {_CLIENTS} creates the client; choose Desktop app, and download its JSON file.
5. Save that file as {{path}}, and begin again."""


class GoogleToken:
    """The connection as its file holds it. Raises `KeyError`, `TypeError` or `ValueError`.

    `refresh_ends_at` is None unless Google named a day; `account` is empty if unknown. `client` is
    the owner's OAuth client, with Google's addresses as `credentials.json` names them.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = {**fields, "version": _FORMAT}
        self.access, self.refresh = (
            Secret(str(fields[name])) for name in ("token", "refresh_token")
        )
        self.client = {name: str(fields[name]) for name in _CLIENT}
        self.account = str(fields["account"])
        self.services = services_in([*map(str, fields["scopes"])])
        self.ends_at = datetime.fromisoformat(fields["expiry"])
        ends = fields["refresh_token_expiry"]
        self.refresh_ends_at = datetime.fromisoformat(ends) if ends else None

    @classmethod
    def granted(
        cls, client: Mapping[str, str], answer: Mapping[str, Any], now: datetime, account: str = ""
    ) -> GoogleToken:
        """The token of a new connection, from the answer of the token endpoint."""
        fields: dict[str, Any] = {
            **{name: client[name] for name in _CLIENT},
            "token": "",
            "refresh_token": "",
            "refresh_token_expiry": None,
            "scopes": [],
            "expiry": now.isoformat(),
            "account": account,
        }
        return cls(fields).answered(answer, now)

    def answered(self, answer: Mapping[str, Any], now: datetime) -> GoogleToken:
        """The token as the token endpoint's answer changes it. Raises `Unreachable`."""

        def after(seconds: object) -> str:
            return (now.astimezone(UTC) + timedelta(seconds=int(str(seconds)))).isoformat()

        try:
            fields = {
                "token": str(answer["access_token"]),
                "expiry": after(answer.get("expires_in", 3600)),
            }
            if lasts := answer.get("refresh_token_expires_in"):
                fields["refresh_token_expiry"] = after(lasts)
        except (KeyError, ValueError) as wrong:
            raise Unreachable(NOT_UNDERSTOOD) from wrong
        refresh = str(answer.get("refresh_token") or self.refresh.reveal())
        scopes = str(answer.get("scope") or "").split() or self.fields["scopes"]
        return GoogleToken({**self.fields, **fields, "refresh_token": refresh, "scopes": scopes})

    def of_account(self, account: str) -> GoogleToken:
        return GoogleToken({**self.fields, "account": account})

    def lasts(self, now: datetime) -> bool:
        return self.ends_at - _MARGIN > now


class Revocation(NamedTuple):
    """Google ended the connection at this moment; the owner has not answered it yet."""

    at: datetime
    account: str


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
            return None if fields is None else GoogleToken(fields)
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

    def valid(self) -> GoogleToken:
        """A token that lasts, renewed if need be.

        Raises `SignInNeeded` if Google is not connected or has ended the connection, `Unreachable`
        if Google does not answer.
        """
        token = self._connected()
        return token if token.lasts(self._now()) else self.renewed(token)

    def renewed(self, refused: GoogleToken) -> GoogleToken:
        """Another token than the one that Google refused; the first process renews it for all."""
        from ollim_bot.features.google.oauth import renew

        with self._locked():
            token = self._connected()
            if token.access != refused.access and token.lasts(self._now()):
                return token
            try:
                answer = renew(self.reached(token.client), token.refresh, self._pause)
            except GoogleRefused as refusal:
                if refusal.reason == "invalid_grant":
                    at, account = self._now().isoformat(), token.account
                    fields = {"version": _FORMAT, "at": at, "account": account}
                    # In this order a crash leaves the token, which Google refuses again.
                    self._write(self._paths.google_revoked, fields)
                    remove_durably(OsDisk(), self._paths.token)
                    self._connected()
                if refusal.reason in _CLIENT_REFUSED:
                    raise SignInNeeded(
                        f"Google does not accept this connection's OAuth client ({refusal.reason})."
                        f" Put a new one in state/credentials.json; {_LOGIN} then."
                    ) from refusal
                raise
            token = token.answered(answer, self._now())
            self._write(self._paths.token, token.fields)
            return token

    def reached(self, client: Mapping[str, str]) -> dict[str, str]:
        """The client with the addresses that take the place of Google's."""
        ours = {"auth_uri": self._addresses.auth, "token_uri": self._addresses.token}
        return {**client, **{name: address for name, address in ours.items() if address}}

    def keep(self, token: GoogleToken) -> None:
        """Connect with this token, in place of any other. Raises `WriteFailed`."""
        with self._locked():
            self._write(self._paths.token, token.fields)
            remove_durably(OsDisk(), self._paths.google_revoked)

    def forget(self) -> None:
        """Remove the token, and what is left of an ended connection. Raises `WriteFailed`."""
        with self._locked():
            remove_durably(OsDisk(), self._paths.token)
            remove_durably(OsDisk(), self._paths.google_revoked)

    def _locked(self) -> AbstractContextManager[None]:
        return FileLock(self._paths.lock_of(self._paths.token)).held()

    def _connected(self) -> GoogleToken:
        if (token := self.read()) is not None:
            return token
        if (revoked := self.revocation()) is None:
            raise SignInNeeded(NOT_CONNECTED)
        whom = f" to {revoked.account}" if revoked.account else ""
        raise SignInNeeded(
            f"The connection{whom} at Google was revoked or has expired. "
            f"`/google-auth` or {_LOGIN} again, `ollim-bot google logout` leaves it out."
        )

    def _write(self, path: Path, fields: Mapping[str, Any]) -> None:
        # An existing file keeps its mode when it is written.
        if path.exists():
            os.chmod(path, PRIVATE)
        content = f"{json.dumps(fields, indent=2)}\n"
        write_atomically(OsDisk(), path, content.encode(), PRIVATE)


def _read_fields(path: Path) -> dict[str, Any] | None:
    try:
        fields = json.loads(read_file(path, SizeLimit.NOTE))
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise Unreadable(path, f"cannot be read: {refused.strerror}.") from refused
    if not isinstance(fields, dict):
        raise ValueError("The file is not an object.")
    if int(fields["version"]) > _FORMAT:
        raise NewerFormat(path, int(fields["version"]), _FORMAT)
    return fields


def read_client(paths: DataPaths) -> dict[str, str]:
    """The owner's OAuth client. Raises `SignInNeeded` with what is wrong, or how to get one."""
    path, usual = paths.credentials, {"auth_uri": _AUTH_URI, "token_uri": _TOKEN_URI}
    try:
        fields = json.loads(read_file(path, SizeLimit.NOTE))
        if "web" in fields:
            right = f"Right: one of type Desktop app, from {_CLIENTS}."
            raise SignInNeeded(f"{path} is a client of type Web application. {right}")
        if "type" in fields:
            kind = str(fields["type"]).replace("_", " ")
            wrong = f"is a key of another kind ({kind}). Right: an OAuth client."
            raise SignInNeeded(f"{path} {wrong}")
        given = {name: value for name, value in fields["installed"].items() if value}
        client = {name: str({**usual, **given}[name]) for name in _CLIENT}
    except FileNotFoundError:
        raise SignInNeeded(_STEPS.format(path=path)) from None
    except OSError as refused:
        raise SignInNeeded(f"{path} cannot be read: {refused.strerror}.") from refused
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SignInNeeded(
            f"{path} is not the file that Google gives. Right: the JSON file that "
            f"{_CLIENTS} offers for a client of type Desktop app."
        ) from None
    if not all(is_safe_address(client[name]) for name in usual):
        wrong = "names an address that is not https. Right: as Google gave the file."
        raise SignInNeeded(f"{path} {wrong}")
    return client

"""The token for Google, and the OAuth client that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ollim_bot.domain.google import GoogleService, services_in
from ollim_bot.settings import Secret

# A token that ends so soon may end on its way to Google.
_MARGIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The owner's OAuth client. The addresses are Google's, as `credentials.json` names them."""

    id: str
    secret: Secret
    auth_uri: str
    token_uri: str


@dataclass(frozen=True, slots=True)
class GoogleToken:
    """`refresh_ends_at` is None unless Google named a day. `account` is empty if unknown."""

    access: Secret
    ends_at: datetime
    refresh: Secret
    scopes: tuple[str, ...]
    client: OAuthClient
    account: str = ""
    refresh_ends_at: datetime | None = None

    @property
    def services(self) -> tuple[GoogleService, ...]:
        return services_in(self.scopes)

    def lasts(self, now: datetime) -> bool:
        return self.ends_at - _MARGIN > now


def with_answer(token: GoogleToken, answer: dict[str, Any], now: datetime) -> GoogleToken:
    """The token as the token endpoint's answer changes it. Raises `KeyError` or `ValueError`."""
    lasts = answer.get("refresh_token_expires_in")
    refresh = answer.get("refresh_token")
    return replace(
        token,
        access=Secret(str(answer["access_token"])),
        ends_at=now + timedelta(seconds=int(answer.get("expires_in", 3600))),
        refresh=Secret(str(refresh)) if refresh else token.refresh,
        scopes=tuple(str(answer["scope"]).split()) if answer.get("scope") else token.scopes,
        refresh_ends_at=(now + timedelta(seconds=int(lasts)) if lasts else token.refresh_ends_at),
    )


def token_fields(token: GoogleToken) -> dict[str, Any]:
    """The token as it stands in its file."""
    ends = token.refresh_ends_at
    return {
        "token": token.access.reveal(),
        "expiry": token.ends_at.astimezone(UTC).isoformat(),
        "refresh_token": token.refresh.reveal(),
        "refresh_token_expiry": ends.astimezone(UTC).isoformat() if ends else None,
        "scopes": list(token.scopes),
        "account": token.account,
        "client_id": token.client.id,
        "client_secret": token.client.secret.reveal(),
        "auth_uri": token.client.auth_uri,
        "token_uri": token.client.token_uri,
    }


def token_of(fields: dict[str, Any]) -> GoogleToken:
    """The reverse of `token_fields`. Raises `KeyError`, `TypeError` or `ValueError`."""
    ends = fields["refresh_token_expiry"]
    client = OAuthClient(
        str(fields["client_id"]),
        Secret(str(fields["client_secret"])),
        str(fields["auth_uri"]),
        str(fields["token_uri"]),
    )
    return GoogleToken(
        access=Secret(str(fields["token"])),
        ends_at=datetime.fromisoformat(fields["expiry"]),
        refresh=Secret(str(fields["refresh_token"])),
        scopes=tuple(map(str, fields["scopes"])),
        client=client,
        account=str(fields["account"]),
        refresh_ends_at=datetime.fromisoformat(ends) if ends else None,
    )

"""Who may read and write which topic, and how much: tokens, rights and limits."""

from __future__ import annotations

import base64
import binascii
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase

from devtools.localntfy.protocol import (
    forbidden,
    too_many_messages,
    too_many_requests,
    unauthorized,
)

READ, WRITE = "read", "write"
_TOKEN_LETTERS = string.ascii_lowercase + string.digits
_TOKEN_LENGTH = 29
# Of the public server: so many requests at once, then one per so many seconds; messages a day.
_BURST, _REFILL, _A_DAY = 60, 5.0, 250


class Access:
    """What anonymous callers and each token may do, by patterns of topics; the last match counts.

    A caller with a known token also has what is open to all.
    """

    def __init__(self) -> None:
        self._rights: dict[str, list[tuple[str, frozenset[str]]]] = {"": [("*", _both())]}

    def close_to_strangers(self, pattern: str = "*", *, except_for: str = "") -> None:
        """Anonymous callers may only do `except_for` (`read` or `write`) there."""
        self._rights[""].append((pattern, frozenset({except_for} - {""})))

    def new_token(self) -> str:
        """A token that may read and write every topic."""
        return self._new([("*", _both())])

    def new_limited_token(self, rights: Mapping[str, str]) -> str:
        """A token with `read`, `write` or `read-write` by topic, such as `{"reply": "write"}`."""
        return self._new([(topic, frozenset(each.split("-"))) for topic, each in rights.items()])

    def revoke(self, token: str) -> None:
        del self._rights[token]

    def token_of(self, authorization: str, auth_query: str) -> str:
        """The caller's token, empty without one; refuses an unknown one."""
        given = authorization or _unpacked(auth_query)
        if not given:
            return ""
        token = _token_in(given)
        if not token or token not in self._rights:
            raise unauthorized()
        return token

    def require(self, token: str, topic: str, right: str) -> None:
        if not any(self._has_right(each, topic, right) for each in {token, ""}):
            raise forbidden()

    def _has_right(self, token: str, topic: str, right: str) -> bool:
        found = [each for pattern, each in self._rights[token] if fnmatchcase(topic, pattern)]
        return bool(found) and right in found[-1]

    def _new(self, rights: list[tuple[str, frozenset[str]]]) -> str:
        token = "tk_" + "".join(secrets.choice(_TOKEN_LETTERS) for _ in range(_TOKEN_LENGTH))
        self._rights[token] = rights
        return token


def _both() -> frozenset[str]:
    return frozenset({READ, WRITE})


def _unpacked(auth_query: str) -> str:
    """The query parameter is the header in base64 without padding."""
    try:
        padded = auth_query + "=" * (-len(auth_query) % 4)
        return base64.urlsafe_b64decode(padded).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise unauthorized() from None


def _token_in(authorization: str) -> str:
    """As a bearer, or as the password of basic authentication without a user."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        return _unpacked(value.strip()).removeprefix(":")
    return ""


@dataclass
class _Visitor:
    requests_left: float
    seen: datetime
    day: datetime
    messages: int = 0


@dataclass
class Limits:
    """Counts by visitor: a token, or an address. `refused` is how many 429 there were.

    `tells_when` adds `Retry-After`; ntfy itself gives none, a proxy before it may.
    """

    now: Callable[[], datetime]
    burst: int = _BURST
    refill_seconds: float = _REFILL
    messages_a_day: int = _A_DAY
    tells_when: bool = False
    refused: int = 0
    _visitors: dict[str, _Visitor] = field(default_factory=dict)

    def take_request(self, visitor: str) -> None:
        one = self._visitor(visitor)
        if one.requests_left < 1:
            self.refused += 1
            after = (1 - one.requests_left) * self.refill_seconds
            raise too_many_requests(after if self.tells_when else None)
        one.requests_left -= 1

    def take_message(self, visitor: str) -> None:
        one = self._visitor(visitor)
        if one.messages >= self.messages_a_day:
            self.refused += 1
            after = (one.day + timedelta(days=1) - self.now()).total_seconds()
            raise too_many_messages(after if self.tells_when else None)
        one.messages += 1

    def messages_of(self, visitor: str) -> int:
        """How many the visitor published today."""
        return self._visitor(visitor).messages

    def reset(self) -> None:
        self._visitors.clear()

    def _visitor(self, name: str) -> _Visitor:
        now = self.now()
        today = datetime.combine(now.date(), time(), now.tzinfo)
        one = self._visitors.setdefault(name, _Visitor(self.burst, now, today))
        gained = (now - one.seen).total_seconds() / self.refill_seconds
        one.requests_left, one.seen = min(float(self.burst), one.requests_left + gained), now
        if one.day != today:
            one.day, one.messages = today, 0
        return one

"""What Google's answer to a request means, and trying again what may still work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ollim_bot.kernel.base.errors import GoogleRefused, Unreachable
from ollim_bot.kernel.base.http_exchange import (
    HttpLimits,
    HttpResponse,
    ResponseLost,
    ResponseTooLarge,
    exchange,
)

T = TypeVar("T")
Pause = Callable[[float], None]

NOT_UNDERSTOOD = "Google's answer could not be understood. Try again later."
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LIMITS = HttpLimits()
_TRIES = 4
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
# Google sends these with 403 where others send 429.
_TRANSIENT_REASONS = frozenset(
    {(403, "rateLimitExceeded"), (403, "userRateLimitExceeded"), (403, "backendError")}
)


class Transient(Unreachable):
    """Worth another try. `may_be_done`: the request may have been carried out all the same."""

    def __init__(self, sentence: str, *, may_be_done: bool, wait: float = 0.0) -> None:
        super().__init__(sentence)
        self.may_be_done = may_be_done
        self.wait = wait


def is_safe_address(address: str) -> bool:
    """Whether a secret may be sent there: by https, or to this machine."""
    try:
        parts = urlsplit(address)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_https = parts.scheme == "https" and bool(parts.hostname)
    return has_port and (is_https or (parts.scheme == "http" and parts.hostname in _LOOPBACK))


def ask_google(
    method: str,
    address: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    limits: HttpLimits | None = None,
) -> HttpResponse:
    """Send one request. Raises `Transient` if there is no answer, else `GoogleRefused`."""
    if not is_safe_address(address):
        raise GoogleRefused(0, "", "the address is neither https nor on this machine.")
    try:
        return exchange(method, address, headers, body, limits=limits or _LIMITS)
    except ResponseTooLarge as large:
        raise GoogleRefused(large.status, "", "the answer is larger than 10 MB.") from large
    except OSError as failed:
        reason = "no answer in time" if isinstance(failed, TimeoutError) else failed.strerror
        sentence = f"Google cannot be reached ({(reason or str(failed)).rstrip('.')})."
        is_sent = isinstance(failed, ResponseLost)
        raise Transient(f"{sentence} Try again later.", may_be_done=is_sent) from failed


def understood(answer: HttpResponse) -> dict[str, Any]:
    """The object that was answered. Raises `Transient`, or `GoogleRefused` with Google's reason."""
    status = answer.status
    value: object = None
    with suppress(ValueError):
        value = json.loads(answer.body.strip() or b"{}")
    said: dict[str, Any] = value if isinstance(value, dict) else {}
    reason, message = _error_in(said)
    if status in _TRANSIENT_STATUSES or (status, reason) in _TRANSIENT_REASONS:
        raise _busy(answer)
    if 200 <= status < 300:
        if said is not value:
            raise Transient(NOT_UNDERSTOOD, may_be_done=True)
        return said
    if 300 <= status < 400:
        raise GoogleRefused(status, reason, "it points to another address, which is not followed.")
    raise GoogleRefused(status, reason, message)


def _busy(answer: HttpResponse) -> Transient:
    asked = answer.headers.get("retry-after", "")
    wait = float(asked) if asked.isdigit() else 0.0
    if answer.status in (403, 429):
        when = f"in {asked} s" if wait else "in a few minutes"
        sentence = f"Google asks for fewer requests ({answer.status}). Try again {when}."
        return Transient(sentence, may_be_done=False, wait=wait)
    sentence = f"Google has trouble of its own ({answer.status}). Try again in a few minutes."
    return Transient(sentence, may_be_done=answer.status != 503, wait=wait)


def _error_in(value: Mapping[str, Any]) -> tuple[str, str]:
    """Google's word for what is wrong, and its sentence, as one short line."""
    match value:
        case {"error": str(reason)}:  # the token endpoint
            return reason, _line(value.get("error_description") or reason)
        case {"error": {"errors": [{"reason": given}, *_], **error}}:
            return str(given), _line(error.get("message") or given)
        case {"error": {"message": message}}:
            return "", _line(message)
    return "", _line("")


def _line(text: object) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    line = line[:200].rstrip(".")
    return f"{line or 'no reason was given'}."


def with_retries(attempt: Callable[[], T], pause: Pause, *, is_repeatable: bool) -> T:
    """Try again after growing pauses, a few times; what is not repeatable only if it is not done.

    Raises the last `Transient`.
    """
    wait = _FIRST_PAUSE
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except Transient as failed:
            if failed.wait > _LONGEST_PAUSE or (failed.may_be_done and not is_repeatable):
                raise
            pause(max(wait, failed.wait))
            wait *= 2
    return attempt()

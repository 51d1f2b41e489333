"""How a request to a webhook proves who sent it, and by what the same call is known again."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ollim_bot.domain.jobs import WebhookAuth, WebhookSpec
from ollim_bot.domain.webhooks import WebhookCall

_TOLERANCE = 5 * 60
_STANDARD_PREFIX = b"whsec_"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = re.compile(rb"[0-9]{1,12}")
_AUTHORIZATION = b"authorization"
_GITHUB_SIGNATURE = b"x-hub-signature-256"
_STANDARD_ID, _STANDARD_TIME = b"webhook-id", b"webhook-timestamp"
_STANDARD_SIGNATURE = b"webhook-signature"
_STRIPE_SIGNATURE = b"stripe-signature"
_IDEMPOTENCY = b"idempotency-key"
_EVENT = b"x-github-event"


class RawRequest(NamedTuple):
    """Header names are in lower case; a header that was sent several times has several values."""

    headers: Mapping[bytes, Sequence[bytes]]
    body: bytes

    def only(self, name: bytes) -> bytes:
        """The value of a header that was sent once; empty for any other."""
        values = self.headers.get(name, ())
        return values[0].strip() if len(values) == 1 else b""

    def all(self, name: bytes) -> Sequence[bytes]:
        return self.headers.get(name, ())

    @property
    def event(self) -> str:
        """The name of GitHub's event; empty for a request of another sender."""
        return self.only(_EVENT).decode("utf-8", "replace")


def proof_in(
    request: RawRequest, secret: bytes, ways: Sequence[WebhookAuth], now: datetime
) -> WebhookAuth | None:
    """The way in which the request proves that its sender knows the secret; None if it does not.

    Of several ways, a signature goes before the bare secret. How long this takes depends on the
    request alone: it tells nothing about the secret, and not which ways are accepted.
    """
    seconds = now.timestamp()
    proven = [way for way, check in _CHECKS.items() if check(request, secret, seconds)]
    return next((way for way in proven if way in ways), None)


def is_signed(request: RawRequest) -> bool:
    """Whether the request has a signature, so that its proof depends on its body."""
    return any(name in request.headers for name in _SIGNATURES)


def _is_bearer(request: RawRequest, secret: bytes, _: float) -> bool:
    return any(_same(given, secret) for given in _bearer_tokens(request))


def _bearer_tokens(request: RawRequest) -> Iterator[bytes]:
    for value in request.all(_AUTHORIZATION):
        scheme, _, given = value.strip().partition(b" ")
        if scheme.lower() == b"bearer":
            yield given.strip()


def _is_github(request: RawRequest, secret: bytes, _: float) -> bool:
    given = request.all(_GITHUB_SIGNATURE)
    expected = b"sha256=" + _hex_mac(secret, request.body) if given else b""
    return any(_same(each.strip().lower(), expected) for each in given)


def _is_standard(request: RawRequest, secret: bytes, now: float) -> bool:
    call, at = request.only(_STANDARD_ID), request.only(_STANDARD_TIME)
    if not call or not _is_recent(at, now):
        return False
    signed = b".".join((call, at, request.body))
    given = [each for value in request.all(_STANDARD_SIGNATURE) for each in value.split()]
    expected = [b"v1," + _base64_mac(key, signed) for key in _standard_keys(secret)]
    return any(_same(each, right) for each in given for right in expected)


def _standard_keys(secret: bytes) -> tuple[bytes, bytes]:
    """The keys that a secret may stand for: what its base64 means, and its own text."""
    try:
        decoded = base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    return decoded or secret, secret


def _is_stripe(request: RawRequest, secret: bytes, now: float) -> bool:
    parts = [part.strip().partition(b"=") for part in request.only(_STRIPE_SIGNATURE).split(b",")]
    times = [value for name, _, value in parts if name == b"t"]
    if len(times) != 1 or not _is_recent(times[0], now):
        return False
    expected = _hex_mac(secret, times[0] + b"." + request.body)
    return any(_same(value.lower(), expected) for name, _, value in parts if name == b"v1")


def _is_recent(at: bytes, now: float) -> bool:
    return _SECONDS.fullmatch(at) is not None and abs(int(at) - now) <= _TOLERANCE


def _hex_mac(key: bytes, signed: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).hexdigest().encode()


def _base64_mac(key: bytes, signed: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())


def _same(given: bytes, right: bytes) -> bool:
    # Hashes have one length, so that the time does not tell the length of the secret either.
    return hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(right).digest())


_CHECKS: Mapping[WebhookAuth, Callable[[RawRequest, bytes, float], bool]] = {
    WebhookAuth.STANDARD: _is_standard,
    WebhookAuth.STRIPE: _is_stripe,
    WebhookAuth.GITHUB: _is_github,
    WebhookAuth.BEARER: _is_bearer,
}
_SIGNATURES = (_STANDARD_SIGNATURE, _STRIPE_SIGNATURE, _GITHUB_SIGNATURE)


def signed_headers(
    way: WebhookAuth, secret: bytes, body: bytes, now: datetime, call: str
) -> dict[str, str]:
    """The headers by which a request with this body proves itself; `call` is its id."""
    at = str(int(now.timestamp()))
    match way:
        case WebhookAuth.BEARER:
            return {"Authorization": "Bearer " + secret.decode("utf-8", "surrogateescape")}
        case WebhookAuth.GITHUB:
            return {"X-Hub-Signature-256": "sha256=" + _hex_mac(secret, body).decode()}
        case WebhookAuth.STRIPE:
            mac = _hex_mac(secret, f"{at}.".encode() + body)
            return {"Stripe-Signature": f"t={at},v1={mac.decode()}"}
        case WebhookAuth.STANDARD:
            mac = _base64_mac(_standard_keys(secret)[0], f"{call}.{at}.".encode() + body)
            signature = f"v1,{mac.decode()}"
            return {
                "webhook-id": call,
                "webhook-timestamp": at,
                "webhook-signature": signature,
            }


def call_name(way: WebhookAuth, request: RawRequest, data: Mapping[str, object]) -> str | None:
    """By what the same call is known again, from what was signed; None if every call is new.

    The name is short and plain: a hash stands for a longer text, or one with other signs.
    """
    match way:
        case WebhookAuth.STANDARD:
            return _plain_name(request.only(_STANDARD_ID))
        case WebhookAuth.STRIPE if isinstance(data.get("id"), str) and data["id"]:
            return _plain_name(str(data["id"]).encode("utf-8", "surrogatepass"))
        case WebhookAuth.STRIPE | WebhookAuth.GITHUB:
            return hashlib.sha256(request.body).hexdigest()
        case WebhookAuth.BEARER:
            given = b", ".join(request.all(_IDEMPOTENCY)).strip()
            return _plain_name(given) if given else None


def _plain_name(text: bytes) -> str:
    plain = text.decode("latin-1")
    return plain if _NAME.fullmatch(plain) else hashlib.sha256(text).hexdigest()


def call_of(
    hook: WebhookSpec,
    way: WebhookAuth,
    request: RawRequest,
    data: Mapping[str, object],
    fields: Mapping[str, object],
    token: str,
) -> WebhookCall:
    """The call that a proven and checked request makes; `token` is random."""
    name = call_name(way, request, data)
    key = f"new:{token}" if name is None else f"{way}:{name}"
    return WebhookCall(hook.spec.id, hook.spec.title, key, name or token, token, fields)

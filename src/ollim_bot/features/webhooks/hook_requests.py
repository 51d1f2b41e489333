"""The calls of webhooks, in words too, and the proofs of a caller."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ollim_bot.kernel.values.hook_jobs import WebhookAuth, WebhookCall, WebhookSpec
from ollim_bot.kernel.values.jobs import list_names
from ollim_bot.kernel.values.webhook_data import pointer_parts

if TYPE_CHECKING:
    pass

LARGEST_BODY = 1024 * 1024


def read_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that the body is; None if it is not one."""
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def is_wanted(hook: WebhookSpec, event: str, data: Mapping[str, object]) -> bool:
    """Whether `on` of the hook names the event of the request, or names none at all.

    `event` is the header `X-GitHub-Event`, or empty.
    """
    kind, action = data.get("type"), data.get("action")
    # `issues`, `opened` and `issues.opened` for GitHub; the type of an event of Stripe.
    names = {event} if event else set()
    names |= {kind} if isinstance(kind, str) else set()
    if isinstance(action, str):
        names |= {action, f"{event}.{action}"} if event else {action}
    return not hook.on or not names.isdisjoint(hook.on)


def picked(hook: WebhookSpec, data: Mapping[str, object]) -> dict[str, object]:
    """The fields of the request that are kept; a picked value that is not there has no field."""
    if not hook.pick:
        return dict(data)
    found = ((name, _at(data, pointer_parts(pointer))) for name, pointer in hook.pick.items())
    return {name: value for name, value in found if value is not _ABSENT}


_ABSENT = object()


def _at(value: Any, steps: Sequence[str]) -> object:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,6}", step, re.ASCII):
            if int(step) >= len(value):
                return _ABSENT
            value = value[int(step)]
        else:
            return _ABSENT
    return value


def mended(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields without halves of surrogate pairs, which no text can be written with."""
    return {_mended_text(name): _mended(value) for name, value in fields.items()}


def _mended(value: Any) -> object:
    match value:
        case str():
            return _mended_text(value)
        case list():
            return [_mended(each) for each in value]
        case dict():
            return mended(value)
    return value


def _mended_text(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def own_secret_name(hook: WebhookSpec) -> str:
    """A name for a secret that opens this webhook alone."""
    return f"{hook.spec.id.upper().replace('-', '_')}_SECRET"


def sharing_secret(
    hook: WebhookSpec, hooks: Iterable[WebhookSpec], value_of: Callable[[str], object]
) -> list[WebhookSpec]:
    """The other webhooks that the secret of this one opens: no signature names its webhook.

    `value_of` gives the value of a setting, None if it is not set; two may have the same value.
    """
    value = value_of(hook.secret_name)
    others = () if value is None else (each for each in hooks if each.spec.id != hook.spec.id)
    return [other for other in others if value_of(other.secret_name) == value]


def named(hooks: Sequence[WebhookSpec], most: int = 10) -> str:
    return list_names([hook.spec.id for hook in hooks], str, "and", most)


# In bytes. The headers of services and of the tunnels before them have some three kilobytes.
LARGEST_HEAD = 16 * 1024
MOST_SIGNATURES = 10
_TOLERANCE = 5 * 60
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = re.compile(rb"[0-9]{1,12}")
_AUTHORIZATION = b"authorization"
_GITHUB_SIGNATURE = b"x-hub-signature-256"
_STANDARD_ID, _STANDARD_TIME = b"webhook-id", b"webhook-timestamp"
_STANDARD_SIGNATURE = b"webhook-signature"
_STRIPE_SIGNATURE = b"stripe-signature"
_SIGNATURES = (_STANDARD_SIGNATURE, _STRIPE_SIGNATURE, _GITHUB_SIGNATURE)


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
    def head_size(self) -> int:
        """The bytes of all headers, with the colon, the space and the line end of each."""
        return sum(
            len(name) + len(value) + 4 for name, values in self.headers.items() for value in values
        )

    @property
    def event(self) -> str:
        """The name of GitHub's event; empty for a request of another sender."""
        return self.only(b"x-github-event").decode("utf-8", "replace")


class _Claim(NamedTuple):
    """What a request gives as proof in one way: signatures, or the secret itself.

    `prefix` is what was signed before the body.
    """

    way: WebhookAuth
    given: Sequence[bytes]
    prefix: bytes = b""


def proof_in(
    request: RawRequest, secret: bytes, ways: Sequence[WebhookAuth], now: datetime
) -> WebhookAuth | None:
    """The way in which the request proves that its sender knows the secret; None if it does not.

    Of several ways, a signature goes before the bare secret. How long this takes depends on the
    request alone: it tells nothing about the secret, and not which ways are accepted. The body is
    hashed twice at most.
    """
    proven = [claim.way for claim in _claims(request, now) if _holds(claim, secret, request.body)]
    return next((way for way in proven if way in ways), None)


def claimed_ways(request: RawRequest, now: datetime) -> list[WebhookAuth]:
    """The ways in which the request may prove itself, by its head alone; empty if no body could.

    Reading a head takes no hash, since a stranger can send one. A head that is too large, or that
    repeats a proof or has two signatures, claims nothing.
    """
    return [claim.way for claim in _claims(request, now)]


def _claims(request: RawRequest, now: datetime) -> list[_Claim]:
    if request.head_size > LARGEST_HEAD:
        return []
    signatures = sum(len(request.all(name)) for name in _SIGNATURES)
    if signatures > 1 or len(request.all(_AUTHORIZATION)) > 1:
        return []
    found = [_standard(request, now.timestamp()), _stripe(request, now.timestamp())]
    if given := request.only(_GITHUB_SIGNATURE).lower():
        found.append(_Claim(WebhookAuth.GITHUB, [given]))
    scheme, _, secret = request.only(_AUTHORIZATION).partition(b" ")
    if scheme.lower() == b"bearer":
        found.append(_Claim(WebhookAuth.BEARER, [secret.strip()]))
    return [claim for claim in found if claim is not None]


def _standard(request: RawRequest, now: float) -> _Claim | None:
    call, at = request.only(_STANDARD_ID), request.only(_STANDARD_TIME)
    given = request.only(_STANDARD_SIGNATURE).split(None, MOST_SIGNATURES)
    if not given or len(given) > MOST_SIGNATURES or not call or not _is_recent(at, now):
        return None
    return _Claim(WebhookAuth.STANDARD, given, b"%b.%b." % (call, at))


def _stripe(request: RawRequest, now: float) -> _Claim | None:
    # The time is a part of its own.
    listed = request.only(_STRIPE_SIGNATURE).split(b",", MOST_SIGNATURES + 1)
    if len(listed) > MOST_SIGNATURES + 1:
        return None
    parts = [part.strip().partition(b"=") for part in listed]
    times = [value for name, _, value in parts if name == b"t"]
    given = [value.lower() for name, _, value in parts if name == b"v1"]
    if not given or len(times) != 1 or not _is_recent(times[0], now):
        return None
    return _Claim(WebhookAuth.STRIPE, given, times[0] + b".")


def _is_recent(at: bytes, now: float) -> bool:
    return _SECONDS.fullmatch(at) is not None and abs(int(at) - now) <= _TOLERANCE


def _holds(claim: _Claim, secret: bytes, body: bytes) -> bool:
    match claim.way:
        case WebhookAuth.BEARER:
            # Hashes have one length, so that the time does not tell the length of the secret.
            given, right = (hashlib.sha256(each).digest() for each in (claim.given[0], secret))
            return hmac.compare_digest(given, right)
        case WebhookAuth.STANDARD:
            keys = _standard_keys(secret)
            macs = (_mac(key, claim.prefix, body) for key in keys)
            expected = [b"v1," + base64.b64encode(mac) for mac in macs]
        case WebhookAuth.STRIPE:
            expected = [_hex_mac(secret, claim.prefix, body)]
        case WebhookAuth.GITHUB:
            expected = [b"sha256=" + _hex_mac(secret, claim.prefix, body)]
    return any(hmac.compare_digest(each, right) for each in claim.given for right in expected)


def _standard_keys(secret: bytes) -> tuple[bytes, bytes]:
    """The keys that a secret may stand for: what its base64 means, and its own text."""
    try:
        decoded = base64.b64decode(secret.removeprefix(b"whsec_"), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    return decoded or secret, secret


def _mac(key: bytes, prefix: bytes, body: bytes) -> bytes:
    made = hmac.new(key, prefix, hashlib.sha256)
    made.update(body)
    return made.digest()


def _hex_mac(key: bytes, prefix: bytes, body: bytes) -> bytes:
    return _mac(key, prefix, body).hex().encode()


def signed_headers(
    way: WebhookAuth, secret: bytes, body: bytes, now: datetime, call: str
) -> dict[str, str]:
    """The headers by which a request with this body proves itself; `call` is its id."""
    at = str(int(now.timestamp()))
    match way:
        case WebhookAuth.BEARER:
            return {"Authorization": "Bearer " + secret.decode("utf-8", "surrogateescape")}
        case WebhookAuth.GITHUB:
            return {"X-Hub-Signature-256": "sha256=" + _hex_mac(secret, b"", body).decode()}
        case WebhookAuth.STRIPE:
            mac = _hex_mac(secret, f"{at}.".encode(), body)
            return {"Stripe-Signature": f"t={at},v1={mac.decode()}"}
        case WebhookAuth.STANDARD:
            mac = _mac(_standard_keys(secret)[0], f"{call}.{at}.".encode(), body)
            signature = f"v1,{base64.b64encode(mac).decode()}"
            return {"webhook-id": call, "webhook-timestamp": at, "webhook-signature": signature}


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
            given = b", ".join(request.all(b"idempotency-key")).strip()
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

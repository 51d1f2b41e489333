"""The four kinds of proof of a call, against published signatures or those of other tools."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.hook_jobs import WebhookAuth
from ollim_bot.domain.webhook_proofs import (
    LARGEST_HEAD,
    RawRequest,
    call_name,
    claimed_ways,
    proof_in,
    signed_headers,
)

ALL = tuple(WebhookAuth)
Pairs = Sequence[tuple[bytes, bytes]]

# The example of GitHub's documentation.
GITHUB_SECRET, GITHUB_BODY = b"It's a Secret to Everybody", b"Hello, World!"
GITHUB_MAC = b"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
# The example of the libraries of Standard Webhooks.
STANDARD_SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_TIME = datetime.fromtimestamp(1614265330, UTC)
STANDARD_ID, STANDARD_STAMP = b"msg_p5jXN8AQM9LWM0D4loKWxJek", b"1614265330"
STANDARD_MAC = b"g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
# Made with: printf '1492774577.{"id": "evt_1"}' | openssl dgst -sha256 -hmac whsec_test
STRIPE_SECRET, STRIPE_BODY = b"whsec_test", b'{"id": "evt_1"}'
STRIPE_TIME = datetime.fromtimestamp(1492774577, UTC)
STRIPE_MAC = b"952cd89626c79cd65f12880afd38333422a10b88ff71136627ceb92ccdb0132c"


def request(pairs: Pairs, body: bytes = b"") -> RawRequest:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        headers.setdefault(name, []).append(value)
    return RawRequest(headers, body)


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (b"sha256=" + GITHUB_MAC, True),
        (b" sha256=" + GITHUB_MAC.upper() + b" ", True),
        (b"sha256=" + GITHUB_MAC[:-1], False),
        (b"sha1=" + GITHUB_MAC, False),
        (GITHUB_MAC, False),
        (b"\xff\x00", False),
        (b"", False),
    ],
)
def test_a_signature_of_github_is_known(given: bytes, is_right: bool) -> None:
    pairs = [(b"x-hub-signature-256", given)]
    found = proof_in(request(pairs, GITHUB_BODY), GITHUB_SECRET, ALL, STRIPE_TIME)
    assert (found is WebhookAuth.GITHUB) is is_right
    changed = request(pairs, GITHUB_BODY + b" ")
    assert proof_in(changed, GITHUB_SECRET, ALL, STRIPE_TIME) is None
    others = [way for way in ALL if way is not WebhookAuth.GITHUB]
    assert proof_in(request(pairs, GITHUB_BODY), GITHUB_SECRET, others, STRIPE_TIME) is None


def standard(
    signature: bytes, call: bytes = STANDARD_ID, stamp: bytes = STANDARD_STAMP
) -> list[tuple[bytes, bytes]]:
    return [(b"webhook-id", call), (b"webhook-timestamp", stamp), (b"webhook-signature", signature)]


@pytest.mark.parametrize(
    ("pairs", "late", "is_right"),
    [
        (standard(b"v1," + STANDARD_MAC), 0, True),
        (standard(b"v1," + STANDARD_MAC), 300, True),
        (standard(b"v1," + STANDARD_MAC), -300, True),
        (standard(b"v1," + STANDARD_MAC), 301, False),
        (standard(b"v1," + STANDARD_MAC), -301, False),
        (standard(b"v1a,AAAA v1,d3Jvbmc= v1," + STANDARD_MAC), 0, True),
        (standard(b"v1,AAAA " * 9 + b"v1," + STANDARD_MAC), 0, True),
        (standard(b"v1,AAAA " * 10 + b"v1," + STANDARD_MAC), 0, False),
        (standard(b"v1," + STANDARD_MAC + b" v1,AAAA" * 10), 0, False),
        ([*standard(b"v1,AAAA"), (b"webhook-signature", b"v1," + STANDARD_MAC)], 0, False),
        (standard(b"v1,AAAA v1,BBBB"), 0, False),
        (standard(b"v2," + STANDARD_MAC), 0, False),
        (standard(STANDARD_MAC), 0, False),
        (standard(b""), 0, False),
        (standard(b"v1," + STANDARD_MAC, call=b"msg_other"), 0, False),
        (standard(b"v1," + STANDARD_MAC, call=b""), 0, False),
        (standard(b"v1," + STANDARD_MAC, stamp=b"1614265331"), 0, False),
        (standard(b"v1," + STANDARD_MAC, stamp=b"now"), 0, False),
        (standard(b"v1," + STANDARD_MAC, stamp=b"9" * 4000), 0, False),
        (standard(b"v1," + STANDARD_MAC, stamp=b"-1614265330"), 0, False),
        ([*standard(b"v1," + STANDARD_MAC), (b"webhook-id", b"b")], 0, False),
        ([(b"webhook-signature", b"v1," + STANDARD_MAC)], 0, False),
    ],
)
def test_a_signature_of_standard_webhooks_is_known(pairs: Pairs, late: int, is_right: bool) -> None:
    now = STANDARD_TIME + timedelta(seconds=late)
    found = proof_in(request(pairs, STANDARD_BODY), STANDARD_SECRET, ALL, now)
    assert (found is WebhookAuth.STANDARD) is is_right
    assert proof_in(request(pairs, STANDARD_BODY), b"another", ALL, now) is None


def test_a_call_without_an_id_proves_nothing_since_it_would_not_be_known_again() -> None:
    headers = signed_headers(WebhookAuth.STANDARD, b"secret", b"{}", STANDARD_TIME, "")
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert proof_in(request(pairs, b"{}"), b"secret", ALL, STANDARD_TIME) is None


@pytest.mark.parametrize(
    ("given", "late", "is_right"),
    [
        (b"t=1492774577,v1=" + STRIPE_MAC, 0, True),
        (b"t=1492774577,v1=" + STRIPE_MAC, 301, False),
        (b"t=1492774577,v1=" + STRIPE_MAC, -301, False),
        (b"v0=00,v1=00, v1=" + STRIPE_MAC + b",t=1492774577", 0, True),
        (b"t=1492774577" + b",v1=00" * 9 + b",v1=" + STRIPE_MAC, 0, True),
        (b"t=1492774577" + b",v1=00" * 10 + b",v1=" + STRIPE_MAC, 0, False),
        (b"t=1492774577,v1=" + STRIPE_MAC + b"," * 10, 0, False),
        (b"t=1492774577,v0=" + STRIPE_MAC, 0, False),
        (b"t=1492774578,v1=" + STRIPE_MAC, 0, False),
        (b"t=1492774577,t=1492774577,v1=" + STRIPE_MAC, 0, False),
        (b"v1=" + STRIPE_MAC, 0, False),
        (b"t=,v1=" + STRIPE_MAC, 0, False),
        (b"t=1492774577", 0, False),
        (b",,==\xff", 0, False),
        (b"", 0, False),
    ],
)
def test_a_signature_of_stripe_is_known(given: bytes, late: int, is_right: bool) -> None:
    now = STRIPE_TIME + timedelta(seconds=late)
    found = proof_in(request([(b"stripe-signature", given)], STRIPE_BODY), STRIPE_SECRET, ALL, now)
    assert (found is WebhookAuth.STRIPE) is is_right


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (b"Bearer s\xc3\xa9cret \xff", True),
        (b"bearer  s\xc3\xa9cret \xff ", True),
        (b"Bearer s\xc3\xa9cret", False),
        (b"Bearer", False),
        (b"Bearer ", False),
        (b"Token s\xc3\xa9cret \xff", False),
        (b"s\xc3\xa9cret \xff", False),
    ],
)
def test_the_bare_secret_is_known_in_any_bytes(given: bytes, is_right: bool) -> None:
    secret = b"s\xc3\xa9cret \xff"
    found = proof_in(request([(b"authorization", given)]), secret, ALL, STRIPE_TIME)
    assert (found is WebhookAuth.BEARER) is is_right


def test_a_signature_goes_before_the_bare_secret() -> None:
    pairs = [
        (b"authorization", b"Bearer " + GITHUB_SECRET),
        (b"x-hub-signature-256", b"sha256=" + GITHUB_MAC),
    ]
    both = request(pairs, GITHUB_BODY)
    assert proof_in(both, GITHUB_SECRET, ALL, STRIPE_TIME) is WebhookAuth.GITHUB


GITHUB_PAIR = (b"x-hub-signature-256", b"sha256=" + GITHUB_MAC)
BEARER_PAIR = (b"authorization", b"Bearer " + GITHUB_SECRET)


@pytest.mark.parametrize(
    ("pairs", "is_right"),
    [
        ([GITHUB_PAIR, (b"x", b"x" * (LARGEST_HEAD - 200))], True),
        ([GITHUB_PAIR, (b"x", b"x" * LARGEST_HEAD)], False),
        ([GITHUB_PAIR, *[(b"x", b"")] * (LARGEST_HEAD // 5)], False),
        ([GITHUB_PAIR, GITHUB_PAIR], False),
        ([GITHUB_PAIR, (b"x-hub-signature-256", b"")], False),
        ([GITHUB_PAIR, (b"stripe-signature", b"t=1,v1=00")], False),
        ([GITHUB_PAIR, (b"webhook-signature", b"v1,AAAA")], False),
        ([BEARER_PAIR], True),
        ([BEARER_PAIR, (b"x", b"x" * LARGEST_HEAD)], False),
        ([BEARER_PAIR, BEARER_PAIR], False),
        ([(b"authorization", b"Basic x"), BEARER_PAIR], False),
        ([BEARER_PAIR, GITHUB_PAIR, BEARER_PAIR], False),
    ],
)
def test_a_head_that_is_too_large_or_repeats_a_proof_claims_nothing(
    pairs: Pairs, is_right: bool
) -> None:
    sent = request(pairs, GITHUB_BODY)
    assert bool(claimed_ways(sent, STRIPE_TIME)) is is_right
    assert (proof_in(sent, GITHUB_SECRET, ALL, STRIPE_TIME) is not None) is is_right


secrets = st.binary(min_size=1, max_size=40)


@given(st.sampled_from(WebhookAuth), secrets, st.binary(max_size=50), st.integers(-300, 300))
def test_what_we_sign_is_proven_by_that_way_alone(
    way: WebhookAuth, secret: bytes, body: bytes, late: int
) -> None:
    secret = secret.strip() or b"x"
    now = STANDARD_TIME
    headers = signed_headers(way, secret, body, now, "call-1")
    pairs = [
        (name.lower().encode(), value.encode("utf-8", "surrogateescape"))
        for name, value in headers.items()
    ]
    sent = request(pairs, body)
    then = now + timedelta(seconds=late)
    assert proof_in(sent, secret, [way], then) is way
    assert proof_in(sent, secret, [each for each in ALL if each is not way], then) is None
    assert proof_in(sent, secret + b"x", ALL, then) is None


@given(
    st.sampled_from(WebhookAuth),
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"authorization",
                    b"x-hub-signature-256",
                    b"webhook-id",
                    b"webhook-timestamp",
                    b"webhook-signature",
                    b"stripe-signature",
                    b"idempotency-key",
                ]
            ),
            st.binary(max_size=60),
        ),
        max_size=6,
    ),
    st.binary(max_size=20),
)
def test_no_bytes_break_the_check_or_pass_it(way: WebhookAuth, pairs: Pairs, body: bytes) -> None:
    sent = request(pairs, body)
    assert proof_in(sent, b"a secret that no one guesses", ALL, STRIPE_TIME) is None
    name = call_name(way, sent, {"id": body.decode("latin-1")})
    assert name is None or (0 < len(name) <= 64 and name.isascii() and ":" not in name)


def test_the_same_call_is_known_by_what_was_signed() -> None:
    def name(way: WebhookAuth, pairs: Pairs, body: bytes, data: dict[str, object]) -> str | None:
        return call_name(way, request(pairs, body), data)

    event: dict[str, object] = {"id": "evt_1"}
    assert name(WebhookAuth.STANDARD, [(b"webhook-id", b"msg_1")], b"a", event) == "msg_1"
    assert name(WebhookAuth.STRIPE, [], b"a", event) == "evt_1"
    by_body = name(WebhookAuth.GITHUB, [(b"x-github-delivery", b"1")], b"a", event)
    assert by_body == name(WebhookAuth.GITHUB, [(b"x-github-delivery", b"2")], b"a", {})
    assert by_body != name(WebhookAuth.GITHUB, [], b"b", event)
    # An event of Stripe without an id is known by its body.
    assert name(WebhookAuth.STRIPE, [], b"a", {"id": 5}) == by_body
    assert name(WebhookAuth.BEARER, [(b"idempotency-key", b"k-1")], b"a", event) == "k-1"
    assert name(WebhookAuth.BEARER, [(b"webhook-id", b"msg_1")], b"a", event) is None

"""Every answer of the webhook server, asked from outside."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.memory import RecordingStore
from tests.features.webhooks.calls import HookAnswer, bearer, github, raw, standard, stripe
from tests.features.webhooks.scene import DATA, NOW, SECRET, HookScene, hook, new_scene, serving
from tests.stores import memory_stores, on_store

from ollim_bot.features.webhooks.hook_requests import LARGEST_BODY
from ollim_bot.features.webhooks.reception import CallAcceptor, WebhookReception
from ollim_bot.kernel.store.database_errors import DiskFull
from ollim_bot.kernel.store.transaction import Step

R = TypeVar("R")

AT = NOW.timestamp()
REFUSED = (401, {"error": "unauthorized"})
NOT_FOUND = (404, {"error": "not found"})
EVENT = {"id": "evt_1", "type": "invoice.paid", "title": "x"}


def said(answer: HookAnswer) -> tuple[int, object]:
    return answer.status, answer.body


async def test_a_call_is_on_disk_when_it_is_answered(scene: HookScene) -> None:
    answer = await scene.call()
    run = answer.body["run"]
    assert said(answer) == (202, {"status": "accepted", "run": run})
    assert scene.accepted == [(run, DATA)]
    assert run.startswith("webhook:rain:")
    assert (await scene.call()).body["run"] != run


@pytest.mark.same_fixtures
@pytest.mark.parametrize("hook_id", ["rain", "no-such-hook", "%ff%00", "..", "own"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {
            "Authorization": "Bearer \udcff\udcfe".encode("utf-8", "surrogateescape").decode(
                "latin-1"
            )
        },
        {**github("wrong", DATA)},
        {**standard(b"wrong", DATA, AT)},
        {**standard(SECRET.encode(), DATA, AT - 301)},
        {**stripe("wrong", DATA, AT)},
    ],
)
async def test_without_the_secret_the_answer_is_the_same_for_every_id(
    scene: HookScene, hook_id: str, headers: dict[str, str]
) -> None:
    scene.add(hook("own", secret_env="OWN_SECRET"))
    answer = await scene.call(hook_id, headers=headers)
    assert said(answer) == REFUSED
    assert scene.accepted == []


@pytest.mark.parametrize(
    "headers",
    [
        bearer(SECRET),
        {"authorization": f"bEARER   {SECRET} "},
        github(SECRET, DATA),
        standard(SECRET.encode(), DATA, AT),
        standard(SECRET.encode(), DATA, AT - 299),
        stripe(SECRET, DATA, AT + 299),
    ],
)
async def test_each_way_with_the_secret_opens_the_hook(
    scene: HookScene, headers: dict[str, str]
) -> None:
    assert (await scene.call(headers=headers)).status == 202
    assert said(await scene.call("no-such-hook", headers=headers)) == NOT_FOUND


async def test_a_hook_with_its_own_secret_opens_to_no_other(scene: HookScene) -> None:
    scene.add(hook("own", secret_env="OWN_SECRET"), hook("unset", secret_env="UNSET_SECRET"))
    scene.secrets["OWN_SECRET"] = b"own"
    assert said(await scene.call("own")) == REFUSED
    assert (await scene.call("own", headers=bearer("own"))).status == 202
    assert (await scene.call("own", headers=github("own", DATA))).status == 202
    assert said(await scene.call("rain", headers=bearer("own"))) == REFUSED
    for secret in (SECRET, "own", ""):
        assert said(await scene.call("unset", headers=bearer(secret))) == REFUSED


async def test_a_hook_accepts_only_the_ways_that_it_names(scene: HookScene) -> None:
    scene.add(hook("some", auth=["github", "stripe"]))
    assert said(await scene.call("some")) == REFUSED
    refused = standard(SECRET.encode(), DATA, AT)
    assert said(await scene.call("some", headers=refused)) == REFUSED
    assert (await scene.call("some", headers=github(SECRET, DATA))).status == 202
    assert (await scene.call("some", headers=stripe(SECRET, DATA, AT))).status == 202
    assert (await scene.call("some", headers={**bearer(SECRET), **github("x", DATA)})).status == 401


async def test_a_disabled_hook_is_closed_and_an_edited_one_changes_at_once(
    scene: HookScene,
) -> None:
    scene.add(hook(enabled=False))
    assert said(await scene.call()) == (404, {"error": "disabled"})
    assert said(await scene.call(headers=bearer("wrong"))) == REFUSED
    other = {"type": "object", "properties": {"degrees": {"type": "integer"}}}
    scene.add(hook(fields=other))
    assert (await scene.call()).status == 400
    assert (await scene.call(data={"degrees": 5})).status == 202
    scene.hooks.clear()
    assert said(await scene.call(data={"degrees": 5})) == NOT_FOUND


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'{"title": "x"}'.ljust(LARGEST_BODY), 202),
        (b'{"title": "x"}'.ljust(LARGEST_BODY + 1), 413),
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"title": "\xff"}', 400),
        (b'{"title": NaN}', 400),
        (b"[" * 200_000, 400),
        (b'{"title": 1' + b"0" * 5000 + b"}", 400),
    ],
)
@pytest.mark.parametrize("way", ["bearer", "github"])
async def test_a_body_that_is_too_large_or_no_object_is_refused(
    scene: HookScene, data: bytes, status: int, way: str
) -> None:
    headers = bearer(SECRET) if way == "bearer" else github(SECRET, data)
    answer = await scene.call(data=data, headers=headers)
    assert answer.status == status
    if status == 400:
        assert answer.body == {"error": "invalid json"}
    assert len(scene.accepted) == (status == 202)


async def test_the_order_of_the_answers_is_that_of_the_table(scene: HookScene) -> None:
    huge = b" " * (LARGEST_BODY + 1)
    scene.add(hook("picky", on=["wanted"]))
    assert said(await scene.call(data=huge, headers=bearer("wrong"))) == REFUSED
    assert said(await scene.call("no-such-hook", data=huge)) == NOT_FOUND
    assert said(await scene.call("picky", data=b"{")) == (400, {"error": "invalid json"})
    assert said(await scene.call("picky", data={"wrong": 1})) == (200, {"status": "ignored"})
    await scene.configure(webhook_per_minute=1)
    assert (await scene.call(data=DATA)).status == 202
    assert (await scene.call(data={"wrong": 1})).status == 400
    assert (await scene.call(data=DATA)).status == 429


async def test_only_events_that_are_named_count(scene: HookScene) -> None:
    open_schema = {"type": "object", "additionalProperties": True}
    scene.add(hook("some", on=["issues.opened"], fields=open_schema))
    for action, status in (("opened", "accepted"), ("edited", "ignored")):
        data = {"action": action}
        answer = await scene.call("some", data, github(SECRET, data, "issues"))
        assert answer.body["status"] == status
    assert len(scene.accepted) == 1


async def test_only_picked_fields_are_kept(scene: HookScene) -> None:
    scene.add(hook("issue", pick={"title": "/issue/labels/1/na~1me"}))
    big = {"issue": {"labels": [{}, {"na/me": "bug"}], "text": "x" * 50_000}, "secret": "s"}
    answer = await scene.call("issue", big)
    assert scene.accepted == [(answer.body["run"], {"title": "bug"})]
    missing = await scene.call("issue", {"issue": {"labels": "none"}})
    assert said(missing) == (400, {"error": "validation failed", "details": ["/title: is missing"]})


async def test_every_problem_is_told_with_its_path(scene: HookScene) -> None:
    schema = {
        "type": "object",
        "required": ["title", "kind"],
        "properties": {
            "title": {"type": "string"},
            "kind": {"enum": ["a", "b"]},
            "labels": {"type": "array", "items": {"type": ["string", "null"]}},
            "at": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
            "n": {"type": "number", "maximum": 5},
        },
    }
    scene.add(hook("strict", fields=schema))
    wrong = {"title": "x" * 501, "labels": ["a", 3], "at": {"y/z": 1}, "n": 6, "more": None}
    answer = await scene.call("strict", wrong)
    assert answer.status == 400
    assert answer.body["error"] == "validation failed"
    assert sorted(answer.body["details"]) == [
        "/at/x: is missing",
        "/at/y~1z: is not one of the fields",
        "/kind: is missing",
        "/labels/1: is not of the type string or null",
        "/more: is not one of the fields",
        "/n: 6 is greater than the maximum of 5",
        "/title: is longer than 500 characters",
    ]
    for large in (10**30, 1e300, b'{"title": "x", "kind": "a", "n": 1e999}'):
        data = large if isinstance(large, bytes) else {"title": "x", "kind": "a", "n": large}
        assert (await scene.call("strict", data)).body["details"] == ["/n: is too large a number"]
    many = await scene.call("strict", {"title": "x", "kind": "a", "labels": [1] * 2000})
    assert len(many.body["details"]) == 101


@pytest.mark.parametrize("depth", [20, 21, 400, 900])
async def test_data_that_is_nested_too_deeply_is_refused(scene: HookScene, depth: int) -> None:
    scene.add(hook("any", fields={"type": "object", "properties": {"title": True}}))
    nested = b'{"title": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    answer = await scene.call("any", nested)
    assert answer.status == (202 if depth == 20 else 400)
    if depth > 20:
        assert answer.body["details"] == ["/: is nested more than 20 deep"]
    scene.add(hook("some", pick={"title": "/title"}))
    assert (await scene.call("some", nested)).status == 400


async def test_more_than_ten_kilobytes_of_fields_are_refused(scene: HookScene) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 99999}}}
    scene.add(hook("long", fields=schema))
    room = 10 * 1024 - len('{"title":""}')
    assert (await scene.call("long", {"title": "x" * room})).status == 202
    answer = await scene.call("long", {"title": "x" * (room + 1)})
    assert said(answer) == (
        400,
        {
            "error": "validation failed",
            "details": ["/: has 10241 bytes; at most 10240 are allowed"],
        },
    )


async def test_too_many_calls_are_told_when_to_come_again(scene: HookScene) -> None:
    scene.add(hook("other"))
    await scene.configure(webhook_per_minute=2, webhook_total_per_minute=3)
    assert (await scene.call()).status == 202
    await scene.clock.advance(20)
    assert (await scene.call()).status == 202
    refused = await scene.call()
    assert said(refused) == (429, {"error": "too many requests"})
    assert refused.headers["Retry-After"] == "40"
    assert (await scene.call("other")).status == 202
    assert (await scene.call("other")).headers["Retry-After"] == "40"
    assert len(scene.accepted) == 3
    await scene.clock.advance(40)
    assert (await scene.call()).status == 202
    assert (await scene.call()).status == 429


async def test_calls_without_the_secret_use_up_no_limit(scene: HookScene) -> None:
    await scene.configure(webhook_per_minute=1)
    for _ in range(5):
        assert said(await scene.call(headers=bearer("wrong"))) == REFUSED
    assert (await scene.call()).status == 202


async def test_the_same_call_again_names_the_first_run(scene: HookScene) -> None:
    scene.add(
        hook("other"), hook("events", fields={"type": "object", "additionalProperties": True})
    )
    changed = {"title": "changed"}
    first = await scene.call(headers=bearer(SECRET, "key 1"))
    again = await scene.call(data=changed, headers=bearer(SECRET, "key 1"))
    assert said(again) == (200, {"status": "duplicate", "run": first.body["run"]})
    assert (await scene.call(headers=bearer(SECRET, "key 2"))).status == 202
    assert (await scene.call("other", headers=bearer(SECRET, "key 1"))).status == 202

    first = await scene.call(headers=standard(SECRET.encode(), DATA, AT))
    assert first.body["run"] == "webhook:rain:msg_1"
    again = await scene.call(data=changed, headers=standard(SECRET.encode(), changed, AT + 9))
    assert again.body == {"status": "duplicate", "run": "webhook:rain:msg_1"}
    assert (await scene.call(headers=standard(SECRET.encode(), DATA, AT, "msg_2"))).status == 202

    first = await scene.call("events", EVENT, stripe(SECRET, EVENT, AT))
    assert first.body["run"] == "webhook:events:evt_1"
    again = await scene.call("events", EVENT, stripe(SECRET, EVENT, AT + 60))
    assert again.body["status"] == "duplicate"

    first = await scene.call(headers={**github(SECRET, DATA), "X-GitHub-Delivery": "1"})
    again = await scene.call(headers={**github(SECRET, DATA), "X-GitHub-Delivery": "2"})
    assert again.body == {"status": "duplicate", "run": first.body["run"]}
    assert (await scene.call(data=changed, headers=github(SECRET, changed))).status == 202


class FullDiskRecordingStore(RecordingStore):
    """Refuses every commit while `is_full`; not writable, but without errors, while `is_low`."""

    is_full = False
    is_low = False

    @property
    def is_writable(self) -> bool:
        return not self.is_low

    def run(self, step: Step[R]) -> R:
        if self.is_full:
            raise DiskFull(Path("state/ollim.db"))
        return super().run(step)


async def test_on_a_full_disk_nothing_is_kept_and_the_sender_is_told_to_come_again() -> None:
    scene = new_scene()
    store = FullDiskRecordingStore(scene.clock.now)
    scene.stores = on_store(scene.stores, store)
    async with serving(scene):
        store.is_full = True
        headers = bearer(SECRET, "key")
        refused = await scene.call(headers=headers)
        assert said(refused) == (503, {"error": "cannot be stored now"})
        assert int(refused.headers["Retry-After"]) > 0
        assert scene.accepted == []
        store.is_full, store.is_low = False, True
        assert said(await scene.call(headers=headers)) == said(refused)
        assert scene.accepted == []
        store.is_low = False
        assert (await scene.call(headers=headers)).status == 202


async def test_calls_at_the_same_time_each_get_their_own_answer(scene: HookScene) -> None:
    keys = [f"key-{number % 20}" for number in range(40)]
    answers = await asyncio.gather(*(scene.call(headers=bearer(SECRET, key)) for key in keys))
    runs = {answer.body["run"] for answer in answers}
    assert runs == {f"webhook:rain:{key}" for key in keys}
    assert sorted(answer.status for answer in answers) == [200] * 20 + [202] * 20
    assert len(scene.accepted) == 20


async def test_half_a_surrogate_pair_and_strange_names_are_kept_as_text(scene: HookScene) -> None:
    answer = await scene.call(data=b'{"title": "a\\ud800b \\ud83d\\ude00 \\u0000"}')
    assert answer.status == 202
    assert scene.accepted[0][1] == {"title": "a\ufffdb \U0001f600 \0"}
    key = "webhook:rain:x:manual \\ \xff" * 50
    first = await scene.call(headers=bearer(SECRET, key))
    assert first.status == 202
    assert (await scene.call(headers=bearer(SECRET, key))).body["run"] == first.body["run"]
    assert len(first.body["run"]) < 100


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_refused_for_every_id(scene: HookScene, method: str) -> None:
    for hook_id in ("rain", "no-such-hook"):
        assert (await scene.call(hook_id, method=method)).status == 405


class HashCount:
    """Counts hashes and comparisons, which take most of the time of a refusal."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> HashCount:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, _: FrameType, event: str, called: object) -> None:
        name = getattr(called, "__name__", "")
        if event == "c_call" and name in ("openssl_sha256", "hmac_new", "update", "compare_digest"):
            self.calls[name] += 1


@pytest.mark.parametrize(
    "headers",
    [bearer("wrong"), github("wrong", DATA), standard(b"wrong", DATA, AT), stripe("x", DATA, AT)],
)
async def test_a_refusal_takes_the_same_work_whether_the_hook_exists_or_not(
    headers: dict[str, str],
) -> None:
    hooks = {
        "open": hook("open"),
        "own": hook("own", secret_env="OWN_SECRET"),
        "unset": hook("unset", secret_env="UNSET_SECRET"),
        "bearer": hook("bearer", auth="bearer"),
        "github": hook("github", auth="github"),
        "paused": hook("paused", enabled=False),
    }
    secrets = {None: SECRET.encode(), "OWN_SECRET": b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    store = memory_stores(NOW).state
    reception = WebhookReception(hooks.get, secrets.get, CallAcceptor(store), ManualClock(NOW))
    raw_headers = {name.lower().encode(): [value.encode()] for name, value in headers.items()}

    async def read() -> bytes:
        return raw(DATA)

    work = []
    for hook_id in ("no-such-hook", *hooks):
        with HashCount() as count:
            answer = await reception.answer(hook_id, raw_headers, read, lambda: None)
        assert answer.status == 401
        work.append(count.calls)
    assert work[0].total() > 0
    assert all(each == work[0] for each in work)


WORDS = b"v1,AAAA " * 1000


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("headers", "is_read"),
    [
        ({b"webhook-signature": [b" ".join([b"v1,AAAA"] * 10)]}, True),
        ({b"webhook-signature": [WORDS]}, False),
        ({b"stripe-signature": [b"t=%d" % AT + b",v1=00" * 10]}, True),
        ({b"stripe-signature": [b"t=%d" % AT + b",v1=00" * 1000]}, False),
        ({b"x-hub-signature-256": [b"sha256=00" * 800]}, True),
        ({b"x-%d" % number: [b"x" * 100] for number in range(1000)}, False),
    ],
)
@pytest.mark.parametrize("hook_id", ["rain", "no-such-hook"])
async def test_whatever_a_head_holds_its_refusal_takes_a_handful_of_hashes(
    hook_id: str, headers: dict[bytes, list[bytes]], is_read: bool
) -> None:
    scene, reads = new_scene(), []
    calls = CallAcceptor(scene.stores.state)
    reception = WebhookReception(scene.hooks.get, scene.secrets.get, calls, scene.clock)

    async def read() -> bytes:
        reads.append(hook_id)
        return raw(DATA)

    timed = {b"webhook-id": [b"a"], b"webhook-timestamp": [b"%d" % AT], **headers}
    with HashCount() as count:
        answer = await reception.answer(hook_id, timed, read, lambda: None)
    assert answer.status == 401
    # The body is hashed with two keys, and ten signatures are compared with each result.
    assert count.calls["hmac_new"] + count.calls["openssl_sha256"] <= 2
    assert count.calls["compare_digest"] <= 20
    assert bool(reads) is is_read

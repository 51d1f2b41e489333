"""The client of the phone's server says what certainly happened there, and what may have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from threading import Thread
from typing import Any

import pytest
from devtools.localdiscord.faults import AnswerLost, Dropped
from devtools.localntfy.phone import Phone
from devtools.localntfy.protocol import RawAnswer, Refusal
from devtools.localntfy.server import LocalNtfy

from ollim_bot.features.phone.ntfy_client import (
    LinkButton,
    NotLetIn,
    NtfyClient,
    Push,
    ReplyButton,
    TooMany,
)
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.base.http_exchange import HttpLimits
from ollim_bot.kernel.base.settings import Secret

LIMITS = HttpLimits(step=10.0, whole=10.0, largest=20_000)
CARD = Push("out", "seq1", "Wäter", "Drink „now“?", 4, ("warning",))


@pytest.fixture
async def ntfy() -> AsyncIterator[LocalNtfy]:
    async with LocalNtfy() as ntfy:
        yield ntfy


def client(ntfy: LocalNtfy, token: str = "") -> NtfyClient:
    return NtfyClient(ntfy.url, Secret(token) if token else None, limits=LIMITS)


async def test_a_push_is_published_replaced_read_back_and_cleared(ntfy: LocalNtfy) -> None:
    ours = client(ntfy)
    buttons = (
        ReplyButton("Done", "reply", "n1", Secret("tk_reply")),
        LinkButton("Open", "https://bot.example/"),
    )
    async with Phone(ntfy.url, "out") as phone:
        first = await asyncio.to_thread(ours.publish, CARD)
        again = Push("out", "seq1", "", "Drink?", buttons=buttons)
        second = await asyncio.to_thread(ours.publish, again)
        await phone.shows("Drink?")
        (shown,) = phone.shown
        assert shown.labels == ["Done", "Open"]
        done = shown.action("Done")
        assert (done["url"], done["method"], done["body"]) == (f"{ntfy.url}/reply", "POST", "n1")
        assert done["headers"] == {"Authorization": "Bearer tk_reply"}
        assert done["clear"]
        events = await asyncio.to_thread(ours.read, "out")
        after = await asyncio.to_thread(ours.read, "out", first)
        await asyncio.to_thread(ours.clear, "out", "seq1")
        await phone.shows()
    assert [(each.id, each.sequence, each.text) for each in events] == [
        (first, "seq1", "Drink „now“?"),
        (second, "seq1", "Drink?"),
    ]
    assert [each.id for each in after] == [second]
    assert "Wäter".encode() in ntfy.named("POST /")[0].body


async def test_each_failure_says_whether_the_push_may_have_arrived(ntfy: LocalNtfy) -> None:
    ours = client(ntfy)

    async def failing(fault: Any, call: Callable[[], object]) -> Exception:
        ntfy.next_fail("*", fault)
        with pytest.raises((Unreachable, DeliveryFailed, DeliveryUncertain)) as raised:
            await asyncio.to_thread(call)
        return raised.value

    wrong = []
    for fault, published, read in (
        (AnswerLost(), DeliveryUncertain, Unreachable),
        (Dropped(), DeliveryUncertain, Unreachable),
        (Refusal(500), DeliveryUncertain, Unreachable),
        (Refusal(401), NotLetIn, NotLetIn),
        (Refusal(403), NotLetIn, NotLetIn),
        (Refusal(404), Unreachable, Unreachable),
        (Refusal(413), DeliveryFailed, Unreachable),
        (RawAnswer(b"", 302, {"Location": "http://127.0.0.1:1/"}), Unreachable, Unreachable),
        (Refusal(429, 42901, 7.0), TooMany, TooMany),
        (RawAnswer(b"<html>"), DeliveryUncertain, None),
        (RawAnswer(b"x" * 30_000), DeliveryUncertain, DeliveryUncertain),
    ):
        found = type(await failing(fault, lambda: ours.publish(CARD)))
        if found is not published:
            wrong.append((fault, found))
        if read is not None and (found := type(await failing(fault, lambda: ours.read("out")))):
            wrong += [(fault, found)] if found is not read else []
    assert wrong == []
    timed = await failing(Refusal(429, 42901, 7.0), lambda: ours.publish(CARD))
    daily = await failing(Refusal(429, 42908), lambda: ours.publish(CARD))
    assert isinstance(timed, TooMany)
    assert isinstance(daily, TooMany)
    assert (timed.wait, timed.is_of_day) == (7.0, False)
    assert (daily.wait, daily.is_of_day) == (None, True)
    await ntfy.refuse_connections()
    assert type(await failing(200, lambda: ours.publish(CARD))) is Unreachable


async def test_a_topic_is_followed_until_it_breaks_or_is_closed(ntfy: LocalNtfy) -> None:
    ntfy.access.close_to_strangers()
    token = ntfy.access.new_token()
    ours = client(ntfy, token)
    stranger = client(ntfy)
    with pytest.raises(NotLetIn):
        await asyncio.to_thread(next, stranger.follow(stranger.stream(), "reply", "all"))
    ntfy.write("reply", "before")
    stream = ours.stream()
    seen: list[str] = []
    ended: list[Exception | None] = []

    def read() -> None:
        try:
            events = ours.follow(stream, "reply", "all")
            seen.extend(each.text for each in events if each.kind == "message")
            ended.append(None)
        except Unreachable as broken:
            ended.append(broken)

    reading = Thread(target=read)
    reading.start()
    await ntfy.followed("reply")
    ntfy.write("reply", "x" * 70_000)
    ntfy.write("reply", "after")
    await asyncio.sleep(1)
    stream.close()
    reading.join(10)
    assert (seen, ended, stream.dropped) == (["before", "after"], [None], 1)
    assert token not in repr(vars(ours))

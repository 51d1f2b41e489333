"""A phone is paired only with a server that holds its promises, and only by its own press."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy

from ollim_bot.features.phone.pairing import (
    PairingAttempt,
    ReplyTokenNeeded,
    ServerRefused,
    TokenNeeded,
    new_topics,
)
from ollim_bot.kernel.base.settings import NtfyAccount, Secret
from ollim_bot.kernel.values.push import Pairing

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def attempt(
    ntfy: LocalNtfy, token: str = "", reply: str = "", now: Callable[[], datetime] = lambda: NOON
) -> PairingAttempt:
    tokens = [Secret(each) if each else None for each in (token, reply)]
    return PairingAttempt(NtfyAccount(ntfy.url, *tokens), now)


async def refusal(at: PairingAttempt) -> ServerRefused:
    with pytest.raises(ServerRefused) as refused:
        await asyncio.to_thread(at.check_server)
    return refused.value


async def test_a_server_that_cannot_hold_what_is_promised_is_refused_with_the_reason() -> None:
    async with LocalNtfy(version=(2, 15)) as old:
        assert "too old" in str(await refusal(attempt(old)))
    async with LocalNtfy(keep_seconds=0.0) as forgetful:
        assert "keeps no messages" in str(await refusal(attempt(forgetful)))
    async with LocalNtfy() as gone:
        await gone.refuse_connections()
        assert "cannot be reached" in str(await refusal(attempt(gone)))
    async with LocalNtfy() as closed:
        closed.access.close_to_strangers()
        token = closed.access.new_token()
        assert isinstance(await refusal(attempt(closed)), TokenNeeded)
        assert isinstance(await refusal(attempt(closed, "tk_wrong")), TokenNeeded)
        assert isinstance(await refusal(attempt(closed, token)), ReplyTokenNeeded)
        same = await refusal(attempt(closed, token, token))
        assert "NTFY_REPLY_TOKEN is the same" in str(same)
        blind = closed.access.new_limited_token({"*": "write"})
        assert isinstance(await refusal(attempt(closed, blind, token)), TokenNeeded)


async def test_a_reply_token_may_only_write() -> None:
    async with LocalNtfy() as ntfy:
        ntfy.access.close_to_strangers()
        token = ntfy.access.new_token()
        writing = ntfy.access.new_limited_token({"ollim-reply-*": "write"})
        both = ntfy.access.new_limited_token({"ollim-reply-*": "read-write"})
        assert await asyncio.to_thread(attempt(ntfy, token, writing).check_server) == ()
        (warning,) = await asyncio.to_thread(attempt(ntfy, token, both).check_server)
        assert "NTFY_REPLY_TOKEN may also read" in warning


async def test_only_the_press_of_the_button_pairs_and_its_token_is_never_in_a_message() -> None:
    async with LocalNtfy() as ntfy:
        ntfy.access.close_to_strangers()
        token = ntfy.access.new_token()
        writing = ntfy.access.new_limited_token({"ollim-reply-*": "write"})
        at = attempt(ntfy, token, writing)
        async with Phone(ntfy.url, at.topic, token=token) as phone:
            await asyncio.to_thread(at.check_server)
            await phone.shows()
            await asyncio.to_thread(at.send_test)
            waiting = asyncio.create_task(asyncio.to_thread(at.wait_for_press, Event()))
            for wrong in ("", "check", "It reaches me", "0" * 32, "ü"):
                ntfy.write(at.reply_topic, wrong)
            await phone.until(lambda: phone.shown)
            (test,) = phone.shown
            assert await phone.press(test, test.labels[0]) == 200
            found = await waiting
    assert found == Pairing(at.server, at.topic, at.reply_topic, NOON)
    assert len({at.topic[6:], at.reply_topic[12:], *new_topics()}) == 4
    bodies = b"".join(each.body for each in ntfy.requests)
    assert token.encode() not in bodies
    assert writing.encode() in bodies
    assert at.subscribe_address == f"ntfy://{at.server[7:]}/{at.topic}?secure=false"
    assert at.topic not in repr(found)


async def test_without_a_press_nothing_is_paired_after_ten_minutes() -> None:
    moments = [NOON]
    left: list[timedelta] = []

    def on_wait(time_left: timedelta) -> None:
        left.append(time_left)
        moments.append(moments[-1] + timedelta(minutes=4))

    async with LocalNtfy() as ntfy:
        at = attempt(ntfy, now=lambda: moments[-1])
        await asyncio.to_thread(at.send_test)
        for wrong in ("check", "It reaches me", "0" * 32, at.reply_topic):
            ntfy.write(at.reply_topic, wrong)
        assert await asyncio.to_thread(at.wait_for_press, Event(), on_wait) is None
        assert [each.total_seconds() / 60 for each in left] == [10, 6, 2]
        await asyncio.to_thread(at.send_test)
        cancelled = Event()
        cancelled.set()
        assert await asyncio.to_thread(at.wait_for_press, cancelled) is None

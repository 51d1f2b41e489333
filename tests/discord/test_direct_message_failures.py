"""What is known when a call to Discord fails: that it was done, that it was not, or neither."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord
from discord.http import Route
from tests.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.surfaces.discord.errors import reading, writing
from ollim_bot.surfaces.discord.rendering import HistoryHidden, OutgoingMessage

NONCE = "a" * 24
SEND, EDIT, READ = "POST /channels/*/messages", "PATCH /channels/*", "GET /channels/*/messages"


@pytest.fixture
async def scene() -> AsyncIterator[ConnectionScene]:
    async with connection_scene(LocalDiscord()) as made, made.served():
        yield made


REFUSALS = [
    (400, DeliveryFailed),
    (401, Unreachable),
    (403, DeliveryFailed),
    (404, DeliveryFailed),
    (413, DeliveryFailed),
    (503, DeliveryUncertain),
    (ErrorResponse(429, after=100.0), Unreachable),
    (Dropped(), DeliveryUncertain),
    (AnswerLost(), DeliveryUncertain),
]


@pytest.mark.parametrize(("fault", "error"), REFUSALS)
async def test_a_failure_to_send_or_edit_says_what_is_certain(
    scene: ConnectionScene, fault: Fault | int, error: type[OllimError]
) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), "b" * 24)
    scene.local.next_fail(SEND, fault)
    scene.local.next_fail(EDIT, fault)
    with pytest.raises(error):
        await scene.dm.send(OutgoingMessage("Hello."), NONCE)
    with pytest.raises(error):
        await scene.dm.edit(ref, OutgoingMessage("After."))


@pytest.mark.parametrize("fault", [400, 401, 403, 404, 503, ErrorResponse(429, after=100.0)])
async def test_what_cannot_be_read_is_out_of_reach(
    scene: ConnectionScene, fault: Fault | int
) -> None:
    ref = scene.local.say("hello")
    scene.local.next_fail(READ, fault, times=None)
    with pytest.raises(Unreachable) as silent:
        await scene.dm.newest(5)
    assert isinstance(silent.value, HistoryHidden) == (fault in (400, 403, 404))
    with pytest.raises(Unreachable):
        await scene.dm.after(ref)


async def test_a_read_that_breaks_off_is_out_of_reach(scene: ConnectionScene) -> None:
    scene.local.next_fail(READ, Dropped(), times=None)
    with pytest.raises(Unreachable):
        await scene.dm.newest(5)


async def test_what_never_got_through_was_not_sent_for_certain(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), "b" * 24)
    with socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))
        Route.BASE = f"http://127.0.0.1:{closed_port.getsockname()[1]}/api/v10"
        with pytest.raises(Unreachable):
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        with pytest.raises(Unreachable):
            await scene.dm.edit(ref, OutgoingMessage("After."))


async def test_what_failed_in_an_unknown_way_before_it_was_refused_may_have_arrived(
    scene: ConnectionScene,
) -> None:
    scene.local.next_fail(SEND, 502)
    scene.local.next_fail(SEND, 403)
    with pytest.raises(DeliveryUncertain):
        await scene.dm.send(OutgoingMessage("Hello."), NONCE)


async def test_a_refusal_says_why(scene: ConnectionScene) -> None:
    with pytest.raises(DeliveryFailed, match=r"^Discord refused it: In content: .*2000"):
        await scene.dm.send(OutgoingMessage("x" * 2001), NONCE)


async def test_before_the_login_and_after_the_end_nothing_can_be_reached() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        with pytest.raises(Unreachable):
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        async with scene.served():
            await scene.dm.send(OutgoingMessage("Hello."), NONCE)
        with pytest.raises(Unreachable):
            await scene.dm.newest(5)


async def test_a_client_that_was_closed_can_send_nothing() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        async with scene.served():
            session = scene.connection.session
        late = scene.channel(lambda: session)
        with pytest.raises(Unreachable):
            await late.send(OutgoingMessage("Hello."), NONCE)
        with pytest.raises(Unreachable):
            await late.newest(5)


async def test_a_call_under_way_when_the_connection_ends_does_not_hang() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        async with scene.served():
            scene.local.next_fail(SEND, AnswerHanging())
            sending = asyncio.create_task(scene.dm.send(OutgoingMessage("Hello."), NONCE))
            await scene.local.until(lambda: scene.local.texts)
        with pytest.raises((DeliveryUncertain, Unreachable)):
            await asyncio.wait_for(sending, 30)


async def test_an_edit_can_be_cancelled_without_harm(scene: ConnectionScene) -> None:
    ref = await scene.dm.send(OutgoingMessage("Before."), NONCE)
    scene.local.next_fail(EDIT, AnswerHanging())
    editing = asyncio.create_task(scene.dm.edit(ref, OutgoingMessage("Between.")))
    await scene.local.until(lambda: scene.local.texts == ["Between."])
    editing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(editing, 30)

    await asyncio.wait_for(scene.dm.edit(ref, OutgoingMessage("After.")), 5)
    assert scene.local.texts == ["After."]


async def test_what_takes_too_long_ends() -> None:
    with pytest.raises(DeliveryUncertain):
        async with writing(0.01):
            await asyncio.Event().wait()
    with pytest.raises(Unreachable):
        async with reading(0.01):
            await asyncio.Event().wait()


async def test_a_mistake_of_our_own_is_not_taken_for_an_outage() -> None:
    with pytest.raises(RuntimeError, match="dictionary"):
        async with writing():
            raise RuntimeError("dictionary changed size during iteration")


async def test_a_file_that_is_gone_is_said_and_nothing_sent(scene: ConnectionScene) -> None:
    gone = Attachment("a.txt", "state/attachments/a.txt", "text/plain", 3)
    with pytest.raises(DeliveryFailed, match=r"`a\.txt`"):
        await scene.dm.send(OutgoingMessage("Here.", files=(gone,)), NONCE)
    assert scene.local.said == []

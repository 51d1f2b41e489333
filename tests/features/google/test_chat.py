"""Google in the chat: `/google-auth`, the pasted redirect, and a connection that Google ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from tests.features.google.scene import Browser, GoogleScene
from tests.kernel.conversation.scene import InlineExecutor, Scene, innermost, scene, scripted
from tests.stores import Stores

from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.kernel.base.errors import SignInNeeded
from ollim_bot.kernel.values.chat import Author

CONNECTED = "Google is connected as ada@example.com: tasks, calendar and mail."
REVOKED = (
    "The connection to ada@example.com at Google was revoked or has expired. `/google-auth` "
    "connects it again; until then I cannot reach what is there."
)
LISTS = "/tasks/v1/users/@me/lists"


@pytest.fixture(autouse=True)
async def _at_once() -> None:
    """What the bot does in threads is done at once, so that time passes only where a test says."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor())


@asynccontextmanager
async def talk(google: GoogleScene, stores: Stores | None = None) -> AsyncIterator[Scene]:
    async with scene(
        scripted(),
        stores=stores,
        clock=google.clock,
        working_directory=google.paths.root,
        google=google.addresses,
    ) as at:
        at.tasks.append(asyncio.create_task(at.talk.google.run()))
        yield at


def waiting(at: Scene) -> object:
    """The notices for the owner."""
    return innermost(at.store).query(lambda tx: tx.notices.get().untold)


async def link_in(at: Scene) -> str:
    answer = await at.chat.command("web", "/google-auth")
    assert not answer.is_error
    (address,) = re.findall(r"\[Connect Google\]\((\S+)\)", answer.text)
    return str(address)


async def test_a_browser_on_this_machine_connects(
    connected: GoogleScene, caplog: pytest.LogCaptureFixture
) -> None:
    connected.tokens.forget()
    async with talk(connected) as at:
        address = await link_in(at)
        browser = Browser(["gmail.readonly"])
        with ThreadPoolExecutor(1) as other:
            loop = asyncio.get_running_loop()
            page = await loop.run_in_executor(other, browser.follow, address)
        await at.until(lambda: at.told)
        assert "it says whether Google is connected" in page
        assert at.told == [
            "Google is connected as ada@example.com: tasks and calendar. Left out: mail."
        ]
        assert at.pending == ["User connected Google: tasks and calendar."]
    connected.client().require(GoogleService.TASKS)
    kept = f"{at.log}{at.rows}{at.surface.posts}{caplog.text}"
    assert not any(secret in kept for secret in connected.google.sign_ins.secrets)


async def test_the_redirect_can_be_pasted_and_stays_hidden(scene_with_client: GoogleScene) -> None:
    google = scene_with_client
    async with talk(google) as at:
        address = Browser().open(await link_in(at))
        await at.send(address, "m1")
        assert [(each.author, each.text) for each in at.log] == [
            (Author.OWNER, "Google sign-in address (hidden)"),
            (Author.PROGRAM, CONNECTED),
        ]
        await at.send(address, "m2")
        assert at.told[-1] == "No sign-in at Google is open. `/google-auth` begins one."
    kept = f"{at.log}{at.rows}{at.surface.posts}"
    assert not any(secret in kept for secret in google.google.sign_ins.secrets)


async def test_the_newest_link_counts(scene_with_client: GoogleScene) -> None:
    async with talk(scene_with_client) as at:
        first, second = await link_in(at), await link_in(at)
        await at.send(Browser().open(first), "m1")
        assert at.told[-1].startswith("That address belongs to another sign-in.")
        await at.send(Browser().open(second), "m2")
        assert at.told[-1] == CONNECTED


async def test_declining_and_running_out_of_time_are_said(scene_with_client: GoogleScene) -> None:
    google = scene_with_client
    async with talk(google) as at:
        address = Browser(declines=True).open(await link_in(at))
        await at.send(address, "m1")
        assert at.told[-1] == (
            "Google was not connected: you declined on Google's page. `/google-auth` begins again."
        )
        await link_in(at)
        await at.until(lambda: at.clock.sleeping > 1)
        await at.clock.advance(300)
        await at.until(lambda: len(at.told) == 2)
        assert at.told[-1] == (
            "The sign-in at Google was not finished within 5 minutes. Nothing was connected. "
            "`/google-auth` begins again."
        )
    assert google.tokens.read() is None


async def test_without_a_client_the_way_to_one_is_shown(scene: GoogleScene) -> None:
    async with talk(scene) as at:
        answer = await at.chat.command("web", "/google-auth")
        assert answer.is_error
        assert answer.text.startswith("Google needs an OAuth client of your own")
        assert "\n5. Save that file as " in answer.text


async def test_a_connection_that_google_ended_is_told_once_and_heals(
    connected: GoogleScene,
) -> None:
    """A command in another process notices the lost connection, and another reconnects."""
    connected.google.sign_ins.revoke_everything()
    with pytest.raises(SignInNeeded, match="revoked"):
        connected.client().call("GET", LISTS)
    async with talk(connected) as at:
        await at.until(lambda: waiting(at))
        await at.gathered()
        await at.until(lambda: at.told)
        await at.clock.advance(120)
        assert at.told == [REVOKED]
    async with talk(connected, at.stores) as again:
        await again.clock.advance(700)
        assert again.told == [REVOKED]
        connected.connect()
        await again.clock.advance(60)
        connected.google.sign_ins.revoke_everything()
        with pytest.raises(SignInNeeded, match="revoked"):
            connected.client().call("GET", LISTS)
        await again.clock.advance(600)
        await again.until(lambda: len(again.told) == 2)
        assert again.told == [REVOKED, REVOKED]


async def test_what_is_connected_again_before_it_was_told_is_not_told(
    connected: GoogleScene,
) -> None:
    async with talk(connected) as at:
        await at.talk.notices.tell("Something else.")
        await at.gathered()
        await at.until(lambda: at.told)
        connected.google.sign_ins.revoke_everything()
        with pytest.raises(SignInNeeded, match="revoked"):
            connected.client().call("GET", LISTS)
        await at.clock.advance(60)
        await at.until(lambda: waiting(at))
        connected.connect()
        await at.clock.advance(60)
        await at.until(lambda: not waiting(at))
        await at.clock.advance(1000)
        assert at.told == ["Something else."]

"""Files of messages, fetched from Discord to the disk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from devtools.localdiscord.faults import Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import ConnectionScene, connection_scene

from ollim_bot.errors import DeliveryFailed, Unreachable, WriteFailed
from ollim_bot.surfaces.discord.rendering import RemoteFile


@pytest.fixture
async def scene() -> AsyncIterator[ConnectionScene]:
    async with connection_scene(LocalDiscord()) as made, made.served():
        yield made


async def remote(scene: ConnectionScene, content: bytes) -> RemoteFile:
    scene.local.say(files={"a.txt": content})
    (seen,) = await scene.dm.newest(1)
    return seen.files[0]


async def test_a_file_is_fetched_whole(scene: ConnectionScene, tmp_path: Path) -> None:
    content = b"abc" * 200_000
    await scene.dm.fetch(await remote(scene, content), tmp_path / "a", len(content))
    assert (tmp_path / "a").read_bytes() == content


async def test_a_file_that_is_too_large_or_gone_leaves_nothing(
    scene: ConnectionScene, tmp_path: Path
) -> None:
    file = await remote(scene, b"abc")
    with pytest.raises(DeliveryFailed, match="too large"):
        await scene.dm.fetch(file, tmp_path / "a", 2)
    scene.local.state.files.clear()
    with pytest.raises(DeliveryFailed, match="not at Discord"):
        await scene.dm.fetch(file, tmp_path / "a", 3)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fault", [Dropped(), ErrorResponse(503)])
async def test_a_file_that_cannot_be_had_now_leaves_nothing(
    scene: ConnectionScene, tmp_path: Path, fault: Fault
) -> None:
    file = await remote(scene, b"abc")
    scene.local.next_fail("GET /attachments/*", fault, times=None)
    with pytest.raises(Unreachable):
        await scene.dm.fetch(file, tmp_path / "a", 3)
    assert os.listdir(tmp_path) == []


async def test_a_disk_that_refuses_is_no_outage_of_discord(
    scene: ConnectionScene, tmp_path: Path
) -> None:
    file = await remote(scene, b"abc")
    with pytest.raises(WriteFailed):
        await scene.dm.fetch(file, tmp_path / "missing" / "a", 3)

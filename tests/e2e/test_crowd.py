"""The real bot serves its owner while strangers keep its port busy and an image takes long."""

from __future__ import annotations

import resource
import socket
from datetime import timedelta

import pytest
from tests.e2e.conftest import Scene
from tests.e2e.test_freezing import watched
from tests.e2e.test_reminders import left, remind, said
from tests.storage.attachments.pictures import many_scans

from ollim_bot.connections import allow_many_descriptors

CROWD = 1200
PICTURE = many_scans(8000)


@pytest.mark.minutes
@pytest.mark.own_process
async def test_twelve_hundred_idle_connections_cost_neither_time_nor_log(killable: Scene) -> None:
    bot = killable.bot
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_many_descriptors()
    crowd: list[socket.socket] = []
    try:
        logged = bot.output.stat().st_size
        address = ("127.0.0.1", bot.port)
        crowd.extend(socket.create_connection(address, 10) for _ in range(CROWD))
        async with watched(bot) as watch:
            moment = remind(bot, "water", 2)
            await bot.reconnect()
            await bot.say("what is this?", files={"slow.jpg": PICTURE})
            assert await bot.ask("hello")
            await bot.until(lambda: not left(bot))
        (came,) = await said(bot, "Drink water.")
        assert came - moment < timedelta(seconds=60)
        assert watch.worst < 1.0
        assert bot.output.stat().st_size - logged < 200_000
    finally:
        for each in crowd:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

"""The real bot serves its owner while a crowd of strangers holds on to its port."""

from __future__ import annotations

import resource
import socket
import time

import aiohttp
from tests.e2e.bot import Bot

from ollim_bot.connections import allow_many_descriptors

CROWD = 1200


async def test_twelve_hundred_idle_connections_cost_neither_time_nor_log(newcomer: Bot) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_many_descriptors()
    crowd: list[socket.socket] = []
    try:
        logged = newcomer.output.stat().st_size
        address = ("127.0.0.1", newcomer.port)
        crowd.extend(socket.create_connection(address, 10) for _ in range(CROWD))
        async with aiohttp.ClientSession() as http:
            began = time.perf_counter()
            async with http.get(f"{newcomer.url}/healthz") as healthy:
                assert healthy.status == 200
            assert time.perf_counter() - began < 1
        await newcomer.reconnect()
        assert await newcomer.ask("hello")
        assert newcomer.output.stat().st_size - logged < 200_000
    finally:
        for each in crowd:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

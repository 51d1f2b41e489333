"""The real bot serves its owner while strangers keep its ports busy and an image takes long."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
import time
from asyncio.subprocess import PIPE
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e import hostile_callers
from tests.e2e.conftest import Scene, running
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.e2e.test_freezing import watched
from tests.e2e.test_reminders import left, remind, said
from tests.e2e.test_webhooks import SECRET, is_listening
from tests.features.webhooks import calls
from tests.kernel.schedule.webhook_calls import WASHING
from tests.kernel.store.files.attachments.pictures import many_scans
from tests.patience import patience
from tests.ports import unused_port

from ollim_bot.kernel.base.loopback import allow_many_descriptors

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
        assert watch.is_prompt, watch.worst
        assert bot.output.stat().st_size - logged < 200_000
    finally:
        for each in crowd:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.minutes
@pytest.mark.own_process
async def test_what_strangers_send_holds_up_neither_a_reminder_nor_a_call(tmp_path: Path) -> None:
    """They prove nothing: heads full of signatures, bodies of tiny chunks, many without a head."""
    hooks = unused_port()
    (tmp_path / "data" / "webhooks").mkdir(parents=True)
    (tmp_path / "data" / "webhooks" / "washing.md").write_text(WASHING)
    settings = {"WEBHOOK_PORT": str(hooks), "WEBHOOK_SECRET": SECRET}

    answers: list[tuple[int, float]] = []

    async def call_until_the_reminder_has_come() -> bool:
        begun = time.monotonic()
        data, proof = {"minutes": 40, "note": "towels"}, calls.bearer(SECRET, "once")
        answer = await asyncio.to_thread(calls.call, hooks, "washing", data, proof)
        answers.append((answer.status, time.monotonic() - begun))
        return not left(bot)

    async with (
        serve_model(ScriptedModel()) as model,
        running(KillableBot(tmp_path, model, settings)) as bot,
    ):
        await bot.until(lambda: is_listening(hooks))
        strangers = await asyncio.create_subprocess_exec(
            sys.executable, hostile_callers.__file__, str(bot.port), str(hooks),
            stdin=PIPE, stdout=PIPE,
        )  # fmt: skip
        assert strangers.stdout is not None
        try:
            async with asyncio.timeout(patience()):
                assert await strangers.stdout.readline() == b"All kinds have come.\n"
            async with watched(bot) as watch:
                moment = remind(bot, "water", 3, head="must: true\n")
                await bot.until(call_until_the_reminder_has_come)
                await bot.until(lambda: watch.answers > 10)
        finally:
            await strangers.communicate(b"")
        (late,) = [at - moment for at in await said(bot, "Drink water.")]
        assert late < timedelta(seconds=10)
        # Each call is proven, even those beyond the number for a minute.
        assert {status for status, _ in answers} <= {202, 200, 429}
        assert max(seconds for _, seconds in answers) < 5
        assert watch.is_prompt, watch.worst

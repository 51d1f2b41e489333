"""Calls over HTTP to a bot that is killed: each accepted call ends once and is told once."""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.test_freezing import is_told
from tests.features.webhooks import calls
from tests.kernel.schedule.webhook_calls import ISSUE, SAFE, WASHING
from tests.ports import unused_port

from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow, OccurrenceState
from ollim_bot.offline.server import CallTool, Hang, MessagesServer, ModelRequest, Reply, Say

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SECRET = "a secret that is long enough"
BUILD = """---
id: build
description: A build
update-main-session: freely
fields: {properties: {number: {type: integer}}}
---
Build number {{number}} has ended.
"""
SCREENING = "Is it safe?"
_ENDS = {state.value for state in OccurrenceState if state.is_end}


def has_pinged(request: ModelRequest) -> bool:
    return "Build number 1 " in str(request.body) and bool(request.tool_results)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ends(bot: Bot) -> dict[str, LedgerRow]:
    rows = [row for row in bot.ledger() if row.occurrence and row.state in _ENDS]
    found = {row.occurrence.id: row for row in rows if row.occurrence}
    assert len(found) == len(rows), "one end each"
    return found


@pytest.mark.own_process
async def test_a_kill_after_calls_were_accepted_loses_none_and_repeats_none(tmp_path: Path) -> None:
    """One call had pinged, one was being screened, one waited for its turn, one was delivered."""
    model, port = ScriptedModel(), unused_port()
    hooks = tmp_path / "data" / "webhooks"
    hooks.mkdir(parents=True)
    for name, text in (("build", BUILD), ("issue", ISSUE), ("washing", WASHING)):
        (hooks / f"{name}.md").write_text(text)

    async def call(hook: str, key: str, **data: object) -> tuple[int, str]:
        answer = await asyncio.to_thread(calls.call, port, hook, data, calls.bearer(SECRET, key))
        return answer.status, answer.body["status"]

    settings = {"WEBHOOK_PORT": str(port), "WEBHOOK_SECRET": SECRET}
    async with MessagesServer(model) as server:
        bot = Bot(tmp_path, server.url, settings)
        ping = CallTool("mcp__discord__ping_user", {"message": "One."})
        model.when(SCREENING, Hang())
        model.when(is_told("Build number 1 "), Reply((ping,)))
        model.when(has_pinged, Hang())
        async with running(bot):
            await bot.until(lambda: is_listening(port))
            accepted = (202, "accepted")
            assert await call("build", "one", number=1) == accepted
            assert await call("build", "two", number=2) == accepted
            assert await call("issue", "three", title="It is broken") == accepted
            assert await call("washing", "four", minutes=40, note="towels") == accepted
            await bot.until(lambda: any(map(has_pinged, model.requests)))
            await bot.until(lambda: any(map(is_told(SCREENING), model.requests)))
            await bot.until(lambda: "webhook:washing:four" in ends(bot))
            await bot.kill()
            assert list(ends(bot)) == ["webhook:washing:four"]
            model.when(SCREENING, Reply((Say(SAFE.text),)))
            await bot.start()
            await bot.until(lambda: is_listening(port))
            await bot.until(lambda: len(ends(bot)) == 4)
            assert await call("build", "two", number=2) == (200, "duplicate")
            assert {name: row.state for name, row in ends(bot).items()} == {
                "webhook:build:one": "interrupted",
                "webhook:build:two": "done",
                "webhook:issue:three": "done",
                "webhook:washing:four": "done",
            }
            said = [one["text"] for one in await bot.messages() if one["author"] == "background"]
            assert sorted(said) == ["One.", "The washing is done after 40 min: towels"]
            attempts = ends(bot)["webhook:issue:three"].facts["attempts"]
            assert attempts in (2, 3), "on a very busy machine a screening may take too long"
            assert sum(map(is_told("Build number 1 "), model.requests)) == 1
            assert sum(map(is_told("Build number 2 "), model.requests)) == 1
            now = datetime.now(UTC)
            assert check(bot.ledger(), now, now) == []

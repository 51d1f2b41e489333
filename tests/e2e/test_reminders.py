"""Reminder files of the real bot are noticed and come on time, once, through stops and kills."""

from __future__ import annotations

import re
import subprocess
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene, running
from tests.e2e.in_process_bot import InProcessBot

from ollim_bot.offline.server import CallTool, Hang, Reply
from ollim_bot.surfaces.terminal.main import main

TOOLS = "mcp__discord__"


def remind(
    bot: Bot, name: str, seconds: float, text: str = "Drink water.", head: str = ""
) -> datetime:
    """Write a reminder by hand, with `head` in its frontmatter; returns its moment."""
    exact = datetime.now(UTC) + timedelta(seconds=seconds + 1)
    at = exact.replace(microsecond=0)
    folder = bot.data / "reminders"
    folder.mkdir(exist_ok=True)
    head = f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n{head}---\n'
    (folder / f"{name}.md").write_text(f"{head}{text}\n")
    return at


def left(bot: Bot) -> list[str]:
    return sorted(path.stem for path in (bot.data / "reminders").glob("*.md"))


async def said(bot: Bot, text: str) -> list[datetime]:
    """The times of the background messages with this text."""
    shown = [one for one in await bot.messages() if one["author"] == "background"]
    return [datetime.fromisoformat(one["at"]) for one in shown if one["text"] == text]


def checked(bot: Bot) -> subprocess.CompletedProcess[str]:
    """Run the command that checks the ledger."""
    return printed(bot, "runs", "check")


def printed(bot: Bot, *command: str) -> subprocess.CompletedProcess[str]:
    output = StringIO()
    with redirect_stdout(output):
        code = main([*command], environ=bot.environment(), cwd=bot.home)
    return subprocess.CompletedProcess(command, code, output.getvalue())


@pytest.mark.own_process
async def test_the_end_of_a_run_that_was_killed_says_what_it_did(killable: Scene) -> None:
    bot, report = killable.bot, CallTool(f"{TOOLS}report_updates", {"message": "The bank wrote."})
    ping = CallTool(f"{TOOLS}ping_user", {"message": "Mail has come."})
    killable.model.then(Reply((ping,)), Reply((report,)), Hang())
    remind(bot, "w1", 1, "Look at the mail.", head="must: false\n")
    await killable.model.seen(3)
    await bot.kill()
    await bot.start()
    await bot.until(lambda: not left(bot))
    assert len(await said(bot, "Mail has come.")) == 1
    assert checked(bot).returncode == 0
    shown = printed(bot, "runs", "show", "w1").stdout
    assert "sent: “Mail has come”" in shown
    assert re.search(r"report +The bank wrote\.", shown)
    assert re.search(r"tools +ping_user, report_updates", shown)
    assert re.search(r"session +\S{36}", shown)
    assert "was cut off by a restart after it had pinged and reported" in shown
    assert "it was not run" not in shown


async def test_what_comes_after_it_is_done_comes_though_it_is_due_while_the_bot_first_starts(
    tmp_path: Path,
) -> None:
    bot = InProcessBot(tmp_path, ScriptedModel(), {})
    now = datetime.now(ZoneInfo(bot.environment()["OLLIM_TIMEZONE"]))
    head = f'id: plants\nafter-done: 3 days\nat: "{now:%H:%M}"\nfrom: {now:%Y-%m-%d}\nplain: true'
    (bot.data / "routines").mkdir(parents=True)
    (bot.data / "routines" / "plants.md").write_text(f"---\n{head}\n---\nGieß die Blumen.\n")
    async with running(bot):
        await bot.until(lambda: "delivered" in [row.state for row in bot.ledger()])
        assert len(await said(bot, "Gieß die Blumen.")) == 1
        assert checked(bot).returncode == 0

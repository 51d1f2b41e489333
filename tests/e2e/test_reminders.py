"""Reminders of the real bot: noticed as files, on time, once, through stops and kills."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene
from tests.engine.scene import spoken

from ollim_bot.offline.messages import CallTool, Hang, Reply


def remind(bot: Bot, name: str, seconds: float, text: str = "Drink water.") -> datetime:
    """A reminder as a person writes one; gives its moment."""
    exact = datetime.now(UTC) + timedelta(seconds=seconds + 1)
    at = exact.replace(microsecond=0)
    folder = bot.data / "reminders"
    folder.mkdir(exist_ok=True)
    head = f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n---\n'
    (folder / f"{name}.md").write_text(f"{head}{text}\n")
    return at


def left(bot: Bot) -> list[str]:
    return sorted(path.stem for path in (bot.data / "reminders").glob("*.md"))


async def said(bot: Bot, text: str) -> list[datetime]:
    """When a background message of this text came, each time."""
    shown = [one for one in await bot.messages() if one["author"] == "background"]
    return [datetime.fromisoformat(one["at"]) for one in shown if one["text"] == text]


def checked(bot: Bot) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ollim_bot", "runs", "check"]
    return subprocess.run(
        command, env=bot.environment(), capture_output=True, text=True, check=False, timeout=40
    )


async def test_a_reminder_comes_on_time_with_its_buttons(newcomer: Bot) -> None:
    due = remind(newcomer, "w1", 1)
    await newcomer.until(lambda: not left(newcomer))
    (came,) = await said(newcomer, "Drink water.")
    assert timedelta() <= came - due < timedelta(seconds=10)
    (ended,) = [row for row in newcomer.ledger() if row.state == "done"]
    assert "'price': 'free'" in str(ended)
    assert "cost_usd" not in str(ended)
    answer = await newcomer.press("1 h")
    assert (answer["text"], answer["is_error"]) == ("", False)
    assert len(left(newcomer)) == 1
    assert checked(newcomer).returncode == 0


async def test_a_reminder_that_fell_due_while_the_bot_was_off_comes_once(newcomer: Bot) -> None:
    remind(newcomer, "w1", 2)
    await newcomer.until(lambda: "armed" in [row.state for row in newcomer.ledger()])
    await newcomer.kill()
    await asyncio.sleep(3)
    await newcomer.start()
    await newcomer.until(lambda: not left(newcomer))
    assert len(await said(newcomer, "Drink water.")) == 1
    assert checked(newcomer).returncode == 0


async def test_a_kill_in_the_middle_of_a_run_neither_loses_nor_doubles_it(scene: Scene) -> None:
    scene.model.then(Hang())
    remind(scene.bot, "w1", 1)
    await scene.model.seen(1)
    await scene.bot.kill()
    await scene.bot.start()
    await scene.bot.until(lambda: not left(scene.bot))
    assert len(await said(scene.bot, "Drink water.")) == 1
    result = checked(scene.bot)
    assert result.returncode == 0, result.stdout


async def test_a_reply_to_what_a_run_had_said_goes_on_from_it(inline: Scene) -> None:
    bot = inline.bot
    ping = CallTool("mcp__discord__ping_user", {"message": "The bank wrote."})
    inline.model.then(Reply((ping,)))
    remind(bot, "w1", 1, "Look at the mail.")
    await bot.until(lambda: not left(bot))
    (sent,) = [one for one in await bot.messages() if one["author"] == "background"]
    inline.model.answers("They want a signature.")
    await bot.say("what do they want?", reply_to=sent["id"])
    assert await bot.answer(1) == "They want a signature."
    await bot.title("Side conversation")
    asked = inline.model.requests[-1]
    assert "Look at the mail." in "\n".join(spoken(asked))
    assert "> The bank wrote." in asked.last_user_text

"""Who can write to the shared database runs no program at the next take-over."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.test_reminders import printed
from tests.postgres_server import new_url
from tests.standby.strangers import put_job_op, put_rows

from ollim_bot.kernel.changes.job_files import add_snoozed
from ollim_bot.kernel.values.due_items import note_of
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.offline.server import CallTool, MessagesServer, Reply
from ollim_bot_standby.postgres.connection import parse_address
from ollim_bot_standby.postgres.database import open_postgres

# `test_powers.py` has the files, without bots and without the engine.
pytestmark = [pytest.mark.minutes, pytest.mark.real_engine, pytest.mark.usefixtures("postgres")]

POLICY = """
main_session: {additional_allowed: ["Bash(python3 *)"]}
bg_forks: {additional_allowed: ["Bash(python3 *)"]}
"""
REMINDER = """---
id: {id}
run-at: "{at}"
background: true
---
Run it.
"""


def reminder(name: str, seconds: float) -> dict[str, str]:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
    return {f"reminders/{name}.md": REMINDER.format(id=name, at=at.isoformat())}


def texts_of(bot: Bot, line: str) -> list[str]:
    texts = [path.read_text() for path in (bot.data / "reminders").glob("*.md")]
    return [each for each in texts if line in each]


async def is_told(bot: Bot, url: str) -> bool:
    """Whether the owner is told, or about to be: notices wait for each other."""
    with closing(open_postgres(parse_address(url), lambda: datetime.now(UTC), lease=None)) as rows:
        untold = rows.query(lambda tx: tx.notices.get().untold)
    texts = [*(each.text for each in untold), *await bot.notes()]
    return any("another machine has changed tool-policy.yaml" in each for each in texts)


async def test_a_strange_policy_and_job_run_nothing_until_the_owner_has_seen_them(
    tmp_path: Path,
) -> None:
    model = ScriptedModel()
    call = CallTool("Bash", {"command": "python3 -m zipfile -c ran USER.md"})
    model.when("Run it.", Reply((call,)))
    async with MessagesServer(model) as messages:
        settings = {"DATABASE_URL": new_url()}
        desk, shelf = (Bot(tmp_path / name, messages.url, settings) for name in ("desk", "shelf"))
        for each in (desk, shelf):
            each.data.mkdir(parents=True)
        async with running(desk), running(shelf):
            strange = {"tool-policy.yaml": POLICY, **reminder("first", 4)}
            put_rows(settings["DATABASE_URL"], strange, is_led=True)
            await shelf.until(lambda: (shelf.data / "reminders" / "first.md").exists())
            spec = JobSpec(id="x", message="x", background=True, allowed_tools=("Bash(python3 *)",))
            later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
            op = add_snoozed(note_of(Reminder(spec, later)), "later", later)
            put_job_op(settings["DATABASE_URL"], op)
            assert await desk.stop() == 0
            # The ordinary job comes, and its call is refused.
            [refused] = (await model.seen(2)).tool_results
            assert "`Bash" in refused.text
            assert refused.is_error
            assert not (shelf.data / "ran").exists()
            await shelf.until(lambda: texts_of(shelf, "id: later"))
            assert "python3" not in texts_of(shelf, "id: later")[0]
            assert not (shelf.data / "tool-policy.yaml").exists()
            await shelf.reconnect()
            await shelf.until(lambda: is_told(shelf, settings["DATABASE_URL"]))
            told = printed(shelf, "standby", "accept", "--yes")
            assert (told.returncode, "Bash(python3 *)" in told.stdout) == (0, True)
            for name, text in reminder("second", 2).items():
                (shelf.data / name).write_text(text)
            await shelf.until(lambda: (shelf.data / "ran").exists())

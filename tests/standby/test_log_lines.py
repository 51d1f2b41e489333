"""A database that takes no writes is said in one line an event, never by a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.log_sink import root_logger_restored, sink
from tests.postgres_server import new_url
from tests.standby.evenings import FIRST, EveningBot, EveningClock

from ollim_bot.kernel.base.settings import LogFormat
from ollim_bot.kernel.store.schema import tables
from ollim_bot_standby.postgres.connection import Address, connect_to, parse_address

REMINDERS = 15
LINES_BESIDE = 10
REFUSE = """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"""


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    with root_logger_restored():
        yield


def fill_disk(address: Address) -> None:
    """The server has no room for anything but the lease."""
    with closing(connect_to(address)) as connection:
        connection.execute(REFUSE)
        for table in tables():
            connection.execute(
                f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON {table.name}"
                " FOR EACH STATEMENT EXECUTE FUNCTION full_disk()"
            )


@pytest.mark.usefixtures("postgres")
async def test_reminders_that_cannot_be_kept_leave_few_lines_and_no_traceback(
    tmp_path: Path,
) -> None:
    url = new_url()
    clock = EveningClock(FIRST)
    bot = EveningBot(tmp_path, ScriptedModel(), {"DATABASE_URL": url}, clock)
    folder = bot.data / "reminders"
    await asyncio.to_thread(folder.mkdir, parents=True)
    for number in range(REMINDERS):
        text = f'---\nid: r{number}\nrun-at: "2026-11-01T01:50:10"\nplain: true\n---\nÄ {number}.\n'
        (folder / f"r{number}.md").write_text(text)
    await bot.start()
    log = sink(LogFormat.TEXT)  # after the start, which has lines of its own
    await asyncio.to_thread(fill_disk, parse_address(url))
    await asyncio.sleep(60)
    lines = log.getvalue().splitlines()
    await bot.stop()
    assert [line for line in lines if "Traceback" in line or line.startswith(" ")] == []
    assert sum("no space left" in line for line in lines) > 0
    assert len(lines) < REMINDERS + LINES_BESIDE

"""Days with a take-over each are those of one machine, whatever the other one is set to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import closing, redirect_stdout
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from devtools.scripted_model import ScriptedModel
from tests.postgres_server import new_url
from tests.standby.evenings import FIRST, NEW_YORK, EveningBot, EveningClock

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.surfaces.terminal.main import main
from ollim_bot_standby.postgres.connection import parse_address
from ollim_bot_standby.postgres.database import open_postgres

pytestmark = pytest.mark.usefixtures("postgres")

DESK = {
    "TZ": "America/New_York",
    "LANG": "en_US.UTF-8",
    "OLLIM_USER_NAME": "Zoë",
    "OLLIM_BOT_NAME": "Mühle",
}
SHELF = {
    "TZ": "UTC",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "de_DE.UTF-8",
    "OLLIM_USER_NAME": "Robin",
    "OLLIM_BOT_NAME": "Otto",
}
EVENING = timedelta(seconds=110)
# The clocks change before the second one; the third and fourth are working days.
EVENINGS = 4
TIMES = re.compile(r"(\d\d?):\d\d ([AP]M)")
# An answer takes its time on a busy machine.
WHEN = dict.fromkeys(Author, "%a %H:%M %Z") | {Author.ASSISTANT: "%a %H %Z"}
ENDS = {each.value for each in OccurrenceState if each.is_end}
ENGINE = "The earlier conversation could not be found"
PILL = '---\nid: pill\ncron: "50 20 * * *"\nmust: true\nplain: true\n---\nTake the pill.\n'
WORK = '---\nid: work\ncron: "50 20 * * 1-5"\nbackground: false\n---\nClose the laptop.\n'
ONCE = '---\nid: once\nrun-at: "2026-11-02T20:50:20"\nplain: true\n---\nÄpfel.\n'


class Came(NamedTuple):
    """Some days: the ends of occurrences, messages by their local time, and what the agent saw."""

    occurrences: list[tuple[str, str]]
    messages: list[tuple[str, str, str]]
    prompts: list[str]
    times: list[tuple[str, str]]
    zone: str


class Machine:
    def __init__(self, home: Path, own: Mapping[str, str], model: ScriptedModel) -> None:
        self.home = home
        self.paths = DataPaths(home / "data")
        self._settings = {"OLLIM_TIMEZONE": "", **own}
        self._model = model
        home.mkdir()
        prepare_data_directory(self.paths)

    def bot(self, clock: EveningClock) -> EveningBot:
        return EveningBot(self.home, self._model, self._settings, clock)

    def run(self, *words: str) -> None:
        environ = self.bot(EveningClock(FIRST)).environment()
        with redirect_stdout(StringIO()):
            assert main(words, environ=environ, cwd=self.home, now=lambda: FIRST) == 0


async def lived(folder: Path, *, has_standby: bool) -> Came:
    """Each evening the machine whose turn it is leads for some minutes."""
    url, model = new_url(), ScriptedModel()
    address = folder / "address.txt"
    address.write_text(url)
    address.chmod(0o600)
    desk = Machine(folder / "desk", DESK, model)
    for name, text in (("routines/pill", PILL), ("routines/work", WORK), ("reminders/once", ONCE)):
        path = desk.paths.root / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    open_database(desk.paths, lambda: FIRST, is_holder=True, report=lambda _: None).close()
    desk.run("standby", "init", "--yes", "--from", str(address))
    machines = [desk]
    if has_standby:
        machines.append(Machine(folder / "shelf", SHELF, model))
        machines[-1].run("standby", "join", "--from", str(address))
    for day in range(EVENINGS):
        now = (FIRST.replace(tzinfo=None) + timedelta(days=day)).replace(tzinfo=NEW_YORK)
        await evening(machines[day % len(machines)], now)
    with closing(open_postgres(parse_address(url), lambda: FIRST, lease=None)) as database:
        return database.query(lambda tx: came(tx, model))


async def evening(machine: Machine, now: datetime) -> None:
    """The pill and all else that is due comes, and the machine is off."""
    clock = EveningClock(now)
    bot = machine.bot(clock)
    await bot.start()
    try:
        await asyncio.sleep((now + EVENING - clock.now()).total_seconds())
    finally:
        await bot.stop()


def came(tx: Transaction, model: ScriptedModel) -> Came:
    ended = [each for each in tx.ledger.page(0, 10**9)[0] if each.state in ENDS]
    # The engine of the tests remembers nothing from evening to evening.
    said = [each.message for each in tx.messages.page(1000) if ENGINE not in each.message.text]
    return Came(
        sorted((each.occurrence.id, each.state) for each in ended if each.occurrence),
        sorted((f"{each.at:{WHEN[each.author]}}", str(each.author), each.text) for each in said),
        [request.system for request in model.requests],
        [moment for request in model.requests for moment in TIMES.findall(str(request.messages))],
        tx.zone.get().name,
    )


async def test_what_came_is_what_one_machine_would_have_brought(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    alone = await lived(tmp_path_factory.mktemp("alone"), has_standby=False)
    together = await lived(tmp_path_factory.mktemp("together"), has_standby=True)
    for found, expected in zip(together, alone, strict=True):
        assert found == expected
    assert len([each for each, state in alone.occurrences if "pill" in each]) == EVENINGS
    assert alone.zone == "America/New_York"
    assert len(alone.prompts) == 2
    assert all("Zoë" in each and "Mühle" in each for each in alone.prompts)

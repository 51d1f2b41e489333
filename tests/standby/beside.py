"""The bot of a machine, as far as a command beside it can see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devtools.doubles.clock import ManualClock
from tests.standby.scene import StandbyScene
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.mirrors import Mirrors
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot_standby.bot_rows import BotRows, rows_beside_bot
from ollim_bot_standby.command_server import CommandRows, CommandServer
from ollim_bot_standby.postgres.database import open_postgres
from ollim_bot_standby.postgres.lease import Lease


@dataclass
class Bot:
    lease: Lease
    store: DatabaseStore
    rows: CommandRows


# A command that hangs inside of a step is cut off sooner than it really is.
HANGING = 0.5


@contextmanager
def commands_answered(
    path: Path, rows: CommandRows, starter: int | None = None, hanging: float = HANGING
) -> Iterator[None]:
    server = CommandServer(path, rows, starter, hanging)
    server.start()
    try:
        yield
    finally:
        server.stop()
        rows.close()


@contextmanager
def bot_leading(
    scene: StandbyScene, terminal: Terminal, name: str, starter: int | None = None
) -> Iterator[Bot]:
    """`starter` is the process whose programs are the agent's; this process, if it is None."""
    with scene.leading(name) as lease:
        mirrors = Mirrors(terminal.paths, OsDisk(), lambda _: None)
        database = open_postgres(scene.address, lambda: SUNDAY, lease=lease.held, mirrors=mirrors)
        rows = CommandRows(scene.address, lease, lambda: SUNDAY)
        store = DatabaseStore(database, ManualClock(SUNDAY))
        rows.open(store)
        with closing(database), commands_answered(terminal.paths.commands, rows, starter):
            yield Bot(lease, store, rows)


@contextmanager
def bot_standing_by(scene: StandbyScene, terminal: Terminal, leader: str) -> Iterator[None]:
    """Another machine of this name leads; none, if it is empty."""
    with closing(Lease(scene.address, "here")) as lease:
        rows = CommandRows(scene.address, lease, lambda: SUNDAY)
        rows.leader = leader
        with commands_answered(terminal.paths.commands, rows):
            yield


def beside(terminal: Terminal, *, is_agent: bool = False) -> BotRows:
    rows = rows_beside_bot(terminal.paths.commands, lambda: SUNDAY, is_agent=is_agent)
    assert rows is not None
    return rows

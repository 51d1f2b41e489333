"""All rows of an installation move to a server and back, also if the way is cut off."""

from __future__ import annotations

import shutil
from contextlib import closing

from bench.storage import write_a_year
from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from tests.kernel.store.scene import NOW
from tests.postgres.test_transfer import found
from tests.standby.scene import FEW, StandbyScene, env_of, has_address, in_file, opened
from tests.stores import Stores
from tests.terminal import Terminal

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.questions import DATABASE, ask, ask_rows
from ollim_bot.kernel.store.schema import tables
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.tool_servers import ServerState, ToolServerRecord
from ollim_bot_standby import moving
from ollim_bot_standby.machines import Machine, machine_id
from ollim_bot_standby.postgres.database import open_postgres
from ollim_bot_standby.postgres.server import look_at
from ollim_bot_standby.postgres.transfer import keep_schedule


def all_rows(rows: Statements) -> dict[str, list[tuple[object, ...]]]:
    """Everything but the facts about the database itself."""
    return {
        table.name: rows.rows(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}")
        for table in tables()
        if table.name != "meta"
    }


def known_to_sentinel(tx: Transaction) -> list[object]:
    """What is still to come, by which the sentinel of a machine without the server goes."""
    return [
        tx.ledger.armed().marks,
        tx.ledger.armed().jobs,
        tx.ledger.open_history().stories,
        tx.due_items.open(),
        tx.due_items.to_come_again(),
        tx.channels.all(),
        tx.presence.get(),
    ]


def kept_files(terminal: Terminal, reason: str) -> list[str]:
    return sorted(each.name for each in terminal.paths.state.glob(f"ollim.db.{reason}-*"))


def test_a_year_moves_to_the_server_and_back_unchanged(scene: StandbyScene) -> None:
    desk = scene.desk
    with opened(desk) as database:
        jobs = open_repositories(desk.paths, RecordingJournal())
        write_a_year(Stores(ImmediateStore(database), jobs), daily=2)
    before = ask_rows(desk.paths, all_rows)
    searches, checked = in_file(desk, found), desk.run("runs", "check")
    assert len(before["ledger"]) > 2_000

    told = scene.init()
    assert "Backup: " in told
    assert "From the next start on, your bot uses the PostgreSQL database" in told
    assert scene.url not in told
    assert env_of(desk)["DATABASE_URL"] == scene.url
    assert desk.paths.env_file.stat().st_mode & 0o777 == 0o600
    assert not (desk.paths.state / "ollim.db").exists()
    assert len(kept_files(desk, "before-standby")) == 1
    assert scene.on_server(found) == searches

    kept = desk.paths.known_schedule
    with closing(open_postgres(scene.address, lambda: NOW, lease=None)) as server:
        keep_schedule(server, kept, NOW)
    known = DataPaths(scene.desk.home / "known")
    known.state.mkdir(parents=True)
    shutil.copy(kept, known.state / DATABASE)
    assert ask(known, NOW, known_to_sentinel) == scene.on_server(known_to_sentinel)
    assert len(ask(known, NOW, lambda tx: tx.ledger.tail(5000))) < 1_000
    kept.unlink()

    told = desk.done("standby", "leave", "--yes")
    assert "back. From the next start on, your bot uses a file on this machine." in told
    assert not has_address(desk)
    assert ask_rows(desk.paths, all_rows) == before
    assert in_file(desk, found) == searches
    assert desk.run("runs", "check") == checked
    with opened(desk) as database:
        assert database.query(found) == searches


class Killed(BaseException):
    pass


def machine_of(terminal: Terminal, die_at: int) -> Machine:
    """A machine whose process is killed before a step, or at none with a large number."""
    steps = iter(range(1000))

    def say(_: str) -> None:
        if next(steps) == die_at:
            raise Killed

    return Machine(terminal.paths, terminal.environ, lambda: terminal.now, say)


def words_of(scene: StandbyScene, terminal: Terminal) -> int:
    """How many messages the installation has, in the place that it uses."""

    def count(tx: Transaction) -> int:
        return len(tx.messages.since(NOW))

    return scene.on_server(count) if has_address(terminal) else in_file(terminal, count)


def test_a_kill_at_each_step_leaves_an_installation_that_works(scene: StandbyScene) -> None:
    desk, url = scene.desk, Secret(scene.url)
    expected = words_of(scene, desk)
    assert expected == len(FEW)
    failures = []
    for die_at in range(20):
        try:
            moving.move_there(machine_of(desk, die_at), url, ())
        except Killed:
            if has_address(desk):
                break
            with opened(desk):
                pass
            if words_of(scene, desk) != expected:
                failures.append(die_at)
    assert failures == []
    # The file was not put aside yet; the same command does it.
    assert die_at > 5
    assert words_of(scene, desk) == expected
    assert (desk.paths.state / "ollim.db").exists()
    with scene.leading("desk"):
        assert "It is complete now." in scene.init()
    assert not (desk.paths.state / "ollim.db").exists()
    assert "DATABASE_URL is set already" in desk.refused("standby", "init", code=1)

    for die_at in range(20):
        try:
            moving.move_back(machine_of(desk, die_at), url)
        except Killed:
            assert has_address(desk)
            if look_at(scene.address).closed:
                break
            assert words_of(scene, desk) == expected
    assert die_at >= 2
    assert "the address is taken out now" in desk.done("standby", "leave", "--yes")
    assert not has_address(desk)
    assert words_of(scene, desk) == expected

    # The rows that stay there are of no use to another machine, and make room for those from here.
    shelf = scene.machine("shelf")
    join = ("standby", "join", "--from", str(scene.file))
    assert "waits for the end of a move" in shelf.refused(*join, code=1)
    scene.init()
    assert words_of(scene, desk) == expected
    assert look_at(scene.address).closed == ""


def test_a_tool_server_stays_approved_where_it_was_and_nowhere_else(scene: StandbyScene) -> None:
    """Also after the way back to a file."""
    desk, state = scene.desk, ServerState(present="pin", shown="notes-server").started()
    record = ToolServerRecord().holding("notes", state)
    with opened(desk) as database:
        database.run(lambda tx: tx.tool_servers.put(record))
    scene.init()
    known = scene.on_server(lambda tx: tx.tool_servers.get())
    assert known.on(machine_id(desk.paths)).of("notes").may_start
    elsewhere = known.on(machine_id(scene.machine("shelf").paths))
    assert not elsewhere.of("notes").may_start
    assert elsewhere.on(machine_id(desk.paths)).of("notes").may_start
    desk.done("standby", "leave", "--yes")
    assert in_file(desk, lambda tx: tx.tool_servers.get()).on("") == record


def test_what_the_model_remembers_moves_along_and_back_to_another_machine(
    scene: StandbyScene,
) -> None:
    desk, session = scene.desk, SessionId("0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11")
    with opened(desk) as database:
        database.run(lambda tx: tx.session.put(session))
    folder = Transcripts(desk.environ).folder_of(desk.paths.root)
    for name in (f"{session}.jsonl", f"{session}/subagents/agent-1.jsonl"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    assert "Storing what the model remembers." in scene.init()

    shelf = scene.machine("shelf")
    shelf.done("standby", "join", "--from", str(scene.file))
    moving.move_back(machine_of(shelf, 1000), Secret(scene.url))
    found = dict(Transcripts(shelf.environ).files_of({session}))
    assert {name: path.read_text() for name, path in found.items()} == {
        f"{session}.jsonl": "{}\n",
        f"{session}/subagents/agent-1.jsonl": "{}\n",
    }

"""Commands beside the bot: their transactions run in the bot, through its local socket."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patience import patience
from tests.postgres.test_transfer import corpus
from tests.standby.beside import Bot, beside, bot_leading, bot_standing_by
from tests.standby.scene import StandbyScene
from tests.standby.test_commands import config_on_server, database_files
from tests.terminal import SUNDAY, Terminal
from tests.test_architecture import HEAVY

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.orphans import Orphans, adopt
from ollim_bot.kernel.base.processes import children_of_this
from ollim_bot.kernel.store.database_errors import NotLeading
from ollim_bot.kernel.store.mark_rows import PUT_MARK, encoded_mark, key_of
from ollim_bot.kernel.store.schema import SCHEMA, tables
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.initiative import SetByAgent
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.skills import AgentSkills
from ollim_bot.kernel.values.taint import TaintMark
from ollim_bot_standby.bot_rows import rows_beside_bot, short_address
from ollim_bot_standby.held_lease import GIVE_UP_AFTER, RENEW_EVERY, boot_time
from ollim_bot_standby.postgres.connection import connect_to

pytestmark = pytest.mark.usefixtures("postgres")

BY_RUN = "routine:mail:2026-11-15T13:00:00Z"


@pytest.fixture
def desk(scene: StandbyScene) -> Terminal:
    """A machine whose rows are on the server; its commands do not know the address."""
    scene.init()
    scene.desk.paths.env_file.unlink()
    return scene.desk


def meta(scene: StandbyScene, name: str) -> str | None:
    return scene.on_server(lambda tx: tx.meta.get(name))


def count(tx: Transaction) -> None:
    tx.meta.put("count", str(int(tx.meta.get("count") or 0) + 1))


def test_commands_that_do_not_know_the_address_use_the_rows_of_the_bot(
    scene: StandbyScene, desk: Terminal
) -> None:
    with bot_leading(scene, desk, "desk"):
        desk.done("config", "set", "timezone", "Europe/Paris")
        assert config_on_server(scene).timezone == "Europe/Paris"
        assert "Europe/Paris" in desk.paths.config.read_text()
        assert "dentist" in desk.done("history", "search", "dentist")
    with bot_standing_by(scene, desk, "shelf"):
        assert "Europe/Paris" in desk.done("config")
        refused = desk.refused("config", "set", "timezone", "UTC", code=1)
    assert "is led by shelf, and this machine only reads" in refused
    with bot_standing_by(scene, desk, ""):
        refused = desk.refused("config", "set", "timezone", "UTC", code=1)
    assert "cannot be changed now" in refused
    assert config_on_server(scene).timezone == "Europe/Paris"
    assert database_files(desk) == []


class Killed(BaseException):
    pass


def test_a_command_that_is_killed_inside_of_its_step_leaves_no_trace(
    scene: StandbyScene, desk: Terminal
) -> None:
    def dies(tx: Transaction) -> None:
        tx.meta.put("half", "done")
        raise Killed

    with bot_leading(scene, desk, "desk") as bot:
        with pytest.raises(Killed):
            beside(desk).run(dies)
        bot.store.run(lambda tx: tx.meta.put("whole", "done"))
    assert (meta(scene, "half"), meta(scene, "whole")) == (None, "done")


def test_a_command_that_hangs_inside_of_its_step_is_cut_off_and_the_bot_goes_on(
    scene: StandbyScene, desk: Terminal
) -> None:
    def hangs(tx: Transaction) -> None:
        tx.meta.put("late", "done")
        # The step of the bot waits for the end of this one.
        began = boot_time()
        bot.store.run(lambda tx: tx.meta.put("bot", "done"))
        assert boot_time() - began < GIVE_UP_AFTER - RENEW_EVERY
        tx.meta.put("later", "done")

    with bot_leading(scene, desk, "desk") as bot:
        with pytest.raises(StorageError, match="waited for by a command for too long"):
            beside(desk).run(hangs)
        assert bot.store.is_writable
    assert (meta(scene, "late"), meta(scene, "bot")) == (None, "done")


def test_commands_at_once_and_steps_of_the_bot_follow_each_other(
    scene: StandbyScene, desk: Terminal
) -> None:
    with bot_leading(scene, desk, "desk") as bot, ThreadPoolExecutor(8) as pool:
        rows = beside(desk)
        for each in [pool.submit(run, count) for run in (rows.run, bot.store.run) * 8]:
            each.result()
    assert meta(scene, "count") == "16"


def test_a_step_is_run_again_by_its_command_if_the_bot_lost_its_connection(
    scene: StandbyScene, desk: Terminal
) -> None:
    tries: list[int] = []

    def cut_once(tx: Transaction) -> None:
        count(tx)
        tries.append(1)
        if len(tries) == 1:
            with closing(connect_to(scene.address)) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE state = 'idle in transaction' AND application_name = 'ollim-bot'"
                )

    with bot_leading(scene, desk, "desk"):
        beside(desk).run(cut_once)
    assert (len(tries), meta(scene, "count")) == (2, "1")


def test_a_bot_that_leads_no_more_changes_nothing_for_a_command(
    scene: StandbyScene, desk: Terminal
) -> None:
    with bot_leading(scene, desk, "desk") as bot:
        rows = beside(desk)
        with closing(connect_to(scene.address)) as other:
            other.execute("UPDATE lease SET epoch = epoch + 1, holder = 'other'")
        with pytest.raises(StorageError, match="leads no more"):
            rows.run(count)
        with pytest.raises(NotLeading):
            bot.store.run(count)
    assert meta(scene, "count") is None


def framed(value: object) -> bytes:
    encoded = json.dumps(value).encode()
    return struct.pack(">I", len(encoded)) + encoded


GREETING = {"schema": SCHEMA, "place": "there", "leads": True, "leader": "", "is_agent": False}


@pytest.mark.parametrize(
    ("heard", "sentence"),
    [(0, "ended just now"), (1, "Nothing was changed"), (2, "not say whether the change was made")],
)
def test_a_bot_that_dies_leaves_no_doubt_before_the_end_of_a_step(
    tmp_path: Path, heard: int, sentence: str
) -> None:
    """It hears so many frames after the request, and answers all but the last of them."""

    def live_and_die(listener: socket.socket) -> None:
        for frames in (0, heard + 1):
            with listener.accept()[0] as connection:
                connection.sendall(framed(GREETING))
                for number in range(frames):
                    [length] = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
                    connection.recv(length, socket.MSG_WAITALL)
                    if 0 < number < heard:
                        connection.sendall(framed({"rows": [], "changed": []}))

    with (
        ThreadPoolExecutor(1) as pool,
        socket.socket(socket.AF_UNIX) as listener,
        short_address(tmp_path / "socket") as address,
    ):
        listener.bind(address)
        listener.listen()
        dying = pool.submit(live_and_die, listener)
        rows = rows_beside_bot(tmp_path / "socket", lambda: SUNDAY)
        assert rows is not None
        with pytest.raises(StorageError, match=sentence):
            rows.run(lambda tx: tx.statements.rows("SELECT 1"))
        dying.result()
    with pytest.raises(StorageError, match="Nothing was changed"):
        rows.run(count)


def test_what_is_no_command_is_hung_up_on_and_holds_up_nothing(
    scene: StandbyScene, desk: Terminal
) -> None:
    change = framed({"do": "change"})
    sent = [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 2**32 - 1),
        struct.pack(">I", 100_000) + b"[" * 100_000,
        framed([1]),
        framed({"do": 7}) + framed({"sql": 7}),
        change + framed({"sql": "SELECT 1", "arguments": 1, "table": ""}),
        change + framed({"lines": 7}),
        change + framed({"sql": "SELECT 1", "arguments": [{"a": 1}], "table": ""}),
        change + b"\0\0",
        framed({"bytes": "?"}),
        b"",
    ]
    with bot_leading(scene, desk, "desk"):
        for each in sent:
            with (
                socket.socket(socket.AF_UNIX) as connection,
                short_address(desk.paths.commands) as address,
            ):
                connection.connect(address)
                connection.sendall(each)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        beside(desk).run(count)
    assert meta(scene, "count") == "1"


def test_more_rows_than_fit_into_a_frame_arrive(scene: StandbyScene, desk: Terminal) -> None:
    with bot_leading(scene, desk, "desk"):
        numbers = "SELECT number, sum(number) FROM generate_series(1, 1001) AS number GROUP BY 1"
        found = beside(desk).query(lambda tx: tx.statements.rows(f"{numbers} ORDER BY 1"))
    assert found == [(number, number) for number in range(1, 1002)]


def test_the_socket_of_a_killed_bot_is_in_nobodys_way(scene: StandbyScene, desk: Terminal) -> None:
    with socket.socket(socket.AF_UNIX) as left, short_address(desk.paths.commands) as address:
        left.bind(address)
    assert rows_beside_bot(desk.paths.commands, lambda: desk.now) is None
    desk.write(".env", f"DATABASE_URL={scene.url}\n")
    desk.done("config", "set", "timezone", "Europe/Rome")
    with bot_leading(scene, desk, "desk"):
        beside(desk).run(count)
    assert meta(scene, "count") == "1"
    assert not desk.paths.commands.exists()


def test_a_long_path_is_no_hindrance(scene: StandbyScene) -> None:
    scene.init()
    deep = scene.machine("d" * 200)
    with bot_leading(scene, deep, "desk"):
        assert deep.paths.commands.stat().st_mode & 0o777 == 0o600
        beside(deep).run(count)
    assert meta(scene, "count") == "1"


_LISTEN = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    print(len(connection.recv(100)))
"""


@pytest.mark.real_process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")
def test_another_user_gets_nothing(scene: StandbyScene, desk: Terminal) -> None:
    with bot_leading(scene, desk, "desk"):
        path = desk.paths.commands
        path.chmod(0o666)
        for folder in path.parents:
            if folder.stat().st_mode & 0o11 != 0o11:
                folder.chmod(0o711)
        heard = subprocess.run(
            [sys.executable, "-c", _LISTEN, path.name],
            cwd=path.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert heard.stdout == "0\n"


AGENT_RUNS = [
    ("reminder", "add", "Feed the cat", "--in", "2h", "--id", "cat"),
    ("reminder", "list"),
    ("reminder", "edit", "cat", "--in", "3h"),
    ("reminder", "pause", "cat"),
    ("reminder", "resume", "cat"),
    ("reminder", "cancel", "cat"),
    ("routine", "add", "-m", "plan", "--cron", "0 9 * * *", "--id", "plan"),
    ("routine", "show", "plan"),
    ("tasks", "add", "Call mum"),
    ("tasks", "done", "mum"),
    ("tasks", "list"),
    ("changes",),
    ("history",),
    ("history", "search", "dentist"),
    ("history", "search", "dentist", "--since", "2020-01-01", "--session", "current"),
    ("today",),
    ("runs",),
    ("runs", "check"),
    ("receipt",),
    ("doses",),
    ("cost",),
    ("rehearse",),
    ("config", "list"),
    ("mcp", "list"),
]


@pytest.mark.real_process
def test_what_the_agent_may_run_works_beside_the_bot(scene: StandbyScene, desk: Terminal) -> None:
    desk.environ["OLLIM_CALLED_BY"] = "conversation"
    with bot_leading(scene, desk, "desk") as bot:
        notes = [desk.run(*each).err for each in AGENT_RUNS]
        assert [each for each in notes if "the owner" in each or "database" in each] == []
        desk.environ["OLLIM_CALLED_BY"] = BY_RUN
        desk.done("reminder", "add", "Look again", "--in", "2h")
        read_untrusted_text(bot)
        desk.environ["OLLIM_CALLED_BY"] = "conversation"
        desk.done("reminder", "add", "Read it", "--in", "2h")
        desk.done("tasks", "add", "Buy what they sell")
    changes = scene.on_server(lambda tx: tx.changes.newest(99))
    assert {each.by for each in changes} == {Changer.AGENT}
    assert len(changes) == 11
    counted, left = scene.on_server(lambda tx: (tx.initiative.get(), tx.marks.left()))
    assert len(counted.entries) == 2
    assert [each.title for each in left] == ["Buy what they sell"]


def read_untrusted_text(bot: Bot) -> None:
    def step(tx: Transaction) -> None:
        tx.session.put(SessionId("s1"))
        tx.marks.read(SessionId("s1"), ["mail"])

    bot.store.run(step)


def changed(by: Changer, place: str, key: str = "0000000a", session: str = "") -> Step[None]:
    row = ChangeRow(key, SUNDAY, place, by, None, "x", session=session)
    return lambda tx: tx.changes.put(row)


def put_mark(tx: Transaction, mark: TaintMark, key: str = "") -> None:
    tx.statements.write("marks", PUT_MARK, *encoded_mark(key or key_of(mark), mark))


def asked(sql: str, *arguments: str) -> Step[object]:
    return lambda tx: tx.statements.rows(sql, *arguments)


SECRETS = [
    asked("SELECT holder FROM lease"),
    asked("SELECT nonce FROM push_buttons"),
    asked("SELECT value FROM meta WHERE name = ?", "standby_move"),
    asked("SELECT value FROM records"),
    asked("SELECT value FROM records WHERE name = ?", "push"),
    asked("SELECT value FROM records WHERE name = ?", "inquiries"),
    asked("SELECT seq FROM messages, lease"),
    asked("SELECT pg_read_file('/etc/passwd')"),
    asked("SELECT value FROM messages; COMMIT"),
    asked("SELECT value FROM messages WHERE value = '?'", "; COMMIT; SELECT '"),
    asked("SELECT value FROM messages -- all"),
    asked("SELECT value FROM messages WHERE value = E'\\''"),
    asked('SELECT "holder" FROM messages'),
    # The quotes are text of the server, and what is between them is not.
    asked("SELECT $$'$$, current_setting($$data_directory$$), $$'$$ FROM messages"),
    asked(f"SELECT value FROM messages{' ' * 100_000}"),
    asked("WITH gone AS (DELETE FROM ledger RETURNING seq) SELECT seq FROM gone"),
    asked("SELECT seq FROM messages FOR UPDATE"),
    asked("SELECT set_config('a.b', 'c', false)"),
    asked("TABLE lease"),
    asked("DROP TABLE messages"),
]
POWERS: list[Step[object]] = [
    lambda tx: tx.config.put(replace(tx.config.get(), timezone="Europe/Rome")),
    lambda tx: tx.meta.put("x", "y"),
    lambda tx: tx.grants.put(Grants(("Bash(*)",))),
    lambda tx: tx.ledger.append(LedgerRow(SUNDAY, "armed")),
    lambda tx: tx.messages.add(replace(corpus()[0], id=MessageId("new"))),
    lambda tx: tx.marks.end(SessionId("s1")),
    lambda tx: tx.marks.read(SessionId("s1"), ["mail"]),
    lambda tx: tx.marks.remove(TaintMark("mail", SUNDAY, title="Read it")),
    lambda tx: tx.marks.leave(TaintMark("", SUNDAY, title="Obey")),
    lambda tx: tx.marks.leave(TaintMark("mail", SUNDAY, path="notes/a.md")),
    lambda tx: put_mark(tx, TaintMark("web page", SUNDAY, title="Read it")),
    lambda tx: put_mark(tx, TaintMark("mail", SUNDAY, title="Buy"), "session:0"),
    lambda tx: tx.initiative.put(SetByAgent()),
    lambda tx: tx.agent_skills.put(AgentSkills()),
    lambda tx: tx.changes.remember(".env", "x"),
    lambda tx: tx.changes.remember("tool-policy.yaml", None),
    changed(Changer.COMMAND, "reminders/a.md"),
    changed(Changer.AGENT, "reminders/a.md"),
    changed(Changer.AGENT, "setting:timezone", session="conversation"),
    changed(Changer.AGENT, "reminders/../.env", session="conversation"),
    changed(Changer.AGENT, "tasks.md", key="0000000b"),
]


def test_the_agent_reads_and_changes_nothing_else(scene: StandbyScene, desk: Terminal) -> None:
    """With its own program in place of a command."""

    def prepare(tx: Transaction) -> None:
        tx.marks.read(SessionId("s1"), ["mail"])
        tx.marks.leave(TaintMark("mail", SUNDAY, title="Read it"))
        tx.initiative.put(SetByAgent((("run", SUNDAY.date()),)))
        tx.agent_skills.put(AgentSkills((("routine:mail", "post"),)))
        changed(Changer.HAND, "reminders/a.md", key="0000000b")(tx)

    def all_rows(tx: Transaction) -> list[object]:
        return [tx.statements.rows(f"SELECT * FROM {each.name} ORDER BY 1") for each in tables()]

    with bot_leading(scene, desk, "desk") as bot:
        bot.store.run(prepare)
        before, rows = scene.on_server(all_rows), beside(desk, is_agent=True)
        done: list[int] = []
        for number, step in enumerate((*SECRETS, *POWERS)):
            for run in (rows.query, rows.run):
                with suppress(StorageError):
                    run(step)
                    done.append(number)
        assert done == []
        # These two do nothing: the bot forgets what it has to.
        rows.run(lambda tx: tx.changes.remove("0000000b"))
        assert scene.on_server(all_rows) == before
        assert bot.store.is_writable


_OWN_PROGRAM = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ollim_bot.surfaces.terminal.main import main
from ollim_bot_standby.bot_rows import rows_beside_bot
rows = rows_beside_bot(Path(sys.argv[1]), lambda: datetime.now(UTC))
try:
    rows.run(lambda tx: tx.config.put(tx.config.get().__class__(timezone="Europe/Rome")))
except Exception as refused:
    print(refused)
main(["reminder", "add", "Feed the cat", "--in", "2h"])
print(*sorted(name for name in sys.modules if name.partition(".")[0] in sys.argv[2:]), "loaded")
"""


@pytest.fixture
def adopting() -> Iterator[None]:
    """As the bot does from its start on."""
    before, orphans, latest = {*children_of_this()}, Orphans(), time.monotonic() + patience()
    adopt()
    yield
    adopt(adopts=False)
    while {*children_of_this()} - before and time.monotonic() < latest:
        orphans.clear()
        time.sleep(0.02)


@pytest.mark.real_process
@pytest.mark.usefixtures("adopting")
def test_a_program_below_the_bot_is_the_agents_whatever_it_says(
    scene: StandbyScene, desk: Terminal
) -> None:
    """Also one that goes into the background, whose own parent has ended."""
    output = desk.home / "output"
    own = [sys.executable, "-c", _OWN_PROGRAM, str(desk.paths.commands), "psycopg", *HEAVY]
    in_background = 'setsid sh -c \'sleep 0.1; exec "$@"\' sh "$@" &'
    with bot_leading(scene, desk, "desk"):
        for number, command in enumerate((own, ["sh", "-c", in_background, "sh", *own]), 1):
            with (
                output.open("w") as stdout,
                subprocess.Popen(command, env=desk.environ, cwd=desk.home, stdout=stdout) as shell,
            ):
                assert shell.wait(patience()) == 0
            latest = time.monotonic() + patience()
            while not output.read_text().endswith("loaded\n") and time.monotonic() < latest:
                time.sleep(0.02)
            refused, *_, loaded = output.read_text().splitlines()
            assert "only from the owner" in refused
            # A command beside the bot starts as fast as one with a file.
            assert loaded == "loaded"
            changes = scene.on_server(lambda tx: tx.changes.newest(9))
            by_agent = (Changer.AGENT, "conversation")
            assert [(each.by, each.session) for each in changes] == [by_agent] * number
    assert config_on_server(scene).timezone != "Europe/Rome"

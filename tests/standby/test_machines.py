"""A second machine joins, sees who leads, takes over when asked, and leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from devtools.localpostgres import LocalPostgres
from tests.features.setup.setup_scene import ScriptedPerson
from tests.standby.pooler import pooler
from tests.standby.scene import StandbyScene, env_of, has_address
from tests.terminal import Terminal

import ollim_bot
from ollim_bot import __version__
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.store.database_errors import NOT_LEADING
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.main import COMMANDS
from ollim_bot_standby import cli as command
from ollim_bot_standby.postgres.connection import connect_to, parse_address
from ollim_bot_standby.postgres.lease import Lease, LeaseKeeper


def test_a_second_machine_joins_sees_the_leader_and_leaves(scene: StandbyScene) -> None:
    scene.desk.write(".env", "DISCORD_TOKEN=secret-of-desk\n")
    scene.init()
    scene.use("shelf")
    shelf = scene.machine("shelf")
    told = shelf.done("standby", "join", "--from", str(scene.file))
    assert "This machine stands by for the PostgreSQL database" in told
    assert "keys that are not here: DISCORD_TOKEN." in told
    assert "secret-of-desk" not in told
    assert env_of(shelf) == {"DATABASE_URL": scene.url}
    assert shelf.paths.env_file.stat().st_mode & 0o777 == 0o600
    assert "DATABASE_URL is set already" in shelf.refused(
        "standby", "join", "--from", str(scene.file), code=1
    )
    with scene.leading("desk") as lease, single_instance(shelf.paths.bot_pid):
        told = shelf.done("standby", "status")
        assert "desk has led for " in told
        assert "This machine stands by." in told
        assert scene.url not in told
        facts = shelf.json("standby", "status")
        assert lease.held is not None
        assert facts.pop("renewed_ago") < 60
        assert facts == {
            "database": "the PostgreSQL database postgres on this machine",
            "role": "stands by",
            "leader": "desk",
            "last_leader": "desk",
            "led_here_last": False,
            "leads_for": facts["leads_for"],
            "epoch": lease.held.epoch,
            "schema": SCHEMA,
            "version": __version__,
            "is_closed": False,
            "is_copy": False,
            "files": {"unlike": [], "since": None, "waiting": [], "set_aside": []},
            "unlike_settings": [],
        }
        assert "is already running" in shelf.refused("standby", "leave", "--yes", code=1)
    told = shelf.done("standby", "leave", "--yes")
    assert "This machine stands by no more." in told
    assert not has_address(shelf)
    assert "No standby is set up." in shelf.done("standby", "status")
    assert shelf.json("standby", "status")["role"] == "alone"
    assert "No machine leads. desk (this machine) led last" in scene.desk.done("standby", "status")


def test_two_machines_with_one_name_are_told_apart(scene: StandbyScene) -> None:
    """Also after a command on the standby has led for its change."""
    scene.init()
    shelf = scene.machine("shelf")
    shelf.done("standby", "join", "--from", str(scene.file))
    with scene.leading("desk"):
        assert "desk (another machine) has led for " in shelf.done("standby", "status")
        assert "desk (this machine) has led for " in scene.desk.done("standby", "status")
    for _ in range(2):
        assert scene.desk.json("standby", "status")["led_here_last"]
        assert not shelf.json("standby", "status")["led_here_last"]
        shelf.done("config", "set", "timezone", "Europe/Rome")
    told = shelf.done("standby", "leave", "--yes")
    assert "desk (another machine) led last and does not lead now." in told
    assert not has_address(shelf)
    assert "back. From the next start on" in scene.desk.done("standby", "leave", "--yes")


def test_a_hand_over_names_the_machine_that_leads_then(scene: StandbyScene) -> None:
    scene.init()
    desk = scene.desk
    assert "No machine leads now" in desk.refused("standby", "hand-over", code=1)

    def stop_when(asked: threading.Event, keeper: LeaseKeeper) -> None:
        asked.wait(60)
        keeper.stop()

    def take_over(lease: Lease) -> None:
        while lease.take() is None:
            lease.wait(60)

    with (
        closing(Lease(scene.address, "desk")) as old,
        closing(Lease(scene.address, "shelf")) as new,
        ThreadPoolExecutor(2) as threads,
    ):
        assert old.take() is not None
        ends: list[Future[None]] = []
        stopping = threading.Event()
        keeper = LeaseKeeper(old, pytest.fail, hand_over=stopping.set)
        keeper.start()
        ends.append(threads.submit(take_over, new))
        ends.append(threads.submit(stop_when, stopping, keeper))
        assert desk.done("standby", "hand-over").startswith("shelf leads now, after ")
        for end in ends:
            end.result()
        assert new.may_act()
        assert not old.may_act()


@pytest.mark.real_process
def test_where_only_a_copy_of_the_database_answers_the_status_says_how_to_promote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_server: LocalPostgres
) -> None:
    scene = StandbyScene(tmp_path, parse_address(own_server.address), monkeypatch)
    scene.url += "&target_session_attrs=read-write"
    scene.file.write_text(scene.url)
    scene.init()
    desk = scene.desk
    assert "pg_promote" not in desk.done("standby", "status")
    own_server.kill()
    (own_server.folder / "data" / "standby.signal").touch()
    own_server.start()
    told = desk.done("standby", "status")
    assert "SELECT pg_promote()" in told
    assert "may lack the last seconds" in told
    assert desk.json("standby", "status")["is_copy"]
    with closing(connect_to(parse_address(own_server.address))) as connection:
        assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
    assert "pg_promote" not in desk.done("standby", "status")
    with scene.leading("desk") as lease:
        assert lease.may_act()


def test_what_cannot_be_done_is_refused_with_what_to_do(
    scene: StandbyScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, file = scene.desk, str(scene.file)
    init = ("standby", "init", "--yes", "--from")
    shelf = scene.machine("shelf")
    unsafe = scene.folder / "unsafe.txt"
    unsafe.write_text("postgresql://ollim:pass@db.example.org/ollim?sslmode=require")
    refusals = [
        (desk.refused("standby", "init"), "Name a file with the address"),
        (desk.refused(*init, "nowhere.txt"), "nowhere.txt cannot be read"),
        (desk.run("standby", "init", "--from", file).err, "Add --yes"),
        (shelf.refused(*init, file, code=1), "There is no bot in"),
        (shelf.refused("standby", "join", "--from", file, code=1), "is empty. Run `ollim-bot"),
        (desk.refused("standby", "hand-over", code=1), "No standby is set up."),
        (desk.refused("standby", "leave", code=1), "No standby is set up."),
        (desk.refused("standby", "join", "--from", file, code=1), "has the data of a bot"),
    ]
    answer = desk.run(*init, str(unsafe))
    refusals.append((answer.err, "lets others on the network read the conversation"))
    assert answer.code == 2
    assert "pass@" not in answer.err
    assert "others on this machine can read" in answer.err
    with single_instance(desk.paths.bot_pid):
        refusals.append((desk.run(*init, file).err, "is already running"))
    with scene.leading("shelf"):
        refusals.append((desk.refused(*init, file, code=1), "is led by shelf"))
    with closing(connect_to(scene.address)) as connection:
        connection.execute("CREATE TABLE invoices (id BIGINT)")
        refusals.append((desk.refused(*init, file, code=1), "holds tables of something else"))
        refusals.append(
            (shelf.refused("standby", "join", "--from", file, code=1), "is not a database of")
        )
        connection.execute("DROP TABLE invoices")
        scene.init()
        scene.fill(shelf)
        refusals.append((shelf.refused(*init, file, code=1), "holds the data of a bot already"))
        connection.execute(f"UPDATE lease SET schema = {SCHEMA + 1}")
        third = scene.machine("third")
        refusals.append(
            (third.refused("standby", "join", "--from", file, code=1), "another version")
        )
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    refusals.append((third.refused("standby", "join", code=1), "with its extra `[standby]`"))
    assert [(said, part) for said, part in refusals if part not in said] == []
    assert not has_address(shelf)
    assert not has_address(third)


def test_init_says_who_can_read_and_asks(
    scene: StandbyScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    desk = scene.desk
    caller = Caller(desk.environ, desk.home, lambda: desk.now)
    person = ScriptedPerson(scene.url, "")
    command.init({}, caller, person)
    assert "They are not encrypted there. Who can read them: who runs this machine" in person.screen
    assert "Nothing was changed." in person.screen
    assert scene.url not in person.screen
    assert not has_address(desk)
    command.init({}, caller, ScriptedPerson(scene.url, "y"))
    assert has_address(desk)


def test_where_the_database_takes_no_writes_the_status_still_says_who_leads(
    scene: StandbyScene, shelf: Terminal
) -> None:
    url = scene.url + quote(" -c default_transaction_read_only=on")
    with scene.leading("desk"):
        shelf.write(".env", f"DATABASE_URL={url}\n")
        assert "desk has led for " in shelf.done("standby", "status")
        assert shelf.json("standby", "status")["leader"] == "desk"
    assert "desk led last" in shelf.done("standby", "status")


def test_without_what_speaks_to_postgres_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "ollim_bot_standby.postgres.lease")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(OllimError, match=r"ollim-bot\[standby\]"):
        load_standby("postgres.lease")


SOURCE = Path(ollim_bot.__file__).parents[1]

# The program that it starts keeps its output open, and so the test waits for the end of both.
PROCESS = """
import subprocess, sys
from ollim_bot_standby.postgres.lease import end_process
subprocess.Popen(["sleep", "600"], start_new_session=True)
try:
    end_process("Another machine leads.")
finally:
    print("It went on.")
"""


@pytest.mark.real_process
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list what it started")
def test_what_it_has_started_ends_with_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS],
        env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (NOT_LEADING, "")
    assert ended.stderr == "ollim-bot: Another machine leads.\n"


SOCKET = ".s.PGSQL.5432"


def test_an_address_that_keeps_no_session_is_refused(scene: StandbyScene) -> None:
    [server] = parse_qs(urlsplit(scene.url).query)["host"]
    direct = scene.file.read_text()
    with TemporaryDirectory() as folder, pooler(Path(server, SOCKET), Path(folder, SOCKET)):
        scene.file.write_text(direct.replace(quote(server, safe=""), quote(folder, safe="")))
        told = scene.desk.refused("standby", "init", "--yes", "--from", str(scene.file), code=1)
    assert "is reached through a pooler" in told
    assert not has_address(scene.desk)
    scene.file.write_text(direct)
    told = scene.init()
    assert f"Delete {scene.file} now: it holds the password" in " ".join(told.split())


ADDRESSES = (
    "postgresql://ollim:pässwort-7@db.example.org/ollim",
    "POSTGRES://ollim:pässwort-7@localhost:5433/ollim?sslmode=disable",
    "postgresql://ollim:a@b/pässwort-7 with spaces@db/ollim",
    "postgresql:///ollim?host=/run/x&password=pässwort-7",
)

LINES = (
    *((name, "{}") for name in COMMANDS if name not in ("update", "service", "sentinel", "setup")),
    ("{}",),
    ("help", "{}"),
    ("config", "set", "DATABASE_URL", "{}"),
    ("config", "get", "{}"),
    ("reminder", "add", "--at", "tomorrow 9:00", "-m", "call", "{}"),
    ("reminder", "show", "{}"),
    *(("standby", verb, "{}") for verb in ("init", "join", "status", "hand-over", "leave")),
    *(("standby", verb, "--from", "{}") for verb in ("init", "join")),
    *(("standby", verb, "--from={}") for verb in ("init", "join")),
    *(("standby", verb, "--keys", "{}") for verb in ("init", "join")),
    ("standby", "init", "--form", "{}"),
)


CASES = [(line, ADDRESSES[0]) for line in LINES]
CASES += [(line, each) for line in (("{}",), ("standby", "init", "{}")) for each in ADDRESSES[1:]]


@pytest.mark.same_fixtures
@pytest.mark.parametrize(("line", "address"), CASES)
def test_an_address_given_as_an_argument_is_not_shown(
    tmp_path: Path, line: tuple[str, ...], address: str
) -> None:
    answer = Terminal(tmp_path).run(*(word.format(address) for word in line))
    assert "pässwort-7" not in answer.out + answer.err
    if line[0] == "standby" and not {"--keys", "--form"} & {*line}:
        assert answer.code != 0
        assert "is a key, and no command takes it as an argument" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    "word", ["postgresql://db.example.org/ollim", "https://example.org/a?b=c@d", "postgres"]
)
def test_what_holds_no_password_is_shown(tmp_path: Path, word: str) -> None:
    assert word in Terminal(tmp_path).run("standby", "init", word).err

"""A backup has every byte that it promises, and says what it does not have."""

from __future__ import annotations

import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path, PurePosixPath
from threading import Event, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.features.keeping.backups import NOW, SESSION, Home, everything_below

from ollim_bot.features.keeping.backup import backups_in, opened_backup
from ollim_bot.features.keeping.restore import restore_into
from ollim_bot.kernel.base.errors import OllimError, WriteFailed, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.store.database_errors import Damaged
from ollim_bot.kernel.store.files import SHARED, OsDisk, write_atomically
from ollim_bot.kernel.store.snapshot import Kind, kind_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage

KEYS = [
    *(".env", ".env.old", ".env~", "mcp.json", ".mcp.json", "mcp.json.bak"),
    *("state/token.json", "state/credentials.json", "state/web_token", "state/web_browsers.json"),
    "state/push.json",
    "state/servers/notes/token.json",
    *("state/token.json.corrupt-20261116T090000Z", "state/calendars/work.source.json"),
    *(".claude/settings.json", ".claude/settings.local.json", "skills/mail/.env"),
]
REMADE = [
    *("state/bot.pid", "state/ollim.db", "state/ollim.db-wal", "state/copies/ollim-1.db"),
    *("state/.locks/x", "state/ballast", "state/engine/claude", "state/run_requests/1"),
    *(".git/config", "skills/mine/.git/config", "routine-reminder-spec.md", ".USER.md.tmp"),
    *("state/sessions.json", "state/session_history.jsonl"),
]
TAKEN = [
    *("USER.md", "state/undo/1.json", "state/attachments/a.png", "downloads/a.pdf", "environment"),
    *("state/ollim.db.corrupt-20261116T090000Z", "state/calendars/work.json", "state/heartbeat"),
    *("skills/skills.lock", ".claude/agents/mine.md", "notes/mcp.json.md", "state/last_good/a.md"),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def members(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def shorten_while_read(path: Path) -> Callable[[], None]:
    """Truncates the file as soon as this process has opened it."""

    def is_open(number: str) -> bool:
        try:
            return os.path.samestat(os.fstat(int(number)), path.stat())
        except OSError:
            return False

    def shorten() -> None:
        if any(map(is_open, os.listdir("/dev/fd"))):
            os.truncate(path, 10)

    return shorten


@pytest.mark.parametrize(
    ("names", "kind"), [(KEYS, Kind.KEY), (REMADE, Kind.REMADE), (TAKEN, Kind.TAKEN)]
)
def test_each_file_is_taken_a_key_or_made_anew(names: list[str], kind: Kind) -> None:
    assert {name: kind_of(PurePosixPath(name)) for name in names} == dict.fromkeys(names, kind)


@pytest.mark.real_process
def test_another_program_can_read_it_and_finds_the_manifest_first(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").prepare(has_history=True)
    home.record(SESSION, "of a subagent", f"{SESSION}/subagents/agent-1.jsonl")
    home.record("99999999-2222-4333-8444-555555555555", "of another program")
    report = home.back_up()
    names = members(report.path)
    assert names[0] == "manifest.json"
    assert {"data/state/ollim.db", "data/routines/1a2b3c4d.md", "history.bundle"} <= set(names)
    assert [name for name in names if name.startswith("transcripts/")] == [
        f"transcripts/{SESSION}.jsonl",
        f"transcripts/{SESSION}/subagents/agent-1.jsonl",
    ]
    with tarfile.open(report.path) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        manifest = json.load(file)
    assert manifest["complete"] is True
    assert manifest["made_at"] == NOW.isoformat()
    assert [entry["path"] for entry in manifest["files"]] == names[1:]
    assert report.is_complete
    assert report.path.parent == home.paths.backups()
    assert report.path.name == "ollim-bot-20261116T090000Z.tar.gz"
    assert report.path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(report.path.parent) == [report.path.name]


def test_keys_are_left_out_and_named_unless_they_are_asked_for(home: Home) -> None:
    without = home.back_up()
    assert without.manifest.left_out == (".env", "state/token.json")
    assert not {"data/.env", "data/state/token.json"} & set(members(without.path))
    assert b"secret" not in without.path.read_bytes()
    whole = home.back_up(with_keys=True)
    assert whole.manifest.left_out == ()
    assert {"data/.env", "data/state/token.json"} <= set(members(whole.path))
    assert whole.path.stat().st_mode & 0o777 == 0o600


def test_a_link_is_named_and_not_followed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("far away")
    (home.paths.root / "notes").symlink_to(tmp_path / "outside")
    (home.paths.root / "IDENTITY.md").unlink()
    (home.paths.root / "IDENTITY.md").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(home.paths.root / "pipe")
    report = home.back_up()
    assert report.manifest.links == ("IDENTITY.md", "notes", "pipe")
    assert not [name for name in members(report.path) if "notes" in name or "IDENTITY" in name]


def test_what_cannot_be_read_is_named_and_the_rest_is_there(home: Home) -> None:
    report = home.back_up(check=shorten_while_read(home.write("downloads/long", "x" * 3_000_000)))
    assert not report.is_complete
    assert [gap.path for gap in report.manifest.unread] == ["data/downloads/long"]
    assert "data/routines/1a2b3c4d.md" in members(report.path)
    restored = restore_into(report.path, home.folder / "again")
    assert not restored.manifest.is_complete
    assert not (home.folder / "again" / "downloads").exists()


def test_a_backup_with_a_gap_removes_no_older_one(home: Home) -> None:
    old = home.back_up()
    home.now += timedelta(days=1)
    long = home.write("downloads/long", "x" * 3_000_000)
    assert home.back_up(keep=1, check=shorten_while_read(long)).removed == ()
    assert old.path.exists()


def test_the_newest_complete_ones_of_this_directory_are_kept(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    other = Home(tmp_path / "other").prepare()
    foreign = [other.back_up(folder), home.back_up(folder / "mine.tar.gz")]
    (folder / "ollim-bot-20200101T000000Z.tar.gz").write_bytes(b"not ours")
    made = []
    for _ in range(4):
        home.now += timedelta(days=1)
        made.append(home.back_up(folder, keep=2))
    assert [path.name for path in made[-1].removed] == ["ollim-bot-20261118T090000Z.tar.gz"]
    kept = {path.name for path in folder.iterdir()}
    assert kept == {
        *(report.path.name for report in (*foreign, *made[-2:])),
        "ollim-bot-20200101T000000Z.tar.gz",
    }
    assert [path for path, _ in backups_in(folder, made[0].manifest)] == [
        made[3].path,
        made[2].path,
    ]


def test_nothing_is_written_over(home: Home, tmp_path: Path) -> None:
    taken = tmp_path / "taken.tar.gz"
    taken.write_text("mine")
    with pytest.raises(OllimError, match="exists already"):
        home.back_up(taken)
    assert taken.read_text() == "mine"
    first, second = home.back_up(), home.back_up()
    assert second.path.name == "ollim-bot-20261116T090000Z-2.tar.gz"
    assert first.path.exists()


@pytest.mark.parametrize("place", ["", "state", "new.tar.gz"])
def test_no_place_in_the_data_directory_is_taken(home: Home, place: str) -> None:
    with pytest.raises(WrongInput, match="in the data directory"):
        home.back_up(home.paths.root / place)


def test_a_damaged_database_is_told_and_makes_no_backup(home: Home) -> None:
    (home.paths.state / "ollim.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Damaged):
        home.back_up()
    assert list(home.paths.backups().iterdir()) == []


def test_a_backup_that_is_ended_leaves_nothing(home: Home) -> None:
    def end() -> None:
        raise OllimError("enough")

    with pytest.raises(OllimError, match="enough"):
        home.back_up(check=end)
    assert list(home.paths.backups().iterdir()) == []


def test_what_a_kill_left_is_removed_by_the_next_one(home: Home) -> None:
    folder = home.paths.backups()
    left = folder / ".ollim-bot-backup-dead"
    left.mkdir(parents=True)
    (left / "body").write_bytes(b"half")
    report = home.back_up()
    assert os.listdir(folder) == [report.path.name]


def test_a_folder_that_cannot_be_written_is_told(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((WriteFailed, WrongInput)):
        home.back_up(tmp_path / "file" / "x.tar.gz")


def test_beside_a_running_bot_the_mirrors_are_those_of_the_database(home: Home) -> None:
    """A file that is newer than the copied database would count as an edit after a restore."""
    history = home.paths.session_history.read_bytes()
    home.paths.sessions.write_text("of a commit that came later")
    home.paths.session_history.write_bytes(history + history)
    with single_instance(home.paths.bot_pid):
        report = home.back_up()
    root = home.folder / "again"
    restore_into(report.path, root)
    assert (root / "state" / "sessions.json").read_text() == SESSION
    assert (root / "state" / "session_history.jsonl").read_bytes() == history


def test_what_a_person_wrote_into_a_mirror_of_a_stopped_bot_is_taken(home: Home) -> None:
    home.paths.sessions.write_text("by-hand")
    home.paths.config.unlink(missing_ok=True)
    root = home.folder / "again"
    restore_into(home.back_up().path, root)
    assert (root / "state" / "sessions.json").read_text() == "by-hand"


def test_while_the_bot_writes_the_database_is_of_one_moment(home: Home) -> None:
    """Each commit adds two messages: a copy of one moment has an even number of them."""
    database, done, count = home.open(), Event(), 0

    def say_two(tx: Transaction) -> None:
        for text in (f"{count} a", f"{count} b"):
            tx.messages.add(ChatMessage(MessageId(text), NOW, Author.OWNER, text))

    def talk() -> None:
        nonlocal count
        while not done.is_set():
            database.run(say_two)
            write_atomically(OsDisk(), home.paths.user, f"as of {count}".encode(), SHARED)
            count += 1

    home.write("USER.md", "as of the beginning")
    writer = Thread(target=talk)
    writer.start()
    try:
        reports = [home.back_up() for _ in range(3)]
    finally:
        done.set()
        writer.join()
        database.close()
    for number, report in enumerate(reports):
        root = home.folder / f"again-{number}"
        restore_into(report.path, root)
        with closing(sqlite3.connect(root / "state" / "ollim.db")) as copy:
            found = copy.execute("SELECT count(*) FROM messages").fetchone()[0]
        assert found % 2 == 1, "the one of the beginning and pairs"
        assert (root / "USER.md").read_text().startswith("as of ")


names = st.text("abcÄ é.-_\udcff", min_size=1, max_size=40).filter(
    lambda name: name.strip(".") and not name.startswith(".env")
)
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=4).map("/".join), st.binary(max_size=2000), max_size=6
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_a_restore_gives_back_every_byte(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes]
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    home.paths.root.mkdir()
    for name, content in tree.items():
        path = home.paths.root / "notes" / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError:  # a name is taken by a folder, or too long
            continue
    report = home.back_up(with_keys=True)
    restore_into(report.path, home.folder / "again")
    wanted = {
        name: content
        for name, content in everything_below(home.paths.root).items()
        if kind_of(PurePosixPath(name)) is not Kind.REMADE
    }
    assert everything_below(home.folder / "again") == wanted
    with opened_backup(report.path) as backup:
        assert backup.manifest == report.manifest

"""The files of the leader are in the table with each step, and laid out on every other machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.store.scene import NOW
from tests.postgres.test_steps import until
from tests.postgres_server import new_address

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot_standby.file_layout import (
    NO_FILE,
    AddsPower,
    FileRows,
    FileVersion,
    WaitingFiles,
    is_shared,
    pieces_of,
    version_of,
)
from ollim_bot_standby.postgres.connection import Address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease
from ollim_bot_standby.stored_files import CurrentFiles, Origin, StoredFiles, compare_files

JOB = "reminders/call.md"


def nothing_acts(_: str, __: bytes | None, ___: object) -> bool:
    return False


def programs_act(path: str, _: bytes | None, __: object) -> bool:
    return path.endswith(".sh")


class Disk:
    """A data directory of a machine, which leads or stands by."""

    def __init__(self, root: Path, address: Address) -> None:
        self.address = address
        self.paths = DataPaths(root)
        self.said: list[str] = []
        self.epoch = 0
        self.adds_power: AddsPower = nothing_acts
        prepare_data_directory(self.paths)
        self.files = self.new_files()

    def new_files(self) -> StoredFiles:
        return StoredFiles(self.paths, self.adds_power, self.said.append)

    def write(self, path: str, content: bytes | str) -> Path:
        place = self.paths.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.tmp")
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())
        draft.replace(place)
        return place

    def edit_in_place(self, path: str, content: str) -> None:
        with (self.paths.root / path).open("r+b") as file:
            file.truncate()
            file.write(content.encode())

    def remove(self, path: str) -> None:
        (self.paths.root / path).unlink()

    def read(self, path: str) -> str | None:
        place = self.paths.root / path
        return place.read_text() if place.exists() else None

    def contents(self) -> dict[str, bytes]:
        """All shared files."""
        found = {}
        for folder, _, names in os.walk(self.paths.root):
            for name in names:
                path = Path(folder, name)
                relative = path.relative_to(self.paths.root).as_posix()
                if is_shared(relative) and not path.is_symlink():
                    found[relative] = path.read_bytes()
        return found

    def set_aside(self) -> dict[str, bytes]:
        places = self.paths.set_aside.glob("*/")
        return {
            file.relative_to(place).as_posix(): file.read_bytes()
            for place in places
            for file in place.rglob("*")
            if file.is_file()
        }

    @contextmanager
    def leading(self) -> Iterator[PostgresDatabase]:
        self.files = self.new_files()
        lease = Lease(self.address, self.paths.root.name)
        held = lease.take()
        assert held is not None
        self.epoch = held.epoch
        database = open_postgres(self.address, lambda: NOW, lease=held, files=self.files)
        try:
            yield database
        finally:
            database.close()
            lease.release()
            lease.close()

    def stand_by(self, epoch: int) -> None:
        """Lay out what the leader of this lease has stored."""
        self.files = self.new_files()
        self.follow(epoch)

    def follow(self, epoch: int) -> None:
        database = open_postgres(self.address, lambda: NOW, lease=None)
        try:
            self.files.follow(database.query_rows, epoch)
        finally:
            database.close()


def note(database: PostgresDatabase) -> None:
    database.run(lambda tx: tx.session.put(SessionId("new")))


def stored(database: PostgresDatabase) -> dict[str, bytes]:
    current = database.query_rows(lambda rows: FileRows(rows).current())
    hashes = [each.hash for each in current.values() if each != NO_FILE]
    contents = database.query_rows(lambda rows: FileRows(rows).contents(hashes))
    return {path: contents[each.hash] for path, each in current.items() if each != NO_FILE}


@pytest.fixture
def desk(tmp_path: Path, address: Address) -> Disk:
    return Disk(tmp_path / "desk", address)


@pytest.fixture
def shelf(tmp_path: Path, address: Address) -> Disk:
    return Disk(tmp_path / "shelf", address)


def test_a_step_carries_the_files_that_were_changed_before_it(desk: Disk, shelf: Disk) -> None:
    odd = {"skills/walk/run.sh": b"\xff\x00", "downloads/empty": b"", "tasks.md": b"- [ ] Walk"}
    odd["state/task_ids.json"] = b"{}"
    with desk.leading() as database:
        assert stored(database) == desk.contents() != {}
        for path, content in {JOB: b"Call.", **odd}.items():
            desk.write(path, content)
        (desk.paths.root / "skills/walk/run.sh").chmod(0o755)
        with pytest.raises(ZeroDivisionError):
            database.run(lambda _: 1 // 0)
        assert JOB not in stored(database)
        note(database)
        assert stored(database) == desk.contents()
        assert stored(database)[JOB] == b"Call."
    shelf.stand_by(desk.epoch)
    assert shelf.contents() == desk.contents()
    modes = [os.stat(shelf.paths.root / each).st_mode & 0o777 for each in ("tasks.md", *odd)]
    assert modes == [0o644, 0o755, 0o600, 0o644, 0o600]
    assert shelf.said == []
    with desk.leading() as database:
        desk.write(JOB, "Call mum.")
        desk.remove("downloads/empty")
        note(database)
        assert stored(database) == desk.contents()
        shelf.follow(desk.epoch)
        assert shelf.contents() == desk.contents()
        assert shelf.set_aside() == {}


def test_an_edit_in_place_is_stored_within_a_second_without_a_step(desk: Disk) -> None:
    with desk.leading() as database:
        desk.write(JOB, "Call dad.")
        note(database)
        settled = time.time_ns() + 150_000_000
        until(lambda: time.time_ns() > settled)
        note(database)
        desk.edit_in_place(JOB, "Call mum.")
        database.tidy(is_idle=True)
        assert stored(database)[JOB] == b"Call mum."


def test_keys_and_what_is_of_one_machine_never_enter_the_table(desk: Disk) -> None:
    kept_out = (
        *(".env", ".env.old", "mcp.json", "skills/walk/.env", ".claude/settings.json"),
        *("state/token.json", "state/config.json", "state/set-aside/x/tasks.md", ".gitignore"),
        *(
            "skills/.git/config",
            "reminders/.call.md.tmp",
            "reminders/.call.md.swp",
            "state/attachments",
        ),
    )
    hostile = ("../x.md", "/etc/x.md", "skills/../../x", "", "skills//x", "./x", "a\0.md")
    assert [each for each in (*kept_out, *hostile) if is_shared(each)] == []
    secret = desk.paths.root.parent / "secret.md"
    secret.write_text("secret")
    for path in kept_out[:-1]:
        desk.write(path, "secret")
    (desk.paths.root / JOB).symlink_to(secret)
    with desk.leading() as database:
        assert all(b"secret" not in content for content in stored(database).values())
    assert [JOB in each and "not a regular file" in each for each in desk.said] == [True]


def test_a_hostile_path_in_the_table_leads_nowhere(desk: Disk, shelf: Disk) -> None:
    outside = desk.paths.root.parent / "outside"
    outside.mkdir()
    evil = version_of(b"evil")
    paths = ("../evil.md", f"{outside}/evil.md", ".claude/settings.json", ".env", "skills/a/x.md")
    with desk.leading() as database:
        pieces = list(pieces_of(evil.hash, b"evil"))
        versions = dict.fromkeys(paths, evil)
        database.run_rows(lambda rows: FileRows(rows).put(versions, pieces))
        (shelf.paths.skills / "a").symlink_to(outside)
        shelf.stand_by(desk.epoch)
    assert [*outside.iterdir()] == []
    assert not (shelf.paths.root.parent / "evil.md").exists()
    assert shelf.read("skills/a/x.md") == "evil"
    assert {*shelf.contents()} & {*paths} == {"skills/a/x.md"}
    assert not shelf.paths.env_file.exists()


def test_what_the_old_leader_had_not_stored_is_set_aside_there_and_told(
    desk: Disk, shelf: Disk
) -> None:
    with desk.leading() as database:
        for path in (JOB, "USER.md", "tasks.md", "skills/walk/SKILL.md"):
            desk.write(path, "old")
        note(database)
    shelf.stand_by(desk.epoch)
    # Frozen in this moment: no step follows.
    desk.write(JOB, "mine")
    desk.write("notes.md", "mine too")
    desk.remove("USER.md")
    with shelf.leading() as database:
        shelf.write(JOB, "newer")
        shelf.remove("skills/walk/SKILL.md")
        note(database)
        desk.stand_by(shelf.epoch)
        assert desk.contents() == shelf.contents()
        assert not (desk.paths.skills / "walk").exists()
        assert desk.set_aside() == {JOB: b"mine", "notes.md": b"mine too"}
        [kept] = desk.paths.set_aside.rglob("call.md")
        assert kept.stat().st_mode & 0o777 == 0o600
    [told] = desk.said
    assert "notes.md, reminders/call.md had been changed there by hand" in told
    with desk.leading():
        desk.files.tell_set_aside()
        assert desk.said == [told, told]
        assert desk.contents() == shelf.contents()


def test_files_edited_while_the_only_bot_was_stopped_stay_edited(desk: Disk, shelf: Disk) -> None:
    with desk.leading() as database:
        desk.write(JOB, "old")
        desk.write("tasks.md", "old")
        note(database)
    desk.write(JOB, "mine")
    desk.remove("tasks.md")
    desk.stand_by(desk.epoch)  # after a crash, while its own lease expires
    assert desk.read(JOB) == "mine"
    with desk.leading() as database:
        assert (desk.read(JOB), desk.read("tasks.md")) == ("mine", None)
        assert stored(database) == desk.contents()
    # Another machine that changes no file does not take this away; one that does, does.
    desk.write(JOB, "mine again")
    with shelf.leading():
        pass
    assert shelf.read(JOB) == "mine"
    with desk.leading() as database:
        assert stored(database)[JOB] == b"mine again"
    desk.write(JOB, "too late")
    with shelf.leading() as database:
        shelf.write("tasks.md", "new")
        note(database)
    with desk.leading():
        assert (desk.read(JOB), desk.read("tasks.md")) == ("mine again", "new")
    assert desk.set_aside() == {JOB: b"too late"}


def test_large_files_arrive_in_pieces_before_the_step_that_names_them(
    desk: Disk, shelf: Disk
) -> None:
    picture = os.urandom(5 * 1024 * 1024)
    with desk.leading() as database:
        desk.write("state/attachments/a.png", picture)
        desk.write("downloads/same.png", picture)
        for number in range(300):
            desk.write(f"reminders/r{number}.md", f"{number}")
        note(database)
        assert stored(database) == desk.contents()
        parts = "SELECT count(DISTINCT hash) FROM file_parts"
        before = database.query_rows(lambda rows: rows.number(parts))
        desk.remove("downloads/same.png")
        note(database)
        assert database.query_rows(lambda rows: rows.number(parts)) == before
        shelf.stand_by(desk.epoch)
        assert shelf.contents() == desk.contents()
        desk.remove("state/attachments/a.png")
        note(database)
        assert database.query_rows(lambda rows: rows.number(parts)) == before - 1
        assert compare_files(desk.paths, database.query_rows).unlike == ()
        desk.edit_in_place("reminders/r7.md", "by hand")
        assert compare_files(desk.paths, database.query_rows).unlike == ("reminders/r7.md",)


def test_a_file_that_cannot_be_read_or_written_is_left_out_and_nothing_is_taken_for_removed(
    desk: Disk, shelf: Disk
) -> None:
    with desk.leading() as database:
        desk.write(JOB, "old")
        desk.write("tasks.md", "old")
        note(database)
        desk.write("downloads/huge", b"\0" * (25 * 1024 * 1024 + 1))
        desk.remove(JOB)
        (desk.paths.root / JOB).mkdir()
        note(database)
        assert "downloads/huge" not in stored(database)
        assert any("downloads/huge" in each and "larger than" in each for each in desk.said)
    lost = {"a.md": FileVersion("0" * 64, 5, is_executable=False)}
    with desk.leading() as database:
        database.run_rows(lambda rows: FileRows(rows).put(lost, ()))
    with shelf.leading() as database:
        assert any("a.md" in each and "has not all of it" in each for each in shelf.said)
        note(database)
        database.tidy(is_idle=True)
        current = database.query_rows(lambda rows: FileRows(rows).current())
        assert current["a.md"] == lost["a.md"]
        shelf.write("a.md", "again")
        note(database)
        assert stored(database)["a.md"] == b"again"


class Killed(BaseException):
    pass


PATHS = (JOB, "tasks.md", "skills/a/b.md", "skills/a", "downloads/x")
EDITS = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from((None, "1", "2", "33")), st.booleans()),
    max_size=12,
)


def edit(disk: Disk, path: str, content: str | None) -> None:
    """As a person would: a folder makes room for a file, and a file for a folder."""
    place = disk.paths.root / path
    if place.parent.is_file():
        place.parent.unlink()
    if place.is_dir():
        for each in place.iterdir():
            each.unlink()
        place.rmdir()
    place.unlink(missing_ok=True)
    if content is not None:
        disk.write(path, content)


@settings(
    max_examples=examples(0.3),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    edits=EDITS,
    foreign=st.dictionaries(st.sampled_from(PATHS), st.sampled_from(("2", "own"))),
    die_at=st.integers(0, 12),
)
def test_the_table_is_the_disk_at_the_last_step_and_every_other_disk_becomes_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[str, str | None, bool]],
    foreign: dict[str, str],
    die_at: int,
) -> None:
    folder, address = tmp_path_factory.mktemp("machines"), new_address()
    desk, shelf = Disk(folder / "desk", address), Disk(folder / "shelf", address)
    ever: dict[str, set[bytes]] = {}
    with desk.leading() as database:
        for path, content, is_step in edits:
            edit(desk, path, content)
            if is_step:
                note(database)
                for name, text in desk.contents().items():
                    ever.setdefault(name, set()).add(text)
        database.tidy(is_idle=True)
        assert stored(database) == desk.contents()
        for path, content in foreign.items():
            edit(shelf, path, content)
        own = {
            path: content
            for path, content in shelf.contents().items()
            if path in PATHS
            and content not in (ever.get(path, set()) | {desk.contents().get(path)})
        }
        lay_out_with_kills(shelf, desk.epoch, die_at)
        assert shelf.contents() == desk.contents()
        assert shelf.set_aside() == own
        assert CurrentFiles(shelf.paths).covers(Origin("", 0)) is False


def lay_out_with_kills(disk: Disk, epoch: int, die_at: int) -> None:
    """Stand by, be killed before one of the changes of the disk, and start again."""
    steps = iter(range(die_at))

    def die(_: str, __: Path) -> None:
        if next(steps, None) is None:
            raise Killed

    disk.files = StoredFiles(disk.paths, nothing_acts, disk.said.append, SteppedDisk(OsDisk(), die))
    with suppress(Killed):
        disk.follow(epoch)
    disk.stand_by(epoch)


def test_what_waits_is_kept_from_a_leader_that_starts_again_until_the_owner_refuses_it(
    desk: Disk, shelf: Disk
) -> None:
    old, new = "skills/walk/old.sh", "skills/walk/new.sh"
    with desk.leading() as database:
        desk.write(old, "one")
        note(database)
    shelf.stand_by(desk.epoch)
    shelf.adds_power = programs_act
    with desk.leading() as database:
        desk.write(old, "two")
        desk.write(new, "two")
        note(database)
    for _ in range(2):
        with shelf.leading() as database:
            shelf.write("tasks.md", "- [ ] Walk")
            database.tidy(is_idle=True)
            kept = stored(database)
            assert (shelf.read(old), shelf.read(new)) == ("one", None)
            assert (kept[old], kept[new], kept["tasks.md"]) == (b"two", b"two", b"- [ ] Walk")
    assert [f"another machine has changed {new}, {old}," in each for each in shelf.said] == [True]
    WaitingFiles(shelf.paths).write({})
    with shelf.leading() as database:
        database.tidy(is_idle=True)
        assert stored(database) == shelf.contents()
        assert stored(database)[old] == b"one"
        assert new not in stored(database)
    desk.stand_by(shelf.epoch)
    assert (desk.read(old), desk.read(new)) == ("one", None)


def test_an_edit_of_a_file_that_waits_counts_also_if_no_bot_ran(desk: Disk, shelf: Disk) -> None:
    script = "skills/walk/run.sh"
    with desk.leading() as database:
        desk.write(script, "theirs")
        note(database)
    shelf.adds_power = programs_act
    with shelf.leading():
        pass
    shelf.write(script, "mine")
    with shelf.leading() as database:
        note(database)
        assert stored(database)[script] == b"mine"
    assert WaitingFiles(shelf.paths).read() == {}

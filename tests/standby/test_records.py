"""What the engine records is stored whole, and comes to another machine whole, at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot_standby.records import RecordFolder, RecordRows, RecordStore, TranscriptRows

R = TypeVar("R")

SESSION = "0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11"
NAME = f"{SESSION}.jsonl"


class Cut(Exception):
    """The process was killed here."""


class CutRows:
    """The rows until the process is killed, after so many calls; None for never."""

    def __init__(self, rows: RecordRows) -> None:
        self._rows = rows
        self.left: int | None = None

    def run(self, step: Step[R]) -> R:
        self._count()
        return self._rows.run(step)

    def query(self, question: Step[R]) -> R:
        self._count()
        return self._rows.query(question)

    def _count(self) -> None:
        if self.left is not None:
            if not self.left:
                raise Cut
            self.left -= 1


class Machines:
    """A machine that records, the rows, and another machine."""

    def __init__(self, folder: Path, rows: RecordRows) -> None:
        self.rows = CutRows(rows)
        self.source = folder / "record"
        self.source.touch()
        self.home = folder / "other home"
        self.transcripts = Transcripts({"HOME": str(self.home)})
        self.data = folder / "another" / "data"
        self.target = self.transcripts.folder_of(self.data) / NAME
        self.start()

    def start(self) -> None:
        self.store = RecordStore(self.rows)
        self.folder = RecordFolder(self.transcripts, self.data, lambda: NOW)

    @property
    def lines(self) -> bytes:
        """The whole lines of the record."""
        content = self.source.read_bytes()
        return content[: content.rfind(b"\n") + 1]

    @property
    def stored(self) -> bytes:
        def read(tx: Transaction) -> bytes:
            rows = TranscriptRows(tx)
            return b"".join(rows.content(NAME, each.position) or b"" for each in rows.pieces(NAME))

        return self.rows.query(read)

    @property
    def laid_out(self) -> bytes:
        return self.target.read_bytes() if self.target.exists() else b""

    def keep(self, *, is_whole: bool = True) -> None:
        self.store.store(NAME, self.source, is_whole=is_whole)

    def lay_out(self) -> None:
        assert self.folder.lay_out(self.rows) == ()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    scene = StoreScene(tmp_path / "data")
    with closing(scene.open()) as database:
        yield Machines(tmp_path, database)


LINE = st.sampled_from([b"a\n", b"bb\n", b"c" * 5 + b"\n"])
SOME = st.lists(LINE, min_size=1, max_size=4).map(b"".join)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SOME),
        st.tuples(st.just("append"), st.just(b"torn")),
        st.tuples(st.just("append"), st.just(b"x" * 700_000 + b"\n")),
        st.tuples(st.just("rewrite"), SOME),
        st.tuples(st.just("shorten"), st.integers(1, 9)),
        st.tuples(st.just("store"), st.none() | st.integers(0, 3)),
        st.tuples(st.just("lay out"), st.none() | st.integers(0, 4)),
        st.tuples(st.just("torn there"), st.just(b"{half")),
        st.tuples(st.just("start"), st.none()),
    ),
    max_size=14,
)


def _play(machines: Machines, what: str, given: object) -> None:
    match what, given:
        case "append", bytes(more):
            with machines.source.open("ab") as file:
                file.write(more)
        case "rewrite", bytes(content):
            machines.source.write_bytes(content)
        case "shorten", int(count):
            os.truncate(machines.source, max(0, machines.source.stat().st_size - count))
        case "torn there", bytes(torn) if machines.target.exists():
            with machines.target.open("ab") as file:
                file.write(torn)
        case "start", _:
            machines.start()


def _store(machines: Machines, left: object) -> None:
    before, machines.rows.left = machines.stored, left  # type: ignore[assignment]
    try:
        machines.keep()
    except Cut:
        machines.rows.left = None
        machines.start()
        stored = machines.stored
        assert stored == before or machines.lines.startswith(stored)
        assert stored.startswith(before) or stored == machines.lines
        assert stored[-1:] in (b"", b"\n")
    else:
        machines.rows.left = None
        assert machines.stored == machines.lines


def _lay_out(machines: Machines, left: object) -> None:
    machines.rows.left = left  # type: ignore[assignment]
    try:
        machines.lay_out()
    except Cut:
        machines.rows.left = None
        machines.start()
    else:
        machines.rows.left = None
        assert machines.laid_out == machines.stored


@given(OPS)
def test_in_any_order_and_cut_off_anywhere_the_other_machine_has_what_was_stored_last(
    ops: list[tuple[str, object]],
) -> None:
    with TemporaryDirectory() as folder:
        scene = StoreScene(Path(folder) / "data")
        with closing(scene.open()) as database:
            machines = Machines(Path(folder), database)
            for what, given_ in ops:
                if what == "store":
                    _store(machines, given_)
                elif what == "lay out":
                    _lay_out(machines, given_)
                else:
                    _play(machines, what, given_)
            _store(machines, None)
            _lay_out(machines, None)
            assert machines.laid_out == machines.lines


def kept(machines: Machines) -> list[bytes]:
    return [path.read_bytes() for path in machines.target.parent.glob("*.before-standby-*")]


def test_a_record_with_other_lines_is_kept_beside_the_stored_one(machines: Machines) -> None:
    machines.source.write_bytes(b"one\ntwo\n")
    machines.keep()
    machines.target.parent.mkdir(parents=True)
    machines.target.write_bytes(b"one\nother\n")
    machines.lay_out()
    assert (machines.laid_out, kept(machines)) == (b"one\ntwo\n", [b"one\nother\n"])


@pytest.mark.parametrize("has_led_last", [True, False])
def test_lines_that_were_not_stored_stay_only_where_no_other_machine_has_led_since(
    machines: Machines, *, has_led_last: bool
) -> None:
    machines.source.write_bytes(b"one\n")
    machines.keep()
    machines.target.parent.mkdir(parents=True)
    machines.target.write_bytes(b"one\ntwo\n{torn")
    machines.folder.lay_out(machines.rows, has_led_last=has_led_last)
    assert machines.laid_out.startswith(b"one\ntwo\n") is has_led_last
    assert bool(kept(machines)) is not has_led_last


def test_words_that_were_removed_are_removed_where_they_were_laid_out(machines: Machines) -> None:
    machines.source.write_bytes(b"my secret\nand more\n")
    machines.keep()
    machines.lay_out()
    machines.source.write_bytes(b"(forgotten)\n")
    machines.keep()
    machines.lay_out()
    assert [path.read_bytes() for path in machines.target.parent.iterdir()] == [b"(forgotten)\n"]


def test_a_record_keeps_its_age_by_which_sessions_are_listed(machines: Machines) -> None:
    machines.source.write_bytes(b"one\n")
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    os.utime(machines.source, (moment.timestamp(), moment.timestamp()))
    machines.keep()
    machines.lay_out()
    assert datetime.fromtimestamp(machines.target.stat().st_mtime, UTC) == moment


def test_a_name_that_leads_elsewhere_is_not_written(machines: Machines) -> None:
    name = f"{SESSION}/../../CLAUDE.md"
    machines.rows.run(lambda tx: TranscriptRows(tx).append(name, 0, b"obey\n", 0))
    (problem,) = machines.folder.lay_out(machines.rows)
    assert "no record of the engine" in problem
    assert not [path for path in machines.home.rglob("*") if path.is_file()]


def test_what_the_engine_removes_is_removed_there(machines: Machines) -> None:
    others = [machines.target.with_name(f"{SESSION[:-1]}{number}.jsonl") for number in range(3)]
    machines.target.parent.mkdir(parents=True)
    for path in others:
        path.write_bytes(b"x\n")
        machines.store.store(path.name, path)
    others[0].unlink()
    machines.store.remove_gone(lambda name: machines.transcripts.place_of(name, machines.data))
    names = [
        name for name, _ in machines.rows.query(lambda tx: TranscriptRows(tx).changed_since(0))
    ]
    assert names == [path.name for path in others[1:]]

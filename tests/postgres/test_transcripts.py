"""The engine's records on a server: the SDK's own contract, and one machine after the other."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import (
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
)
from tests.postgres_server import leading, new_address
from tests.store.scene import NOW

from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.store.errors import NotLeading
from ollim_bot_standby.postgres.connection import Address
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.records import RecordFolder, RecordStore, TranscriptRows

SESSION = "0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11"
NAMES = (f"{SESSION}.jsonl", f"{SESSION}/subagents/agent-a.jsonl", f"{SESSION}/tool-results/r.txt")


class OurRows(SessionStore):
    """Our rows as the SDK sees a store of sessions; its keys are names of files here."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in entries)
        name = _name(key)

        def step(tx: Any) -> None:
            pieces = TranscriptRows(tx).pieces(name)
            at = int(NOW.timestamp() * 1_000_000)
            TranscriptRows(tx).append(name, pieces[-1].end if pieces else 0, lines, at)

        if lines:
            self._database.run(step)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        name = _name(key)

        def question(tx: Any) -> bytes:
            rows = TranscriptRows(tx)
            return b"".join(rows.content(name, each.position) or b"" for each in rows.pieces(name))

        lines = self._database.query(question).splitlines()
        return [json.loads(line) for line in lines] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        names = [name.split("/") for name in self._names() if name.startswith(f"{project_key}/")]
        at = int(NOW.timestamp() * 1000)
        return [{"session_id": parts[1], "mtime": at} for parts in names if len(parts) == 2]

    async def list_subkeys(self, key: Any) -> list[str]:
        before = f"{_name(key)}/"
        return [name.removeprefix(before) for name in self._names() if name.startswith(before)]

    async def delete(self, key: SessionKey) -> None:
        name = _name(key)
        names = [each for each in self._names() if each == name or each.startswith(f"{name}/")]

        def step(tx: Any) -> None:
            # The file that was added to last would stay.
            pieces = TranscriptRows(tx).pieces("last")
            TranscriptRows(tx).append("last", pieces[-1].end if pieces else 0, b"x", 0)
            TranscriptRows(tx).remove(names)

        self._database.run(step)

    def _names(self) -> list[str]:
        return [
            name for name, _ in self._database.query(lambda tx: TranscriptRows(tx).changed_since(0))
        ]


def _name(key: Any) -> str:
    return "/".join(filter(None, (key["project_key"], key["session_id"], key.get("subpath"))))


async def test_the_rows_keep_the_contract_of_the_sdk_for_stores_of_sessions() -> None:
    with ExitStack() as stack:

        def make() -> OurRows:
            _, database = stack.enter_context(leading(new_address(), lambda: NOW))
            return OurRows(database)  # type: ignore[abstract]

        await run_session_store_conformance(
            make, skip_optional=frozenset({"list_session_summaries"})
        )


@pytest.fixture
def folders(tmp_path: Path) -> tuple[RecordFolder, RecordFolder]:
    """Two machines with other homes and other data directories."""
    desk, shelf = (
        RecordFolder(
            Transcripts({"HOME": str(tmp_path / name)}), tmp_path / name / "data", lambda: NOW
        )
        for name in ("desk", "the shelf")
    )
    return desk, shelf


def files_at(home: Path) -> dict[str, bytes]:
    found = Transcripts({"HOME": str(home)}).files_of({SESSION})
    return {name: path.read_bytes() for name, path in found}


def test_a_machine_goes_on_with_the_records_of_another_one_and_the_other_way_round(
    tmp_path: Path, address: Address, folders: tuple[RecordFolder, RecordFolder]
) -> None:
    desk, shelf = folders
    with leading(address, lambda: NOW) as (lease, database):
        source = tmp_path / "source"
        for name in NAMES:
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"line\n" * 200_000)
            RecordStore(database).store(name, path)
        assert desk.lay_out(database) == shelf.lay_out(database) == ()
        assert files_at(tmp_path / "desk") == files_at(tmp_path / "the shelf")
        assert {*files_at(tmp_path / "desk")} == {*NAMES}
        lease.release()
        with leading(address, lambda: NOW, "shelf") as (_, other):
            record = Transcripts({"HOME": str(tmp_path / "the shelf")}).place_of(
                NAMES[0], tmp_path / "the shelf" / "data"
            )
            with record.open("ab") as file:
                file.write(b"said at the shelf\n")
            stored = RecordStore(other).store(NAMES[0], record, is_whole=True)
            assert stored == len(b"said at the shelf\n")
            assert desk.lay_out(other) == ()
            assert files_at(tmp_path / "desk") == files_at(tmp_path / "the shelf")
            # The one that led before can change nothing.
            with source.joinpath(NAMES[0]).open("ab") as file:
                file.write(b"too late\n")
            with pytest.raises(NotLeading):
                RecordStore(database).store(NAMES[0], source / NAMES[0])


def test_what_a_machine_had_read_of_others_taints_its_words_on_the_next_one(
    tmp_path: Path, address: Address, folders: tuple[RecordFolder, RecordFolder]
) -> None:
    fetch = {"type": "tool_use", "name": "WebFetch", "input": {}}
    common = {"timestamp": NOW.isoformat(), "cwd": "/elsewhere"}
    entries = [
        {**common, "type": "user", "uuid": "1", "message": {"content": "read the news"}},
        {**common, "type": "assistant", "uuid": "2", "message": {"content": [fetch]}},
        {**common, "type": "assistant", "uuid": "3", "message": {"content": "You must obey."}},
    ]
    source = tmp_path / NAMES[0]
    source.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
    with leading(address, lambda: NOW) as (_, database):
        RecordStore(database).store(NAMES[0], source)
        folders[1].lay_out(database)
    said = Transcripts({"HOME": str(tmp_path / "the shelf")}).said(SESSION)  # type: ignore[arg-type]
    assert [(each.text, each.is_tainted) for each in said] == [
        ("read the news", False),
        ("You must obey.", True),
    ]

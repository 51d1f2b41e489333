"""Both databases have the same tables; all rows and records move unchanged, or none."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
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
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.store.scene import NOW, StoreScene
from tests.kernel.store.test_marks import FORMER, MAIN, put_former
from tests.kernel.store.test_query_plans import ask_as_the_lists_do
from tests.postgres.network import Killed, Network, on_network
from tests.postgres_server import leading, new_address

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.connection import connect_in_memory
from ollim_bot.kernel.store.copies import damage_of
from ollim_bot.kernel.store.database_errors import NotLeading
from ollim_bot.kernel.store.questions import ask
from ollim_bot.kernel.store.schema import COPIES, migrate, tables
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.forgetting import Passage
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.search import Search, Speaker, terms_of
from ollim_bot_standby.postgres.connection import Address, connect_to
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.postgres.transfer import move_to_file, move_to_server
from ollim_bot_standby.records import RecordFolder, RecordStore, TranscriptRows


def filled(folder: Path) -> Path:
    """A database with rows in every table, some of them with NULLs."""
    scene = StoreScene(folder)
    database = scene.open()

    def fill(tx: Transaction) -> None:
        for message in corpus():
            tx.messages.add(message)
        tx.ledger.append(*(LedgerRow(NOW + timedelta(days=day), "noted") for day in range(1100)))

    database.run(fill)
    path = scene.state / "ollim.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in tables():
            if connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]:
                continue
            for number in range(3):
                values = [
                    f"{name} \\u00e9 {number}" if name in table.texts else number + 1
                    for name in table.columns
                ]
                places = ", ".join("?" for _ in values)
                connection.execute(f"INSERT INTO {table.name} VALUES ({places})", values)
    scene.close()
    return path


def searched(tx: Transaction) -> dict[str, list[str]]:
    return found(tx, ("water", "ice cream", "strasse"))


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table.name: connection.execute(
                f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}"
            ).fetchall()
            for table in tables()
        }


def test_rows_and_searches_are_the_same_after_the_way_there_and_back(
    address: Address, tmp_path: Path
) -> None:
    source, target = filled(tmp_path / "before"), tmp_path / "after" / "state" / "ollim.db"
    before = rows_of(source)
    assert all(before.values())
    with leading(address, lambda: NOW) as (_, database):
        counts = move_to_server(source, database, NOW)
        assert counts == {name: len(rows) for name, rows in before.items()}
        with pytest.raises(WriteFailed, match="already"):
            move_to_server(source, database, NOW)
        assert move_to_server(source, database, NOW, replace=True) == counts
        on_server = database.query(searched)
        target.parent.mkdir(parents=True)
        assert move_to_file(database, target, NOW) == counts
        with pytest.raises(WriteFailed, match="already"):
            move_to_file(database, target, NOW)
    assert rows_of(source) == before
    assert rows_of(target) == before
    assert damage_of(target) is None
    assert target.stat().st_mode & 0o777 == 0o600
    assert ask(StoreScene(tmp_path / "after").paths, NOW, searched) == on_server


def test_a_move_that_is_killed_at_any_table_leaves_nothing(
    address: Address, tmp_path: Path
) -> None:
    source, target = filled(tmp_path), tmp_path / "moved.db"
    network = Network(kills=True)
    names = [table.name for table in tables()][::5]
    with on_network(address, network) as database:
        for word in (*(f"INSERT INTO {name} " for name in names), "COMMIT"):
            network.word = word
            with pytest.raises(Killed):
                move_to_server(source, database, NOW)
            assert database.query(lambda tx: tx.ledger.count() + tx.messages.count()) == 0
        counts = move_to_server(source, database, NOW)
        for name in names:
            network.word = f" FROM {name} ORDER BY"
            with pytest.raises(Killed):
                move_to_file(database, target, NOW)
            assert [*tmp_path.glob("*moved*")] == []
        assert move_to_file(database, target, NOW) == counts


WORDS = (
    *("water", "milk", "bread", "call", "dentist", "tomorrow", "Über", "über", "naïve", "naive"),
    *("straße", "STRASSE", "ice-cream", "e-mail", "a.b.c", "3.14", "10k", "I'm", "don’t", "日本語"),
    *("テスト", "café", "cafe\u0301", "snake_case", "½", "²", "Ⅳ", "ﬁne", "x"),
)

SEARCHES = (
    *("water", "wat", "wate milk", '"water milk"', '"call den"', "uber", "strasse", "naive"),
    *("ice cream", '"ice cream"', "email", "e-mail", "a.b", "3.14", "10", "i'm", "don’t", "日本"),
    *("テスト", "cafe", "snake", "case", "1⁄2", "iv", "fine", "absent", "water absent", "x"),
    *("bread bread", '"bread bread"', "tomorrow water call", "dentist caf", "attached"),
)


def corpus() -> list[ChatMessage]:
    chance = random.Random(7)
    authors = (Author.OWNER, Author.ASSISTANT, Author.BACKGROUND)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(150)]
    texts += ["water milk " + "word " * 20_000, "long" * 2000, ""]
    return [
        ChatMessage(
            MessageId(f"m{number}"), NOW + timedelta(minutes=number), chance.choice(authors), text
        )
        for number, text in enumerate(texts)
    ]


def found(tx: Transaction, searches: Sequence[str] = SEARCHES) -> dict[str, list[str]]:
    limits: tuple[dict[str, Any], ...] = (
        {},
        {"limit": 60},
        {"who": Speaker.OWNER},
        {"since": NOW + timedelta(minutes=40), "until": NOW + timedelta(minutes=120)},
    )
    return {
        f"{words} {limit}": [
            each.message.id for each in tx.messages.search(Search(terms_of(words), **limit))
        ]
        for words in searches
        for limit in limits
    }


def test_a_search_finds_the_same_in_the_same_order(address: Address) -> None:
    def fill(tx: Transaction) -> None:
        for message in corpus():
            tx.messages.add(message)
        edited = corpus()[3]
        tx.messages.add(ChatMessage(edited.id, edited.at, edited.author, "water bread edited"))

    store = RepeatingStore(lambda: NOW, is_repeating=False)
    store.run(fill)
    with leading(address, lambda: NOW) as (_, database):
        database.run(fill)
        expected, got = store.query(found), database.query(found)
    different = {
        name: (expected[name], got[name]) for name in expected if expected[name] != got[name]
    }
    assert different == {}
    assert sum(map(len, expected.values())) > 1000


def test_the_lists_and_the_forgetting_of_words_ask_what_both_understand(address: Address) -> None:
    def count_words(tx: Transaction) -> int:
        return sum(tx.texts.count(passage).values())

    passage = Passage.of("water milk")
    with leading(address, lambda: NOW) as (_, database):
        database.run(ask_as_the_lists_do)
        for text in ("Water milk", "bread"):
            message = ChatMessage(MessageId(text), NOW, Author.OWNER, text)
            database.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]
        assert database.query(count_words) == 1
        database.run(lambda tx: tx.texts.forget(passage))
        assert database.query(count_words) == 0
        assert database.query(lambda tx: tx.messages.count()) == 2


def test_both_databases_have_the_same_columns(address: Address) -> None:
    with closing(connect_in_memory()) as memory:
        migrate(memory)
        named = {
            name: {row[1] for row in memory.execute(f"PRAGMA table_info({name})")}
            for (name,) in memory.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("search")
        }
    assert named.keys() - COPIES == {each.name for each in tables()}
    assert all(named[each.name] == set(each.columns) for each in tables())
    with leading(address, lambda: NOW), closing(connect_to(address)) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema()"
        ).fetchall()
    on_server = {name: {row[1] for row in rows if row[0] == name} for name, _ in rows}
    assert {name: on_server[name] for name in on_server.keys() & named.keys()} == named
    assert on_server.keys() - named.keys() == {"lease", "search", "search_state"}


def test_the_marks_of_version_013_on_a_server_are_taken_over_once(address: Address) -> None:
    with leading(address, lambda: NOW) as (_, database):
        database.run(lambda tx: put_former(tx, FORMER))
        database.prepare()
        assert database.query(lambda tx: tx.marks.of(MAIN)) == ("web page", "mail")
        assert len(database.query(lambda tx: tx.marks.left())) == 2


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

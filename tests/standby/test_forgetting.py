"""Words that are to be forgotten are in no row of the server, and on no other machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.standby.scene import StandbyScene
from tests.terminal import Terminal

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot_standby.postgres.connection import connect_to
from ollim_bot_standby.postgres.server import look_at
from ollim_bot_standby.records import RecordStore

SESSION = SessionId("0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11")
WORDS = "the dentist Dr Zahn"


def record_of(terminal: Terminal) -> Path:
    return Transcripts(terminal.environ).folder_of(terminal.paths.root) / f"{SESSION}.jsonl"


def tables_with(scene: StandbyScene, words: str) -> list[str]:
    with closing(connect_to(scene.address)) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        found = []
        for (name,) in names.fetchall():
            rows = connection.execute(
                f"SELECT count(*) FROM {name} AS one WHERE to_jsonb(one)::text LIKE $1"
                f" OR to_jsonb(one)::text LIKE '%' || encode($2, 'hex') || '%'",
                (f"%{words}%", words.encode()),
            ).fetchone()
            found += [str(name)] if rows and rows[0] else []
        return sorted(found)


@pytest.mark.real_process
@pytest.mark.usefixtures("postgres")
def test_forgotten_words_are_nowhere_on_the_server_and_on_the_machine_that_stands_by(
    scene: StandbyScene, shelf: Terminal
) -> None:
    desk, note = scene.desk, f"Ada sees {WORDS} on Monday.\n"
    with scene.leading_store("desk") as database:
        database.run(lambda tx: tx.session.put(SESSION))
        record_of(desk).parent.mkdir(parents=True, exist_ok=True)
        record_of(desk).write_text(f'{{"type":"user","message":{{"content":"{WORDS}"}}}}\n')
        RecordStore(database).store(f"{SESSION}.jsonl", record_of(desk))
    scene.use("desk")
    desk.write("USER.md", f"Likes tea.\n{note}")
    desk.done("reminder", "add", WORDS, "--in", "2h")
    scene.use("shelf")
    shelf.done("config", "set", "timezone", "Europe/Paris")
    assert WORDS in shelf.paths.user.read_text()
    assert {"file_parts", "transcripts"} <= set(tables_with(scene, WORDS))

    scene.use("desk")
    with scene.leading("desk"):
        refused = desk.refused("forget", WORDS, "--everywhere", "--yes", code=1)
        assert "leads. Stop the bot on all machines first" in refused
    told = desk.done("forget", WORDS, "--everywhere", "--yes")
    assert "Forgotten." in told
    assert tables_with(scene, WORDS) == []
    assert desk.paths.user.read_text() == "Likes tea.\n"
    assert look_at(scene.address).closed == ""
    assert "All files are here." in desk.done("standby", "status")
    scene.use("shelf")
    shelf.done("config", "set", "timezone", "Europe/Rome")
    assert shelf.paths.user.read_text() == "Likes tea.\n"
    assert [path for path in shelf.paths.set_aside.rglob("*") if path.is_file()] == []

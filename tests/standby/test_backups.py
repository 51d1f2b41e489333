"""A backup of rows on a server is the same file as ever: it comes back as a file or on a server."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

from tests.postgres.test_transfer import found
from tests.standby.beside import bot_leading
from tests.standby.scene import StandbyScene, env_of, in_file
from tests.standby.test_moving import all_rows
from tests.terminal import Terminal

from ollim_bot.features.keeping.backup import opened_backup
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.copies import AfterReturn
from ollim_bot.kernel.store.opening import settle
from ollim_bot.kernel.store.questions import ask_rows
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot_standby.file_layout import FileRows
from ollim_bot_standby.postgres.database import open_postgres
from ollim_bot_standby.records import TranscriptRows

SESSION = SessionId("0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11")
# The record of a session that began after the backup.
SINCE = "7d1f0c1e-2b5a-4a52-8f5e-1c9a7b3d5e02.jsonl"


def change_on_server(scene: StandbyScene, step: Step[object]) -> None:
    with scene.leading_store("desk") as database:
        database.run(step)


def say_on_server(scene: StandbyScene, text: str) -> None:
    message = ChatMessage(MessageId("since"), scene.desk.now, Author.OWNER, text)
    change_on_server(scene, lambda tx: tx.messages.add(message))


def record_of(terminal: Terminal) -> Path:
    return Transcripts(terminal.environ).folder_of(terminal.paths.root) / f"{SESSION}.jsonl"


def test_a_backup_on_each_machine_has_the_rows_of_the_server(
    scene: StandbyScene, shelf: Terminal
) -> None:
    desk = scene.desk
    with bot_leading(scene, desk, "desk"):
        desk.done("config", "set", "timezone", "Europe/Paris")
        on_server = scene.rows_on_server(all_rows)
        for terminal, name in ((desk, "one"), (shelf, "two")):
            told = terminal.json("backup")
            assert told["complete"]
            with opened_backup(Path(told["path"])) as backup:
                files = [entry.path for entry in backup.manifest.files]
            assert {"data/state/ollim.db", "data/state/config.json"} <= {*files}
            other = scene.machine(name)
            other.done("restore", told["path"], "--accept", "none")
            assert ask_rows(other.paths, all_rows) == on_server
            assert in_file(other, found) == scene.on_server(found)
            assert "Europe/Paris" in other.done("config")


def test_a_backup_comes_back_on_the_server_once_no_machine_leads(
    scene: StandbyScene, shelf: Terminal
) -> None:
    """What was said since is listed, and open deliveries are looked up as after any restore."""
    desk = scene.desk
    desk.write("USER.md", "Likes tea.\n")
    change_on_server(scene, lambda tx: tx.session.put(SESSION))
    record_of(desk).parent.mkdir(parents=True, exist_ok=True)
    record_of(desk).write_text('{"before": 1}\n')
    backup = desk.json("backup")["path"]
    before = scene.rows_on_server(all_rows)
    desk.wait(hours=1)
    with bot_leading(scene, shelf, "shelf"):
        shelf.done("config", "set", "timezone", "Europe/Paris")
        refused = desk.refused("restore", backup, "--accept", "none", code=1)
    assert "shelf leads. Stop the bot on all machines first" in refused
    assert scene.on_server(lambda tx: tx.config.get()).timezone == "Europe/Paris"
    desk.write("USER.md", "Likes coffee.\n")
    say_on_server(scene, "and this was said since")
    record_of(desk).write_text('{"before": 1}\n{"since": 2}\n')
    change_on_server(
        scene,
        lambda tx: TranscriptRows(tx).append(
            f"{SESSION}.jsonl", 0, b'{"since": 2}\n', 0, is_new=True
        ),
    )
    change_on_server(scene, lambda tx: TranscriptRows(tx).append(SINCE, 0, b"{}\n", 0))
    told = desk.done("restore", backup, "--accept", "none")
    assert "and this was said since" in told
    assert scene.rows_on_server(all_rows) == before
    assert desk.paths.user.read_text() == "Likes tea.\n"
    stored = scene.rows_on_server(lambda rows: FileRows(rows).current())["USER.md"]
    assert scene.on_server(lambda tx: TranscriptRows(tx).pieces(SINCE)) == []
    recorded = scene.on_server(lambda tx: TranscriptRows(tx).content(f"{SESSION}.jsonl", 0))
    assert recorded == b'{"before": 1}\n'
    assert record_of(desk).read_bytes() == recorded
    assert stored.hash == hashlib.sha256(b"Likes tea.\n").hexdigest()
    assert env_of(desk)["DATABASE_URL"] == scene.url
    assert not (desk.paths.state / "ollim.db").exists()
    with scene.leading("desk") as lease:
        database = open_postgres(scene.address, lambda: desk.now, lease=lease.held)
        returns: list[AfterReturn] = []
        with closing(database):
            for _ in range(2):
                database.run(lambda tx: settle(tx, None, lambda _, one: returns.append(one)))
    (returned,) = returns
    assert returned.since_backup is not None
    assert returned.since_backup.said == ("and this was said since",)

"""A home directory with a data directory to back up and restore."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kinds import made_once
from tests.left_behind import at_end_of_test
from tests.snapshots import Snapshot

from ollim_bot.features.keeping.backup import BackupReport, write_backup
from ollim_bot.features.keeping.restore import Choose, Restored, restore, take_all
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.journal import open_journal
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
SESSION = SessionId("11111111-2222-4333-8444-555555555555")


@dataclass
class Home:
    """`folder` is the home directory of the owner, and `now` the time of every change."""

    folder: Path
    now: datetime = NOW
    problems: list[str] = field(default_factory=list)

    @property
    def paths(self) -> DataPaths:
        return DataPaths(self.folder / ".ollim-bot")

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.folder)}

    def prepare(self, *, has_history: bool = False) -> Home:
        """Make the data directory with a conversation, its record, a job and keys.

        A history has git run for it, by the backup and the restore too.
        """
        _prepared(self.now, has_history).write(self.paths.root)
        self.record(SESSION, "remembered\n")
        return self

    def fill(self, *, has_history: bool) -> None:
        """Make the data directory for the first time, as the program makes it."""
        prepare_data_directory(self.paths)
        database = self.open()
        database.run(lambda tx: tx.session.put(SESSION))
        created = SessionEvent(SESSION, SessionChange.CREATED, self.now)
        database.run(lambda tx: tx.session_history.append(created))
        database.close()
        self.say("the first words")
        self.write(".env", "DISCORD_TOKEN=secret\n")
        self.write("state/token.json", "{}")
        self.write("routines/1a2b3c4d.md", '---\nid: 1a2b3c4d\ncron: "0 8 * * *"\n---\nWake up.\n')
        if has_history:
            with open_journal(self.paths, on_problem=self.problems.append) as journal:
                journal.prepare()

    def open(self) -> Database:
        database = open_database(
            self.paths,
            lambda: self.now,
            is_holder=True,
            report=lambda problem: self.problems.append(str(problem)),
        )
        at_end_of_test(database.close)
        return database

    def say(self, text: str, author: Author = Author.OWNER) -> None:
        database = self.open()
        message = ChatMessage(MessageId(text), self.now, author, text)
        database.run(lambda tx: tx.messages.add(message))
        database.close()

    def write(self, name: str, text: str) -> Path:
        path = self.paths.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def record(self, session: str, text: str, name: str = "") -> Path:
        key = str(self.paths.root.resolve()).replace("/", "-").replace(".", "-").replace("_", "-")
        folder = self.folder / ".claude" / "projects" / key
        path = folder / (name or f"{session}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def back_up(
        self,
        target: Path | None = None,
        *,
        with_keys: bool = False,
        keep: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> BackupReport:
        return write_backup(
            self.paths,
            self.environment,
            lambda: self.now,
            target=target,
            with_keys=with_keys,
            keep=keep,
            check=check,
        )

    def restore(self, file: Path, choose: Choose = take_all) -> Restored:
        return restore(file, self.paths, self.environment, self.now, choose)


@made_once
def _prepared(now: datetime, has_history: bool) -> Snapshot:
    with TemporaryDirectory() as folder:
        home = Home(Path(folder), now)
        home.fill(has_history=has_history)
        assert home.problems == []
        return Snapshot(home.paths.root)


def everything_below(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder, except for locks and the files of git."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and not {".locks", ".git"} & set(path.relative_to(folder).parts)
        and path.name != "bot.pid"
    }


def manifest_of(files: Iterable[tuple[str, bytes]], /, **fields: object) -> dict[str, object]:
    return {
        "program": "ollim-bot",
        "format": 1,
        "version": "0.12.0",
        "made_at": NOW.isoformat(),
        "zone": "UTC",
        "host": "here",
        "data_directory": "/home/me/.ollim-bot",
        "schema": 0,
        "with_keys": False,
        "left_out": [],
        "links": [],
        "unread": [],
        "files": [
            {
                "path": name,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "mode": 0o600,
                "mtime": 0,
            }
            for name, content in files
        ],
        **fields,
    }


def tar_of(members: Iterable[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    """A tar file as another program would write it."""
    raw = BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
    return raw.getvalue()


def archive_of(
    *members: tarfile.TarInfo | tuple[str, bytes], manifest: dict[str, object] | None = None
) -> bytes:
    """A backup with these members; its manifest is right for them unless another is given."""
    plain = [member for member in members if isinstance(member, tuple)]
    said = manifest_of(plain) if manifest is None else manifest
    head = ("manifest.json", json.dumps(said).encode())
    return gzip.compress(tar_of([head, *members]), 1)

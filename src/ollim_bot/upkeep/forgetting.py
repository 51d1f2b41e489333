"""Forgets words everywhere in a data directory: in files, rows, records, copies and the history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ollim_bot.domain.about_me import is_about_me
from ollim_bot.domain.forgetting import Passage, cut_from_file, without_lines
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import UnsuitableFile, read_file
from ollim_bot.settings import CHANNELS
from ollim_bot.store.copies import copy_database
from ollim_bot.store.errors import Damaged
from ollim_bot.store.file_kinds import Kind, kind_of
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, replace_unchanged
from ollim_bot.store.git_history import HistoryText
from ollim_bot.store.journal import open_journal
from ollim_bot.store.opening import DATABASE, ask, open_database
from ollim_bot.store.snapshot import DATABASE_FILES, MIRROR_FILES, known_sessions
from ollim_bot.store.steps import forget_words
from ollim_bot.upkeep.backup import automatic_folder
from ollim_bot.upkeep.hand_over import MaintenanceKind, maintenance
from ollim_bot.upkeep.instance import single_instance

# A file that is there while the work is unfinished: then a further run does every step.
_UNFINISHED = "forgetting"
_LARGEST = 256 * 1024 * 1024
_NOT_FILES = frozenset((".git", "copies", ".locks"))
_OWN_FILES = frozenset(("bot.pid", "maintenance.json", "ballast", _UNFINISHED, *DATABASE_FILES))
_OF_TABLES = {"messages": "the log", "ledger": "run records", "deliveries": "the log"}
# Words that the program itself writes into its rows.
_RESERVED = frozenset(
    (
        *("agent", *CHANNELS, "false", "forgotten", "none", "null", "owner", "sentinel", "true"),
        *("terminal", "text", "untrusted", "user", "web"),
    )
)
# What no program on this machine can change.
OUT_OF_REACH = (
    "backups that you made",
    "Discord",
    "the server of your phone",
    "the provider of the model",
    "Google and calendars that you subscribed to",
    "other machines, and what you typed in this terminal",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the words are, and how often; `names` has files."""

    name: str
    count: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """`places` can be cleaned; `kept` are files and ids that hold the words and stay."""

    places: tuple[Place, ...]
    kept: tuple[str, ...] = ()
    is_unfinished: bool = False


class Forgetting:
    """One passage, and one data directory that no bot uses; `held_still` makes sure of that.

    `reached` is told the name of each step before it is done: every step can be repeated, so a run
    that was killed at any of them is completed by another one.
    """

    def __init__(
        self,
        paths: DataPaths,
        environment: Mapping[str, str],
        now: datetime,
        passage: Passage,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._paths = paths
        self._now = now
        self._passage = passage
        self._reached = reached
        self._transcripts = Transcripts(environment)
        self._database = paths.state / DATABASE
        self._mark = paths.state / _UNFINISHED
        self._disk = OsDisk()

    def find(self) -> Found:
        """Look for the words in every place; nothing is changed. Raises `OllimError`."""
        _refuse_own_words(self._passage)
        places = [*self._in_files(), *self._in_database(), *self._in_transcripts()]
        versions = HistoryText(self._paths.root).count(self._passage)
        if versions:
            places.append(Place("history", versions))
        copies = [copy for copy in self._copies() if self._is_in_bytes(copy)]
        if copies:
            places.append(Place("automatic copies", len(copies)))
        kept = (*self._unchangeable(), *self._names())
        return Found(tuple(places), kept, self._mark.exists())

    def run(self) -> None:
        """Replace the words everywhere. Raises `OllimError`; then a second run may complete it."""
        self._reached("begin")
        self._mark.touch(mode=0o600)
        self._disk.sync_folder(self._paths.state)
        if self._database.exists():
            self._forget_rows()
            self._reached("copies")
            self._replace_copies()
        self._reached("transcripts")
        for path in self._transcript_files():
            self._clean(path, is_memory=False)
        self._forget_in_history()
        # The files come last: until they are clean, a line is found under its number.
        for relative in self._files():
            self._clean(self._paths.root / relative, is_memory=is_about_me(relative))
            self._rename(relative)
        self._reached("commit")
        open_journal(self._paths, on_problem=lambda _: None).prepare()
        self._reached("end")
        self._mark.unlink(missing_ok=True)

    def _forget_rows(self) -> None:
        try:
            with closing(
                open_database(
                    self._paths,
                    lambda: self._now,
                    is_holder=True,
                    report=lambda _: None,
                )
            ) as database:
                self._reached("rows")
                database.run(lambda tx: forget_words(tx, self._passage))
                self._reached("free pages")
                database.compact()
        except Damaged as damaged:
            raise OllimError(
                f"The bot needs “{self._passage.text}” to read its own records. "
                "Name more of the sentence."
            ) from damaged

    def _replace_copies(self) -> None:
        for path in self._copies():
            path.unlink(missing_ok=True)
        self._reached("new copy")
        copy_database(self._database, self._now)

    def _copies(self) -> list[Path]:
        """The automatic copies, and what a killed copy left behind."""
        folder = self._paths.state / "copies"
        return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []

    def _forget_in_history(self) -> None:
        history = HistoryText(self._paths.root)
        with FileLock(self._paths.lock_of(self._paths.root / ".git")).held():
            self._reached("history")
            history.rewrite(self._passage)
            self._reached("former versions")
            history.prune(self._passage)

    def _in_files(self) -> Iterator[Place]:
        found = [
            f"{relative}:{number}" if numbers else str(relative)
            for relative in sorted(self._files(), key=is_about_me, reverse=True)
            for numbers in [self._lines_of(relative)]
            for number in numbers or [0]
            if numbers or self._would_change(relative)
        ]
        if found:
            yield Place("files", len(found), tuple(found))

    def _lines_of(self, relative: PurePosixPath) -> list[int]:
        """The lines of a file of notes that would go."""
        if not is_about_me(relative):
            return []
        text = self._text(self._paths.root / relative)
        return [] if text is None else self._passage.lines_in(text)

    def _would_change(self, relative: PurePosixPath) -> bool:
        if self._passage.cut_from_name(relative.name) != relative.name:
            return True
        text = self._text(self._paths.root / relative)
        return text is not None and cut_from_file(self._passage, relative.name, text) != text

    def _in_database(self) -> Iterator[Place]:
        if not self._database.exists():
            return
        counts = ask(self._paths, self._now, lambda tx: tx.texts.count(self._passage))
        sums: dict[str, int] = {}
        for table, count in counts.items():
            name = _OF_TABLES.get(table, "other state")
            sums[name] = sums.get(name, 0) + count
        for name in sorted(sums):
            yield Place(name, sums[name])
        if not sums and self._is_in_bytes(self._database):
            yield Place("free pages of the database", 1)

    def _in_transcripts(self) -> Iterator[Place]:
        found = []
        for path in self._transcript_files():
            text = self._text(path)
            if text is not None and cut_from_file(self._passage, path.name, text) != text:
                found.append(str(path))
        if found:
            yield Place("transcripts", len(found))

    def _transcript_files(self) -> list[Path]:
        sessions = known_sessions(self._paths)
        return [*self._transcripts.all_files(self._paths.root, sessions)]

    def _files(self) -> list[PurePosixPath]:
        """Every file below the data directory that may be changed, the notes last."""
        found = []
        for folder, folders, names in os.walk(self._paths.root):
            here = PurePosixPath(Path(folder).relative_to(self._paths.root))
            folders[:] = sorted(name for name in folders if name not in _NOT_FILES)
            for name in sorted(names):
                is_link = Path(folder, name).is_symlink()
                if not is_link and self._is_changeable(here / name):
                    found.append(here / name)
        return sorted(found, key=is_about_me)

    def _is_changeable(self, relative: PurePosixPath) -> bool:
        is_state = relative.parts[0] == "state"
        if is_state and relative.name in (MIRROR_FILES | _OWN_FILES):
            return False
        return kind_of(relative) is not Kind.KEY

    def _clean(self, path: Path, *, is_memory: bool) -> None:
        before = self._bytes(path)
        text = None if before is None else _decoded(before)
        if before is None or text is None:
            return
        if is_memory:
            after = without_lines(text, self._passage.lines_in(text))
        else:
            after = cut_from_file(self._passage, path.name, text)
        if after != text:
            self._reached(f"write {path.name}")
            replace_unchanged(self._disk, path, before, after.encode(), PRIVATE)

    def _rename(self, relative: PurePosixPath) -> None:
        name = self._passage.cut_from_name(relative.name)
        if name == relative.name:
            return
        before = self._paths.root / relative
        after = before.with_name(name)
        number = 2
        while after.exists():
            after = before.with_name(f"{Path(name).stem}-{number}{Path(name).suffix}")
            number += 1
        self._reached(f"rename {relative.name}")
        os.rename(before, after)
        self._disk.sync_folder(after.parent)

    def _unchangeable(self) -> Iterator[str]:
        """Files with the words that are no text, or were set aside."""
        for relative in self._files():
            raw = self._bytes(self._paths.root / relative)
            if raw is not None and _decoded(raw) is None and self._passage.raw.search(raw):
                yield str(relative)

    def _names(self) -> Sequence[str]:
        if not self._database.exists():
            return ()
        return ask(self._paths, self._now, lambda tx: tx.texts.names_with(self._passage))

    def _is_in_bytes(self, path: Path) -> bool:
        raw = self._bytes(path)
        return raw is not None and self._passage.raw.search(raw) is not None

    def _text(self, path: Path) -> str | None:
        raw = self._bytes(path)
        return None if raw is None else _decoded(raw)

    def _bytes(self, path: Path) -> bytes | None:
        try:
            return read_file(path, _LARGEST)
        except (FileNotFoundError, UnsuitableFile):
            return None
        except OSError as refused:
            raise OllimError(f"{path}: {refused.strerror}. Nothing was changed there.") from refused


@contextmanager
def held_still(paths: DataPaths, now: datetime) -> Iterator[None]:
    """Keep bots, updates and restores away. Raises `AlreadyRunning` or `MaintenanceRunning`."""
    with (
        single_instance(paths.bot_pid, patience=0.2),
        maintenance(paths, MaintenanceKind.FORGETTING, now),
    ):
        yield


def backups_beside(paths: DataPaths) -> Path | None:
    """The folder with automatic backups; None if there is none."""
    folder = automatic_folder(paths)
    return folder if folder.is_dir() and any(folder.iterdir()) else None


def _refuse_own_words(passage: Passage) -> None:
    """Refuse a single word that the program writes into its rows."""
    word = passage.text.lower()
    enums = [*StrEnum.__subclasses__()]
    values = {str(member.value).lower() for kind in enums for member in kind}
    if word in values or word in _RESERVED:
        raise WrongInput(
            f"The bot itself uses the word “{passage.text}”. Name more of the sentence."
        )


def _decoded(raw: bytes) -> str | None:
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None

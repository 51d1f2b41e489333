"""Forgets words everywhere in a data directory: in files, rows, records, copies and the history."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ollim_bot.features.about_me.known_lines import is_about_me, without_lines
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import UnsuitableFile, read_file
from ollim_bot.kernel.base.settings import CHANNELS
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.copies import copy_database
from ollim_bot.kernel.store.database_errors import Damaged
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileLock,
    OsDisk,
    replace_unchanged,
    write_atomically,
)
from ollim_bot.kernel.store.journal import SETTINGS, HistoryText, open_journal
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE, ask
from ollim_bot.kernel.store.snapshot import (
    DATABASE_FILES,
    MIRROR_FILES,
    Kind,
    drop_kept_state,
    kind_of,
    known_sessions,
)
from ollim_bot.kernel.store.steps import forget_words
from ollim_bot.kernel.values.forgetting import Passage, cut_from_file

# A file with the words while the work is unfinished: then a further run does every step.
_UNFINISHED = "forgetting"
_STATE = PurePosixPath("state")
_COPIES = ("copies", "before-update")
_OWN_NAMES = frozenset(
    str(path)
    for path in (getattr(DataPaths(Path()), name) for name in dir(DataPaths))
    if isinstance(path, Path)
)
_LARGEST = 256 * 1024 * 1024
_OWN_FILES = frozenset(
    ("bot.pid", "maintenance.json", "ballast", "known_schedule.db", _UNFINISHED, *DATABASE_FILES)
)
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
    """`places` can be cleaned; `kept` are files and ids that hold the words and stay.

    `remotes` are the repositories elsewhere that may have the former history.
    """

    places: tuple[Place, ...]
    kept: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()


class Forgetting:
    """One passage, and one data directory that no bot uses; `maintenance` makes sure of that.

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
        self._is_written_anew = False

    def find(self) -> Found:
        """Look for the words in every place; nothing is changed. Raises `OllimError`."""
        # Refuse a single word that the program writes into its rows.
        word = self._passage.text.lower()
        enums = [*StrEnum.__subclasses__()]
        values = {str(member.value).lower() for kind in enums for member in kind}
        if word in values or word in _RESERVED:
            raise WrongInput(
                f"The bot itself uses the word “{self._passage.text}”. Name more of the sentence."
            )
        history = HistoryText(self._paths.root)
        files, kept = self._in_files()
        transcripts = [path for path in self._transcript_files() if self._cleaned(path)]
        places = [Place("files", len(files), tuple(files))] if files else []
        places += self._in_database()
        places += [Place("transcripts", len(transcripts))] if transcripts else []
        if versions := history.count(self._passage):
            places.append(Place("history", versions))
        copies = [copy for copy in self._copies() if self._is_in_bytes(copy)]
        if copies:
            places.append(Place("automatic copies", len(copies)))
        if self._database.exists():
            kept += ask(self._paths, self._now, lambda tx: tx.texts.names_with(self._passage))
        return Found(tuple(places), tuple(kept), tuple(history.remotes()))

    def run(self) -> None:
        """Replace the words everywhere. Raises `OllimError`; then a second run may complete it."""
        self._reached("begin")
        # The words, as a line is not found any more when its file is clean.
        write_atomically(self._disk, self._mark, self._passage.text.encode(), PRIVATE)
        if self._database.exists():
            self._forget_rows()
            self._reached("copies")
            self._replace_copies()
        self._reached("transcripts")
        for path in self._transcript_files():
            self._clean(path)
        for relative in self._entries():
            if self._is_changeable(relative):
                self._clean(self._paths.root / relative, is_memory=is_about_me(relative))
            # The deepest come first, so a folder is renamed after what is in it.
            self._rename(relative)
        with FileLock(self._paths.lock_of(self._paths.root / ".git")).held():
            self._reached("history")
            is_there = HistoryText(self._paths.root).remove(self._passage)
        self._reached("commit")
        problems: list[str] = []
        journal = open_journal(self._paths, on_problem=problems.append)
        journal.note(self._paths.root, "begin the history anew")
        if is_there and not journal.flush():
            raise OllimError(problems[-1])
        self._is_written_anew = True
        self._reached("end")
        self._mark.unlink(missing_ok=True)

    def _forget_rows(self) -> None:
        try:
            with closing(
                open_database(self._paths, lambda: self._now, is_holder=True, report=lambda _: None)
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
        new = copy_database(self._database, self._now)
        self._reached("old copies")
        for path in self._copies():
            if path != new:
                path.unlink(missing_ok=True)
        drop_kept_state(self._paths)
        if not new.exists():  # the clock went back, and it was taken for the oldest of many
            copy_database(self._database, self._now)

    def _copies(self) -> list[Path]:
        """The automatic copies, and what a killed copy left behind."""
        folders = (self._paths.state / "copies", self._paths.before_update)
        found = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
        return [path for path in (*found, self._paths.known_schedule) if path.is_file()]

    def _in_files(self) -> tuple[list[str], list[str]]:
        """The files that would change, those of notes by line, and those that cannot be changed."""
        found: list[str] = []
        kept: list[str] = []
        for relative in sorted(self._entries(), key=lambda each: (not is_about_me(each), each)):
            path, is_memory = self._paths.root / relative, is_about_me(relative)
            is_changeable = self._is_changeable(relative)
            cleaned = self._cleaned(path, is_memory=is_memory) if is_changeable else None
            if cleaned is not None and is_memory:
                lines = self._passage.lines_in(cleaned[0].decode())
                found += [f"{relative}:{number}" for number in lines]
            elif cleaned is not None or self._new_name(relative) != relative.name:
                found.append(str(relative))
            elif not _is_state(relative, _OWN_FILES) and self._has_words(path):
                # Each commit makes a mirror anew.
                (found if _is_state(relative, MIRROR_FILES) else kept).append(str(relative))
        return found, kept

    def _has_words(self, path: Path) -> bool:
        raw = None if path.is_symlink() else self._bytes(path)
        return raw is not None and self._passage.is_in_bytes(raw)

    def _in_database(self) -> Iterator[Place]:
        if not self._database.exists():
            return
        counts = ask(self._paths, self._now, lambda tx: tx.texts.count(self._passage))
        sums: Counter[str] = Counter()
        for table, count in counts.items():
            sums[_OF_TABLES.get(table, "other state")] += count
        yield from (Place(name, count) for name, count in sorted(sums.items()))
        if not sums and self._is_in_bytes(self._database):
            yield Place("free pages of the database", 1)

    def _transcript_files(self) -> list[Path]:
        sessions = known_sessions(self._paths)
        return [*self._transcripts.all_files(self._paths.root, sessions)]

    def _entries(self) -> list[PurePosixPath]:
        """Every file, link and folder below the data directory, the deepest first."""
        found: list[PurePosixPath] = []
        for folder, folders, names in os.walk(self._paths.root):
            here = PurePosixPath(Path(folder).relative_to(self._paths.root))
            if here.name == ".git":
                is_own = here.parts == (".git",)
                folders[:] = [name for name in folders if is_own and name in SETTINGS]
                names = [name for name in names if is_own and name in SETTINGS]
            found += (here / name for name in (*folders, *names))
            if here == _STATE:
                folders[:] = [name for name in folders if name not in _COPIES]
        return sorted(found, key=lambda each: -len(each.parts))

    def _is_changeable(self, relative: PurePosixPath) -> bool:
        path = self._paths.root / relative
        is_file = path.is_file() and not path.is_symlink()
        is_own = _is_state(relative, MIRROR_FILES | _OWN_FILES)
        return is_file and not is_own and kind_of(relative) is not Kind.KEY

    def _cleaned(self, path: Path, *, is_memory: bool = False) -> tuple[bytes, str] | None:
        """What the file has, and its text without the words; None if it is no text with them."""
        before = self._bytes(path)
        if before is None or b"\0" in before:
            return None
        try:
            text = before.decode()
        except UnicodeDecodeError:
            return None
        if is_memory:
            after = without_lines(text, self._passage.lines_in(text))
        else:
            after = cut_from_file(self._passage, path.name, text)
        return None if after == text else (before, after)

    def _clean(self, path: Path, *, is_memory: bool = False) -> None:
        if (cleaned := self._cleaned(path, is_memory=is_memory)) is not None:
            self._reached(f"write {path.name}")
            replace_unchanged(self._disk, path, cleaned[0], cleaned[1].encode(), PRIVATE)

    def _rename(self, relative: PurePosixPath) -> None:
        name = self._new_name(relative)
        if name == relative.name:
            return
        before = self._paths.root / relative
        after = before.with_name(name)
        number = 2
        while os.path.lexists(after):
            after = before.with_name(f"{Path(name).stem}-{number}{Path(name).suffix}")
            number += 1
        self._reached(f"rename {relative.name}")
        os.rename(before, after)
        self._disk.sync_folder(after.parent)

    def _new_name(self, relative: PurePosixPath) -> str:
        """The name without the words; those that the program gives stay."""
        is_own = relative.parent == _STATE or str(relative) in _OWN_NAMES
        return relative.name if is_own else self._passage.cut_from_name(relative.name)

    def _is_in_bytes(self, path: Path) -> bool:
        """Whether a database may have the words; in former pages, they may follow any letter."""
        raw = self._bytes(path)
        pattern = self._passage.pattern if self._is_written_anew else self._passage.anywhere
        return raw is not None and bool(pattern.search(raw.decode(errors="surrogateescape")))

    def _bytes(self, path: Path) -> bytes | None:
        try:
            return read_file(path, _LARGEST)
        except (FileNotFoundError, UnsuitableFile):
            return None
        except OSError as refused:
            raise OllimError(f"{path}: {refused.strerror}. Nothing was changed there.") from refused


def cut_off_words(paths: DataPaths) -> str:
    """The words that a run was forgetting when it was cut off; empty if none was."""
    mark = paths.state / _UNFINISHED
    return read_file(mark, _LARGEST).decode() if mark.exists() else ""


def _is_state(relative: PurePosixPath, names: Collection[str]) -> bool:
    return relative.parent == _STATE and relative.name in names

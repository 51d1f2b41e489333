"""Examines the database and the state files without changing them, and reports problems."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ollim_bot.kernel.base.errors import NewerFormat, StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.kernel.store.codecs.record_codecs import KNOWN_BROWSERS
from ollim_bot.kernel.store.connection import connect_for_reading
from ollim_bot.kernel.store.copies import damage_of, suspicion_of
from ollim_bot.kernel.store.database_errors import translated
from ollim_bot.kernel.store.file_store import Codec, FormatIsNewer, Malformed
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.mirrors import MirrorAge, events_in, mirror_age
from ollim_bot.kernel.store.opening import BALLAST_FILE
from ollim_bot.kernel.store.questions import DATABASE, look_into, look_into_rows
from ollim_bot.kernel.store.records import MIRRORED, RecordSpec
from ollim_bot.kernel.store.schema import SCHEMA, schema_of
from ollim_bot.kernel.store.session_history import HISTORY_FILE

_PERMISSIONS = "Let the bot's account have it: `sudo chown $USER FILE`."
_UPDATE = "Run `ollim-bot update`."
_START = "Run `ollim-bot` of this version once."
_NAMED = "`ollim-bot config list` shows what counts instead."
_LEFT_OUT = "They stay where they are and harm nothing; `ollim-bot history` shows the others."
_SET_ASIDE = "Stop the bot and mend it, then run `ollim-bot`; else the next start sets it aside."
_MOVE = "Stop the bot, `mv` it away and run `ollim-bot`; else the next start sets it aside."
_BY_HAND = "Nothing is to be done: the next start of `ollim-bot` reads it."
_WITHOUT_INDEX = (
    "It works, and takes longer: `ollim-bot` with a Python whose SQLite has FTS5 is fast."
)
_BALLAST = "Make room (`df -h` shows how much there is); the running bot makes it again."


class StateProblem(NamedTuple):
    """A problem; `is_grave` if content is lost, or ignored as long as the problem lasts."""

    sentence: str
    step: str
    is_grave: bool = True


def database_troubles(paths: DataPaths, now: datetime) -> Iterator[StateProblem]:
    """The problems of the database and its files; none if there is no database."""
    path = paths.state / DATABASE
    if not path.exists():
        return
    try:
        trouble = _of_content(path)
    except StorageError as refused:
        trouble = StateProblem(f"state/{path.name} {refused.reason.rstrip('.')}", _PERMISSIONS)
    if trouble is not None:
        yield trouble
        return
    if suspicion_of(path).exists():
        yield StateProblem(f"state/{path.name} gave an error that a start has to look into", _START)
    if look_into(paths, now, lambda tx: tx.messages.is_indexed) is False:
        told = "SQLite has no full-text search here, so a search compares all messages"
        yield StateProblem(told, _WITHOUT_INDEX, is_grave=False)
    if not (paths.state / BALLAST_FILE).exists():
        told = f"state/{BALLAST_FILE}, the reserve for a full disk, is missing"
        yield StateProblem(told, _BALLAST, is_grave=False)


def database_overview(paths: DataPaths) -> str:
    """The state of a sound database, in a few words."""
    is_there = (paths.state / DATABASE).exists()
    return "whole" if is_there else "none yet; the first start makes it"


def file_troubles(paths: DataPaths, *, is_running: bool) -> Iterator[StateProblem]:
    """State files that cannot be understood, and those that differ from the database."""
    for spec in MIRRORED:
        troubles = list(_of_value(paths.state / spec.file, spec.codec))
        yield from troubles
        if not any(trouble.is_grave for trouble in troubles):
            yield from _of_mirror(paths, spec, is_running=is_running)
    yield from _of_value(paths.web_browsers, KNOWN_BROWSERS)
    path = paths.state / HISTORY_FILE
    try:
        content = OsDisk().read(path, SizeLimit.LOG)
    except FileNotFoundError:
        return
    except OSError as refused:
        yield _unreadable(path, refused)
        return
    # The part after the last line end is being written right now, or is empty.
    if bad := events_in(content[: content.rfind(b"\n") + 1])[1]:
        some = "1 line" if bad == 1 else f"{bad} lines"
        told = f"state/{path.name} has {some} that cannot be read"
        yield StateProblem(told, _LEFT_OUT, is_grave=False)


def state_files(paths: DataPaths) -> int:
    """The number of state files."""
    names = (*(spec.file for spec in MIRRORED), HISTORY_FILE, paths.web_browsers.name)
    return sum((paths.state / name).exists() for name in names)


def _of_content(path: Path) -> StateProblem | None:
    """The problem in the content, if any. Raises `StorageError` if the file cannot be read."""
    if damage := damage_of(path):
        mend = f"Stop the bot, run `touch {shlex.quote(str(suspicion_of(path)))}` and start it: it "
        kept = "keeps what can be read, or goes back to the newest copy."
        return StateProblem(f"state/{path.name} is damaged ({damage})", mend + kept)
    try:
        with closing(connect_for_reading(path)) as connection:
            found = schema_of(connection)
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused
    if found == SCHEMA:
        return None
    numbers = f"(schema {found}; this one knows {SCHEMA})"
    if found > SCHEMA:
        return StateProblem(f"state/{path.name} belongs to a newer ollim-bot {numbers}", _UPDATE)
    told = f"state/{path.name} is not brought up to date yet {numbers}"
    return StateProblem(told, _START, is_grave=False)


def _of_mirror(
    paths: DataPaths, spec: RecordSpec[object], *, is_running: bool
) -> Iterator[StateProblem]:
    age = _age(paths, spec)
    if age is MirrorAge.BY_HAND:
        # A running bot may have rewritten the file between the two readings.
        age = _age(paths, spec)
    if age is MirrorAge.BY_HAND:
        when = "while the bot runs, which does not read it" if is_running else "by hand"
        yield StateProblem(f"state/{spec.file} was changed {when}", _BY_HAND, is_grave=False)
    elif age is MirrorAge.BEHIND and not is_running:
        told = f"state/{spec.file} is older than what the bot knows"
        yield StateProblem(
            told, "Nothing is to be done: the next start of `ollim-bot` writes it.", is_grave=False
        )


def _age(paths: DataPaths, spec: RecordSpec[object]) -> MirrorAge | None:
    """The age of the file; None if the database cannot be read."""
    try:
        content = OsDisk().read(paths.state / spec.file, SizeLimit.STATE)
    except FileNotFoundError:
        content = None
    return look_into_rows(paths, lambda statements: mirror_age(statements, spec.name, content))


def _of_value(path: Path, codec: Codec[Any]) -> Iterator[StateProblem]:
    shown = f"state/{path.name}"
    try:
        _, warnings = codec.decode(OsDisk().read(path, SizeLimit.STATE))
    except FileNotFoundError:
        return
    except OSError as refused:
        yield _unreadable(path, refused)
    except Malformed as malformed:
        yield StateProblem(f"{shown} cannot be understood ({malformed})", _SET_ASIDE)
    except FormatIsNewer as newer:
        reason = NewerFormat(path, newer.found, newer.known).reason.partition(".")[0]
        yield StateProblem(f"{shown} {reason}", f"{_UPDATE[:-1]}, or move the file away.")
    else:
        yield from (StateProblem(f"{shown}: {each}", _NAMED, is_grave=False) for each in warnings)


def _unreadable(path: Path, refused: OSError) -> StateProblem:
    step = _MOVE if isinstance(refused, UnsuitableFile) else _PERMISSIONS
    return StateProblem(f"state/{path.name} cannot be read: {refused.strerror}", step)

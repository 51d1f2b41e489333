"""The calendars in `state/calendars/`: what each holds, where it is read, and what was read last.

A calendar has up to three files of one stem: `<stem>.json` is its `CalendarCopy`, which all parts
that show events read; `<stem>.source.json` is the secret address; `<stem>.ics` is the last good
text. A calendar of Google has the first only; the file `google.sync` has how to ask Google for what
changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.kernel.base.text import slug
from ollim_bot.kernel.store.codecs.plain import Form, JsonFormat, Layout, ValueCodec
from ollim_bot.kernel.store.file_store import (
    FORMAT,
    Codec,
    FileStore,
    FormatIsNewer,
    Malformed,
    StoreProblem,
    parse_json,
    render_json,
    versioned,
)
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileLock,
    OsDisk,
    Stamp,
    remove_durably,
    stamps,
    write_atomically,
)
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent

if TYPE_CHECKING:
    from ollim_bot.kernel.base.paths import DataPaths
    from ollim_bot.kernel.values.ports import Disk

SYNC_FILE = "google.sync"

_COPY = ".json"
_SOURCE = ".source.json"
_TEXT = ".ics"

T = TypeVar("T")

Report = Callable[[StoreProblem], None]


class CalendarSource(NamedTuple):
    """Where a calendar is read: `address`, which is a secret, or `file` in the data directory.

    `etag` and `modified` are those of the text that was read last.
    """

    name: str
    address: str = ""
    file: str = ""
    etag: str = ""
    modified: str = ""


class Stored(NamedTuple):
    """What is stored of a calendar at one moment."""

    source: CalendarSource
    copy: CalendarCopy | None


class CalendarFiles:
    """Reads and changes the files. A change is one step among all threads and processes.

    A file that cannot be understood is set aside, and `report` is told.
    """

    def __init__(
        self, paths: DataPaths, disk: Disk | None = None, report: Report = lambda _: None
    ) -> None:
        self._folder = paths.calendars
        self._lock_path = paths.lock_of(paths.calendars)
        self._disk = disk or OsDisk()
        self._lock = FileLock(self._lock_path)
        self._report = report

    def copies(self) -> tuple[CalendarCopy, ...]:
        """One for each calendar, in the order of their names."""
        found = (self._read(path, _COPIES) for path in self._files(_COPY))
        return tuple(sorted(filter(None, found), key=lambda copy: copy.name.casefold()))

    def sources(self) -> tuple[CalendarSource, ...]:
        """The calendars that are read at an address or from a file, in the order of their names."""
        found = (self._read(path, _SOURCES) for path in self._files(_SOURCE))
        return tuple(sorted(filter(None, found), key=lambda source: source.name.casefold()))

    def troubles(self) -> Iterator[tuple[Path, str]]:
        """The files that cannot be understood or read, each with the reason; nothing is changed."""
        readers = ((_COPY, _copy_of), (_SOURCE, _source_of))
        for ending, decode in readers:
            for path in self._files(ending):
                try:
                    self._read_once(path, decode)
                except UnsuitableFile as unfit:
                    yield path, f"it is {unfit.reason}"
                except FormatIsNewer:
                    yield path, "it was written by a newer ollim-bot"
                except (Malformed, Unreadable) as wrong:
                    yield path, str(wrong)

    def copy(self, name: str) -> CalendarCopy | None:
        return self._read(self._path(name, _COPY), _COPIES)

    def text(self, name: str) -> bytes | None:
        """The last good text of a calendar; None if there is none."""
        try:
            return self._disk.read(self._path(name, _TEXT), SizeLimit.STATE)
        except (FileNotFoundError, UnsuitableFile):
            return None

    def write_copy(self, copy: CalendarCopy) -> None:
        """Store a copy in place of the one with its name."""
        with self._changing():
            self._write(copy.name, _COPY, _copy_bytes(copy))

    def add(self, source: CalendarSource, copy: CalendarCopy, text: bytes) -> None:
        """Store a new calendar, or nothing of it."""
        with self._changing():
            # The source comes first: without it, the copy of a crash could not be removed. Without
            # a text, the next reading asks for all of it.
            self._write(source.name, _SOURCE, _source_bytes(source))
            try:
                self._write(source.name, _COPY, _copy_bytes(copy))
                self._write(source.name, _TEXT, text)
            except StorageError:
                self._remove_all(source.name)
                raise

    def update(
        self, source: CalendarSource, copy: CalendarCopy, text: bytes | None, *, since: Stored
    ) -> CalendarCopy | None:
        """Store what a reading found, and return the copy that is stored then.

        `since` is what was stored when the reading began: a good reading that was stored since is
        kept. `text` is None if it is unchanged. Returns None, and stores nothing, if the calendar
        was removed or replaced since.
        """
        with self._changing():
            known = self._read_once(self._path(source.name, _SOURCE), _source_of)
            if known is None or (known.address, known.file) != (source.address, source.file):
                return None
            stored: CalendarCopy | None = None
            with suppress(Malformed, UnsuitableFile, FormatIsNewer):
                stored = self._read_once(self._path(source.name, _COPY), _copy_of)
            if stored is not None and not _is_same_reading(Stored(known, stored), since):
                return stored
            # The text comes after its copy: events are worked out again only for a new text.
            self._write(source.name, _COPY, _copy_bytes(copy))
            if text is not None:
                self._write(source.name, _TEXT, text)
            # The source comes last: its ETag stands for a text that is stored.
            if source != known:
                self._write(source.name, _SOURCE, _source_bytes(source))
            return copy

    def remove(self, name: str) -> None:
        """Remove all files of a calendar."""
        with self._changing():
            self._remove_all(name)

    def _remove_all(self, name: str) -> None:
        # The source goes last: until then the calendar can be removed again.
        for ending in (_COPY, _TEXT, _SOURCE):
            remove_durably(self._disk, self._path(name, ending))

    def _files(self, ending: str) -> list[Path]:
        found = self._folder.glob(f"[!.]*{ending}")
        return [path for path in found if ending != _COPY or not path.name.endswith(_SOURCE)]

    def _path(self, name: str, ending: str) -> Path:
        folded = name.casefold()
        stem = f"{slug(folded) or 'calendar'}-{zlib.crc32(folded.encode()):08x}"
        return self._folder / f"{stem}{ending}"

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_path.parent.mkdir(exist_ok=True)
        except OSError as refused:
            raise WriteFailed(self._folder, f"could not be made: {refused.strerror}.") from refused
        with self._lock.held():
            yield

    def _write(self, name: str, ending: str, data: bytes) -> None:
        write_atomically(self._disk, self._path(name, ending), data, PRIVATE)

    def _read(self, path: Path, codec: Codec[T]) -> T:
        return FileStore(path, codec, self._lock, disk=self._disk, report=self._report).read()

    def _read_once(self, path: Path, decode: Callable[[bytes], T]) -> T | None:
        try:
            return decode(self._disk.read(path, SizeLimit.STATE))
        except FileNotFoundError:
            return None
        except UnsuitableFile:
            raise
        except OSError as refused:
            reason = f"is there but cannot be read: {refused.strerror}. Mend its permissions."
            raise Unreadable(path, reason) from refused


def _is_same_reading(one: Stored, other: Stored) -> bool:
    """Whether both are of the same good reading; later ones may have failed."""
    return one.source == other.source and _last_good(one.copy) == _last_good(other.copy)


def _last_good(copy: CalendarCopy | None) -> CalendarCopy | None:
    return None if copy is None else copy._replace(problem="", failing_since=None)


def copies_stamp(paths: DataPaths) -> Mapping[str, Stamp]:
    """Differs from an earlier one if a copy was written or removed since."""
    return stamps(paths.calendars.glob(f"*{_COPY}"))


def sources_stamp(paths: DataPaths) -> Mapping[str, Stamp]:
    """Differs from an earlier one if a calendar was subscribed or removed since."""
    return stamps(paths.calendars.glob(f"*{_SOURCE}"))


def readable_copies(paths: DataPaths) -> tuple[CalendarCopy, ...]:
    """The copies of all calendars, of feeds and of Google, in the order of their names.

    None if they cannot be read, so that the rest of the day is shown.
    The service that reads the calendars tells the owner of the problem.
    """
    try:
        return CalendarFiles(paths).copies()
    except StorageError:
        return ()


def _day_or_moment(value: object) -> date:
    is_day = isinstance(value, str) and len(value) == len("2026-11-18")
    found: date = _FORMAT.form(date if is_day else datetime)[0](value)
    return found


_DAY_OR_MOMENT: Form = (_day_or_moment, lambda found: found.isoformat())
_FORMAT = JsonFormat(
    {
        CalendarEvent: Layout(
            "event", full=True, forms={"start": _DAY_OR_MOMENT, "end": _DAY_OR_MOMENT}
        )
    },
    other=Layout(full=True),
)


def copy_json(copy: CalendarCopy) -> dict[str, object]:
    """The copy as an object; its events do not repeat the name of the calendar."""
    stored: dict[str, Any] = _FORMAT.write(copy)
    for event in stored["events"]:
        del event["calendar"]
    return stored


def copy_in(stored: dict[str, object]) -> CalendarCopy:
    """Raises `Malformed`."""
    events = stored.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            event["calendar"] = stored.get("name")
    copy = _FORMAT.read(CalendarCopy, stored)
    for each in copy.events:
        if each.all_day in (isinstance(each.start, datetime), isinstance(each.end, datetime)):
            raise Malformed("event.all_day does not fit its start and end")
    return copy


def _copy_bytes(copy: CalendarCopy) -> bytes:
    return render_json({"version": FORMAT} | copy_json(copy))


def _copy_of(raw: bytes) -> CalendarCopy:
    return copy_in(versioned(parse_json(raw)))


def _source_bytes(source: CalendarSource) -> bytes:
    return render_json({"version": FORMAT} | _FORMAT.write(source), indent=2)


def _source_of(raw: bytes) -> CalendarSource:
    return _FORMAT.read(CalendarSource, versioned(parse_json(raw)))


# Both are written with their calendar only.
_COPIES: ValueCodec[CalendarCopy | None] = ValueCodec(lambda: None, _copy_of, lambda _: None)
_SOURCES: ValueCodec[CalendarSource | None] = ValueCodec(lambda: None, _source_of, lambda _: None)

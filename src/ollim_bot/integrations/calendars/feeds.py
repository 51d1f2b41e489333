"""Subscribed calendars: adds and removes them, and reads them again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ollim_bot.domain.calendar import CalendarCopy, free_name, name_problem
from ollim_bot.errors import CalendarFailed, OllimError, WrongInput
from ollim_bot.integrations.calendars.fetching import (
    MOST_BYTES,
    Fetched,
    fetch,
    shown_host,
    web_address,
)
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import UnsuitableFile, read_with_status
from ollim_bot.store.calendars import CalendarFiles, CalendarSource, Stored, copy_in
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.json_fields import parse_object

# For one calendar: fetching it, then computing its instances.
FETCH_SECONDS = 20.0
EXPAND_SECONDS = 60.0
_EXPANSION = "ollim_bot.integrations.calendars.expansion"
_NO_TEXT = "The address answered 304, though it was not asked for changes only."
_TOO_MUCH = "The calendar needs more time or memory to be read than it may have."


# Others wrote it, and the agent sees it: a name is one to three plain words.
_OWN_NAME = re.compile(
    rb"^(?:X-WR-CALNAME|NAME)(?:;[^:\r\n]{0,60})?:([^\r\n]{1,120})\r?$", re.MULTILINE
)
_PLAIN_NAME = re.compile(r"\w[\w'’&.-]{0,19}(?: [\w'’&.-]{1,20}){0,2}")
_BEFORE_EVENTS = 4096


class NewCalendar(NamedTuple):
    """A calendar that was read for the first time: what `CalendarFeeds.add` stores."""

    source: CalendarSource
    copy: CalendarCopy
    text: bytes


class CalendarFeeds:
    """Reads calendars at addresses and from files. May block: not for the event loop.

    Times without a zone are in that of `now`, the owner's. `expand_seconds` is how long a calendar
    may take to be computed.
    """

    def __init__(
        self,
        paths: DataPaths,
        files: CalendarFiles,
        *,
        expand_seconds: float = EXPAND_SECONDS,
    ) -> None:
        self._expand_seconds = expand_seconds
        self._paths = paths
        self._files = files

    def sources(self) -> tuple[CalendarSource, ...]:
        """The subscribed calendars."""
        return self._files.sources()

    def subscribe(self, where: str, name: str | None, now: datetime) -> CalendarCopy:
        """Read the calendar at an address or in a file of the data directory, and store it.

        Raises as `read_new` does; nothing is stored then.
        """
        new = self.read_new(where, name, now)
        self.add(new)
        return new.copy

    def read_new(self, where: str, name: str | None, now: datetime) -> NewCalendar:
        """Read a calendar that is not subscribed yet; nothing is stored.

        Raises `WrongInput` for a wrong name or address, `CalendarFailed` if it cannot be read.
        """
        sources, taken = self._files.sources(), [each.name for each in self._files.copies()]
        taken += [each.name for each in sources]
        if name is not None and (problem := name_problem(name, taken)):
            raise WrongInput(f"{name!r} cannot be the name of a calendar. {problem}.")
        source = self._source(where, name or free_name(taken))
        known = {(each.address, each.file): each.name for each in sources}
        if (there := known.get((source.address, source.file))) is not None:
            raise WrongInput(f"That calendar is there already, as {there}.")
        fetched = self._fetched(source, FETCH_SECONDS)
        if fetched is None:
            raise CalendarFailed(_NO_TEXT)
        if name is None and not name_problem(own := _own_name(fetched.text), taken):
            source = replace(source, name=own)
        origin = source.file or shown_host(source.address)
        copy = self._expanded(CalendarCopy(source.name, origin), fetched.text, now)
        marked = replace(source, etag=fetched.etag, modified=fetched.modified)
        return NewCalendar(marked, copy, fetched.text)

    def add(self, new: NewCalendar) -> None:
        self._files.add(new.source, new.copy, new.text)

    def unsubscribe(self, name: str) -> str:
        """Remove the calendar, and return its name as it was written. Raises `OllimError`."""
        names = [each.name for each in self._files.sources()]
        found = next((each for each in names if each.casefold() == name.casefold()), None)
        if found is None:
            known = "`ollim-bot cal calendars` shows them all."
            raise OllimError(f"There is no subscribed calendar {name}. {known}")
        self._files.remove(found)
        return found

    def refresh(
        self, source: CalendarSource, now: datetime, seconds: float = FETCH_SECONDS
    ) -> CalendarCopy | None:
        """Read the calendar again; a failure is in the `problem` of the copy.

        Returns the copy that is stored then, of this reading or of another that ended before it;
        None if the calendar was removed since. Raises `StorageError`.
        """
        # The text comes last: if it is newer than the rest, that is noticed in the end.
        since = Stored(source, self._files.copy(source.name))
        text = self._files.text(source.name)
        copy = since.copy or CalendarCopy(source.name, source.file or shown_host(source.address))
        asked = source if text is not None else replace(source, etag="", modified="")
        new_text = None
        try:
            fetched = self._fetched(asked, seconds)
            if fetched is not None:
                asked = replace(asked, etag=fetched.etag, modified=fetched.modified)
                new_text = None if fetched.text == text else fetched.text
            content = new_text if new_text is not None else text
            if content is None:
                raise CalendarFailed(_NO_TEXT)
            copy = self._current(copy, content, now, is_new=new_text is not None)
        except CalendarFailed as failed:
            return self._files.update(source, copy.failed(str(failed), now), None, since=since)
        return self._files.update(asked, copy, new_text, since=since)

    def _current(
        self, copy: CalendarCopy, text: bytes, now: datetime, *, is_new: bool
    ) -> CalendarCopy:
        """The copy as of now. An unchanged text is computed again on another day only."""
        is_of_today = (
            copy.as_of is not None
            and copy.zone == str(now.tzinfo)
            and copy.as_of.astimezone(now.tzinfo).date() == now.date()
        )
        if is_new or not is_of_today:
            return self._expanded(copy, text, now)
        return replace(copy, as_of=now.replace(microsecond=0), problem="", failing_since=None)

    def _source(self, where: str, name: str) -> CalendarSource:
        if "://" in where:
            return CalendarSource(name, address=web_address(where))
        root = self._paths.root.resolve()
        # A name from the data directory, or a path as typed elsewhere.
        path = Path(os.path.realpath(root / where))
        if not path.is_relative_to(root) or path.is_relative_to(root / "state"):
            raise WrongInput(f"{where} is not in the data directory. Copy it into {root} first.")
        return CalendarSource(name, file=str(path.relative_to(root)))

    def _fetched(self, source: CalendarSource, seconds: float) -> Fetched | None:
        if source.address:
            return fetch(source.address, source.etag, source.modified, seconds)
        path = self._paths.root / source.file
        try:
            text, status = read_with_status(path, MOST_BYTES)
        except UnsuitableFile as unfit:
            raise CalendarFailed(f"{source.file} is {unfit.reason}.") from None
        except OSError as refused:
            raise CalendarFailed(f"{source.file} cannot be read: {refused.strerror}.") from None
        mark = f"{status.st_mtime_ns}-{status.st_size}"
        return None if mark == source.modified else Fetched(text, modified=mark)

    def _expanded(self, copy: CalendarCopy, text: bytes, now: datetime) -> CalendarCopy:
        command = [sys.executable, "-P", "-m", _EXPANSION]
        command += [copy.name, str(now.tzinfo), now.isoformat()]
        try:
            ran = subprocess.run(
                command,
                input=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._expand_seconds,
                cwd="/",
                env={},
                check=True,
            )
            answer = parse_object(ran.stdout)
            if answer.get("problem"):
                raise CalendarFailed(str(answer["problem"]))
            expanded = copy_in(answer | {"name": copy.name, "origin": copy.origin})
        except (subprocess.SubprocessError, OSError, ValueError, Malformed):
            raise CalendarFailed(_TOO_MUCH) from None
        as_of = now.replace(microsecond=0)
        return replace(expanded, as_of=as_of, zone=str(now.tzinfo))


def _own_name(text: bytes) -> str:
    """The name that the calendar gives itself; empty if it has none that is plain."""
    found = _OWN_NAME.search(text[:_BEFORE_EVENTS].partition(b"BEGIN:VEVENT")[0])
    name = found[1].decode("utf-8", "replace").strip() if found else ""
    return name if _PLAIN_NAME.fullmatch(name) else ""

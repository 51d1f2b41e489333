"""Fetches the text of a calendar at its secret address, within limits of time and size.

The address is a secret, and its answers are a stranger's: no sentence here holds a part of the
address, and a redirection may not lead from a public host into the owner's network."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import zlib
from base64 import b64encode
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from ollim_bot.kernel.base.errors import CalendarFailed, OllimError, WrongInput
from ollim_bot.kernel.base.http_exchange import (
    HttpLimits,
    HttpResponse,
    NotHttp,
    ResponseCutOff,
    ResponseTooLarge,
    exchange,
)
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import UnsuitableFile, read_with_status
from ollim_bot.kernel.store.calendar_files import CalendarFiles, CalendarSource, Stored, copy_in
from ollim_bot.kernel.store.file_store import Malformed, parse_object
from ollim_bot.kernel.upkeep.findings import Check, DoctorInput, Found, failed, off, passed, warned
from ollim_bot.kernel.values.calendar import CalendarCopy, age_words, free_name, name_problem
from ollim_bot.kernel.values.pasted_addresses import is_loopback, is_public, written_address

MOST_BYTES = 10_000_000
_REDIRECTIONS = (301, 302, 303, 307, 308)
_MOST_HOPS = 5
_LONGEST_STEP = 10.0
_NO_ADDRESS = "That is not the address of a calendar. It begins with https:// or webcal://."
_TOO_LARGE = f"The calendar is larger than {MOST_BYTES // 1_000_000} MB."
_CUT_OFF = "The calendar is cut off before its end."
_MARK = re.compile(r"[ -~]{1,999}")
_STATUS = {
    401: "The address asks for a password. Use the calendar's secret or published address.",
    403: "The address refuses to be read. It may have been reset: get it anew.",
    404: "There is no calendar at the address any more. It may have been reset: get it anew.",
    410: "There is no calendar at the address any more. It may have been reset: get it anew.",
    429: "The address was asked too often, and answers later.",
}


class Fetched(NamedTuple):
    """The text of a calendar, and what marks this version of it."""

    text: bytes
    etag: str = ""
    modified: str = ""


def web_address(text: str) -> str:
    """The address in the form that is fetched. Raises `WrongInput` for one that never is."""
    address = text.strip()
    scheme, mark, rest = address.partition("://")
    if scheme.lower() in ("webcal", "webcals"):
        address = f"https{mark}{rest}"
    try:
        parts, port = urlsplit(address), urlsplit(address).port
    except ValueError:
        raise WrongInput(_NO_ADDRESS) from None
    is_plain = address.isprintable() and " " not in address and port != 0
    if parts.scheme not in ("https", "http") or not parts.hostname or not is_plain:
        raise WrongInput(_NO_ADDRESS)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise WrongInput("Only https addresses are read. Use the https:// form of the address.")
    return address


def shown_host(address: str) -> str:
    """`calendar.google.com (hidden)`: all that is ever shown of an address."""
    return f"{urlsplit(address).hostname} (hidden)"


def fetch(address: str, etag: str, modified: str, seconds: float) -> Fetched | None:
    """The text at the address; None if it has not changed since `etag` and `modified`.

    Raises `CalendarFailed`.
    """
    deadline = monotonic() + seconds
    hop = address
    try:
        for _ in range(_MOST_HOPS + 1):
            parts = _judged(hop, address)
            answer = exchange(
                "GET",
                parts.geturl(),
                _headers(parts, etag, modified),
                limits=HttpLimits(_LONGEST_STEP, max(0.1, deadline - monotonic()), MOST_BYTES),
                check_peer=partial(_judge, parts.hostname or "", address),
            )
            if answer.status not in _REDIRECTIONS:
                return _fetched(answer)
            hop = urljoin(hop, answer.headers.get("location", ""))
    except (OSError, zlib.error, ValueError) as refused:
        raise CalendarFailed(_in_words(refused)) from None
    raise CalendarFailed("The address redirects too often.")


def _judged(hop: str, address: str) -> SplitResult:
    try:
        parts = urlsplit(web_address(hop))
    except WrongInput:
        raise CalendarFailed("The address redirects to one that is not https.") from None
    host = parts.hostname or ""
    with suppress(ValueError):
        if (written := written_address(host)) is not None:
            _judge(host, address, str(written))
    return parts


def _judge(host: str, address: str, peer: str) -> None:
    """Refuse a host in the own network, unless the owner named it."""
    asked = urlsplit(address).hostname or ""
    if host == asked or is_public(peer) or (is_loopback(peer) and is_loopback(asked)):
        return
    raise CalendarFailed("The address redirects into your own network, which is refused.")


def _headers(parts: SplitResult, etag: str, modified: str) -> dict[str, str]:
    headers = {"Accept": "text/calendar, */*", "Accept-Encoding": "gzip", "User-Agent": "ollim-bot"}
    if etag:
        headers["If-None-Match"] = etag
    if modified:
        headers["If-Modified-Since"] = modified
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    return headers


def _fetched(answer: HttpResponse) -> Fetched | None:
    if answer.status == 304:
        return None
    if answer.status != 200:
        raise CalendarFailed(_STATUS.get(answer.status, f"The address answered {answer.status}."))
    marks = [answer.headers.get(name, "") for name in ("etag", "last-modified")]
    return Fetched(_unpacked(answer), *(each if _MARK.fullmatch(each) else "" for each in marks))


def _unpacked(answer: HttpResponse) -> bytes:
    encoding = answer.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return answer.body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise CalendarFailed("The address answered in a form that cannot be read.")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    text = unpacker.decompress(answer.body, MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise CalendarFailed(_TOO_LARGE)
    if not unpacker.eof:
        raise CalendarFailed(_CUT_OFF)
    return text


def _in_words(refused: Exception) -> str:
    match refused:
        case TimeoutError():
            return "The address did not answer in time."
        case ResponseTooLarge():
            return _TOO_LARGE
        case ResponseCutOff():
            return _CUT_OFF
        case ssl.SSLError():
            return "The address could not be reached safely: its certificate is not accepted."
        case socket.gaierror():
            return "The host of the address was not found. Is this machine online?"
        case OSError() if not isinstance(refused, NotHttp):
            reason = refused.strerror or "the connection ended"
            return f"The address could not be reached: {reason}."
    return "The address did not answer as a web server does."


# For one calendar: fetching it, then computing its instances.
FETCH_SECONDS = 20.0
EXPAND_SECONDS = 60.0
_EXPANSION = "ollim_bot.features.calendars.expansion"
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
        self, paths: DataPaths, files: CalendarFiles, *, expand_seconds: float = EXPAND_SECONDS
    ) -> None:
        self._expand_seconds = expand_seconds
        self._paths = paths
        self._files = files

    def sources(self) -> tuple[CalendarSource, ...]:
        """The subscribed calendars."""
        return self._files.sources()

    def changed_files(self) -> list[CalendarSource]:
        """The subscribed files that are there, and differ from what was read of them last."""
        return [
            each
            for each in self._files.sources()
            if each.file and _version_of(self._paths.root / each.file) not in ("", each.modified)
        ]

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
            source = source._replace(name=own)
        origin = source.file or shown_host(source.address)
        copy = self._expanded(CalendarCopy(source.name, origin), fetched.text, now)
        marked = source._replace(etag=fetched.etag, modified=fetched.modified)
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
        asked = source if text is not None else source._replace(etag="", modified="")
        content, is_new = text, False
        try:
            fetched = self._fetched(asked, seconds)
            if fetched is not None:
                asked = asked._replace(etag=fetched.etag, modified=fetched.modified)
                content, is_new = fetched.text, fetched.text != text
            if content is None:
                raise CalendarFailed(_NO_TEXT)
            copy = self._current(copy, content, now, is_new=is_new)
        except CalendarFailed as failed:
            return self._files.update(source, copy.failed(str(failed), now), None, since=since)
        return self._files.update(asked, copy, content if is_new else None, since=since)

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
        return copy._replace(as_of=now.replace(microsecond=0), problem="", failing_since=None)

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
        mark = _version(status)
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
        return expanded._replace(as_of=as_of, zone=str(now.tzinfo))


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_size}"


def _version_of(path: Path) -> str:
    try:
        return _version(os.stat(path))
    except OSError:
        return ""


def _own_name(text: bytes) -> str:
    """The name that the calendar gives itself; empty if it has none that is plain."""
    found = _OWN_NAME.search(text[:_BEFORE_EVENTS].partition(b"BEGIN:VEVENT")[0])
    name = found[1].decode("utf-8", "replace").strip() if found else ""
    return name if _PLAIN_NAME.fullmatch(name) else ""


_REFRESH = "Run `ollim-bot cal refresh`: it says what is wrong."


def check_calendars(given: DoctorInput) -> Found:
    paths, now = given.data.paths, given.local_now
    files = CalendarFiles(paths)
    troubles = list(files.troubles())
    for path, reason in troubles:
        step = "Run `ollim-bot cal calendars`: it sets the file aside. Then subscribe again."
        yield failed(f"state/calendars/{path.name} cannot be used: {reason}", step)
    if troubles:
        return
    copies, is_running = files.copies(), running_pid(paths.bot_pid) is not None
    for copy in copies:
        if copy.problem:
            yield warned(f"{copy.name} cannot be read: {copy.problem.rstrip('.')}")
        elif is_running and copy.is_stale(now):
            yield warned(f"{copy.name} was not read for long: {age_words(copy, now)}")
        if copy.limits:
            left = "`ollim-bot cal upcoming` shows what is left"
            step = f"{left}; see the rest where the calendar is from."
            yield warned(f"{copy.name}: {copy.limits.rstrip('.')}", step)
    ages = ", ".join(f"{copy.name} {age_words(copy, now)}" for copy in copies)
    yield passed(ages) if ages else off("none; `ollim-bot cal subscribe -` adds one")


CHECKS = (Check("calendars", check_calendars, _REFRESH, place=170),)

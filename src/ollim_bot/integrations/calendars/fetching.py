"""Fetches the text of a calendar at its secret address, within limits of time and size.

The address is a secret, and its answers are a stranger's: no sentence here holds a part of the
address, and a redirection may not lead from a public host into the owner's network.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from threading import Timer
from time import monotonic
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from ollim_bot.domain.ip_addresses import is_loopback, is_public, written_address
from ollim_bot.errors import CalendarFailed, WrongInput

MOST_BYTES = 10_000_000
_REDIRECTIONS = (301, 302, 303, 307, 308)
_MOST_HOPS = 5
_BLOCK = 65536
_LONGEST_STEP = 10.0
_LEGAL = "/%:@!$&'()*+,;=~?-._"
_ONLY_HTTPS = "Only https addresses are read. Use the https:// form of the address."
_NO_ADDRESS = "That is not the address of a calendar. It begins with https:// or webcal://."
_CUT_OFF = "The calendar is cut off before its end."
_SLOW = "The address did not answer in time."
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
        raise WrongInput(_ONLY_HTTPS)
    return address


def shown_host(address: str) -> str:
    """`calendar.google.com (hidden)`: all that is ever shown of an address."""
    return f"{urlsplit(address).hostname} (hidden)"


def fetch(address: str, etag: str, modified: str, seconds: float) -> Fetched | None:
    """The text at the address; None if it is that which the marks stand for.

    Raises `CalendarFailed`.
    """
    deadline = monotonic() + seconds
    hop = address
    try:
        for _ in range(_MOST_HOPS + 1):
            parts = _judged(hop, address)
            with _connected(parts, deadline) as connection:
                _judge_peer(connection, parts, address)
                with closing(_answer(connection, parts, etag, modified)) as answer:
                    if answer.status not in _REDIRECTIONS:
                        return _fetched(answer, deadline)
                    hop = urljoin(hop, answer.headers.get("Location", ""))
    except TimeoutError:
        raise CalendarFailed(_SLOW) from None
    except (CalendarFailed, OSError, HTTPException, zlib.error, ValueError) as refused:
        if monotonic() >= deadline:
            raise CalendarFailed(_SLOW) from None
        if isinstance(refused, CalendarFailed):
            raise
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
            _judge(str(written), host, address)
    return parts


def _judge_peer(connection: HTTPConnection, parts: SplitResult, address: str) -> None:
    """Judge the host once more by where its name led, before anything is sent."""
    _judge(str(connection.sock.getpeername()[0]), parts.hostname or "", address)


def _judge(peer: str, host: str, address: str) -> None:
    asked = urlsplit(address).hostname or ""
    if host == asked or is_public(peer) or (is_loopback(peer) and is_loopback(asked)):
        return
    raise CalendarFailed("The address redirects into your own network, which is refused.")


@contextmanager
def _connected(parts: SplitResult, deadline: float) -> Iterator[HTTPConnection]:
    """An open connection, which is cut at the deadline, also in the middle of a wait."""
    seconds = min(_LONGEST_STEP, max(0.1, deadline - monotonic()))
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            host, port, timeout=seconds, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(host, port, timeout=seconds)
    with closing(connection):
        connection.connect()
        cut = Timer(max(0.1, deadline - monotonic()), _hang_up, (connection.sock,))
        cut.daemon = True
        cut.start()
        try:
            yield connection
        finally:
            cut.cancel()


def _hang_up(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _answer(
    connection: HTTPConnection, parts: SplitResult, etag: str, modified: str
) -> HTTPResponse:
    headers = {"Accept": "text/calendar, */*", "Accept-Encoding": "gzip", "User-Agent": "ollim-bot"}
    if etag:
        headers["If-None-Match"] = etag
    if modified:
        headers["If-Modified-Since"] = modified
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    query = f"?{parts.query}" if parts.query else ""
    connection.request("GET", quote(f"{parts.path or '/'}{query}", safe=_LEGAL), headers=headers)
    return connection.getresponse()


def _fetched(answer: HTTPResponse, deadline: float) -> Fetched | None:
    if answer.status == 304:
        return None
    if answer.status != 200:
        raise CalendarFailed(_STATUS.get(answer.status, f"The address answered {answer.status}."))
    text = _body(answer)
    # A connection that is cut at the deadline looks like one that has ended.
    if monotonic() >= deadline:
        raise TimeoutError
    return Fetched(text, _mark(answer, "ETag"), _mark(answer, "Last-Modified"))


def _mark(answer: HTTPResponse, name: str) -> str:
    value = answer.headers.get(name, "")
    return value if value.isprintable() and value.isascii() and len(value) < 1000 else ""


def _body(answer: HTTPResponse) -> bytes:
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise CalendarFailed("The address answered in a form that cannot be read.")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding != "identity" else None
    expected, received, size = answer.length, 0, 0
    parts: list[bytes] = []
    while part := answer.read1(_BLOCK):
        received += len(part)
        # One byte more than allowed shows that the text is too long, also of a packed one.
        text = unpacker.decompress(part, MOST_BYTES + 1 - size) if unpacker else part
        parts.append(text)
        size += len(text)
        if size > MOST_BYTES or received > MOST_BYTES:
            raise CalendarFailed(f"The calendar is larger than {MOST_BYTES // 1_000_000} MB.")
    if (expected is not None and received < expected) or (unpacker and not unpacker.eof):
        raise CalendarFailed(_CUT_OFF)
    return b"".join(parts)


def _in_words(refused: Exception) -> str:
    if isinstance(refused, IncompleteRead):
        return _CUT_OFF
    if isinstance(refused, ssl.SSLError):
        return "The address could not be reached safely: its certificate is not accepted."
    if isinstance(refused, socket.gaierror):
        return "The host of the address was not found. Is this machine online?"
    if isinstance(refused, OSError):
        return f"The address could not be reached: {refused.strerror or 'the connection ended'}."
    return "The address did not answer as a web server does."

"""Fetches the text of a calendar at its secret address, within limits of time and size.

The address is a secret, and its answers are a stranger's: no sentence here holds a part of the
address, and a redirection may not lead from a public host into the owner's network.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from base64 import b64encode
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from ollim_bot.domain.ip_addresses import is_loopback, is_public, written_address
from ollim_bot.errors import CalendarFailed, WrongInput
from ollim_bot.http_exchange import (
    HttpLimits,
    HttpResponse,
    NotHttp,
    ResponseCutOff,
    ResponseTooLarge,
    exchange,
)

MOST_BYTES = 10_000_000
_REDIRECTIONS = (301, 302, 303, 307, 308)
_MOST_HOPS = 5
_LONGEST_STEP = 10.0
_ONLY_HTTPS = "Only https addresses are read. Use the https:// form of the address."
_NO_ADDRESS = "That is not the address of a calendar. It begins with https:// or webcal://."
_TOO_LARGE = f"The calendar is larger than {MOST_BYTES // 1_000_000} MB."
_CUT_OFF = "The calendar is cut off before its end."
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
    return Fetched(_unpacked(answer), _mark(answer, "etag"), _mark(answer, "last-modified"))


def _mark(answer: HttpResponse, name: str) -> str:
    value = answer.headers.get(name, "")
    return value if value.isprintable() and value.isascii() and len(value) < 1000 else ""


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

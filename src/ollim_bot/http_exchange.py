"""One HTTP request and its response, within limits of time and size.

It uses no proxy and follows no redirect. It blocks: the bot calls it in a thread.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from threading import Timer
from time import monotonic
from urllib.parse import quote, urlsplit

_BLOCK = 65536
_LEGAL = "/%:@!$&'()*+,;=~?-._"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Seconds for each step and for the whole of an exchange, and the most bytes of a body."""

    step: float = 15.0
    whole: float = 60.0
    largest: int = 10_000_000


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The names of the headers are in small letters. The body of a redirect is not read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ResponseLost(OSError):
    """No whole response came, though the server may have carried out the request."""


class ResponseLate(ResponseLost, TimeoutError):
    pass


class ResponseCutOff(ResponseLost):
    pass


class ResponseTooLarge(ResponseLost):
    def __init__(self, status: int) -> None:
        super().__init__("the answer is too large")
        self.status = status


class NotHttp(ResponseLost):
    """What answers does not speak HTTP."""


def exchange(
    method: str,
    address: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    limits: HttpLimits,
    check_peer: Callable[[str], None] | None = None,
) -> HttpResponse:
    """Send one request and read its response; a redirect is a response like any other.

    `check_peer` gets the IP address that the host's name led to, before anything is sent there, and
    raises to refuse it. Raises `ResponseLost`, or another `OSError` if nothing was sent.
    """
    deadline = monotonic() + limits.whole
    parts = urlsplit(address)
    host, is_https = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_https else 80)
    target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), _LEGAL)
    connected = socket.create_connection((host, port), min(limits.step, limits.whole))
    cut = Timer(max(0.0, deadline - monotonic()), lambda: _hang_up(connected))
    cut.daemon = True
    cut.start()
    is_sent = False
    try:
        if check_peer is not None:
            check_peer(str(connected.getpeername()[0]))
        connection = HTTPConnection(host, port)
        if is_https:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            connection = HTTPSConnection(host, port, context=context)
            connected = context.wrap_socket(
                connected, server_hostname=host, do_handshake_on_connect=False
            )
            connected.do_handshake()
        connection.sock = connected
        is_sent = True
        connection.request(method, target, body, {**headers, "Connection": "close"})
        with closing(connection.getresponse()) as response:
            found = _read(response, limits.largest)
        if monotonic() >= deadline:  # a connection that was cut looks like one that has ended
            raise TimeoutError("timed out")
        return found
    except ResponseTooLarge:
        raise
    except (OSError, HTTPException) as failed:
        reason = TimeoutError("timed out") if monotonic() >= deadline else failed
        if not is_sent:
            raise reason from None
        raise _lost(reason) from reason
    finally:
        cut.cancel()
        connected.close()


def _hang_up(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _read(response: HTTPResponse, largest: int) -> HttpResponse:
    blocks: list[bytes] = []
    size = 0
    is_redirect = 300 <= response.status < 400
    while not is_redirect and (block := response.read1(_BLOCK)):
        blocks.append(block)
        size += len(block)
        if size > largest:
            raise ResponseTooLarge(response.status)
    if response.length and not is_redirect:
        raise IncompleteRead(b"", response.length)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return HttpResponse(response.status, headers, b"".join(blocks))


def _lost(reason: OSError | HTTPException) -> ResponseLost:
    match reason:
        case TimeoutError():
            return ResponseLate("timed out")
        case IncompleteRead():
            return ResponseCutOff("the answer broke off")
        case OSError():
            return ResponseLost(*reason.args)
    return NotHttp(str(reason) or type(reason).__name__)

"""One HTTP request and its response, within limits of time and size; or the lines of a long one.

It uses no proxy and follows no redirect. It blocks: the bot calls it in a thread.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from math import inf
from threading import Timer
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

_BLOCK = 65536
# Linux alone tells of an end without reading.
_ENDED: int | None = getattr(select, "POLLRDHUP", None)
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
    with closing(_Call(limits)) as call, call.failing_as_lost():
        with closing(call.response(method, address, headers, body, check_peer)) as response:
            found = _read(response, limits.largest)
        call.require_time()
        return found


class HttpStream:
    """The lines of a response that goes on, each without its end.

    `limits` hold until the response begins; after that at most `between` seconds may pass without a
    byte. A line of more than `longest` bytes is left out and counted in `dropped`. `close` may be
    called from any thread, and ends what waits here.
    """

    def __init__(self, *, limits: HttpLimits, between: float, longest: int) -> None:
        self.dropped = 0
        self._limits = limits
        self._between = between
        self._longest = longest
        self._call = _Call(limits)
        self._response: HTTPResponse | None = None

    def open(self, address: str, headers: Mapping[str, str]) -> HttpResponse:
        """Ask for the lines. The body is read only if the status is not 200.

        Raises as `exchange` does.
        """
        with self._call.failing_as_lost():
            response = self._call.response("GET", address, headers)
            if response.status != 200:
                with closing(response):
                    return _read(response, self._limits.largest)
            self._call.let_run(self._between)
            self._response = response
            return HttpResponse(200, _headers_of(response), b"")

    def lines(self) -> Iterator[bytes]:
        """The lines until the response ends or is closed; raises `ResponseLost` if it breaks."""
        line = bytearray()
        is_too_long = False
        for block in self._blocks():
            first, *rest = block.split(b"\n")
            line += first
            for following in rest:
                if not is_too_long and len(line) <= self._longest:
                    yield bytes(line)
                else:
                    self.dropped += 1
                line, is_too_long = bytearray(following), False
            if len(line) > self._longest:
                line, is_too_long = bytearray(), True

    def is_alive(self) -> bool:
        """Whether the other side has certainly not ended the stream so far."""
        return self._response is not None and self._call.is_alive()

    def close(self) -> None:
        self._call.close()

    def _blocks(self) -> Iterator[bytes]:
        try:
            with self._call.failing_as_lost():
                while self._response is not None and (block := self._response.read1(_BLOCK)):
                    yield block
        except ResponseLost:
            if not self._call.is_closed:
                raise
        finally:
            if self._response is not None:
                self._response.close()


class _Call:
    """One connection and its request. `close` may be called from any thread."""

    def __init__(self, limits: HttpLimits) -> None:
        self.is_closed = False
        self._limits = limits
        self._deadline = monotonic() + limits.whole
        self._cut: Timer | None = None
        self._connected: socket.socket | None = None
        self._is_sent = False

    def response(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        check_peer: Callable[[str], None] | None = None,
    ) -> HTTPResponse:
        parts = urlsplit(address)
        host, is_https = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if is_https else 80)
        target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), _LEGAL)
        within = min(self._limits.step, self._limits.whole)
        self._connected = connected = socket.create_connection((host, port), within)
        self._require_open()
        self._cut = Timer(max(0.0, self._deadline - monotonic()), self._hang_up)
        self._cut.daemon = True
        self._cut.start()
        self._connected = connected
        if check_peer is not None:
            check_peer(str(self._connected.getpeername()[0]))
        connection = HTTPConnection(host, port)
        if is_https:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            connection = HTTPSConnection(host, port, context=context)
            self._connected = context.wrap_socket(
                self._connected, server_hostname=host, do_handshake_on_connect=False
            )
            self._require_open()
            self._connected.do_handshake()
        connection.sock = self._connected
        self._is_sent = True
        connection.request(method, target, body, {**headers, "Connection": "close"})
        return connection.getresponse()

    def let_run(self, between: float) -> None:
        """From now on only the time between two bytes is limited."""
        self._deadline = inf
        if self._cut is not None:
            self._cut.cancel()
        if self._connected is not None:
            self._connected.settimeout(between)

    def is_alive(self) -> bool:
        """Whether the connection has certainly not ended; False where the system cannot tell."""
        if _ENDED is None or self._connected is None or self.is_closed:
            return False
        polling = select.poll()
        polling.register(self._connected, _ENDED)
        return not polling.poll(0)

    def require_time(self) -> None:
        """Raise if the time is over: a connection that was cut looks like one that has ended."""
        if monotonic() >= self._deadline:
            raise TimeoutError("timed out")

    @contextmanager
    def failing_as_lost(self) -> Iterator[None]:
        """Raise failures as `ResponseLost`, or as they are if nothing was sent."""
        try:
            yield
        except ResponseTooLarge:
            raise
        except (OSError, HTTPException) as failed:
            reason = TimeoutError("timed out") if monotonic() >= self._deadline else failed
            if not self._is_sent:
                raise reason from None
            raise _lost(reason) from reason

    def close(self) -> None:
        self.is_closed = True
        if self._cut is not None:
            self._cut.cancel()
        self._hang_up()
        if self._connected is not None:
            self._connected.close()

    def _require_open(self) -> None:
        """Raise if it was closed from another thread before there was a connection to end."""
        if self.is_closed and self._connected is not None:
            self._connected.close()
            raise OSError("closed")

    def _hang_up(self) -> None:
        """End the connection below TLS, whose state belongs to the thread that reads."""
        with suppress(OSError):
            if self._connected is not None:
                socket.socket.shutdown(self._connected, socket.SHUT_RDWR)


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
    return HttpResponse(response.status, _headers_of(response), b"".join(blocks))


def _headers_of(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _lost(reason: OSError | HTTPException) -> ResponseLost:
    match reason:
        case TimeoutError():
            return ResponseLate("timed out")
        case IncompleteRead():
            return ResponseCutOff("the answer broke off")
        case OSError():
            return ResponseLost(*reason.args)
    return NotHttp(str(reason) or type(reason).__name__)


_SHORT = HttpLimits(step=5.0, whole=10.0, largest=1_000_000)


class HttpAnswer(NamedTuple):
    """`said` is None if the body is not JSON; `server` is the name that the server gives itself."""

    status: int
    said: Any
    server: str = ""


Ask = Callable[[str, Mapping[str, str]], HttpAnswer]


def ask(url: str, headers: Mapping[str, str]) -> HttpAnswer:
    """Raises `ConnectionRefusedError` if no program listens, `TimeoutError` if it is too slow.

    Raises another `OSError` if what answers does not speak HTTP.
    """
    answer = exchange("GET", url, headers, limits=_SHORT)
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    return HttpAnswer(answer.status, said, answer.headers.get("server", ""))


def why_not_free(port: int) -> str:
    """Why a program cannot listen at that port; empty if it can."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError as refused:
            return refused.strerror or str(refused)
    return ""

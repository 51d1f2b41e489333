"""HTTP ends in time, takes no more than its limits, and says if it was sent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from time import monotonic

import pytest
from tests.ports import unused_port

from ollim_bot.kernel.base.http_exchange import (
    HttpLimits,
    HttpResponse,
    HttpStream,
    NotHttp,
    ResponseCutOff,
    ResponseLate,
    ResponseLost,
    ResponseTooLarge,
    exchange,
)

LIMITS = HttpLimits(step=5.0, whole=20.0, largest=100)
SHORT = HttpLimits(step=5.0, whole=0.4, largest=100)


@contextmanager
def answering(
    answer: bytes, drips: bytes = b"", *, holds: bool = False
) -> Iterator[tuple[int, list[bytes]]]:
    """A server that sends the answer to its one caller, then one of the drips after the other."""
    received: list[bytes] = []
    over = Event()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                request = connection.recv(65536)
                while request.startswith(b"POST") and not request.endswith(b"{}"):
                    request += connection.recv(65536)
                received.append(request)
                connection.sendall(answer)
                while (drips or holds) and not over.wait(0.02):
                    connection.sendall(drips)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], received
        finally:
            over.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def asked(port: int, limits: HttpLimits = LIMITS, path: str = "/a b?c=%20d") -> HttpResponse:
    return exchange("POST", f"http://127.0.0.1:{port}{path}", {"X-A": "1"}, b"{}", limits=limits)


def test_a_response_comes_with_its_status_headers_and_body() -> None:
    with answering(b"HTTP/1.1 404 No\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n[]") as (
        port,
        got,
    ):
        assert asked(port) == HttpResponse(404, {"retry-after": "3", "content-length": "2"}, b"[]")
    head = got[0].decode()
    assert head.startswith("POST /a%20b?c=%20d HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{port}\r\n" in head


def test_a_redirect_is_not_followed_and_its_body_not_read() -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 999\r\n\r\nx"
    with answering(head, b"x") as (port, _):
        answer = asked(port)
    assert (answer.status, answer.headers["location"]) == (302, "http://127.0.0.1:1/")
    assert answer.body == b""


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (b"", ResponseLost),
        (b"SSH-2.0-OpenSSH_9.6\r\n", NotHttp),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", ResponseCutOff),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", ResponseCutOff),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101, ResponseTooLarge),
    ],
)
def test_a_request_without_a_whole_response_may_have_been_carried_out(
    answer: bytes, lost: type[ResponseLost]
) -> None:
    with answering(answer) as (port, _), pytest.raises(ResponseLost) as raised:
        asked(port)
    assert type(raised.value) is lost


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
    ],
)
def test_a_response_that_comes_drop_by_drop_is_cut_at_the_deadline(head: bytes) -> None:
    with answering(head, b"x") as (port, _), pytest.raises(ResponseLate):
        asked(port, SHORT)


def test_a_request_that_found_no_server_was_certainly_not_sent() -> None:
    with pytest.raises(ConnectionRefusedError):
        asked(unused_port())


def test_a_handshake_that_comes_drop_by_drop_is_cut_and_nothing_was_sent() -> None:
    """Each record of TLS is an alert that only warns, so the handshake would go on."""
    with answering(b"", b"\x15\x03\x01\x00\x02\x01\x5a") as (port, got):
        with pytest.raises(OSError) as raised:  # noqa: PT011
            exchange("GET", f"https://127.0.0.1:{port}/", {"X-A": "secret"}, limits=SHORT)
        assert not isinstance(raised.value, ResponseLost)
        assert b"secret" not in got[0]


def test_a_peer_that_is_refused_gets_nothing() -> None:
    class Refused(Exception):
        pass

    def refuse(peer: str) -> None:
        raise Refused(peer)

    with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n") as (port, got),
        pytest.raises(Refused, match=r"^127\.0\.0\.1$"),
    ):
        exchange("GET", f"http://localhost:{port}/", {}, limits=LIMITS, check_peer=refuse)
    assert got in ([], [b""])


STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(block: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(block), block)


@contextmanager
def opened(port: int, between: float = 5.0) -> Iterator[HttpStream]:
    stream = HttpStream(limits=SHORT, between=between, longest=10)
    with closing(stream):
        assert stream.open(f"http://127.0.0.1:{port}/t/json", {}).status == 200
        yield stream


def test_a_stream_gives_each_line_and_leaves_out_those_that_are_too_long() -> None:
    blocks = (b"one\ntw", b"o\n", b"x" * 11, b"x" * 200_000 + b"\n", b"0123456789\n\nunfinished")
    answer = STREAM + b"".join(map(chunk, (*blocks, b"")))
    with answering(answer) as (port, got), opened(port) as stream:
        assert list(stream.lines()) == [b"one", b"two", b"0123456789", b""]
        assert stream.dropped == 1
    assert got[0].startswith(b"GET /t/json HTTP/1.1\r\n")


def test_a_stream_outlives_the_limits_of_an_exchange_and_is_closed_from_another_thread() -> None:
    seen: list[bytes] = []
    with answering(STREAM, chunk(b"a\n")) as (port, _), opened(port) as stream:
        reading = Thread(target=lambda: seen.extend(stream.lines()))
        reading.start()
        began = monotonic()
        while monotonic() - began < SHORT.whole * 1.5:
            reading.join(0.02)
        so_far = len(seen)
        assert reading.is_alive()
        stream.close()
        reading.join(5.0)
        assert not reading.is_alive()
    assert so_far > 0


def test_a_stream_that_breaks_off_or_falls_silent_is_lost() -> None:
    with (
        answering(STREAM + b"9\r\nabc") as (port, _),
        opened(port) as stream,
        pytest.raises(ResponseCutOff),
    ):
        list(stream.lines())
    with (
        answering(STREAM + chunk(b"a\n"), holds=True) as (port, _),
        opened(port, between=0.05) as stream,
    ):
        lines = stream.lines()
        assert next(lines) == b"a"
        with pytest.raises(ResponseLate):
            next(lines)


def test_a_refused_stream_says_why() -> None:
    head = b"HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\n{}"
    stream = HttpStream(limits=SHORT, between=5.0, longest=10)
    with answering(head) as (port, _), closing(stream):
        assert stream.open(f"http://127.0.0.1:{port}/", {}).body == b"{}"
        assert list(stream.lines()) == []

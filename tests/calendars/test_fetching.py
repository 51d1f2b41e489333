"""Fetching a calendar: within limits, only from where the owner said, and without its address."""

from __future__ import annotations

import gzip
import socket
import zlib
from contextlib import suppress
from threading import Event, Thread

import pytest
from tests.calendars.calendar_server import CalendarAnswer, CalendarServer, ics, served
from tests.ports import unused_port

from ollim_bot.errors import CalendarFailed, WrongInput
from ollim_bot.integrations.calendars.feeds import (
    MOST_BYTES,
    Fetched,
    fetch,
    shown_host,
    web_address,
)

TEXT = ics("DTSTART:20261116T090000Z")


def fetched(server: CalendarServer, etag: str = "", modified: str = "") -> Fetched | None:
    return fetch(server.address(), etag, modified, 20.0)


def failure(address: str, seconds: float = 20.0) -> str:
    with pytest.raises(CalendarFailed) as raised:
        fetch(address, "", "", seconds)
    return str(raised.value)


def test_a_text_comes_with_its_marks_and_is_asked_for_with_them() -> None:
    marks = {"ETag": '"v1"', "Last-Modified": "Mon, 16 Nov 2026 09:00:00 GMT"}

    def answer(_path: str, headers: dict[str, str]) -> CalendarAnswer:
        is_known = headers.get("if-none-match") == '"v1"'
        return CalendarAnswer(304) if is_known else CalendarAnswer(body=TEXT, headers=marks)

    with served(answer) as server:
        found = fetched(server)
        assert found == Fetched(TEXT, marks["ETag"], marks["Last-Modified"])
        assert fetched(server, found.etag, found.modified) is None
    assert server.asked[1][1]["if-modified-since"] == marks["Last-Modified"]


@pytest.mark.parametrize("packed", [gzip.compress(TEXT), zlib.compress(TEXT)])
def test_a_packed_text_is_unpacked(packed: bytes) -> None:
    encoding = "gzip" if packed[:2] == b"\x1f\x8b" else "deflate"
    with served(CalendarAnswer(body=packed, headers={"Content-Encoding": encoding})) as server:
        assert fetched(server) == Fetched(TEXT)


def test_each_failure_is_a_sentence_without_the_address() -> None:
    bomb = gzip.compress(b"x" * (MOST_BYTES + 1))
    packed = {"Content-Encoding": "gzip"}
    answers = {
        "any more": CalendarAnswer(404),
        "a password": CalendarAnswer(401),
        "answered 500": CalendarAnswer(500),
        "answered 206": CalendarAnswer(206, TEXT),
        "larger than 10 MB": CalendarAnswer(body=b"x" * (MOST_BYTES + 1)),
        "is larger than 10 MB": CalendarAnswer(body=bomb, headers=packed),
        "cut off": CalendarAnswer(body=TEXT, length=len(TEXT) + 10),
        "off before": CalendarAnswer(body=gzip.compress(TEXT)[:-20], headers=packed),
        "as a web server does": CalendarAnswer(body=b"not packed", headers=packed),
        "that cannot be read": CalendarAnswer(body=TEXT, headers={"Content-Encoding": "br"}),
        "own network": CalendarAnswer(302, headers={"Location": "https://10.0.0.1/secret.ics"}),
        "your own network": CalendarAnswer(
            302, headers={"Location": "https://[fd00::1]/secret.ics"}
        ),
        "not https": CalendarAnswer(
            302, headers={"Location": "http://calendar.example/secret.ics"}
        ),
        "is not https": CalendarAnswer(302, headers={"Location": "file:///etc/passwd"}),
        "too often": CalendarAnswer(301, headers={"Location": "/again"}),
        "redirects too often": CalendarAnswer(301),
    }
    for words, answer in answers.items():
        with served(answer) as server:
            said = failure(server.address())
        assert words in said
        assert "7f3a" not in said
        assert "secret.ics" not in said


@pytest.mark.parametrize(
    "host",
    ["[64:ff9b::10.0.0.1]", "[2002:c0a8:101::1]", "[::ffff:192.168.1.1]", "[64:ff9b:1::1]", "10.1",
     "0xa9fea9fe", "192.168.1.1.", "[2001:0:1::1]", "224.0.0.1"],
)  # fmt: skip
def test_no_spelling_redirects_into_the_own_network(host: str) -> None:
    with served(CalendarAnswer(302, headers={"Location": f"https://{host}/x"})) as server:
        assert "your own network" in failure(server.address())


def test_a_redirection_on_loopback_is_followed() -> None:
    with (
        served(CalendarAnswer(body=TEXT)) as target,
        served(CalendarAnswer(308, headers={"Location": target.address("/b")})) as server,
    ):
        assert fetched(server) == Fetched(TEXT)
        server.answer = lambda path, _: (
            CalendarAnswer(body=TEXT)
            if path == "/there"
            else CalendarAnswer(303, headers={"Location": "/there"})
        )
        assert fetched(server) == Fetched(TEXT)


def test_an_address_that_does_not_answer_in_time_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/secret.ics"
        assert failure(address, 0.3) == "The address did not answer in time."

    def drip(_path: str, _headers: dict[str, str]) -> CalendarAnswer:
        server.over.wait(20)
        return CalendarAnswer()

    with served(drip) as server:
        assert failure(server.address(), 0.3) == "The address did not answer in time."


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.0 200 OK\r\n\r\nBEGIN",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nBEGIN",
    ],
)
def test_an_answer_that_comes_drop_by_drop_is_given_up(head: bytes) -> None:
    def drip() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(head)
            while not given_up.wait(0.02):
                connection.sendall(b"x")

    given_up = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=drip)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/secret.ics"
        assert failure(address, 0.4) == "The address did not answer in time."
        given_up.set()
        thread.join()


def test_a_chunk_that_is_cut_off_is_said() -> None:
    def cut() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nBEGIN")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=cut)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/secret.ics"
        assert failure(address) == "The calendar is cut off before its end."
        thread.join()


def test_a_closed_port_is_said() -> None:
    said = failure(f"http://127.0.0.1:{unused_port()}/secret.ics")
    assert said == "The address could not be reached: Connection refused."


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        (" webcal://x.org/a.ics ", "https://x.org/a.ics"),
        ("https://x.org/a.ics?k=1", "https://x.org/a.ics?k=1"),
        ("http://localhost:1/a.ics", "http://localhost:1/a.ics"),
        ("http://[::1]:1/a.ics", "http://[::1]:1/a.ics"),
    ],
)
def test_addresses_that_are_fetched(typed: str, address: str) -> None:
    assert web_address(typed) == address


@pytest.mark.parametrize(
    "typed",
    [
        "http://x.org/a.ics",
        "http://127.0.0.1.x.org/a.ics",
        "http://10.0.0.1/a.ics",
        "ftp://x.org/a.ics",
        "https://",
        "https:///a.ics",
        "https://x.org:99999/a.ics",
        "https://[x/a.ics",
        "https://x.org/a b.ics",
        "https://x.org/a\r\nHost: y",
        "x",
    ],
)
def test_addresses_that_are_refused(typed: str) -> None:
    with pytest.raises(WrongInput) as raised:
        web_address(typed)
    assert "a.ics" not in str(raised.value)


def test_only_the_host_of_an_address_is_shown() -> None:
    assert (
        shown_host("https://me:pw@calendar.google.com/ical/secret")
        == "calendar.google.com (hidden)"
    )

"""A local web server whose answers a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

CALENDAR = "BEGIN:VCALENDAR\nVERSION:2.0\n{events}END:VCALENDAR\n"


def ics(*events: str, head: str = "") -> bytes:
    """A calendar whose events are given by their lines."""
    blocks = (
        f"BEGIN:VEVENT\n{_uid(number, lines)}{lines.strip()}\nEND:VEVENT\n"
        for number, lines in enumerate(events)
    )
    return CALENDAR.format(events=head + "".join(blocks)).replace("\n", "\r\n").encode()


def _uid(number: int, lines: str) -> str:
    return "" if lines.startswith("UID:") else f"UID:{number}@x.org\n"


@dataclass
class CalendarAnswer:
    """`body` is sent unchanged. `length` is sent as its length, if it is not the real one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass
class CalendarServer:
    """`answer` gets the path and the headers of each request; `over` is set when the test ends."""

    answer: Callable[[str, dict[str, str]], CalendarAnswer]
    port: int = 0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def address(self, path: str = "/secret-7f3a/basic.ics") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class _Listening(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Print no error: in some tests the client hangs up."""


@contextmanager
def served(
    answer: Callable[[str, dict[str, str]], CalendarAnswer] | CalendarAnswer,
) -> Iterator[CalendarServer]:
    given = answer if callable(answer) else lambda _path, _headers: answer
    server = CalendarServer(given)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.asked.append((self.path, headers))
            answer = server.answer(self.path, headers)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            length = len(answer.body) if answer.length is None else answer.length
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    listening = _Listening(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.port = listening.server_address[1]
    thread = Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        listening.shutdown()
        listening.server_close()
        thread.join()

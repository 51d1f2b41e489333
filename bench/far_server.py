"""A PostgreSQL server at a distance: a proxy in a process of its own that delays and counts.

`python -m bench.far_server SOCKET`: the socket of the true server. Each line of its input is a
command, and each answer is a line.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

_DELAY, _COUNT = "delay", "count"
_QUERY, _EXECUTE = b"Q", b"E"
# A request for encryption, which comes before the first message of a connection.
_ENCRYPTION = (80877103, 80877104)
_CHUNK = 65536


@dataclass(frozen=True)
class Traffic:
    """What went over the network; a round trip is a request for which somebody waits."""

    connections: float = 0
    round_trips: float = 0
    statements: float = 0
    sent: float = 0
    received: float = 0

    def since(self, before: Traffic) -> Traffic:
        return Traffic(**{name: value - vars(before)[name] for name, value in vars(self).items()})

    def of_one(self, times: float) -> Traffic:
        """The same for each of so many actions."""
        return Traffic(**{name: value / times for name, value in vars(self).items()})

    @property
    def bytes(self) -> float:
        return self.sent + self.received


class FarServer:
    """The proxy, as the bench speaks to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._answer())

    @property
    def address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=ollim dbname=postgres"

    @property
    def url(self) -> str:
        return f"postgresql://ollim@127.0.0.1:{self.port}/postgres"

    def is_away(self, round_trip: float) -> None:
        """From now on a round trip takes so many seconds more."""
        self._tell(f"{_DELAY} {round_trip / 2}")

    def traffic(self) -> Traffic:
        return Traffic(**json.loads(self._tell(_COUNT)))

    def _tell(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def far_server(folder: Path) -> Iterator[FarServer]:
    """A proxy before the server whose socket is in `folder`."""
    command = [sys.executable, "-m", __name__, str(folder / ".s.PGSQL.5432")]
    pipe = subprocess.PIPE
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root) as process:
        try:
            yield FarServer(process)
        finally:
            process.terminate()


class _Proxy:
    """Uses threads: an event loop sleeps for whole milliseconds."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.delay = 0.0
        self.counts = dict.fromkeys(vars(Traffic()), 0)

    def accept(self, listening: socket.socket) -> None:
        while True:
            client, _ = listening.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self.counts["connections"] += 1
            noting = _Noting(self.counts)
            self._carry(client, server, noting.request)
            self._carry(server, client, noting.answer)

    def _carry(
        self, source: socket.socket, target: socket.socket, note: Callable[[bytes], None]
    ) -> None:
        under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

        def leave() -> None:
            data = b"-"
            while data:
                with suppress(OSError):
                    data = source.recv(_CHUNK)
                note(data)
                under_way.put((time.monotonic() + self.delay, data))

        def arrive() -> None:
            while True:
                at, data = under_way.get()
                time.sleep(max(0.0, at - time.monotonic()))
                with suppress(OSError):
                    if not data:
                        target.shutdown(socket.SHUT_WR)
                        return
                    target.sendall(data)

        for each in (leave, arrive):
            threading.Thread(target=each, daemon=True).start()


class _Noting:
    """Counts what goes over one connection."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._messages = _ClientMessages()
        self._is_answered = True

    def request(self, data: bytes) -> None:
        if data:
            self._counts["round_trips"] += self._is_answered
            self._is_answered = False
        self._counts["sent"] += len(data)
        self._counts["statements"] += self._messages.statements_in(data)

    def answer(self, data: bytes) -> None:
        self._is_answered = True
        self._counts["received"] += len(data)


class _ClientMessages:
    """Counts the statements in what a client sends, which comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False

    def statements_in(self, data: bytes) -> int:
        self._rest += data
        found = 0
        while (message := self._next()) is not None:
            found += message[:1] in (_QUERY, _EXECUTE)
        return found

    def _next(self) -> bytes | None:
        typed = int(self._has_begun)
        if len(self._rest) < typed + 4:
            return None
        length = typed + int.from_bytes(self._rest[typed : typed + 4])
        if len(self._rest) < length:
            return None
        message, self._rest = self._rest[:length], self._rest[length:]
        if not self._has_begun:
            self._has_begun = int.from_bytes(message[4:8]) not in _ENCRYPTION
            return b""
        return message


def _main(target: str) -> None:
    proxy = _Proxy(target)
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=proxy.accept, args=(listening,), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        if command == _DELAY:
            proxy.delay = float(value)
        print(json.dumps(proxy.counts), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])

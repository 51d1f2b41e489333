"""A pooler before a server, as it looks on the wire: it passes on nothing that is told later."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TOLD = b"A"  # a NotificationResponse


@contextmanager
def pooler(server: Path, place: Path) -> Iterator[None]:
    """Listen at the socket `place` for connections to that of the server."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        threads: list[threading.Thread] = []
        ends: list[socket.socket] = []

        def begin(work: object, *given: object) -> None:
            thread = threading.Thread(target=work, args=given)  # type: ignore[arg-type]
            threads.append(thread)
            thread.start()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    behind = socket.socket(socket.AF_UNIX)
                    behind.connect(str(server))
                    ends.extend((client, behind))
                    begin(_pass_on, client, behind)
                    begin(_pass_on_answers, behind, client)

        begin(accept)
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for each in ends:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for each in ends:
                each.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def _pass_on_answers(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError), server.makefile("rb") as answers:
        while head := answers.read(5):
            kind, length = struct.unpack("!ci", head)
            message = head + answers.read(length - 4)
            if kind != _TOLD:
                client.sendall(message)
        client.shutdown(socket.SHUT_RDWR)

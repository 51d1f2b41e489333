"""What a command and the bot beside it say to each other over a local socket.

One connection is one transaction. The bot greets; the command says whether it reads or changes,
sends its statements, gets their rows, and asks for the commit. Imports nothing slow.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

Frame = dict[str, Any]

# In bytes; in a state file nothing is larger. An answer comes in several frames.
LONGEST_FRAME = 32 * 1024 * 1024
ROWS_IN_FRAME = 200
_LENGTH = struct.Struct(">I")
_READ = 65536
# macOS takes 104 bytes with the one that ends them, Linux 108.
_LONGEST_PATH = 100
_PEER = struct.Struct("3i")
# As in <sys/un.h> of macOS, where a structure begins with its version and the user.
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_XUCRED_SIZE, _XUCRED = 76, struct.Struct("II")


class BadFrame(Exception):
    """The other side does not speak as it should."""


class Frames:
    """Values over a connection, each behind its length.

    All waiting for the other side, together, takes `patience` seconds at most; then each method
    raises `TimeoutError`. They raise `OSError` for a connection that is lost.
    """

    def __init__(self, connection: socket.socket, patience: float) -> None:
        self.patience = patience
        self._connection = connection
        self._received = bytearray()

    def send(self, frame: Frame) -> None:
        encoded = json.dumps(frame, default=_as_plain).encode()
        if len(encoded) > LONGEST_FRAME:
            raise BadFrame(f"a frame of {len(encoded)} bytes")
        with self._waiting():
            self._connection.sendall(_LENGTH.pack(len(encoded)) + encoded)

    def receive(self) -> Frame | None:
        """The next value; None at the end. Raises `BadFrame`."""
        head = self._bytes(_LENGTH.size)
        if head is None:
            return None
        [length] = _LENGTH.unpack(head)
        if length > LONGEST_FRAME:
            raise BadFrame(f"a frame of {length} bytes")
        encoded = self._bytes(length)
        if encoded is None:
            return None
        try:
            frame = json.loads(encoded, object_hook=_from_plain)
        except (ValueError, RecursionError) as wrong:
            raise BadFrame("a frame that is no JSON") from wrong
        if not isinstance(frame, dict):
            raise BadFrame("a frame that is no object")
        return frame

    def _bytes(self, count: int) -> bytes | None:
        while len(self._received) < count:
            with self._waiting():
                part = self._connection.recv(_READ)
            if not part:
                return None
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if self.patience <= 0:
            raise TimeoutError
        began = monotonic()
        self._connection.settimeout(self.patience)
        try:
            yield
        finally:
            self.patience -= monotonic() - began


def _as_plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": b2a_base64(value, newline=False).decode()}
    # A sum of the server is a decimal number.
    whole, parts = value.as_integer_ratio()  # type: ignore[attr-defined]
    return whole if parts == 1 else float(value)  # type: ignore[arg-type]


def _from_plain(frame: Frame) -> object:
    return a2b_base64(frame["bytes"]) if frame.keys() == {"bytes"} else frame


class Peer(NamedTuple):
    """The process at the other end; `pid` is None if the system does not tell."""

    uid: int
    pid: int | None


def peer_of(connection: socket.socket) -> Peer:
    """Raises `OSError`."""
    if sys.platform == "darwin":
        named = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE)
        return Peer(
            _XUCRED.unpack_from(named)[1], connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        )
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(credentials)
    return Peer(uid, pid or None)


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """The address of a socket, also where its path is too long for one. Raises `OSError`."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)

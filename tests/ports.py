"""Ports for programs that must be told theirs before they start."""

from __future__ import annotations

import os
import random
import socket

# Below the ports that the system hands out by itself: one of those, once looked up and given
# back, may be another test's server a moment later.
_FIRST, _END = 11000, 32000
_WORKERS = 16


def unused_port() -> int:
    """A port that no other worker of this run gets, and where nobody listens."""
    while True:
        port = next(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _ports(worker: str) -> list[int]:
    each = (_END - _FIRST) // _WORKERS
    first = _FIRST + int(worker.removeprefix("gw")) % _WORKERS * each
    return random.sample(range(first, first + each), each)


_PORTS = iter(_ports(os.environ.get("PYTEST_XDIST_WORKER", "gw0")))

"""Unused ports, for programs that get their port before they start."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from functools import cache

from tests.workers import worker_number

# Below the ephemeral ports of the system: an ephemeral port that is free now may be taken by the
# server of another test a moment later.
_FIRST, _END = 11000, 32000
_WORKERS = 32


def unused_port() -> int:
    """A port that no other worker of this run gets, and that is not in use."""
    while True:
        port = next(_ports(worker_number()))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@cache
def _ports(worker: int) -> Iterator[int]:
    each = (_END - _FIRST) // _WORKERS
    first = _FIRST + worker % _WORKERS * each
    return iter(random.sample(range(first, first + each), each))

"""Callers that prove nothing and cost much, run as `hostile_callers PAGE_PORT HOOKS_PORT`.

They attack both ports of a bot until their input ends, and say when all kinds have come.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle

HOOK = b"POST /hook/washing HTTP/1.1\r\nHost: bot\r\n"
PAGE = b"POST /api/enter HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
SIGNED = b"X-Hub-Signature-256: sha256=00\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
BODY = b"Content-Length: 1000000\r\n\r\n" + b" " * 1_000_000
# Both wait: the other end closes the connection, or this one for the next of its kind.
IDLE = {"silent": b"", "half a head": HOOK, "half a body": HOOK + SIGNED + BODY[:100]}
_MOST_HELD = 200
# So many of each kind at once.
_CALLERS = 4
_PAUSE = 0.01


def words_of_a_signature() -> bytes:
    at = b"webhook-id: a\r\nwebhook-timestamp: %d\r\n" % time.time()
    words = b"webhook-signature: %b\r\n" % (b"a " * 4000)
    return HOOK + at + words * 40 + b"Content-Length: 0\r\n\r\n"


def signatures_of_stripe() -> bytes:
    listed = b",v1=0" * 1500
    return HOOK + b"Stripe-Signature: t=%d%b\r\n" % (time.time(), listed) + BODY


KINDS: dict[str, Callable[[], bytes]] = {
    "webhook-signature": words_of_a_signature,
    "Stripe-Signature": signatures_of_stripe,
    "Authorization": lambda: HOOK + b"Authorization: Bearer %b\r\n\r\n" % (b"x " * 4000),
    "body": lambda: HOOK + SIGNED + BODY,
    "chunks": lambda: HOOK + SIGNED + CHUNKS,
    "chunks to the page": lambda: PAGE + CHUNKS,
    "cookies": lambda: (
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %b\r\n\r\n" % (b"a=b;" * 2000)
    ),
    "host": lambda: b"GET http://xn--%b/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % (b"a" * 8000),
    "pipeline": lambda: b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000,
}
TO_THE_PAGE = ("chunks to the page", "cookies", "host", "pipeline")
came: Counter[str] = Counter()


def send_often(kind: str, port: int, has_ended: threading.Event) -> None:
    while not has_ended.wait(_PAUSE):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as wire:
            came[kind] += 1
            wire.sendall(KINDS[kind]())
            wire.recv(100)


def hold_many(port: int, has_ended: threading.Event) -> None:
    held: deque[socket.socket] = deque()
    for kind in cycle(IDLE):
        if has_ended.wait(_PAUSE / 10):
            break
        with suppress(OSError):
            wire = socket.create_connection(("127.0.0.1", port), 5)
            held.append(wire)
            wire.sendall(IDLE[kind])
            came[kind] += 1
        if len(held) > _MOST_HELD:
            held.popleft().close()
    for wire in held:
        wire.close()


def main(page: int, hooks: int) -> None:
    has_ended = threading.Event()
    threads = [
        threading.Thread(
            target=send_often, args=(kind, page if kind in TO_THE_PAGE else hooks, has_ended)
        )
        for kind in [*KINDS] * _CALLERS
    ]
    threads += [
        threading.Thread(target=hold_many, args=(port, has_ended)) for port in (page, hooks)
    ]
    for thread in threads:
        thread.start()
    while not all(came[kind] for kind in (*KINDS, *IDLE)):
        time.sleep(_PAUSE)
    print("All kinds have come.", flush=True)
    sys.stdin.read()
    has_ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

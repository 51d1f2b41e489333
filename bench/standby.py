"""Rows in PostgreSQL, near and far, and two machines; needs the package ollim_bot_standby."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import TypeVar

from chaos.standby.__main__ import last_hundredth, middle
from chaos.standby.runner import run_faults
from chaos.steps import SETTLE, Step
from devtools.localpostgres import LocalPostgres, find_binaries

from bench.fixtures import (
    BOT,
    NOW,
    cpu_seconds,
    has_page,
    new_database,
    python_process,
    until,
    unused_port,
)
from bench.measure import Bar, Result, Unit, compare, seconds
from bench.turns import WARM_UP, Scene, TimingSurface, asked_after, make_scene, soon, watched
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.backend import Backend
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot_standby.held_lease import EXPIRES_AFTER
from ollim_bot_standby.postgres.connection import Address, parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

R = TypeVar("R")

STEP_ROUNDS, FAR_STEPS, FAR_ROUNDS, DUE_ROUNDS = 200, 30, 15, 5
# Seconds that a round trip takes.
FAR = (0.001, 0.02)
FAR_LIMIT, TAKE_OVERS_LIMIT = 300.0, 900.0
# Until what follows a turn or a reminder is written as well, and until a machine is idle.
AFTER_A_TURN, AFTER_A_START = 2.0, 15.0
MOST_SECONDS, MOST_SECONDS_OF_A_TAKE_OVER = 1.0, 30.0
IDLE_SECONDS, HOUR, MINUTE = 60.0, 3600, 60
TAKE_OVERS = 5

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


@contextmanager
def _server() -> Iterator[LocalPostgres]:
    binaries = find_binaries()
    assert binaries is not None
    server = LocalPostgres(binaries, is_durable=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


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


ROW = LedgerRow(NOW, "noted", facts={"text": "x" * 200})


def measure_postgres(folder: Path) -> list[Result]:
    """A step and a question in PostgreSQL, on a local socket and from afar, against a file."""
    with _server() as server, far_server(server.folder) as far:
        return [*_postgres_rows(server, folder / "near"), *_from_afar(far, folder / "far")]


def _postgres_rows(server: LocalPostgres, folder: Path) -> list[Result]:
    address = parse_address(server.address)
    ours = new_database(folder)
    with led(address) as theirs, closing(ours):
        return [
            compare(
                "step in PostgreSQL",
                lambda: note(theirs),
                "step in a file",
                lambda: note(ours),
                rounds=STEP_ROUNDS,
                most_times=3,
            ),
            compare(
                "question to PostgreSQL",
                lambda: theirs.query(lambda tx: tx.session.get()),
                "question to a file",
                lambda: ours.query(lambda tx: tx.session.get()),
                rounds=STEP_ROUNDS,
            ),
        ]


@contextmanager
def led(address: Address) -> Iterator[PostgresDatabase]:
    with closing(Lease(address, "bench")) as lease:
        with closing(open_postgres(address, lambda: NOW, lease=lease.take())) as database:
            yield database
        lease.release()


def _from_afar(far: FarServer, folder: Path) -> list[Result]:
    address, ours = parse_address(far.address), new_database(folder)
    with led(address) as theirs, closing(ours):
        return [each for away in FAR for each in _at_distance(away, far, theirs, ours)]


def _at_distance(
    away: float, far: FarServer, theirs: PostgresDatabase, ours: Database
) -> list[Result]:
    far.is_away(away)
    note(theirs)
    theirs.query(lambda tx: tx.session.get())
    name = f"step, database {away * 1000:.0f} ms away"
    steps = compare(name, lambda: note(theirs), "a file", lambda: note(ours), rounds=FAR_STEPS)
    before = far.traffic()
    for _ in range(FAR_STEPS):
        note(theirs)
    trips = far.traffic().since(before).of_one(FAR_STEPS).round_trips
    trip = median(
        seconds(lambda: theirs.query(lambda tx: tx.session.get())) for _ in range(FAR_STEPS)
    )
    return [steps, Result(f"{name}, a round trip of it", steps.amount / trips, "a question", trip)]


_numbers = count()


def note(backend: Backend) -> None:
    """Append a row to the ledger and a message to the log."""
    message = ChatMessage(MessageId(f"m{next(_numbers)}"), NOW, Author.ASSISTANT, "said " * 10)

    def step(tx: Transaction) -> None:
        tx.ledger.append(ROW)
        tx.messages.add(message)

    backend.run(step)


@dataclass(frozen=True)
class _Times:
    """Medians in seconds, and what one turn and one plain reminder cost on the network."""

    sign: float
    words: float
    asked: float
    shown: float
    turn: Traffic
    reminder: Traffic


def measure_far(folder: Path) -> list[Result]:
    """A turn and reminders while the database of the bot is 20 ms away, against a file."""
    with _server() as server, far_server(server.folder) as far:
        return asyncio.run(_far_rows(folder, far))


async def _far_rows(folder: Path, far: FarServer) -> list[Result]:
    async with asyncio.timeout(FAR_LIMIT):
        near = await _times(folder / "file", "", Traffic)
        far.is_away(FAR[-1])
        away = await _times(folder / "far", far.url, far.traffic)
    at, count = f"database {FAR[-1] * 1000:.0f} ms away", Unit.COUNT
    turn, reminder = away.turn, away.reminder
    return [
        Result(f"first sign, {at}", away.sign, "a file", near.sign),
        Result(f"first words, {at}", away.words, "a file", near.words),
        Result(f"due, until asked, {at}", away.asked, "a file", near.asked, Bar.DUE, MOST_SECONDS),
        Result(f"due and plain, until shown, {at}", away.shown, "a file", near.shown, None, 1.0),
        Result("round trips, a turn", turn.round_trips, "requests", turn.statements, unit=count),
        Result(
            "round trips, a plain reminder",
            reminder.round_trips,
            "requests",
            reminder.statements,
            unit=count,
        ),
    ]


async def _times(folder: Path, database: str, traffic: Callable[[], Traffic]) -> _Times:
    async with make_scene(folder, database) as scene, watched(scene) as surface:
        for _ in range(WARM_UP):
            await surface.ask("hi")
        asked, turn = await _each(FAR_ROUNDS, lambda _: surface.ask("hi"), traffic)
        main = [await asked_after(scene, f"m{n}", "false") for n in range(DUE_ROUNDS)]
        plain = partial(_shown_after, scene, surface)
        shown, reminder = await _each(DUE_ROUNDS, plain, traffic)
    signs, words = [each.sign for each in asked], [each.words for each in asked]
    return _Times(median(signs), median(words), median(main), median(shown), turn, reminder)


async def _each(
    times: int, action: Callable[[int], Awaitable[R]], traffic: Callable[[], Traffic]
) -> tuple[list[R], Traffic]:
    """What each of the actions returns, and what one of them costs on the network."""
    before = traffic()
    results = [await action(number) for number in range(times)]
    await asyncio.sleep(AFTER_A_TURN)
    return results, traffic().since(before).of_one(times)


async def _shown_after(scene: Scene, surface: TimingSurface, number: int) -> float:
    due, words = soon(3), f"Drink glass {number}."
    head = f'id: p{number}\nrun-at: "{due.isoformat()}"\nplain: true'
    (scene.paths.reminders / f"p{number}.md").write_text(f"---\n{head}\n---\n{words}\n")
    return (await surface.posted(words) - due).total_seconds()


def measure_two_machines(folder: Path) -> list[Result]:
    """What a standby and a leader cost while nothing happens, against a bot with a file."""
    with _server() as server, far_server(server.folder) as one, far_server(server.folder) as other:
        return _two_machines_rows(folder, one, other)


def _two_machines_rows(folder: Path, leader: FarServer, standby: FarServer) -> list[Result]:
    with ExitStack() as stack:
        pids = []
        for name, url in (("file", ""), ("leader", leader.url), ("standby", standby.url)):
            port = unused_port()
            settings = {"DATABASE_URL": url, "OLLIM_WEB_PORT": str(port)}
            process = stack.enter_context(python_process(folder / name, BOT, settings))
            pids.append(process.pid)
            until(partial(has_page, port), process)  # the first one leads
        time.sleep(AFTER_A_START)
        before = [cpu_seconds(pid) for pid in pids], leader.traffic(), standby.traffic()
        time.sleep(IDLE_SECONDS)
        used = [cpu_seconds(pid) - was for pid, was in zip(pids, before[0], strict=True)]
        traffics = leader.traffic().since(before[1]), standby.traffic().since(before[2])
    file, *others = (max(each, 1 / os.sysconf("SC_CLK_TCK")) * HOUR / IDLE_SECONDS for each in used)
    rows = zip(("leader", "standby"), others, traffics, strict=True)
    return [each for row in rows for each in _idle_rows(*row, file)]


def _idle_rows(name: str, cpu: float, traffic: Traffic, file: float) -> list[Result]:
    minute, hour = (traffic.of_one(IDLE_SECONDS / each) for each in (MINUTE, HOUR))
    count, size = Unit.COUNT, Unit.BYTES
    return [
        Result(f"processor in an idle hour, {name}", cpu, "with a file", file),
        Result(f"network in an idle hour, {name}", hour.bytes, "sent", hour.sent, unit=size),
        Result(
            f"requests in an idle minute, {name}",
            minute.statements,
            "round trips",
            minute.round_trips,
            unit=count,
        ),
    ]


def measure_take_overs(folder: Path) -> list[Result]:  # noqa: ARG001
    """How long the other machine takes to send something after a kill, and after a hand-over."""
    faults = [Step("kill the leader"), Step("hand over")] * TAKE_OVERS
    steps = [each for fault in faults for each in (fault, Step(SETTLE))]
    outcome = asyncio.run(run_faults(steps, seconds=TAKE_OVERS_LIMIT))
    assert outcome.broken == [], outcome.broken
    killed = [each.seconds for each in outcome.taken if not each.is_planned]
    planned = [each.seconds for each in outcome.taken if each.is_planned]
    return [
        *_take_overs_rows(f"of {len(killed)} take-overs", killed, MOST_SECONDS_OF_A_TAKE_OVER),
        *_take_overs_rows(f"of {len(planned)} hand-overs", planned, None),
    ]


def _take_overs_rows(name: str, times: Sequence[float], most: float | None) -> list[Result]:
    lease = "the lease"
    return [
        Result(f"p50 {name}, until the first message", middle(times), lease, EXPIRES_AFTER),
        Result(f"p99 {name}", last_hundredth(times), lease, EXPIRES_AFTER, most=most),
    ]


if __name__ == "__main__":
    _main(sys.argv[1])

"""What a standby and a leader cost while nothing happens, against a bot with a file."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from devtools.localpostgres import LocalPostgres, find_binaries

from bench.far_server import FarServer, Traffic, far_server
from bench.fixtures import BOT, cpu_seconds, python_process, unused_port
from bench.measure import Result, Unit

SETTLING_SECONDS = 15.0
IDLE_SECONDS = 60.0
_HOUR, _MINUTE = 3600, 60
_LEAST = 1 / os.sysconf("SC_CLK_TCK")


def measure(folder: Path) -> list[Result]:
    binaries = find_binaries()
    if binaries is None:
        return []
    server = LocalPostgres(binaries, is_durable=True)
    try:
        server.start()
        with far_server(server.folder) as leader, far_server(server.folder) as standby:
            return _measured(folder, leader, standby)
    finally:
        server.stop()


def _measured(folder: Path, leader: FarServer, standby: FarServer) -> list[Result]:
    with ExitStack() as stack:
        pids = []
        for name, url in (("file", ""), ("leader", leader.url), ("standby", standby.url)):
            port = unused_port()
            settings = {"DATABASE_URL": url, "OLLIM_WEB_PORT": str(port)}
            process = stack.enter_context(python_process(folder / name, BOT, settings))
            pids.append(process.pid)
            _wait_for_page(port)  # the first one leads
        time.sleep(SETTLING_SECONDS)
        before = [cpu_seconds(pid) for pid in pids], leader.traffic(), standby.traffic()
        time.sleep(IDLE_SECONDS)
        used = [cpu_seconds(pid) - was for pid, was in zip(pids, before[0], strict=True)]
        traffics = leader.traffic().since(before[1]), standby.traffic().since(before[2])
    file, *others = (max(each, _LEAST) * _HOUR / IDLE_SECONDS for each in used)
    rows = zip(("leader", "standby"), others, traffics, strict=True)
    return [each for row in rows for each in _rows(*row, file)]


def _wait_for_page(port: int) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)


def _rows(name: str, cpu: float, traffic: Traffic, file: float) -> list[Result]:
    minute, hour = (traffic.of_one(IDLE_SECONDS / each) for each in (_MINUTE, _HOUR))
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

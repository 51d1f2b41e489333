"""How long a call of a webhook takes until it is on disk and answered."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from statistics import median

from aiohttp import web
from devtools.doubles.journal import RecordingJournal

from bench.fixtures import new_database
from bench.measure import Bar, Result
from ollim_bot.features.webhooks.webhook_server import WebhookServer
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.schedule.job_index import JobIndex, job_of
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.hook_jobs import WebhookSpec

CALLS = 2000
CONNECTIONS = 32
FEW, MANY = 10, 1000
ROUNDS = 3
SECRET = "secret"
MOST_SECONDS = 1 / 500
NO_GROWTH = 1.5

FILE = """---
id: h{number}
fields:
  type: object
  required: [title]
  properties:
    title: {{type: string, maxLength: 200}}
    number: {{type: integer}}
pick: {{title: /issue/title, number: /issue/number}}
on: [opened, closed]
---
Look at {{{{title}}}}.
"""


def measure(folder: Path) -> list[Result]:
    """How long a call of a webhook takes until it is on disk and answered."""
    return asyncio.run(_measured(folder))


async def _measured(folder: Path) -> list[Result]:
    few: list[float] = []
    many: list[float] = []
    bare: list[float] = []
    async with (
        _served(folder / "few", FEW) as few_port,
        _served(folder / "many", MANY) as many_port,
        _bare() as bare_port,
    ):
        for _ in range(ROUNDS):
            bare.append(await _seconds_for_one(bare_port, FEW))
            few.append(await _seconds_for_one(few_port, FEW))
            many.append(await _seconds_for_one(many_port, MANY))
    return [
        Result(
            "webhook call until on disk",
            median(few),
            "aiohttp that answers at once",
            median(bare),
            Bar.WEBHOOK,
            most=MOST_SECONDS,
        ),
        Result(
            f"the same with {MANY} jobs",
            median(many),
            f"with {FEW}",
            median(few),
            Bar.WEBHOOK,
            most_times=NO_GROWTH,
        ),
    ]


async def _seconds_for_one(port: int, hooks: int) -> float:
    """Calls from another process, so that both have a core of their own."""
    arguments = (str(port), SECRET, str(hooks), str(CALLS), str(CONNECTIONS))
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.webhooks", *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await client.communicate()
    return float(printed) / CALLS


@asynccontextmanager
async def _served(root: Path, hooks: int) -> AsyncIterator[int]:
    paths, clock = DataPaths(root), SystemClock(UTC)
    database = new_database(root)
    for number in range(hooks):
        (paths.webhooks / f"h{number}.md").write_text(FILE.format(number=number))
    index = JobIndex(paths, clock, _NoNotices(), ChangeJournal(RecordingJournal(), root, clock))
    await index.refresh()
    store = DatabaseStore(database, clock)
    await store.transact(_raise_limits)
    server = WebhookServer(0, _finder(index), lambda _: SECRET.encode(), store, clock)
    serving = asyncio.create_task(server.run())
    await server.ready()
    try:
        yield server.port
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await store.close()


def _finder(index: JobIndex) -> Callable[[str], WebhookSpec | None]:
    def find(hook_id: str) -> WebhookSpec | None:
        found = job_of(index, JobKey(JobKind.WEBHOOK, hook_id))
        return found if isinstance(found, WebhookSpec) else None

    return find


def _raise_limits(tx: Transaction) -> None:
    for key in ("webhook_per_minute", "webhook_total_per_minute"):
        tx.config.put(tx.config.get().with_value(key, 10**8))


class _NoNotices:
    async def tell(self, sentence: str, *, for_reminder: bool) -> None:
        pass

    async def forget(self, key: str) -> None:
        pass


@asynccontextmanager
async def _bare() -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({"status": "accepted"}, status=202)

    app = web.Application()
    app.add_routes([web.post("/hook/{id}", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


# Like an event of GitHub for a small repository, in shape and size.
BODY = json.dumps(
    {
        "action": "opened",
        "issue": {"title": "It rains", "number": 7, "body": "x" * 1500},
        "sender": {"login": "ada", "urls": ["https://example.org/" + "y" * 40] * 30},
    }
).encode()


async def caller(port: int, secret: str, hooks: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for hook in hooks:
        writer.write(
            f"POST /hook/h{hook} HTTP/1.1\r\nHost: bot\r\nAuthorization: Bearer {secret}\r\n"
            f"Content-Length: {len(BODY)}\r\n\r\n".encode()
            + BODY
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 202"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        await reader.readexactly(length)
    writer.close()


async def _call() -> None:
    """Run as a program: call over many connections at once, and print the seconds it took.

    Arguments: the port, the secret, the number of hooks, of calls and of connections.
    """
    port, secret, hooks, calls, connections = sys.argv[1:]
    numbers = (number % int(hooks) for number in range(int(calls)))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(int(connections)):
            group.create_task(caller(int(port), secret, numbers))
    print(time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(_call())

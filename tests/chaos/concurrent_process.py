"""Run as a program: write to a data directory at the same time as another process.

Arguments: data directory, name of the process, and name of the action. The program prints `ready`.
Then it performs the action once for each line on stdin, with the text of the line, and prints the
result.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from devtools.doubles.clock import ManualClock
from tests.storage.data_directory import NOW, DataDirectory

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId, SessionId
from ollim_bot.domain.pings import Charge, PingAllowed, PingBudget, PingRefused, PingVerdict
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.store.opening import open_database
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import DatabaseStore

WRITERS = 25


def leave_updates(root: Path, name: str, _: str) -> str:
    """Each writer opens the database for itself, as if it were alone."""

    def leave(number: int) -> None:
        text = f"{name}-{number}"
        update = PendingUpdate(NOW, text, text)
        DataDirectory(root).run(partial(leave_update, update=update))

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(leave, range(WRITERS)))
    return "done"


def send_ping(root: Path, name: str, number: str) -> str:
    paths = DataDirectory(root).paths
    database = open_database(paths, lambda: NOW, is_holder=False, report=lambda _: None)
    return asyncio.run(_sent(DatabaseStore(database, ManualClock(NOW)), name, number))


async def _sent(store: DatabaseStore, name: str, number: str) -> str:
    poster = MessagePoster(store, SurfaceFanout(store, []), [], ManualClock(NOW))
    message = ChatMessage(MessageId(number), NOW, Author.BACKGROUND, name)
    run = Run(RunPolicy(RunKind.BACKGROUND, ()), NOW, session=SessionId(name))
    verdict = await poster.send(message, run, _with_a_token)
    await store.close()
    return "sent" if isinstance(verdict, PingAllowed) else "refused"


def _with_a_token(budget: PingBudget) -> tuple[PingBudget, PingVerdict]:
    after, is_paid = budget.spent(NOW)
    return after, PingAllowed(Charge.TOKEN) if is_paid else PingRefused("There is no token.")


ACTIONS: dict[str, Callable[[Path, str, str], str]] = {
    "leave updates": leave_updates,
    "send a ping": send_ping,
}


def main(root: str, name: str, action: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        print(ACTIONS[action](Path(root), name, line.strip()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

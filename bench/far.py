"""A turn and reminders while the database of the bot is 20 ms away, against a file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from devtools.localpostgres import LocalPostgres, find_binaries

from bench.bars import Bar
from bench.due import asked_after, soon
from bench.far_server import FarServer, Traffic, far_server
from bench.measure import Result, Unit
from bench.timing_surface import TimingSurface
from bench.turns import WARM_UP, Scene, make_scene, watched

R = TypeVar("R")

AWAY = 0.02
ROUNDS, DUE_ROUNDS = 15, 5
LIMIT = 300.0
# Until what follows a turn or a reminder is written as well.
SETTLING_SECONDS = 2.0
MOST_SECONDS = 1.0


@dataclass(frozen=True)
class _Times:
    """Medians in seconds, and what one turn and one plain reminder cost on the network."""

    sign: float
    words: float
    asked: float
    shown: float
    turn: Traffic
    reminder: Traffic


def measure(folder: Path) -> list[Result]:
    binaries = find_binaries()
    if binaries is None:
        return []
    server = LocalPostgres(binaries, is_durable=True)
    try:
        server.start()
        with far_server(server.folder) as far:
            return asyncio.run(_measured(folder, far))
    finally:
        server.stop()


async def _measured(folder: Path, far: FarServer) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        near = await _times(folder / "file", "", Traffic)
        far.is_away(AWAY)
        away = await _times(folder / "far", far.url, far.traffic)
    at, count = f"database {AWAY * 1000:.0f} ms away", Unit.COUNT
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
        asked, turn = await _each(ROUNDS, lambda _: surface.ask("hi"), traffic)
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
    await asyncio.sleep(SETTLING_SECONDS)
    return results, traffic().since(before).of_one(times)


async def _shown_after(scene: Scene, surface: TimingSurface, number: int) -> float:
    due, words = soon(3), f"Drink glass {number}."
    head = f'id: p{number}\nrun-at: "{due.isoformat()}"\nplain: true'
    (scene.paths.reminders / f"p{number}.md").write_text(f"---\n{head}\n---\n{words}\n")
    return (await surface.posted(words) - due).total_seconds()

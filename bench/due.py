"""From the due moment of a reminder to the prompt at the model."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from bench.bars import Bar
from bench.measure import Result
from bench.turns import Ask, Scene, alike, make_scene, watched

ROUNDS = 5
LIMIT = 180.0


def measure(folder: Path) -> list[Result]:
    return asyncio.run(_measured(folder))


async def _measured(folder: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT):
        main, apart = await _prompted(folder / "due")
        bare = await _bare(folder / "bare")
    timer = "a timer and the bare SDK client"
    return [
        Result("due in the conversation, until asked", main, timer, bare, Bar.DUE, 1.0),
        Result("due in the background, until asked", apart, timer, bare),
    ]


async def _prompted(folder: Path) -> tuple[float, float]:
    """Medians in a running conversation, so that the engine is warm."""
    async with make_scene(folder) as scene, watched(scene) as surface:
        await surface.ask("hi")
        main = [await asked_after(scene, f"m{n}", "false") for n in range(ROUNDS)]
        apart = [await asked_after(scene, f"b{n}", "true") for n in range(ROUNDS)]
    return median(main), median(apart)


async def asked_after(scene: Scene, name: str, background: str) -> float:
    due = soon(3)
    head = f'id: {name}\nrun-at: "{due.isoformat()}"\nbackground: {background}'
    text = f"---\n{head}\n---\nCall {name} back.\n"
    (scene.paths.reminders / f"{name}.md").write_text(text)
    return await _seen_after(scene, f"Call {name} back.", due, len(scene.model.requests) + 1)


async def _bare(folder: Path) -> float:
    async with make_scene(folder) as scene, alike(scene) as ask:
        await ask("hi")
        return median([await _bare_after(scene, ask, f"c{n}") for n in range(ROUNDS)])


async def _bare_after(scene: Scene, ask: Ask, name: str) -> float:
    due, number = soon(1), len(scene.model.requests) + 1
    await asyncio.sleep((due - datetime.now(UTC)).total_seconds())
    asking = asyncio.create_task(_told(ask, f"Call {name} back."))
    seconds = await _seen_after(scene, f"Call {name} back.", due, number)
    await asking
    return seconds


async def _told(ask: Ask, words: str) -> float:
    return await ask(words)


async def _seen_after(scene: Scene, words: str, due: datetime, number: int) -> float:
    """The seconds from `due` until a request has these words; looks from request `number` on."""
    while words not in str((await scene.model.seen(number)).body):
        number += 1
    return (datetime.now(UTC) - due).total_seconds()


def soon(seconds: int) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)

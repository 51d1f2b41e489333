"""From the due moment of a reminder to the prompt at the model, and what the idle bot takes."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from bench.measure import Result, Unit
from bench.places import BOT, a_process, prepared, resident_bytes, write_reminders
from bench.turns import Scene, a_scene, watched
from ollim_bot.domain.run_history import CHECKPOINT
from ollim_bot.stores import Stores

ROUNDS = 5
LIMIT = 120.0
SOME = 1_000
# Time for the engine and all else that a start brings.
SETTLING_SECONDS = 8.0
MOST_BYTES = 120e6


def measure(folder: Path) -> list[Result]:
    main, apart = asyncio.run(_prompted(folder / "due"))
    return [
        Result("due in the conversation, until asked", main, "1 s", 1.0, bar=1.0),
        Result("due in the background, until asked", apart, "in the conversation", main),
        Result(
            f"memory of the idle bot, {SOME} jobs",
            _memory(folder / "idle"),
            "120 MB",
            MOST_BYTES,
            bar=1.0,
            unit=Unit.BYTES,
        ),
    ]


async def _prompted(folder: Path) -> tuple[float, float]:
    """Medians, in a conversation that has begun, so that the engine is warm."""
    async with asyncio.timeout(LIMIT), a_scene(folder) as scene, watched(scene) as surface:
        await surface.ask("hi")
        main = [await _asked_after(scene, f"m{n}", "false") for n in range(ROUNDS)]
        apart = [await _asked_after(scene, f"b{n}", "true") for n in range(ROUNDS)]
    return median(main), median(apart)


async def _asked_after(scene: Scene, name: str, background: str) -> float:
    due = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
    head = f'id: {name}\nrun-at: "{due.isoformat()}"\nbackground: {background}'
    text = f"---\n{head}\n---\nCall {name} back.\n"
    (scene.paths.reminders / f"{name}.md").write_text(text)
    number = len(scene.model.requests) + 1
    while f"Call {name} back." not in str((await scene.model.seen(number)).body):
        number += 1
    return (datetime.now(UTC) - due).total_seconds()


def _memory(folder: Path) -> float:
    """Of our own process, not of the engine's."""
    paths, stores = prepared(folder / "data")
    write_reminders(paths.reminders, SOME, datetime.now(UTC).year + 1)
    with a_process(folder, BOT) as process:
        while not _is_armed(stores):
            assert process.poll() is None, "the bot has ended"
            time.sleep(0.1)
        time.sleep(SETTLING_SECONDS)
        return resident_bytes(process.pid)


def _is_armed(stores: Stores) -> bool:
    return any(row.state == CHECKPOINT for row in stores.ledger.tail(5).entries)

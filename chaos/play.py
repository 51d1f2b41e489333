"""Plays steps on a stage, and has all looked at each time that it comes to rest."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos import acts, caller, faults
from chaos.checker import check, in_doubt
from chaos.findings import Finding
from chaos.stage import Stage, staged
from chaos.steps import SETTLE, Step, planned
from chaos.wounds import DYING

WEIGHTS: Mapping[str, int] = {**acts.WEIGHTS, **caller.WEIGHTS, **faults.WEIGHTS}

# What fails is tried again after half a minute at most, and what is ordered comes within a minute.
_REST_WITHIN = 120.0
# What is wrong for so long, while nothing else is on its way, is not being mended any more.
_STAYS_WRONG = 8.0
# And what is missing for so long, while nobody says or does anything, is not on its way.
_STAYS_MISSING = 45.0
_BETWEEN_LOOKS = 0.25
_LOOKS = 12
_CONNECTED_WITHIN = 60.0
# Of so many messages one may be in doubt, and it is told; more would be a habit.
_RARELY = 50
_SHARE_OF_DEATHS = 0.45

_logger = logging.getLogger(__name__)

_DEEDS: Mapping[str, acts.Act] = {**acts.ACTS, **caller.ACTS, **faults.FAULTS, **DYING}


@dataclass
class Outcome:
    """`steps` are those that were played, and `broken` what was found at last.

    `passed` are the points of its writing that the bot has passed, whether it died there or not.
    """

    steps: list[Step] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    passed: set[str] = field(default_factory=set)
    rests: int = 0
    in_doubt: int = 0
    messages: int = 0
    is_the_instruments_fault: bool = False
    began: float = field(default_factory=time.monotonic)

    def note(self, step: Step) -> None:
        """It is to be played now."""
        self.steps.append(step)
        _logger.info("%6.1f s  %s", time.monotonic() - self.began, step.name)


def plan(seed: int) -> Iterator[Step]:
    """As by default: everything, and each point at which it can die in its turn."""
    return planned(seed, WEIGHTS, tuple(DYING), _SHARE_OF_DEATHS)


async def play(
    steps: Iterable[Step],
    *,
    seconds: float,
    settings: Mapping[str, str] | None = None,
    keep: Path | None = None,
) -> Outcome:
    """Until the steps or the seconds are used up, or something is broken.

    `keep` is where to leave a copy of all files if something is.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="chaos-") as home:
        try:
            async with staged(Path(home), settings or {}) as stage:
                try:
                    await _play(stage, steps, time.monotonic() + seconds, outcome)
                finally:
                    outcome.hits = stage.hits
                    outcome.passed = stage.orders.seen
        except Exception as wrong:  # whatever it is, the steps that led to it have to be known
            _logger.exception("The instrument itself could not go on")
            outcome.is_the_instruments_fault = True
            outcome.broken.append(f"{type(wrong).__name__}: {str(wrong)[-2000:]}")
        if outcome.broken and keep is not None:
            shutil.copytree(home, keep, symlinks=True, dirs_exist_ok=True)
    return outcome


async def _play(stage: Stage, steps: Iterable[Step], ends: float, outcome: Outcome) -> None:
    for step in steps:
        if time.monotonic() > ends and step.name == SETTLE:
            break
        outcome.note(step)
        await asyncio.sleep(step.wait)
        if step.name != SETTLE:
            await _DEEDS[step.name](stage, random.Random(step.seed))
        elif await _is_broken(stage, outcome):
            return
    if not await _is_broken(stage, outcome):
        await _last_look(stage, outcome)


async def _last_look(stage: Stage, outcome: Outcome) -> None:
    """It starts again with what it has left, and finds nothing more to do or to say."""
    await stage.kill()
    await stage.start()
    if await _is_broken(stage, outcome):
        return
    if await stage.cli("runs", "check") != 0:
        outcome.broken.append("`ollim-bot runs check` finds something")
    if stage.discord.rate_limited > stage.starts:
        # Who has just begun may not know how much is allowed; who goes on has been told.
        outcome.broken.append(
            f"Discord refused {stage.discord.rate_limited} times to go on so fast"
        )
    outcome.messages = len(stage.discord.messages)
    outcome.in_doubt = len(in_doubt(stage.bot.data, stage.record.folder))
    if outcome.in_doubt * _RARELY > outcome.messages:
        outcome.broken.append(f"{outcome.in_doubt} of {outcome.messages} messages are in doubt")


async def _is_broken(stage: Stage, outcome: Outcome) -> bool:
    await _mend(stage)
    outcome.rests += 1
    outcome.broken += map(str, await _rest(stage))
    return bool(outcome.broken)


async def _mend(stage: Stage) -> None:
    """Nothing goes wrong any more; what hangs for good is cut off by a kill and a new start."""
    await _faults_are_met(stage)
    faults.count_hits(stage)
    await stage.undo.aclose()
    stage.discord.mend()
    stage.model.mend()
    if stage.model.is_hung or stage.is_owed_a_start:
        stage.model.is_hung = stage.is_owed_a_start = False
        await stage.kill()
        await stage.start()
    await stage.discord.connected(_CONNECTED_WITHIN)
    for name in list(stage.unsent):
        await acts.send(stage, name)
    for number in list(stage.unaccepted):
        await caller.call_again(stage, number)
    await acts.end_quiet(stage)


async def _faults_are_met(stage: Stage) -> None:
    """Those that were ordered get a moment; not all of them come to pass."""
    for _ in range(_LOOKS):
        if stage.model.is_well and not stage.discord.faults_left:
            return
        await asyncio.sleep(_BETWEEN_LOOKS)


async def _look(stage: Stage) -> None:
    stage.record.look(stage.discord)
    shown = await stage.bot.messages()
    stage.record.replace("page", [{"id": each["id"], "text": each["text"]} for each in shown])


async def _rest(stage: Stage) -> list[Finding]:
    """What is still wrong when nothing changes any more; nothing, if all has come right."""
    latest = time.monotonic() + _REST_WITHIN
    seen: tuple[object, ...] = ()
    since = 0.0
    while True:
        await _look(stage)
        found = await asyncio.to_thread(check, stage.bot.data, stage.record.folder)
        if not found:
            return []
        now = time.monotonic()
        sight = (*found, *(path.stat().st_size for path in sorted(stage.record.folder.iterdir())))
        if sight != seen:
            seen, since = sight, now
        is_final = all(each.is_final for each in found)
        if now > latest or now - since > (_STAYS_WRONG if is_final else _STAYS_MISSING):
            return found
        _logger.debug("not yet: %s", found[0])
        await asyncio.sleep(_BETWEEN_LOOKS)

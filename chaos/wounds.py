"""What goes wrong where the bot writes: it dies at a point, or the system refuses for a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial

from chaos.acts import (
    Act,
    begin_fork,
    clear,
    configure,
    end_fork,
    remind,
    run_routine,
    say_on_discord,
    say_on_page,
)
from chaos.caller import call_webhook
from chaos.orders import CUT, DIE, Order
from chaos.points import DATABASE, POINTS, Moment
from chaos.stage import Stage

_LOOKS = 25
_BETWEEN_LOOKS = 0.1


async def _begin_anew(stage: Stage, luck: random.Random) -> None:
    await clear(stage, luck)
    await say_on_discord(stage, luck)


async def _hear_updates(stage: Stage, luck: random.Random) -> None:
    """The next turn shows them to the agent, and so takes them from the file."""
    await run_routine(stage, luck)
    updates = stage.bot.data / "state" / "pending_updates.json"
    for _ in range(2 * _LOOKS):
        if updates.exists() and "Report" in updates.read_text():
            break
        await asyncio.sleep(_BETWEEN_LOOKS)
    await say_on_discord(stage, luck)


_TALK: tuple[Act, ...] = (say_on_discord, say_on_discord, say_on_page)
_WORK: tuple[Act, ...] = (remind, run_routine)
_LEADS_TO: Mapping[str, tuple[Act, ...]] = {
    DATABASE: (*_TALK, *_WORK, call_webhook),
    "fork.json": (begin_fork, end_fork),
    "config.json": (configure,),
    "sessions.json": (_begin_anew,),
    "session_history.jsonl": (begin_fork, run_routine),
    "ping_budget.json": (run_routine,),
    "run_requests": (run_routine,),
    "reminders": (remind,),
    "fork_messages.json": _WORK,
    "pending_updates.json": (*_WORK, *_TALK, _hear_updates),
}
# A point that only one way leads to.
_ONLY_WAY: Mapping[str, Act] = {f"{Moment.REMOVAL}: pending_updates.json": _hear_updates}
# What is missing is made anew: the owner may have removed it.
_MADE_AT_START = {
    ".gitignore": ".gitignore",
    "IDENTITY.md": "IDENTITY.md",
    "web_token": "state/web_token",
    "web_browsers.json": "state/web_browsers.json",
}
ERRORS: Mapping[str, str] = {
    "the sync fails": "EIO",
    "read-only for a while": "EROFS",
    "no room for a while": "ENOSPC",
}
# One file, or all of them.
_LABELS = ("", "", "", "", DATABASE, DATABASE, *_LEADS_TO)


async def die_at(point: str, stage: Stage, luck: random.Random) -> None:
    """The owner does what leads there; if that does not, a new start may."""
    stage.orders.give(Order(luck.choice((DIE, CUT)), point, seed=luck.randrange(1_000_000)))
    if point in _ONLY_WAY:
        await _ONLY_WAY[point](stage, luck)
    else:
        await _lead_to(point.rpartition(": ")[2], stage, luck)
    await until_dead(stage)
    await stage.kill()
    await come_back(stage, luck)
    stage.count_wounds()


async def come_back(stage: Stage, luck: random.Random) -> None:
    """Perhaps the owner has written meanwhile, and perhaps Discord knows no nonce any more."""
    if luck.random() < 0.6:
        await say_on_discord(stage, luck)
    if luck.random() < 0.2:
        stage.discord.forget_nonces()
    await stage.start()


async def until_dead(stage: Stage) -> None:
    """Or until it does not seem to come to that."""
    for _ in range(_LOOKS):
        if not stage.orders.is_given:
            return
        await asyncio.sleep(_BETWEEN_LOOKS)


async def _lead_to(label: str, stage: Stage, luck: random.Random) -> None:
    if label in _MADE_AT_START:
        await stage.kill()
        (stage.bot.data / _MADE_AT_START[label]).unlink(missing_ok=True)
        await stage.start()
    else:
        await luck.choice(_LEADS_TO.get(label, (*_TALK, *_WORK)))(stage, luck)


async def refuse(error: str, stage: Stage, luck: random.Random) -> None:
    label = luck.choice(_LABELS)
    stage.orders.give(Order(error, label=label))
    try:
        await _lead_to(label, stage, luck)
        await asyncio.sleep(luck.uniform(0.3, 2))
    finally:
        stage.orders.withdraw()
    stage.count_wounds()
    stage.is_owed_a_start = True


DYING: Mapping[str, Act] = {point: partial(die_at, point) for point in POINTS}
REFUSING: Mapping[str, Act] = {name: partial(refuse, error) for name, error in ERRORS.items()}

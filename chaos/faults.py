"""What goes wrong: with the process, its files, its Discord and its model."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections.abc import Mapping
from functools import partial

from devtools.localdiscord import faults

from chaos.acts import Act, remind, say_on_discord, say_on_page
from chaos.evidence import TORN
from chaos.orders import ANY, CUT, Order
from chaos.points import POINTS as DEATHS
from chaos.stage import REFUSALS, Stage
from chaos.wounded import descendants
from chaos.wounds import REFUSING, come_back, until_dead
from ollim_bot.offline.messages import Cut, Fail, Failure, Hang, Reply, Say, Stall

_SEND, _EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
_READ, _ANY = "GET /channels/*", "* /channels/*"
_LOGS = ("session_history",)
_GARBAGE = (b"\xff\xfe\x00", b"---\ncron: [\n---\n", b"", b"---\nid: minutely\n---\n", b"words\n")

DISCORD: Mapping[str, tuple[str, faults.Fault]] = {
    "Discord: answer to a sending lost": (_SEND, faults.AnswerLost()),
    "Discord: sending dropped": (_SEND, faults.Dropped()),
    "Discord: sending hangs, done": (_SEND, faults.AnswerHanging()),
    "Discord: sending fails with 500": (_SEND, faults.ErrorResponse(500)),
    "Discord: sending is slow": (_SEND, faults.Delayed(0.8)),
    "Discord: answer to an edit lost": (_EDIT, faults.AnswerLost()),
    "Discord: edit fails with 502": (_EDIT, faults.ErrorResponse(502)),
    "Discord: edit is slow": (_EDIT, faults.Delayed(0.8)),
    "Discord: 429": (_ANY, faults.ErrorResponse(429, after=0.4)),
    "Discord: reading fails with 503": (_READ, faults.ErrorResponse(503)),
    "Discord: gateway refused": ("WS /gateway", faults.Dropped()),
}
MODEL: Mapping[str, Failure] = {
    "model: 429": Fail(429, "rate_limit_error", "Slow down", retry_after=1),
    "model: 529": Fail(529, "overloaded_error", "Overloaded"),
    "model: 500": Fail(500, "api_error", "Internal error"),
    "model: 401": Fail(401, "authentication_error", "invalid x-api-key"),
    "model hangs": Hang(),
    "model stops in the middle": Stall(Reply((Say("[a0] It begins so"),))),
    "model: stream cut": Cut(Reply((Say("[a0] It begins so"),))),
}


async def kill(stage: Stage, luck: random.Random) -> None:
    """Perhaps while the owner is answered, and perhaps the owner writes meanwhile."""
    if luck.random() < 0.5:
        await say_on_discord(stage, luck)
        await asyncio.sleep(luck.choice((0, luck.uniform(0, 0.3), luck.uniform(0, 1.5))))
    await stage.kill()
    stage.hits["kill -9"] += 1
    await come_back(stage, luck)


async def cut_power(stage: Stage, luck: random.Random) -> None:
    """As soon as it writes anything."""
    stage.orders.give(Order(CUT, ANY, seed=luck.randrange(1_000_000)))
    await until_dead(stage)
    stage.orders.withdraw()
    await stage.kill()
    stage.count_wounds()
    await come_back(stage, luck)


async def stop(stage: Stage, luck: random.Random) -> None:
    code = await stage.bot.stop(luck.choice((signal.SIGTERM, signal.SIGINT)))
    stage.record.gather()
    stage.hits["stop and start"] += 1
    stage.record.note("stops", {"code": code})
    await stage.start()


async def freeze(stage: Stage, luck: random.Random) -> None:
    """The machine sleeps for a while."""
    os.kill(stage.bot.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(luck.uniform(0.5, 4))
    finally:
        os.kill(stage.bot.pid, signal.SIGCONT)
    stage.hits["SIGSTOP for a while"] += 1


async def kill_engine(stage: Stage, luck: random.Random) -> None:
    engines = stage.bot.engines()
    if engines:
        os.kill(luck.choice(engines), signal.SIGKILL)
        stage.hits["the engine killed"] += 1


async def tear_a_line(stage: Stage, luck: random.Random) -> None:
    await stage.kill()
    stage.hits["kill -9"] += 1
    path = stage.bot.data / "state" / f"{luck.choice(_LOGS)}.jsonl"
    with path.open("a") as file:
        file.write(f"{TORN}20")
    stage.hits[f"torn line: {path.name}"] += 1
    await stage.start()


async def spoil_a_job(stage: Stage, luck: random.Random) -> None:
    path = stage.bot.data / "routines" / f"bad{stage.next_number()}.md"
    path.write_bytes(luck.choice(_GARBAGE))
    stage.undo.callback(partial(path.unlink, missing_ok=True))
    stage.hits["garbage in a job file"] += 1


async def hold_git(stage: Stage, _: random.Random) -> None:
    path = stage.bot.data / ".git" / "index.lock"
    if path.parent.is_dir():
        path.touch()
        stage.undo.callback(partial(path.unlink, missing_ok=True))
        stage.hits["index.lock held"] += 1


async def start_twice(stage: Stage, _: random.Random) -> None:
    stage.record.note("rivals", {"code": await stage.cli()})
    stage.hits["second process"] += 1


async def fill_disk(stage: Stage, luck: random.Random) -> None:
    """Whatever the process writes is refused for a while, as by a disk that is full."""
    _limit_files(stage.bot.pid, 0)
    try:
        await asyncio.sleep(luck.uniform(0.3, 2))
    finally:
        for pid in (stage.bot.pid, *descendants(stage.bot.pid)):
            _limit_files(pid, resource.RLIM_INFINITY)
    stage.is_owed_a_start = True
    stage.hits["no room on the disk"] += 1


async def drop_gateway(stage: Stage, luck: random.Random) -> None:
    is_resumable = luck.random() < 0.5
    stage.discord.drop_gateway(luck.choice((None, 4000)), resumable=is_resumable)
    stage.hits[f"gateway dropped, {'resumable' if is_resumable else 'forgotten'}"] += 1


async def refuse_resume(stage: Stage, _: random.Random) -> None:
    stage.discord.refuse_resume()
    stage.undo.callback(partial(stage.discord.refuse_resume, refuse=False))
    stage.discord.drop_gateway()
    stage.hits["resume refused"] += 1


async def outage(stage: Stage, luck: random.Random) -> None:
    await stage.discord.refuse_connections()
    try:
        await say_on_discord(stage, luck)
        await asyncio.sleep(luck.uniform(0.5, 3))
    finally:
        await stage.discord.accept_again()
    stage.hits["Discord away"] += 1


async def _trouble_discord(name: str, stage: Stage, luck: random.Random) -> None:
    """And something is done by which it is met."""
    pattern, fault = DISCORD[name]
    stage.discord.next_fail(pattern, fault)
    stage.ordered[name, pattern] += 1
    await luck.choice((say_on_discord, say_on_discord, say_on_page, remind))(stage, luck)


async def _trouble_model(name: str, stage: Stage, luck: random.Random) -> None:
    stage.model.fail(name, MODEL[name])
    await luck.choice((say_on_discord, say_on_page, remind))(stage, luck)


def count_hits(stage: Stage) -> None:
    """Of the faults that were ordered, those that are not left have been met."""
    left = list(stage.discord.faults_left)
    for (name, pattern), times in stage.ordered.items():
        kept = min(times, left.count(pattern))
        stage.hits[name] += times - kept
        for _ in range(kept):
            left.remove(pattern)
    stage.ordered.clear()
    stage.hits.update(stage.model.hits)
    stage.model.hits.clear()


def _limit_files(pid: int, size: int) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    except ProcessLookupError:  # it has ended meanwhile
        return


FAULTS: Mapping[str, Act] = {
    "kill": kill,
    "cut the power": cut_power,
    "stop": stop,
    "freeze": freeze,
    "kill the engine": kill_engine,
    "tear a line": tear_a_line,
    "spoil a job": spoil_a_job,
    "hold git": hold_git,
    "start twice": start_twice,
    "fill the disk": fill_disk,
    "drop the gateway": drop_gateway,
    "refuse to resume": refuse_resume,
    "Discord away": outage,
    **{name: partial(_trouble_discord, name) for name in DISCORD},
    **{name: partial(_trouble_model, name) for name in MODEL},
    **REFUSING,
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(FAULTS, 1) | {
    "kill": 4,
    "cut the power": 4,
    "freeze": 2,
    "Discord: answer to a sending lost": 3,
}
# Each is told at the end with how often it was met.
POINTS: tuple[str, ...] = (
    "kill -9",
    "stop and start",
    "SIGSTOP for a while",
    "the engine killed",
    "garbage in a job file",
    "index.lock held",
    "second process",
    "no room on the disk",
    "gateway dropped, resumable",
    "gateway dropped, forgotten",
    "resume refused",
    "Discord away",
    *(f"torn line: {name}.jsonl" for name in _LOGS),
    *DISCORD,
    *MODEL,
    *REFUSALS.values(),
    "power cut",
    *DEATHS,
)

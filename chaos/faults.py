"""The faults: of the process, its files, its Discord and its model."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from devtools.localdiscord import faults

from chaos.calendar_server import FeedFault
from chaos.crash_points import CRASH_POINTS
from chaos.evidence import TORN
from chaos.fault_control import ANY_POINT, POWER_CUT, InjectedFault
from chaos.fault_injection import descendants
from chaos.owner_actions import Action, remind, say_on_discord, say_on_page, tick_errand
from chaos.scene import ERROR_NAMES, ChaosScene
from chaos.webhook_caller import call_webhook
from chaos.write_faults import (
    UPDATES_TAKEN,
    WRITE_ERRORS,
    crash_at,
    restart_after_crash,
    wait_for_crash,
)
from ollim_bot.offline.server import Cut, Fail, Failure, Hang, Reply, Say, Stall

_SEND, _EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
_READ, _ANY = "GET /channels/*", "* /channels/*"
_LOGS = ("session_history",)
_GARBAGE = (b"\xff\xfe\x00", b"---\ncron: [\n---\n", b"", b"---\nid: minutely\n---\n", b"words\n")

DISCORD_FAULTS: Mapping[str, tuple[str, faults.Fault]] = {
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
MODEL_FAULTS: Mapping[str, Failure] = {
    "model: 429": Fail(429, "rate_limit_error", "Slow down", retry_after=1),
    "model: 529": Fail(529, "overloaded_error", "Overloaded"),
    "model: 500": Fail(500, "api_error", "Internal error"),
    "model: 401": Fail(401, "authentication_error", "invalid x-api-key"),
    "model hangs": Hang(),
    "model stops in the middle": Stall(Reply((Say("[a0] It begins so"),))),
    "model: stream cut": Cut(Reply((Say("[a0] It begins so"),))),
}


async def kill(scene: ChaosScene, rng: random.Random) -> None:
    """Kill and restart, perhaps in the middle of an answer; perhaps the owner writes meanwhile."""
    if rng.random() < 0.5:
        await say_on_discord(scene, rng)
        await asyncio.sleep(rng.choice((0, rng.uniform(0, 0.3), rng.uniform(0, 1.5))))
    await _kill_and_restart(scene, rng)


async def _kill_after(action: Action, scene: ChaosScene, rng: random.Random) -> None:
    """Kill right after the bot has confirmed something, which must be on disk then."""
    await action(scene, rng)
    await asyncio.sleep(rng.uniform(0, 0.3))
    await _kill_and_restart(scene, rng)


async def kill_before_answer(scene: ChaosScene, rng: random.Random) -> None:
    """Kill before anything is sent in answer, and write once more: that comes first afterwards."""
    name = "Discord: sending fails with 500"
    pattern, fault = DISCORD_FAULTS[name]
    for _ in range(3):
        scene.discord.next_fail(pattern, fault)
        scene.discord_faults[name, pattern] += 1
    await say_on_discord(scene, rng)
    await asyncio.sleep(rng.uniform(0.2, 0.6))
    await scene.kill()
    scene.hits["kill -9"] += 1
    await say_on_discord(scene, rng)
    await scene.start()


async def _kill_and_restart(scene: ChaosScene, rng: random.Random) -> None:
    await scene.kill()
    scene.hits["kill -9"] += 1
    await restart_after_crash(scene, rng)


async def cut_power(scene: ChaosScene, rng: random.Random) -> None:
    """At the next crash point, whichever it is."""
    fault = InjectedFault(POWER_CUT, ANY_POINT, seed=rng.randrange(1_000_000))
    scene.fault_control.inject(fault)
    await wait_for_crash(scene)
    scene.fault_control.withdraw()
    await scene.kill()
    scene.count_injected_faults()
    await restart_after_crash(scene, rng)


async def stop(scene: ChaosScene, rng: random.Random) -> None:
    code = await scene.bot.stop(rng.choice((signal.SIGTERM, signal.SIGINT)))
    scene.record.keep_turns()
    scene.hits["stop and start"] += 1
    scene.record.note("stops", {"code": code})
    await scene.start()


async def freeze(scene: ChaosScene, rng: random.Random) -> None:
    """Stop the process for a while, as if the machine slept."""
    os.kill(scene.bot.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(rng.uniform(0.5, 4))
    finally:
        os.kill(scene.bot.pid, signal.SIGCONT)
    scene.hits["SIGSTOP for a while"] += 1


async def kill_engine(scene: ChaosScene, rng: random.Random) -> None:
    engines = scene.bot.engines()
    if engines:
        os.kill(rng.choice(engines), signal.SIGKILL)
        scene.hits["the engine killed"] += 1


async def tear_a_line(scene: ChaosScene, rng: random.Random) -> None:
    await scene.kill()
    scene.hits["kill -9"] += 1
    path = scene.bot.data / "state" / f"{rng.choice(_LOGS)}.jsonl"
    with path.open("a") as file:
        file.write(f"{TORN}20")
    scene.hits[f"torn line: {path.name}"] += 1
    await scene.start()


async def spoil_a_job(scene: ChaosScene, rng: random.Random) -> None:
    path = scene.bot.data / "routines" / f"bad{scene.next_number()}.md"
    path.write_bytes(rng.choice(_GARBAGE))
    scene.undo.callback(partial(path.unlink, missing_ok=True))
    scene.hits["garbage in a job file"] += 1


async def hold_git(scene: ChaosScene, _: random.Random) -> None:
    path = scene.bot.data / ".git" / "index.lock"
    if path.parent.is_dir():
        path.touch()
        scene.undo.callback(partial(path.unlink, missing_ok=True))
        scene.hits["index.lock held"] += 1


async def start_twice(scene: ChaosScene, _: random.Random) -> None:
    scene.record.note("second_processes", {"code": await scene.cli()})
    scene.hits["second process"] += 1


async def fill_disk(scene: ChaosScene, rng: random.Random) -> None:
    """Let all writes of the process fail for a while, as on a full disk."""
    _limit_files(scene.bot.pid, 0)
    try:
        await asyncio.sleep(rng.uniform(0.3, 2))
    finally:
        for pid in (scene.bot.pid, *descendants(scene.bot.pid)):
            _limit_files(pid, resource.RLIM_INFINITY)
    scene.needs_restart = True
    scene.hits["no room on the disk"] += 1


async def drop_gateway(scene: ChaosScene, rng: random.Random) -> None:
    is_resumable = rng.random() < 0.5
    scene.discord.drop_gateway(rng.choice((None, 4000)), resumable=is_resumable)
    scene.hits[f"gateway dropped, {'resumable' if is_resumable else 'forgotten'}"] += 1


async def refuse_resume(scene: ChaosScene, _: random.Random) -> None:
    scene.discord.refuse_resume()
    scene.undo.callback(partial(scene.discord.refuse_resume, refuse=False))
    scene.discord.drop_gateway()
    scene.hits["resume refused"] += 1


async def discord_outage(scene: ChaosScene, rng: random.Random) -> None:
    await scene.discord.refuse_connections()
    try:
        await say_on_discord(scene, rng)
        await asyncio.sleep(rng.uniform(0.5, 3))
    finally:
        await scene.discord.accept_again()
    scene.hits["Discord away"] += 1


async def _fail_discord(name: str, scene: ChaosScene, rng: random.Random) -> None:
    """Let Discord fail, and do something that makes the bot use it."""
    pattern, fault = DISCORD_FAULTS[name]
    scene.discord.next_fail(pattern, fault)
    scene.discord_faults[name, pattern] += 1
    await rng.choice((say_on_discord, say_on_discord, say_on_page, remind))(scene, rng)


async def _fail_model(name: str, scene: ChaosScene, rng: random.Random) -> None:
    scene.model.fail_next(name, MODEL_FAULTS[name])
    await rng.choice((say_on_discord, say_on_page, remind))(scene, rng)


def count_hits(scene: ChaosScene) -> None:
    """Count the faults of Discord and the phones that are used up, and those others have met."""
    _count_used_up(scene, scene.discord_faults, scene.discord.faults_left)
    _count_used_up(scene, scene.phones.planned, scene.phones.server.faults_left)
    for hits in (scene.model.hits, scene.calendars.hits):
        scene.hits.update(hits)
        hits.clear()


def _count_used_up(
    scene: ChaosScene, planned: Counter[tuple[str, str]], patterns: Iterable[str]
) -> None:
    """Those that were planned first are used up first."""
    left = Counter(patterns)
    for (name, pattern), times in reversed(planned.items()):
        kept = min(times, left[pattern])
        left[pattern] -= kept
        scene.hits[name] += times - kept
    planned.clear()


def _limit_files(pid: int, size: int) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    except ProcessLookupError:  # it has ended meanwhile
        return


FAULTS: Mapping[str, Action] = {
    "kill": kill,
    "kill before an answer": kill_before_answer,
    "kill after a call": partial(_kill_after, call_webhook),
    "kill after a tick": partial(_kill_after, tick_errand),
    "kill as updates are taken": partial(crash_at, UPDATES_TAKEN),
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
    "Discord away": discord_outage,
    **{name: partial(_fail_discord, name) for name in DISCORD_FAULTS},
    **{name: partial(_fail_model, name) for name in MODEL_FAULTS},
    **WRITE_ERRORS,
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(FAULTS, 1) | {
    "kill": 3,
    "kill before an answer": 2,
    "kill after a call": 3,
    "kill after a tick": 3,
    "kill as updates are taken": 2,
    "cut the power": 3,
    "Discord: answer to a sending lost": 4,
}
# The report at the end says of each how often it happened.
COUNTED_FAULTS: tuple[str, ...] = (
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
    *DISCORD_FAULTS,
    *MODEL_FAULTS,
    *(f"calendar {fault}" for fault in FeedFault),
    *ERROR_NAMES.values(),
    "power cut",
    *CRASH_POINTS,
)

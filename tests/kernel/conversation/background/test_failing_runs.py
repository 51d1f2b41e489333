"""Background runs that fail: the owner is told once, by the job's name, and each run ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import pytest
from devtools.doubles.engine import CallsTool, Fails, Says, Waits
from tests.kernel.conversation.background.scene import (
    WatchedEngine,
    background_scene,
    ping,
    report,
    routine,
)
from tests.kernel.conversation.failing_stores import FailingOnceStore
from tests.kernel.conversation.scene import InlineExecutor

from ollim_bot.kernel.base.errors import EngineError, WriteFailed
from ollim_bot.kernel.conversation.background_attempt import Try
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.events import EndCause, FailureKind, TurnEnded, UsageReported
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.usage import Usage

R = TypeVar("R")

FULL = WriteFailed(Path("state/x.json"), "the disk is full.")
INTERNAL = ("abc123", "routine-bg", "routine:", "main-session")


def assert_told_by_name(told: list[str]) -> None:
    [sentence] = told
    assert "“Morning mail”" in sentence
    assert not any(word in sentence for word in INTERNAL)


async def test_a_failure_is_told_once_and_the_agent_is_left_a_word() -> None:
    engine = WatchedEngine().then(Fails(FailureKind.OVERLOADED))
    async with background_scene(engine) as scene:
        assert await scene.run(routine()) is OccurrenceState.FAILED
        sentence = "“Morning mail” did not work: It failed: overloaded."
        assert await scene.told() == [sentence]
        assert await scene.told() == []
        assert scene.pending == [sentence]
        assert scene.end.facts["error"] == "It failed: overloaded."
        assert scene.end.facts["silent_because"] == "it did not come to its end"


async def test_another_attempt_of_the_same_occurrence_is_not_told_again() -> None:
    """The ping of the first can still be answered."""
    fails = Fails(FailureKind.OTHER)
    async with background_scene(WatchedEngine().then(ping(), fails).then(fails)) as scene:
        await scene.run(routine())
        await scene.run(routine(), Try(2))
        first, second = (row for row in scene.rows if row.state == "failed")
        [record] = scene.store.run(lambda tx: tx.fork_messages.get())
        assert record.fork_session_id == first.facts["session"]
        assert "pings" not in second.facts
        assert_told_by_name(await scene.told())


async def test_a_job_that_fails_again_for_the_same_reason_is_told_once_until_it_works() -> None:
    fails = Fails(FailureKind.OTHER)
    engine = WatchedEngine().then(fails).then(fails).then(Says("ok"), report()).then(fails)
    async with background_scene(engine) as scene:
        for _ in range(2):
            await scene.run(routine())
            scene.clock.jump(3600)
        assert len(await scene.told()) == 1
        for _ in range(2):
            await scene.run(routine())
            scene.clock.jump(3600)
        assert len(await scene.told()) == 1


async def test_a_job_that_fails_for_another_reason_is_told_again() -> None:
    engine = WatchedEngine().then(Fails(FailureKind.OTHER)).then(Fails(FailureKind.TOO_LONG))
    async with background_scene(engine) as scene:
        await scene.run(routine())
        scene.clock.jump(3600)
        await scene.run(routine())
        assert len(await scene.told()) == 2


async def test_a_job_without_a_description_is_told_by_its_first_words() -> None:
    engine = WatchedEngine().then(Fails(FailureKind.OTHER))
    async with background_scene(engine) as scene:
        await scene.run(routine(description="", message="Look at\n\nthe mail, " + "and on " * 30))
        [sentence] = await scene.told()
        assert sentence.startswith("“Look at the mail, and on")
        assert len(sentence) < 120


async def test_a_run_that_takes_too_long_is_stopped_and_told() -> None:
    usage = Usage(context=900, output=100, cost_usd=0.5)
    engine = WatchedEngine().then(UsageReported(usage), ping(), Waits())
    async with background_scene(engine) as scene:
        running = scene.start(routine())
        await scene.until(lambda: scene.said)
        await scene.clock.advance(1799)
        assert not running.done()
        await scene.clock.advance(1)
        assert await running is OccurrenceState.TIMED_OUT
        assert engine.closed == engine.opened
        told = [line for line in await scene.told() if line != "The bank wrote."]
        assert told == ["“Morning mail” did not work: it took longer than 30 min and was stopped."]
        assert_told_by_name(told)
        assert scene.end.state == "timed_out"
        assert scene.end.facts["tokens"] == 1000
        assert len(scene.end.facts["pings"]) == 1  # type: ignore[arg-type]
        assert scene.pending == told
        assert scene.clock.sleeping == 0


async def test_a_run_is_not_over_before_its_session_is_closed() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        running = scene.start(routine())
        await scene.until(lambda: engine.open_now)
        engine.may_close.clear()
        await scene.clock.advance(1800)
        await scene.settled()
        assert scene.states == ["running"]
        engine.may_close.set()
        assert await running is OccurrenceState.TIMED_OUT


async def test_the_limit_is_the_one_that_is_set() -> None:
    async with background_scene(WatchedEngine().then(Waits())) as scene:
        scene.configure(bg_fork_timeout=5)
        running = scene.start(routine())
        await scene.until(lambda: scene.clock.sleeping)
        await scene.clock.advance(5)
        assert await running is OccurrenceState.TIMED_OUT


async def test_waiting_for_a_place_does_not_count_as_running() -> None:
    async with background_scene(WatchedEngine().then(Waits()).then(Waits())) as scene:
        scene.configure(bg_concurrency=1)
        first, second = scene.start(routine("first")), scene.start(routine("second"))
        await scene.until(lambda: scene.clock.sleeping)
        await scene.clock.advance(1800)
        assert await first is OccurrenceState.TIMED_OUT
        await scene.until(lambda: scene.clock.sleeping)
        await scene.clock.advance(1799)
        assert not second.done()


async def test_wrong_tools_close_the_occurrence_and_are_told() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        job = routine(allowed_tools=("Bash(*)", "Read(./**.md)"))
        await scene.skip(job)
        assert engine.opened == []
        assert scene.states == ["skipped"]
        assert scene.end.facts["reason"] == "invalid tools"
        assert scene.end.facts["silent_because"] == "it was not run"
        told = await scene.told()
        assert_told_by_name(told)
        assert told[0].startswith(
            "“Morning mail” was not run: `Bash(*)` would allow every command."
        )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EngineError("Claude Code is not installed."), "Claude Code is not installed."),
        (FULL, "state/x.json: the disk is full."),
        (RuntimeError("secret detail"), "the bot made a mistake. The log says more."),
    ],
)
@pytest.mark.parametrize("place", ["spec", "policy", "open", "turn", "prompt", "main", "history"])
async def test_no_exception_gets_out_and_there_is_an_end(
    place: str, error: Exception, said: str
) -> None:
    engine = WatchedEngine()
    changed = {"history": "session_history", "prompt": "budget"}.get(place)

    def seen(store: Store) -> Store:
        return store if changed is None else FailingOnceStore(store, error, changed)

    async with background_scene(engine, seen=seen) as scene:
        faults: dict[str, tuple[object, str]] = {
            "spec": (scene, "_spec"),
            "policy": (scene, "_usual"),
            "main": (scene, "_main"),
            "open": (engine, "open"),
            "turn": (engine, "next_script"),
        }
        if place in faults:
            setattr(*faults[place], FailingReader(error).read)
        assert await scene.run(routine()) is OccurrenceState.FAILED
        assert scene.end.facts["error"] == said
        assert await scene.told() == [f"“Morning mail” did not work: {said}"]
        assert engine.open_now == []
        scene.configure(bg_concurrency=1)
        assert (await scene.run(routine("next"))).is_end


class FailingReader:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, *_: object) -> Any:
        raise self._error


async def test_an_engine_that_says_nothing_has_failed() -> None:
    async with background_scene(WatchedEngine().then(TurnEnded(EndCause.INTERRUPTED))) as scene:
        assert await scene.run(routine()) is OccurrenceState.FAILED
        assert scene.end.facts["error"] == "it was stopped before its end."


async def test_settings_that_cannot_be_read_are_the_defaults() -> None:
    async with background_scene(
        WatchedEngine(), seen=lambda store: FailingOnceStore(store, FULL)
    ) as scene:
        assert await scene.run(routine()) is OccurrenceState.DONE


@pytest.mark.parametrize("steps_of_run", [(ping(), report()), (ping(),)], ids=["", "no report"])
async def test_stopping_at_any_moment_leaves_one_last_row_or_none_at_all(
    steps_of_run: tuple[CallsTool, ...],
) -> None:
    """A run that has begun has exactly one last row, at whatever step it is stopped."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    seen = set[tuple[str, ...]]()
    for steps in range(300):
        engine = WatchedEngine().then(*steps_of_run, Says("x"))
        async with background_scene(engine) as scene:
            running = scene.start(routine())
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            states = tuple(scene.states)
            assert states in ((), ("running", "cut_off"), ("running", "done"))
            assert engine.open_now == []
            seen.add(states)
            if not running.cancelled():
                break
    assert seen == {(), ("running", "cut_off"), ("running", "done")}


async def test_what_a_call_did_is_known_even_if_the_run_was_stopped_in_it() -> None:
    """A ping that has arrived must not be sent again by another attempt."""
    engine = WatchedEngine()
    for steps in range(0, 60, 3):
        engine.then(ping(), Waits())
        async with background_scene(engine) as scene:
            running = scene.start(routine())
            await scene.until(lambda: engine.open_now)
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert len(scene.said) == len(scene.rows[-1].facts.get("pings", []))  # type: ignore[arg-type]

"""Requests of background runs: they reuse the cached history and leave the main session as is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.kernel.conversation.background.real_scene import (
    PING,
    REPORT,
    RealScene,
    as_bytes,
    calls,
    history,
    says,
)
from tests.kernel.conversation.background.scene import reminder, routine, webhook
from tests.kernel.engine.scene import ask, end_of, spoken

from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.jobs import Chain, Job
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.sessions import SessionChange
from ollim_bot.offline.server import Hang

JOBS: Sequence[tuple[str, Job]] = [
    ("[routine-bg:one]", routine("one")),
    ("[reminder-bg:two]", reminder("two")),
    ("[reminder-bg:three]", reminder("three", chain=Chain(max=2, depth=1, parent="root"))),
    ("[webhook:five]", webhook("five")),
    ("[routine-bg:four]", routine("four", allowed_tools=("WebSearch",), allow_ping=False)),
]


def isolated(job: Job) -> Job:
    return replace(job, spec=replace(job.spec, isolated=True))


@pytest.mark.real_engine
async def test_runs_keep_what_the_cache_holds_speak_for_themselves_and_leave_main_alone(
    real: RealScene,
) -> None:
    """A forked run sends the same bytes as main; at the end of its time its process is gone."""
    scene, model = real.scene, real.model
    tag, job = JOBS[-1]
    async with real.engine.open(scene.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        await ask(main, "and my dog Bo")
        scene.main = main.id
        _, before = model.requests
        await check_that_a_ping_is_marked_recorded_and_charged(real)
        number = len(model.requests)
        model.when("YOUR TASK", Hang())
        running = scene.start(job)
        await model.seen(number + 1)
        assert (await end_of(main, "go on")).text == "ok", "while a run is going"
        assert main.id == scene.main
        await scene.clock.advance(1800)
        assert await running is OccurrenceState.TIMED_OUT
    await real.until_no_processes()
    forked, after = model.requests[number:]
    for part in ("tools", "system"):
        assert as_bytes(forked.body[part]) == as_bytes(before.body[part]), part
    said = history(before)
    assert history(forked)[: len(said)] == said
    past = ["my cat is called Miso", "ok", "and my dog Bo", "ok"]
    assert spoken(forked)[:4] == past
    assert spoken(forked)[4].startswith(tag)
    assert len(spoken(forked)) == 5
    assert spoken(after) == [*past, "go on"]


async def check_that_a_ping_is_marked_recorded_and_charged(real: RealScene) -> None:
    scene, report = real.scene, calls(REPORT, message="Pinged about the bank.")
    real.model.then(calls(PING, message="The bank wrote."), says("Done."), report)
    assert await scene.run(routine()) is OccurrenceState.DONE
    (message,) = scene.surface.posts
    assert (message.text, message.author) == ("The bank wrote.", Author.BACKGROUND)
    assert message.job == "Morning mail"
    [record] = scene.store.run(lambda tx: tx.fork_messages.get())
    [event] = scene.events
    assert event.event is SessionChange.BG_FORK
    assert record.fork_session_id == event.session_id == scene.end.facts["session"]
    assert record.parent_session_id == event.parent_session_id == scene.main
    assert scene.pending == ["Pinged about the bank."]
    assert scene.end.facts["tools"] == [PING, REPORT]
    assert scene.end.facts["tokens"]
    assert scene.store.run(lambda tx: tx.budget.get()).tokens == 4


async def test_every_kind_of_job_runs_with_the_tools_and_the_system_prompt_of_main(
    in_process: RealScene,
) -> None:
    scene, model = in_process.scene, in_process.model
    async with in_process.engine.open(scene.base, in_process.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        scene.main = main.id
        for _, job in JOBS:
            assert await scene.run(job) is OccurrenceState.DONE
            assert await scene.run(isolated(job)) is OccurrenceState.DONE
    before, *asked = model.requests
    for (tag, _), forked, alone in zip(JOBS, asked[::2], asked[1::2], strict=True):
        assert forked.tools == alone.tools == before.tools, tag
        assert forked.system == alone.system == before.system, tag
        *past, prompt = spoken(forked)
        assert past == ["my cat is called Miso", "ok"], tag
        assert prompt.startswith(tag)
        (only,) = spoken(alone)
        assert only.startswith(tag)
    ends = [(event.event, event.parent_session_id) for event in scene.events]
    assert ends[1::2] == [(SessionChange.ISOLATED_BG, None)] * len(JOBS)

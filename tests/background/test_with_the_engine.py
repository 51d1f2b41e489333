"""What background runs send to the model: the cached history is kept, and main is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.background.real_scene import RealScene, as_bytes, history, instructions
from tests.background.scene import NOW, reminder, routine, webhook
from tests.engine.scene import ask, end_of, spoken

from ollim_bot.conversation.background_attempt import Try
from ollim_bot.domain.jobs import Chain, Job, Model
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.sessions import SessionChange
from ollim_bot.offline.messages import Hang

JOBS: Sequence[tuple[str, Job]] = [
    ("[routine-bg:one]", routine("one")),
    ("[reminder-bg:two]", reminder("two")),
    ("[reminder-bg:three]", reminder("three", chain=Chain(max=2, depth=1, parent="root"))),
    ("[webhook:five]", webhook("five")),
    ("[routine-bg:four]", routine("four", allowed_tools=("WebSearch",), allow_ping=False)),
]


async def test_a_forked_run_keeps_all_that_the_cache_holds(real: RealScene) -> None:
    stage, model = real.stage, real.model
    async with real.engine.open(stage.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        await ask(main, "and my dog Bo")
        stage.main = main.id
        for _, job in JOBS:
            assert await stage.run(job) is OccurrenceState.DONE
    before, *all_forked = model.requests[1:]
    said = history(before)
    for (tag, _), forked in zip(JOBS, all_forked, strict=True):
        for part in ("tools", "system"):
            assert as_bytes(forked.body[part]) == as_bytes(before.body[part]), tag
        assert history(forked)[: len(said)] == said, tag
        assert spoken(forked)[:4] == ["my cat is called Miso", "ok", "and my dog Bo", "ok"]
        assert spoken(forked)[4].startswith(tag)
        assert len(spoken(forked)) == 5


async def test_main_goes_on_untouched_while_a_run_is_going(real: RealScene) -> None:
    stage, model = real.stage, real.model
    model.when("YOUR TASK", Hang())
    async with real.engine.open(stage.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        stage.main = main.id
        _ = stage.start(routine())
        await model.seen(2)
        assert (await end_of(main, "go on")).text == "ok"
        assert main.id == stage.main
    assert spoken(model.requests[2]) == ["my cat is called Miso", "ok", "go on"]


async def test_an_isolated_run_has_the_same_tools_and_system_but_no_history(
    real: RealScene,
) -> None:
    stage, model = real.stage, real.model
    async with real.engine.open(stage.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        stage.main = main.id
        for _, job in JOBS:
            isolated = replace(job, spec=replace(job.spec, isolated=True))
            assert await stage.run(isolated) is OccurrenceState.DONE
    before, *all_isolated = model.requests
    for (tag, _), asked in zip(JOBS, all_isolated, strict=True):
        assert as_bytes(asked.body["tools"]) == as_bytes(before.body["tools"]), tag
        assert instructions(asked) == instructions(before), tag
        assert "Miso" not in str(asked.body)
        (prompt,) = spoken(asked)
        assert prompt.startswith(tag)
    ends = [(event.event, event.parent_session_id) for event in stage.events]
    assert ends == [(SessionChange.ISOLATED_BG, None)] * len(JOBS)


@pytest.mark.parametrize("isolated", [False, True], ids=["forked", "isolated"])
async def test_the_prompt_is_tag_time_updates_preamble_and_task(
    real: RealScene, isolated: bool
) -> None:
    stage = real.stage
    stage.stores.leave_update("The plumber came.", NOW - timedelta(minutes=5))
    job = routine(isolated=isolated, message="Look at the mail.\n\nTwice.")
    await stage.run(job, Try(late_since=NOW - timedelta(hours=1)))
    (prompt,) = spoken(real.model.requests[0])
    head, _, rest = prompt.partition("\n\n")
    updates = [
        "RECENT BACKGROUND UPDATES (read-only — main session will also see these)",
        "- (5m ago) The plumber came.",
    ]
    assert head.splitlines() == [
        "[routine-bg:abc123] [late: was scheduled for 9:15 AM, running now]",
        "[2026-02-24 Tue 10:15 AM UTC]",
        *([] if isolated else updates),
    ]
    assert rest.startswith("BACKGROUND RUN: nobody reads your text.")
    assert rest.endswith("YOUR TASK:\n\nLook at the mail.\n\nTwice.")
    assert stage.pending == ["The plumber came."]


async def test_a_job_says_which_model_it_wants(real: RealScene) -> None:
    await real.stage.run(routine(model=Model.HAIKU))
    assert "haiku" in real.model.requests[0].model

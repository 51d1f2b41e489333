"""What background runs send to the model: the cached history is kept, and main is left alone."""

from __future__ import annotations

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

JOBS: dict[str, Job] = {
    "routine-bg": routine(),
    "reminder-bg": reminder(),
    "chain": reminder(chain=Chain(max=2, depth=1, parent="root")),
    "webhook": webhook(),
    "restricted": routine(allowed_tools=("WebSearch",), allow_ping=False),
}
TAGS = {
    "routine-bg": "[routine-bg:abc123]",
    "reminder-bg": "[reminder-bg:abc123]",
    "chain": "[reminder-bg:abc123]",
    "webhook": "[webhook:abc123]",
    "restricted": "[routine-bg:abc123]",
}


@pytest.mark.parametrize("name", JOBS)
async def test_a_forked_run_keeps_all_that_the_cache_holds(real: RealScene, name: str) -> None:
    stage, model = real.stage, real.model
    async with real.engine.open(stage.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        await ask(main, "and my dog Bo")
        stage.main = main.id
        assert await stage.run(JOBS[name]) is OccurrenceState.DONE
    before, forked = model.requests[1:]
    for part in ("tools", "system"):
        assert as_bytes(forked.body[part]) == as_bytes(before.body[part])
    said = history(before)
    assert history(forked)[: len(said)] == said
    assert spoken(forked)[:4] == ["my cat is called Miso", "ok", "and my dog Bo", "ok"]
    assert spoken(forked)[4].startswith(TAGS[name])
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


@pytest.mark.parametrize("name", JOBS)
async def test_an_isolated_run_has_the_same_tools_and_system_but_no_history(
    real: RealScene, name: str
) -> None:
    stage, model = real.stage, real.model
    job = replace(JOBS[name], spec=replace(JOBS[name].spec, isolated=True))
    async with real.engine.open(stage.base, real.main_tools()) as main:
        await ask(main, "my cat is called Miso")
        stage.main = main.id
        assert await stage.run(job) is OccurrenceState.DONE
    before, isolated = model.requests
    assert as_bytes(isolated.body["tools"]) == as_bytes(before.body["tools"])
    assert instructions(isolated) == instructions(before)
    assert "Miso" not in str(isolated.body)
    (prompt,) = spoken(isolated)
    assert prompt.startswith(TAGS[name])
    [event] = stage.events
    assert (event.event, event.parent_session_id) == (SessionChange.ISOLATED_BG, None)


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

"""Background runs with the real engine: the cached history is kept, and main is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.background.scene import Scene, reminder, routine, scene, webhook
from tests.engine import scene as real
from tests.engine.scene import LIMIT, ask, end_of, engine_at, spoken

from ollim_bot.agent import Refusal, ToolCall, Toolset
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.tool_policy import MAIN_TOOLS
from ollim_bot.offline.messages import CallTool, Hang, ModelRequest, Reply, Say
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.toolset import toolset


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[real.Scene]:
    async with asyncio.timeout(LIMIT), real.scene(tmp_path) as made:
        yield made


def main_tools(stage: Scene, home: Path) -> Toolset:
    async def gate(_: ToolCall) -> Refusal | None:
        return None

    run = Run(RunPolicy(RunKind.MAIN, MAIN_TOOLS), stage.clock.now())
    bench = Workbench(run, stage.stores, stage.clock, home, stage.poster, lambda: False)
    return toolset(bench, gate)


def history(request: ModelRequest) -> list[object]:
    """Without the marks that say how far the cache goes, which move on with the conversation."""
    messages = request.body["messages"]
    assert isinstance(messages, list)
    return [_unmarked(each) for each in messages]


def _unmarked(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "job", [routine(), reminder(), webhook()], ids=lambda job: type(job).__name__
)
async def test_a_forked_run_keeps_the_cache_and_main_goes_on_untouched(
    model: real.Scene, job: Job
) -> None:
    engine = engine_at(model.home, model.url)
    model.model.when("YOUR TASK", Hang())
    async with scene(engine) as stage:
        stage.base = replace(model.spec, thinking="adaptive")
        tools = main_tools(stage, model.home)
        async with engine.open(stage.base, tools) as main:
            await ask(main, "my cat is called Miso")
            await ask(main, "and my dog Bo")
            stage.main = main.id
            _ = stage.start(job)
            forked = await model.model.seen(3)
            assert (await end_of(main, "go on")).text == "ok"
            assert main.id == stage.main
            before, after = model.model.requests[1], model.model.requests[3]
    assert forked.body["tools"] == before.body["tools"]
    assert _unmarked(forked.body["system"]) == _unmarked(before.body["system"])
    said = history(before)
    assert history(forked)[: len(said)] == said
    assert spoken(forked)[:4] == ["my cat is called Miso", "ok", "and my dog Bo", "ok"]
    assert spoken(forked)[4].startswith(f"[{stage.rows[0].occurrence.kind}")  # type: ignore[union-attr]
    assert len(spoken(forked)) == 5
    assert "YOUR TASK" not in str(after.body)


async def test_an_isolated_run_has_no_history(model: real.Scene) -> None:
    engine = engine_at(model.home, model.url)
    async with scene(engine) as stage:
        stage.base = model.spec
        async with engine.open(stage.base, main_tools(stage, model.home)) as main:
            await ask(main, "my cat is called Miso")
            stage.main = main.id
            assert await stage.run(routine(isolated=True)) is OccurrenceState.DONE
        request = model.model.requests[1]
        assert "Miso" not in str(request.body)
        assert request.body["tools"] == model.model.requests[0].body["tools"]
        assert len(spoken(request)) == 1


async def test_a_run_pings_and_is_sent_back_until_it_reports(model: real.Scene) -> None:
    model.model.then(
        Reply((CallTool("mcp__discord__ping_user", {"message": "The bank wrote."}),)),
        Reply((Say("Done."),)),
        Reply((CallTool("mcp__discord__report_updates", {"message": "Pinged about the bank."}),)),
    )
    async with scene(engine_at(model.home, model.url)) as stage:
        stage.base = model.spec
        stage.main = None
        assert await stage.run(routine()) is OccurrenceState.DONE
        assert stage.said == ["The bank wrote."]
        assert stage.pending == ["Pinged about the bank."]
        [event] = stage.events
        [record] = stage.stores.fork_messages.read()
        assert record.fork_session_id == event.session_id == stage.end.facts["session"]
        assert stage.end.facts["tokens"]

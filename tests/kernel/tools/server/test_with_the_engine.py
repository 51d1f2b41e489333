"""The tools as the real engine sees them: all of them, and every right call goes through."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.kernel.engine.scene import ChangingTools, Scene, ask, scene
from tests.kernel.store.files.data_directory import DataDirectory
from tests.kernel.tools.server.test_toolset import PARAMETERS
from tests.kernel.tools.server.tool_scene import NOW, ToolScene, make_tool_scene

from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.gates import BackgroundTools
from ollim_bot.kernel.tools.toolset import BUILTIN, toolset
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder, ReportMode
from ollim_bot.kernel.values.ports import AgentSession, Refusal, ToolCall
from ollim_bot.kernel.values.runs import EnterFork, RunKind
from ollim_bot.offline.server import CallTool, Reply, Say, ToolResult

pytestmark = pytest.mark.real_process

CARD = {
    "title": "Mail",
    "description": "Three wait.",
    "color": "green",
    "fields": [{"name": "From", "value": "Ann", "inline": True}, {"name": "Age", "value": "2 d"}],
    "buttons": [
        {"label": "Yes", "action": "agent:Say yes.", "style": "primary"},
        {"label": "Later", "action": "dismiss"},
    ],
    "critical": False,
}
RIGHT: Sequence[tuple[str, Mapping[str, object]]] = [
    ("discord_embed", CARD),
    ("discord_embed", {"title": "Bare"}),
    ("send_file", {"file_path": "note.md", "message": "Here.", "critical": False}),
    ("enter_fork", {"topic": "Rome", "idle_timeout": 20}),
    ("list_reminders", {}),
    ("update_names", {"user_name": "Sam", "bot_name": "Kit"}),
    ("search_docs", {"query": "time zone"}),
    ("read_doc", {"page": "settings"}),
    ("add_reminder", {"prompt": "m", "delay_minutes": 5, "description": "d"}),
    ("add_reminder", {"prompt": "m", "delay_minutes": 0.5, "must": True, "max_chain": 2}),
    ("add_reminder", {"prompt": "m", "run_at": "in 2 hours", "foreground": True}),
]
IN_BACKGROUND: Sequence[tuple[str, Mapping[str, object]]] = [
    ("ping_user", {"message": "Ann has not answered.", "critical": True}),
    ("follow_up_chain", {"minutes_from_now": 30.5}),
    ("report_updates", {"message": "Pinged about Ann."}),
]
WRONG: Sequence[tuple[str, Mapping[str, object]]] = [
    ("add_reminder", {"delay_minutes": 5}),
    ("add_reminder", {"prompt": "Call mum", "delay_minutes": "soon"}),
    ("add_reminder", {"prompt": "Call mum", "delay_minutes": 5, "when": "now"}),
    ("discord_embed", {"title": "t", "color": "pink"}),
    ("discord_embed", {"title": "t", "buttons": [{"label": "Yes"}]}),
]
CHECK = Reminder(JobSpec(id="root", message="Has Ann answered?", background=True), NOW, Chain(2))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


def at_data(engine: Scene, kind: RunKind, folder: str = "data", **changes: object) -> ToolScene:
    data = DataDirectory(engine.home / folder)
    (data.paths.root / "note.md").write_text("note")
    return make_tool_scene(data.paths.root, kind, stores=data.open(), **changes)  # type: ignore[arg-type]


async def everything(_: ToolCall) -> Refusal | None:
    return None


async def nothing(_: ToolCall) -> Refusal | None:
    return Refusal("not available")


def full_name(tool: str) -> str:
    return f"mcp__{'docs' if tool.endswith(('_docs', '_doc')) else 'discord'}__{tool}"


def calling(*calls: tuple[str, Mapping[str, object]]) -> Reply:
    return Reply(tuple(CallTool(full_name(name), dict(given)) for name, given in calls))


def told(engine: Scene, number: int | None = None) -> list[ToolResult]:
    """What the model was told about its last `number` calls, or all of them, in their order."""
    messages = engine.model.requests[-1].messages
    made = [str(call["id"]) for message in messages for call in message.of_type("tool_use")]
    results = {one.call_id: one for message in messages for one in message.tool_results}
    return [results[each] for each in made[-(number or len(made)) :]]


async def test_the_model_is_shown_exactly_these_tools_and_every_right_call_goes_through_in_each_run(
    engine: Scene,
) -> None:
    """A wrong call never reaches its tool, and its refusal teaches."""
    at = at_data(engine, RunKind.MAIN)
    tools = ChangingTools(toolset(at.context, everything))
    async with engine.session(tools.toolset()) as session:
        await check_that_exactly_these_tools_are_shown(engine, at, session)
        await check_that_wrong_calls_are_refused(engine, at, session)
        await check_that_right_calls_go_through(engine, at, session)

        run = at_data(
            engine, RunKind.BACKGROUND, "data of the run", job=CHECK, report=ReportMode.ON_PING
        )
        gate = BackgroundTools(PathPolicy(run.context.root), tuple).gate(run.run)
        tools.now = toolset(run.context, gate)
        await check_that_a_background_run_pings_follows_up_and_reports(engine, run, session)


async def check_that_exactly_these_tools_are_shown(
    engine: Scene, at: ToolScene, session: AgentSession
) -> None:
    engine.model.then(calling(("add_reminder", {"prompt": "Call mum", "run_at": "tomorrow 9am"})))
    await ask(session, "remind me tomorrow at nine to call mum")
    ours = {full_name(name) for name in PARAMETERS}
    assert len(ours) == 16
    offered = set(engine.model.requests[0].tools)
    assert {name for name in offered if name.startswith("mcp__")} == ours
    assert offered <= ours | set(BUILTIN)
    assert_the_reminder_is_a_file(engine, at)


async def check_that_wrong_calls_are_refused(
    engine: Scene, at: ToolScene, session: AgentSession
) -> None:
    wrong = [
        *WRONG,
        ("add_reminder", {"prompt": "Call mum", "run_at": "yesterday 9am"}),
        ("send_file", {"file_path": "state/config.json"}),
        ("discord_embed", {"title": "t", "fields": [{"name": "n", "value": "v"}] * 26}),
    ]
    engine.model.then(calling(*wrong))
    await ask(session, "go wrong")
    assert_each_was_refused(told(engine, len(wrong)))
    assert len(at.stores.reminders.all()) == 1
    assert at.poster.messages == []


async def check_that_right_calls_go_through(
    engine: Scene, at: ToolScene, session: AgentSession
) -> None:
    engine.model.then(calling(*RIGHT))
    await ask(session, "go")
    results = told(engine, len(RIGHT))
    assert [(one.text, one.is_error) for one in results if one.is_error] == []
    assert [message.card is not None for message in at.poster.messages].count(True) == 2
    assert at.wanted == [EnterFork("Rome", 20)]
    assert len(at.stores.reminders.all()) == 4


def assert_the_reminder_is_a_file(engine: Scene, at: ToolScene) -> None:
    (result,) = told(engine)
    (one,) = at.stores.reminders.all()
    file = one.path.relative_to(at.context.root)
    expected = f"Reminder {one.item.spec.id} set: tomorrow 9:00 (in 1 d). File: {file}"
    assert (result.text, result.is_error) == (expected, False)
    assert "Call mum" in one.path.read_text()
    assert at.run.tools_used == ["mcp__discord__add_reminder"]


def assert_each_was_refused(results: Sequence[ToolResult]) -> None:
    assert [one.text for one in results if not one.is_error] == []
    yesterday, secret, fields = results[-3:]
    assert "tomorrow 9am" in yesterday.text
    assert "state/ is protected" in secret.text
    assert "25 fields at most" in fields.text
    assert "Traceback" not in json.dumps([one.text for one in results])


async def check_that_a_background_run_pings_follows_up_and_reports(
    engine: Scene, at: ToolScene, session: AgentSession
) -> None:
    """The run is sent back because it has not reported yet."""
    ping, follow_up, report = IN_BACKGROUND
    engine.model.then(calling(ping, follow_up), Reply((Say("Done."),)), calling(report))
    await ask(session, "check")

    assert [one.is_error for one in told(engine, 3)] == [False] * 3
    assert [message.text for message in at.poster.messages] == ["Ann has not answered."]
    assert at.run.reports == ["Pinged about Ann."]
    assert at.run.times_sent_back == 1
    assert [one.item.chain.depth for one in at.stores.reminders.all()] == [1]

"""All tools of a run: who judges a call, what is noted of it, and what the small ones do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.kernel.tools.server.tool_scene import (
    BACKGROUND,
    EVERYWHERE,
    NOW,
    MakeToolScene,
    ToolScene,
    make_tool_scene,
)

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.tools.tool_context import docs_folder
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.forks import Discard, Fork, ForkExit, Report, Save
from ollim_bot.kernel.values.jobs import ReportMode
from ollim_bot.kernel.values.ports import Refusal, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.kernel.values.runs import EnterFork, Run, RunKind, RunPolicy
from ollim_bot.kernel.values.schedule import GivenNames

DISCORD = (
    "add_reminder", "list_reminders", "cancel_reminder", "follow_up_chain", "settle_reminder",
    "break_down", "discord_embed", "send_file", "ping_user", "report_updates", "enter_fork",
    "exit_fork", "save_context", "update_names",
)  # fmt: skip

PARAMETERS = {
    "discord_embed": ["title*", "description", "color", "fields", "buttons", "job", "critical"],
    "ping_user": ["message*", "critical"],
    "send_file": ["file_path*", "message", "critical"],
    "report_updates": ["message*"],
    "enter_fork": ["topic", "idle_timeout"],
    "exit_fork": [],
    "save_context": [],
    "follow_up_chain": ["minutes_from_now*"],
    "settle_reminder": ["item*", "action*", "until"],
    "break_down": ["thing*", "steps*"],
    "add_reminder": [
        "prompt*", "delay_minutes", "timer", "run_at", "description", "foreground", "max_chain",
        "must", "plain", "nag", "first_step", "before", "kind",
    ],
    "list_reminders": [],
    "cancel_reminder": ["reminder_id*"],
    "update_names": ["user_name", "bot_name"],
    "search_docs": ["query*"],
    "read_doc": ["page*"],
}  # fmt: skip


async def nothing(_: ToolCall) -> Refusal | None:
    return Refusal("not available")


async def everything(_: ToolCall) -> Refusal | None:
    return None


def parameters(tool: Tool) -> list[str]:
    properties, required = tool.schema["properties"], tool.schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    assert tool.schema["additionalProperties"] is False
    return [f"{name}*" if name in required else name for name in properties]


async def let_through(tools: Toolset) -> set[str]:
    names = {f"mcp__discord__{name}": name for name in DISCORD}
    return {name for full, name in names.items() if await tools.gate(ToolCall(full, {})) is None}


def shown(scene: ToolScene) -> object:
    tools = toolset(scene.context, everything)
    servers = {
        name: [(tool.name, tool.description, tool.schema) for tool in some]
        for name, some in tools.servers.items()
    }
    return servers, tools.builtin


def test_the_tools_and_their_parameters_are_these(tool_scene: MakeToolScene) -> None:
    servers = toolset(tool_scene().context, everything).servers
    assert [tool.name for tool in servers["discord"]] == list(DISCORD)
    assert [tool.name for tool in servers["docs"]] == ["search_docs", "read_doc"]
    tools = (tool for some in servers.values() for tool in some)
    assert {tool.name: parameters(tool) for tool in tools} == PARAMETERS


def test_they_are_shown_alike_in_every_kind_of_run(tmp_path: Path) -> None:
    first, *others = [shown(make_tool_scene(tmp_path, kind)) for kind in EVERYWHERE]
    assert all(other == first for other in others)


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_the_policy_judges_every_call(tool_scene: MakeToolScene, kind: RunKind) -> None:
    assert await let_through(toolset(tool_scene(kind).context, nothing)) == set()
    assert await let_through(toolset(tool_scene(kind).context, everything)) == set(DISCORD)


async def test_the_tools_of_the_engine_are_always_judged(tool_scene: MakeToolScene) -> None:
    tools = toolset(tool_scene().context, nothing)
    for name in tools.builtin:
        assert await tools.gate(ToolCall(name, {})) == Refusal("not available")


async def test_calls_that_were_let_through_are_noted_in_the_run_of_the_turn(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    first, tools = at.run, toolset(at.context, everything)
    await tools.gate(ToolCall("mcp__discord__ping_user", {}))
    await toolset(at.context, nothing).gate(ToolCall("Read", {}))
    at.context.run = Run(first.policy, NOW)
    await tools.gate(ToolCall("mcp__discord__send_file", {}))
    assert first.tools_used == ["mcp__discord__ping_user"]
    assert at.run.tools_used == ["mcp__discord__send_file"]


@pytest.mark.parametrize(
    ("tool", "has_effects"), [("Read", False), ("mcp__docs__read_doc", False), ("Write", True)]
)
async def test_a_run_that_changed_something_has_effects(
    tool_scene: MakeToolScene, tool: str, has_effects: bool
) -> None:
    at = tool_scene()
    assert await toolset(at.context, nothing).gate(ToolCall(tool, {})) is not None
    assert not at.run.has_effects
    assert await toolset(at.context, everything).gate(ToolCall(tool, {})) is None
    assert at.run.has_effects is has_effects


async def test_a_run_that_owes_a_report_is_sent_back_twice_at_most(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(report=ReportMode.ALWAYS)
    tools = toolset(at.context, nothing)
    said = [await tools.may_end() for _ in range(4)]
    assert said[2:] == [None, None]
    assert all("report_updates" in (reason or "") for reason in said[:2])
    assert at.run.times_sent_back == 2
    assert at.run.owes_report


async def test_a_run_that_has_reported_may_end(tool_scene: MakeToolScene) -> None:
    at = tool_scene(report=ReportMode.ON_PING)
    tools = toolset(at.context, nothing)
    assert await tools.may_end() is None
    await at.works("ping_user", message="hi")
    assert await tools.may_end() is not None
    await at.works("report_updates", message="Pinged.")
    assert await tools.may_end() is None


async def test_whether_a_turn_may_end_is_a_matter_of_its_own_run(tool_scene: MakeToolScene) -> None:
    at = tool_scene(report=ReportMode.ALWAYS)
    tools = toolset(at.context, nothing)
    at.context.run = Run(RunPolicy(RunKind.MAIN, ()), NOW, pings=[MessageId("1")])
    assert await tools.may_end() is None


EXITS = [("exit_fork", Discard()), ("save_context", Save())]


@pytest.mark.parametrize(
    ("given", "intent"),
    [
        ({}, EnterFork()),
        ({"topic": " The trip\nto Rome "}, EnterFork("The trip to Rome")),
        ({"topic": "Rome", "idle_timeout": 20}, EnterFork("Rome", 20)),
        ({"idle_timeout": 20.0}, EnterFork("", 20)),
    ],
)
async def test_a_fork_is_opened_from_the_main_session(
    tool_scene: MakeToolScene, given: dict[str, object], intent: EnterFork
) -> None:
    at = tool_scene(RunKind.MAIN)
    assert "End your turn" in await at.works("enter_fork", **given)
    assert at.wanted == [intent]


@pytest.mark.parametrize(("name", "intent"), EXITS)
async def test_a_fork_is_left_from_within(
    tool_scene: MakeToolScene, name: str, intent: ForkExit
) -> None:
    at = tool_scene(RunKind.FORK)
    assert "when this turn has ended" in await at.works(name)
    assert at.wanted == [intent]


async def test_what_the_agent_saves_is_not_confirmed_yet(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.FORK)
    assert "The owner is asked" in await at.works("save_context")
    assert at.wanted == [Save()]


async def test_what_cannot_be_saved_is_refused_at_once_with_the_reason(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.FORK)
    now = at.clock.now()
    gone_on = Fork("f1", SessionId("f"), SessionId("old"), "", timedelta(minutes=10), now, now)
    at.stores.state.run(lambda tx: tx.fork.put(gone_on))
    at.stores.state.run(lambda tx: tx.session.put(SessionId("new")))
    assert "the main conversation has gone on" in await at.is_refused("save_context")
    assert at.wanted == []


MAY_REPORT = [mode for mode in ReportMode if mode is not ReportMode.BLOCKED]


@pytest.mark.parametrize("kind", BACKGROUND)
@pytest.mark.parametrize("mode", MAY_REPORT)
async def test_the_report_of_a_background_run_waits_for_the_main_session(
    tool_scene: MakeToolScene, kind: RunKind, mode: ReportMode
) -> None:
    at = tool_scene(kind, report=mode)
    answer = await at.works("report_updates", message=" Three mails\nneed replies. ")
    assert "at its next turn" in answer
    (update,) = at.stores.updates.read().entries
    assert (update.message, update.ts) == ("Three mails need replies.", at.clock.now())
    assert at.run.reports == ["Three mails need replies."]
    assert not at.run.owes_report
    assert at.poster.messages == []


@pytest.mark.parametrize("kind", BACKGROUND)
async def test_where_reports_are_blocked_the_tool_refuses(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind, report=ReportMode.BLOCKED)
    assert "End without it" in await at.is_refused("report_updates", message="Done.")
    assert at.stores.updates.read().entries == ()
    assert at.run.reports == []


@pytest.mark.parametrize("kind", [*BACKGROUND, RunKind.FORK])
async def test_an_empty_report_is_no_report(tool_scene: MakeToolScene, kind: RunKind) -> None:
    at = tool_scene(kind, report=ReportMode.ALWAYS)
    assert "needs words" in await at.is_refused("report_updates", message=" \n ")
    assert at.run.owes_report
    assert at.stores.updates.read().entries == ()
    assert at.wanted == []


async def test_in_a_fork_it_is_the_way_out_that_leaves_a_summary(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.FORK)
    await at.works("report_updates", message="We chose Rome.")
    assert at.wanted == [Report("We chose Rome.")]
    assert at.stores.updates.read().entries == ()


def names(at: ToolScene) -> GivenNames:
    known: GivenNames = at.stores.state.query(lambda tx: tx.names.get())
    return known


async def test_a_name_is_remembered_and_the_other_one_stays(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    at.stores.state.run(lambda tx: tx.names.put(GivenNames(bot="Ollim")))
    answer = await at.works("update_names", user_name=" Sam  Gray ", bot_name="")
    assert answer == "From now on the owner is called Sam Gray."
    assert names(at) == GivenNames("Sam Gray", "Ollim")
    answer = await at.works("update_names", user_name="Sam", bot_name="Kit")
    assert answer == "From now on the owner is called Sam and you are called Kit."
    assert names(at) == GivenNames("Sam", "Kit")


# Each tool that is not for every kind of run: where it is for, and what is said elsewhere.
PLACES: dict[str, tuple[dict[str, object], set[RunKind], str]] = {
    "enter_fork": ({"topic": "Rome"}, {RunKind.MAIN}, "main session only"),
    "exit_fork": ({}, {RunKind.FORK}, "nothing to leave"),
    "save_context": ({}, {RunKind.FORK}, "nothing to leave"),
    "update_names": ({"user_name": "Sam"}, {RunKind.MAIN}, "main conversation only"),
    "report_updates": ({"message": "x"}, {*BACKGROUND, RunKind.FORK}, "This is the main session"),
}


@pytest.mark.parametrize("name", PLACES)
async def test_what_is_not_for_a_run_is_refused_there_and_does_nothing(
    tool_scene: MakeToolScene, name: str
) -> None:
    given, where, reason = PLACES[name]
    for kind in {*EVERYWHERE} - where:
        at = tool_scene(kind)
        assert reason in await at.is_refused(name, **given)
        assert at.wanted == []
        assert names(at) == GivenNames()
        assert at.stores.updates.read().entries == ()


@pytest.mark.parametrize("given", [{}, {"user_name": " "}, {"bot_name": "x" * 81}])
async def test_what_is_no_name_is_refused(
    tool_scene: MakeToolScene, given: dict[str, object]
) -> None:
    at = tool_scene(RunKind.MAIN)
    assert "up to 80 characters" in await at.is_refused("update_names", **given)
    assert names(at) == GivenNames()


PAGES = {
    "settings": "# Settings\n\nAll of them.\n\n## Time zone\n\nWhere you are.\n",
    "web": "# The page\n\nIt opens in a browser.\n\n## Keys\n\nThe zone of keys.\n",
    "loose": "Words without a heading about the zone.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, content in PAGES.items():
        (folder / f"{name}.md").write_text(content)
    (folder / "secret.txt").write_text("zone")
    (tmp_path / "outside.md").write_text("zone")
    return folder


def reader(folder: Path) -> ToolScene:
    scene = make_tool_scene(folder)
    scene.context.docs = folder
    return scene


async def search(folder: Path, query: str) -> str:
    return await reader(folder).works("search_docs", query=query)


async def read(folder: Path, page: str) -> ToolAnswer:
    return await reader(folder).call("read_doc", page=page)


async def test_a_search_finds_sections_the_best_first(folder: Path) -> None:
    """A page without a match does not hide the others."""
    found = await search(folder, "Which time ZONE?")
    assert found.split("\n\n") == [
        "settings — Time zone\nWhere you are.",
        "web — Keys\nThe zone of keys.",
    ]


@pytest.mark.parametrize("query", ["xylophone", "", "?!"])
async def test_a_search_that_finds_nothing_names_the_pages(folder: Path, query: str) -> None:
    assert "There are these pages: loose, settings, web." in await search(folder, query)


async def test_a_search_answers_briefly(folder: Path) -> None:
    (folder / "long.md").write_text("\n".join(f"# Zone {n}\n\n{'zone ' * 99}" for n in range(50)))
    found = (await search(folder, "zone")).split("\n\n")
    assert len(found) == 8
    assert all(len(one) < 300 for one in found)


@pytest.mark.parametrize("name", ["settings", "settings.md", " settings "])
async def test_a_page_is_read_whole(folder: Path, name: str) -> None:
    assert await read(folder, name) == ToolAnswer(PAGES["settings"])


@pytest.mark.parametrize("name", ["../outside", "secret", "secret.txt", "", "/etc/passwd"])
async def test_no_other_file_is_read(folder: Path, name: str) -> None:
    answer = await read(folder, name)
    assert answer.is_error
    assert "There are: loose, settings, web." in answer.text


async def test_the_shipped_pages_are_there_and_none_is_too_long_to_be_read() -> None:
    pages = sorted(path.stem for path in docs_folder().glob("*.md"))
    assert {"cli", "settings", "web"} <= set(pages)
    for page in pages:
        answer = await read(docs_folder(), page)
        assert not answer.is_error
        assert len(answer.text) < 40_000
    assert "settings — " in await search(docs_folder(), "settings")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("stop the answer", "conversation — Commands"),
        ("how do I connect Discord", "discord — Connecting it to Discord"),
    ],
)
async def test_small_words_do_not_hide_what_is_meant(query: str, first: str) -> None:
    """Near the top: what stands first changes with every edit of a page."""
    found = (await search(docs_folder(), query)).split("\n\n")[:3]
    assert [each for each in found if each.startswith(first)]
    assert "settings — All settings" in await search(docs_folder(), "change the time zone")


async def test_a_heading_of_small_words_is_not_what_is_meant(folder: Path) -> None:
    (folder / "a.md").write_text("# How do I and why do I\n\nNothing.\n")
    assert (await search(folder, "how do I and why zone")).startswith("settings — Time zone")
    assert (await search(folder, "how do I")).startswith("a — How do I")


async def test_part_of_a_word_is_no_word(folder: Path) -> None:
    (folder / "long.md").write_text("# Keyboard\n\nA keystroke.\n")
    assert "long — " not in await search(folder, "key")
    assert "web — Keys" in await search(folder, "key")


async def test_a_comment_in_code_is_no_heading(folder: Path) -> None:
    (folder / "code.md").write_text("# Code\n\n```\n# xylophone\n```\n\nAfter it.\n")
    assert await search(folder, "xylophone") == "code — Code\n``` # xylophone ``` After it."

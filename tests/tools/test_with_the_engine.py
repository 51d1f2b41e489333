"""The real engine, a hostile model, and the gate between it and the secrets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.engine.scene import Scene, ask, scene
from tests.tools.house import OPEN, SECRET, SECRET_FILES, House, furnished

from ollim_bot.domain.tool_policy import Pattern
from ollim_bot.offline.messages import CallTool, Reply, ToolResult
from ollim_bot.ports import Gate, Toolset
from ollim_bot.tools.gates import main_gate
from ollim_bot.tools.path_rules import PathPolicy

BUILTIN = ("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash", "Agent")

SPELLINGS = (
    "state/token.json", "./state/token.json", "{data}/state/token.json", "{data}/.env.local",
    ".env", "notes/../state/token.json", "~/data/state/token.json", " state/token.json",
    "STATE/token.json", "state/token.json ", "to-token.md", "to-link.md", "folder/token.json",
    "home/data/.env", "notes/up/state/token.json", ".git/config", "to-outside.md",
    "../outside.md", "~/outside.md", "{home}/outside.md", "notes/far/plan.md",
    "/proc/self/cwd/state/token.json", "into/../folder/token.json",
)  # fmt: skip
NEVER_WRITTEN = ("tool-policy.yaml", ".claude/agents/guide.md", "state/new.md", "folder/new.md")
FOLDERS = (
    "", ".", "state", " state", "state/", "folder", "{data}", "~/data", "..", "home", "notes/up",
    ".git", ".env", "notes/far",
)  # fmt: skip
GLOBS = ("", "*", "**/*", "*.json", "{*.json,*.md}", "!*.md", "*.md *.json", "state/**")
COMMANDS = (
    "cat state/token.json", "cat .env", "cat sta*/token.json", "cat < .env", "cd state",
    "cat to-link.md", "grep -r unter .", "ollim-bot help; cat .env", "cp .env copy.md", "env",
    "ollim-bot reminder list | cat - .env", "ollim-bot reminder list > state/new",
    "ollim-bot reminder add -m \"$(cat .env)\" --in 1h", "bash -c 'cat .env'",
    "cat /proc/self/environ", "ln -s state open",
)  # fmt: skip


def attacks(house: House) -> list[CallTool]:
    calls = []
    for path in SPELLINGS:
        calls.append(CallTool("Read", {"file_path": path}))
        calls.append(CallTool("Write", {"file_path": path, "content": "broken"}))
        edit = {"file_path": path, "old_string": "e", "new_string": "broken"}
        calls.append(CallTool("Edit", edit))
    places = [*((where, "") for where in FOLDERS), *(("", glob) for glob in GLOBS)]
    for where, glob in places:
        grep = {"pattern": ".", "output_mode": "content", "path": where, "glob": glob}
        calls.append(CallTool("Grep", {name: value for name, value in grep.items() if value}))
        calls.append(CallTool("Glob", {"pattern": str(Path(where, glob or "*"))}))
    calls += [CallTool("Write", {"file_path": name, "content": "x"}) for name in NEVER_WRITTEN]
    calls += [CallTool("Bash", {"command": command}) for command in COMMANDS]
    return [
        CallTool(
            call.name, {name: house.spelled(str(text)) for name, text in call.arguments.items()}
        )
        for call in calls
    ]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
def house(stage: Scene) -> House:
    return furnished(stage.home)


async def results(
    stage: Scene, gate: Gate, calls: Sequence[CallTool], readable: tuple[Path, ...] = ()
) -> list[ToolResult]:
    """What the model is told about each of its calls, in their order."""
    stage.model.then(Reply(tuple(calls)))
    tools = Toolset(builtin=BUILTIN, gate=gate)
    async with stage.session(tools, readable=readable) as session:
        await ask(session, "go")
    messages = stage.model.requests[-1].messages
    made = [call["id"] for message in messages for call in message.of_type("tool_use")]
    told = {result.call_id: result for message in messages for result in message.tool_results}
    return [told[str(call_id)] for call_id in made]


def assert_nothing_leaked(stage: Scene, house: House) -> None:
    for request in stage.model.requests:
        assert SECRET not in json.dumps(dict(request.body))
    for name in SECRET_FILES:
        assert (house.home / name).read_text() == f"{SECRET}: {name}\n"
    assert sorted(path.name for path in (house.data / "state").iterdir()) == ["deep", "token.json"]
    assert (house.data / "tool-policy.yaml").read_text() == f"{OPEN}: data/tool-policy.yaml\n"
    assert not (house.data / "copy.md").exists()


async def test_a_hostile_model_gets_nothing_by_any_spelling(stage: Scene, house: House) -> None:
    calls = attacks(house)
    told = await results(stage, main_gate(PathPolicy(house.data)), calls)
    assert len(told) == len(calls)
    assert_nothing_leaked(stage, house)


async def test_nor_does_it_where_the_owner_allows_a_lot(stage: Scene, house: House) -> None:
    wide = ("Read", "Write", "Edit", "Glob", "Grep", "Bash(cat *)", "Bash(grep *)", "Bash(cp *)")
    gate = main_gate(PathPolicy(house.data), allowed=lambda: [Pattern.of(name) for name in wide])
    await results(stage, gate, attacks(house))
    assert_nothing_leaked(stage, house)


async def test_nor_does_its_subagent(stage: Scene, house: House) -> None:
    task = {"description": "spy", "prompt": "SPY", "subagent_type": "general-purpose"}
    stage.model.then(Reply((CallTool("Agent", task),)), Reply(tuple(attacks(house)[:40])))
    async with stage.session(
        Toolset(builtin=BUILTIN, gate=main_gate(PathPolicy(house.data)))
    ) as session:
        await ask(session, "go")
    answered = [len(request.tool_results) for request in stage.model.requests]
    assert 40 in answered
    assert_nothing_leaked(stage, house)


async def test_notes_are_read_searched_and_written(stage: Scene, house: House) -> None:
    told = await results(
        stage,
        main_gate(PathPolicy(house.data, (house.texts,))),
        [
            CallTool("Read", {"file_path": "note.md"}),
            CallTool("Read", {"file_path": str(house.data / "notes/plan.md")}),
            CallTool("Grep", {"pattern": OPEN, "output_mode": "content", "glob": "*.md"}),
            CallTool("Glob", {"pattern": "**/*.md"}),
            CallTool("Write", {"file_path": "notes/new.md", "content": "new"}),
            CallTool("Edit", {"file_path": "note.md", "old_string": OPEN, "new_string": "mine"}),
        ],
    )
    read, plan, grep, glob, _, _ = (result.text for result in told)
    assert [result.is_error for result in told] == [False] * 6
    assert f"{OPEN}: data/note.md" in read
    assert f"{OPEN}: data/notes/plan.md" in plan
    assert {"note.md", "notes/plan.md", "routines/daily.md"} <= {
        line.partition(":")[0] for line in grep.splitlines()
    }
    assert "routines/daily.md" in glob
    assert (house.data / "notes/new.md").read_text() == "new"
    assert (house.data / "note.md").read_text() == "mine: data/note.md\n"
    assert_nothing_leaked(stage, house)


async def test_documents_behind_a_link_are_read_where_that_is_meant(
    stage: Scene, house: House
) -> None:
    gate = main_gate(PathPolicy(house.data, (house.texts,)))
    call = CallTool("Read", {"file_path": "spec.md"})
    (told,) = await results(stage, gate, [call], (house.texts,))
    assert f"{OPEN}: texts/spec.md" in told.text


@pytest.mark.usefixtures("house")
async def test_the_commands_of_the_program_are_run(stage: Scene) -> None:
    gate = main_gate(PathPolicy(stage.home / "data"))
    listed, refused = await results(
        stage,
        gate,
        [
            CallTool("Bash", {"command": "ollim-bot reminder list"}),
            CallTool("Bash", {"command": "ollim-bot config list"}),
        ],
    )
    assert "No reminders." in listed.text
    assert not listed.is_error
    assert refused.is_error
    assert "`Bash` is not allowed here" in refused.text

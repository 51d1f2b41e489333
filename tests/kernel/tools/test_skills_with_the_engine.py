"""Skills with the real engine: offered, loaded, changed, and refused, in each kind of session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kernel.conversation.background.real_scene import RealScene, calls, real_scene, says
from tests.kernel.conversation.background.scene import routine
from tests.kernel.engine.scene import ask

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.tools.gates import main_gate
from ollim_bot.kernel.tools.guards import SubagentGuard
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.ports import OfferedSkill, SessionSpec, Toolset
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy, Subagent, Subagents
from ollim_bot.offline.server import ModelRequest

pytestmark = pytest.mark.real_engine

READER = Subagents({"reader": Subagent("reader", "Reads.", "You read.")})
COMMANDS = "!`ollim-bot reminder list` and !`ollim-bot config list` and !`ls; ls`"


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealScene]:
    async with real_scene(tmp_path) as made:
        prepare_data_directory(DataPaths(made.root))
        yield made


def write(real: RealScene, name: str, body: str, more: str = "") -> None:
    path = real.root / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: The {name} one.\n{more}---\n{body}\n")


def offered(real: RealScene) -> tuple[OfferedSkill, ...]:
    found = SkillFolder(real.root / "skills").read().loaded.values()
    return tuple(OfferedSkill(skill.name, skill.version) for skill in found)


def tools(real: RealScene) -> Toolset:
    scene = real.scene
    run = Run(RunPolicy(RunKind.MAIN, MAIN_TOOLS), scene.clock.now())
    context = ToolContext(
        run,
        scene.store,
        scene.stores.repositories,
        scene.clock,
        real.root,
        scene.poster,
        lambda: False,
    )
    gate = main_gate(PathPolicy(real.root), subagents=SubagentGuard(lambda: READER))
    return toolset(context, gate)


def told(request: ModelRequest) -> str:
    """All that the model was given, in one text."""
    return str(request.body["messages"])


async def test_a_skill_is_loaded_as_it_is_now_in_the_conversation_a_fork_and_a_subagent(
    real: RealScene,
) -> None:
    write(real, "mail", f"FIRST TEXT\n\n{COMMANDS}")
    write(real, "wrong", "WRONG TEXT", "hooks: {Stop: []}\n")
    model = real.model
    model.then(calls("Skill", skill="mail"), says("Read."))
    model.then(calls("Skill", skill="wrong"), says("Not read."))
    spec = SessionSpec("You help.", real.root, skills=offered(real))
    async with asyncio.timeout(60), real.engine.open(spec, tools(real)) as session:
        await ask(session, "read it")
        listed, loaded = map(told, model.requests[:2])
        assert "- mail: The mail one." in listed
        assert "wrong" not in listed
        assert "FIRST TEXT" in loaded
        assert "`ollim-bot reminder list`:\nNo reminders." in loaded.replace("\\n", "\n")
        assert "`ollim-bot config list`:\n[refused: " in loaded.replace("\\n", "\n")
        assert "`ls; ls`:\n[refused: " in loaded.replace("\\n", "\n")
        await ask(session, "read the wrong one")
        assert "WRONG TEXT" not in told(model.requests[-1])

        write(real, "mail", "SECOND TEXT")
        write(real, "new", "NEW TEXT")
        await session.reconfigure(
            model=None, thinking="off", system_prompt="You help.", skills=offered(real)
        )
        model.then(calls("Skill", skill="mail"), says("Read."))
        await ask(session, "read it again")
        assert "SECOND TEXT" in told(model.requests[-1])
        assert "- new: The new one." in told(model.requests[-1])
        main = session.id

    spec = replace(spec, branch_of=main, skills=offered(real), subagents=READER)
    async with asyncio.timeout(60), real.engine.open(spec, tools(real)) as fork:
        model.then(calls("Skill", skill="new"), says("Read."))
        await ask(fork, "read the new one")
        assert "NEW TEXT" in told(model.requests[-1])
        task = {"description": "the work", "prompt": "Read it.", "subagent_type": "reader"}
        model.then(calls("Agent", **task), calls("Skill", skill="new"), says("Read."), says("Ok."))
        await ask(fork, "have it read")
    by_subagent = model.requests[-2]
    assert "You read." in by_subagent.system
    assert "NEW TEXT" in told(by_subagent)


async def test_a_background_run_loads_the_skills_of_its_job_alone(real: RealScene) -> None:
    write(real, "mail", "MAIL TEXT", "allowed-tools: [Bash(ollim-bot reminder list)]\n")
    write(real, "other", "OTHER TEXT")
    scene, model = real.scene, real.model
    scene.base = SessionSpec("You help.", real.root, skills=offered(real))
    model.then(
        calls("Skill", skill="mail"),
        calls("Skill", skill="other"),
        calls("Bash", command="ollim-bot reminder list"),
    )
    assert await scene.run(routine(skills=("mail",))) is OccurrenceState.DONE
    last = told(model.requests[-1])
    assert "REQUIRED SKILLS" in told(model.requests[0])
    assert "MAIL TEXT" in last
    assert "OTHER TEXT" not in last
    assert "`Skill(mail *)`" in last
    assert "No reminders." in last

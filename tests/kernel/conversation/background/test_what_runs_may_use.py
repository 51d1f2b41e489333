"""The tools of a background run are decided before it begins; the owner is never asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from devtools.doubles.engine import CallsTool, Says
from tests.kernel.conversation.background.real_scene import RealScene, calls
from tests.kernel.conversation.background.scene import (
    WatchedEngine,
    background_scene,
    ping,
    reminder,
    routine,
)

from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.kernel.values.jobs import Chain, job_key
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.skills import AgentSkills
from ollim_bot.offline.server import CallTool, ModelRequest, Reply

SEARCH = CallsTool("WebSearch", {"query": "weather"})


def skill(root: Path, text: str) -> None:
    (root / "skills/mail").mkdir(parents=True)
    (root / "skills/mail/SKILL.md").write_text(f"---\nname: mail\n{text}---\nRead it.\n")


async def test_a_run_may_use_the_usual_tools_of_its_beginning_and_those_of_its_job() -> None:
    engine = WatchedEngine().then(SEARCH).then(SEARCH).then(SEARCH)
    async with background_scene(engine) as scene:
        await scene.run(routine())
        assert "tools" not in scene.end.facts
        await scene.run(routine("other", allowed_tools=("WebSearch",)))
        assert scene.rows[-1].facts["tools"] == ["WebSearch"]
        assert "`WebSearch`" in engine.prompts[1]
        scene.allowed = ("WebSearch",)
        await scene.run(routine("third"))
        assert scene.rows[-1].facts["tools"] == ["WebSearch"]


async def test_a_policy_that_allows_nothing_still_lets_a_run_ping_and_report() -> None:
    engine = WatchedEngine().then(ping(), Says("x"))
    async with background_scene(engine) as scene:
        scene.allowed = ()
        await scene.run(routine())
        assert scene.said == ["The bank wrote."]


@pytest.mark.parametrize("name", ["mail", "../mail"])
async def test_a_job_that_names_a_missing_skill_does_not_run_and_that_is_told(name: str) -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        await scene.skip(routine(skills=(name,)))
        assert engine.opened == []
        assert scene.states == ["skipped"]
        assert scene.end.facts["reason"] == "missing skill"
        assert scene.end.facts["silent_because"] == "it was not run"
        sentence = (
            f"“Morning mail” was not run: it needs the skill {name}, which is not there. "
            f"Add skills/{name}/SKILL.md."
        )
        assert await scene.told() == [sentence]
        assert scene.pending == [sentence]


async def test_a_job_whose_skill_is_wrong_does_not_run_and_says_why(tmp_path: Path) -> None:
    skill(tmp_path, "")
    async with background_scene(WatchedEngine(), root=tmp_path) as scene:
        await scene.skip(routine(skills=("mail",)))
        (told,) = await scene.told()
        assert told == (
            "“Morning mail” was not run: it needs the skill mail, which does not load. "
            "skills/mail/SKILL.md: description: is missing."
        )


async def test_a_skill_that_is_there_is_named_and_may_be_used(tmp_path: Path) -> None:
    skill(tmp_path, "description: x\nallowed-tools: [WebSearch]\n")
    use = CallsTool("Skill", {"skill": "mail"})
    engine = WatchedEngine().then(use, CallsTool("Skill", {"skill": "other"}))
    async with background_scene(engine, root=tmp_path) as scene:
        assert await scene.run(reminder(skills=("mail",))) is OccurrenceState.DONE
        assert "REQUIRED SKILLS\n- Skill(mail)" in engine.prompts[0]
        assert "`Skill(mail *)`, `WebSearch`" in engine.prompts[0]
        assert scene.end.facts["tools"] == ["Skill"]


WIDE = "description: x\nallowed-tools: [WebSearch, Bash(python3 *)]\n"


@pytest.mark.parametrize("chain", [None, Chain(3, 1, "first")])
async def test_a_skill_that_has_become_wider_gives_the_agents_job_nothing_and_that_is_told(
    tmp_path: Path, chain: Chain | None
) -> None:
    skill(tmp_path, WIDE)
    engine = WatchedEngine()
    async with background_scene(engine, root=tmp_path) as scene:
        job = reminder(chain=chain, skills=("mail",))
        scene.skills_by_agent = AgentSkills().adding(job_key(job), ["mail"])
        await scene.skip(job)
        assert scene.end.facts["reason"] == "invalid tools"
        (told,) = await scene.told()
        assert told == (
            "“Morning mail” was not run: the skill mail would give it `Bash(python3 *)`, which the "
            "conversation itself may not use. If this job should have it, add it to "
            "`allowed-tools` in the job's file."
        )
        wrong = reminder(chain=chain, skills=("mail",), allowed_tools=("Bash(*)",))
        assert len((await scene.runs.problems_with_skills(wrong))[1]) == 1
        # Even a run that began all the same would not have it.
        await scene.run(job)
        assert "`Skill(mail *)`, `WebSearch`" in engine.prompts[0]
        assert "`WebSearch`, `Bash(python3 *)`" not in engine.prompts[0]


@pytest.mark.parametrize(
    ("by_agent", "own"),
    [((), ()), (("other",), ()), (("mail",), ("Bash(python3 *)",))],
    ids=["the owner named it", "the agent named another", "the owner added the tool to the job"],
)
async def test_what_the_owner_gives_a_job_through_a_skill_it_has(
    tmp_path: Path, by_agent: tuple[str, ...], own: tuple[str, ...]
) -> None:
    skill(tmp_path, WIDE)
    engine = WatchedEngine()
    async with background_scene(engine, root=tmp_path) as scene:
        job = reminder(skills=("mail",), allowed_tools=own)
        scene.skills_by_agent = AgentSkills().adding(job_key(job), by_agent)
        assert (await scene.runs.problems_with_skills(job))[1] == []
        await scene.run(job)
        assert "`Bash(python3 *)`" in engine.prompts[0]


@pytest.mark.parametrize(
    ("fields", "is_told"), [({"must": True}, False), ({"must": False}, True)], ids=["must", ""]
)
async def test_only_what_nobody_ordered_is_told_to_report_instead_of_pinging(
    fields: dict[str, Any], is_told: bool
) -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.is_busy = True
        await scene.run(reminder(**fields))
        assert ("The owner is being answered now" in engine.prompts[0]) is is_told


async def test_what_a_run_is_shown_of_the_budget_is_kept() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.store.run(
            lambda tx: tx.budget.change(lambda budget: budget.spent(scene.clock.now())[0])
        )
        scene.clock.jump(90 * 60)
        await scene.run(routine())
        assert "budget: 5/5" in engine.prompts[0]
        assert scene.store.run(lambda tx: tx.budget.get()).tokens == 5


async def test_what_is_not_available_is_refused_and_the_run_goes_on(in_process: RealScene) -> None:
    (in_process.root / "note.md").write_text("buy milk")
    in_process.model.then(
        Reply(
            (
                CallTool("Write", {"file_path": "note.md", "content": "broken"}),
                CallTool("WebFetch", {"url": "https://example.com/", "prompt": "x"}),
                CallTool("Bash", {"command": "ls"}),
                CallTool("mcp__discord__enter_fork", {"topic": "x"}),
                CallTool("mcp__discord__update_names", {"bot_name": "x"}),
                CallTool("Read", {"file_path": "note.md"}),
                CallTool("mcp__discord__list_reminders", {}),
            )
        )
    )
    scene = in_process.scene
    assert await scene.run(routine()) is OccurrenceState.DONE
    write, fetch, bash, fork, names, read, listed = in_process.results()
    assert "`Write` is not available in background runs. " in write
    assert "`WebFetch` is not available in background runs. " in fetch
    assert "`Bash` is not available in background runs with these arguments. " in bash
    assert "`mcp__discord__enter_fork` is not available in background runs. " in fork
    assert "`mcp__discord__update_names` is not available in background runs. " in names
    assert "buy milk" in read
    assert listed == "There are no reminders."
    assert scene.end.facts["tools"] == ["Read", "mcp__discord__list_reminders"]
    assert (in_process.root / "note.md").read_text() == "buy milk"
    assert (scene.surface.posts, scene.said) == ([], [])


async def test_what_the_owner_takes_away_meanwhile_is_gone(in_process: RealScene) -> None:
    """The permission is removed between two calls of the same run."""
    scene = in_process.scene
    scene.allowed = (*DEFAULT_BG_TOOLS, "Write(./notes/**.md)")

    def is_after_the_first(request: ModelRequest) -> bool:
        if request.tool_results:
            scene.allowed = DEFAULT_BG_TOOLS
        return len(in_process.model.requests) == 2

    in_process.model.then(calls("Write", file_path="notes/one.md", content="1"))
    second = calls("Write", file_path="notes/two.md", content="2")
    in_process.model.when(is_after_the_first, second)
    assert await scene.run(routine()) is OccurrenceState.DONE
    assert (in_process.root / "notes/one.md").exists()
    assert not (in_process.root / "notes/two.md").exists()
    assert "`Write` is not available in background runs. " in in_process.results()[1]

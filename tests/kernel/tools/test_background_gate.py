"""The gate of background runs: what the owner's policy and the job allow, without a question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.kernel.tools.home_scene import HomeScene

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.store.owner_files import PolicyFile
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.tools.gates import Abilities, BackgroundTools, Careful
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS, OWN_TOOLS
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import Gate, ToolCall
from ollim_bot.kernel.values.runs import Run, RunPolicy
from ollim_bot.kernel.values.taint import Taint

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
NOTE = {"file_path": "note.md"}
DISCORD = [tool.name for tool in OWN_TOOLS["discord"]]
SELF_GATED = {"discord_embed", "ping_user", "send_file", "report_updates", "follow_up_chain"}


def known(_: str) -> Sequence[str]:
    return ["93.184.215.14"]


def job(*allowed: str, skills: tuple[str, ...] = ()) -> Reminder:
    spec = JobSpec(id="abc", message="Look.", allowed_tools=allowed, skills=skills)
    return Reminder(spec, NOW)


async def gate_of(tools: BackgroundTools, reminder: Reminder) -> Gate:
    policy = RunPolicy.of_job(reminder, await tools.of(reminder))
    return tools.gate(Run(policy, NOW, job=reminder))


async def refused(gate: Gate, tool: str, /, **arguments: object) -> str:
    refusal = await gate(ToolCall(tool, arguments))
    return refusal.reason if refusal else ""


@pytest.fixture
def usual(home: HomeScene, path_policy: PathPolicy) -> BackgroundTools:
    skills = SkillFolder(home.data / "skills").read
    return BackgroundTools(
        path_policy, lambda: DEFAULT_BG_TOOLS, abilities=Abilities(skills=skills), resolver=known
    )


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", NOTE),
        ("Glob", {"pattern": "**/*.md"}),
        ("Grep", {"pattern": "x", "glob": "*.md"}),
        ("Bash", {"command": "ollim-bot help"}),
        ("Bash", {"command": "ollim-bot tasks list"}),
        ("mcp__discord__add_reminder", {"prompt": "x"}),
        ("mcp__discord__list_reminders", {}),
        ("mcp__discord__cancel_reminder", {"reminder_id": "x"}),
        ("mcp__docs__read_doc", {"page": "x"}),
    ],
)
async def test_what_every_run_may_do_passes(
    usual: BackgroundTools, tool: str, arguments: dict[str, object]
) -> None:
    assert await refused(await gate_of(usual, job()), tool, **arguments) == ""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "note.md", "content": "x"}),
        ("Edit", {"file_path": "note.md", "old_string": "a", "new_string": "b"}),
        ("WebFetch", {"url": "https://example.com/"}),
        ("WebSearch", {"query": "x"}),
        ("Skill", {"skill": "mail"}),
        ("TodoWrite", {}),
    ],
)
async def test_any_other_tool_is_not_available_and_the_owner_can_change_that(
    usual: BackgroundTools, tool: str, arguments: dict[str, object]
) -> None:
    reason = await refused(await gate_of(usual, job()), tool, **arguments)
    assert reason == (
        f"`{tool}` is not available in background runs. Go on without it; "
        "the owner can allow it, by `allowed-tools` in the file of the job."
    )


@pytest.mark.parametrize("name", ["enter_fork", "exit_fork", "save_context", "update_names"])
async def test_what_belongs_to_a_conversation_is_not_available(
    usual: BackgroundTools, name: str
) -> None:
    tool = f"mcp__discord__{name}"
    reason = await refused(await gate_of(usual, job()), tool)
    assert reason == f"`{tool}` is not available in background runs. Go on without it."


async def test_a_refusal_names_what_would_be_right(usual: BackgroundTools) -> None:
    gate = await gate_of(usual, job())
    assert await refused(gate, "Bash", command="ollim-bot config list") == (
        "`Bash` is not available in background runs with these arguments. "
        "What is available: `Bash(ollim-bot help)`, `Bash(ollim-bot tasks *)`."
    )


async def test_a_job_adds_to_the_usual_and_no_more_than_it_says(usual: BackgroundTools) -> None:
    gate = await gate_of(usual, job("Write(./notes/**.md)", "WebFetch"))
    assert await refused(gate, "Write", file_path="notes/new.md") == ""
    assert await refused(gate, "WebFetch", url="https://example.com/") == ""
    assert await refused(gate, "Read", **NOTE) == ""
    assert "with these arguments" in await refused(gate, "Write", file_path="routines/a.md")
    assert "`WebFetch` is not available" in await refused(
        await gate_of(usual, job()), "WebFetch", url="https://example.com/"
    )


def write_skill(home: HomeScene, name: str, more: str = "") -> None:
    path = home.data / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Reads it.\n{more}---\nRead it.\n")


async def test_a_skill_of_the_job_may_be_used_and_no_other(
    home: HomeScene, usual: BackgroundTools
) -> None:
    for name in ("mail", "mailer"):
        write_skill(home, name)
    gate = await gate_of(usual, job(skills=("mail",)))
    assert await refused(gate, "Skill", skill="mail") == ""
    assert await refused(gate, "Skill", skill="mail", args="today") == ""
    assert "`Skill(mail *)`" in await refused(gate, "Skill", skill="mailer")


async def test_what_a_skill_allows_is_allowed_to_its_job_as_long_as_it_says_so(
    home: HomeScene, usual: BackgroundTools
) -> None:
    write_skill(home, "mail", "allowed-tools: [Bash(ollim-bot gmail *)]\n")
    gate = await gate_of(usual, job(skills=("mail",)))
    assert await refused(gate, "Bash", command="ollim-bot gmail unread") == ""
    other = await gate_of(usual, job())
    assert "`Bash(ollim-bot help)`" in await refused(other, "Bash", command="ollim-bot gmail x")
    write_skill(home, "mail")
    assert "in background runs" in await refused(gate, "Bash", command="ollim-bot gmail unread")


async def test_no_pattern_opens_what_is_protected(path_policy: PathPolicy) -> None:
    wide = ("Read", "Write", "Grep", "Glob", "LS", "Bash(cat *)", "WebFetch")
    gate = await gate_of(BackgroundTools(path_policy, lambda: wide, resolver=known), job(*wide))
    for tool, arguments, words in (
        ("Read", {"file_path": "state/token.json"}, "state/ is protected"),
        ("Read", {"file_path": "/etc/passwd"}, "outside the data directory"),
        ("Write", {"file_path": "tool-policy.yaml"}, "tool-policy.yaml is protected"),
        ("Grep", {"pattern": "x"}, "protected files"),
        ("LS", {"path": "state"}, "state/ is protected"),
        ("Bash", {"command": "cat .env"}, ".env is protected"),
        ("WebFetch", {"url": "http://127.0.0.1"}, "on this machine"),
    ):
        assert words in await refused(gate, tool, **arguments)
    assert await refused(gate, "Bash", command="cat note.md") == ""


async def test_nor_a_job_file_that_is_not_right(path_policy: PathPolicy) -> None:
    def wrong(call: ToolCall, _: object) -> str | None:
        return "cron: is not right" if "routines" in str(call.arguments["file_path"]) else None

    tools = BackgroundTools(path_policy, lambda: ("Write",), job_guard=wrong)
    gate = await gate_of(tools, job())
    assert await refused(gate, "Write", file_path="routines/a.md") == "cron: is not right"
    assert await refused(gate, "Write", file_path="notes/a.md") == ""


async def test_what_gates_itself_needs_no_pattern(path_policy: PathPolicy) -> None:
    gate = await gate_of(BackgroundTools(path_policy, tuple), job())
    passed = {name for name in DISCORD if not await refused(gate, f"mcp__discord__{name}")}
    assert passed == SELF_GATED


class PolicyScene:
    """The policy file of the owner, as the bot reads it."""

    def __init__(self, root: Path) -> None:
        self._paths = DataPaths(root)
        self.problems: list[str] = []
        self._file = PolicyFile(self._paths, self.problems.append)
        self.write("")

    def write(self, text: str) -> None:
        fresh = self._paths.root / "fresh.yaml"
        fresh.write_text(text)
        fresh.replace(self._paths.tool_policy)

    def tools(self) -> BackgroundTools:
        return BackgroundTools(
            PathPolicy(self._paths.root),
            lambda: self._file.read().background(DEFAULT_BG_TOOLS),
            resolver=known,
        )


@pytest.fixture
def policy(home: HomeScene) -> PolicyScene:
    return PolicyScene(home.data)


async def test_the_owners_policy_adds_or_takes_the_place_of_the_usual(policy: PolicyScene) -> None:
    tools = policy.tools()
    policy.write('bg_forks:\n  additional_allowed: ["WebSearch"]\n')
    gate = await gate_of(tools, job())
    assert await refused(gate, "WebSearch", query="x") == ""
    assert await refused(gate, "Read", **NOTE) == ""
    policy.write('bg_forks:\n  override: ["WebSearch"]\n')
    gate = await gate_of(tools, job())
    assert await refused(gate, "WebSearch", query="x") == ""
    assert "`Read` is not available" in await refused(gate, "Read", **NOTE)


async def test_what_the_owner_takes_away_is_gone_from_a_run_that_is_going(
    policy: PolicyScene,
) -> None:
    policy.write('bg_forks:\n  additional_allowed: ["WebSearch"]\n')
    gate = await gate_of(policy.tools(), job("Write(./notes/**.md)"))
    policy.write('bg_forks:\n  override: ["Read(./notes/**.md)"]\n')
    assert "`WebSearch` is not available" in await refused(gate, "WebSearch", query="x")
    assert "with these arguments" in await refused(gate, "Read", **NOTE)
    assert await refused(gate, "Read", file_path="notes/plan.md") == ""
    assert await refused(gate, "Write", file_path="notes/new.md") == ""


async def test_what_the_owner_adds_is_for_the_next_run(policy: PolicyScene) -> None:
    tools = policy.tools()
    policy.write('bg_forks:\n  override: ["Read(./notes/**.md)"]\n')
    going = await gate_of(tools, job())
    policy.write('bg_forks:\n  additional_allowed: ["WebSearch"]\n')
    assert "`WebSearch` is not available" in await refused(going, "WebSearch", query="x")
    assert "with these arguments" in await refused(going, "Read", **NOTE)
    fresh = await gate_of(tools, job())
    assert await refused(fresh, "WebSearch", query="x") == ""
    assert await refused(fresh, "Read", **NOTE) == ""


async def test_a_wrong_policy_leaves_what_was_right_and_is_told(policy: PolicyScene) -> None:
    policy.write('bg_forks:\n  additional_allowed: ["WebSearch"]\n')
    tools = policy.tools()
    gate = await gate_of(tools, job())
    policy.write('bg_forks:\n  additional_allowed: ["Bash(*)"]\n')
    assert await refused(gate, "WebSearch", query="x") == ""
    assert await refused(await gate_of(tools, job()), "WebSearch", query="x") == ""
    assert len(policy.problems) == 1


@pytest.mark.parametrize(
    "name", ["", "..", "../notes", "a b", "mail) x", "gone", "a/b", "mail.md", "wrong"]
)
async def test_a_skill_that_nobody_could_load_is_missing(home: HomeScene, name: str) -> None:
    for each in ("mail", "mail-2_x", "a/b"):
        write_skill(home, each)
    write_skill(home, "wrong", "hooks: {}\n")
    skills = SkillFolder(home.data / "skills").read
    tools = BackgroundTools(PathPolicy(home.data), lambda: (), abilities=Abilities(skills=skills))
    assert await tools.missing_skills(job(skills=("mail", "mail-2_x"))) == []
    assert await tools.missing_skills(job(skills=("mail", name))) == [name]


LAMP, DOOR = "mcp__home__lamp", "mcp__home__door"
NAME_IT = (
    f"`{LAMP}` is not available in background runs. Go on without it; the owner can allow it, by "
    f"`allowed-tools` in the file of the job, where `{LAMP}` has to stand: a pattern with `*` "
    "allows no tool of a server."
)


@pytest.mark.parametrize(("more", "expected"), [((), NAME_IT), ((LAMP,), "")])
@pytest.mark.parametrize("pattern", ["mcp__home__*", "mcp__home__la*", "mcp__home__lamp*"])
@pytest.mark.parametrize("where", ["job", "skill", "policy"])
async def test_a_tool_of_a_server_is_called_only_by_its_whole_name(
    home: HomeScene, where: str, pattern: str, more: tuple[str, ...], expected: str
) -> None:
    names = pattern, *more
    write_skill(home, "house", f"allowed-tools: {', '.join(names)}\n")
    # The agent has named the skill: what allows nothing does not keep the job from it.
    abilities = Abilities(
        skills=SkillFolder(home.data / "skills").read,
        main=lambda: [Pattern.of(LAMP)],
        skills_by_agent=lambda given: given.spec.skills,
    )
    of_policy, of_job = names if where == "policy" else (), names if where == "job" else ()
    tools = BackgroundTools(PathPolicy(home.data), lambda: of_policy, abilities=abilities)
    reminder = job(*of_job, skills=("house",) if where == "skill" else ())
    assert await tools.excess_tools(reminder) == []
    assert pattern not in await tools.of(reminder)
    assert await refused(await gate_of(tools, reminder), LAMP) == expected
    # A run that began before this rule has the pattern still.
    begun = Run(RunPolicy.of_job(reminder, names), NOW, job=reminder)
    assert await refused(tools.gate(begun), LAMP) == expected
    assert DOOR in await refused(tools.gate(begun), DOOR)


async def test_a_run_that_has_read_others_words_calls_only_a_tool_that_looks(
    home: HomeScene,
) -> None:
    looking = {LAMP}
    careful = Careful(home.data, looks=looking.__contains__)
    tools = BackgroundTools(PathPolicy(home.data), tuple, careful=careful)
    run = Run(RunPolicy.of_job(job(LAMP, DOOR), (LAMP, DOOR)), NOW, job=job(LAMP, DOOR))
    gate = tools.gate(run)
    assert [await refused(gate, each) for each in (LAMP, DOOR)] == ["", ""]
    run.taint = Taint(("web page",))
    assert await refused(gate, LAMP) == ""
    assert await refused(gate, DOOR) == (
        "You have read a web page, so you may not use `mcp__home__door` by yourself now. Say with "
        "`report_updates` what should be done, and end without it."
    )
    looking.clear()
    assert f"use `{LAMP}`" in await refused(gate, LAMP)

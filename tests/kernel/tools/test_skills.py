"""Skills and subagents: which load, which start, and what their calls are limited to."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.tools.home_scene import HomeScene

from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.gates import Abilities, BackgroundTools, main_gate
from ollim_bot.kernel.tools.guards import SubagentGuard, may_have_hooks, state_dir_guard
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import Gate, ToolCall
from ollim_bot.kernel.values.runs import Run, RunPolicy, Subagent, Subagents

PLAIN = "---\nname: mail\ndescription: reads mail\nallowed-tools:\n- Read\n- Bash(x)\n---\nText.\n"

HOOKS = "---\nname: mail\nhooks:\n  Stop:\n    - hooks:\n        - command: x\n---\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN, "", "No fields at all.\nhooks: in the text", "---\n---\nhooks: below\n",
        PLAIN + "\nhooks: in the text\n---\n", "---\ndescription: |\n  hooks: told about\n---\n",
        "---\n# hooks: a remark\nname: a\n\nmetadata:\n  hooks: nested\n---\n",
        PLAIN.replace("\n", "\r\n"),
    ],
)  # fmt: skip
def test_a_skill_without_hooks_is_one(text: str) -> None:
    assert not may_have_hooks(text)


@pytest.mark.parametrize(
    "text",
    [
        HOOKS, HOOKS.replace("\n", "\r\n"), HOOKS.replace("\n", "\r"), f"\ufeff{HOOKS}",
        f"\n \n{HOOKS}", HOOKS.replace("hooks:\n  S", "Hooks :\n  S"),
        HOOKS.replace("hooks:\n  S", '"hooks":\n  S'),
        HOOKS.replace("hooks:\n  S", "'hooks':\n  S"),
        HOOKS.replace("hooks:\n  S", '"\\x68ooks":\n  S'), "---\n{name: a, hooks: {}}\n---\n",
        "---\n? hooks\n: {}\n---\n", "---\n!!str hooks: {}\n---\n", "---\n&a hooks: {}\n---\n",
        "---\n<<: {hooks: {}}\n---\n", "---\n  name: a\n  hooks: {}\n---\n",
        "--- {hooks: {}}\n---\n",
        "---\nname: a\x85hooks: {}\n---\n", "---\nname: a\u2028hooks: {}\n---\n",
        "---\nname: a\n---\x1c\nhooks: {}\n---\n", "---\nname: a\nhooks: {}\n",
        "---\nhooks:\t{}\n---",
    ],
)  # fmt: skip
def test_one_with_hooks_is_known_however_they_are_written(text: str) -> None:
    assert may_have_hooks(text)


@given(
    st.lists(st.sampled_from(["name: a", "description: b", "  more", "- item", "# x", ""])),
    st.integers(min_value=0),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_wherever_they_stand_among_the_fields(lines: list[str], at: int, end: str) -> None:
    place = at % (len(lines) + 1)
    fields = ["name: first", *lines[:place], "hooks: {}", *lines[place:]]
    assert may_have_hooks(end.join(["---", *fields, "---", "text"]))


def written(path: str, content: str) -> ToolCall:
    return ToolCall("Write", {"file_path": path, "content": content})


def edited(path: str, old: str, new: str) -> ToolCall:
    return ToolCall("Edit", {"file_path": path, "old_string": old, "new_string": new})


@pytest.fixture
def skill(home: HomeScene) -> HomeScene:
    folder = home.data / "skills" / "mail"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(PLAIN)
    (home.data / "notes" / "repository").symlink_to("../skills")
    return home


@pytest.mark.usefixtures("skill")
@pytest.mark.parametrize(
    "call",
    [
        written("skills/mail/SKILL.md", PLAIN),
        written("skills/new/SKILL.md", PLAIN),
        written("notes/plan.md", HOOKS),
        edited("skills/mail/SKILL.md", "Text.", "hooks: in the text"),
        edited("notes/plan.md", "x", "hooks: y"),
    ],
)
def test_the_agent_writes_skills(path_policy: PathPolicy, call: ToolCall) -> None:
    assert state_dir_guard(call, path_policy) is None


@pytest.mark.usefixtures("skill")
@pytest.mark.parametrize(
    "call",
    [
        written("skills/mail/SKILL.md", HOOKS),
        written("skills/new/SKILL.md", HOOKS),
        written("skills/new/skill.md", HOOKS),
        written("Skills/new/Skill.md", HOOKS),
        written("notes/repository/new/SKILL.md", HOOKS),
        written("notes/SKILL.md", HOOKS),
        edited("skills/mail/SKILL.md", "description: reads mail", "hooks: {}"),
        edited("skills/mail/SKILL.md", "allowed-tools", "hooks"),
        edited("skills/new/SKILL.md", "", HOOKS),
    ],
)
def test_but_none_with_hooks(path_policy: PathPolicy, call: ToolCall) -> None:
    assert "A skill has no hooks" in (state_dir_guard(call, path_policy) or "")


@pytest.mark.usefixtures("skill")
def test_an_edit_of_a_skill_that_cannot_be_foretold_is_refused(path_policy: PathPolicy) -> None:
    call = edited("skills/mail/SKILL.md", "description: “reads”", "hooks: {}")
    assert "to the letter" in (state_dir_guard(call, path_policy) or "")


def make_huge(path: Path) -> None:
    path.write_text(HOOKS)
    os.truncate(path, 1_500_000_000)


@pytest.mark.parametrize("make", [os.mkfifo, make_huge])
def test_a_skill_that_nobody_can_look_into_is_neither_used_nor_edited(
    skill: HomeScene, path_policy: PathPolicy, make: Callable[[Path], None]
) -> None:
    planted = skill.data / "skills" / "evil" / "SKILL.md"
    planted.parent.mkdir(parents=True)
    make(planted)
    used = state_dir_guard(ToolCall("Skill", {"skill": "evil"}), path_policy)
    assert (used or "").startswith("The skill evil does not load: skills/evil/SKILL.md: is ")
    assert state_dir_guard(ToolCall("Skill", {"skill": "mail"}), path_policy) is None
    change = state_dir_guard(edited("skills/evil/SKILL.md", "x", "y"), path_policy)
    assert (change or "").startswith("skills/evil/SKILL.md is ")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("evil", "The skill evil does not load: skills/evil/SKILL.md"),
        ("gone", "skills/gone/SKILL.md: is not there"),
        ("notes:mail", "a name takes letters"),
        ("/mail", "a name takes letters"),
        ("../notes/mail", "a name takes letters"),
        ("", "a name takes letters"),
    ],
)
def test_only_a_skill_that_loads_is_used_and_no_other_place_of_one(
    skill: HomeScene, path_policy: PathPolicy, name: str, reason: str
) -> None:
    for folder in ("skills/evil", "notes/.claude/skills/mail"):
        (skill.data / folder).mkdir(parents=True)
        (skill.data / folder / "SKILL.md").write_text(HOOKS)
    assert state_dir_guard(ToolCall("Skill", {"skill": "mail"}), path_policy) is None
    assert reason in (state_dir_guard(ToolCall("Skill", {"skill": name}), path_policy) or "")


NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)

MAIL = "Bash(ollim-bot gmail *)"


def subagent(name: str, *tools: str) -> Subagent:
    limits = tuple(map(Pattern.of, tools)) if tools else None
    return Subagent(name, "Does it.", "You do it.", tools=limits)


KNOWN = Subagents(
    {
        one.name: one
        for one in (
            subagent("helper"),
            subagent("mail", MAIL, "Read(./**.md)"),
            subagent("house", "mcp__home__*"),
            subagent("user-proxy", "Read(./**.md)"),
        )
    }
)


@pytest.fixture
def in_main(path_policy: PathPolicy) -> Gate:
    return main_gate(path_policy, subagents=SubagentGuard(lambda: KNOWN))


def in_background(path_policy: PathPolicy, *allowed: str) -> Gate:
    tools = BackgroundTools(
        path_policy, lambda: DEFAULT_BG_TOOLS, abilities=Abilities(lambda: KNOWN)
    )
    job = Reminder(JobSpec(id="abc", message="Look.", allowed_tools=allowed), NOW)
    return tools.gate(Run(RunPolicy.of_job(job, (*DEFAULT_BG_TOOLS, *allowed)), NOW, job=job))


async def refused(gate: Gate, tool: str, by: str = "", /, **arguments: object) -> str:
    refusal = await gate(ToolCall(tool, arguments, by))
    return refusal.reason if refusal else ""


async def started(gate: Gate, name: str, tool: str = "Agent", **more: object) -> str:
    return await refused(gate, tool, prompt="x", subagent_type=name, **more)


@pytest.mark.parametrize("tool", ["Agent", "Task"])
async def test_known_subagents_can_be_started_everywhere(
    path_policy: PathPolicy, in_main: Gate, tool: str
) -> None:
    for gate in (in_main, in_background(path_policy)):
        assert await started(gate, "mail", tool) == ""


async def test_no_other_can(path_policy: PathPolicy, in_main: Gate) -> None:
    assert await started(in_main, "general-purpose") == (
        "There is no subagent `general-purpose`. There are `helper`, `mail`, `house`."
    )
    assert "There is no subagent ``." in await refused(in_main, "Agent", prompt="x")
    assert "`user-proxy`" in await started(in_background(path_policy), "fork")
    nothing_known = main_gate(path_policy)
    assert "Do it yourself" in await started(nothing_known, "mail")


async def test_the_owner_is_asked_rather_than_guessed_at_where_that_is_possible(
    path_policy: PathPolicy, in_main: Gate
) -> None:
    assert "ask the owner" in await started(in_main, "user-proxy")
    assert await started(in_background(path_policy), "user-proxy") == ""


async def test_a_subagent_gets_no_copy_of_the_folder(in_main: Gate) -> None:
    for isolation in ("worktree", "remote", ["worktree"]):
        assert await started(in_main, "mail", isolation=isolation) == texts.SAME_FOLDER


async def test_a_subagent_starts_no_other(path_policy: PathPolicy, in_main: Gate) -> None:
    for gate in (in_main, in_background(path_policy)):
        reason = await refused(gate, "Agent", "helper", subagent_type="mail", prompt="x")
        assert reason == texts.ONE_BELOW_ANOTHER


async def test_a_subagent_does_what_its_file_allows_and_no_more(in_main: Gate) -> None:
    assert await refused(in_main, "Bash", "mail", command="ollim-bot gmail unread") == ""
    assert await refused(in_main, "Read", "mail", file_path="note.md") == ""
    assert await refused(in_main, "Bash", "mail", command="ollim-bot reminder list") == (
        f"`Bash` with these arguments is not for `mail`. What it may use: `{MAIL}`, "
        "`Read(./**.md)`."
    )
    assert "is not for `mail`" in await refused(
        in_main, "WebFetch", "mail", url="https://a.example"
    )
    assert "is not for `mail`" in await refused(in_main, "mcp__discord__add_reminder", "mail")


async def test_without_a_limit_of_its_own_it_is_judged_like_its_caller(
    path_policy: PathPolicy, in_main: Gate
) -> None:
    note, secret = "note.md", ".env"
    assert await refused(in_main, "Write", "helper", file_path=note, content="x") == ""
    assert ".env is protected" in await refused(in_main, "Read", "helper", file_path=secret)
    silent = in_background(path_policy)
    assert await refused(silent, "Read", "helper", file_path=note) == ""
    assert "not available in background" in await refused(silent, "Write", "helper", file_path=note)


async def test_it_has_no_more_than_the_run_that_started_it(path_policy: PathPolicy) -> None:
    unread = {"command": "ollim-bot gmail unread"}
    reason = await refused(in_background(path_policy), "Bash", "mail", **unread)
    assert f"the job needs `{MAIL}` in its `allowed-tools`" in reason
    assert await refused(in_background(path_policy, MAIL), "Bash", "mail", **unread) == ""


async def test_what_the_job_needs_for_it_is_the_whole_name_of_a_servers_tool(
    path_policy: PathPolicy,
) -> None:
    reason = await refused(in_background(path_policy), "mcp__home__lamp", "house")
    assert "the job needs `mcp__home__lamp` in its `allowed-tools`" in reason
    silent = in_background(path_policy, "mcp__home__lamp")
    assert await refused(silent, "mcp__home__lamp", "house") == ""


async def test_the_pings_of_a_run_are_not_for_a_subagent_with_limits(
    path_policy: PathPolicy,
) -> None:
    gate = in_background(path_policy)
    assert "is not for `mail`" in await refused(gate, "mcp__discord__ping_user", "mail")
    assert await refused(gate, "mcp__discord__ping_user", "helper") == ""


async def test_an_unknown_caller_may_do_nothing(path_policy: PathPolicy, in_main: Gate) -> None:
    for gate in (in_main, in_background(path_policy)):
        reason = await refused(gate, "Read", "stranger", file_path="note.md")
        assert reason == "There is no subagent `stranger`. Do it yourself."

"""Skills have no hooks when the agent writes them, and only those that load are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.home_scene import HomeScene

from ollim_bot.ports import ToolCall
from ollim_bot.tools.guards import may_have_hooks, state_dir_guard
from ollim_bot.tools.path_rules import PathPolicy

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

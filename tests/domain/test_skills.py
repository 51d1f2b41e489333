"""Skills: their content, what they add to a job, and what is removed from unknown ones."""

from __future__ import annotations

import pytest

from ollim_bot.domain.skills import (
    Skill,
    SkillSet,
    command_lines,
    patterns_in,
    required_skills,
    without_commands,
)

BLOCK = "```!\nollim-bot today\n\nollim-bot runs list\n```"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Look: !`ollim-bot today` and !`ollim-bot help`", ("ollim-bot today", "ollim-bot help")),
        (BLOCK, ("ollim-bot today", "ollim-bot runs list")),
        (f"a\n{BLOCK}\nb !`x`", ("ollim-bot today", "ollim-bot runs list", "x")),
        ("!`x` and again !`x`", ("x",)),
        ("`x`, !x, ! `x`, ```\nx\n```, !`` ` ``", ()),
        ("!`one\ntwo`", ()),
    ],
)
def test_the_commands_of_a_skill_are_found_in_their_order(
    text: str, commands: tuple[str, ...]
) -> None:
    assert command_lines(text) == commands


@pytest.mark.parametrize(
    "text", ["!`x` !!`y`", BLOCK, "  ```  !\nx\n  ```", "~~~!\nx\n~~~", "a!`b`"]
)
def test_a_skill_without_its_commands_has_none_and_still_shows_them(text: str) -> None:
    plain = without_commands(text)
    assert command_lines(plain) == ()
    assert plain.replace(" ", "") == text.replace("!", "").replace(" ", "")


def test_the_ways_of_other_programs_to_list_tools_are_read() -> None:
    expected = ("Read", "Bash(git status *)", "WebFetch")
    assert patterns_in("Read, Bash(git status *), WebFetch") == expected
    assert patterns_in("Read Bash(git status *) WebFetch") == expected


def test_a_job_gets_the_tools_of_its_skills_once_each() -> None:
    both = {
        "a": Skill("a", "x", "1", ("Read", "WebSearch")),
        "b": Skill("b", "x", "1", ("WebSearch", "Glob")),
    }
    skills = SkillSet(both, {"c": ("skills/c/SKILL.md: is not there",)})
    assert skills.tools_of(("a", "b", "c", "d")) == ("Read", "WebSearch", "Glob")
    assert skills.unusable(("a", "c", "d")) == ["c", "d"]
    assert skills.why_unusable("c") == "does not load. skills/c/SKILL.md: is not there."
    assert skills.why_unusable("d") == "is not there. Add skills/d/SKILL.md."


def test_the_skills_of_a_job_are_named_in_a_block() -> None:
    assert required_skills(("a", "b")) == "REQUIRED SKILLS\n- Skill(a)\n- Skill(b)"
    assert required_skills(()) == ""

"""Skills: their content, what they add to a job, and what is removed from unknown ones."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.kernel.values.skills import (
    Skill,
    SkillSet,
    command_lines,
    may_run_commands,
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


MARKED = [
    "!`x` !!`y`", BLOCK, "  ```  !\nx\n  ```", "~~~!\nx\n~~~", "a!`b`", "```!!\nx\n```",
    "``` !!\nx\n```", "~~~ !!!\nx\n~~~", "```\t!!\nx\n```", "\t```!\t!\nx\n```", "!```!\nx\n```",
    "````!\nx\n````", "``!`!\nx\n```", "~~~!~!~!\nx\n~~~", "see ```! x ```", "!`a\nb`",
    "```!`!`x\n```", "!!!!`x`", "` !`x`", "~~~`!`!`x`",
]  # fmt: skip

# What the engine would run, if it were not told to run nothing.
ENGINE = (re.compile(r"```!\s*\n?[\s\S]*?\n?```"), re.compile(r"(?:(?<=\s)|^)!`[^`]+`", re.M))


def finds_commands(text: str) -> bool:
    return bool(command_lines(text)) or any(each.search(text) for each in ENGINE)


@pytest.mark.parametrize("text", MARKED)
def test_a_skill_without_its_commands_has_none_and_still_shows_them(text: str) -> None:
    plain = without_commands(text)
    assert not finds_commands(plain)
    assert not may_run_commands(plain)
    assert plain == text.replace("!", "")


SIGNS = st.sampled_from(
    ["`", "``", "```", "~~~", "~", "!", "!!", " ", "\t", "\n", "\r\n", "x", "\u00a0"]
)


@settings(max_examples=examples(5))
@given(st.one_of(st.text(), st.lists(SIGNS, max_size=20).map("".join)))
@example("``!`!x\n```")
@example("~~~ !!!\nx\n~~~")
def test_whatever_the_text_no_command_is_left_in_it(text: str) -> None:
    plain = without_commands(text)
    assert not finds_commands(plain)
    assert not may_run_commands(plain)
    assert without_commands(plain) == plain
    assert plain.replace("!", "") == text.replace("!", "")
    if finds_commands(text):
        assert may_run_commands(text)


@given(st.lists(st.one_of(st.text("`~ \tx\n"), st.text("! \tx.(\n")), max_size=8))
def test_a_text_whose_lines_have_no_command_is_left_as_it_is(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert without_commands(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Use `x`! And `y` !",
        "Really?! `x`",
        "# Title!\n```sh\necho hi!\n```\n!",
        "![a](b)",
        "a ~ !b",
    ],
)
def test_other_exclamation_marks_stay(text: str) -> None:
    assert without_commands(text) == text


@pytest.mark.real_time
def test_the_time_to_take_commands_out_grows_with_the_text_only() -> None:
    began = time.process_time()
    for piece in ("`", "~", "!", "``` ", "~~~!", "`!", "```!\n", "!`", "~~~ ! ", " ", "```!\n x"):
        text = piece * (200_000 // len(piece))
        assert not command_lines(without_commands(text))
        command_lines(text)
    assert time.process_time() - began < 10


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

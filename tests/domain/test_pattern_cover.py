"""A pattern covers another only if it allows every call that the other allows."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.domain.permissions import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    Pattern,
    beyond_main,
    is_covered,
    matches,
)
from ollim_bot.domain.tool_patterns import problems
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS

ROOT = "/data"
MAIN = [Pattern.of(text) for text in MAIN_TOOLS]


def in_main(pattern: str) -> bool:
    return is_covered(Pattern.of(pattern), MAIN)


@pytest.mark.parametrize("pattern", [*MAIN_TOOLS, *DEFAULT_BG_TOOLS])
def test_what_main_and_the_background_may_use_is_covered_by_main(pattern: str) -> None:
    assert in_main(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "Read(./notes/**.md)", "Read(notes/a.md)", "Read(./downloads/x/*)", "Write(./notes/*.md)",
        "Grep(./**/*.md)", "Bash(ollim-bot gmail read *)", "Bash(ollim-bot reminder)",
        "Bash(ollim-bot tasks ** --json)", "WebFetch(https://example.com/**)", "WebFetch(*)",
        "Skill(mail *)", "Agent(guide)", "mcp__discord__ping_user", "mcp__docs__*",
        "mcp__discord__add*",
    ],
)  # fmt: skip
def test_a_part_of_what_main_may_use_is_covered(pattern: str) -> None:
    assert in_main(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "Read", "Read(*)", "Read(**)", "Read(./**)", "Read(./**.txt)", "Read(/**.md)",
        "Read(../a.md)", "Read(./*)", "Write(./downloads/**)", "MultiEdit(./**.md)",
        "NotebookEdit", "Bash(git status)", "Bash(ollim-bot **)", "Bash(ollim-bot help *)",
        "Bash(ollim-bot config *)", "Bash(ollim-bot ** reminder)", "Bash(ollim-bot * list)",
        "Bash(ollim-bot)", "Bash(ollim-bot ?asks *)", "mcp__gmail__*", "mcp__discordia__*",
        "TodoWrite", "Grep", "Glob(**)",
    ],
)  # fmt: skip
def test_what_goes_beyond_main_or_is_unclear_is_not_covered(pattern: str) -> None:
    assert not in_main(pattern)


def test_the_agent_gives_a_job_no_pattern_for_all_tools_of_a_server() -> None:
    allowed = [
        Pattern.of("mcp__home__*"),
        Pattern.of("mcp__home__lamp"),
        Pattern.of("mcp__docs__*"),
    ]
    assert [*beyond_main(["mcp__home__lamp", "mcp__home__door", "mcp__docs__*"], allowed)] == []
    (said,) = beyond_main(["mcp__home__*"], allowed)
    nothing = "`mcp__home__*` allows a background run nothing, since it names no tool."
    assert said == f"{nothing} Write `mcp__home__lamp`."
    many = [Pattern.of(f"mcp__home__l{number}") for number in range(13)]
    (said,) = beyond_main(["mcp__home__l*"], many)
    assert said.endswith("`mcp__home__l11` or another of its 13 tools.")
    assert "mcp__home__l12" not in said
    (said,) = beyond_main(["mcp__home__*"], [])
    assert said.endswith("`mcp__home__` with a name that `ollim-bot mcp list home` shows.")


def test_several_patterns_are_not_added_up() -> None:
    both = [Pattern.of("Bash(cat a)"), Pattern.of("Bash(cat b)")]
    assert not is_covered(Pattern.of("Bash(cat *)"), both)
    assert not is_covered(Pattern.of("Bash(cat ?)"), both)


# Each piece of a pattern, and what it may stand for in a call.
WORDS: dict[str, tuple[str, ...]] = {
    "a": ("a",),
    "b": ("b",),
    "*": ("a", "b", "*", "a*", "'*'", ""),
    "**": ("", "a", "a b", "* a/b"),
    "***": ("a", "a/b"),
    "a*": ("a", "ab", "'a*'"),
    "?": ("a", "b"),
    "a/b": ("a/b",),
    "**/a": ("a", "b/a"),
}
PARTS: dict[str, tuple[str, ...]] = {
    "a": ("a",),
    "b": ("b",),
    "/": ("/",),
    "*": ("", "a", "ab"),
    "?": ("a", "b"),
    "**": ("", "a", "a/b"),
    "/**/": ("/", "/a/", "/a/b/"),
    ".md": (".md",),
}
WITH_WORDS = ("Bash", "Skill", "Agent")
TOOLS = (*WITH_WORDS, "Read", "Write", "Glob", "Grep", "WebFetch", "TodoWrite")

Case = tuple[Pattern, dict[str, object]]


@st.composite
def patterns_with_calls(draw: st.DrawFn, tool: str) -> Case:
    """A pattern, and a call that was made to fit it, as far as one can."""
    has_words = tool in WITH_WORDS
    tokens = draw(st.lists(st.sampled_from([*(WORDS if has_words else PARTS)]), max_size=4))
    pieces = [draw(st.sampled_from((WORDS if has_words else PARTS)[token])) for token in tokens]
    between, start = (" ", "a ") if has_words else ("", "https://a/" if tool == "WebFetch" else "")
    argument, made_of = start + between.join(tokens), start + between.join(pieces)
    text = draw(st.sampled_from([tool, *[f"{tool}({argument})"] * 4]))
    pattern = Pattern.of(text if not problems(text).errors else f"{tool}(a)")
    # A search is for a glob: for what the pattern says, or for less.
    glob = draw(st.sampled_from([argument, made_of]))
    if tool in FILE_ARGUMENTS:
        return pattern, {FILE_ARGUMENTS[tool]: made_of}
    if tool in SEARCH_ARGUMENTS:
        return pattern, {SEARCH_ARGUMENTS[tool]: glob, "path": draw(st.sampled_from(["", "a"]))}
    return pattern, {"command": made_of, "skill": made_of, "subagent_type": made_of, "url": made_of}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Pattern, Case]:
    tool = draw(st.sampled_from(TOOLS))
    wider, _ = draw(patterns_with_calls(tool))
    return wider, draw(patterns_with_calls(tool))


def made(wider: str, narrower: str, **call: object) -> tuple[Pattern, Case]:
    return Pattern.of(wider), (Pattern.of(narrower), call)


@given(pairs())
@settings(max_examples=examples(4))
@example(made("Bash(a * **)", "Bash(a *)", command="a"))
@example(made("Bash(a ***)", "Bash(a **)", command="a x y"))
@example(made("Bash(a * b)", "Bash(a a a)", command="a a a"))
@example(made("Bash(a *b)", "Bash(a * b)", command="a * b"))
@example(made("Bash(a ? *)", "Bash(a *)", command="a"))
@example(made("Glob(./*)", "Glob(./**)", pattern="**"))
def test_whatever_the_covered_pattern_allows_the_other_allows(pair: tuple[Pattern, Case]) -> None:
    wider, (narrower, arguments) = pair
    if is_covered(narrower, [wider]) and matches(narrower, narrower.tool, arguments, ROOT):
        assert matches(wider, narrower.tool, arguments, ROOT)


def test_a_pattern_that_allows_no_command_covers_none() -> None:
    assert not is_covered(Pattern.of("Bash(a)"), [Pattern("Bash")])


NAMES = st.sampled_from(
    ["mcp__a__*", "mcp__a__b*", "mcp__a__b", "mcp__a__bc", "mcp__ab__*", "mcp__a__b_c*"]
)


@given(NAMES, NAMES, NAMES)
def test_whatever_tools_the_covered_pattern_names_the_other_names(
    wider: str, narrower: str, tool: str
) -> None:
    if is_covered(Pattern.of(narrower), [Pattern.of(wider)]) and Pattern.of(narrower).names(tool):
        assert Pattern.of(wider).names(tool)


@given(st.sampled_from(TOOLS).flatmap(patterns_with_calls))
def test_every_pattern_covers_itself(case: Case) -> None:
    pattern, _ = case
    assert is_covered(pattern, [pattern])

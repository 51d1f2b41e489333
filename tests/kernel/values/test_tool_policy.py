"""A pattern allows what it says, and no more; it is known which of two is the wider one."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS
from ollim_bot.kernel.values.permissions import (
    FILE_ARGUMENTS,
    LONGEST_TEXT,
    SEARCH_ARGUMENTS,
    Pattern,
    beyond_main,
    covers,
    fits,
    fits_words,
    is_covered,
    matches,
)
from ollim_bot.kernel.values.tool_patterns import (
    LONGEST_PATTERN,
    MOST_WILDCARDS,
    Problems,
    problems,
)

ROOT = "/home/me/.ollim-bot"

NOTES = "Read(./**.md)"


def allows(pattern: str, tool: str, /, **arguments: object) -> bool:
    return matches(Pattern.of(pattern), tool, arguments, ROOT)


def runs(pattern: str, command: str) -> bool:
    return allows(f"Bash({pattern})", "Bash", command=command)


@pytest.mark.parametrize("pattern", sorted({*MAIN_TOOLS, *DEFAULT_BG_TOOLS}))
def test_nothing_is_wrong_with_what_is_allowed_by_default(pattern: str) -> None:
    assert problems(pattern) == Problems()
    assert str(Pattern.of(pattern)) == pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("Bash", "every command"),
        ("Bash(*)", "every command"),
        ("Bash(**)", "every command"),
        ("Bash( * )", "every command"),
        ("Bash(* list)", "which program"),
        ("Bash(ollim-b?t list)", "which program"),
        ("Bash(a; b)", "more than one plain command"),
        ("Bash(a & b)", "more than one plain command"),
        ("Bash(a | b)", "more than one plain command"),
        ("Bash(a `b`)", "more than one plain command"),
        ("Bash(a $(b))", "more than one plain command"),
        ("Bash(a > b)", "more than one plain command"),
        ("Bash(a < b)", "more than one plain command"),
        ("Bash(a\nb)", "more than one plain command"),
        ("Write(state/x.md)", "never writes there"),
        ("Write(./state/**)", "never writes there"),
        ("Write(./State/**)", "never writes there"),
        ("Write(**/state/**)", "never writes there"),
        ("Write(./state*/**)", "never writes there"),
        ("Edit(.env)", "never writes there"),
        ("Edit(./.env.local)", "never writes there"),
        ("Edit(tool-policy.yaml)", "never writes there"),
        ("Write(./mcp.json)", "never writes there"),
        ("Write(skills/skills.lock)", "never writes there"),
        ("MultiEdit(./.claude/agents/*.md)", "never writes there"),
        ("NotebookEdit(/home/me/.ollim-bot/state/x)", "never writes there"),
        ("Read(", "is not written like"),
        ("Read()", "is not written like"),
        ("Read(a) b", "is not written like"),
        ("Read a", "is not written like"),
        ("*", "no name of a tool"),
        ("Rea*", "no name of a tool"),
        ("mcp__discord", "names no server"),
        ("mcp__*", "names no server"),
        ("mcp__dis*__ping", "names no server"),
        ("mcp__discord__ping(x)", "cannot have here"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said(pattern: str, words: str) -> None:
    (error,) = problems(pattern).errors
    assert words in error
    assert error.endswith(".")
    with pytest.raises(WrongInput, match=words):
        Pattern.of(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["Write(./**.md)", "Write(skills/x/state/a.md)", "Edit(./statements/*.md)", "Read(./state/x)",
     "Bash(wc *)", "Bash(git log)", "Bash(ollim-bot *)",
     "WebFetch(https://example.com/**)", "Skill(mail *)"],
)  # fmt: skip
def test_wide_globs_and_near_names_are_fine(pattern: str) -> None:
    assert problems(pattern) == Problems()


@pytest.mark.parametrize(
    "pattern",
    ["Bash(tar *)", "Bash(git log *)", "Bash(/usr/bin/env *)", "Bash(python3 *)", "Bash(find . *)",
     "Bash(sed -n *)", "Bash(sh ?)"],
)  # fmt: skip
def test_who_allows_a_program_that_starts_others_is_warned(pattern: str) -> None:
    found = problems(pattern)
    assert found.errors == ()
    assert "lets the agent run anything" in found.warnings[0]


def test_a_pattern_has_limits() -> None:
    stars = "*a" * MOST_WILDCARDS
    assert problems(f"Read(./{stars})") == Problems()
    assert "more than 8 wildcards" in problems(f"Read(./{stars}*)").errors[0]
    assert "more than 8 wildcards" in problems(f"Bash(cat {'? ' * 9})").errors[0]
    assert problems(f"Read({'a' * (LONGEST_PATTERN - 6)})") == Problems()
    assert "longer than 500" in problems(f"Read({'a' * (LONGEST_PATTERN - 5)})").errors[0]


@pytest.mark.parametrize("pattern", ["Read(*)", "Write(**)", "WebFetch( * )"])
def test_any_argument_is_only_worth_a_warning(pattern: str) -> None:
    found = problems(pattern)
    assert found.errors == ()
    assert "any argument" in found.warnings[0]


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [
        ("WebSearch", "WebSearch", True),
        ("WebSearch", "WebSearchX", False),
        ("WebSearch", "websearch", False),
        ("mcp__discord__*", "mcp__discord__ping_user", True),
        ("mcp__discord__*", "mcp__discordia__ping_user", False),
        ("mcp__discord__add*", "mcp__discord__add_reminder", True),
        ("mcp__discord__ping_user", "mcp__discord__ping_user2", False),
    ],
)
def test_a_tool_is_known_by_its_whole_name(pattern: str, tool: str, expected: bool) -> None:
    assert allows(pattern, tool) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("note.md", True),
        ("./a/b.md", True),
        (f"{ROOT}/a.md", True),
        (f"/{ROOT}/a.md", True),
        ("a/../b.md", True),
        (".claude/agents/x.md", True),
        ("../a.md", False),
        ("/etc/a.md", False),
        (f"{ROOT}-2/a.md", False),
        ("a.txt", False),
        ("a.md/b.txt", False),
        ("a.MD", False),
        ("a.md\n", False),
        ("a.md ", False),
        ("a.md\ue000", False),
        ("", False),
        (7, False),
        (None, False),
    ],
)
def test_a_path_is_seen_from_the_data_directory(path: object, expected: bool) -> None:
    assert allows(NOTES, "Read", file_path=path) is expected


def test_a_pattern_for_one_tool_says_nothing_about_another() -> None:
    assert not allows(NOTES, "Write", file_path="a.md")
    assert not allows("Write(./**.md)", "Edit", file_path="a.md")
    assert allows("NotebookEdit(./**.ipynb)", "NotebookEdit", notebook_path="a.ipynb")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"glob": "*.md"}, True),
        ({"glob": "*.md", "path": "routines"}, True),
        ({"glob": "**/*.md"}, True),
        ({"path": "a.md"}, True),
        ({}, False),
        ({"path": "."}, False),
        ({"path": "routines"}, False),
        ({"glob": "*"}, False),
        ({"glob": "*.json"}, False),
        ({"glob": "!*.md"}, False),
        ({"glob": "*.json *.md"}, False),
        ({"glob": "*.json,*.md"}, False),
        ({"glob": "{*.json,*.md}"}, False),
        ({"glob": "*.[m]d"}, False),
        ({"glob": "../*.md"}, False),
        ({"glob": "*.md", "path": "/etc"}, False),
        ({"glob": "*.md", "path": ".."}, False),
        ({"type": "md"}, False),
    ],
)
def test_a_search_must_be_for_what_is_allowed_and_nothing_else(
    arguments: dict[str, object], expected: bool
) -> None:
    assert allows("Grep(./**.md)", "Grep", **arguments) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("**/*.md", True), ("routines/*.md", True), (f"{ROOT}/*.md", True), ("**/*", False),
     ("/etc/*.md", False), ("../*.md", False), ("*.{md,json}", False), ("", False)],
)  # fmt: skip
def test_a_search_for_names_must_be_for_what_is_allowed(pattern: str, expected: bool) -> None:
    assert allows("Glob(./**.md)", "Glob", pattern=pattern) is expected


def test_a_search_of_one_folder_does_not_reach_into_those_below() -> None:
    assert allows("Glob(./*.md)", "Glob", pattern="*.md")
    assert not allows("Glob(./*.md)", "Glob", pattern="**/*.md")
    assert not allows("Glob(./*.md)", "Glob", pattern="**/../x.md")
    # A name alone is looked for in all folders.
    assert not allows("Grep(./*.md)", "Grep", glob="*.md")


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("ollim-bot reminder *", "ollim-bot reminder list", True),
        ("ollim-bot reminder *", "ollim-bot reminder", True),
        ("ollim-bot reminder *", "ollim-bot  reminder add -m 'a; b' --in 20m", True),
        ("ollim-bot reminder *", "ollim-bot reminders", False),
        ("ollim-bot reminder *", "ollim-bot routine list", False),
        ("ollim-bot reminder *", "Ollim-bot reminder list", False),
        ("ollim-bot reminder *", "xollim-bot reminder list", False),
        ("ollim-bot reminder *", "'ollim-bot reminder' list", False),
        ("ollim-bot reminder *", "X=1 ollim-bot reminder list", False),
        ("ollim-bot reminder *", "ollim-bot reminder list; rm -r .", False),
        ("ollim-bot reminder *", "ollim-bot reminder list > x", False),
        ("ollim-bot reminder *", "ollim-bot reminder add -m \"$(cat .env)\"", False),
        ("ollim-bot help", "ollim-bot help", True),
        ("ollim-bot help", "ollim-bot help x", False),
        ("git * --oneline", "git log --oneline", True),
        ("git * --oneline", "git log -p --oneline", False),
        ("git ** --oneline", "git log -p --oneline", True),
        ("git lo?", "git log", True),
        ("cat notes/*", "cat notes/a.md", True),
        ("cat notes/*", "cat notes/a/b.md", False),
        ("cat *", "cat *.md", False),
        ("cat *", "cat '*.md'", True),
        ("cat a*", "cat a*", False),
        ("a ** b ** c **", "a b c", True),
        ("a **", "a", True),
        ("a ** *", "a b c", True),
        ("cat *", "", False),
    ],
)  # fmt: skip
def test_a_command_must_fit_from_its_first_word_to_its_last(
    pattern: str, command: str, expected: bool
) -> None:
    assert runs(pattern, command) is expected


@pytest.mark.parametrize("command", [None, 7, ["ollim-bot", "reminder"], {}])
def test_a_command_that_is_no_text_is_not_allowed(command: object) -> None:
    assert not allows("Bash(ollim-bot reminder *)", "Bash", command=command)


PIECES = st.lists(st.sampled_from(["a", " ", "'b c'", '"d"', "-x", "é"]), max_size=6).map("".join)


@given(PIECES, st.sampled_from([*";&|<>()$`\\!#~{}[]", "\n", "\r", "\0"]), PIECES)
def test_a_command_with_a_live_character_outside_quotes_is_never_allowed(
    before: str, live: str, after: str
) -> None:
    assert not runs("ollim-bot reminder *", f"ollim-bot reminder {before}{live}{after}")
    assert not runs("ollim-bot **", f"ollim-bot{live}{after}")


@given(st.text(max_size=20))
def test_only_the_program_that_was_named_is_run(text: str) -> None:
    if runs("ollim-bot *", text):
        assert text.replace("'", "").replace('"', "").split()[0] == "ollim-bot"


@given(st.text(max_size=30))
def test_a_pattern_is_wrong_or_can_be_used(text: str) -> None:
    if problems(text).errors:
        with pytest.raises(WrongInput):
            Pattern.of(text)
    else:
        assert str(Pattern.of(text)) == text.strip()


@pytest.mark.parametrize(
    ("pattern", "tool", "arguments", "expected"),
    [
        ("WebFetch(https://a.com/**)", "WebFetch", {"url": "https://a.com/a/b?c"}, True),
        ("WebFetch(https://a.com/**)", "WebFetch", {"url": "http://a.com/"}, False),
        ("WebFetch(https://a.com/**)", "WebFetch", {"url": "https://a.com.evil/"}, False),
        ("WebFetch(https://*.a.com/**)", "WebFetch", {"url": "https://x.a.com/"}, True),
        ("WebFetch(https://*.a.com/**)", "WebFetch", {"url": "https://b.com?.a.com/"}, False),
        ("WebFetch(https://*.a.com/**)", "WebFetch", {"url": "https://b.com#.a.com/"}, False),
        ("WebFetch(https://*.a.com/**)", "WebFetch", {"url": "https://b.com\\.a.com/"}, False),
        ("WebFetch(https://*.a.com/**)", "WebFetch", {"url": "https://x@b.com:1@.a.com/"}, False),
        ("Skill(mail *)", "Skill", {"skill": "mail"}, True),
        ("Skill(mail *)", "Skill", {"skill": "mail", "args": "today now"}, True),
        ("Skill(mail *)", "Skill", {"skill": "mailer"}, False),
        ("Agent(gmail-reader)", "Agent", {"subagent_type": "gmail-reader"}, True),
        ("Agent(gmail-reader)", "Agent", {"subagent_type": "general-purpose"}, False),
        ("Agent(gmail-reader)", "Agent", {}, False),
        ("TodoWrite(x)", "TodoWrite", {"todos": "x"}, False),
    ],
)  # fmt: skip
def test_other_tools_are_known_by_what_they_are_about(
    pattern: str, tool: str, arguments: dict[str, object], expected: bool
) -> None:
    assert allows(pattern, tool, **arguments) is expected


TOKENS = {
    "a": st.just("a"),
    "b": st.just("b"),
    "/": st.just("/"),
    "*": st.text("ab.", max_size=3),
    "?": st.sampled_from("ab."),
    "**": st.text("ab./", max_size=4),
    "/**/": st.sampled_from(["/", "/a/", "/a/b/"]),
}

GLOBS = st.lists(st.sampled_from(list(TOKENS)), max_size=6).map("".join)


@st.composite
def globs_with_texts(draw: st.DrawFn) -> tuple[str, str]:
    """A glob, and a text that was made to fit it."""
    tokens = draw(st.lists(st.sampled_from(list(TOKENS)), max_size=6))
    return "".join(tokens), "".join(draw(TOKENS[token]) for token in tokens)


@pytest.mark.parametrize(
    ("glob", "text", "expected"),
    [
        ("./**.md", "./a.md", True),
        ("./**.md", "./a/b/c.md", True),
        ("./**.md", "./a.md.txt", False),
        ("./**.md", "./a.md\n", False),
        ("./**.md", "./a.MD", False),
        ("./**.md", "/etc/a.md", False),
        ("./**.md", "./amd", False),
        ("./**/*.md", "./a.md", True),
        ("./**/*.md", "./a/b/c.md", True),
        ("./*.md", "./a/b.md", False),
        ("./a/?.md", "./a/b.md", True),
        ("./a/?.md", "./a//.md", False),
        ("./a**/b", "./ab", False),
        ("./a+(b)", "./a+(b)", True),
        ("./a.md", "./axmd", False),
    ],
)
def test_what_a_glob_stands_for(glob: str, text: str, expected: bool) -> None:
    assert fits(glob, text) is expected


@pytest.mark.parametrize(
    ("wider", "narrower", "expected"),
    [
        ("./**.md", "./**/*.md", True),
        ("./**.md", "./notes/*.md", True),
        ("./**.md", "./**/*", False),
        ("./*.md", "./**.md", False),
        ("./*.md", "./?.md", True),
        ("./?.md", "./*.md", False),
        ("./?.md", "./?.md", True),
        ("./**.md", "./{a,b}.md", False),
        ("./**.md", "./!a.md", False),
        ("./**.md", "./a.txt ./b.md", False),
        ("./**.md", "./a.txt,./b.md", False),
        ("./**.md", "./[a].md", False),
    ],
)
def test_which_glob_is_the_wider_one(wider: str, narrower: str, expected: bool) -> None:
    assert covers(wider, narrower) is expected


@given(GLOBS, globs_with_texts())
@example("/***/", ("/**/", "/"))
@example("./a/**/b", ("./a/**/b", "./a/b"))
def test_a_wider_glob_stands_for_all_that_the_narrower_does(
    wider: str, narrower: tuple[str, str]
) -> None:
    glob, text = narrower
    if covers(wider, glob) and fits(glob, text):
        assert fits(wider, text)


@given(st.text())
def test_a_glob_for_markdown_never_fits_anything_else(text: str) -> None:
    assert text.endswith(".md") or not fits("./**.md", f"./{text}")
    assert text.endswith(".md") or not covers("./**.md", f"./{text}")


@pytest.mark.parametrize("wild", ["*", "**", "?*", "*?", "**/", "*.*"])
def test_no_glob_takes_longer_than_its_text_is(wild: str) -> None:
    """Backtracking through all ways to match this would take longer than the test may."""
    glob = f"{wild}a" * 12 + "b"
    text = "a" * LONGEST_TEXT
    assert not fits(glob, text)
    assert not covers(glob, f"{wild}a" * 400)
    assert not fits(wild, f"{text}a")


def test_no_row_of_words_takes_longer_than_it_is() -> None:
    words = ["a"] * 2000
    assert not fits_words(["**", "a"] * 12 + ["b"], words)
    assert fits_words(["**", "a"] * 12, words)


PATTERN_WORDS = st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), max_size=6)


@given(PATTERN_WORDS, st.lists(st.sampled_from(["a", "b", "ab"]), max_size=6))
def test_words_fit_as_one_by_one_trial_says(wanted: list[str], words: list[str]) -> None:
    def tried(wanted: list[str], words: list[str]) -> bool:
        if not wanted:
            return not words
        first, *others = wanted
        if first == "*" and not others:
            return True
        if first == "**":
            return any(tried(others, words[start:]) for start in range(len(words) + 1))
        return bool(words) and fits(first, words[0]) and tried(others, words[1:])

    assert fits_words(wanted, words) == tried(wanted, words)


DATA = "/data"

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
    if is_covered(narrower, [wider]) and matches(narrower, narrower.tool, arguments, DATA):
        assert matches(wider, narrower.tool, arguments, DATA)


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

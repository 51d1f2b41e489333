"""Globs keep to folders, and know which of them is the wider one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ollim_bot.domain.permissions import LONGEST_TEXT, covers, fits, fits_words

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

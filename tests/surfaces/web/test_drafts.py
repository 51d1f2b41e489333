"""An answer that is drafted block by block ends as the answer that is rendered as a whole."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import pytest
from hypothesis import example, given, settings
from tests.examples import examples
from tests.surfaces.web.markdown_texts import chunked

from ollim_bot.surfaces.web.frames import render
from ollim_bot.surfaces.web.presenter import HtmlDraft, is_much_work, rendered


def grown(draft: HtmlDraft, text: str) -> HtmlDraft:
    return replace(draft, rest=draft.rest + text)


def every_character(text: str) -> list[str]:
    return list(text)


@settings(max_examples=examples(4))
@given(chunked())
@example(every_character("a\n***b***\n\nc"))
@example(every_character("a\n-\n- b\n"))
@example(every_character("x\n| a |\n|--no\n"))
@example(every_character("x\n| a |\n|---|\n| b |\n\ny"))
@example(every_character("```\na\n\n```\nb\n\n    c\n\nd"))
@example(every_character("- a\n\n  b\n- c\n\nd\n1. e\n2. f\n* g"))
@example(["a\r", "\n", "\r\nb\r\n\r", "\nc"])
@example(["a\n\nb\n\r", "c"])
@example(every_character("[a]\n\n[a]: http://e.org\n\n[a]"))
@example(every_character("> ```\n> a\nb\n===\n"))
@example(every_character("a\x0bb\x0c\nc\x85d\u2028e\n\nf"))
@example(every_character("\u00a0\n\n\u00a0"))
def test_the_end_is_the_same_however_the_text_was_cut(chunks: list[str]) -> None:
    draft = HtmlDraft()
    for chunk in chunks:
        draft = grown(draft, chunk).settled()
    assert "".join([*draft.blocks, draft.tail()]) == render("".join(chunks))


@given(chunked())
def test_what_was_shown_as_finished_never_changes(chunks: list[str]) -> None:
    draft = HtmlDraft()
    for chunk in chunks:
        before = draft
        draft = grown(draft, chunk).settled()
        assert draft.blocks[: len(before.blocks)] == before.blocks


@given(chunked())
def test_it_makes_no_difference_how_often_it_is_drawn(chunks: list[str]) -> None:
    often, once = HtmlDraft(), HtmlDraft()
    for chunk in chunks:
        often = grown(often, chunk).settled()
        once = grown(once, chunk)
    assert often.settled() == once.settled()


@pytest.mark.parametrize(
    ("text", "blocks", "rest"),
    [
        pytest.param("One.\n\nTwo.\n\nThr", 1, "Two.\n\nThr", id="no line before its end"),
        pytest.param("One.\n\nTwo.\n\nThree.\n", 2, "Three.\n", id="paragraphs"),
        pytest.param("```\na\n\nb\n", 0, "```\na\n\nb\n", id="open code"),
        pytest.param("```\na\n```\nb\n", 1, "b\n", id="closed code"),
        pytest.param("- a\n- b\n\n- c\n", 0, "- a\n- b\n\n- c\n", id="a list is one block"),
        pytest.param("- a\n\nb\n", 1, "b\n", id="after a list"),
        pytest.param("", 0, "", id="nothing"),
    ],
)
def test_blocks_are_finished_when_the_next_one_has_begun(text: str, blocks: int, rest: str) -> None:
    draft = HtmlDraft(rest=text).settled()
    assert (len(draft.blocks), draft.rest) == (blocks, rest)


def test_a_long_answer_is_rendered_in_pieces() -> None:
    """The part that is rendered again for each draft does not grow with the answer."""
    draft = HtmlDraft()
    for number in range(200):
        draft = grown(draft, f"Paragraph {number} of a long answer.\n\n").settled()
        assert len(draft.rest) < 100
    assert len(draft.blocks) == 199


@pytest.mark.parametrize("unit", ["![[](", "[", "- a\n", "x\n\n", "a", "| a |\n|---|\n"])
def test_a_draft_that_would_hold_up_others_stands_as_it_was_written(unit: str) -> None:
    """The message that takes its place is rendered apart from the event loop."""
    draft = HtmlDraft(rest=unit * (100_000 // len(unit))).settled()
    assert draft.blocks == ()
    assert is_much_work(draft.rest)
    assert unescape(draft.tail()).replace("<br>", "\n").removeprefix("<p>").rstrip("\n") == (
        f"{draft.rest.rstrip()}</p>"
    )


def test_what_stands_as_it_was_written_is_no_html() -> None:
    tail = HtmlDraft(rest="<script>alert('&\ud83d')</script>" * 1000).tail()
    assert "<script" not in tail
    assert tail.encode()


@pytest.mark.parametrize("unit", ["![[](", "[", "- a\n", "x\n\n", "x\r\r", "#\n"])
async def test_a_message_that_would_take_seconds_stands_as_it_was_written(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    lines = "\n".join(text.rstrip().splitlines())
    assert unescape(await rendered(text)).replace("<br>", "\n") == f"<p>{lines}</p>\n"


async def test_a_very_long_honest_message_is_rendered() -> None:
    chapter = f"## Tea\n\n{'Warm the *pot* first. ' * 20}\n\n- [how](https://example.org)\n\n"
    assert (await rendered(chapter * (100_000 // len(chapter)))).startswith("<h2>Tea</h2>")


def test_an_honest_answer_is_drafted_in_its_form() -> None:
    assert not is_much_work("| Monday | 8:00 | the dentist | with | the | card |\n" * 80)
    entry = "- **Tuesday**: call [the dentist](https://example.org/a_b) about *both* teeth\n"
    assert not is_much_work(entry * 100)
    assert not is_much_work("    value = table[row]\n" * 200)
    assert not is_much_work("word " * 3000)

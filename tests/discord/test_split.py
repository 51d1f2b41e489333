"""A long text becomes messages that read like the text, and stay while more of it comes."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.discord.message_texts import LIMITS, MONOTONOUS, PROSE, TEXTS

from ollim_bot.surfaces.discord.split import LONGEST, Pieces, share_of, split

FENCE = re.compile(r"[^\S\n]*(`{3,}|~{3,})(.*)")
CODE = "\n".join(f"    print({number})" for number in range(400))


def is_balanced(text: str, longest: int = LONGEST) -> bool:
    marker = ""
    for line in text.split("\n"):
        found = FENCE.fullmatch(line.removesuffix("\r"))
        if found is None:
            continue
        run, about, share = found[1], found[2].rstrip(), share_of(longest)
        if marker:
            is_end = (
                not about.strip()
                and len(run) <= share
                and run[0] == marker[0]
                and len(run) >= len(marker)
            )
            marker = "" if is_end else marker
        elif max(len(run), len(about)) <= share and ("`" not in about or run[0] == "~"):
            marker = run
    return not marker


def is_shown_of(source: str, text: str) -> bool:
    """Whether `text` is `source` but for white space at the ends and added code fences."""
    first, last = text.partition("\n")[0] + "\n", text.rpartition("\n")[2]
    before = ["", first] if FENCE.match(first) else [""]
    after = ["", last, "\n" + last] if FENCE.match(last) else [""]
    return any((one + source + two).strip() == text for one, two in product(before, after))


@given(TEXTS, LIMITS)
def test_the_pieces_are_the_text(text: str, longest: int) -> None:
    pieces = Pieces(longest).added(text)
    sources = [*(piece.source for piece in pieces.done), pieces.rest]
    assert "".join(sources) == text
    for source, shown in zip(sources, pieces.shown, strict=False):
        assert is_shown_of(source, shown)
    assert len(pieces.shown) >= len(pieces.done)


@given(TEXTS, TEXTS, LIMITS)
def test_what_was_cut_off_stays_whatever_follows(text: str, more: str, longest: int) -> None:
    settled = split(text, longest)[:-1]
    assert split(text + more, longest)[: len(settled)] == settled


@given(TEXTS, LIMITS, st.data())
def test_what_was_cut_off_stays_from_any_moment(
    text: str, longest: int, data: st.DataObject
) -> None:
    whole = split(text, longest)
    settled = split(text[: data.draw(st.integers(0, len(text)))], longest)[:-1]
    assert whole[: len(settled)] == settled


@given(TEXTS, LIMITS)
def test_every_piece_can_be_sent(text: str, longest: int) -> None:
    for piece in split(text, longest):
        assert 1 <= len(piece) <= longest
        assert piece == piece.strip()
        assert is_balanced(piece, longest)


@given(st.lists(TEXTS, max_size=8), LIMITS)
def test_how_it_comes_in_makes_no_difference(chunks: list[str], longest: int) -> None:
    pieces = Pieces(longest)
    for chunk in chunks:
        pieces = pieces.added(chunk)
        assert len(pieces.rest.strip()) <= longest
    assert pieces.shown == split("".join(chunks), longest)


@given(TEXTS, LIMITS)
def test_character_by_character_makes_no_difference(text: str, longest: int) -> None:
    pieces = Pieces(longest)
    for char in text:
        pieces = pieces.added(char)
    assert pieces == Pieces(longest).added(text)


@given(st.lists(PROSE, min_size=1, max_size=30))
def test_no_word_is_torn_and_little_room_is_wasted(paragraphs: list[str]) -> None:
    text = "\n\n".join(paragraphs)
    pieces = split(text, 300)
    assert " ".join(pieces).split() == text.split()
    assert all(len(piece) > 0.6 * 300 for piece in pieces[:-1])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 1400 + "\n\n" + "b " * 200 + "\n" + "c " * 400, "a" * 1400),
        ("a " * 100 + "\n" + "b" * 1500 + "\n" + "c " * 400, "a " * 100 + "\n" + "b" * 1500),
        ("One two. " * 190 + "Three " * 100, ("One two. " * 190).strip()),
        ("so it goes on and " * 200, "so it goes on and " * 111 + "so"),
        ("a " * 500 + "x" * 1500, ("a " * 500).strip()),
        ("x" * 2500, "x" * 2000),
        ("漢字。" * 1000, "漢字。" * 666),
    ],
    ids=["paragraph", "line", "sentence", "word", "long word", "longest word", "ideographs"],
)
def test_a_piece_ends_with_the_largest_unit_that_fills_it(text: str, first: str) -> None:
    assert split(text)[0] == first


@pytest.mark.parametrize(
    "one", ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "e\u0301", "\u1100\u1161\u11a8", "\ud83d\ude00", "❤️"]
)
@pytest.mark.parametrize("shift", range(4))
def test_what_is_seen_as_one_character_is_not_torn(one: str, shift: int) -> None:
    pieces = split("x" * shift + one * 300, 100)
    assert len(pieces) > 1
    assert all(piece.removeprefix("x" * shift) == one * piece.count(one) for piece in pieces)


@pytest.mark.parametrize("marker", ["```", "````", "~~~", "   ```"])
@pytest.mark.parametrize("language", ["py", "", "c++ title=x"])
def test_a_fence_is_closed_and_opened_again_with_its_language(marker: str, language: str) -> None:
    pieces = split(f"Look:\n\n{marker}{language}\n{CODE}\n{marker}\n\nDone.")
    bare = marker.strip()
    assert len(pieces) == 3
    assert pieces[0].startswith(f"Look:\n\n{marker}{language}\n    print(0)\n")
    assert all(piece.endswith(f"\n{bare}") for piece in pieces[:-1])
    opened = f"{bare}{language.partition(' ')[0]}\n    print("
    assert all(piece.startswith(opened) for piece in pieces[1:])
    code = re.findall(r"^    print\(\d+\)$", "\n".join(pieces), re.MULTILINE)
    assert "\n".join(code) == CODE


@pytest.mark.parametrize("length", range(1950, 2010))
def test_no_piece_has_an_empty_block(length: int) -> None:
    lines = "y\n" * 30
    for text in (f"{'x' * length}\n```py\n{lines}```", f"```py\n{'x' * length}\n```\n\nAnd then."):
        for piece in split(text):
            assert not re.search(r"^```(py)?\n*```$", piece, re.MULTILINE)


def test_white_space_before_a_long_line_of_code_is_no_block_of_its_own() -> None:
    for piece in split(f"```\n    {'x' * 3000}\n```"):
        assert "x" in piece


@pytest.mark.parametrize("length", range(1985, 2005))
def test_a_fence_that_begins_at_the_end_of_a_piece_finds_room(length: int) -> None:
    for piece in split(f"{'x' * length}\n````py"):
        assert len(piece) <= LONGEST
        assert is_balanced(piece)


@pytest.mark.parametrize("before", ["", "```\n", "~~~\n"])
def test_a_line_that_only_begins_like_a_fence_makes_none_where_it_is_cut(before: str) -> None:
    for piece in split(f"{before}``` {'x' * 300}", 60):
        assert is_balanced(piece, 60)


def test_a_space_with_a_mark_above_it_is_no_place_to_cut() -> None:
    pieces = split("tea \u0301" * 100, 60)
    assert len(pieces) > 1
    assert all(piece[0] != "\u0301" for piece in pieces)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.sampled_from(["- ", "| ", "3. "]))
def test_a_row_is_not_cut(sizes: list[int], mark: str) -> None:
    rows = [f"{mark}{'tea ' * (size // 4)}{size}" for size in sizes]
    pieces = split("\n".join(rows), 100)
    assert [line for piece in pieces for line in piece.split("\n")] == rows


def test_a_row_that_no_message_could_take_is_cut_at_a_word() -> None:
    pieces = split("- " + "tea " * 100, 100)
    assert len(pieces) == 5
    assert " ".join(pieces).split() == ["-", *["tea"] * 100]


def test_a_heading_stays_with_what_it_is_about() -> None:
    [first, second] = split("word " * 320 + "\n\n## Tea\n\n" + "leaf " * 150)
    assert first.endswith("word")
    assert second.startswith("## Tea\n\nleaf")
    [first, second] = split("word " * 350 + "\n## Tea\n- " + "leaf " * 150)
    assert first.endswith("word")
    assert second.startswith("## Tea\n- leaf")


@pytest.mark.parametrize("unit", MONOTONOUS)
def test_a_monotonous_text_fills_its_pieces(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    # Two neighbours hold more than fits into one.
    assert len(split(text)) <= 2 * len(text) / LONGEST + 1


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\n" * 5000])
def test_of_nothing_there_is_no_piece(text: str) -> None:
    assert split(text) == ()


def test_white_space_of_any_length_makes_no_piece() -> None:
    gap = "\n" * 3000
    assert split(f"{gap}one{gap}two{gap}") == ("one", "two")


def test_a_fence_that_is_still_open_is_shown_closed() -> None:
    assert split("```py\nx = 1") == ("```py\nx = 1\n```",)
    assert split("```py\nx = 1\n") == ("```py\nx = 1\n```",)
    assert Pieces().added("```py\nx = 1").closed().added("\nafter").shown == (
        "```py\nx = 1\n```\nafter",
    )


def test_a_long_answer_costs_no_more_for_each_word_than_a_short_one() -> None:
    pieces = Pieces()
    for _ in range(3000):
        pieces = pieces.added("Another word of a long answer. ")
        assert len(pieces.rest) <= LONGEST + 1

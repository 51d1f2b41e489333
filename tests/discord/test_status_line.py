"""The drafts of a turn: its words as they will stand, and what it is doing in small lines below."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.discord.message_texts import TEXTS

from ollim_bot.domain.events import (
    AgentEvent,
    CompactionStarted,
    Noted,
    Retrying,
    SubagentProgressed,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)
from ollim_bot.surfaces.discord.split import LONGEST, split, with_tables
from ollim_bot.surfaces.discord.status_line import LiveText, elapsed, pieces

READ = ToolStarted("1", "Read", {"file_path": "/a/notes/today.md"})
FORK = "-# side conversation · apart from the main one"
HOSTILE = "a\n# b\r\n\u2028`c` ~~d~~ **e** <@1> https://evil.example ||f|| [g](h)\\"


def after(*events: AgentEvent) -> LiveText:
    live = LiveText()
    for event in events:
        live = live.after(event)
    return live


def words(live: LiveText) -> tuple[str, ...]:
    return live.shown


def test_the_first_sign_is_one_small_line() -> None:
    assert pieces(LiveText(), 0) == ("-# Thinking…",)
    assert pieces(LiveText(), 3.9) == ("-# Thinking… (3s)",)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (65, "1m 05s"), (3599, "59m 59s"), (7500, "2h 05m"), (-1, "0s")],
)
def test_time_is_short(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([CompactionStarted()], "-# Compacting… (3s)"),
        ([Retrying(1, 3, "busy", timedelta(0))], "-# Retrying (1 of 3)… (3s)"),
        ([READ], "-# Working… (3s)\n-# Read(notes/today.md) …"),
        ([READ, ToolEnded("1")], "-# Thinking… (3s)\n-# Read(notes/today.md) ✓"),
        (
            [READ, ToolRefused("1", "Read", "Not in this folder.")],
            "-# Thinking… (3s)\n-# ~~Read(notes/today.md)~~ Not in this folder.",
        ),
        (
            [READ, ToolFailed("1", "no such file")],
            "-# Thinking… (3s)\n-# Read(notes/today.md) failed: no such file",
        ),
        ([READ, ToolFailed("1", "")], "-# Thinking… (3s)\n-# Read(notes/today.md) failed"),
        ([Noted("catching up...")], "-# Thinking… (3s)\n-# catching up..."),
        ([TextStreamed("Hello")], "Hello"),
        ([TextCompleted(" ")], "-# Thinking… (3s)"),
        ([READ, TextStreamed("Hello")], "Hello\n-# Working… (3s)\n-# Read(notes/today.md) …"),
    ],
)
def test_small_lines_say_what_goes_on(events: list[AgentEvent], shown: str) -> None:
    assert pieces(after(*events), 3) == (shown,)


def test_in_a_fork_the_last_line_says_so() -> None:
    assert pieces(LiveText(), 0, in_fork=True) == (f"-# Thinking…\n{FORK}",)
    assert pieces(after(TextStreamed("Hello")), 0, in_fork=True) == (f"Hello\n{FORK}",)


def test_while_it_is_careful_a_line_says_so_as_plain_words() -> None:
    careful = "careful since 14:02: web page news.example"
    plain = careful.replace(":", "\\:")
    assert pieces(LiveText(), 0, careful=careful) == (f"-# Thinking…\n-# {plain}",)
    assert pieces(after(TextStreamed("Hello")), 0, in_fork=True, careful=careful) == (
        f"Hello\n-# {plain}\n{FORK}",
    )
    (hostile,) = pieces(LiveText(), 0, careful="careful: a\n# b **c** " + "d" * 300)
    assert hostile.count("\n") == 1
    assert "**" not in hostile
    assert len(hostile) < 220


def test_of_many_tools_the_last_and_those_that_run_are_shown() -> None:
    calls = [ToolStarted(str(number), f"Tool{number}") for number in range(20)]
    ends = [ToolEnded(str(number)) for number in range(1, 20)]
    [shown] = pieces(after(*calls, *ends, Noted("first"), Noted("second"), Noted("third")), 3)
    assert shown.split("\n")[1:] == ["-# second", "-# third", "-# Tool0 …", "-# Tool19 ✓"]


@pytest.mark.parametrize(
    "events",
    [
        [ToolStarted("1", "Bash", {"command": HOSTILE})],
        [ToolStarted("1", HOSTILE)],
        [SubagentProgressed("1", HOSTILE)],
        [READ, ToolRefused("1", "Read", HOSTILE)],
        [READ, ToolFailed("1", HOSTILE)],
        [Noted(HOSTILE)],
    ],
)
def test_what_a_tool_was_given_stays_in_its_small_line(events: list[AgentEvent]) -> None:
    [shown] = pieces(after(*events), 3)
    lines = shown.split("\n")
    assert len(lines) == len(shown.splitlines()) == 2
    assert all(line.startswith("-# ") for line in lines)
    plain = lines[1].removeprefix("-# ~~Read(notes/today.md)~~").replace("failed: ", "")
    for char in "`*~|<[:":
        assert plain.count(char) == plain.count(f"\\{char}")


@given(TEXTS, TEXTS)
def test_the_words_are_those_of_the_answer(one: str, two: str) -> None:
    """An answer has an empty line between its pieces."""
    answer = "\n\n".join(text.strip() for text in (one, two) if text.strip())
    assert words(after(TextCompleted(one), TextCompleted(two))) == split(with_tables(answer))
    streamed = after(TextStreamed(one), TextCompleted(one), *map(TextStreamed, two.rstrip()))
    assert words(streamed) == split(with_tables(answer))
    assert words(streamed.after(TextCompleted(two))) == split(with_tables(answer))


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_withdrawn_leaves_no_trace(whole: str, wrong: str, right: str) -> None:
    start = after(TextStreamed(whole), TextCompleted(whole))
    failed = start.after(TextStreamed(wrong)).after(TextWithdrawn())
    assert words(failed) == words(start)
    assert words(failed.after(TextStreamed(right))) == words(start.after(TextStreamed(right)))


def test_a_table_is_drawn_as_soon_as_it_can_be_seen() -> None:
    """Whatever comes piece by piece, it ends as the answer shows it."""
    table = "Doses:\n\n| what | when |\n|---|---|\n| iron | 8:00 |\n\nThat is all."
    live = LiveText()
    for char in table:
        live = live.after(TextStreamed(char))
    assert words(live) == split(with_tables(table))
    assert "```\nwhat  when\n────  ────\niron  8:00\n```" in words(live)[0]


def test_white_space_that_a_piece_begins_with_makes_no_difference() -> None:
    begun = after(TextCompleted("one"), TextStreamed("\n\n"), TextStreamed("\n two"))
    assert words(begun) == ("one\n\ntwo",)


def test_a_text_that_ends_otherwise_than_it_streamed_is_taken_as_it_ends() -> None:
    assert words(after(TextStreamed("one"), TextCompleted("two"))) == ("two",)


EVENTS = st.lists(
    st.one_of(
        TEXTS.map(TextStreamed),
        st.integers(1900, 2100).map(lambda size: TextStreamed("x" * size)),
        st.builds(ToolStarted, st.sampled_from("abcd"), st.text(max_size=80)),
        st.builds(ToolFailed, st.sampled_from("abcd"), st.just("_" * 300)),
        st.builds(ToolRefused, st.sampled_from("abcd"), st.just("Read"), st.just("*" * 300)),
        st.text(max_size=300).map(Noted),
        st.just(CompactionStarted()),
    ),
    max_size=12,
)


@given(EVENTS, st.booleans(), st.text(max_size=200))
def test_every_draft_can_be_shown_whatever_happens(
    events: list[AgentEvent], in_fork: bool, careful: str
) -> None:
    live = after(*events)
    shown = pieces(live, 4000, in_fork=in_fork, careful=careful)
    text = live.shown
    assert shown
    assert all(0 < len(piece) <= LONGEST and piece.strip() for piece in shown)
    assert len(text) <= len(shown) <= len(text) + 1
    assert all(piece.startswith(words) for piece, words in zip(shown, text, strict=False))
    assert shown[-1].endswith(FORK) or not in_fork


def test_a_status_that_no_longer_fits_becomes_a_draft_of_its_own() -> None:
    full = "x" * LONGEST
    assert pieces(after(TextStreamed(full), READ, ToolEnded("1")), 3) == (
        full,
        "-# Thinking… (3s)\n-# Read(notes/today.md) ✓",
    )


def test_details_that_no_longer_fit_are_left_out_first() -> None:
    almost = "x" * (LONGEST - 30)
    assert pieces(after(TextStreamed(almost), READ, ToolEnded("1")), 3) == (
        f"{almost}\n-# Thinking… (3s)",
    )
    assert pieces(after(READ, ToolEnded("1"), TextStreamed("x" * LONGEST)), 3) == ("x" * LONGEST,)

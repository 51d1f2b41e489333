"""A turn on Discord while it runs: seen at once, in small lines, at Discord's pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.discord.draft_scene import DraftScene
from tests.surfaces.discord.message_texts import TEXTS

from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.values.events import (
    AgentEvent,
    CompactionStarted,
    Noted,
    Retrying,
    SubagentProgressed,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.discord.rendering import GOES_ON_IN_FILE
from ollim_bot.surfaces.discord.split import LONGEST, LONGEST_SHOWN, split, with_tables
from ollim_bot.surfaces.discord.status_line import GOES_ON_LATER, LiveText, elapsed, pieces

SENTENCE = "One sentence of some words, as they come. "

LONG = SENTENCE * 180  # some 8,000 characters


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


async def test_the_first_sign_comes_before_any_time_has_passed(scene: DraftScene) -> None:
    await scene.begin()
    [first] = scene.channel.texts
    assert first.startswith("-# Thinking…")
    assert ("show_typing", "") in scene.channel.calls


async def test_in_a_burst_the_typing_sign_is_enough_and_each_answer_is_one_message(
    scene: DraftScene,
) -> None:
    for number in range(5):
        turn = await scene.begin()
        assert scene.requests("show_typing") == ["show_typing"] * (number + 1)
        await scene.clock.advance(0.4)
        await scene.deliver(scene.answer(turn, f"answer {number}"))
        await turn.end()
    await scene.settle()
    assert scene.channel.texts == [f"answer {number}" for number in range(5)]
    assert scene.requests() == ["send", "edit", *["send"] * 4], "only the first had a status"
    assert scene.requests("delete") == []


async def test_a_turn_that_goes_on_after_a_burst_gets_its_status_line(scene: DraftScene) -> None:
    first = await scene.begin()
    await scene.deliver(scene.answer(first, "one"))
    await first.end()
    await scene.begin()
    assert scene.channel.texts == ["one"]
    await scene.clock.advance(1.3)
    assert scene.channel.texts == ["one", "-# Thinking… (1s)"]


async def test_the_nonce_of_a_draft_is_made_of_its_turn_and_its_place(scene: DraftScene) -> None:
    again = DraftScene()
    turn, _ = await scene.begin(), await again.begin()
    await turn.show(TextStreamed("word " * 500))
    await scene.clock.advance(10)
    first, second = (each.nonce for each in scene.channel.bot.values())
    assert [each.nonce for each in again.channel.bot.values()] == [first]
    assert len(first) == len(second) == 24
    assert first != second
    await again.close()


async def test_tokens_never_wait_for_discord(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.may_answer.clear()
    async with asyncio.timeout(60):
        for _ in range(200):
            await turn.show(TextStreamed("word "))
            await scene.clock.advance(0.1)
    await turn.end()
    assert len(scene.requests()) == 2


async def test_at_most_one_request_is_under_way(scene: DraftScene) -> None:
    turn = await scene.begin()
    before = len(scene.requests())
    scene.channel.may_answer.clear()
    await turn.show(TextStreamed("hello"))
    await scene.clock.advance(60)
    assert len(scene.requests()) == before + 1


async def test_edits_keep_the_pace_that_the_channel_names(scene: DraftScene) -> None:
    turn = await scene.begin()
    for number in range(600):
        await turn.show(TextStreamed(f"{number} "))
        await scene.clock.advance(0.1)
    assert 45 <= len(scene.requests()) <= 60 / 1.2 + 1
    scene.channel.pause = 6.0
    before = len(scene.requests())
    for number in range(600):
        await turn.show(TextStreamed(f"{number} "))
        await scene.clock.advance(0.1)
    assert 8 <= len(scene.requests()) - before <= 12


async def test_an_edit_waits_anew_where_something_was_sent_meanwhile(scene: DraftScene) -> None:
    await scene.begin(TextStreamed("hello"), seconds=1)
    await scene.deliver(scene.answer(None, "stand up"))
    sent_at = scene.clock.monotonic()
    while "hello" not in scene.channel.texts:
        await scene.clock.advance(0.1)
        assert scene.clock.monotonic() < sent_at + 5
    assert scene.clock.monotonic() - sent_at >= 1.1


async def test_the_passing_of_seconds_alone_is_drawn_every_five_of_them(scene: DraftScene) -> None:
    turn = await scene.begin()
    for _ in range(590):
        await turn.show(ThinkingStreamed("hm"))
        await scene.clock.advance(0.1)
    assert 9 <= scene.requests().count("edit") <= 12
    assert "(5" in scene.channel.texts[0]


async def test_what_already_stands_there_is_not_edited(scene: DraftScene) -> None:
    await scene.begin(TextStreamed("All of it. " * 20), seconds=4)
    edits = scene.requests().count("edit")
    await scene.clock.advance(1)
    assert scene.requests().count("edit") == edits == 1


async def test_a_long_answer_costs_no_more_requests_than_its_pace_allows(scene: DraftScene) -> None:
    turn = await scene.begin()
    for start in range(0, len(LONG), 40):
        await turn.show(TextStreamed(LONG[start : start + 40]))
        await scene.clock.advance(0.2)
    streamed = len(scene.requests())
    seconds = len(LONG) / 40 * 0.2
    answer = scene.answer(turn, LONG)
    await scene.deliver(answer)
    await scene.finish(turn)
    assert scene.channel.texts == list(split(LONG))
    assert streamed <= 1.2 * seconds / scene.channel.pause
    assert len(scene.requests()) - streamed <= 2
    for posted in list(scene.channel.bot.values())[:-1]:
        texts = [outgoing.text for outgoing in posted.versions]
        assert len(texts) == len(set(texts)), "a piece that was finished was edited again"


async def test_a_burst_is_drawn_in_as_few_requests_as_there_are_pieces(scene: DraftScene) -> None:
    await scene.begin(TextStreamed(LONG), seconds=4 * 1.2)
    assert scene.requests() == ["send", "edit", "send", "send", "send"]
    assert scene.channel.texts == list(split(LONG))[:4]


@pytest.mark.parametrize("unit", ["word ", "#\n"])
async def test_of_a_very_long_answer_the_beginning_is_drawn(scene: DraftScene, unit: str) -> None:
    text = unit * (100_000 // len(unit))
    turn = await scene.begin()
    for start in range(0, len(text), 10_000):
        await turn.show(TextStreamed(text[start : start + 10_000]))
    await scene.clock.advance(20 * 1.2)
    beginning = list(split(text[:LONGEST_SHOWN])[:9])
    assert scene.channel.texts == [*beginning, GOES_ON_LATER]
    drawn = len(scene.requests())
    await scene.deliver(scene.answer(turn, text))
    await scene.finish(turn)
    assert scene.channel.texts == [*beginning, f"-# {GOES_ON_IN_FILE}"]
    assert scene.requests()[drawn:] == ["send"]


async def test_typing_is_shown_every_eight_seconds_until_the_turn_ends(scene: DraftScene) -> None:
    scene.channel.fail(
        "show_typing", Unreachable("no"), DeliveryFailed("no"), DeliveryUncertain("no")
    )
    turn = await scene.begin(seconds=79)
    assert len(scene.requests("show_typing")) == 10
    await turn.end()
    await scene.clock.advance(60)
    assert len(scene.requests("show_typing")) == 10


async def test_typing_that_hangs_delays_nothing(scene: DraftScene) -> None:
    scene.channel.may_answer.clear()
    turn = await scene.begin()
    assert {"send", "show_typing"} <= {name for name, _ in scene.channel.calls}
    await turn.end()
    await scene.clock.advance(0)
    assert "show_typing" not in scene.channel.cancelled, "that would block discord.py for good"


async def test_what_fails_is_tried_again_with_growing_pauses(scene: DraftScene) -> None:
    scene.channel.is_down = True
    await scene.begin(TextStreamed("hello"), seconds=600)
    assert 15 <= len(scene.requests()) <= 30
    scene.channel.is_down = False
    await scene.clock.advance(31)
    assert scene.channel.texts[0].startswith("hello")


@pytest.mark.parametrize("call", ["send", "edit"])
async def test_a_draft_whose_answer_was_lost_is_there_once_and_as_it_should_be(
    scene: DraftScene, call: str
) -> None:
    scene.channel.lost_answers[call] = 1
    await scene.begin(TextStreamed("hello"), seconds=10)
    assert len(scene.channel.bot) == 1
    assert scene.channel.texts[0].startswith("hello")


async def test_a_draft_in_doubt_is_not_sent_again_once_its_nonce_may_be_forgotten(
    scene: DraftScene,
) -> None:
    scene.channel.fail("send", *[DeliveryUncertain("lost")] * 100)
    turn = await scene.begin(seconds=600)
    assert 3 <= len(scene.requests("send")) <= 12
    await turn.end()


async def test_a_draft_that_is_refused_is_not_drawn_any_more(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.fail("edit", DeliveryFailed("gone"))
    await turn.show(TextStreamed("word " * 1000))
    await scene.clock.advance(60)
    assert scene.requests() == ["send", "edit"]


async def test_withdrawn_text_does_not_stay(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("wrong " * 1000), seconds=20)
    assert len(scene.channel.bot) == 4
    await turn.show(TextWithdrawn())
    await scene.clock.advance(20)
    [left] = scene.channel.texts
    assert "wrong" not in left


async def test_a_careful_turn_says_so_with_a_button_that_its_answer_does_not_have(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    assert "careful" not in scene.channel.texts[0]
    scene.careful = CarefulTime("careful since 14:02: mail", "0a1b")
    await turn.show(TextStreamed("Hello. " * 400))
    await scene.clock.advance(20)
    first, last = scene.channel.bot.values()
    assert not first.outgoing.buttons
    assert last.outgoing.text.endswith("\n-# careful since 14\\:02\\: mail")
    assert [each.custom_id for each in last.outgoing.buttons] == ["act:go_on:0a1b"]
    scene.careful = None
    await scene.clock.advance(20)
    assert not any(each.outgoing.buttons for each in scene.channel.bot.values())
    assert "careful" not in "".join(scene.channel.texts)


async def test_a_turn_in_a_fork_says_so(scene: DraftScene) -> None:
    scene.in_fork = True
    await scene.begin()
    assert "side conversation" in scene.channel.texts[0]


READ = ToolStarted("1", "Read", {"file_path": "/a/notes/today.md"})

FORK = "-# side conversation · apart from the main one"

HOSTILE = "a\n# b\r\n\u2028`c` ~~d~~ **e** <@1> https://evil.example ||f|| [g](h)\\"


def after(*events: AgentEvent) -> LiveText:
    live = LiveText()
    for event in events:
        live = live.after(event)
    return live


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
    assert after(TextCompleted(one), TextCompleted(two)).shown == split(with_tables(answer))
    streamed = after(TextStreamed(one), TextCompleted(one), *map(TextStreamed, two.rstrip()))
    assert streamed.shown == split(with_tables(answer))
    assert streamed.after(TextCompleted(two)).shown == split(with_tables(answer))


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_withdrawn_leaves_no_trace(whole: str, wrong: str, right: str) -> None:
    start = after(TextStreamed(whole), TextCompleted(whole))
    failed = start.after(TextStreamed(wrong)).after(TextWithdrawn())
    assert failed.shown == start.shown
    assert failed.after(TextStreamed(right)).shown == start.after(TextStreamed(right)).shown


def test_a_table_is_drawn_as_soon_as_it_can_be_seen() -> None:
    """Whatever comes piece by piece, it ends as the answer shows it."""
    table = "Doses:\n\n| what | when |\n|---|---|\n| iron | 8:00 |\n\nThat is all."
    live = LiveText()
    for char in table:
        live = live.after(TextStreamed(char))
    assert live.shown == split(with_tables(table))
    assert "```\nwhat  when\n────  ────\niron  8:00\n```" in live.shown[0]


def test_white_space_that_a_piece_begins_with_makes_no_difference() -> None:
    begun = after(TextCompleted("one"), TextStreamed("\n\n"), TextStreamed("\n two"))
    assert begun.shown == ("one\n\ntwo",)


def test_a_text_that_ends_otherwise_than_it_streamed_is_taken_as_it_ends() -> None:
    assert after(TextStreamed("one"), TextCompleted("two")).shown == ("two",)


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

"""The events of a turn amount to what a tab sees of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.web.markdown_texts import TEXTS, chunked

from ollim_bot.domain.events import AgentEvent, TextCompleted, TextStreamed, TextWithdrawn
from ollim_bot.domain.ids import TurnId
from ollim_bot.surfaces.web.frames import draft_frame, render
from ollim_bot.surfaces.web.presenter import LiveHtml


def after(*events: AgentEvent) -> LiveHtml:
    live = LiveHtml()
    for event in events:
        live = live.after(event)
    return live


def html(live: LiveHtml) -> str:
    return "".join([*live.blocks, live.draft.tail()])


@given(chunked())
def test_what_streams_and_then_is_complete_is_the_text_as_a_whole(chunks: list[str]) -> None:
    live = after(*map(TextStreamed, chunks), TextCompleted("".join(chunks)))
    assert html(live) == render("".join(chunks))
    assert html(after(TextCompleted("".join(chunks)))) == render("".join(chunks))


@given(chunked(), st.lists(st.booleans(), min_size=20, max_size=20))
def test_how_often_it_is_drawn_makes_no_difference(chunks: list[str], draws: list[bool]) -> None:
    live = LiveHtml()
    for chunk, is_drawn in zip(chunks, draws, strict=False):
        live = live.after(TextStreamed(chunk))
        live = live.settled() if is_drawn else live
    streamed = "".join(chunk for chunk, _ in zip(chunks, draws, strict=False))
    assert html(live) == render(streamed)


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_withdrawn_leaves_no_trace(whole: str, wrong: str, right: str) -> None:
    start = after(TextStreamed(whole), TextCompleted(whole))
    failed = start.after(TextStreamed(wrong)).settled().after(TextWithdrawn())
    assert html(failed) == html(start)
    assert html(failed.after(TextStreamed(right))) == html(start) + render(right)


def test_a_text_that_ends_otherwise_than_it_streamed_is_taken_as_it_ends() -> None:
    assert html(after(TextStreamed("one"), TextCompleted("two"))) == "<p>two</p>\n"


BLOCKS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)


@given(BLOCKS, BLOCKS)
def test_a_draft_leads_from_what_was_shown_to_what_is_to_be_shown(
    before: list[str], now: list[str]
) -> None:
    frame = draft_frame(TurnId("t"), None, before, now, "tail")
    keep, blocks = frame["keep"], frame["blocks"]
    assert isinstance(keep, int)
    assert isinstance(blocks, list)
    assert [*before[:keep], *blocks] == now
    assert keep <= min(len(before), len(now))
    assert keep == len(before) or keep == len(now) or before[keep] != now[keep]

"""Prompts behind buttons: one click wins, and only for a week."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import inquiries, inquiry, unix_seconds

from ollim_bot.domain.button_prompts import ButtonPrompt, ButtonPrompts

WEEK = 7 * 86400.0
ASKED = ButtonPrompt("a1b2c3d4", "Show me the three mails", ts=1_770_000_000.0)


@given(inquiries, inquiry)
def test_a_stored_prompt_is_given_to_one_click_only(
    before: ButtonPrompts, asked: ButtonPrompt
) -> None:
    once, first = before.stored(asked).taken(asked.key, asked.ts)
    twice, second = once.taken(asked.key, asked.ts)
    assert (first, second) == (asked, None)
    assert twice == once


@given(
    st.lists(inquiry, max_size=5, unique_by=lambda each: each.key),
    st.lists(st.integers(0, 5), max_size=15),
)
def test_clicks_in_any_order_give_each_prompt_to_exactly_one(
    asked: list[ButtonPrompt], clicks: list[int]
) -> None:
    now = max((each.ts for each in asked), default=0.0)
    waiting = ButtonPrompts(tuple(asked))
    given_out: list[str] = []
    for key in [asked[number].key for number in clicks if number < len(asked)]:
        waiting, found = waiting.taken(key, now)
        given_out += [found.key] if found else []
    clicked = {asked[number] for number in clicks if number < len(asked)}
    assert sorted(given_out) == sorted(each.key for each in clicked if now - each.ts < WEEK)


@given(inquiries, st.text(max_size=8))
def test_a_click_takes_nothing_else_with_it(before: ButtonPrompts, key: str) -> None:
    now = max((each.ts for each in before.waiting), default=0.0)
    after, _ = before.taken(key, now)
    assert after.waiting == tuple(each for each in before.pruned(now).waiting if each.key != key)


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        pytest.param(0, ASKED, id="at-once"),
        pytest.param(WEEK - 1, ASKED, id="a-second-before-a-week"),
        pytest.param(WEEK, None, id="a-week"),
        pytest.param(99 * WEEK, None, id="years"),
        pytest.param(-WEEK, ASKED, id="clock-went-back"),
    ],
)
def test_a_prompt_is_given_for_a_week(age: float, expected: ButtonPrompt | None) -> None:
    after, found = ButtonPrompts((ASKED,)).taken(ASKED.key, ASKED.ts + age)
    assert found == expected
    assert after == ButtonPrompts()


@given(inquiries, unix_seconds)
def test_pruning_drops_what_has_expired_and_nothing_else(before: ButtonPrompts, now: float) -> None:
    live = tuple(each for each in before.waiting if now - each.ts < WEEK)
    assert before.pruned(now).waiting == live


@given(inquiries, inquiry)
def test_storing_prunes_and_keeps_the_newest_of_a_key(
    before: ButtonPrompts, asked: ButtonPrompt
) -> None:
    others = tuple(each for each in before.pruned(asked.ts).waiting if each.key != asked.key)
    assert before.stored(asked).waiting == (*others, asked)


def test_a_key_that_stands_twice_is_still_taken_once() -> None:
    once, found = ButtonPrompts((ASKED, replace(ASKED, prompt="Another"))).taken(
        ASKED.key, ASKED.ts
    )
    assert (once, found) == (ButtonPrompts(), ASKED)

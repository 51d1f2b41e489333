"""Cards, the prompts behind their buttons, and commands: limits, words, one click."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import inquiries, inquiry, unix_seconds

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.values.cards import Button, ButtonPrompt, ButtonPrompts, Card, CardField
from ollim_bot.kernel.values.commands import Argument, CommandSpec

CARD = Card("Mail")

FIELD = CardField("From", "Ann")


def buttons(number: int) -> tuple[Button, ...]:
    return tuple(Button("Yes", "agent", str(each)) for each in range(number))


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (Card("t" * 257), "The title takes 256 characters at most; this one has 257."),
        (
            Card("t", "d" * 4097),
            "The description takes 4096 characters at most; this one has 4097.",
        ),
        (
            Card("t", fields=(CardField("n" * 257, "v"),)),
            "The field name takes 256 characters at most; this one has 257.",
        ),
        (
            Card("t", fields=(CardField("n", "v" * 1025),)),
            "The field value takes 1024 characters at most; this one has 1025.",
        ),
        (
            Card("t", buttons=(Button("l" * 81, "dismiss"),)),
            "The label takes 80 characters at most; this one has 81.",
        ),
        (Card("t", fields=(FIELD,) * 26), "A card takes 25 fields at most; this one has 26."),
        (Card("t", buttons=buttons(6)), "A card takes 5 buttons at most; this one has 6."),
        (
            Card("t", "d" * 4000, fields=(CardField("n", "v" * 999),) * 2),
            "A card takes 6000 characters in all; this one has 6001. Say the rest as text.",
        ),
        (Card(" "), "A card needs a title."),
        (Card("t", fields=(CardField("n", " "),)), "A field needs a name and a value."),
        (Card("t", fields=(CardField("", "v"),)), "A field needs a name and a value."),
        (Card("t", buttons=(Button(" ", "dismiss"),)), "A button needs a label."),
        (
            Card("t", buttons=(Button("a", "dismiss"), Button("b", "dismiss"))),
            "Two buttons of a card cannot do the same.",
        ),
    ],
)
def test_each_limit_is_explained_in_a_sentence(card: Card, problem: str) -> None:
    assert card.problems() == [problem]


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        Card("t" * 256, "d" * 4096),
        Card("t", fields=(CardField("n" * 256, "v" * 1024),) * 4),
        Card("t", fields=(FIELD,) * 25, buttons=buttons(5)),
        Card("t", buttons=(Button("l" * 80, "dismiss"),)),
        Card("tt", "d" * 3998, fields=(CardField("n", "v" * 999),) * 2),
    ],
)
def test_a_card_may_be_as_large_as_its_limits(card: Card) -> None:
    assert card.problems() == []


@given(st.integers(0, 300), st.integers(0, 5000), st.integers(0, 30), st.integers(1, 1100))
def test_all_that_is_wrong_is_said_at_once(
    title: int, description: int, fields: int, value: int
) -> None:
    card = Card("t" * title, "d" * description, fields=(CardField("n", "v" * value),) * fields)
    wrong = [
        not title,
        title > 256,
        description > 4096,
        *[value > 1024] * fields,
        fields > 25,
        title + description + fields * (1 + value) > 6000,
    ]
    assert len(card.problems()) == sum(wrong)


def test_as_text_a_card_says_everything_but_its_buttons() -> None:
    card = CARD._replace(description="Three wait.", fields=(FIELD,), buttons=buttons(1))
    assert card.text == "Mail\nThree wait.\nFrom: Ann"
    assert CARD.text == "Mail"


@pytest.mark.parametrize(
    ("button", "custom_id"),
    [
        (Button("Yes", "agent", "0a1b2c3d"), "act:agent:0a1b2c3d"),
        (Button("Later", "dismiss"), "act:dismiss:"),
    ],
)
def test_a_click_carries_what_it_does(button: Button, custom_id: str) -> None:
    assert button.custom_id == custom_id


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


CLEAR = CommandSpec("clear", "forget")

MODEL = CommandSpec("model", "change", (Argument("name", "which", ("opus", "haiku")),))

RESUME = CommandSpec("resume", "go on", (Argument("id", "which", is_required=True),))

COMPACT = CommandSpec("compact", "shorten", (Argument("instructions", "what", takes_rest=True),))

CONFIG = CommandSpec(
    "config", "settings", (Argument("key", "which"), Argument("value", "what", takes_rest=True))
)

SAY = CommandSpec(
    "say",
    "words",
    (
        Argument("who", "name", is_required=True),
        Argument("what", "words", is_required=True, takes_rest=True),
    ),
)

argument_lists = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()).map(
    lambda shape: tuple(
        Argument(
            f"a{number}",
            "about",
            is_required=number < shape[1],
            takes_rest=shape[2] and number == shape[0] - 1,
        )
        for number in range(shape[0])
    )
)

specs = st.builds(CommandSpec, st.just("do"), st.just("about"), argument_lists)

lines = st.lists(st.sampled_from(["one", "two", " ", "  ", "\t", "\n", "\u00a0"])).map("".join)


@pytest.mark.parametrize(
    ("spec", "line", "expected"),
    [
        (CLEAR, "", {}),
        (CLEAR, "  \n", {}),
        (MODEL, "", {}),
        (MODEL, "sonnet", {"name": "sonnet"}),
        (MODEL, "  sonnet  ", {"name": "sonnet"}),
        (RESUME, "5b1e0c77", {"id": "5b1e0c77"}),
        (COMPACT, "", {}),
        (COMPACT, "keep  the\nplans ", {"instructions": "keep  the\nplans"}),
        (CONFIG, "bg_concurrency", {"key": "bg_concurrency"}),
        (CONFIG, "bg_concurrency   3", {"key": "bg_concurrency", "value": "3"}),
        (CONFIG, "key\ta  b", {"key": "key", "value": "a  b"}),
        (CONFIG, "key\u00a0value", {"key": "key", "value": "value"}),
        (SAY, "Ada good morning", {"who": "Ada", "what": "good morning"}),
    ],
)
def test_a_right_line_is_read(spec: CommandSpec, line: str, expected: dict[str, str]) -> None:
    assert spec.read(line) == expected


@pytest.mark.parametrize(
    ("spec", "line", "sentence"),
    [
        (CLEAR, "all", "`/clear` takes no words after it."),
        (MODEL, "opus now", "`/model` takes fewer words: write `/model [name]`."),
        (RESUME, " ", "`/resume` needs more: write `/resume <id>`."),
        (SAY, "Ada", "`/say` needs more: write `/say <who> <what>`."),
    ],
)
def test_a_wrong_line_is_answered_with_what_is_right(
    spec: CommandSpec, line: str, sentence: str
) -> None:
    with pytest.raises(WrongInput) as wrong:
        spec.read(line)
    assert str(wrong.value) == sentence


@given(specs, lines)
def test_every_word_goes_somewhere_in_order_or_the_line_is_refused(
    spec: CommandSpec, line: str
) -> None:
    names = [argument.name for argument in spec.arguments]
    required = {argument.name for argument in spec.arguments if argument.is_required}
    takes_rest = any(argument.takes_rest for argument in spec.arguments)
    count = len(line.split())
    fits = len(required) <= count and (takes_rest or count <= len(names))
    if not fits:
        with pytest.raises(WrongInput):
            spec.read(line)
        return
    found = spec.read(line)
    assert list(found) == names[: len(found)]
    assert required <= set(found)
    assert " ".join(found.values()).split() == line.split()

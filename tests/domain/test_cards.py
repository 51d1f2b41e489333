"""Cards: what they say as text, and the limits that every surface keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.cards import Button, Card, CardField

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

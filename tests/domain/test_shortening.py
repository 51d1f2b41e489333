"""A text is cut only where it has to be, and shows that it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.text import shortened


@given(st.text(), st.integers(1, 40))
def test_a_text_is_left_as_it_is_or_ends_with_a_mark_within_its_room(
    text: str, longest: int
) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    if len(text) <= longest:
        assert short == text
    else:
        assert short.endswith("…")
        assert text.startswith(short[:-1])


def test_no_space_stands_before_the_mark() -> None:
    assert shortened("call the dentist", 10) == "call the…"

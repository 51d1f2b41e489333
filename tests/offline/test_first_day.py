"""What a person types on the first day is done as it was meant, or asked about."""

from __future__ import annotations

import pytest
from tests.offline.first_day import DIALOGUES, PHRASES
from tests.offline.first_day_runner import Turn, result_of


@pytest.mark.parametrize(("text", "wanted"), PHRASES.items())
async def test_a_phrase_does_what_it_means_or_is_asked_about(
    text: str, wanted: tuple[str, ...]
) -> None:
    result = await result_of(text, (), [(text, wanted)])
    assert result.verdict != "wrong", result.found


@pytest.mark.parametrize(("name", "cards", "turns"), DIALOGUES)
async def test_an_answer_goes_to_what_was_asked(
    name: str, cards: tuple[str, ...], turns: tuple[Turn, ...]
) -> None:
    result = await result_of(name, cards, turns)
    assert result.verdict != "wrong", result.found

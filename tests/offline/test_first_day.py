"""What a person types on the first day is done as it was meant, or asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.offline.first_day_runner import Turn, result_of
from tests.phrase_files import Row, alternatives, read

HERE = Path(__file__).parent
PHRASES = [(text, alternatives(wanted)) for text, wanted in read(HERE / "first_day.txt")["phrases"]]
DIALOGUES = read(HERE / "first_day_dialogues.txt").items()


def turn(said: str, wanted: str = "") -> Turn:
    return said, alternatives(wanted)


@pytest.mark.parametrize(("text", "wanted"), PHRASES)
async def test_a_phrase_does_what_it_means_or_is_asked_about(text: str, wanted: Row) -> None:
    result = await result_of(text, (), [(text, wanted)])
    assert result.verdict != "wrong", result.found


@pytest.mark.parametrize(("name", "rows"), DIALOGUES)
async def test_an_answer_goes_to_what_was_asked(name: str, rows: list[Row]) -> None:
    opened = [row[0].removeprefix("open: ") for row in rows if row[0].startswith("open: ")]
    result = await result_of(name, opened, [turn(*row) for row in rows[len(opened) :]])
    assert result.verdict != "wrong", result.found

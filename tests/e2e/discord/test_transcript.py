"""The page that shows a day on Discord is true."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.discord.a_day import PAGE, lived


async def test_the_page_shows_what_is_said_on_such_a_day(tmp_path: Path) -> None:
    """`python -m tests.e2e.discord.a_day` writes it anew, to be read before it is believed."""
    assert await lived(tmp_path) == PAGE.read_text()

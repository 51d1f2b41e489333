"""The page that shows a week with the bot is true."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.discord.a_week import PAGE, lived


async def test_the_page_shows_what_is_said_in_such_a_week(tmp_path: Path) -> None:
    """`python -m tests.e2e.discord.a_week` writes it anew, to be read before it is believed."""
    assert await lived(tmp_path) == PAGE.read_text()

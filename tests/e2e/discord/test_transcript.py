"""`docs/a-week.md` shows what the bot really says."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.discord.week_story import PAGE, play_week


async def test_the_page_shows_what_is_said_in_such_a_week(tmp_path: Path) -> None:
    """`python -m tests.e2e.discord.week_story` writes the page anew; read it before a commit."""
    assert await play_week(tmp_path) == PAGE.read_text()

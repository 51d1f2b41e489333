"""`ollim-bot` without arguments reports wrong settings before it creates anything."""

from __future__ import annotations

from tests.cli.terminal import Terminal


def test_all_wrong_settings_are_told_at_once_and_nothing_is_made(terminal: Terminal) -> None:
    terminal.environ |= {"DISCORD_OWNER_ID": "me", "OLLIM_WEB_PORT": "web", "OLLIM_LOG": "loud"}
    lines = terminal.refused().splitlines()
    assert len(lines) == 3
    assert all("Right: " in line for line in lines)
    assert list(terminal.home.iterdir()) == []

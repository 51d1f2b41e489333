"""`ollim-bot` alone: everything that a start needs is checked and made, and the truth is told."""

from __future__ import annotations

from tests.cli.terminal import Terminal, held


def test_a_start_makes_the_data_directory_and_says_what_works(terminal: Terminal) -> None:
    assert terminal.done() == (
        "The data directory is ready: ~/.ollim-bot\n"
        "Conversation and scheduling are not part of this version yet: nothing runs by itself.\n"
        "What works today: `ollim-bot routine`, `ollim-bot reminder`, `ollim-bot config`.\n"
        "`ollim-bot help` explains them.\n"
    )
    assert terminal.paths.identity.exists()
    assert not terminal.paths.bot_pid.exists()


def test_a_start_commits_what_was_changed_by_hand(terminal: Terminal) -> None:
    terminal.done()
    terminal.write("USER.md", "I am Ada.\n")
    terminal.done()
    assert terminal.git("log", "--format=%s", "--max-count=1") == ["by hand: USER.md"]


def test_all_wrong_settings_are_told_at_once_and_nothing_is_made(terminal: Terminal) -> None:
    terminal.environ |= {"DISCORD_OWNER_ID": "me", "OLLIM_WEB_PORT": "web", "OLLIM_LOG": "loud"}
    lines = terminal.refused().splitlines()
    assert len(lines) == 3
    assert all("Right: " in line for line in lines)
    assert list(terminal.home.iterdir()) == []


def test_what_may_be_a_mistake_in_the_settings_is_noted(terminal: Terminal) -> None:
    terminal.environ["OLLIM_WEB_PROT"] = "80"
    code, _, err = terminal.run()
    assert code == 0
    assert err.startswith("note: environment: OLLIM_WEB_PROT: there is no such setting.")


def test_a_second_start_is_told_which_process_runs(terminal: Terminal) -> None:
    terminal.done()
    with held("bot", terminal.paths.bot_pid) as bot:
        refusal = terminal.refused(code=1)
    assert refusal == f"ollim-bot is already running (process {bot.pid}). Stop it first.\n"

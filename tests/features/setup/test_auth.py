"""The login at Claude, except for the part in the browser."""

from __future__ import annotations

import json

import pytest
from tests.terminal import Terminal

pytestmark = pytest.mark.real_engine

NOT_SIGNED_IN = "Not signed in. Run `ollim-bot auth login`.\n"


def test_whoever_is_not_signed_in_is_told_how_and_so_are_programs(terminal: Terminal) -> None:
    code, out, err = terminal.run("auth", "status", "--json")
    assert (code, err) == (3, NOT_SIGNED_IN)
    nobody = {"signed_in": False, "method": "none", "account": None, "plan": None}
    assert json.loads(out) == nobody
    assert not terminal.paths.root.exists()


def test_a_key_counts_wherever_it_is_set(terminal: Terminal) -> None:
    (terminal.home / ".env").write_text("ANTHROPIC_API_KEY=any\n")
    sentence = "Signed in to Claude with the API key in ANTHROPIC_API_KEY."
    assert terminal.done("auth", "status") == f"{sentence}\n"
    assert terminal.json("auth", "status")["method"] == "api_key"


def test_signing_out_says_what_is_still_set_by_hand(
    terminal: Terminal, capfd: pytest.CaptureFixture[str]
) -> None:
    assert terminal.run("auth", "logout") == (0, "", "")
    assert capfd.readouterr().err == ""
    terminal.environ["ANTHROPIC_API_KEY"] = "any"
    assert terminal.done("auth", "logout").splitlines()[-1] == (
        "Signed in to Claude with the API key in ANTHROPIC_API_KEY. "
        "Take that out of the environment and `.env`, too."
    )


def test_wrong_settings_are_told_before_the_program_is_asked(terminal: Terminal) -> None:
    terminal.environ["ANTHROPIC_BASE_URL"] = "somewhere"
    assert "ANTHROPIC_BASE_URL" in terminal.refused("auth", "status")

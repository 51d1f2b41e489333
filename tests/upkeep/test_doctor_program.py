"""What the doctor says of the program that asks the model, and of the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.upkeep.doctor_table import NOTHING, look, told

from ollim_bot.domain.provider import NO_LOGIN, OFFLINE, Provider, choose_provider
from ollim_bot.engine.launcher import cli_path
from ollim_bot.upkeep.checks.machine import claude_program
from ollim_bot.upkeep.doctor import DoctorFinding, Level


def model(provider: Provider) -> list[DoctorFinding]:
    return look(replace(NOTHING, provider=provider), "model")


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "claude"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


@pytest.mark.real_engine
def test_the_bundled_program_says_its_version(tmp_path: Path) -> None:
    finding = claude_program(cli_path(), {"HOME": str(tmp_path)})
    assert finding.level is Level.PASS
    assert finding.detail.endswith("(Claude Code)")


def test_a_missing_program_is_a_failure() -> None:
    finding = claude_program(None, {})
    (finding,) = told("Claude program", [finding])
    again = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."
    assert finding == DoctorFinding(Level.FAIL, "Claude program", "it is missing", again)


@pytest.mark.real_engine
@pytest.mark.parametrize("text", ["exit 3", "kill -9 $$"])
def test_a_program_that_does_not_work_is_a_failure(tmp_path: Path, text: str) -> None:
    cli = script(tmp_path, text)
    finding = claude_program(cli, {})
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        f"{cli} cannot be run: it gave no answer",
    )


@pytest.mark.real_engine
def test_a_program_that_is_none_is_a_failure(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_bytes(b"\0\1\2")
    finding = claude_program(cli, {})
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        f"{cli} cannot be run: Permission denied",
    )


def test_the_model_is_told_in_words() -> None:
    (offline,) = model(OFFLINE)
    assert offline.level is Level.PASS
    assert offline.detail.startswith("offline model")
    key = choose_provider(
        {"ANTHROPIC_API_KEY": "x"}, wants_offline=False, is_logged_in=False, last_used=None
    )
    assert model(key) == [DoctorFinding(Level.PASS, "model", "Claude (API key)")]


def test_a_lost_login_is_a_failure_with_the_way_back() -> None:
    (finding,) = model(NO_LOGIN)
    assert (finding.level, finding.detail) == (Level.FAIL, "Claude (not signed in)")
    assert "`ollim-bot auth login`" in finding.next

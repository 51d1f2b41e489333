"""The login of the engine's program: read within limits, and changed in the terminal."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.engine.launcher import log_in, log_out, login_mark, login_status
from ollim_bot.kernel.values.provider import NOT_SIGNED_IN, LoginStatus

pytestmark = pytest.mark.real_engine


class RecordingProgram:
    """A fake engine program that records how it was called."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "claude"
        self.notes = folder / "notes"

    def does(self, script: str) -> Path:
        noting = f'echo "$@ $HOME $DISABLE_AUTOUPDATER" >> {self.notes}'
        self.path.write_text(f"#!/bin/sh\n{noting}\n{script}\n")
        self.path.chmod(0o700)
        return self.path

    def answers(self, **answer: object) -> Path:
        return self.does(f"echo '{json.dumps(answer)}'; exit 1")


@pytest.fixture
def program(tmp_path: Path) -> RecordingProgram:
    return RecordingProgram(tmp_path)


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], **more}


async def test_whoever_never_signed_in_is_not_signed_in_whatever_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude's program would read settings of the current folder, and run commands in them."""
    settings = tmp_path / "start" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    helper = {"apiKeyHelper": f"touch {tmp_path}/ran; echo key"}
    settings.write_text(json.dumps({**helper, "env": {"ANTHROPIC_API_KEY": "any"}}))
    monkeypatch.chdir(settings.parent.parent)
    status = await login_status(environment(tmp_path))
    assert status == LoginStatus(is_logged_in=False)
    assert status.sentence == NOT_SIGNED_IN
    assert not (tmp_path / "ran").exists()


async def test_a_key_is_a_login(tmp_path: Path) -> None:
    status = await login_status(environment(tmp_path, ANTHROPIC_API_KEY="any"))
    assert status.is_logged_in
    assert status.sentence == "Signed in to Claude with the API key in ANTHROPIC_API_KEY."


async def test_an_account_is_a_login(tmp_path: Path) -> None:
    oauth = {
        "accessToken": "x",
        "refreshToken": "y",
        "expiresAt": 4102444800000,
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    config = tmp_path / "claude"
    config.mkdir()
    (config / ".credentials.json").write_text(json.dumps({"claudeAiOauth": oauth}))
    status = await login_status(environment(tmp_path, CLAUDE_CONFIG_DIR=str(config)))
    assert status == LoginStatus(is_logged_in=True, method="claude.ai", plan="max")


@pytest.mark.parametrize(
    ("answer", "way"),
    [
        pytest.param({"authMethod": "claude.ai"}, "a Claude account", id="account"),
        pytest.param(
            {"authMethod": "claude.ai", "email": "ada@example.org", "subscriptionType": "max"},
            "the account ada@example.org (max)",
            id="named account",
        ),
        pytest.param(
            {
                "authMethod": "api_key",
                "apiKeySource": "/login managed key",
                "email": "ada@example.org",
            },
            "the account ada@example.org",
            id="account that is billed by use",
        ),
        pytest.param(
            {"authMethod": "api_key", "apiKeySource": "apiKeyHelper"}, "an API key", id="key"
        ),
        pytest.param({"authMethod": "oauth_token"}, "a token", id="token"),
        pytest.param({"authMethod": "bedrock"}, "bedrock", id="anything else"),
    ],
)
async def test_the_way_of_the_login_is_said_in_a_sentence(
    program: RecordingProgram, answer: dict[str, str], way: str
) -> None:
    status = await login_status({}, cli=program.answers(loggedIn=True, **answer))
    assert status.sentence == f"Signed in to Claude with {way}."


async def test_a_renewed_login_has_another_mark(program: RecordingProgram, tmp_path: Path) -> None:
    around = environment(tmp_path)
    out = program.answers(loggedIn=False)
    assert await login_mark(around, cli=out) == ""
    signed_in = program.answers(loggedIn=True, authMethod="claude.ai")
    first = await login_mark(around, cli=signed_in)
    assert first == await login_mark(around, cli=signed_in) != ""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert await login_mark(around, cli=signed_in) not in ("", first)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 1", id="silent"),
        pytest.param("echo Segmentation fault", id="no answer"),
        pytest.param("echo '[]'", id="odd answer"),
        pytest.param("echo '{}'", id="empty answer"),
    ],
)
async def test_a_program_that_cannot_tell_is_told_in_a_sentence(
    program: RecordingProgram, script: str
) -> None:
    with pytest.raises(EngineError, match="did not say whether you are signed in"):
        await login_status({}, cli=program.does(script))


async def test_a_program_that_hangs_is_not_waited_for(program: RecordingProgram) -> None:
    hanging = program.does(f"echo $$ > {program.path.parent}/pid; exec sleep 60")
    async with asyncio.timeout(60):
        with pytest.raises(EngineError, match="did not say"):
            await login_status({"PATH": os.environ["PATH"]}, cli=hanging, limit=0.5)
    pid = int((program.path.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_missing_program_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="program is missing"):
        await login_status({}, cli=tmp_path / "claude")
    with pytest.raises(EngineError, match="program is missing"):
        log_in({}, cli=tmp_path / "claude")


def test_the_terminal_is_left_to_the_program(
    program: RecordingProgram, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = {"HOME": str(tmp_path)}
    assert log_in(home, cli=program.does("echo Visit this address"))
    assert capfd.readouterr().out == "Visit this address\n"
    assert not log_in(home, cli=program.does("exit 1"))
    assert log_out(home, cli=program.does("exit 0"))
    calls = program.notes.read_text().splitlines()
    assert calls == [f"auth {verb} {tmp_path} 1" for verb in ("login", "login", "logout")]

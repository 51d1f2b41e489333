"""The owner's login at Claude."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ollim_bot.domain.provider import LoginStatus
from ollim_bot.engine.launcher import PROGRAM_MISSING, VARIABLES, cli_path
from ollim_bot.engine.transcripts import config_folder, time_of_change
from ollim_bot.environment import child_environment
from ollim_bot.errors import EngineError

_SILENT = "The Claude program did not say whether you are signed in. Install ollim-bot again."

# The program reads settings and hooks from the current folder, which others may have written.
_NOWHERE = "/"
_LONGEST_WAIT = 30.0
_CREDENTIALS = ".credentials.json"
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}

_logger = logging.getLogger(__name__)


async def login_status(
    environment: Mapping[str, str], *, cli: Path | None = None, limit: float = _LONGEST_WAIT
) -> LoginStatus:
    """Ask the program, with its own variables of `environment`.

    Raises `EngineError` if it cannot tell.
    """
    answer = await _answer(cli or _program(), environment, limit)
    try:
        said = json.loads(answer)
        if not said["loggedIn"]:
            return LoginStatus(is_logged_in=False)
        return LoginStatus(
            is_logged_in=True,
            method=str(said["authMethod"]),
            account=said.get("email"),
            plan=said.get("subscriptionType"),
            key_source=said.get("apiKeySource"),
        )
    except (ValueError, KeyError, TypeError) as unknown:
        _logger.warning("The Claude program answered about the login: %r", answer[:200])
        raise EngineError(_SILENT) from unknown


async def login_mark(environment: Mapping[str, str], *, cli: Path | None = None) -> str:
    """Names the login, with another text after each renewal; empty if there is none."""
    status = await login_status(environment, cli=cli)
    if not status.is_logged_in:
        return ""
    # Some systems keep the login elsewhere.
    renewed = await asyncio.to_thread(time_of_change, config_folder(environment) / _CREDENTIALS)
    return f"{status.sentence} {renewed}"


def log_in(environment: Mapping[str, str], *, cli: Path | None = None) -> bool:
    """Give the terminal to the program until the login has succeeded or failed."""
    return _in_terminal(cli or _program(), "login", environment)


def log_out(environment: Mapping[str, str], *, cli: Path | None = None) -> bool:
    return _in_terminal(cli or _program(), "logout", environment)


def _in_terminal(cli: Path, verb: str, environment: Mapping[str, str]) -> bool:
    try:
        ended = subprocess.run(
            [cli, "auth", verb],
            cwd=_NOWHERE,
            env={**child_environment(environment, *VARIABLES), **_QUIET},
            check=False,
        )
    except OSError as refused:
        raise EngineError(PROGRAM_MISSING) from refused
    return ended.returncode == 0


def _program() -> Path:
    cli = cli_path()
    if cli is None:
        raise EngineError(PROGRAM_MISSING)
    return cli


async def _answer(cli: Path, environment: Mapping[str, str], limit: float) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            cli,
            *("auth", "status", "--json"),
            cwd=_NOWHERE,
            env={**child_environment(environment, *VARIABLES), **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as refused:
        raise EngineError(PROGRAM_MISSING) from refused
    try:
        async with asyncio.timeout(limit):
            answer, _ = await process.communicate()
    except TimeoutError as late:
        raise EngineError(_SILENT) from late
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return answer

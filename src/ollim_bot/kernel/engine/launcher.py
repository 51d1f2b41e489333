"""Starts the engine's program so that it dies with the bot, its environment, and its login."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ollim_bot.kernel.base.environment import (
    SESSION,
    child_environment,
    program_path,
    python_places,
    search_path,
)
from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.engine import die_with_parent
from ollim_bot.kernel.engine.transcripts import config_folder, time_of_change
from ollim_bot.kernel.values.provider import LoginStatus

PROGRAM_MISSING = "The Claude program is missing. Install ollim-bot again."

# Of the environment, what the Claude program and its runtime read.
VARIABLES = ("ANTHROPIC_*", "CLAUDE_*", "BUN_*", "NODE_EXTRA_CA_CERTS", "BROWSER", *SESSION)

_ENGINE_VARIABLES = {
    # A provider that does not answer is noticed within a minute and abandoned within three.
    "API_TIMEOUT_MS": "50000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "25000",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # Otherwise the model may have to search for our tools, which costs a request.
    "ENABLE_TOOL_SEARCH": "false",
    # A turn ends when the engine reports that it is idle.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    # A prompt is recorded before it is sent to the model, so that a record without it is proof.
    "CLAUDE_CODE_EAGER_FLUSH": "1",
    # Tasks and memories of the engine itself would be lost with its process.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_WORKFLOWS": "1",
    # Files named in these notes and mentions would be read without a hook.
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    # Only the subagents of the session: none of the engine, no copy of the agent, none below one.
    "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS": "1",
    "CLAUDE_CODE_FORK_SUBAGENT": "0",
    "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}

_NO_PROXY = ("NO_PROXY", "no_proxy")
_THIS_MACHINE = ("127.0.0.1", "localhost")

# Settings of the commands that the agent calls; none is a secret.
_OF_OUR_COMMANDS = (
    *("OLLIM_DATA_DIR", "OLLIM_TIMEZONE", "OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_MODEL"),
    *("OLLIM_LOG", "OLLIM_LOG_FORMAT", "OLLIM_WEB_PORT", "OLLIM_WEB_HOSTS"),
    *("GOOGLE_API_URL", "GOOGLE_TOKEN_URL", "GOOGLE_AUTH_URL"),
)

_NAME = "claude-launcher"

_logger = logging.getLogger(__name__)


def cli_path() -> Path | None:
    """The program that is part of the SDK, else the installed one."""
    # Importing the SDK takes longer than most requests to its program.
    sdk = find_spec("claude_agent_sdk")
    for folder in (sdk and sdk.submodule_search_locations) or ():
        bundled = Path(folder) / "_bundled" / "claude"
        if bundled.is_file():
            return bundled
    installed = program_path("claude", os.environ.get("PATH", os.defpath))
    return Path(installed) if installed else None


def launcher(folder: Path) -> Path | None:
    """Write the launcher into `folder`; returns its path, or None to let the SDK start the program.

    Only Linux can tie a process to its parent. On other systems, an engine whose bot was killed in
    the middle of a turn runs on for some seconds, until it finds its pipe closed.
    """
    cli = cli_path()
    if sys.platform != "linux" or cli is None:
        return None
    path = folder / _NAME
    start = [sys.executable, "-I", "-S", die_with_parent.__file__]
    is_there = _write_launcher(path, [*start, die_with_parent.WITHOUT_EMPTY, str(cli)])
    if not is_there or not os.access(path, os.X_OK):
        _logger.warning("%s cannot be run there: after a crash the engine may live on", path)
        return None
    return path


def _write_launcher(path: Path, command: list[str]) -> bool:
    """Write it unless it is there; False if it could not be written and none is in place."""
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    with suppress(OSError):
        if read_file(path, SizeLimit.NOTE) == text.encode():
            return True
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text)
        draft.chmod(0o700)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        return False
    return True


def engine_variables(
    given: Mapping[str, str], inherited: Mapping[str, str], commands: Path
) -> dict[str, str]:
    """The environment of the engine and of the programs that the agent runs.

    `commands` is the folder where the agent finds `ollim-bot`; `given` has the variables of the
    provider and of `ollim-bot`. No value refers to the current folder.
    """
    path = ":".join(filter(None, [str(commands), search_path(inherited.get("PATH", ""))]))
    # The variables that exclude this machine, with the built-in model, from the proxy.
    named = ",".join(inherited.get(name, "") for name in _NO_PROXY)
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    # A lone star means all hosts; in a list, it would mean none.
    all_hosts = hosts if "*" in hosts else [*hosts, *_THIS_MACHINE]
    return {
        **child_environment(inherited, *VARIABLES, *_OF_OUR_COMMANDS),
        **_ENGINE_VARIABLES,
        **dict.fromkeys(_NO_PROXY, ",".join(dict.fromkeys(all_hosts))),
        **python_places(inherited, os.getcwd()),
        "PATH": path,
        **given,
    }


_SILENT = "The Claude program did not say whether you are signed in. Install ollim-bot again."

# The program reads settings and hooks from the current folder, which others may have written.
_NOWHERE = "/"
_LONGEST_WAIT = 30.0
_CREDENTIALS = ".credentials.json"
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


async def login_status(
    environment: Mapping[str, str], *, cli: Path | None = None, limit: float = _LONGEST_WAIT
) -> LoginStatus:
    """Ask the program, with its own variables of `environment`.

    Raises `EngineError` if it cannot tell.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            cli or _program(),
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

"""Starts the engine's program so that it dies with the bot, also when the bot is killed."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ollim_bot.engine import die_with_parent
from ollim_bot.environment import SESSION, program_path
from ollim_bot.plain_files import SizeLimit, read_file

PROGRAM_MISSING = "The Claude program is missing. Install ollim-bot again."

# Of the environment, what the Claude program and its runtime read.
VARIABLES = ("ANTHROPIC_*", "CLAUDE_*", "BUN_*", "NODE_EXTRA_CA_CERTS", "BROWSER", *SESSION)

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

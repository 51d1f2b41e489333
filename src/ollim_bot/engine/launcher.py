"""Starts the engine's program so that it dies with the bot, however the bot dies."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ollim_bot.engine import die_with_parent
from ollim_bot.environment import program_path
from ollim_bot.plain_files import Largest, read_file

PROGRAM_MISSING = "The Claude program is missing. Install ollim-bot again."

_NAME = "claude-launcher"

_logger = logging.getLogger(__name__)


def cli_path() -> Path | None:
    """The program that comes with the SDK, else the one that is installed."""
    # To import the SDK takes longer than most of what its program is asked to do.
    sdk = find_spec("claude_agent_sdk")
    for folder in (sdk and sdk.submodule_search_locations) or ():
        bundled = Path(folder) / "_bundled" / "claude"
        if bundled.is_file():
            return bundled
    installed = program_path("claude", os.environ.get("PATH", os.defpath))
    return Path(installed) if installed else None


def launcher(folder: Path) -> Path | None:
    """Write the launcher into `folder` and give its path; None leaves the SDK to its own ways.

    Only Linux can tie a process to its parent. Elsewhere an engine whose bot was killed in the
    middle of a turn goes on for some seconds, until it finds nobody at the other end.
    """
    cli = cli_path()
    if sys.platform != "linux" or cli is None:
        return None
    path = folder / _NAME
    is_there = _is_written(path, [sys.executable, "-I", "-S", die_with_parent.__file__, str(cli)])
    if not is_there or not os.access(path, os.X_OK):
        _logger.warning("%s cannot be run there: after a crash the engine may live on", path)
        return None
    return path


def _is_written(path: Path, command: list[str]) -> bool:
    """Whether it says so now; a full disk need not keep the one from the last start from use."""
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    with suppress(OSError):
        if read_file(path, Largest.NOTE) == text.encode():
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

"""Whether there is a program that asks the model, and which model that is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ollim_bot.domain.provider import Provider
from ollim_bot.upkeep.findings import Finding, failed, passed

PROGRAM = "Claude program"
MODEL = "model"
_INSTALL = "Install ollim-bot again."
_OFFLINE = "offline model, which is built in; `ollim-bot auth login` or an API key replaces it"
_LONGEST_WAIT = 15.0

Version = Callable[[Path], str]


def claude_program(cli: Path | None, version: Version) -> Iterator[Finding]:
    if cli is None:
        yield failed(PROGRAM, "it is missing", _INSTALL)
        return
    try:
        yield passed(PROGRAM, version(cli))
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or "it gave no answer"
        yield failed(PROGRAM, f"{cli} cannot be run: {reason}", _INSTALL)


def version_in(environment: Mapping[str, str]) -> Version:
    def version(cli: Path) -> str:
        """Raises `OSError` or `SubprocessError` if it does not say."""
        ran = subprocess.run(
            (cli, "--version"),
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_WAIT,
            check=True,
        )
        return ran.stdout.decode("utf-8", "replace").strip()

    return version


def model(provider: Provider) -> Iterator[Finding]:
    if provider.problem:
        yield failed(MODEL, provider.name, provider.problem)
    else:
        yield passed(MODEL, _OFFLINE if provider.is_offline else provider.name)

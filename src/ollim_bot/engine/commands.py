"""The programs that the agent's commands may name, and the commands that are run in its place."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.domain.agent_caller import shell_words
from ollim_bot.ports import Refusal

MOST_COMMANDS = 20
_LONGEST_RUN = 10.0
_LONGEST_OUTPUT = 2000
# A character takes at most four bytes.
_KEPT_BYTES = 4 * _LONGEST_OUTPUT + 4


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs on the `PATH` of `environment`, seen from `folder`."""

    environment: Mapping[str, str]
    folder: Path

    def words(self, command: str) -> Sequence[str] | Refusal:
        """The words of the command, of which the first is the path of a program.

        The gate reads plain words. A shell would look for aliases, functions and file names in
        them; quoted, and begun with the path of a program, they reach that program unchanged.
        """
        words = shell_words(command)
        if not words:
            return Refusal("This is not one plain command, so it was not run.")
        name = words[0]
        if "/" in name:
            name = os.path.join(self.folder, name)
        program = shutil.which(name, path=self.environment.get("PATH", os.defpath))
        if program is None:
            return Refusal(f"There is no program `{words[0]}` here, so nothing was run.")
        return (program, *words[1:])

    async def run(self, words: Sequence[str]) -> str:
        """The output of the program, cut, with a note in brackets if it failed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=self.folder,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as refused:
            return f"[could not be run: {refused}]"
        output = bytearray()
        try:
            async with asyncio.timeout(_LONGEST_RUN):
                # All output is read: an unread pipe would stop the program.
                assert process.stdout is not None
                while part := await process.stdout.read(65536):
                    output += part[: max(0, _KEPT_BYTES - len(output))]
                code = await process.wait()
        except TimeoutError:
            return f"{_shown(output)}[stopped after {_LONGEST_RUN:.0f} seconds]"
        finally:
            # Also what the program has started and left running.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return _shown(output) + (f"[failed with exit code {code}]" if code else "")


def _shown(output: bytearray) -> str:
    text = output.decode("utf-8", "replace").strip()
    if len(text) > _LONGEST_OUTPUT:
        text = f"{text[:_LONGEST_OUTPUT]}\n[cut after {_LONGEST_OUTPUT} characters]"
    return f"{text}\n" if text else ""

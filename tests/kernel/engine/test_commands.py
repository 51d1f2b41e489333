"""The commands of a skill, which the program runs for the agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ollim_bot.kernel.engine.bridge import Programs
from ollim_bot.kernel.values.ports import Refusal

pytestmark = pytest.mark.real_process

SHELL = "/bin/sh"


def programs(folder: Path, **more: str) -> Programs:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    environment: Mapping[str, str] = {"PATH": path, **more}
    return Programs(environment, folder)


async def test_a_command_gives_its_output_from_the_folder_with_its_variables(
    tmp_path: Path,
) -> None:
    run = programs(tmp_path, WORD="yes").run
    assert await run((SHELL, "-c", 'echo $WORD; pwd; echo "to stderr" >&2')) == (
        f"yes\n{tmp_path}\nto stderr\n"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo half; exit 3", "half\n[failed with exit code 3]"),
        ("true", ""),
        ("cat", ""),
        ("head -c 9000 /dev/zero | tr '\\0' x", f"{'x' * 2000}\n[cut after 2000 characters]\n"),
    ],
)
async def test_failures_and_long_outputs_are_marked_in_brackets(
    tmp_path: Path, script: str, said: str
) -> None:
    assert await programs(tmp_path).run((SHELL, "-c", f"{script} 2>&1")) == said


async def test_a_program_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    said = await programs(tmp_path).run((str(tmp_path / "gone"),))
    assert said.startswith("[could not be run: ")


@pytest.mark.parametrize("command", ["a; b", "$(x)", "", "no-such-program x", "'"])
def test_only_one_plain_command_of_a_known_program_is_run(tmp_path: Path, command: str) -> None:
    assert isinstance(programs(tmp_path).words(command), Refusal)

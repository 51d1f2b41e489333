"""What the agent's programs leave in the background stays below the bot, and ends with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.real_process,
    pytest.mark.skipif(sys.platform != "linux", reason="Only Linux lets a process adopt."),
]

_PROGRAM = """
import asyncio, os, signal, subprocess, time
from ollim_bot.kernel.base.orphans import Orphans, passing_on
from ollim_bot.kernel.base.processes import parent_of

def background(command):
    "A program whose own parent has ended when this returns."
    line = f"setsid {command} >/dev/null 2>&1 & echo $!"
    shell = ["sh", "-c", line]
    ran = subprocess.run(shell, capture_output=True, text=True, check=True, pass_fds=[9])
    return int(ran.stdout)

def until(condition):
    latest = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < latest
        time.sleep(0.01)

async def own_code():
    "The code of a program of the bot, which ends while orphans are cleared away."
    own = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
    for _ in range(20):
        orphans.clear()
        await asyncio.sleep(0.001)
    return await own.wait()

def state(pid):
    "As the system calls it; empty if it is gone."
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        return ""

orphans = Orphans()
orphans.adopt()
# It ends after its parent, which would else clear it away.
reads, writes = os.pipe()
os.dup2(reads, 9)
stays, ended = background("sleep 600"), background("cat <&9")
os.close(writes)
with passing_on():
    outlives = background("sleep 600")
until(lambda: state(ended) == "Z")
print("adopted", parent_of(stays) == os.getpid(), parent_of(outlives) == os.getpid())
orphans.clear()
print("seen once", state(ended))
orphans.clear()
print("seen twice", state(ended))
print("own", asyncio.run(own_code()))
orphans.end()
print("end", state(stays) in ("", "Z"), state(outlives) != "")
os.kill(outlives, signal.SIGKILL)
"""


def test_a_program_in_the_background_is_adopted_cleared_away_and_ended_at_the_end() -> None:
    """The bot's own programs are waited for by what started them, and keep their codes."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [
        "adopted True False",
        "seen once Z",
        "seen twice ",
        "own 7",
        "end True True",
    ], ran.stderr

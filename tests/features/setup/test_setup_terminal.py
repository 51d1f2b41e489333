"""Set-up in a real terminal: nothing secret is shown, and Ctrl-C ends it with 130."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.features.setup.setup_scene import SetupScene
from tests.patience import patience
from tests.surfaces.terminal.test_terminal import assert_no_word_is_broken
from tests.terminal import PROGRAM

pytestmark = pytest.mark.terminal

TOKEN = "MTIzNDU2.abcdef.a-token-of-ours"
# Ctrl-C reaches only a program whose controlling terminal it is typed into.
_IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class SetupTerminal:
    """The installed program in a terminal of 60 columns."""

    def __init__(self, scene: SetupScene, *words: str) -> None:
        # A fake `systemctl`, so that the real supervisor is never called.
        systemctl = scene.home / "stand-in" / "systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text("#!/bin/sh\nexit 1\n")
        systemctl.chmod(0o700)
        path = f"{systemctl.parent}:{scene.environ['PATH']}"
        self._own, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-c", _IN_TERMINAL, PROGRAM, *words],
            env=scene.environ | {"TERM": "dumb", "PATH": path},
            cwd=scene.home,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self.shown = ""

    def answer(self, question: str, keys: str) -> None:
        """Wait for the question at the end of the screen, and type."""
        self._read(lambda: bool(re.search(rf"{question}[^\n]*: $", self.shown)))
        os.write(self._own, keys.encode())

    def end(self) -> int:
        self._read(lambda: False)
        code = self._child.wait(patience())
        os.close(self._own)
        return code

    def _read(self, is_enough: object) -> None:
        assert callable(is_enough)
        deadline = time.monotonic() + patience()
        while not is_enough():
            ready, _, _ = select.select([self._own], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"It does not go on: {self.shown}"
            try:
                part = os.read(self._own, 65536)
            except OSError:  # Linux ends a terminal whose other side is closed so
                part = b""
            if not part:
                return
            self.shown += part.decode().replace("\r\n", "\n")


async def test_the_first_run_in_a_terminal_of_60_columns(tmp_path: Path) -> None:
    scene = SetupScene(tmp_path)

    def talk() -> str:
        screen = SetupTerminal(scene, "setup")
        screen.answer("1/12", "Ada\n")
        screen.answer("2/12", "\n")
        screen.answer("Your time zone", "\n")
        screen.answer("1 to 4", "\n")
        screen.answer("Token", f"{TOKEN}\n")
        screen.answer("1 or 2", "\n")
        screen.answer("Its address", "\n")
        screen.answer("At what time", "8:30\n")
        screen.answer("Should it come again", "\n")
        screen.answer("What is it", "\n")
        screen.answer("From when to when", "\n")
        screen.answer("Set that up", "\n")
        assert screen.end() == 0, screen.shown
        return screen.shown

    async with LocalDiscord(token=TOKEN) as discord:
        scene.write(f"DISCORD_API_URL={discord.api_url}\nOLLIM_MODEL=offline\nOLLIM_WEB_PORT=0\n")
        shown = await asyncio.to_thread(talk)
    assert scene.env["OLLIM_USER_NAME"] == "Ada"
    assert scene.env["DISCORD_TOKEN"] == TOKEN
    assert TOKEN not in shown
    assert_no_word_is_broken(shown)
    assert re.search(r"SUMMARY: \d+ passed, \d+ warnings?, 0 failures", shown)
    # The last line is broken where the path has a space.
    assert " ".join(shown.split()).endswith(f"`{PROGRAM}`.")


def test_ctrl_c_at_a_secret_ends_it_and_gives_the_terminal_back(tmp_path: Path) -> None:
    scene = SetupScene(tmp_path)
    scene.write("OLLIM_MODEL=offline\n")
    screen = SetupTerminal(scene, "setup", "bot-name", "model", "service", "name")
    screen.answer("The bot's name", "Max\n")
    screen.answer("1 to 4", "2\n")
    screen.answer("API key", "sk-half\x03")
    assert screen.end() == 130
    assert "Stopped at the model." in screen.shown
    assert "sk-half" not in screen.shown
    assert scene.env == {"OLLIM_MODEL": "offline", "OLLIM_BOT_NAME": "Max"}

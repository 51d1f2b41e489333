"""What the running bot starts gets none of its secrets."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running

from ollim_bot.offline.server import MessagesServer

NAMES = ("WEBHOOK_SECRET", "GITHUB_HOOK_SECRET", "GOOGLE_CLIENT_SECRET", "OF_ANOTHER_PROGRAM")
# Notes its environment, then does what it is asked.
GIT = '#!/bin/sh\n/usr/bin/env >> {noted}\nexec {git} "$@"\n'


def given_to(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text()


@pytest.mark.real_process
@pytest.mark.real_engine
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_the_engine_git_and_the_doctor_get_none_of_its_secrets(tmp_path: Path) -> None:
    programs, noted = tmp_path / "bin", tmp_path / "noted"
    programs.mkdir()
    (programs / "git").write_text(GIT.format(noted=noted, git=shutil.which("git")))
    (programs / "git").chmod(0o700)
    secrets = {name: f"hush of {name}" for name in NAMES}
    settings = {**secrets, "PATH": f"{programs}:{os.environ['PATH']}"}
    async with (
        MessagesServer(ScriptedModel()) as server,
        running(Bot(tmp_path, server.url, settings)) as bot,
    ):
        await bot.ask("hello")
        (engine,) = bot.engines()
        given = given_to(engine)
        assert "ANTHROPIC_BASE_URL=" in given
        assert [name for name in NAMES if name in given] == []
        starts = noted.read_text().count("HOME=")
        async with bot.http.get(f"{bot.url}/api/panels/health") as shown:
            assert shown.status == 200
        await bot.until(lambda: noted.read_text().count("HOME=") > starts)
    assert "HOME=" in noted.read_text()
    assert "hush of" not in noted.read_text()

"""A real update of a running bot, from a folder of wheels into a second environment, and back.

It takes minutes, so `make test` leaves it to `make chaos`, and has `test_real_bot.py` in its place.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.defined_start import PYTHON
from tests.e2e.bot import Bot
from tests.features.install.fake_installation import run
from tests.features.install.package_index import locked, small_wheel
from tests.patience import patience
from tests.wheels import pack_wheel

import ollim_bot
from ollim_bot import __version__
from ollim_bot.features.install.releases import LOCK_FILE

# A fake `uv` and the version 0.99.0 that it installs, which does not start on the data.
UV = """#!{python} -SE
import os, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "venv":
    python = Path(words[-1]) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(Path(sys.argv[0]).resolve())
elif words[0] == "pip" and "-r" in words:
    pass
elif words[0] == "pip":
    environment = Path(words[words.index("--python") + 1]).parent.parent
    site = environment / "lib" / "python3" / "site-packages"
    site = Path(words[words.index("--target") + 1]) if "--target" in words else site
    (site / "ollim_bot-0.99.0.dist-info").mkdir(parents=True)
    (site / "ollim_bot").mkdir()
    (site / "ollim_bot" / "requirements.lock").write_text("")
elif words[-1] == "--json":
    print('{{"findings": []}}')
elif words[-1] == "ollim_bot":
    record = Path(os.environ["OLLIM_DATA_DIR"], "state", "update.json")
    text = record.read_text()
    record.write_text(text.replace('"reason": ""', '"reason": "A wheel is loose."'))
    while '"returned"' not in record.read_text():
        time.sleep(0.05)
    os.execv(sys.argv[0], sys.argv)
"""


def rewritten(wheel: Path, folder: Path, version: str) -> Path:
    """The same wheel with another version, and with what it needs in `folder`."""
    old, new = f"ollim_bot-{__version__}.dist-info", f"ollim_bot-{version}.dist-info"
    with ZipFile(wheel) as source:
        contents = {name.replace(old, new): source.read(name) for name in source.namelist()}
    del contents[f"{new}/RECORD"]
    for name in ("ollim_bot/__init__.py", f"{new}/METADATA"):
        contents[name] = contents[name].replace(__version__.encode(), version.encode(), 1)
    contents[f"ollim_bot/{LOCK_FILE}"] = locked(small_wheel(folder, "needed", "1.0")).encode()
    return pack_wheel(folder / wheel.name.replace(__version__, version), new, contents)


class InstalledBot(Bot):
    """A bot in its own environment, with the dependencies of the tests."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.environment_folder = home / "env"
        self.python = self.environment_folder / "bin" / "python"
        self.wheels, programs = home / "wheels", home / "programs"
        for folder in (self.wheels, programs):
            folder.mkdir()
        run(sys.executable, "-m", "venv", "--without-pip", str(self.environment_folder))
        self._site = next(self.environment_folder.glob("lib/python*/site-packages"))
        with ZipFile(wheel) as content:
            names = [name for name in content.namelist() if ".dist-info/" in name]
            content.extractall(self._site, names)
        # Copied with the byte code, so that it is not compiled again.
        shutil.copytree(Path(ollim_bot.__file__).parent, self._site / "ollim_bot")
        self.installed_by("pip")
        # What installs does not see the dependencies of the tests.
        (self._site / "pip").symlink_to(Path(sysconfig.get_path("purelib")) / "pip")
        uv = programs / "uv"
        uv.write_text(UV.format(python=PYTHON))
        uv.chmod(0o755)
        settings = {
            "OLLIM_MODEL": "offline",
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "PYTHONDONTWRITEBYTECODE": "",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_DEPS": "1",
            "PIP_NO_COMPILE": "1",
        }
        super().__init__(home, None, settings)
        self._path = str(programs)

    def installed_by(self, program: str) -> None:
        record = next(self._site.glob("ollim_bot-*.dist-info"))
        (record / "INSTALLER").write_text(program)

    def environment(self) -> dict[str, str]:
        usual = super().environment()
        return {**usual, "PATH": f"{self._path}:{usual['PATH']}"}

    async def start(self, *, command: Sequence[str] = ("-P", "-m", "ollim_bot")) -> None:
        with self.output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                self.python,
                *command,
                cwd=self.home,
                env=self.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        await self.reconnect()

    async def update(self) -> tuple[int | None, str]:
        """Run `ollim-bot update` as in another terminal; return its exit code and output."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            *("-P", "-m", "ollim_bot", "update"),
            cwd=self.home,
            env=self.environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        # An environment is made, and three bots start one after the other.
        async with asyncio.timeout(4 * patience()):
            said, _ = await process.communicate()
        return process.returncode, said.decode()

    async def version(self) -> str:
        return str((await self.command("/version"))["text"])


@asynccontextmanager
async def running(bot: InstalledBot) -> AsyncIterator[None]:
    try:
        await bot.start()
        yield
    finally:
        await bot.kill()


@pytest.mark.minutes
@pytest.mark.own_process
async def test_an_update_with_pip_and_back(tmp_path: Path, wheel: Path) -> None:
    bot = InstalledBot(tmp_path, wheel)
    rewritten(wheel, bot.wheels, "0.98.0")
    async with running(bot):
        assert await bot.version() == f"ollim-bot {__version__}"
        await bot.ask("hello")
        code, said = await bot.update()
        assert (code, said.splitlines()[-1]) == (0, f"Updated from {__version__} to 0.98.0."), said
        await bot.reconnect()
        assert await bot.version() == "ollim-bot 0.98.0"
        await bot.note(f"Updated from {__version__} to 0.98.0.")
        assert await bot.ask("hello again")
        history = (bot.data / "state" / "session_history.jsonl").read_text()
        assert any(json.loads(line)["event"] == "restarting" for line in history.splitlines())
        greetings = [text for text in await bot.notes() if "cut off" in text]
        assert greetings == []

        bot.installed_by("uv")
        answers = len(await bot.answers())
        code, said = await bot.update()
        await bot.reconnect()
        sentence = "Version 0.99.0 did not start, so 0.98.0 goes on with all data as it was: "
        assert (code, " ".join(said.split()).endswith(f"{sentence}A wheel is loose.")) == (1, True)
        assert await bot.version() == "ollim-bot 0.98.0"
        await bot.note(sentence)
        assert len(await bot.answers()) == answers
        assert not any("earlier copy" in text or "lost" in text for text in await bot.notes())
    assert not (tmp_path / "env.next").exists()

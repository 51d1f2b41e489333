"""A fake machine for tests of settings: nothing of the real machine is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import BadSettings
from ollim_bot.kernel.base.settings import Settings


class FakeMachine:
    """A home and a folder to start in, both empty, and an `/etc` that names a time zone."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "start"
        self.etc = root / "etc"
        for folder in (self.home, self.cwd, self.etc):
            folder.mkdir()
        (self.etc / "timezone").write_text("Europe/Berlin\n")

    def write(self, text: str, *, folder: Path | None = None, mode: int = 0o600) -> Path:
        path = (folder or self.cwd) / ".env"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(mode)
        return path

    def settings(self, **environ: str) -> Settings:
        return Settings.from_env({"HOME": str(self.home)} | environ, cwd=self.cwd, etc=self.etc)

    def problems(self, **environ: str) -> tuple[str, ...]:
        with pytest.raises(BadSettings) as caught:
            self.settings(**environ)
        return caught.value.problems

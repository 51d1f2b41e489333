"""Texts for the engine are in files that only we can read, and are removed after use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.engine.engine import private_file


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_only_we_can_read_it_and_then_it_is_gone(tmp_path: Path) -> None:
    async with private_file(tmp_path / "run", "Grüße \ud800") as path:
        assert path.read_text("utf-8") == "Grüße ?"
        assert path.stat().st_mode & 0o777 == 0o600
    assert names_in(tmp_path / "run") == set()


async def test_it_is_gone_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with private_file(tmp_path, "secret"):
            raise ZeroDivisionError
    assert names_in(tmp_path) == set()


async def test_what_a_crash_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    async with private_file(tmp_path, "left behind") as old:
        os.utime(old, (0, 0))
        (tmp_path / "claude-launcher").touch()
        os.utime(tmp_path / "claude-launcher", (0, 0))
        async with private_file(tmp_path, "in use") as used, private_file(tmp_path, "") as new:
            left = {used.name, new.name, "claude-launcher"}
            assert names_in(tmp_path) == left


async def test_a_disk_that_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("no folder")
    with pytest.raises(EngineError, match="run: File exists"):
        async with private_file(tmp_path / "run", "secret"):
            pass

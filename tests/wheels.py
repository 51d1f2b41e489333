"""Builds the packages of this tree, with the builder of the environment and without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build_wheel(directory: Path, source: Path = ROOT) -> Path:
    return _built("wheel", directory, source)


def build_sdist(directory: Path) -> Path:
    return _built("sdist", directory, ROOT)


def _built(kind: str, directory: Path, source: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", directory],
        cwd=source,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (package,) = directory.glob("ollim_bot-*")
    return package

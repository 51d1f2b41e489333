"""Builds the packages of this tree, with the builder of the environment and without a network."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(directory: Path, source: Path = ROOT) -> Path:
    return _built("wheel", directory, source)


def build_sdist(directory: Path) -> Path:
    return _built("sdist", directory, ROOT)


def pack_wheel(path: Path, record: str, contents: Mapping[str, bytes]) -> Path:
    """Write a wheel; `record` is the name of its `.dist-info` folder."""
    with ZipFile(path, "w", ZIP_STORED) as wheel:
        lines = []
        for name, content in contents.items():
            wheel.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            lines.append(f"{name},sha256={digest.decode()},{len(content)}\n")
        wheel.writestr(f"{record}/RECORD", "".join(lines) + f"{record}/RECORD,,\n")
    return path


def _built(kind: str, directory: Path, source: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", directory],
        cwd=source,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (package,) = directory.glob("ollim_bot-*")
    return package

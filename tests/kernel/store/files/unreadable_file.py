"""Run as a program: what happens to a state file that its owner may not read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.store.codecs.config_codec import RuntimeConfigCodec

NOBODY = 65534


def main() -> None:
    # Where another account may go; the folder for temporary files of the tests is closed to it.
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        # Prepared before the change of account: the other account may not read the program's files.
        data = DataDirectory(root)
        if os.geteuid() == 0:
            become_nobody(root)
        show(data)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def become_nobody(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.setuid(NOBODY)


def show(data: DataDirectory) -> None:
    content = b'{"bg_concurrency": 7}'
    data.paths.config.write_bytes(content)
    data.paths.config.chmod(0)
    config = data.file_store(data.paths.config, RuntimeConfigCodec())
    attempt("read", config.read)
    attempt("transact", lambda: config.transact(lambda value: (value, None)))
    data.paths.config.chmod(0o600)
    print("bytes kept" if data.paths.config.read_bytes() == content else "bytes lost")


def attempt(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Unreadable:
        print(f"{name} refused")


if __name__ == "__main__":
    main()

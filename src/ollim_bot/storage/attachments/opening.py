"""Opens files for the owner, through no link and to nowhere that is not meant to be seen."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ollim_bot.chat import OpenAttachment
from ollim_bot.domain.chat import Attachment
from ollim_bot.plain_files import open_file


def files_of(root: Path, kept: Path) -> OpenAttachment:
    """Opens what stands in `kept`, and what is neither hidden nor in `state/`: through no link."""

    def opened(attachment: Attachment) -> BinaryIO:
        path = PurePosixPath(attachment.path)
        if not _is_for_the_owner(path, PurePosixPath(kept.relative_to(root))):
            raise FileNotFoundError(attachment.path)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in path.parts[:-1]:
            folder = _step(part, folder)
        try:
            return os.fdopen(open_file(path.name, os.O_RDONLY | os.O_NOFOLLOW, folder=folder), "rb")
        finally:
            os.close(folder)

    return opened


def _is_for_the_owner(path: PurePosixPath, kept: PurePosixPath) -> bool:
    if path.is_absolute() or ".." in path.parts or not path.name:
        return False
    is_open = path.parts[0].casefold() != kept.parts[0].casefold()
    is_hidden = any(part.startswith(".") for part in path.parts)
    return (is_open or path.is_relative_to(kept)) and not is_hidden


def _step(name: str, folder: int) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)

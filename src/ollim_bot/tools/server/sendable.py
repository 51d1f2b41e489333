"""Files that the agent may send: regular ones of the data directory, and none of its secrets."""

from __future__ import annotations

import mimetypes
import os
import stat
from pathlib import Path

from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import WrongInput
from ollim_bot.tools.reach import Reach

LARGEST = 25 * 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def sendable(root: Path, given: str) -> Attachment:
    """Raises `WrongInput` with why it cannot be sent."""
    _check(root, given)
    # Unlike `Path.resolve`, this takes a link that leads to itself as it is.
    home = Path(os.path.realpath(root))
    path = Path(os.path.realpath(home / given))
    # Again, since what was given may have led elsewhere a moment ago.
    _check(root, str(path))
    if not path.is_file() or not path.is_relative_to(home):
        raise WrongInput(f"{given} is not a file of the data directory.")
    relative = path.relative_to(home)
    if any(part.startswith(".") for part in relative.parts):
        raise WrongInput(f"{given} is a hidden file, and those are not sent.")
    size = _size(home, relative, given)
    if size > LARGEST:
        raise WrongInput(f"{given} is larger than 25 MB. Send a part of it.")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Attachment(path.name, relative.as_posix(), media_type, size)


def _check(root: Path, path: str) -> None:
    if refusal := Reach(root).to_read(path):
        raise WrongInput(refusal)


def _size(home: Path, relative: Path, given: str) -> int:
    """Of the regular file itself, through no link that was put in its way meanwhile."""
    try:
        place = os.open(home, _FLAGS)
        for part in relative.parts:
            place = _step(part, place)
    except OSError:
        raise WrongInput(f"{given} is not a file of the data directory.") from None
    try:
        found = os.fstat(place)
    finally:
        os.close(place)
    if not stat.S_ISREG(found.st_mode):
        raise WrongInput(f"{given} is not a file of the data directory.")
    return found.st_size


def _step(name: str, folder: int) -> int:
    """Open a name in the folder; the folder itself is closed, even if that fails."""
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)

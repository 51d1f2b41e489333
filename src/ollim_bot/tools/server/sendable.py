"""Files that the agent may send: regular ones of the data directory, and none of its secrets."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path

from ollim_bot.domain.chat import Attachment
from ollim_bot.errors import WrongInput
from ollim_bot.tools.reach import Reach

LARGEST = 25 * 1024 * 1024


def sendable(root: Path, given: str) -> Attachment:
    """Raises `WrongInput` with why it cannot be sent."""
    if refusal := Reach(root).to_read(given):
        raise WrongInput(refusal)
    # Unlike `Path.resolve`, this takes a link that leads to itself as it is.
    home = Path(os.path.realpath(root))
    path = Path(os.path.realpath(home / given))
    if not path.is_file() or not path.is_relative_to(home):
        raise WrongInput(f"{given} is not a file of the data directory.")
    relative = path.relative_to(home)
    if any(part.startswith(".") for part in relative.parts):
        raise WrongInput(f"{given} is a hidden file, and those are not sent.")
    size = path.stat().st_size
    if size > LARGEST:
        raise WrongInput(f"{given} is larger than 25 MB. Send a part of it.")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Attachment(path.name, relative.as_posix(), media_type, size)

"""The secret of the page, in a file of its own, and what is made from it.

The secret never leaves the machine's disk. What lets a browser in is derived from it, so that a new
secret ends all of that at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from ollim_bot.errors import Unreadable
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk
from ollim_bot.settings import Secret
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, create_atomically, remove_durably

_BYTES = 32
_SHAPE = re.compile(rb"[\w-]{32,128}\n?", re.ASCII)


def web_secret(paths: DataPaths, disk: Disk | None = None) -> Secret:
    """The secret that is kept, or a new one where there is none that could be used.

    Needs the data directory to be there; raises `WriteFailed` if a new one cannot be kept.
    """
    disk = disk or OsDisk()
    with FileLock(paths.lock_of(paths.web_token)).held():
        return kept_secret(paths, disk) or _new(paths, disk)


def new_web_secret(paths: DataPaths, disk: Disk | None = None) -> Secret:
    """Another one in its place: nothing that was made from the old one counts any more."""
    with FileLock(paths.lock_of(paths.web_token)).held():
        return _new(paths, disk or OsDisk())


def kept_secret(paths: DataPaths, disk: Disk | None = None) -> Secret | None:
    try:
        raw = (disk or OsDisk()).read(paths.web_token, SizeLimit.NOTE)
    except OSError:
        return None
    return Secret(raw.decode("ascii").strip()) if _SHAPE.fullmatch(raw) else None


def entry_code(secret: Secret, challenge: str) -> str:
    """Lets one browser in, once, while the bot still takes an answer to that challenge."""
    return f"{challenge}.{mac(_key(secret, 'entry'), challenge)}"


def address(port: int, code: str) -> str:
    """For a terminal only: who opens it first is let in.

    The code is behind the `#`, which browsers send to nobody. The part before it is new each time,
    so that no page that somebody else left in the browser's cache is shown in place of ours.
    """
    return f"http://127.0.0.1:{port}/?{secrets.token_hex(4)}#{code}"


def browser_key(secret: Secret, browser: str, generation: int) -> bytes:
    """By which that browser shows who it is."""
    return _key(secret, "browser", browser, str(generation))


def bot_key(secret: Secret, browser: str) -> bytes:
    """By which the bot shows that browser who it is."""
    return _key(secret, "bot", browser)


def mac(key: bytes, *parts: str) -> str:
    text = "\n".join(parts).encode("utf-8", "replace")
    return encoded(hmac.digest(key, text, hashlib.sha256))


def is_equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decoded(text: str) -> bytes:
    """Raises `ValueError` for what is not encoded so."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _key(secret: Secret, *purpose: str) -> bytes:
    text = "\n".join(("ollim-bot page", *purpose)).encode("utf-8", "replace")
    return hmac.digest(secret.reveal().encode(), text, hashlib.sha256)


def _new(paths: DataPaths, disk: Disk) -> Secret:
    value = secrets.token_urlsafe(_BYTES)
    if paths.web_token.is_dir() and not paths.web_token.is_symlink():
        raise Unreadable(paths.web_token, "is a folder. Move it away; a new file is made then.")
    # Not written over: a file that others could read would keep its mode.
    remove_durably(disk, paths.web_token)
    create_atomically(disk, paths.web_token, f"{value}\n".encode(), PRIVATE)
    return Secret(value)

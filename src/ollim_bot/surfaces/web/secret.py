"""The secret of the page, in its own file, and the keys that are derived from it.

The secret never leaves the disk of the machine. All access is derived from it, so a new secret ends
all access at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileLock,
    OsDisk,
    create_atomically,
    remove_durably,
)
from ollim_bot.kernel.values.ports import Disk

_SHAPE = re.compile(rb"[\w-]{32,128}\n?", re.ASCII)


def web_secret(paths: DataPaths, disk: Disk | None = None) -> Secret:
    """The stored secret, or a new one if none is usable.

    The data directory must exist. Raises `WriteFailed` if a new secret cannot be stored.
    """
    disk = disk or OsDisk()
    with FileLock(paths.lock_of(paths.web_token)).held():
        return kept_secret(paths, disk) or _new(paths, disk)


def new_web_secret(paths: DataPaths) -> Secret:
    """Replace the secret: everything derived from the old one becomes invalid."""
    with FileLock(paths.lock_of(paths.web_token)).held():
        return _new(paths, OsDisk())


def kept_secret(paths: DataPaths, disk: Disk | None = None) -> Secret | None:
    try:
        raw = (disk or OsDisk()).read(paths.web_token, SizeLimit.NOTE)
    except OSError:
        return None
    return Secret(raw.decode("ascii").strip()) if _SHAPE.fullmatch(raw) else None


def entry_code(secret: Secret, challenge: str) -> str:
    """A code that admits one browser, once, while the challenge is open."""
    return f"{challenge}.{mac(_key(secret, 'entry'), challenge)}"


def address(port: int, code: str) -> str:
    """The address to open, for a terminal only: the first browser that opens it is admitted.

    The code is behind the `#`, which browsers never send. The part before it is new each time, so
    that a page that another program left in the browser's cache is not shown instead of ours.
    """
    return f"http://127.0.0.1:{port}/?{secrets.token_hex(4)}#{code}"


def browser_key(secret: Secret, browser: str, generation: int) -> bytes:
    """The key with which the browser proves who it is."""
    return _key(secret, "browser", browser, str(generation))


def bot_key(secret: Secret, browser: str) -> bytes:
    """The key with which the bot proves to that browser who it is."""
    return _key(secret, "bot", browser)


def mac(key: bytes, *parts: str) -> str:
    text = "\n".join(parts).encode("utf-8", "replace")
    return encoded(hmac.digest(key, text, hashlib.sha256))


def is_equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decoded(text: str) -> bytes:
    """The inverse of `encoded`. Raises `ValueError` for any other text."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _key(secret: Secret, *purpose: str) -> bytes:
    text = "\n".join(("ollim-bot page", *purpose)).encode("utf-8", "replace")
    return hmac.digest(secret.reveal().encode(), text, hashlib.sha256)


def _new(paths: DataPaths, disk: Disk) -> Secret:
    value = secrets.token_urlsafe(32)
    if paths.web_token.is_dir() and not paths.web_token.is_symlink():
        raise Unreadable(paths.web_token, "is a folder. Move it away; a new file is made then.")
    # Not overwritten: a file that others can read would keep its mode.
    remove_durably(disk, paths.web_token)
    create_atomically(disk, paths.web_token, f"{value}\n".encode(), PRIVATE)
    return Secret(value)

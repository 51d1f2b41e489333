"""The owner's profile files, read for the system prompt."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ollim_bot.domain.shared_files import Profile
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import NotAFile, SizeLimit, TooLarge
from ollim_bot.ports import Disk
from ollim_bot.store.files import OsDisk

# Two changes within the clock's resolution look like one, so a file this fresh is read again.
_GRAIN_NS = 100_000_000

_Fingerprint = tuple[int, int, int, int]


class ProfileFiles:
    """Reads the profile before every turn, cheaply: only a changed file is read again."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        disk = disk or OsDisk()
        self._identity = _ProfileFile(paths.identity, disk)
        self._user = _ProfileFile(paths.user, disk)

    def read(self) -> tuple[Profile, tuple[str, ...]]:
        """The profile, and a sentence for each file that cannot be used now.

        For such a file, its last valid text counts. A missing file is empty.
        """
        files = (self._identity, self._user)
        identity, user = (file.read() for file in files)
        return Profile(identity, user), tuple(file.problem for file in files if file.problem)


class _Unusable(Exception):
    """`str()` says what is wrong with the file and what to do, without its name.

    `is_passing` says that the same file may be readable next time.
    """

    def __init__(self, reason: str, *, line: int | None = None, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.is_passing = is_passing


class _ProfileFile:
    def __init__(self, path: Path, disk: Disk) -> None:
        self.problem = ""
        self._path = path
        self._disk = disk
        self._good: str | None = None
        self._known: _Fingerprint | None = None

    def read(self) -> str:
        now = time.time_ns()
        fingerprint = self._fingerprint()
        if fingerprint is None or fingerprint != self._known:
            is_settled = self._look()
            is_old = fingerprint is not None and abs(now - fingerprint[0]) > _GRAIN_NS
            self._known = fingerprint if is_settled and is_old else None
        return self._good or ""

    def _fingerprint(self) -> _Fingerprint | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino

    def _look(self) -> bool:
        """Read the file; False if a second look at the same file may have another result."""
        try:
            self._good, self.problem = self._text(), ""
        except _Unusable as unusable:
            self.problem = self._sentence(unusable)
            return not unusable.is_passing
        return True

    def _text(self) -> str:
        raw = self._bytes()
        if b"\0" in raw:
            line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
            raise _Unusable("has a zero byte in it. Save it as plain text.", line=line)
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise _Unusable("is not UTF-8 text. Save it as UTF-8.", line=line) from None

    def _bytes(self) -> bytes:
        try:
            return self._disk.read(self._path, SizeLimit.PROFILE)
        except FileNotFoundError:
            if self._path.is_symlink():
                raise _Unusable("is a link that leads nowhere. Mend or remove it.") from None
            return b""
        except NotAFile:
            raise _Unusable("is not a file. Move it away.") from None
        except TooLarge as large:
            raise _Unusable(f"is {large.reason}. Make it shorter.") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise _Unusable(f"cannot be read: {reason}. Mend that.", is_passing=True) from refused

    def _sentence(self, unusable: _Unusable) -> str:
        where = self._path.name if unusable.line is None else f"{self._path.name}:{unusable.line}"
        until = "its last good text counts" if self._good else "the bot goes on without it"
        return f"{where}: {unusable} Until then {until}."

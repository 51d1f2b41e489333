"""Keeping the files that came with messages."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ollim_bot.chat import IncomingFile
from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.chat import IMAGES, Attachment
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import WriteFailed, WrongInput
from ollim_bot.plain_files import open_file
from ollim_bot.ports import Disk
from ollim_bot.storage.attachments.folders import KeptFile, KeptFolder, too_much
from ollim_bot.storage.attachments.kinds import media_type_of
from ollim_bot.storage.attachments.names import numbered_names, safe_name
from ollim_bot.storage.attachments.pictures import PictureLimits, Pictures
from ollim_bot.storage.files import PRIVATE, OsDisk, create_atomically
from ollim_bot.storage.locks import FileLock

MB = 1024 * 1024
# By its first bytes it is known whether a file is a picture.
_HEAD = 64


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    file: int = 25 * MB
    downloads: int = 2048 * MB
    age: timedelta = timedelta(days=30)
    picture: PictureLimits = field(default_factory=PictureLimits)


class FileAttachments:
    """An `AttachmentKeeper`: pictures in `state/attachments`, all other files in `downloads`.

    What was looked at is what is kept: a file is read once, and its bytes are written anew.
    """

    def __init__(
        self,
        paths: DataPaths,
        now: Callable[[], datetime],
        *,
        disk: Disk | None = None,
        limits: AttachmentLimits | None = None,
    ) -> None:
        self._paths = paths
        self._now = now
        self._disk = disk or OsDisk()
        self._limits = limits or AttachmentLimits()
        self._pictures = Pictures(self._limits.picture)

    def keep(self, input_id: InputId, file: IncomingFile) -> Attachment:
        """On disk for good when it returns; a repeated message keeps its pictures once.

        No picture is looked into: no message is to wait for that. Raises `WriteFailed` where the
        disk refuses; the file is then still where it was.
        """
        name = safe_name(file.name)
        data = self._arrived(name, file.path)
        media_type = media_type_of(data)
        if media_type in IMAGES:
            path = self._keep_picture(input_id, media_type, data)
        else:
            path = self._keep_download(name, data)
        with suppress(OSError):
            file.path.unlink()
        place = path.relative_to(self._paths.root).as_posix()
        return Attachment(name, place, media_type, len(data))

    async def image(self, attachment: Attachment) -> tuple[str, bytes]:
        name = safe_name(attachment.name)
        # Nothing but the last part counts, so that no other folder is ever looked into.
        path = self._paths.attachments / PurePosixPath(attachment.path).name
        try:
            file = await asyncio.to_thread(_file, path)
        except (OSError, ValueError) as refused:
            raise WrongInput(f"{name} is not kept any more.") from refused
        with file:
            media_type = media_type_of(await asyncio.to_thread(file.read, _HEAD))
            if media_type not in IMAGES:
                raise WrongInput(f"{name} is not a picture that can be read.")
            return await self._pictures.fitted(name, media_type, file)

    def clean(self, now: datetime) -> int:
        """Also what is too much in `downloads`. Raises `WriteFailed` where that is refused."""
        with self._opened(self._paths.attachments) as folder:
            removed = folder.remove(self._old(folder.files(now), now))
        with self._opened(self._paths.downloads) as folder:
            files = folder.files(now)
            old = self._old(files, now)
            rest = [file for file in files if file not in old]
            excess = too_much(rest, self._limits.downloads, now.date())
            return removed + folder.remove([*old, *excess])

    def _old(self, files: Sequence[KeptFile], now: datetime) -> list[KeptFile]:
        return [file for file in files if now - file.at > self._limits.age]

    def _arrived(self, name: str, path: Path) -> bytes:
        most = self._limits.file
        try:
            data = _read(path, most + 1)
        except OSError as refused:
            raise WrongInput(f"{name} did not arrive whole. Send it again.") from refused
        if not data:
            raise WrongInput(f"{name} is empty.")
        if len(data) > most:
            raise WrongInput(f"{name} is larger than {most // MB} MB, which is the most.")
        return data

    def _keep_picture(self, input_id: InputId, media_type: str, data: bytes) -> Path:
        # The same message, sent again after a crash, finds its picture there already.
        seed = input_id.encode("utf-8", "surrogatepass") + b"\0" + data
        suffix = media_type.removeprefix("image/")
        path = self._paths.attachments / f"{hashlib.sha256(seed).hexdigest()[:32]}.{suffix}"
        with self._opened(path.parent):
            self._create(path, data)
            self._date(path)
        return path

    def _keep_download(self, name: str, data: bytes) -> Path:
        place = self._paths.downloads
        with self._opened(place) as folder:
            self._make_room(folder, name, len(data))
            paths = (place / candidate for candidate in numbered_names(name))
            path = next(path for path in paths if self._create(path, data))
            self._date(path)
        return path

    def _make_room(self, folder: KeptFolder, name: str, size: int) -> None:
        now, most = self._now(), self._limits.downloads
        files = folder.files(now)
        leaving = too_much(files, most - size, now.date())
        left = sum(file.size for file in files) - sum(file.size for file in leaving)
        if left + size > most:
            raise WrongInput(
                f"{name} does not fit: the files of today fill the downloads, which hold "
                f"{most // MB} MB at most. Remove some of them."
            )
        folder.remove(leaving)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[KeptFolder]:
        with FileLock(self._paths.lock_of(path)).held():
            if not os.path.lexists(path):
                self._make_folder(path)
            with KeptFolder.opened(path) as folder:
                yield folder

    def _make_folder(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700)
            self._disk.sync_folder(path.parent)
        except OSError as refused:
            raise WriteFailed(path, f"could not be made: {refused.strerror}.") from refused

    def _create(self, path: Path, data: bytes) -> bool:
        return not os.path.lexists(path) and create_atomically(self._disk, path, data, PRIVATE)

    def _date(self, path: Path) -> None:
        """By our own clock, since that one decides when it is old."""
        moment = self._now().timestamp()
        with suppress(OSError):
            os.utime(path, (moment, moment), follow_symlinks=False)


def _read(path: Path, most: int) -> bytes:
    with _file(path) as file:
        return file.read(most)


def _file(path: Path) -> BinaryIO:
    """Raises `OSError` if it is something else than a file, or a link."""
    return open(open_file(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")

"""Files that came with messages, kept by content for thirty days."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from unicodedata import category, normalize

from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import open_file
from ollim_bot.kernel.store.attachments.pictures import PictureLimits, Pictures
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, create_atomically
from ollim_bot.kernel.values.chat import IMAGES, Attachment
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import Disk, IncomingFile, OpenAttachment

_BY_BEGINNING = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"#!AMR", "audio/amr"),
)
_BY_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BY_BRAND = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"mif1": "image/heic",
    b"msf1": "image/heic",
    b"avif": "image/avif",
    b"avis": "image/avif",
}
_HAS_VIDEO_TRACK = re.compile(rb"hdlr.{8}vide", re.DOTALL)
_HAS_VIDEO_CODEC = re.compile(rb"V_(?:VP|AV1|MPEG|THEORA)")
_SNIFFED_BYTES = 65536


def media_type_of(data: bytes) -> str:
    for beginning, media_type in _BY_BEGINNING:
        if data.startswith(beginning):
            return media_type
    return _of_container(data) or _of_sound_frames(data) or _of_plain_data(data)


def _of_container(data: bytes) -> str | None:
    match data[:4]:
        case b"RIFF":
            return _BY_RIFF.get(data[8:12])
        case b"OggS":
            return "video/ogg" if b"theora" in data[:_SNIFFED_BYTES] else "audio/ogg"
        case b"\x1a\x45\xdf\xa3":
            return "video/webm" if _HAS_VIDEO_CODEC.search(data[:_SNIFFED_BYTES]) else "audio/webm"
    if data[4:8] != b"ftyp":
        return None
    # Voice messages often have the brand of a video: only the tracks tell.
    sound_or_video = "video/mp4" if _HAS_VIDEO_TRACK.search(data) else "audio/mp4"
    return _BY_BRAND.get(data[8:12], sound_or_video)


def _of_sound_frames(data: bytes) -> str | None:
    """The type of MP3 and AAC without a header, which begin with the bits that mark a frame."""
    if len(data) < 2 or data[0] != 0xFF:
        return None
    if data[1] & 0xF6 == 0xF0:
        return "audio/aac"
    return "audio/mpeg" if data[1] & 0xE6 == 0xE2 else None


def _of_plain_data(data: bytes) -> str:
    if data[:2] == b"BM" and data[6:10] == bytes(4):
        return "image/bmp"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if "\0" in text else "text/plain"


LONGEST_NAME = 100

# File systems allow 255 bytes; a temporary name for the file needs some of them.
_MOST_BYTES = 200
_LONGEST_SUFFIX = 16
_JOINERS = "\u200c\u200d"
_UNFIT = re.compile(r'[<>:"|?*`\x00-\x1f]')


def safe_name(given: str) -> str:
    """The name without folders, invisible characters and a leading dot or hyphen; never empty."""
    last = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    visible = "".join(_sign(each) for each in normalize("NFC", last))
    words = " ".join(_UNFIT.sub("-", visible).split())
    name = words.lstrip(f".- {_JOINERS}").rstrip(f". {_JOINERS}")
    # Shortening may create a new suffix, and the dot before it must then be removed.
    while (shorter := _shortened(name, "")) != name:
        name = shorter
    return name or "file"


def numbered_names(name: str) -> Iterator[str]:
    """The name itself, then `name-2`, `name-3` and so on, each within the length limit."""
    yield name
    for number in count(2):
        yield _shortened(name, f"-{number}")


def _sign(sign: str) -> str:
    kind = category(sign)
    if kind in ("Zl", "Zp", "Zs"):
        return " "
    # Joiners belong to the spelling of words in some scripts; all others here only deceive.
    is_hidden = kind in ("Cc", "Cf", "Cs", "Co") and sign not in _JOINERS
    return "" if is_hidden else sign


def _shortened(name: str, number: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    end = f"{number}{dot}{suffix}"
    stem = stem[: LONGEST_NAME - len(end)]
    while len(f"{stem}{end}".encode()) > _MOST_BYTES:
        stem = stem[:-1]
    return f"{stem.rstrip(f'. {_JOINERS}')}{end}"


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    size: int
    at: datetime


class KeptFolder:
    """An open folder. Its files are opened relative to it, so that no link can lead elsewhere."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[KeptFolder]:
        """Open the folder.

        Raises `WriteFailed` if the path is not a folder, or is a link to one.
        """
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags)
        except OSError as refused:
            reason = "is not a folder, or a link to one. Put a folder in its place."
            raise WriteFailed(path, reason) from refused
        try:
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    def files(self, now: datetime) -> list[KeptFile]:
        """The regular files, oldest first, with moments in the zone of `now`."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        # A moved file keeps the time of its content, not the one of its move.
                        at = datetime.fromtimestamp(
                            max(status.st_mtime, status.st_ctime), now.tzinfo
                        )
                        found.append(KeptFile(entry.name, status.st_size, at))
        return sorted(found, key=lambda file: (file.at, file.name))

    def remove(self, files: Sequence[KeptFile]) -> int:
        """Remove the files; returns how many of them existed."""
        count = 0
        try:
            for file in files:
                with suppress(FileNotFoundError):
                    os.unlink(file.name, dir_fd=self._descriptor)
                    count += 1
        except OSError as refused:
            reason = f"could not be cleaned: {refused.strerror}."
            raise WriteFailed(self._path, reason) from refused
        return count


def too_much(files: Sequence[KeptFile], most: int, today: date) -> list[KeptFile]:
    """The oldest files to remove, so that the rest is at most `most` bytes.

    Files of today always stay.
    """
    excess = sum(file.size for file in files) - most
    leaving = []
    for file in files:
        if excess <= 0 or file.at.date() >= today:
            break
        leaving.append(file)
        excess -= file.size
    return leaving


MB = 1024 * 1024
# The first bytes tell whether a file is a picture.
_HEAD = 64


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    file: int = 25 * MB
    downloads: int = 2048 * MB
    age: timedelta = timedelta(days=30)
    picture: PictureLimits = field(default_factory=PictureLimits)


class FileAttachments:
    """An `AttachmentStore`: pictures in `state/attachments`, all other files in `downloads`.

    A file is read once and its bytes are written anew, so that exactly the checked bytes are kept.
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
        """Store the file durably; a repeated message stores its pictures once.

        Pictures are not decoded here, because no message should wait for that. Raises `WriteFailed`
        if the disk refuses; the file is then still in its old place.
        """
        name = safe_name(file.name)
        most = self._limits.file
        try:
            with _file(file.path) as content:
                data = content.read(most + 1)
        except OSError as refused:
            raise WrongInput(f"{name} did not arrive whole. Send it again.") from refused
        if not data:
            raise WrongInput(f"{name} is empty.")
        if len(data) > most:
            raise WrongInput(f"{name} is larger than {most // MB} MB, which is the most.")
        media_type = media_type_of(data)
        if media_type in IMAGES:
            # The same message, sent again after a crash, finds its stored picture.
            seed = input_id.encode("utf-8", "surrogatepass") + b"\0" + data
            suffix = media_type.removeprefix("image/")
            path = self._paths.attachments / f"{hashlib.sha256(seed).hexdigest()[:32]}.{suffix}"
            with self._opened(path.parent):
                self._create(path, data)
                self._date(path)
        else:
            path = self._keep_download(name, data)
        with suppress(OSError):
            file.path.unlink()
        place = path.relative_to(self._paths.root).as_posix()
        return Attachment(name, place, media_type, len(data))

    async def image(self, attachment: Attachment) -> tuple[str, bytes]:
        name = safe_name(attachment.name)
        # Use only the last part, so that no other folder is ever read.
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
        """Remove old files, and the excess in `downloads`. Raises `WriteFailed` if that fails."""
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

    def _keep_download(self, name: str, data: bytes) -> Path:
        place = self._paths.downloads
        with self._opened(place) as folder:
            size = len(data)
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
            paths = (place / candidate for candidate in numbered_names(name))
            path = next(path for path in paths if self._create(path, data))
            self._date(path)
        return path

    @contextmanager
    def _opened(self, path: Path) -> Iterator[KeptFolder]:
        with FileLock(self._paths.lock_of(path)).held():
            if not os.path.lexists(path):
                try:
                    path.mkdir(mode=0o700)
                    self._disk.sync_folder(path.parent)
                except OSError as refused:
                    raise WriteFailed(path, f"could not be made: {refused.strerror}.") from refused
            with KeptFolder.opened(path) as folder:
                yield folder

    def _create(self, path: Path, data: bytes) -> bool:
        return not os.path.lexists(path) and create_atomically(self._disk, path, data, PRIVATE)

    def _date(self, path: Path) -> None:
        """Date the file by our own clock, which also decides when the file is old."""
        moment = self._now().timestamp()
        with suppress(OSError):
            os.utime(path, (moment, moment), follow_symlinks=False)


def _file(path: Path) -> BinaryIO:
    """Open a regular file. Raises `OSError` for anything else, links included."""
    return open(open_file(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")


def files_of(root: Path, kept: Path) -> OpenAttachment:
    """Opens files in `kept`, and files that are neither hidden nor in `state/`; follows no link."""

    def opened(attachment: Attachment) -> BinaryIO:
        path = PurePosixPath(attachment.path)
        if not _is_for_the_owner(path, PurePosixPath(kept.relative_to(root))):
            raise FileNotFoundError(attachment.path)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in path.parts[:-1]:
                above, flags = folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                folder = os.open(part, flags, dir_fd=above)
                os.close(above)
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

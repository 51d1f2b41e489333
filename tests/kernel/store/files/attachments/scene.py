"""A data directory for tests of attachments, with files that come in."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk

from ollim_bot.kernel.store.attachments.attachment_files import AttachmentLimits, FileAttachments
from ollim_bot.kernel.values.chat import Attachment
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import AttachmentStore, Disk, IncomingFile


def _noon_in_the_far_future() -> datetime:
    """Far from the real time, so that time stamps of the file system never match it."""
    return datetime.now(UTC).replace(hour=12) + timedelta(days=1000)


@dataclass
class AttachmentScene:
    """A data directory, a folder for the files that surfaces have fetched, and a clock."""

    data: DataDirectory
    inbox: Path
    now: datetime = field(default_factory=_noon_in_the_far_future)

    def store(
        self, limits: AttachmentLimits | None = None, disk: Disk | None = None
    ) -> AttachmentStore:
        used = disk or QuickDisk()
        return FileAttachments(self.data.paths, lambda: self.now, disk=used, limits=limits)

    def file(self, content: bytes, name: str = "notes.txt") -> IncomingFile:
        path = self.inbox / os.urandom(4).hex()
        path.write_bytes(content)
        return IncomingFile(name, path)

    def keep(
        self, content: bytes, name: str = "notes.txt", limits: AttachmentLimits | None = None
    ) -> Attachment:
        return self.store(limits).keep(InputId("m1"), self.file(content, name))

    def content_of(self, attachment: Attachment) -> bytes:
        return (self.data.paths.root / attachment.path).read_bytes()

    def downloads(self) -> list[str]:
        return sorted(path.name for path in self.data.paths.downloads.iterdir())

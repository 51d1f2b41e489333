"""Where attachments come in and are kept, for tests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.storage.places import DataDirectory, QuickDisk

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inputs import InputId
from ollim_bot.ports import AttachmentStore, Disk, IncomingFile
from ollim_bot.store.attachments.files import AttachmentLimits, FileAttachments


def _a_noon_to_come() -> datetime:
    """Far from the real time, which the file system writes down too."""
    return datetime.now(UTC).replace(hour=12) + timedelta(days=1000)


@dataclass
class Desk:
    """A data directory, a folder where surfaces put what they fetched, and a clock."""

    data: DataDirectory
    inbox: Path
    now: datetime = field(default_factory=_a_noon_to_come)

    def keeper(
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
        return self.keeper(limits).keep(InputId("m1"), self.file(content, name))

    def kept(self, attachment: Attachment) -> bytes:
        return (self.data.paths.root / attachment.path).read_bytes()

    def downloads(self) -> list[str]:
        return sorted(path.name for path in self.data.paths.downloads.iterdir())

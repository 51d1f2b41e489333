"""Looking into the folders of job files, and keeping the last good version of those gone wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.jobs import Job, JobKind
from ollim_bot.errors import StorageError, Unreadable
from ollim_bot.ports import Disk
from ollim_bot.scheduling.contents import Contents, Readings, Sight
from ollim_bot.scheduling.pages import FORMS, Page
from ollim_bot.storage.jobs.folder import JobFolder
from ollim_bot.storage.jobs.kept import KeptVersions

_logger = logging.getLogger(__name__)


class JobFiles:
    """The folders of one data directory, for one who looks at them again and again."""

    def __init__(self, paths: DataPaths, disk: Disk) -> None:
        self.folders = {
            JobKind.ROUTINE: paths.routines,
            JobKind.REMINDER: paths.reminders,
            JobKind.WEBHOOK: paths.webhooks,
        }
        self._folders = {
            kind: JobFolder(path, FORMS[kind], disk) for kind, path in self.folders.items()
        }
        self._copies = {
            kind: KeptVersions(paths.state / "last_good" / path.name, FORMS[kind], disk)
            for kind, path in self.folders.items()
        }
        self._kept: dict[JobKind, dict[str, Job]] = {}

    def look(self) -> Sight:
        if not self._kept:
            self._kept = {kind: self._copies_of(kind) for kind in FORMS}
        readings: dict[JobKind, Readings] = {}
        refusals: dict[JobKind, str] = {}
        touched: dict[JobKind, Set[str]] = {}
        for kind, folder in self._folders.items():
            try:
                look = folder.look()
            except Unreadable as refused:
                refusals[kind] = str(refused)
            else:
                readings[kind] = look.readings
                if look.touched:
                    touched[kind] = look.touched
        return Sight(readings, refusals, touched)

    def touched(self, sight: Sight) -> Iterator[Path]:
        for kind, names in sight.touched.items():
            yield from (self.folders[kind] / name for name in sorted(names))

    @property
    def last_good(self) -> Mapping[JobKind, Mapping[str, Job]]:
        """What files that are wrong now held when they were right, by file name."""
        return self._kept

    def keep_last_good(self, contents: Contents, now: float) -> None:
        """For the files that are wrong now, and not just for a moment."""
        for kind in contents.pages.keys() - contents.refusals.keys():
            try:
                self._keep(kind, contents.pages[kind], now)
            except StorageError:  # it stays in use all the same, only not beyond a restart
                _logger.warning("The last good %s could not be kept", kind, exc_info=True)

    def _keep(self, kind: JobKind, pages: Mapping[str, Page], now: float) -> None:
        kept, copies = self._kept[kind], self._copies[kind]
        for name in [name for name in kept if name not in pages or pages[name].is_right]:
            copies.drop(name)
            del kept[name]
        for name, page in pages.items():
            if page.job is not None and page.is_wrong_at(now) and kept.get(name) != page.job:
                copies.keep(name, page.job)
                kept[name] = page.job

    def _copies_of(self, kind: JobKind) -> dict[str, Job]:
        try:
            return self._copies[kind].all()
        except StorageError:
            _logger.warning("The last good %ss could not be read", kind, exc_info=True)
            return {}

"""Requests from the command line to the running bot."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, remove_durably, write_atomically

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import Disk

_VERSION = 1
_WAITING, _TAKEN = ".json", ".taken"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """`at` is the moment of the request and of the run's occurrence, so that it runs only once."""

    name: str
    kind: JobKind
    job_id: str
    at: datetime


class RequestFolder:
    """The requests in `state/run_requests/`. A request is taken by renaming its file.

    Either the bot takes a request or the command withdraws it, never both.
    """

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._folder = paths.state / "run_requests"
        self._disk = disk or OsDisk()

    def put(self, kind: JobKind, job_id: str, at: datetime) -> RunRequest:
        """Write a request. Raises `WriteFailed`."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as refused:
            raise WriteFailed(self._folder, f"could not be made: {refused.strerror}.") from refused
        request = RunRequest(os.urandom(4).hex(), kind, job_id, at)
        row = {"version": _VERSION, "kind": kind, "job": job_id, "at": at.isoformat()}
        write_atomically(self._disk, self._waiting(request), json.dumps(row).encode(), PRIVATE)
        return request

    def is_waiting(self, request: RunRequest) -> bool:
        return self._waiting(request).exists()

    def withdraw(self, request: RunRequest) -> bool:
        """Withdraw the request; False if the bot has taken it."""
        try:
            self._disk.remove(self._waiting(request))
        except FileNotFoundError:
            return False
        return True

    def has_any(self) -> bool:
        """Whether there may be requests. Cheap enough to be asked every second."""
        try:
            with os.scandir(self._folder) as entries:
                return any(entries)
        except OSError:
            return False

    def all(self) -> list[RunRequest]:
        """The requests that wait and those taken but not finished, oldest first.

        Files that are not requests are removed.
        """
        found = []
        for path in self._listed():
            request = self._read(path)
            if request is not None:
                found.append(request)
            elif path.exists():
                remove_durably(self._disk, path)
        return sorted(found, key=lambda request: request.at.timestamp())

    def take(self, request: RunRequest) -> bool:
        """Take the request; False if it was withdrawn."""
        try:
            self._disk.replace(self._waiting(request), self._taken(request))
        except FileNotFoundError:
            return self._taken(request).exists()
        return True

    def is_taken(self, request: RunRequest) -> bool:
        return self._taken(request).exists()

    def finish(self, request: RunRequest) -> None:
        """Remove a request that has its claim in the ledger, or that cannot be run."""
        for path in (self._taken(request), self._waiting(request)):
            remove_durably(self._disk, path)

    def _listed(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                return [
                    Path(entry.path)
                    for entry in entries
                    if entry.name.endswith((_WAITING, _TAKEN)) and not entry.name.startswith(".")
                ]
        except OSError:
            return []

    def _read(self, path: Path) -> RunRequest | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            row = json.loads(self._disk.read(path, SizeLimit.NOTE))
            at = datetime.fromisoformat(row["at"])
            if row["version"] == _VERSION and at.utcoffset() is not None:
                return RunRequest(path.stem, JobKind(row["kind"]), str(row["job"]), at)
        return None

    def _waiting(self, request: RunRequest) -> Path:
        return self._folder / f"{request.name}{_WAITING}"

    def _taken(self, request: RunRequest) -> Path:
        return self._folder / f"{request.name}{_TAKEN}"

"""What backups and restores report."""

from __future__ import annotations

import fcntl
import io
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ollim_bot import __version__
from ollim_bot.engine.transcripts import Transcripts
from ollim_bot.errors import OllimError, WriteFailed, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import UnsuitableFile, open_file
from ollim_bot.store.file_kinds import Kind, kind_of
from ollim_bot.store.files import OsDisk
from ollim_bot.store.journal import Git, GitTrouble, Repository, has_repository
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.snapshot import Snapshot, take_snapshot
from ollim_bot.upkeep.archive import (
    DATA,
    HISTORY,
    TRANSCRIPTS,
    ArchiveBody,
    BadBackup,
    Manifest,
    NotRead,
    Unread,
    opened_backup,
    write_archive,
)
from ollim_bot.upkeep.doctor import DoctorFinding
from ollim_bot.upkeep.instance import running_pid
from ollim_bot.upkeep.shared_rows import rows_on_server

# Where a restore puts what can act and was not taken in.
LEFT_OFF = "state/left-off"

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class BackupReport:
    """`removed` are the older backups that `keep` has removed."""

    path: Path
    size: int
    manifest: Manifest
    removed: tuple[Path, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.manifest.is_complete


def incomplete(report: BackupReport) -> str:
    """The sentence about a backup that has gaps: what is missing, and why."""
    gaps = report.manifest.unread
    shown = ", ".join(
        f"{gap.path.removeprefix(f'{DATA}/')} ({gap.reason})" for gap in gaps[:_SHOWN]
    )
    more = f", and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    return f"The backup {report.path} is not complete. It could not read {shown}{more}."


class Power(StrEnum):
    """What the owner is asked about, by the names that `--accept` takes."""

    HOOKS = "hooks"
    SERVERS = "servers"
    POLICY = "policy"
    AGENTS = "agents"
    SKILLS = "skills"
    KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Brought:
    """Something in a backup that can act and is not so at present.

    `files` are its paths below the data directory; it has none if it is in the database. `later`
    says how the owner gets it after all.
    """

    power: Power
    name: str
    detail: str = ""
    files: tuple[str, ...] = ()
    later: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


@dataclass(frozen=True, slots=True)
class Restored:
    """What came out of a backup.

    `keys` were taken from the present data directory, `missing` keys are in neither. `brought` can
    act, and `left_off` is what of it was not taken in. `notes` are sentences about what is not as
    it was.
    """

    manifest: Manifest
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    brought: tuple[Brought, ...] = ()
    left_off: tuple[Brought, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """`aside` is where the former data directory is; None if there was none.

    `said` is what the owner said after the backup, as far as the former directory knows it.
    """

    restored: Restored
    aside: Path | None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialReport:
    """A backup that was restored into a scratch place; `findings` are the doctor's."""

    restored: Restored
    findings: tuple[DoctorFinding, ...]


# How many automatic backups are kept.
KEPT = 7

_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"ollim-bot-\d{8}T\d{6}Z(?:-\d+)?\.tar\.gz")
_WORK_PREFIX = ".ollim-bot-backup-"
_GIT_LIMIT = 300.0


def files_below(root: Path, refused: Callable[[OSError], None]) -> Iterator[PurePosixPath]:
    """All files and links below the data directory that are not made anew, in a fixed order.

    Folders that cannot be read are passed to `refused`.
    """
    for folder, folders, names in os.walk(root, onerror=refused):
        here = PurePosixPath(Path(folder).relative_to(root))
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in links and kind_of(here / name) is not Kind.REMADE
        )
        for name in sorted((*names, *links)):
            if kind_of(here / name) is not Kind.REMADE:
                yield here / name


def keys_in(root: Path) -> Iterator[PurePosixPath]:
    """The keys in a data directory that are files and can be read."""
    for relative in files_below(root, lambda _: None):
        path = root / relative
        is_key = kind_of(relative) is Kind.KEY
        if is_key and path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            yield relative


def automatic_folder(paths: DataPaths) -> Path:
    """Where backups go by default: beside the data directory, out of the agent's reach."""
    return paths.root.with_name(f"{paths.root.name}-backups")


def write_backup(
    paths: DataPaths,
    environment: Mapping[str, str],
    now: Callable[[], datetime],
    *,
    target: Path | None = None,
    with_keys: bool = False,
    keep: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> BackupReport:
    """Write a backup of one moment, also while the bot runs, and return what is in it.

    `environment` says where the engine keeps its records. `target` is a folder or a new file; the
    default is a new file in `automatic_folder`. What cannot be read is named in the report, which
    is not complete then. `keep` removes older backups of this data directory in the same folder, if
    this one is complete. The file gets its name when it is whole; on any error nothing is left.
    `check` is called again and again, and may raise to end the backup. Raises `OllimError`.
    """
    if not paths.root.is_dir():
        raise OllimError(
            f"There is no data directory {paths.root}, so there is nothing to back up."
        )
    folder, name = _place(paths, target)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _work_folder(folder) as work:
            manifest, body = _collected(paths, environment, now, work, check, with_keys=with_keys)
            path = _published(folder, name, work, manifest, body)
            size = path.stat().st_size
    except OSError as refused:
        reason = f"{refused.strerror or refused}. No backup was made"
        raise WriteFailed(folder / (name or ""), f"could not be written: {reason}.") from refused
    report = BackupReport(path, size, manifest)
    if keep is None or not report.is_complete:
        return report
    return BackupReport(path, size, manifest, tuple(_rotated(path, manifest, keep)))


def _place(paths: DataPaths, target: Path | None) -> tuple[Path, str | None]:
    """The folder of the backup, and its name if the owner gave one."""
    if target is None:
        folder, name = automatic_folder(paths), None
    elif target.is_dir():
        folder, name = target, None
    else:
        folder, name = target.parent, target.name
        if os.path.lexists(target):
            raise OllimError(f"{target} exists already. Name a new file, or a folder.")
        if not folder.is_dir():
            raise WrongInput(f"{folder} is not a folder. Make it first, or name another one.")
    root = os.path.realpath(paths.root)
    if os.path.realpath(folder).startswith(f"{root}{os.sep}") or os.path.realpath(folder) == root:
        raise WrongInput(f"{folder} is in the data directory itself. Name a folder outside of it.")
    return folder, name


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """A private folder beside the backup; those that a kill left behind are removed first."""
    for left in folder.glob(f"{_WORK_PREFIX}*"):
        with suppress(OSError), locked_folder(left):
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_WORK_PREFIX, dir=folder))
    try:
        with locked_folder(work):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder; raises `OSError` if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _collected(
    paths: DataPaths,
    environment: Mapping[str, str],
    now: Callable[[], datetime],
    work: Path,
    check: Callable[[], None],
    *,
    with_keys: bool,
) -> tuple[Manifest, Path]:
    is_running = running_pid(paths.bot_pid) is not None
    copy, body = work / DATABASE, work / "body"
    # The database first: a message is committed after its files, so its files are found later.
    with rows_on_server(environment, paths, now) as server:
        snapshot = take_snapshot(paths, copy, now, is_running=is_running, server=server)
    moment = now() if snapshot is None else snapshot.at
    with body.open("xb") as file:
        taken = _Collection(ArchiveBody(file, check), moment, with_keys=with_keys)
        if snapshot is not None:
            taken.add_snapshot(copy, snapshot)
        taken.add_folder(paths.root)
        taken.add_history(paths.root, work / HISTORY)
        if snapshot is not None:
            taken.add_transcripts(Transcripts(environment), snapshot.sessions)
        taken.body.close()
    zone = moment.tzinfo
    return taken.manifest(paths, 0 if snapshot is None else snapshot.schema, zone), body


class _Collection:
    """Adds the parts of a backup to its body, and remembers what is not in it."""

    def __init__(self, body: ArchiveBody, moment: datetime, *, with_keys: bool) -> None:
        self.body = body
        self._moment = moment
        self._with_keys = with_keys
        self._left_out: list[str] = []
        self._links: list[str] = []
        self._unread: list[Unread] = []

    def manifest(self, paths: DataPaths, schema: int, zone: tzinfo | None) -> Manifest:
        return Manifest(
            version=__version__,
            made_at=self._moment.astimezone(UTC),
            zone=str(zone or UTC),
            host=platform.node(),
            data_directory=str(paths.root),
            schema=schema,
            with_keys=self._with_keys,
            files=tuple(self.body.entries),
            left_out=tuple(sorted(self._left_out)),
            links=tuple(sorted(self._links)),
            unread=tuple(self._unread),
        )

    def add_snapshot(self, copy: Path, snapshot: Snapshot) -> None:
        self._add(f"{DATA}/state/{DATABASE}", copy)
        for name, content in sorted(snapshot.mirrors.items()):
            moment = int(self._moment.timestamp())
            self.body.add(f"{DATA}/state/{name}", io.BytesIO(content), len(content), 0o600, moment)

    def add_folder(self, root: Path) -> None:
        """Add the files below `root` by their content."""

        def refused(error: OSError) -> None:
            self._miss(f"{DATA}/{Path(error.filename).relative_to(root)}", error)

        for relative in files_below(root, refused):
            self._add_file(relative, root / relative)

    def add_history(self, root: Path, bundle: Path) -> None:
        """Add the history as a bundle: one consistent file, without settings, hooks or remotes."""
        if not has_repository(root):
            return
        try:
            git = Repository.opened(Git(root, limit=_GIT_LIMIT)).git
            if not git.run("rev-list", "--all", "--max-count=1"):
                return
            git.run("bundle", "create", "--quiet", str(bundle), "HEAD", "--all")
        except GitTrouble as trouble:
            self._unread.append(Unread(HISTORY, str(trouble)))
        else:
            self._add(HISTORY, bundle)

    def add_transcripts(self, transcripts: Transcripts, sessions: frozenset[str]) -> None:
        for name, path in transcripts.files_of(sessions):
            self._add(f"{TRANSCRIPTS}/{name}", path)

    def _add_file(self, relative: PurePosixPath, path: Path) -> None:
        if kind_of(relative) is Kind.KEY and not self._with_keys:
            self._left_out.append(str(relative))
            return
        try:
            is_file = stat.S_ISREG(path.lstat().st_mode)
        except FileNotFoundError:
            return
        except OSError as error:
            self._miss(f"{DATA}/{relative}", error)
            return
        if is_file:
            self._add(f"{DATA}/{relative}", path)
        else:
            self._links.append(str(relative))

    def _add(self, name: str, path: Path) -> None:
        """Add a file as it is now; one that was removed since it was listed is left out."""
        try:
            descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        except (FileNotFoundError, UnsuitableFile):
            return
        except OSError as error:
            self._miss(name, error)
            return
        with open(descriptor, "rb") as source:
            status = os.fstat(descriptor)
            try:
                self.body.add(name, source, status.st_size, status.st_mode, int(status.st_mtime))
            except NotRead as short:
                self._unread.append(Unread(name, str(short)))

    def _miss(self, name: str, error: OSError) -> None:
        self._unread.append(Unread(name, error.strerror or str(error)))


def _published(folder: Path, name: str | None, work: Path, manifest: Manifest, body: Path) -> Path:
    whole = work / "whole"
    with open(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        with body.open("rb") as source:
            write_archive(target, manifest, source)
        target.flush()
        os.fsync(target.fileno())
    disk = OsDisk()
    for path in _names(folder, name, manifest):
        try:
            disk.link(whole, path)
        except FileExistsError:
            if name is not None:
                raise OllimError(f"{path} exists already. Name a new file, or a folder.") from None
            continue
        disk.sync_folder(folder)
        return path
    raise AssertionError("the names of backups have no end")


def _names(folder: Path, name: str | None, manifest: Manifest) -> Iterator[Path]:
    if name is not None:
        yield folder / name
        return
    stamp = manifest.made_at.strftime(_STAMP)
    yield folder / f"ollim-bot-{stamp}.tar.gz"
    number = 2
    while True:
        yield folder / f"ollim-bot-{stamp}-{number}.tar.gz"
        number += 1


def backups_in(folder: Path, like: Manifest | None = None) -> list[tuple[Path, Manifest]]:
    """The backups of a folder that have the names we give, the newest first.

    With `like`, only those of the same data directory on the same machine.
    """
    found: list[tuple[Path, Manifest]] = []
    for path in sorted(folder.glob("ollim-bot-*.tar.gz")):
        if not _NAME.fullmatch(path.name) or path.is_symlink():
            continue
        try:
            with opened_backup(path) as backup:
                manifest = backup.manifest
        except (OSError, BadBackup):
            continue
        if like is None or _origin(manifest) == _origin(like):
            found.append((path, manifest))
    return sorted(found, key=lambda each: (each[1].made_at, each[0].name), reverse=True)


def _origin(manifest: Manifest) -> tuple[str, str]:
    return manifest.host, manifest.data_directory


def _rotated(newest: Path, manifest: Manifest, keep: int) -> Iterator[Path]:
    """Remove all but the `keep` newest complete backups and the one just made."""
    older = [each for each in backups_in(newest.parent, manifest) if each[0] != newest]
    kept = 1
    for path, found in older:
        if kept < keep:
            kept += found.is_complete
            continue
        with suppress(OSError):
            path.unlink()
            yield path

"""A backup: all that the bot knows in one `.tar.gz`, whose first member lists all others."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from ollim_bot import __version__
from ollim_bot.kernel.base.errors import OllimError, WriteFailed, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import UnsuitableFile, open_file
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.codecs.plain import JsonFormat, Layout, whole
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.journal import Git, GitTrouble, has_repository
from ollim_bot.kernel.store.questions import DATABASE, rows_on_server
from ollim_bot.kernel.store.snapshot import Kind, Snapshot, kind_of, take_snapshot
from ollim_bot.kernel.upkeep.findings import Check, DoctorInput, Found, off, passed, warned
from ollim_bot.kernel.values.runtime_config import RuntimeConfig

_FORMAT = 1
_PROGRAM = "ollim-bot"
_MANIFEST = "manifest.json"
DATA = "data"
TRANSCRIPTS = "transcripts"
HISTORY = "history.bundle"

_CHUNK = 1024 * 1024
_LARGEST_MANIFEST = 64 * 1024 * 1024
_LONGEST_HEADER = 64 * 1024
_FILE_MODES = 0o777
# How many automatic backups are kept.
KEPT = 7
GIT_LIMIT = 300.0
STAMP = "%Y%m%dT%H%M%SZ"

_SHOWN = 5
# Level 1 takes a third of the time of the default for a few percent more room.
_LEVEL = 1
_NAME = re.compile(r"ollim-bot-\d{8}T\d{6}Z(?:-\d+)?\.tar\.gz")
_WORK_PREFIX = ".ollim-bot-backup-"


class BadBackup(OllimError):
    """A file that is no backup, or one that must not be restored; nothing was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file of a backup; `path` begins with `data/` or `transcripts/`, or is the history."""

    path: str
    size: int
    sha256: str
    mode: int = 0o600
    mtime: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that belongs into the backup and could not be read."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`made_at` is the moment of the database; `schema` is 0 if there is none.

    `left_out` are the keys that are not in the backup, `links` the links and other things that are
    no files, `unread` the gaps.
    """

    version: str
    made_at: datetime
    zone: str
    host: str
    data_directory: str
    schema: int
    with_keys: bool
    files: tuple[BackedUpFile, ...]
    left_out: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.unread

    @property
    def content_bytes(self) -> int:
        return sum(entry.size for entry in self.files)


_WHOLE = whole(0, 2**62)
_LAYOUT = JsonFormat(
    {
        Manifest: Layout(full=True, needed=("left_out", "links", "unread")),
        BackedUpFile: Layout(
            full=True,
            needed=("mode", "mtime"),
            # No file gets the rights of another user from a backup.
            forms={"mode": (lambda value: _WHOLE[0](value) & _FILE_MODES, None)},
        ),
    },
    other=Layout(full=True),
    forms={int: _WHOLE},
)


def _decoded(content: bytes, path: Path) -> Manifest:
    """The manifest of the backup at `path`. Raises `BadBackup`."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise BadBackup(path, "is not a backup of ollim-bot: its manifest is no JSON.") from None
    if not isinstance(fields, dict) or fields.get("program") != _PROGRAM:
        raise BadBackup(path, "is not a backup of ollim-bot.")
    found = fields.get("format")
    if isinstance(found, int) and found > _FORMAT:
        raise BadBackup(
            path,
            f"was made by a newer ollim-bot (format {found}; this one knows {_FORMAT}). "
            "Update ollim-bot first.",
        )
    try:
        manifest = _LAYOUT.read(Manifest, fields)
    except Malformed as wrong:
        raise BadBackup(path, f"has a manifest that makes no sense ({wrong}).") from None
    # Refuse names that would leave the folder they are restored into, or take one place twice.
    seen: set[str] = set()
    for entry in manifest.files:
        parts = PurePosixPath(entry.path).parts
        is_plain = "/".join(parts) == entry.path and "\0" not in entry.path
        is_below = (len(parts) > 1 and parts[0] in (DATA, TRANSCRIPTS)) or entry.path == HISTORY
        if not is_plain or not is_below or ".." in parts:
            raise BadBackup(path, f"names {entry.path!r:.80}, which is no place in a backup.")
        if entry.path in seen:
            raise BadBackup(path, f"names {entry.path!r:.80} twice.")
        seen.add(entry.path)
    for entry in manifest.files:
        for above in map(str, PurePosixPath(entry.path).parents):
            if above in seen:
                raise BadBackup(path, f"has {above!r:.80} both as a file and as a folder.")
    return manifest


class _Stream(gzip.GzipFile):
    """Reads exactly what is asked for, and no more than `most` bytes until that is set again."""

    most = _LONGEST_HEADER

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        self.most -= size
        if self.most < 0:
            raise ValueError("a header is too long")
        content = super().read(size)
        if len(content) < size:
            raise EOFError
        return content

    def has_more(self) -> bool:
        """Whether anything but the end follows; reading on also checks the sum of the file."""
        # Programs fill the last record of a tar file with zeros.
        end = super().read(2 * tarfile.RECORDSIZE)
        return len(end) > tarfile.RECORDSIZE or any(end)


class BackupReader:
    """An open backup: its manifest is checked; the members are read once, in their order.

    No member is extracted by `tarfile`, which would make links and devices: the caller of `extract`
    opens each file.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._stream = _Stream(fileobj=file, mode="rb")
        with self._refusals():
            self._tar = tarfile.TarFile(fileobj=self._stream, encoding="utf-8")
            first = self._next()
            if first is None or first.name != _MANIFEST or first.size > _LARGEST_MANIFEST:
                raise BadBackup(path, "is not a backup of ollim-bot: manifest.json is not first.")
            self.manifest = _decoded(b"".join(self._content_of(first)), path)

    def extract(self, place: Callable[[BackedUpFile], BinaryIO]) -> None:
        """Check every member against the manifest, and write it where `place` says.

        Raises `BadBackup` at the first difference, and the `OSError` of a failed write.
        """
        expected = {entry.path: entry for entry in self.manifest.files}
        gaps = {gap.path for gap in self.manifest.unread}
        with self._refusals():
            while (member := self._next()) is not None:
                entry = expected.pop(member.name, None)
                if entry is not None:
                    self._take(entry, member, place)
                elif member.name in gaps:
                    gaps.remove(member.name)
                else:
                    what = f"has {member.name!r:.80}, which its manifest does not name."
                    raise BadBackup(self._path, what)
            if expected:
                missing = next(iter(expected))
                raise BadBackup(self._path, f"lacks {missing!r:.80}, which its manifest names.")
            if self._stream.has_more():
                raise BadBackup(self._path, "goes on after its end.")

    def _next(self) -> tarfile.TarInfo | None:
        """The next member, which is a plain file; None at the end."""
        self._stream.most = _LONGEST_HEADER
        info = self._tar.next()
        if info is not None and (
            info.type != tarfile.REGTYPE
            or info.sparse is not None
            or info.pax_headers.keys() - {"path", "size", "hdrcharset"}
        ):
            raise BadBackup(self._path, f"has {info.name!r:.80}, which is not a plain file.")
        return info

    def _take(
        self,
        entry: BackedUpFile,
        member: tarfile.TarInfo,
        place: Callable[[BackedUpFile], BinaryIO],
    ) -> None:
        if member.size != entry.size:
            other = f"has another size of {entry.path!r:.80} than its manifest."
            raise BadBackup(self._path, other)
        digest = hashlib.sha256()
        with place(entry) as target:
            for chunk in self._content_of(member):
                digest.update(chunk)
                target.write(chunk)
        if digest.hexdigest() != entry.sha256:
            raise BadBackup(self._path, f"is damaged: {entry.path!r:.80} is not what it was.")

    def _content_of(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        self._stream.most = member.size
        for start in range(0, member.size, _CHUNK):
            yield self._stream.read(min(_CHUNK, member.size - start))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise BadBackup(self._path, "is cut off: it ends too early.") from None
        except (gzip.BadGzipFile, zlib.error, tarfile.TarError, ValueError, OverflowError) as wrong:
            raise BadBackup(self._path, f"is damaged, or not a backup ({wrong}).") from None


@contextmanager
def opened_backup(path: Path) -> Iterator[BackupReader]:
    """Open the backup. Raises `BadBackup`, or the `OSError` of a file that cannot be read."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        yield BackupReader(path, file)


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
    words = [f"{gap.path.removeprefix(f'{DATA}/')} ({gap.reason})" for gap in gaps[:_SHOWN]]
    more = f", and {len(gaps) - _SHOWN} more" if len(gaps) > _SHOWN else ""
    return f"The backup {report.path} is not complete. It could not read {', '.join(words)}{more}."


# Where a restore puts what can act and was not taken in.
LEFT_OFF = "state/left-off"


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


def files_below(root: Path, refused: Callable[[OSError], None]) -> Iterator[PurePosixPath]:
    """All files and links below the data directory that are not made anew, in a fixed order.

    Folders that cannot be read are passed to `refused`.
    """
    for folder, folders, names in os.walk(root, onerror=refused):
        here = PurePosixPath(Path(folder).relative_to(root))
        links = [name for name in folders if Path(folder, name).is_symlink()]
        names = [name for name in (*names, *links) if kind_of(here / name) is not Kind.REMADE]
        yield from (here / name for name in sorted(names))
        below = (name for name in folders if name not in links)
        folders[:] = sorted(name for name in below if kind_of(here / name) is not Kind.REMADE)


def keys_in(root: Path) -> Iterator[PurePosixPath]:
    """The keys in a data directory that are files and can be read."""
    for relative in files_below(root, lambda _: None):
        path = root / relative
        is_key = kind_of(relative) is Kind.KEY
        if is_key and path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
            yield relative


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
    default is a new file in `paths.backups()`. What cannot be read is named in the report, which
    is not complete then. `keep` removes older backups of this data directory in the same folder, if
    this one is complete. The file gets its name when it is whole; on any error nothing is left.
    `check` is called again and again, and may raise to end the backup. Raises `OllimError`.
    """
    if not paths.root.is_dir():
        nothing = f"There is no data directory {paths.root}, so there is nothing to back up."
        raise OllimError(nothing)
    folder, name = _place(paths, target)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with work_folder(folder, _WORK_PREFIX) as work:
            body, whole = work / "body", work / "whole"
            with _new_archive(body) as archive:
                contents = _Contents(archive, work, check, with_keys=with_keys)
                manifest = contents.add_all(paths, environment, now)
            head = {"program": _PROGRAM, "format": _FORMAT, "complete": manifest.is_complete}
            fields = {**head, **_LAYOUT.write(manifest)}
            content = json.dumps(fields, indent=1).encode() + b"\n"
            moment = int(manifest.made_at.timestamp())
            # The manifest is known last and comes first: two gzip files are one, after another.
            with _new_archive(whole, has_end=False) as first:
                first.addfile(_member(_MANIFEST, len(content), 0o600, moment), io.BytesIO(content))
            with body.open("rb") as rest, whole.open("ab") as file:
                shutil.copyfileobj(rest, file, _CHUNK)
                file.flush()
                os.fsync(file.fileno())
            path = _named(whole, folder, name, manifest.made_at)
            report = BackupReport(path, path.stat().st_size, manifest)
    except OSError as refused:
        reason = f"{refused.strerror or refused}. No backup was made"
        raise WriteFailed(folder / (name or ""), f"could not be written: {reason}.") from refused
    if keep is None or not report.is_complete:
        return report
    return replace(report, removed=tuple(_rotated(report, keep)))


def _place(paths: DataPaths, target: Path | None) -> tuple[Path, str | None]:
    """The folder of the backup, and its name if the owner gave one."""
    if target is None:
        folder, name = paths.backups(), None
    elif target.is_dir():
        folder, name = target, None
    else:
        folder, name = target.parent, target.name
        if os.path.lexists(target):
            raise OllimError(f"{target} exists already. Name a new file, or a folder.")
        if not folder.is_dir():
            raise WrongInput(f"{folder} is not a folder. Make it first, or name another one.")
    if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(paths.root)):
        raise WrongInput(f"{folder} is in the data directory itself. Name a folder outside of it.")
    return folder, name


@contextmanager
def work_folder(folder: Path, prefix: str) -> Iterator[Path]:
    """A private folder in `folder`; those that a kill left behind are removed first."""
    for left in folder.glob(f"{prefix}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        with _locked(work):
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder; raises `OSError` if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _new_archive(path: Path, *, has_end: bool = True) -> Iterator[tarfile.TarFile]:
    """A compressed tar file; without `has_end` another one may follow."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with (
        open(os.open(path, flags, 0o600), "wb") as file,
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as stream,
    ):
        tar = tarfile.TarFile(None, "w", stream, tarfile.PAX_FORMAT, copybufsize=_CHUNK)
        yield tar
        if has_end:
            tar.close()


def _member(name: str, size: int, mode: int, mtime: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode & _FILE_MODES, max(0, mtime)
    return info


class _Content(io.BytesIO):
    """A file while it is added, filled with zeros; `gap` says why its end is missing."""

    def __init__(self, source: IO[bytes], check: Callable[[], None]) -> None:
        super().__init__()
        self._source = source
        self._check = check
        self.digest = hashlib.sha256()
        self.gap = ""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        self._check()
        content = b""
        try:
            if not self.gap:
                content = self._source.read(size)
                self.gap = "" if len(content) == size else "it became shorter while it was read"
        except OSError as refused:
            self.gap = refused.strerror or str(refused)
        self.digest.update(content)
        return content.ljust(size, b"\0")


class _Contents:
    """Adds the parts of a backup, and remembers what is not in it.

    `check` is called for each piece, and may raise.
    """

    def __init__(
        self, archive: tarfile.TarFile, work: Path, check: Callable[[], None], *, with_keys: bool
    ) -> None:
        self._archive = archive
        self._work = work
        self._check = check
        self._with_keys = with_keys
        self._files: list[BackedUpFile] = []
        self._left_out: list[str] = []
        self._links: list[str] = []
        self._unread: list[Unread] = []

    def add_all(
        self, paths: DataPaths, environment: Mapping[str, str], now: Callable[[], datetime]
    ) -> Manifest:
        copy, is_running = self._work / DATABASE, running_pid(paths.bot_pid) is not None
        # The database first: a message is committed after its files, so its files are found later.
        with rows_on_server(environment, paths, now) as server:
            snapshot = take_snapshot(paths, copy, now, is_running=is_running, server=server)
        moment = now() if snapshot is None else snapshot.at
        if snapshot is not None:
            self._add_snapshot(copy, snapshot)
        self._add_folder(paths.root)
        self._add_history(paths.root)
        if snapshot is not None:
            for name, path in Transcripts(environment).files_of(snapshot.sessions):
                self._add(f"{TRANSCRIPTS}/{name}", path)
        return Manifest(
            version=__version__,
            made_at=moment.astimezone(UTC),
            zone=str(moment.tzinfo or UTC),
            host=platform.node(),
            data_directory=str(paths.root),
            schema=0 if snapshot is None else snapshot.schema,
            with_keys=self._with_keys,
            files=tuple(self._files),
            left_out=tuple(sorted(self._left_out)),
            links=tuple(sorted(self._links)),
            unread=tuple(self._unread),
        )

    def _add_snapshot(self, copy: Path, snapshot: Snapshot) -> None:
        self._add(f"{DATA}/state/{DATABASE}", copy)
        moment = int(snapshot.at.timestamp())
        for name, content in sorted(snapshot.mirrors.items()):
            path = f"{DATA}/state/{name}"
            self._add_content(path, len(content), 0o600, moment, io.BytesIO(content))

    def _add_folder(self, root: Path) -> None:
        """Add the files below `root` by their content."""

        def refused(error: OSError) -> None:
            self._miss(f"{DATA}/{Path(error.filename).relative_to(root)}", error)

        for relative in files_below(root, refused):
            if kind_of(relative) is Kind.KEY and not self._with_keys:
                self._left_out.append(str(relative))
            else:
                self._add(f"{DATA}/{relative}", root / relative)

    def _add_history(self, root: Path) -> None:
        """Add the history as a bundle: one consistent file, without settings, hooks or remotes."""
        if not has_repository(root):
            return
        bundle = self._work / HISTORY
        try:
            git = Git(root, limit=GIT_LIMIT).opened()
            if git.run("rev-list", "--all", "--max-count=1"):
                git.run("bundle", "create", "--quiet", str(bundle), "HEAD", "--all")
                self._add(HISTORY, bundle)
        except GitTrouble as trouble:
            self._unread.append(Unread(HISTORY, str(trouble)))

    def _add(self, name: str, path: Path) -> None:
        """Add a file as it is now; one that was removed since it was listed is left out."""
        try:
            descriptor = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        except OSError as error:
            if isinstance(error, UnsuitableFile) or error.errno == errno.ELOOP:
                self._links.append(name.removeprefix(f"{DATA}/"))
            else:
                self._miss(name, error)
            return
        with open(descriptor, "rb") as source:
            status = os.fstat(descriptor)
            size, mtime = status.st_size, int(status.st_mtime)
            self._add_content(name, size, status.st_mode, mtime, source)

    def _add_content(self, name: str, size: int, mode: int, mtime: int, source: IO[bytes]) -> None:
        """Add the first `size` bytes of `source`; the manifest has no entry for one with a gap."""
        content = _Content(source, self._check)
        self._archive.addfile(_member(name, size, mode, mtime), content)
        if content.gap:
            self._unread.append(Unread(name, content.gap))
        else:
            digest = content.digest.hexdigest()
            self._files.append(BackedUpFile(name, size, digest, mode & _FILE_MODES, mtime))

    def _miss(self, name: str, error: OSError) -> None:
        self._unread.append(Unread(name, error.strerror or str(error)))


def _named(whole: Path, folder: Path, name: str | None, made_at: datetime) -> Path:
    """Give the file its name, over nothing that is there."""
    disk, start = OsDisk(), f"ollim-bot-{made_at.strftime(STAMP)}"
    endings = chain([""], (f"-{number}" for number in count(2)))
    names = [name] if name else (f"{start}{ending}.tar.gz" for ending in endings)
    for path in (folder / name for name in names):
        with suppress(FileExistsError):
            disk.link(whole, path)
            disk.sync_folder(folder)
            return path
    raise OllimError(f"{folder / str(name)} exists already. Name a new file, or a folder.")


def backups_in(folder: Path, like: Manifest | None = None) -> list[tuple[Path, Manifest]]:
    """The backups of a folder that have the names we give, the newest first.

    With `like`, only those of the same data directory on the same machine.
    """
    found: list[tuple[Path, Manifest]] = []
    for path in sorted(folder.glob("ollim-bot-*.tar.gz")):
        if _NAME.fullmatch(path.name) and not path.is_symlink():
            with suppress(OSError, BadBackup), opened_backup(path) as backup:
                found.append((path, backup.manifest))
    if like is not None:
        origin = like.host, like.data_directory
        found = [each for each in found if (each[1].host, each[1].data_directory) == origin]
    return sorted(found, key=lambda each: (each[1].made_at, each[0].name), reverse=True)


def _rotated(newest: BackupReport, keep: int) -> Iterator[Path]:
    """Remove all but the `keep` newest complete backups and the one just made."""
    kept = 1
    for path, found in backups_in(newest.path.parent, newest.manifest):
        if path == newest.path:
            continue
        if kept < keep:
            kept += found.is_complete
            continue
        with suppress(OSError):
            path.unlink()
            yield path


# One is made each day, at an idle moment: a machine that was off for a night is not yet late.
_LATE_BACKUP = timedelta(days=2)
_MAKE_BACKUP = "Run `ollim-bot backup`; it says what is wrong."


def check_backup(given: DoctorInput) -> Found:
    folder, now = given.data.paths.backups(), given.local_now
    config = given.read(lambda tx: tx.config.get()) or RuntimeConfig()
    return backups(backups_in(folder), folder, now, is_automatic=config.auto_backup)


def backups(
    found: Sequence[tuple[Path, Manifest]], folder: Path, now: datetime, *, is_automatic: bool
) -> Found:
    """`found` are the backups in `folder`, the newest first."""
    complete = [manifest for _, manifest in found if manifest.is_complete]
    if found and not found[0][1].is_complete:
        gap = found[0][1].unread[0]
        yield warned(f"the newest has gaps: {gap.path} ({gap.reason})")
    if not complete:
        none = warned(f"auto_backup is on, and there is none in {folder}")
        yield none if is_automatic else off("none yet; `ollim-bot backup` makes one")
        return
    newest = complete[0].made_at.astimezone(now.tzinfo)
    when = describe(newest.replace(second=0, microsecond=0), now)
    if is_automatic and now - newest > _LATE_BACKUP:
        yield warned(f"auto_backup is on, and the newest is of {when}")
    else:
        yield passed(f"{counted(len(complete), 'backup')} in {folder}, the newest of {when}")


CHECKS = (Check("backup", check_backup, _MAKE_BACKUP, is_of_machine=True, place=310),)

"""Puts a backup back in the place of the data directory, or tries it out in another place."""

from __future__ import annotations

import errno
import filecmp
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from zoneinfo import ZoneInfo

from ollim_bot.features.doctor.examination import examine
from ollim_bot.features.keeping.backup import (
    DATA,
    GIT_LIMIT,
    HISTORY,
    LEFT_OFF,
    STAMP,
    TRANSCRIPTS,
    BackedUpFile,
    BackupReader,
    BadBackup,
    Brought,
    Manifest,
    Power,
    keys_in,
    opened_backup,
    work_folder,
)
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.errors import BadSettings, OllimError, WriteFailed
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import (
    SizeLimit,
    UnsuitableFile,
    open_file,
    read_file,
    size_in_words,
)
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import counted, shortened
from ollim_bot.kernel.engine.transcripts import Transcripts, is_record_name
from ollim_bot.kernel.store.copies import SinceBackup, mark_restored
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.journal import Git, GitTrouble
from ollim_bot.kernel.store.opening import BALLAST_FILE
from ollim_bot.kernel.store.owner_files import PolicyFile, shipped_hashes
from ollim_bot.kernel.store.questions import DATABASE, reading
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.store.snapshot import MIRROR_FILES, Kind, check_database, folded, kind_of
from ollim_bot.kernel.store.stored_powers import (
    StoredPowers,
    reset_approvals,
    reset_permissions,
    stored_powers,
)
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.registry import may_use
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance, swap_names
from ollim_bot.kernel.values.shared_files import JobFile, JobFolder

# Returns the powers that the owner takes in.
Choose = Callable[[Sequence[Brought]], Set[Power]]


def take_all(_: Sequence[Brought]) -> Set[Power]:
    return frozenset(Power)


def take_none(_: Sequence[Brought]) -> Set[Power]:
    return frozenset()


_SKILLS, _STATE = "skills", "state"
_JOBS = frozenset(kind.plural for kind in JobKind)
# The undo files are of an older version, and nothing reads them.
_KNOWN_STATE = frozenset(
    (
        *(DATABASE, *MIRROR_FILES),
        *("heartbeat", "sentinel.json", "task_ids.json", "google_revoked.json"),
        *("attachments", "calendars", "last_good", "set-aside", "undo", "unseen_changes"),
    )
)
# What the program has set aside is never read again.
_SET_ASIDE = re.compile(r"[\w.-]+\.(?:corrupt|unapplied)-[\w.-]+")
# The engine reads these in any folder.
_INSTRUCTIONS = ("claude.md", "claude.local.md", "agents.md")
_HIDDEN_AND_ORDINARY = (".gitignore",)
ORDINARY = frozenset(
    f".{ending}"
    for ending in (
        *("md", "txt", "csv", "tsv", "log", "pdf", "ics", "eml"),
        *("png", "jpg", "jpeg", "gif", "webp", "heic", "mp3", "m4a", "ogg", "opus", "wav", "mp4"),
    )
)
_LONGEST = 300


def power_of(relative: PurePosixPath) -> Power | None:
    """What a file with this path can do; None for ordinary content."""
    relative = folded(relative)
    parts, name = relative.parts, relative.name
    if parts[0] == ".claude" and len(parts) > 2 and parts[1] in ("agents", _SKILLS):
        return Power.AGENTS if parts[1] == "agents" else Power.SKILLS
    if parts[0] == ".claude" or name in _INSTRUCTIONS:
        return Power.HOOKS
    if kind_of(relative) is Kind.KEY:
        return Power.SERVERS if name.lstrip(".").startswith("mcp.json") else Power.KEYS
    if parts[0] == _STATE:
        is_known = len(parts) > 1 and (parts[1] in _KNOWN_STATE or _SET_ASIDE.fullmatch(parts[1]))
        return None if is_known else Power.POLICY
    if parts[0] == _SKILLS:
        return Power.SKILLS
    if any(part.startswith(".") for part in parts):
        return None if str(relative) in _HIDDEN_AND_ORDINARY else Power.HOOKS
    if parts[0].startswith("tool-policy"):
        return Power.POLICY
    if parts[0] == "downloads" or relative.suffix in ORDINARY:
        return None
    return Power.SERVERS


def powers_brought(
    files: Iterable[BackedUpFile], restored: DataPaths, present: DataPaths | None
) -> list[Brought]:
    """What the files, extracted to `restored`, can do that `present` cannot. Nothing is changed.

    What equals the present file is left out, and so is a subagent of the package. Raises
    `StorageError`.
    """
    shipped = shipped_hashes()
    units: dict[tuple[Power, str], list[str]] = {}
    changed: set[tuple[Power, str]] = set()
    for entry in files:
        top, _, below = entry.path.partition("/")
        if top != DATA:
            continue
        power = _power_in(restored, PurePosixPath(below))
        if power is None or (power is Power.AGENTS and entry.sha256 in shipped):
            continue
        unit = power, _unit(power, PurePosixPath(below))
        units.setdefault(unit, []).append(below)
        if present is None or _sha256(present.root / below) != entry.sha256:
            changed.add(unit)
    found = [
        Brought(power, name, _detail(restored, power, name, paths), tuple(paths))
        for (power, name), paths in units.items()
        if (power, name) in changed
    ]
    found += _brought_in_database(
        stored_powers(restored.state),
        StoredPowers() if present is None else stored_powers(present.state),
    )
    return sorted(found, key=lambda each: (list(Power).index(each.power), each.name))


def leave_off(denied: Sequence[Brought], restored: DataPaths, present: DataPaths | None) -> None:
    """Move what is denied to `LEFT_OFF`; what the present directory has in its place stays."""
    state = None if present is None else present.state
    for each in denied:
        for name in each.files:
            target = restored.root / LEFT_OFF / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.rename(restored.root / name, target)
    for each in denied:
        if present is not None and each.files:
            _keep_present(present.root, restored.root, each)
    powers = {each.power for each in denied if not each.files}
    if Power.SERVERS in powers:
        reset_approvals(restored.state, state)
    if Power.POLICY in powers:
        reset_permissions(restored.state, state, may_use)


def _keep_present(present: Path, restored: Path, denied: Brought) -> None:
    """Copy the present files: those of the same names, or the whole folder of a skill."""
    names = {*denied.files}
    if (present / denied.name).is_dir():
        below = filter(Path.is_file, (present / denied.name).rglob("*"))
        names |= {str(path.relative_to(present)) for path in below}
    for name in sorted(names):
        source, target = present / name, restored / name
        if source.is_file() and not source.is_symlink() and not target.exists():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)
            target.chmod(0o600 | (source.stat().st_mode & 0o100))


def _power_in(restored: DataPaths, relative: PurePosixPath) -> Power | None:
    """The power of a file by its path and, for a job and what becomes one, by its content."""
    power = power_of(relative)
    if power is not None or not (restored.root / relative).is_file():
        return power
    parts = folded(relative).parts
    if parts[:2] == (_STATE, "last_good"):
        parts = parts[2:]
    if len(parts) == 2 and parts[0] in _JOBS:
        return Power.POLICY if _wide_tools(restored, parts, text_of(restored, relative)) else None
    return None


def _wide_tools(restored: DataPaths, parts: Sequence[str], text: str) -> list[str]:
    """The tools of a job that the conversation itself may not use; its path ends in `parts`."""
    folder, name = parts[-2:]
    tools = JobFileChecker(restored).read(JobFile(JobFolder(folder), name), text).tools
    return [tool for tool in tools if not may_use(tool)]


def _unit(power: Power, relative: PurePosixPath) -> str:
    """What is asked about and left off as one: a file, or the folder of a skill."""
    parts = relative.parts
    if power is Power.SKILLS and len(parts) > 2:
        return "/".join(parts[: 3 if parts[0] == ".claude" else 2])
    return str(relative)


def _detail(restored: DataPaths, power: Power, name: str, files: Sequence[str]) -> str:
    path = restored.root / name
    if path.is_dir():
        return counted(len(files), "file")
    parts = PurePosixPath(name).parts
    match power:
        case Power.HOOKS if path.suffix == ".json":
            words = _commands(text_of(restored, name))
        case Power.SERVERS if name == "mcp.json":
            specs = read_servers(restored).specs
            words = [f"{each}: {spec.in_words}" for each, spec in sorted(specs.items())]
        case Power.SERVERS:
            words = ["a file that a program could run or read"]
        case Power.POLICY if name == "tool-policy.yaml":
            policy = PolicyFile(restored, lambda _: None).read()
            lists = (policy.main_more, policy.background_more, policy.background_instead or ())
            words = [f"allows {tool}" for each in lists for tool in each]
        case Power.POLICY if len(parts) > 1 and parts[-2] in _JOBS:
            tools = _wide_tools(restored, parts, text_of(restored, name))
            words = [f"may use {tool}" for tool in tools]
        case Power.KEYS if ".env" in parts[-1]:
            text = text_of(restored, name)
            words = re.findall(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=", text, re.M | re.A)
        case _:
            words = []
    return shortened(", ".join(dict.fromkeys(words)), _LONGEST)


def _commands(text: str) -> list[str]:
    """The command lines that the settings of the engine name, at any depth."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []

    def below(value: object) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, each in value.items():
                if name == "command" and isinstance(each, str):
                    yield f"runs {each}"
                else:
                    yield from below(each)
        elif isinstance(value, list):
            for each in value:
                yield from below(each)

    return list(below(value))


def _brought_in_database(there: StoredPowers, here: StoredPowers) -> Iterator[Brought]:
    if there.mode and there.mode != here.mode:
        later = f"`ollim-bot config set permission_mode {there.mode}`"
        yield Brought(Power.POLICY, "permission_mode", there.mode, later=later)
    if grants := sorted(there.grants - here.grants):
        listed = shortened(", ".join(grants), _LONGEST)
        yield Brought(Power.POLICY, "calls allowed for good", listed, later="the agent asks again")
    if tools := sorted(tool for tool in there.tools - here.tools if not may_use(tool)):
        listed = shortened(", ".join(tools), _LONGEST)
        later = "name them in the reminder's file"
        yield Brought(Power.POLICY, "tools of waiting reminders", listed, later=later)
    if servers := list(there.servers_beyond(here)):
        later = ", ".join(f"`ollim-bot mcp approve {name}`" for name in servers)
        yield Brought(Power.SERVERS, "approved servers", ", ".join(servers), later=later)


def _sha256(path: Path) -> str:
    """The hash of a file; empty if there is none."""
    try:
        with open(open_file(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def text_of(restored: DataPaths, name: str | PurePosixPath) -> str:
    try:
        content = read_file(restored.root / name, SizeLimit.STATE)
        return content.decode("utf-8", "surrogateescape")
    except OSError:
        return ""


_FROM_BACKUP = frozenset((DATABASE, *MIRROR_FILES))
_MOST_LISTED = 20
_LONGEST_LISTED = 80
_STAGING = ".{}.restoring-"
_SPARE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Restored:
    """What came out of a backup.

    `keys` were taken from the present data directory, `missing` keys are in neither. `brought` can
    act, and `left_off` is what of it was not taken in. `notes` are sentences about what is not as
    it was. `aside` is where the former data directory is, and `said` what the owner said after the
    backup, as far as that knows it. `findings` are the doctor's, of a trial.
    """

    manifest: Manifest
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    brought: tuple[Brought, ...] = ()
    left_off: tuple[Brought, ...] = ()
    notes: tuple[str, ...] = ()
    aside: Path | None = None
    said: tuple[str, ...] = ()
    findings: tuple[DoctorFinding, ...] = ()


def restore_into(
    file: Path, root: Path, present: Path | None = None, choose: Choose = take_all
) -> Restored:
    """Restore the backup into the new folder `root`; every byte is checked, and the database.

    Of what can act, and is not so in the data directory `present`, only what `choose` returns comes
    into its place. Keys that are not in the backup come from `present`, if that is given. The
    engine's records wait in `state/` for `place_transcripts`. On any error nothing is left. Raises
    `OllimError`.
    """
    try:
        with opened_backup(file) as backup:
            _check(file, backup.manifest)
            free = shutil.disk_usage(root.parent).free
            needed = backup.manifest.content_bytes + _SPARE
            if needed > free:
                room = f"needs {size_in_words(needed)}, and there are {size_in_words(free)}"
                raise WriteFailed(root, f"{room}. Nothing was changed.")
            root.mkdir(mode=0o700)
            try:
                return _extracted(backup, DataPaths(root), present, choose)
            except BaseException:  # also if interrupted: half a directory must not remain
                shutil.rmtree(root, ignore_errors=True)
                raise
    except (FileNotFoundError, UnsuitableFile) as unfit:
        if unfit.filename == str(file):
            reason = getattr(unfit, "reason", "not there")
            sentence = f"is {reason}. Name a backup, such as ollim-bot-….tar.gz."
            raise BadBackup(file, sentence) from None
        raise _not_written(root, unfit) from unfit
    except OSError as refused:
        raise _not_written(root, refused) from refused


def _check(file: Path, manifest: Manifest) -> None:
    if manifest.schema > SCHEMA:
        newer = f"was made by a newer ollim-bot ({manifest.version}). Update ollim-bot first."
        raise BadBackup(file, newer)
    denied = {*manifest.left_out, *manifest.links}
    gaps = {gap.path for gap in manifest.unread}
    for entry in manifest.files:
        top, _, below = entry.path.partition("/")
        relative = PurePosixPath(below)
        kind = kind_of(relative) if top == DATA else Kind.TAKEN
        is_ours = relative.parent == PurePosixPath("state") and relative.name in _FROM_BACKUP
        is_record = top != TRANSCRIPTS or is_record_name(below)
        if (kind is Kind.REMADE and not is_ours) or not is_record:
            raise BadBackup(file, f"has {entry.path!r:.80}, which no backup has.")
        is_denied = top == DATA and below in denied
        if is_denied or entry.path in gaps or (kind is Kind.KEY and not manifest.with_keys):
            denial = "although its manifest says that this is not in it"
            raise BadBackup(file, f"has {entry.path!r:.80}, {denial}.")


def _not_written(path: Path, refused: OSError) -> WriteFailed:
    where = Path(refused.filename) if isinstance(refused.filename, str) else path
    reason = refused.strerror or str(refused)
    return WriteFailed(where, f"could not be written: {reason}. Nothing was changed.")


def _extracted(
    backup: BackupReader, paths: DataPaths, present: Path | None, choose: Choose
) -> Restored:
    manifest, database = backup.manifest, paths.state / DATABASE
    backup.extract(lambda entry: _opened(paths, entry))
    paths.state.mkdir(mode=0o700, exist_ok=True)
    for entry in manifest.files:
        with suppress(OSError):
            os.utime(_place(paths, entry), (entry.mtime, entry.mtime))
    if database.exists():
        check_database(database, manifest.schema)
    here = None if present is None else DataPaths(present)
    brought = powers_brought(manifest.files, paths, here)
    accepted = choose(brought) if brought else ()
    left_off = tuple(each for each in brought if each.power not in accepted)
    leave_off(left_off, paths, here)
    taken = list[str]()
    if present is not None and not manifest.with_keys:
        for relative in keys_in(present):
            target = paths.root / relative
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(present / relative, target, follow_symlinks=False)
            target.chmod(0o600)
            taken.append(str(relative))
    missing = tuple(name for name in manifest.left_out if name not in taken)
    notes = tuple(_restored_history(paths.root))
    return Restored(manifest, tuple(taken), missing, tuple(brought), left_off, notes)


def _place(paths: DataPaths, entry: BackedUpFile) -> Path:
    top, _, below = entry.path.partition("/")
    # The engine's records wait in `state/` until they are in their folder.
    folders = {DATA: paths.root, TRANSCRIPTS: paths.restored_transcripts}
    return folders[top] / below if top in folders else paths.root / HISTORY


def _opened(paths: DataPaths, entry: BackedUpFile) -> BinaryIO:
    path = _place(paths, entry)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Nothing is for others on the machine to read, and ordinary content is not for running.
    can_act = power_of(PurePosixPath(path.relative_to(paths.root))) is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o700 if can_act and entry.mode & 0o100 else 0o600
    return open(os.open(path, flags, mode), "wb")


def _restored_history(root: Path) -> Iterator[str]:
    """Make the repository of the restored folder; without git the history waits in its file."""
    bundle = root / HISTORY
    if not bundle.exists():
        return
    try:
        git = Git(root, limit=GIT_LIMIT).opened()
        git.run("fetch", "--quiet", "--update-head-ok", str(bundle), "+refs/*:refs/*")
        if head := git.run("ls-remote", str(bundle), "HEAD").decode().split():
            # The branch that HEAD was on: the one with its commit, `main` if there are several.
            at_head = ("--points-at", head[0], "--format=%(refname)", "refs/heads")
            branches = git.run("for-each-ref", *at_head).decode().split()
            if branches:
                main = "refs/heads/main"
                git.run("symbolic-ref", "HEAD", main if main in branches else branches[0])
                git.run("reset", "--quiet")
    except GitTrouble as trouble:
        shutil.rmtree(root / ".git", ignore_errors=True)
        yield f"The history could not be put back, and waits in {HISTORY}: {trouble}"
    else:
        bundle.unlink()


def try_out(file: Path, paths: DataPaths, environ: Mapping[str, str], now: datetime) -> Restored:
    """Restore into a scratch place, check everything, and have the doctor look at it.

    The page, webhooks and Discord are off for the doctor, and so is what can act and the data
    directory of `paths` does not have. Nothing is changed. Raises `OllimError`.
    """
    with tempfile.TemporaryDirectory(prefix="ollim-bot-verify-") as scratch:
        root = Path(scratch) / "data"
        present = paths.root if paths.root.is_dir() else None
        restored = restore_into(file, root, present, take_none)
        # The reserve for a full disk is made by the first start.
        (root / "state" / BALLAST_FILE).touch()
        environ = {**environ, "OLLIM_DATA_DIR": str(root)}
        try:
            settings = Settings.from_env(environ, cwd=root)
            quiet = replace(settings, discord_token=None, web_port=None, webhook_port=None)
            given = DoctorInput(quiet, quiet, (), environ, now)
        except BadSettings as bad:
            place = Location(DataPaths(root), ZoneInfo("UTC"))
            given = DoctorInput(None, place, bad.problems, environ, now)
        return replace(restored, findings=tuple(examine(given, lambda check: check.is_of_machine)))


def restore(
    file: Path,
    paths: DataPaths,
    environment: Mapping[str, str],
    now: datetime,
    choose: Choose,
    *,
    move_rows: Callable[[Path], None] | None = None,
) -> Restored:
    """Put the backup in the place of the data directory, which is moved aside.

    Where machines share a database, `move_rows` moves the rows of the file there before.

    No bot may run. What can act is left off unless `choose` returns it. The next start lists what
    came due since the backup, and repeats nothing. A kill at any moment leaves the former or the
    restored directory in place. Raises `OllimError`.
    """
    root = Path(os.path.realpath(paths.root))
    present = DataPaths(root)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            if present.state.is_dir():
                held.enter_context(single_instance(present.bot_pid))
                held.enter_context(maintenance(present, MaintenanceKind.RESTORE, now))
            work = held.enter_context(work_folder(root.parent, _STAGING.format(root.name)))
            staging = DataPaths(work / root.name)
            former = root if root.is_dir() else left_aside(root)
            restored = restore_into(file, staging.root, former, choose)
            said = _said_since(environment, present, restored.manifest, now)
            rows = staging.state / DATABASE
            if rows.exists():
                made_at, heartbeat = restored.manifest.made_at, HeartbeatFile(staging)
                due_since = min(heartbeat.read() or made_at, made_at)
                mark_restored(rows, made_at, now, SinceBackup(due_since, said))
                heartbeat.write(now)
                if move_rows is not None:
                    move_rows(rows)
                    rows.unlink()
            held.enter_context(single_instance(staging.bot_pid))
            os.sync()
            aside = _exchanged(root, staging.root, now)
            if aside is not None:
                # The moved directory must not tell of a restore that was cut off.
                for record in (DataPaths(aside).maintenance, DataPaths(aside).bot_pid):
                    record.unlink(missing_ok=True)
    except OSError as refused:
        raise _not_written(root, refused) from refused
    notes = place_transcripts(paths, environment, now)
    return replace(restored, notes=(*restored.notes, *notes), aside=aside, said=said)


def refuse_cut_off(paths: DataPaths) -> None:
    """Raise `OllimError` if a restore was cut off where the disk cannot exchange two names.

    A start would make a new data directory between the former and the restored one.
    """
    root = Path(os.path.realpath(paths.root))
    former, staged = left_aside(root), root.parent.glob(f"{_STAGING.format(root.name)}*/*")
    if former is not None and not root.exists() and any(staged):
        raise OllimError(
            f"A restore was cut off, and {root} is not there. Run the restore again, or have what "
            f"was before: mv {former} {root}"
        )


def left_aside(root: Path) -> Path | None:
    """The newest data directory that a restore moved aside."""
    return max(root.parent.glob(f"{root.name}.before-restore-*"), default=None)


def _said_since(
    environment: Mapping[str, str], paths: DataPaths, manifest: Manifest, now: datetime
) -> tuple[str, ...]:
    """The owner's messages that the present database has and the backup does not."""

    def question(tx: Transaction) -> list[str]:
        newer = (each.message for each in tx.messages.since(manifest.made_at))
        return [each.text for each in newer if each.is_typed and each.at > manifest.made_at]

    with reading(environment, paths, now) as ask:
        said = ask(question) or []
    lines = tuple(shortened(" ".join(text.split()), _LONGEST_LISTED) for text in said if text)
    more = len(lines) - _MOST_LISTED
    return lines if more <= 0 else (*lines[:_MOST_LISTED], f"and {more} more")


def _exchanged(root: Path, staging: Path, now: datetime) -> Path | None:
    """Put `staging` in the place of `root`; returns where the former directory is."""
    try:
        if not root.exists() or not any(root.iterdir()):
            os.rename(staging, root)
            return None
        stamp = now.astimezone(UTC).strftime(STAMP)
        aside, number = root.with_name(f"{root.name}.before-restore-{stamp}"), 1
        while os.path.lexists(aside):
            number += 1
            aside = root.with_name(f"{root.name}.before-restore-{stamp}-{number}")
        # The new directory takes the name first: then one step changes the two.
        os.rename(staging, aside)
        is_exchanged = False
        try:
            is_exchanged = swap_names(root, aside)
        finally:
            if not is_exchanged:
                os.rename(aside, staging)
        if not is_exchanged:
            os.rename(root, aside)
            try:
                os.rename(staging, root)
            except OSError:
                os.rename(aside, root)
                raise
        OsDisk().sync_folder(root.parent)
    except OSError as refused:
        reason = refused.strerror or str(refused)
        if refused.errno == errno.EBUSY:
            reason += ", as a mounted folder cannot be moved; name a folder below it"
        sentence = f"could not be moved aside: {reason}. Nothing was changed."
        raise WriteFailed(root, sentence) from refused
    return aside


def place_transcripts(
    paths: DataPaths, environment: Mapping[str, str], now: datetime
) -> tuple[str, ...]:
    """Move the restored records to where the engine looks for them; returns notes on what is not.

    A record of the same session that is there is kept beside it. Each start repeats this until
    nothing is left to move.
    """
    waiting = paths.restored_transcripts
    if not waiting.is_dir():
        return ()
    transcripts = Transcripts(environment)
    target = transcripts.folder_of(paths.root)
    stamp = now.astimezone(UTC).strftime(STAMP)
    try:
        for folder, _, names in os.walk(waiting):
            for name in sorted(names):
                path = Path(folder, name)
                record = target / path.relative_to(waiting)
                record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not record.is_file() or not filecmp.cmp(path, record, shallow=False):
                    temporary = record.with_name(f".{record.name}.tmp")
                    shutil.copy2(path, temporary)
                    put_record(temporary, record, f"before-restore-{stamp}")
                path.unlink()
                if record.parent == target:
                    make_newest(record, transcripts)
        shutil.rmtree(waiting)
    except OSError as refused:
        reason = f"{refused.filename or target}: {refused.strerror}"
        return (f"What the model remembers is not back yet, the next start tries again: {reason}.",)
    return ()


def put_record(new: Path, target: Path, mark: str) -> None:
    """Put a new record in the place of one, which is kept beside it with `mark` in its name."""
    OsDisk().sync(new)
    if target.exists():
        os.rename(target, target.with_name(f"{target.name}.{mark}"))
    os.replace(new, target)


def make_newest(record: Path, transcripts: Transcripts) -> None:
    """Let the record count: of two records of a session in two folders the newer does."""
    if transcripts.find(SessionId(record.stem)) != record:
        record.touch()

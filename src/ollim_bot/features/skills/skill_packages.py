"""Fetches the files of a commit from a git repository of others, which can do nothing here."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import monotonic

from ollim_bot.kernel.base.environment import SESSION, child_environment
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import UnsuitableFile, read_file, size_in_words
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.skill_files import (
    AddedSkill,
    SkillFolder,
    SkillLock,
    digest,
    parsed_skill,
)
from ollim_bot.kernel.upkeep.findings import Check, DoctorInput, Found, failed, passed, warned
from ollim_bot.kernel.upkeep.looks import job_report
from ollim_bot.kernel.values.schedule import key_of
from ollim_bot.kernel.values.shared_files import SKILL_FILE
from ollim_bot.kernel.values.skills import (
    ACTING_FIELDS,
    LARGEST_FILE,
    LARGEST_PACKAGE,
    MOST_FILES,
    NAME,
    Files,
    PackedFile,
    Skill,
    below,
    collision,
    command_lines,
    does_not_load,
    is_left_out,
    may_run_commands,
    skill_folders,
    without_commands,
    wrong_name,
)
from ollim_bot.kernel.values.tool_patterns import is_open, open_problem

LARGEST_ARCHIVE = 20_000_000
_LONGEST_GIT = 60.0
_ACCOUNT = re.compile(r"(?<=://)[^/@\s]*@")
# Nothing of the owner's or of the repository's configuration may run a program or ask a question.
_GIT_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_GIT = ("git", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")


class FetchFailed(OllimError):
    """`str()` says why nothing was fetched."""


def without_account(url: str) -> str:
    """The address without a name and a password."""
    return _ACCOUNT.sub("", url)


def git_archive(url: str, wanted: str) -> tuple[bytes, str]:
    """The files of the commit `wanted`, or of the newest, as a ZIP file, and the commit.

    No working tree is made: hooks, filters, links and submodules of the repository do nothing.
    """
    deadline = monotonic() + _LONGEST_GIT
    with tempfile.TemporaryDirectory(prefix="ollim-skill-") as folder:

        def git(*words: str) -> tuple[int, bytes]:
            return _run_git(words, folder, deadline)

        git("init", "--quiet", "--bare", "--template=")
        shallow = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--", url)
        code, said = git(*shallow, wanted or "HEAD")
        if code and wanted:
            # Many servers do not give out a single commit.
            code, said = git("fetch", "--quiet", "--", url, "+refs/*:refs/fetched/*")
        if code:
            raise FetchFailed(f"git could not fetch {without_account(url)}: {_last_line(said)}")
        code, said = git("rev-parse", "--verify", f"{wanted or 'FETCH_HEAD'}^{{commit}}")
        if code:
            raise FetchFailed(f"There is no commit {wanted} in {without_account(url)}.")
        commit = said.decode("ascii", "replace").strip()
        code, data = git("archive", "--format=zip", commit)
        if code:
            raise FetchFailed(f"git could not read the commit: {_last_line(data)}")
        return data, commit


def _run_git(words: Sequence[str], folder: str, deadline: float) -> tuple[int, bytes]:
    """The exit code and the output, at most as much as an archive may have."""
    try:
        process = subprocess.Popen(
            (*_GIT, "-C", folder, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**child_environment(os.environ, *SESSION), **_GIT_VARIABLES},
            start_new_session=True,
        )
    except OSError as refused:
        raise FetchFailed(f"git could not be started: {refused.strerror}.") from refused
    alarm = Timer(max(0.0, deadline - monotonic()), _kill, (process,))
    alarm.start()
    with process:
        try:
            assert process.stdout is not None
            output = process.stdout.read(LARGEST_ARCHIVE + 1)
            code = process.wait() if len(output) <= LARGEST_ARCHIVE else 0
        finally:
            alarm.cancel()
            _kill(process)
    if len(output) > LARGEST_ARCHIVE:
        raise FetchFailed(f"It is larger than {size_in_words(LARGEST_ARCHIVE)}.")
    if monotonic() >= deadline:
        raise FetchFailed(f"git took longer than {_LONGEST_GIT:.0f} seconds.")
    return code, output


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


_MOST_ENTRIES = 2000
_GIT_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")
_COMMIT = re.compile(r"(?P<url>.+)@(?P<commit>[0-9a-fA-F]{7,64})")
_STAGE = ".adding-"
_REMOVED = ".removed-"


class BadPackage(OllimError):
    """The skill cannot be added; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that can be added. `removed` names what was taken out of it."""

    skill: Skill
    files: Files
    origin: str
    commit: str
    removed: tuple[str, ...]


def candidate(source: str, path: Path) -> Candidate:
    """Read what `source` names; `path` is the same as a path. Raises `OllimError`."""
    if path.is_dir():
        return _checked(dict(_folder_files(path)), str(path.resolve()))
    if path.is_file():
        return _checked(_archive_files(_content(path, LARGEST_ARCHIVE)), str(path.resolve()))
    if not _GIT_URL.fullmatch(source):
        raise BadPackage(f"{source} is no folder, no ZIP file and no address of a git repository.")
    named = _COMMIT.fullmatch(source)
    url, wanted = (named["url"], named["commit"].lower()) if named else (source, "")
    data, commit = git_archive(url, wanted)
    return _checked(_archive_files(data), without_account(url), commit)


def _folder_files(folder: Path) -> Iterator[tuple[str, PackedFile]]:
    total = entries = 0
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not is_left_out(each))
        entries += len(folders) + len(names)
        for name in [*folders, *sorted(names)]:
            path = Path(above, name)
            shown = path.relative_to(folder).as_posix()
            status = os.lstat(path)
            if is_left_out(shown) or stat.S_ISDIR(status.st_mode):
                continue
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise BadPackage(f"{shown} is a link or a special file; a skill has plain files.")
            total += status.st_size
            _refuse_size(shown, status.st_size, total, entries)
            yield (
                shown,
                PackedFile(_content(path, LARGEST_FILE), bool(status.st_mode & stat.S_IXUSR)),
            )


def _content(path: Path, most: int) -> bytes:
    try:
        return read_file(path, most)
    except UnsuitableFile as unfit:
        raise BadPackage(f"{path.name} is {unfit.reason}.") from unfit


def _archive_files(data: bytes) -> dict[str, PackedFile]:
    broken = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return dict(_unpacked(archive))
    except broken as wrong:  # NotImplementedError, for an unknown compression, is a RuntimeError
        raise BadPackage(f"This is no ZIP file that can be unpacked: {wrong}.") from wrong


def _unpacked(archive: zipfile.ZipFile) -> Iterator[tuple[str, PackedFile]]:
    seen: set[str] = set()
    total = 0
    for number, info in enumerate(archive.infolist(), 1):
        path, mode = info.orig_filename, info.external_attr >> 16
        if path in seen:
            raise BadPackage(f"{path!a} stands in it twice.")
        seen.add(path)
        if reason := wrong_name(path.removesuffix("/")):
            raise BadPackage(f"{path!a} {reason}.")
        if info.is_dir() or is_left_out(path):
            continue
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise BadPackage(f"{path} is a link or a special file; a skill has plain files.")
        with archive.open(info) as packed:
            content = packed.read(LARGEST_FILE + 1)
        total += len(content)
        _refuse_size(path, len(content), total, number)
        yield path, PackedFile(content, bool(mode & stat.S_IXUSR))


def _refuse_size(path: str, size: int, total: int, entries: int) -> None:
    if size > LARGEST_FILE:
        raise BadPackage(f"{path} is larger than {size_in_words(LARGEST_FILE)}.")
    if total > LARGEST_PACKAGE:
        raise BadPackage(f"It is larger than {size_in_words(LARGEST_PACKAGE)} in all.")
    if entries > _MOST_ENTRIES:
        raise BadPackage(f"It has more than {_MOST_ENTRIES} files.")


def _checked(files: Files, origin: str, commit: str = "") -> Candidate:
    for path in files:
        if reason := wrong_name(path):
            raise BadPackage(f"{path!a} {reason}.")
    if both := collision(files):
        raise BadPackage(f"{both} are the same name on some disks.")
    folders = skill_folders(files)
    if not folders:
        raise BadPackage(f"There is no {SKILL_FILE} in it.")
    if len(folders) > 1:
        named = ", ".join(folders[:8])
        raise BadPackage(f"It has several skills: {named}. Add the folder of the one you want.")
    own = below(files, folders[0])
    if len(own) > MOST_FILES:
        raise BadPackage(f"It has more than {MOST_FILES} files.")
    skill, text, removed = _normalised(own[SKILL_FILE].data)
    return Candidate(skill, {**own, SKILL_FILE: PackedFile(text)}, origin, commit, removed)


def _normalised(data: bytes) -> tuple[Skill, bytes, tuple[str, ...]]:
    """The skill and its text, without what could act by itself, and what that was."""
    try:
        text = data.decode("utf-8-sig")
        document = frontmatter.parse(text)
        acting = [name for name in document.fields if name.casefold() in ACTING_FIELDS]
        text = frontmatter.edited(text, dict.fromkeys(acting))
    except UnicodeDecodeError:
        raise BadPackage(f"{SKILL_FILE} is not UTF-8 text.") from None
    except BadDocument as bad:
        where = SKILL_FILE if bad.line is None else f"{SKILL_FILE}:{bad.line}"
        raise BadPackage(f"{where}: {bad.reason}.") from bad
    except frontmatter.CannotEdit as unclear:
        raise BadPackage(f"{SKILL_FILE}: {unclear}.") from unclear
    commands = [f"!`{each}`" for each in command_lines(text) if each.strip("! \t")]
    lines = zip(text.split("\n"), without_commands(text).split("\n"), strict=True)
    commands = commands or [before.strip() for before, after in lines if before != after]
    text = without_commands(text)
    if may_run_commands(text):
        raise BadPackage(f"{SKILL_FILE}: its command lines cannot be taken out. Remove them first.")
    named = document.fields.get("name")
    name = (named.text or "") if named is not None else ""
    if not NAME.fullmatch(name):
        raise BadPackage(f"{SKILL_FILE}: name: takes letters, digits, - and _, at most 64.")
    skill = parsed_skill(name, text.encode())
    if not isinstance(skill, Skill):
        raise BadPackage("\n".join(f"{each}." for each in skill))
    return skill, text.encode(), (*acting, *commands)


class SkillInstaller:
    """Adds and removes skills, each in one step: a crash leaves all of a skill, or nothing."""

    def __init__(self, paths: DataPaths) -> None:
        self._skills = paths.skills
        self._lock = SkillLock(paths.skills)
        self._file_lock = FileLock(paths.lock_of(paths.skills))

    def add(self, one: Candidate) -> None:
        """Raises `BadPackage` if there is a skill of that name."""
        with self._file_lock.held():
            self._clean()
            self.refuse_taken(one.skill.name)
            stage = self._skills / f"{_STAGE}{secrets.token_hex(4)}"
            _write(stage, one.files)
            files = {path: digest(packed.data) for path, packed in one.files.items()}
            entry = AddedSkill(one.origin, one.commit, files)
            # Before the skill is there, so that none is ever there without its record.
            self._lock.write({**self._lock.read(), one.skill.name: entry})
            os.rename(stage, self._skills / one.skill.name)
            OsDisk().sync_folder(self._skills)

    def remove(self, name: str) -> None:
        """Raises `BadPackage` if there is no such skill."""
        with self._file_lock.held():
            added = self._lock.read()
            folder = self._skills / name
            is_there = bool(NAME.fullmatch(name)) and os.path.lexists(folder)
            if not is_there and name not in added:
                raise BadPackage(f"There is no skill {name}.")
            if is_there:
                os.rename(folder, self._skills / f"{_REMOVED}{secrets.token_hex(4)}")
            if name in added:
                self._lock.write({each: one for each, one in added.items() if each != name})
            self._clean()

    def refuse_taken(self, name: str) -> None:
        taken = {each.name.casefold(): each.name for each in self._skills.glob("*")}
        if name.casefold() in taken:
            there = taken[name.casefold()]
            raise BadPackage(
                f"There is a skill {there} already. Remove it first: ollim-bot skill remove {there}"
            )

    def _clean(self) -> None:
        """Remove what a crash, or a removal, has left."""
        for path in self._skills.glob(".*"):
            if not path.name.startswith((_STAGE, _REMOVED)):
                continue
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)


def _write(stage: Path, files: Mapping[str, PackedFile]) -> None:
    disk = OsDisk()
    stage.mkdir()
    for path, one in files.items():
        target = stage / path
        target.parent.mkdir(parents=True, exist_ok=True)
        disk.write(target, one.data, 0o755 if one.is_executable else 0o644)
        disk.sync(target)
    disk.sync_folder(stage)


_COMPARE = "If it was not you, `ollim-bot skill remove` and `ollim-bot skill add` bring it back."
_NO_EFFECT = "Leave it, it is for another program; `ollim-bot skill list` shows all skills."
_MEND_SKILL = "Mend the file; `ollim-bot skill list` shows whether the agent sees the skill."


def check_skills(given: DoctorInput) -> Found:
    skills = SkillFolder(given.data.paths.skills).read()
    for name, problems in skills.broken.items():
        yield failed(does_not_load(name, "; ".join(problems)))
    for difference in SkillLock(given.data.paths.skills).differences():
        yield warned(difference, _COMPARE)
    for skill in skills.loaded.values():
        yield from (warned(warning, _NO_EFFECT) for warning in skill.warnings)
        for tool in filter(is_open, skill.tools):
            yield warned(f"the skill {skill.name}: {open_problem(tool)}")
    for job in (one.item for form in JOB_TYPES.values() for one in job_report(given, form).jobs):
        key = key_of(job)
        for name in skills.unusable(job.spec.skills):
            if name not in skills.broken:
                take_out = f"take the name out: `ollim-bot {key.kind} show {key.id}`."
                step = f"Write skills/{name}/SKILL.md, or {take_out}"
                yield warned(f"{key} names the skill {name}, which is not there", step)
    count = len(skills.loaded)
    yield passed(counted(count, "skill") if count else "none")


CHECKS = (Check("skills", check_skills, _MEND_SKILL, place=150),)

"""Checks job files before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.document import BadDocument, Document
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.job_folder import JobFileIndex
from ollim_bot.kernel.store.job_formats import FieldProblem
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.skill_files import TOOLS, SkillFolder, read_document
from ollim_bot.kernel.values.job_fields import WrongValue, words
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.shared_files import FileReading, JobFile, JobFolder, SharedFile
from ollim_bot.kernel.values.skills import SkillSet

_FORMS = {JobFolder(kind.plural): form for kind, form in JOB_TYPES.items()}


class JobFileChecker:
    """Knows the rules by which the job and skill files of a data directory are read."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._root = paths.root
        self._disk = disk or OsDisk()
        self._skills = SkillFolder(paths.skills)
        self._folders = {
            name: JobFileIndex(paths.root / name, form, self._disk) for name, form in _FORMS.items()
        }

    def text(self, file: SharedFile) -> str | None:
        """The present content of the file; None if there is none. Raises `Unreadable`."""
        return text_at(self._disk, self._root / str(file))

    def read(self, file: JobFile, text: str) -> FileReading:
        """Parse `text` as that file. Changes nothing."""
        try:
            _refuse_bytes(text)
            document = frontmatter.parse(text)
        except BadDocument as bad:
            return FileReading(_sentences(file, [FieldProblem(bad.reason, None, bad.line)]))
        if file.is_skill:
            skill = read_document(PurePosixPath(file.name).parent.name, text, document)
            line = skill.tools_line
            return FileReading(_sentences(file, skill.problems), None, skill.tools, line)
        tools, line = _tools(document)
        reading = _FORMS[file.folder].read(document)
        set_by, untrusted = _said(document, "set-by"), _said(document, "untrusted")
        sentences = _sentences(file, reading.problems)
        return FileReading(sentences, reading.job, tools, line, set_by, untrusted)

    def tools_of_skills(self, names: Sequence[str]) -> tuple[str, ...]:
        """The patterns that these skills add to a job."""
        return self._skills.read().tools_of(names) if names else ()

    def unusable_skills(self, names: Sequence[str]) -> Sequence[str]:
        """A sentence for each of these skills that does not load."""
        skills = self._skills.read() if names else SkillSet()
        return [f"{name} {skills.why_unusable(name)}" for name in skills.unusable(names)]

    def others_with(self, file: JobFile, job_id: str) -> Sequence[str]:
        """Other files of the same folder that have the id."""
        return [
            str(JobFile(file.folder, name))
            for name, each in self._folders[file.folder].look().items()
            if each.content.job_id == job_id and name != file.name
        ]


def text_at(disk: Disk, path: Path) -> str | None:
    """The content of a file, with undecodable bytes preserved; None if there is no file.

    Raises `Unreadable`.
    """
    try:
        return disk.read(path, SizeLimit.JOB).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise Unreadable(path, f"cannot be read: {refused.strerror}.") from refused


def _refuse_bytes(text: str) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise BadDocument(line, "is not UTF-8 text") from None
    if size > SizeLimit.JOB:
        raise BadDocument(None, f"is larger than {SizeLimit.JOB} bytes")


def _sentences(file: JobFile, problems: Sequence[FieldProblem]) -> tuple[str, ...]:
    return tuple(problem.sentence(str(file)) for problem in problems)


def _said(document: Document, name: str) -> str:
    field = document.fields.get(name)
    return "" if field is None else str(field.value)


def _tools(document: Document) -> tuple[tuple[str, ...], int | None]:
    field = document.fields.get(TOOLS)
    if field is None:
        return (), None
    try:
        return words(field), field.line
    except WrongValue:
        return (), field.line

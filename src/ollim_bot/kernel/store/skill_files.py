"""The skills of a data directory, and the lock of those that were added."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile, read_file
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.codecs.plain import PLAIN
from ollim_bot.kernel.store.document import FIRST_LINE, BadDocument, Document, Field
from ollim_bot.kernel.store.file_store import FORMAT, Malformed, parse_json, render_json
from ollim_bot.kernel.store.files import (
    SHARED,
    FileReadings,
    OsDisk,
    SeenFile,
    Stamp,
    stamp,
    stamps,
    touched,
    write_atomically,
)
from ollim_bot.kernel.store.job_formats import FieldProblem
from ollim_bot.kernel.values.job_fields import WrongValue, one_line, words
from ollim_bot.kernel.values.shared_files import SKILL_FILE, JobFile, JobFolder
from ollim_bot.kernel.values.skills import (
    ACTING_FIELDS,
    LONGEST_DESCRIPTION,
    NAME,
    Skill,
    SkillSet,
    command_lines,
    does_not_load,
    patterns_in,
)
from ollim_bot.kernel.values.tool_patterns import problems

_LARGEST_HASHED = 25_000_000


@dataclass(frozen=True, slots=True)
class AddedSkill:
    """`files` has the SHA-256 of each file by its path. `commit` is empty if it has none."""

    origin: str
    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Lock:
    skills: Mapping[str, AddedSkill] = field(default_factory=dict)


class SkillLock:
    """`skills` is the folder of all skills. Changes are made under the lock of that folder."""

    def __init__(self, skills: Path) -> None:
        self._skills = skills
        self.path = skills / "skills.lock"

    def read(self) -> Mapping[str, AddedSkill]:
        """The added skills by their names. Raises `Unreadable`."""
        try:
            return PLAIN.read(_Lock, parse_json(read_file(self.path, SizeLimit.STATE))).skills
        except FileNotFoundError:
            return {}
        except (OSError, Malformed) as unread:
            raise Unreadable(self.path, f"cannot be read: {unread}.") from unread

    def write(self, added: Mapping[str, AddedSkill]) -> None:
        lock = PLAIN.write(_Lock(dict(sorted(added.items()))))
        data = render_json({"version": FORMAT} | lock, indent=2) + b"\n"
        write_atomically(OsDisk(), self.path, data, SHARED)

    def differences(self) -> list[str]:
        """A sentence for each file of an added skill that is not as it was added."""
        try:
            added = self.read()
        except Unreadable as unread:
            return [str(unread)]
        return [each for name, one in added.items() for each in self._changed(name, one)]

    def stamps(self) -> object:
        """Differs from an earlier one if an added skill may have changed since."""
        try:
            folders = [self._skills / name for name in self.read()]
        except Unreadable as unread:
            return str(unread)
        files = (folder / each for folder in folders for each in _files(folder))
        return stamps((self.path, *files))

    def _changed(self, name: str, added: AddedSkill) -> Iterator[str]:
        where = f"skills/{name}"
        found = {*_files(self._skills / name)}
        if not found:
            yield f"{where} was added from {added.origin} and is gone."
            return
        for path in sorted(found | added.files.keys()):
            if path not in found:
                yield f"{where}/{path} is gone since the skill was added."
            elif path not in added.files:
                yield f"{where}/{path} was not there when the skill was added."
            elif digest_at(self._skills / name / path) != added.files[path]:
                yield f"{where}/{path} was changed since the skill was added."


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def digest_at(path: Path) -> str:
    """The digest of a file; empty if it cannot be read."""
    try:
        return digest(read_file(path, _LARGEST_HASHED))
    except OSError:
        return ""


def _files(folder: Path) -> Iterator[str]:
    """All that is in the folder but folders, without following links."""
    for above, _, names in os.walk(folder):
        yield from (Path(above, name).relative_to(folder).as_posix() for name in names)


TOOLS = "allowed-tools"
_REQUIRED = ("name", "description")
# Fields for people only, without an effect.
_FOR_PEOPLE = ("license", "version", "metadata", "compatibility")
# A field, a continuation, a comment or an empty line, for which every YAML reader agrees.
_PLAIN_LINE = re.compile(r"[A-Za-z_-]+:(?:\s.*)?|(?:\s|- |#).*|")
# Other programs write `Bash(git:*)` for what is `Bash(git *)` here.
_PREFIX_FORM = re.compile(r"(Bash\([^()]*):\*\)")


@dataclass(frozen=True, slots=True)
class SkillReading:
    """`problems` keep a skill from loading; `warnings` do not."""

    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()
    tools: tuple[str, ...] = ()
    tools_line: int | None = None


def read_document(name: str, text: str, document: Document) -> SkillReading:
    """Check the skill in the folder `name`, whose `document` was read from `text`."""
    fields = document.fields
    wrong = [FieldProblem("is missing", each) for each in _REQUIRED if each not in fields]
    warnings: list[FieldProblem] = []
    for field_name, given in fields.items():
        if reason := _wrong(field_name, given, name):
            wrong.append(FieldProblem(reason, field_name, given.line))
        elif field_name not in (*_REQUIRED, TOOLS, *_FOR_PEOPLE):
            warnings.append(FieldProblem("has no effect here", field_name, given.line))
    wrong += _unclear_lines(text, {field.line for field in fields.values()})
    tools = fields.get(TOOLS)
    if tools is None:
        return SkillReading(tuple(wrong), tuple(warnings))
    named: tuple[str, ...] = ()
    with suppress(WrongValue):
        named = _tools(tools)
    return SkillReading(tuple(wrong), tuple(warnings), named, tools.line)


def _unclear_lines(text: str, lines_of_fields: set[int]) -> Iterator[FieldProblem]:
    """Lines that another reader could take for a field, or for the end of all fields."""
    head = takewhile(lambda line: line.rstrip() != "---", text.split("\n")[1:])
    for number, line in enumerate(head, FIRST_LINE):
        may_be_field = line[:1].isalpha() and number not in lines_of_fields
        if may_be_field or "---" in line or not _PLAIN_LINE.fullmatch(line.rstrip("\r")):
            yield FieldProblem("each field stands in one plain line of its own", None, number)


def _wrong(name: str, field: Field, folder: str) -> str:
    if name.casefold() in ACTING_FIELDS:
        return "would make the engine act by itself; remove it"
    try:
        match name:
            case "name":
                value = one_line(field)
                if value != folder:
                    return f"must be the name of its folder, {folder}"
                return "" if NAME.fullmatch(value) else "takes letters, digits, - and _, at most 64"
            case "description":
                return _wrong_description(one_line(field))
            case "allowed-tools":
                errors = [each for one in _tools(field) for each in problems(one).errors]
                return " ".join(errors).removesuffix(".")
    except WrongValue as wrong:
        return str(wrong)
    return ""


def _wrong_description(value: str) -> str:
    if not value:
        return "is empty; say in one line what the skill is for"
    too_long = len(value) > LONGEST_DESCRIPTION
    return f"is longer than {LONGEST_DESCRIPTION} characters" if too_long else ""


def _tools(field: Field) -> tuple[str, ...]:
    """Read a list, or a text such as `Read, Bash(git status)`. Raises `WrongValue`."""
    found = patterns_in(field.value) if isinstance(field.value, str) else words(field)
    return tuple(_PREFIX_FORM.sub(r"\1 *)", each) for each in found)


def parsed_skill(name: str, data: bytes) -> Skill | tuple[str, ...]:
    """The skill in the folder `name`, or sentences on why it does not load."""
    file = str(JobFile(JobFolder.SKILLS, f"{name}/{SKILL_FILE}"))
    try:
        text = data.decode("utf-8-sig")
        document = frontmatter.parse(text)
    except UnicodeDecodeError:
        return (f"{file}: is not UTF-8 text",)
    except BadDocument as bad:
        return (FieldProblem(bad.reason, None, bad.line).sentence(file),)
    reading = read_document(name, text, document)
    if reading.problems:
        return tuple(problem.sentence(file) for problem in reading.problems)
    return Skill(
        name,
        one_line(document.fields["description"]),
        sha256(data).hexdigest()[:16],
        reading.tools,
        command_lines(document.body),
        tuple(warning.sentence(file) for warning in reading.warnings),
    )


def skill_at(skills: Path, name: str) -> Skill | tuple[str, ...]:
    """As `parsed_skill`, from the disk as it is now."""
    file = str(JobFile(JobFolder.SKILLS, f"{name}/{SKILL_FILE}"))
    if not NAME.fullmatch(name):
        return (f"skills/{name}: a name takes letters, digits, - and _, at most 64",)
    try:
        return parsed_skill(name, read_file(skills / name / SKILL_FILE, SizeLimit.SKILL))
    except FileNotFoundError:
        return (f"{file}: is not there",)
    except UnsuitableFile as unfit:
        return (f"{file}: is {unfit.reason}",)
    except OSError as refused:
        return (f"{file}: cannot be read: {refused.strerror}",)


class SkillFolder:
    """Reads the skills of a data directory; only changed files are read again.

    `tell` gets a sentence for each skill that does not load, and for each file of an added skill
    that is not as it was added, once for each change. Callable from any thread.
    """

    def __init__(self, skills: Path, tell: Callable[[str], None] | None = None) -> None:
        self._skills = skills
        self._tell = tell
        self._files = FileReadings(self._listed, partial(skill_at, skills))
        self._known: Mapping[str, SeenFile[Skill | tuple[str, ...]]] = {}
        self._found = SkillSet()
        self._added = SkillLock(skills)
        self._added_stamps: object = ""
        self._lock = threading.Lock()

    def read(self) -> SkillSet:
        with self._lock:
            if self._tell is not None and (added := self._added.stamps()) != self._added_stamps:
                self._added_stamps = added
                for difference in self._added.differences():
                    self._tell(f"{difference} `ollim-bot skill check` shows it.")
            known, self._known = self._known, self._files.look()
            if self._known is not known:
                self._take(touched(known, self._known))
            return self._found

    def _take(self, names: set[str]) -> None:
        skills: dict[str, Skill] = {}
        wrong: dict[str, tuple[str, ...]] = {}
        for name, (_, skill) in self._known.items():
            if isinstance(skill, Skill):
                skills[name] = skill
                continue
            wrong[name] = skill
            if self._tell is not None and name in names:
                self._tell(does_not_load(name, skill[0]))
        self._found = SkillSet(skills, wrong)

    def _listed(self) -> Mapping[str, Stamp]:
        names: list[str] = []
        with suppress(OSError), os.scandir(self._skills) as entries:
            # A hidden folder is no skill.
            names = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
        return {name: stamp(self._skills / name / SKILL_FILE) for name in names}

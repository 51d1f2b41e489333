"""Files that the owner writes for the agent: profile, tool policy, subagents."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import NotAFile, SizeLimit, TooLarge, UnsuitableFile
from ollim_bot.kernel.store.document import FIRST_LINE, BadDocument, Document, Field
from ollim_bot.kernel.store.files import (
    SHARED,
    FileReadings,
    OsDisk,
    SeenFile,
    Stamp,
    create_atomically,
    stamps,
    write_atomically,
)
from ollim_bot.kernel.store.frontmatter import parse
from ollim_bot.kernel.store.job_formats import FieldProblem
from ollim_bot.kernel.store.yaml_fields import yaml_fields
from ollim_bot.kernel.values.job_fields import WrongValue, one_line, words, wrong
from ollim_bot.kernel.values.permissions import Pattern, ToolPolicy
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.runs import Subagent, Subagents
from ollim_bot.kernel.values.shared_files import Profile
from ollim_bot.kernel.values.tool_patterns import problems


class _Unusable(NamedTuple):
    """What is wrong with a file and what to do, without its name.

    `is_passing` says that the same file may be readable next time.
    """

    reason: str
    line: int | None = None
    is_passing: bool = False


class ProfileFiles:
    """Reads the profile before every turn, cheaply: only a changed file is read again."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._paths = (paths.identity, paths.user)
        self._disk = disk or OsDisk()
        self._files = FileReadings(
            partial(stamps, self._paths),
            self._read_file,
            lambda found: not (isinstance(found, _Unusable) and found.is_passing),
        )
        self._good: dict[Path, str] = {}

    def read(self) -> tuple[Profile, tuple[str, ...]]:
        """The profile, and a sentence for each file that cannot be used now.

        For such a file, its last valid text counts. A missing file is empty.
        """
        found, wrong_files = self._files.look(), []
        for path in self._paths:
            content = found[str(path)].content if str(path) in found else ""
            if isinstance(content, str):
                self._good[path] = content
                continue
            where = path.name if content.line is None else f"{path.name}:{content.line}"
            is_known = bool(self._good.get(path))
            until = "its last good text counts" if is_known else "the bot goes on without it"
            wrong_files.append(f"{where}: {content.reason} Until then {until}.")
        identity, user = (self._good.get(path, "") for path in self._paths)
        return Profile(identity, user), tuple(wrong_files)

    def _read_file(self, name: str) -> str | _Unusable:
        try:
            raw = self._disk.read(Path(name), SizeLimit.PROFILE)
        except FileNotFoundError:
            if Path(name).is_symlink():
                return _Unusable("is a link that leads nowhere. Mend or remove it.")
            raise
        except NotAFile:
            return _Unusable("is not a file. Move it away.")
        except TooLarge as large:
            return _Unusable(f"is {large.reason}. Make it shorter.")
        except OSError as refused:
            reason = refused.strerror or str(refused)
            return _Unusable(f"cannot be read: {reason}. Mend that.", is_passing=True)
        return _decoded(raw)


def _decoded(raw: bytes) -> str | _Unusable:
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        return _Unusable("has a zero byte in it. Save it as plain text.", line)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return _Unusable("is not UTF-8 text. Save it as UTF-8.", line)


BUNDLED = Path(__file__).resolve().parent.parent / "texts" / "agents"
# The hash of every text that was ever installed, one a line, as `sha256sum` writes them.
_SHIPPED = BUNDLED / "shipped.sha256"
_FIELDS = ("name", "description", "model", "tools")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_MODEL = re.compile(r"[\w.:@/-]{1,100}")
_CALLERS_MODEL = "inherit"
_ALL_TOOLS = "*"
_BETWEEN_TOOLS = re.compile(r",(?![^()]*\))")
# Also a name that only the engine can read.
_ENGINES_NAME = re.compile(r"^name:[ \t]*([^\s()]+)[ \t]*$", re.MULTILINE)
_MOST_FILES = 100


def install_subagents(folder: Path, disk: Disk) -> None:
    """Create the missing files of the package, and bring unedited ones up to date."""
    shipped = shipped_hashes()
    for source in sorted(BUNDLED.glob("*.md")):
        target, content = folder / source.name, source.read_bytes()
        if not os.path.lexists(target):
            create_atomically(disk, target, content, SHARED)
        elif _is_outdated(target, content, shipped, disk):
            write_atomically(disk, target, content, SHARED)


def shipped_hashes() -> set[str]:
    """The SHA-256 of every text that the package has or had."""
    return {line.split()[0] for line in _SHIPPED.read_text().splitlines()}


def _is_outdated(target: Path, content: bytes, shipped: set[str], disk: Disk) -> bool:
    """Whether the file is an older text of the package, as it was installed."""
    if target.is_symlink():
        return False
    try:
        present = disk.read(target, SizeLimit.PROFILE)
    except OSError:
        return False
    return present != content and hashlib.sha256(present).hexdigest() in shipped


class _AgentText(NamedTuple):
    text: str = ""
    problem: str = ""

    def document(self) -> Document:
        if self.problem:
            raise BadDocument(None, self.problem)
        return parse(self.text)


class SubagentFiles:
    """Reads the subagents cheaply: only after a change are the files read again.

    Callable from any thread.
    """

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._root = paths.root
        self._folder = paths.claude_agents
        self._disk = disk or OsDisk()
        self._files = FileReadings(self._listed, self._read_file)
        self._known: tuple[Mapping[str, SeenFile[_AgentText]], Subagents] = {}, Subagents()

    def read(self) -> Subagents:
        found = self._files.look()
        known, subagents = self._known
        if found is not known:
            subagents = self._read_all(found)
            self._known = found, subagents
        return subagents

    def _listed(self) -> Mapping[str, Stamp]:
        # The engine looks into the folders below as well.
        return stamps(sorted(self._folder.rglob("*.md"))[:_MOST_FILES])

    def _read_all(self, found: Mapping[str, SeenFile[_AgentText]]) -> Subagents:
        known: dict[str, Subagent] = {}
        wrong_files: list[str] = []
        warnings: list[str] = []
        hidden: list[str] = []
        for name, (_, read) in found.items():
            file = Path(name)
            shown = str(file.relative_to(self._root))
            try:
                document = read.document()
                one = _subagent(document, file.stem)
                if one.name in known:
                    raise BadDocument(None, f"there is another subagent called {one.name}")
            except BadDocument as bad:
                wrong_files.append(FieldProblem(bad.reason, None, bad.line).sentence(shown))
                hidden += _ENGINES_NAME.findall(read.text)
                continue
            known[one.name] = one
            warnings += (warning.sentence(shown) for warning in _without_effect(document))
        return Subagents(
            known,
            tuple(f"{problem}." for problem in wrong_files),
            tuple(f"{warning}." for warning in warnings),
            tuple(name for name in dict.fromkeys(hidden) if name not in known),
        )

    def _read_file(self, name: str) -> _AgentText:
        try:
            return _AgentText(self._disk.read(Path(name), SizeLimit.PROFILE).decode("utf-8-sig"))
        except UnsuitableFile as unfit:
            return _AgentText(problem=f"it is {unfit.reason}")
        except UnicodeDecodeError:
            return _AgentText(problem="it is not UTF-8 text")
        except OSError as refused:
            return _AgentText(problem=f"it cannot be read: {refused.strerror}")


def subagent_in(text: str, stem: str) -> Subagent | None:
    """The subagent of a file with this name; None if it is wrong, or the engine may act on it."""
    try:
        document = parse(text)
        return None if any(_without_effect(document)) else _subagent(document, stem)
    except BadDocument:
        return None


def _subagent(document: Document, stem: str) -> Subagent:
    """Raises `BadDocument`."""
    if not document.body:
        raise BadDocument(None, "it says nothing below its fields")
    name = _read(document.fields, "name", _name)
    if name != stem:
        line = document.fields["name"].line
        raise BadDocument(line, f"name: must be the name of its file, {stem}")
    return Subagent(
        name,
        _read(document.fields, "description", one_line),
        document.body,
        _read(document.fields, "model", _model) if "model" in document.fields else "",
        _tools(document.fields),
    )


def _read(fields: Mapping[str, Field], name: str, reader: Callable[[Field], str]) -> str:
    if name not in fields:
        raise BadDocument(None, f"{name}: is missing")
    try:
        return reader(fields[name])
    except WrongValue as bad:
        raise BadDocument(fields[name].line, f"{name}: {bad}") from None


def _name(field: Field) -> str:
    value = one_line(field)
    if not _NAME.fullmatch(value):
        raise wrong(field, "lower-case letters, digits and hyphens, at most 50")
    return value


def _model(field: Field) -> str:
    value = one_line(field)
    if not _MODEL.fullmatch(value):
        raise wrong(field, "a model such as haiku, or inherit")
    return "" if value == _CALLERS_MODEL else value


def _tools(fields: Mapping[str, Field]) -> tuple[Pattern, ...] | None:
    """None if the fields set no limit."""
    field = fields.get("tools")
    if field is None or field.value == _ALL_TOOLS:
        return None
    try:
        if isinstance(field.value, list):
            written = words(field)
        else:
            written = tuple(each.strip() for each in _BETWEEN_TOOLS.split(one_line(field)))
    except WrongValue as bad:
        raise BadDocument(field.line, f"tools: {bad}") from None
    if errors := [error for each in written for error in problems(each).errors]:
        raise BadDocument(field.line, f"tools: {' '.join(errors).removesuffix('.')}")
    return tuple(Pattern.of(each) for each in written)


def _without_effect(document: Document) -> Iterator[FieldProblem]:
    for name, field in document.fields.items():
        if name not in _FIELDS:
            known = ", ".join(_FIELDS)
            yield FieldProblem(f"has no effect here; a subagent takes {known}", name, field.line)


_PARTS: Mapping[str, tuple[str, ...]] = {
    "main-session": ("additional_allowed",),
    "bg-forks": ("additional_allowed", "override"),
}


class PolicyFile:
    """Reads the policy at every tool call, cheaply: only a changed file is read again.

    While the file is invalid, its last valid content counts; `tell` gets the problem, once for each
    change. Callable from any thread.
    """

    def __init__(
        self, paths: DataPaths, tell: Callable[[str], None], disk: Disk | None = None
    ) -> None:
        self._tell = tell
        self._disk = disk or OsDisk()
        self._files = FileReadings(partial(stamps, [paths.tool_policy]), self._read_file)
        self._known: Mapping[str, SeenFile[ToolPolicy | str]] | None = None
        self._policy = ToolPolicy()
        # A call that comes while another reads the changed file must not get the policy before it.
        self._lock = threading.Lock()

    def read(self) -> ToolPolicy:
        with self._lock:
            found = self._files.look()
            if found is not self._known:
                self._known = found
                read = next((each.content for each in found.values()), ToolPolicy())
                if isinstance(read, str):
                    self._tell(read)
                else:
                    self._policy = read
            return self._policy

    def _read_file(self, name: str) -> ToolPolicy | str:
        """The policy, or a sentence on what is wrong with the file."""
        path = Path(name)
        try:
            return _policy(self._text(path))
        except BadDocument as bad:
            where = "" if bad.line is None else f":{bad.line - FIRST_LINE + 1}"
            kept = "Until it is mended, what was allowed before counts."
            return f"{path.name}{where}: {bad.reason}. {kept}"

    def _text(self, path: Path) -> str:
        try:
            return self._disk.read(path, SizeLimit.POLICY).decode("utf-8-sig")
        except FileNotFoundError:
            raise
        except NotAFile:
            raise BadDocument(None, "it is not a file") from None
        except TooLarge as large:
            raise BadDocument(None, f"it is {large.reason}") from None
        except UnicodeDecodeError:
            raise BadDocument(None, "it is not UTF-8 text") from None
        except OSError as refused:
            raise BadDocument(None, f"it cannot be read: {refused.strerror}") from refused


def policy_in(text: str) -> ToolPolicy:
    """The policy of the text; one that cannot be read allows nothing more."""
    try:
        return _policy(text.removeprefix("\ufeff"))
    except BadDocument:
        return ToolPolicy()


def _policy(text: str) -> ToolPolicy:
    fields = yaml_fields(text)
    for name, field in fields.items():
        if name not in _PARTS:
            known = " and ".join(part.replace("-", "_") for part in _PARTS)
            raise BadDocument(field.line, f"{name} is not known; it takes {known}")
    lists = {
        (part, key): _patterns(fields[part].value, part, key, fields[part].line)
        for part, keys in _PARTS.items()
        if part in fields
        for key in keys
    }
    return ToolPolicy(
        main_more=lists.get(("main-session", "additional_allowed")) or (),
        background_more=lists.get(("bg-forks", "additional_allowed")) or (),
        background_instead=lists.get(("bg-forks", "override")),
    )


def _patterns(value: object, part: str, key: str, line: int) -> tuple[str, ...] | None:
    name = part.replace("-", "_")
    if not isinstance(value, Mapping):
        raise BadDocument(
            line, f'{name} takes lists, such as {_PARTS[part][0]}: ["Read(./**.txt)"]'
        )
    if unknown := [each for each in value if each not in _PARTS[part]]:
        raise BadDocument(line, f"{name}: {unknown[0]} is not known")
    given = value.get(key)
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BadDocument(line, f"{name}.{key} takes a list of patterns")
    wrong = [error for each in given for error in problems(each).errors]
    if wrong:
        raise BadDocument(line, f"{name}.{key}: {wrong[0].rstrip('.')}")
    return tuple(given)

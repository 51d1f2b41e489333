"""Files that the owner writes for the agent: profile, tool policy, subagents."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ollim_bot.domain.permissions import Pattern, ToolPolicy
from ollim_bot.domain.runs import Subagent, Subagents
from ollim_bot.domain.shared_files import Profile
from ollim_bot.domain.tool_patterns import problems
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import NotAFile, SizeLimit, TooLarge, UnsuitableFile
from ollim_bot.ports import Disk
from ollim_bot.store.document import FIRST_LINE, BadDocument, Document, Field
from ollim_bot.store.files import SHARED, OsDisk, create_atomically, write_atomically
from ollim_bot.store.frontmatter import parse
from ollim_bot.store.job_formats import FieldProblem, WrongValue, one_line, words, wrong
from ollim_bot.store.yaml_fields import yaml_fields

# Two changes within the clock's resolution look like one, so a file this fresh is read again.
_GRAIN_NS = 100_000_000

_ProfileFingerprint = tuple[int, int, int, int]


class ProfileFiles:
    """Reads the profile before every turn, cheaply: only a changed file is read again."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        disk = disk or OsDisk()
        self._identity = _ProfileFile(paths.identity, disk)
        self._user = _ProfileFile(paths.user, disk)

    def read(self) -> tuple[Profile, tuple[str, ...]]:
        """The profile, and a sentence for each file that cannot be used now.

        For such a file, its last valid text counts. A missing file is empty.
        """
        files = (self._identity, self._user)
        identity, user = (file.read() for file in files)
        return Profile(identity, user), tuple(file.problem for file in files if file.problem)


class _Unusable(Exception):
    """`str()` says what is wrong with the file and what to do, without its name.

    `is_passing` says that the same file may be readable next time.
    """

    def __init__(self, reason: str, *, line: int | None = None, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.is_passing = is_passing


class _ProfileFile:
    def __init__(self, path: Path, disk: Disk) -> None:
        self.problem = ""
        self._path = path
        self._disk = disk
        self._good: str | None = None
        self._known: _ProfileFingerprint | None = None

    def read(self) -> str:
        now, fingerprint = time.time_ns(), None
        with suppress(OSError):
            status = os.stat(self._path)
            fingerprint = status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino
        if fingerprint is None or fingerprint != self._known:
            is_settled = self._look()
            is_old = fingerprint is not None and abs(now - fingerprint[0]) > _GRAIN_NS
            self._known = fingerprint if is_settled and is_old else None
        return self._good or ""

    def _look(self) -> bool:
        """Read the file; False if a second look at the same file may have another result."""
        try:
            self._good, self.problem = self._text(), ""
        except _Unusable as unusable:
            self.problem = self._sentence(unusable)
            return not unusable.is_passing
        return True

    def _text(self) -> str:
        raw = self._bytes()
        if b"\0" in raw:
            line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
            raise _Unusable("has a zero byte in it. Save it as plain text.", line=line)
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise _Unusable("is not UTF-8 text. Save it as UTF-8.", line=line) from None

    def _bytes(self) -> bytes:
        try:
            return self._disk.read(self._path, SizeLimit.PROFILE)
        except FileNotFoundError:
            if self._path.is_symlink():
                raise _Unusable("is a link that leads nowhere. Mend or remove it.") from None
            return b""
        except NotAFile:
            raise _Unusable("is not a file. Move it away.") from None
        except TooLarge as large:
            raise _Unusable(f"is {large.reason}. Make it shorter.") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise _Unusable(f"cannot be read: {reason}. Mend that.", is_passing=True) from refused

    def _sentence(self, unusable: _Unusable) -> str:
        where = self._path.name if unusable.line is None else f"{self._path.name}:{unusable.line}"
        until = "its last good text counts" if self._good else "the bot goes on without it"
        return f"{where}: {unusable} Until then {until}."


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

_SubagentFingerprint = tuple[tuple[str, int, int, int, int], ...]


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


class SubagentFiles:
    """Reads the subagents cheaply: only after a change are the files read again.

    Callable from any thread.
    """

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._root = paths.root
        self._folder = paths.claude_agents
        self._disk = disk or OsDisk()
        self._known: _SubagentFingerprint | None = None
        self._subagents = Subagents()
        self._lock = threading.Lock()

    def read(self) -> Subagents:
        with self._lock:
            # The engine looks into the folders below as well.
            files = sorted(self._folder.rglob("*.md"))[:_MOST_FILES]
            fingerprint = tuple(_fingerprints(files))
            if fingerprint != self._known:
                self._subagents = self._look(files)
                self._known = fingerprint
            return self._subagents

    def _look(self, files: list[Path]) -> Subagents:
        known: dict[str, Subagent] = {}
        wrong_files: list[str] = []
        warnings: list[str] = []
        hidden: list[str] = []
        for file in files:
            shown = str(file.relative_to(self._root))
            text = ""
            try:
                text = self._text(file)
                document = parse(text)
                one = _subagent(document, file.stem)
                if one.name in known:
                    raise BadDocument(None, f"there is another subagent called {one.name}")
            except BadDocument as bad:
                wrong_files.append(FieldProblem(bad.reason, None, bad.line).sentence(shown))
                hidden += _ENGINES_NAME.findall(text)
                continue
            known[one.name] = one
            warnings += (warning.sentence(shown) for warning in _without_effect(document))
        return Subagents(
            known,
            tuple(f"{problem}." for problem in wrong_files),
            tuple(f"{warning}." for warning in warnings),
            tuple(name for name in dict.fromkeys(hidden) if name not in known),
        )

    def _text(self, file: Path) -> str:
        try:
            return self._disk.read(file, SizeLimit.PROFILE).decode("utf-8-sig")
        except UnsuitableFile as unfit:
            raise BadDocument(None, f"it is {unfit.reason}") from None
        except UnicodeDecodeError:
            raise BadDocument(None, "it is not UTF-8 text") from None
        except OSError as refused:
            raise BadDocument(None, f"it cannot be read: {refused.strerror}") from refused


def subagent_in(text: str, stem: str) -> Subagent | None:
    """The subagent of a file with this name; None if it is wrong, or the engine may act on it."""
    try:
        document = parse(text)
        return None if any(_without_effect(document)) else _subagent(document, stem)
    except BadDocument:
        return None


def _fingerprints(files: list[Path]) -> Iterator[tuple[str, int, int, int, int]]:
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            yield str(file), 0, 0, 0, 0
        else:
            times = status.st_mtime_ns, status.st_ctime_ns
            yield str(file), *times, status.st_size, status.st_ino


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

_PolicyFingerprint = tuple[int, int, int]


class PolicyFile:
    """Reads the policy at every tool call, cheaply: only a changed file is read again.

    While the file is invalid, its last valid content counts; `tell` gets the problem, once for each
    change. Callable from any thread.
    """

    def __init__(
        self, paths: DataPaths, tell: Callable[[str], None], disk: Disk | None = None
    ) -> None:
        self._path = paths.tool_policy
        self._tell = tell
        self._disk = disk or OsDisk()
        self._known: _PolicyFingerprint | None = None
        self._policy = ToolPolicy()
        # A call that comes while another reads the changed file must not get the policy before it.
        self._lock = threading.Lock()

    def read(self) -> ToolPolicy:
        with self._lock:
            fingerprint = None
            with suppress(OSError):
                status = os.stat(self._path)
                fingerprint = status.st_mtime_ns, status.st_size, status.st_ino
            if fingerprint != self._known:
                self._known = fingerprint
                self._look()
            return self._policy

    def _look(self) -> None:
        try:
            self._policy = _policy(self._text())
        except BadDocument as bad:
            where = "" if bad.line is None else f":{bad.line - FIRST_LINE + 1}"
            kept = "Until it is mended, what was allowed before counts."
            self._tell(f"{self._path.name}{where}: {bad.reason}. {kept}")

    def _text(self) -> str:
        try:
            return self._disk.read(self._path, SizeLimit.POLICY).decode("utf-8-sig")
        except FileNotFoundError:
            return ""
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

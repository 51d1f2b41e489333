"""What all supervisors share: what they run, what they say, and the files they are given."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.environment import SESSION, child_environment, program_path
from ollim_bot.errors import SupervisorFailed
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.files import SHARED, OsDisk, remove_durably, write_atomically

DATA_DIR = "OLLIM_DATA_DIR"
# A stop may take as long as the bot has to end its work, and a little more.
STOP_SECONDS = 60
_PATIENCE = STOP_SECONDS + 30.0
_MARK = re.compile(r"^.*ollim-bot service install: ([0-9a-f]{16})\b.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServiceDefinition:
    """What a supervisor runs. `environment` is all that the service has beyond a bare login.

    `data_dir` is the folder in which the command starts.
    """

    command: tuple[str, ...]
    data_dir: Path
    environment: Mapping[str, str]

    @property
    def program(self) -> Path:
        return Path(self.command[0])


@dataclass(frozen=True, slots=True)
class InstalledService:
    """`definition` is None if the file cannot be understood.

    `is_ours` if `service install` wrote the file; `is_edited` if it has another content
    than that.
    """

    file: Path
    definition: ServiceDefinition | None
    is_ours: bool
    is_edited: bool


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """What the supervisor says of the bot. `words` are its own.

    `lingers` says whether the service outlives the log-out; None if that is unknown.
    """

    words: str
    is_running: bool
    is_enabled: bool
    pid: int | None = None
    has_given_up: bool = False
    restarts: int = 0
    lingers: bool | None = None


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str], limit: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, and keep what it says.

    Raises `OSError` or `subprocess.TimeoutExpired`.
    """
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=limit,
        check=False,
    )


class SupervisorPrograms:
    """Runs the programs of the supervisor, found by the search path of `environ`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = child_environment(environ, *SESSION, "PAGER", "LESS", "SYSTEMD_*")
        # Programs that no login started lack the variable that leads to the supervisor.
        usual = f"/run/user/{os.getuid()}"
        if not environ.get("XDG_RUNTIME_DIR") and os.path.isdir(usual):
            self._environ["XDG_RUNTIME_DIR"] = usual

    def path(self, name: str) -> str | None:
        return program_path(name, self._environ.get("PATH", ""))

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program to its end. Raises `SupervisorFailed` if it cannot be run."""
        found = self.path(name)
        if found is None:
            raise SupervisorFailed(f"There is no `{name}` on this machine.")
        try:
            return run_to_end((found, *words), self._environ, _PATIENCE)
        except subprocess.TimeoutExpired:
            raise SupervisorFailed(f"`{name}` was not done within {_PATIENCE:g} s.") from None
        except OSError as refused:
            raise SupervisorFailed(f"{found} cannot be run: {refused.strerror}.") from None

    def done(self, name: str, *words: str) -> str:
        """What the program says. Raises `SupervisorFailed` with its reason if it fails."""
        ran = self.run(name, *words)
        if ran.returncode:
            reason = " ".join((ran.stderr or ran.stdout).split()) or f"exit {ran.returncode}"
            raise SupervisorFailed(f"`{name} {' '.join(words)}` failed: {reason.rstrip('.')}.")
        return ran.stdout

    def show(self, command: Sequence[str]) -> None:
        """Run the command with this terminal as its own, until it ends or is interrupted."""
        found = self.path(command[0])
        if found is None:
            raise SupervisorFailed(f"There is no `{command[0]}` on this machine.")
        subprocess.run((found, *command[1:]), env=self._environ, check=False)


def marked(text: str, comment: str) -> str:
    """The text with a first comment that shows later whether it was edited.

    `comment` has `{}` in the place of the mark, and stands behind the lines that must come first.
    """
    first_lines = re.match(r"(?:<[?!].*>\n)*", text)
    at = first_lines.end() if first_lines else 0
    mark = f"Written by ollim-bot service install: {_sum(text)}"
    return f"{text[:at]}{comment.format(mark)}\n{text[at:]}"


def is_ours(text: str) -> bool:
    """Whether `marked` wrote the text, perhaps changed since."""
    return _MARK.search(text) is not None


def is_unchanged(text: str) -> bool:
    """Whether `marked` wrote exactly this text."""
    found = _MARK.search(text)
    return found is not None and found[1] == _sum(_MARK.sub("", text, count=1))


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_of(path: Path) -> str | None:
    """The text of a file; empty if it is no readable text file, None if there is nothing."""
    try:
        return read_file(path, SizeLimit.SETTINGS).decode()
    except FileNotFoundError:
        return "" if path.is_symlink() else None
    except (OSError, ValueError):
        return ""


def installed_service(
    path: Path, definition_in: Callable[[str], ServiceDefinition | None]
) -> InstalledService | None:
    """The service that is installed, read from its file; starts no program."""
    text = text_of(path)
    if text is None:
        return None
    return InstalledService(path, definition_in(text), is_ours(text), not is_unchanged(text))


def backup_name(path: Path) -> Path:
    """A free name beside `path`, which no supervisor reads."""
    number = 1
    while True:
        name = path.with_name(f"{path.name}.bak" if number == 1 else f"{path.name}.bak{number}")
        if not os.path.lexists(name):
            return name
        number += 1


def write_service_files(files: Mapping[Path, str]) -> list[Path]:
    """Write the files. Edited files in their place are renamed; gives their new paths."""
    kept = []
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if (former := set_aside_if_edited(path)) is not None:
            kept.append(former)
        write_atomically(OsDisk(), path, text.encode(), SHARED)
    return kept


def set_aside_if_edited(path: Path) -> Path | None:
    """Rename the file unless it is as `service install` wrote it, or missing."""
    text = text_of(path)
    if text is None or is_unchanged(text):
        return None
    former = backup_name(path)
    os.rename(path, former)
    return former


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """The content of each path: bytes, the target of a link, or None; and the copies beside."""

    contents: Mapping[Path, bytes | str | None]
    copies: frozenset[Path]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> FileSnapshot:
        contents = {path: _content(path) for path in paths}
        return cls(contents, frozenset(_copies(contents)))

    def put_back(self) -> None:
        for path, content in self.contents.items():
            if content is None:
                remove_durably(OsDisk(), path)
            elif isinstance(content, str):
                path.unlink(missing_ok=True)
                os.symlink(content, path)
            elif _content(path) != content:
                write_atomically(OsDisk(), path, content, SHARED)
        for copy in _copies(self.contents):
            if copy not in self.copies:
                remove_durably(OsDisk(), copy)


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """All that an installation changes. `enabled` and `active` are names of the supervisor's."""

    files: FileSnapshot
    enabled: frozenset[str]
    active: frozenset[str]
    lingers: bool | None = None


def _content(path: Path) -> bytes | str | None:
    with suppress(OSError):
        return os.readlink(path)
    try:
        return read_file(path, SizeLimit.SETTINGS)
    except FileNotFoundError:
        return None


def _copies(paths: Iterable[Path]) -> list[Path]:
    return [copy for path in paths for copy in path.parent.glob(f"{path.name}.bak*")]

"""What all supervisors share: what they run, what they say, and the files they are given."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
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


# The bytes of each file, and the target of each link.
Contents = Mapping[Path, bytes | str]


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
        try:
            return run_to_end((self._found(name), *words), self._environ, _PATIENCE)
        except subprocess.TimeoutExpired:
            raise SupervisorFailed(f"`{name}` was not done within {_PATIENCE:g} s.") from None
        except OSError as refused:
            raise SupervisorFailed(f"`{name}` cannot be run: {refused.strerror}.") from None

    def done(self, name: str, *words: str) -> str:
        """What the program says. Raises `SupervisorFailed` with its reason if it fails."""
        ran = self.run(name, *words)
        if ran.returncode:
            reason = " ".join((ran.stderr or ran.stdout).split()) or f"exit {ran.returncode}"
            raise SupervisorFailed(f"`{name} {' '.join(words)}` failed: {reason.rstrip('.')}.")
        return ran.stdout

    def show(self, name: str, *words: str) -> None:
        """Run the program with this terminal as its own, until it ends or is interrupted."""
        subprocess.run((self._found(name), *words), env=self._environ, check=False)

    def _found(self, name: str) -> str:
        if (found := self.path(name)) is None:
            raise SupervisorFailed(f"There is no `{name}` on this machine.")
        return found


class ServiceFiles:
    """The files of the service in `folder`: `names`, the bot's first, and all begin with `stem`."""

    name: str
    names: tuple[str, ...]
    stem: str
    folder: Path

    def __init__(
        self,
        environ: Mapping[str, str],
        definition_in: Callable[[str], ServiceDefinition | None],
        *folder: str,
    ) -> None:
        self._definition_in = definition_in
        self._programs = SupervisorPrograms(environ)
        self._home = Path(environ.get("HOME", "/"))
        self.folder = self._home.joinpath(*folder)

    @property
    def file(self) -> Path:
        """Where the definition of the service is, or would be."""
        return self.folder / self.names[0]

    def installed(self) -> InstalledService | None:
        """The service that is installed, read from its file; starts no program."""
        text = text_of(self.file)
        if text is None:
            return None
        is_edited = not is_unchanged(text)
        return InstalledService(self.file, self._definition_in(text), is_ours(text), is_edited)

    def log_command(self, lines: int, *, follow: bool = False) -> Sequence[str]:
        """The command that shows the last lines of the bot's log."""
        raise NotImplementedError

    def logs(self, lines: int, *, follow: bool = False) -> None:
        """Show the log in this terminal."""
        self._programs.show(*self.log_command(lines, follow=follow))

    def last_lines(self, lines: int) -> list[str]:
        return self._programs.run(*self.log_command(lines)).stdout.splitlines()[-lines:]

    def _ours(self) -> list[str]:
        """The names of the files that `service install` wrote, perhaps changed since."""
        return [name for name in self.names if is_ours(text_of(self.folder / name) or "")]

    def _write(self, files: Mapping[Path, str]) -> list[Path]:
        """Write the files; gives where edited ones are kept."""
        kept = _set_aside_edited(files)
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_atomically(OsDisk(), path, text.encode(), SHARED)
        return kept

    def _remove(self, names: Sequence[str]) -> list[Path]:
        """Remove the files; gives where edited ones are kept."""
        paths = [self.folder / name for name in names]
        kept = _set_aside_edited(paths)
        for path in paths:
            path.unlink(missing_ok=True)
        return kept

    def contents(self) -> Contents:
        """All files of the service, with the copies beside them and the links that enable them."""
        found = [path for path in self.folder.rglob(f"{self.stem}*") if not path.is_dir()]
        return {
            path: os.readlink(path) if path.is_symlink() else read_file(path, SizeLimit.SETTINGS)
            for path in found
        }

    def _put_back_files(self, earlier: Contents) -> None:
        now = self.contents()
        for path in {*now} - {*earlier}:
            remove_durably(OsDisk(), path)
        for path, content in earlier.items():
            if content == now.get(path):
                continue
            if isinstance(content, str):
                path.unlink(missing_ok=True)
                os.symlink(content, path)
            else:
                write_atomically(OsDisk(), path, content, SHARED)


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


def _set_aside_edited(paths: Iterable[Path]) -> list[Path]:
    """Rename the files that are not as `service install` wrote them; gives their new paths."""
    kept = []
    for path in paths:
        text = text_of(path)
        if text is not None and not is_unchanged(text):
            number, former = 1, path.with_name(f"{path.name}.bak")
            while os.path.lexists(former):
                number += 1
                former = path.with_name(f"{path.name}.bak{number}")
            os.rename(path, former)
            kept.append(former)
    return kept

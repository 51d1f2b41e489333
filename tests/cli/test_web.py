"""`ollim-bot web url` prints the way to the page, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.terminal import Terminal, held

ADDRESS = re.compile(r"http://127\.0\.0\.1:8421/\?token=[\w-]{43,}\n")


def test_the_address_is_printed_alone_and_stays_the_same(terminal: Terminal) -> None:
    answer = terminal.run("web", "url")
    assert (answer.code, answer.err) == (0, "")
    assert ADDRESS.fullmatch(answer.out)
    assert terminal.done("web", "url") == answer.out
    kept = terminal.paths.web_token.read_text()
    assert answer.out == f"http://127.0.0.1:8421/?token={kept}"
    assert terminal.paths.web_token.stat().st_mode & 0o777 == 0o600


def test_the_port_is_that_of_the_settings(terminal: Terminal) -> None:
    terminal.environ["OLLIM_WEB_PORT"] = "9000"
    assert terminal.done("web", "url").startswith("http://127.0.0.1:9000/?token=")


def test_a_page_that_is_off_has_no_address(terminal: Terminal) -> None:
    terminal.environ["OLLIM_WEB_PORT"] = "0"
    assert terminal.refused("web", "url").startswith("The page is off: OLLIM_WEB_PORT is 0. Set it")
    assert not terminal.paths.root.exists()


def test_it_works_while_the_bot_runs(terminal: Terminal) -> None:
    first = terminal.done("web", "url")
    with held("bot", terminal.paths.bot_pid):
        assert terminal.done("web", "url") == first


def test_the_secret_is_not_in_the_history(terminal: Terminal) -> None:
    terminal.done("web", "url")
    assert all("web_token" not in line for line in terminal.git("ls-files"))


def test_it_explains_itself(terminal: Terminal) -> None:
    assert "ollim-bot web url" in terminal.done("web", "--help")
    assert "ollim-bot web url" in terminal.done("help", "web", "url")
    assert "  web " in terminal.done("help")


def test_nothing_heavy_is_loaded_for_it(tmp_path: Path) -> None:
    script = (
        "import sys; from ollim_bot.cli.main import main; main(['web', 'url']);"
        "print(sorted(set(sys.modules) & {'aiohttp', 'asyncio', 'logging', 'markdown_it', 'nh3'}))"
    )
    environ = {"OLLIM_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path), "PATH": ""}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".gitignore").touch()
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "[]"

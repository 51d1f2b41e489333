"""What we start gets an environment that was made for it, and none of the bot's secrets."""

from __future__ import annotations

import ast
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError

import pytest
from tests.patience import patience

from ollim_bot.features.doctor.machine_checks import version_of
from ollim_bot.features.install.releases import run_program
from ollim_bot.features.install.service import SYSTEMD, Supervisor
from ollim_bot.features.skills.skill_packages import git_archive
from ollim_bot.features.tool_servers.server_connection import ServerTimeouts, open_connection
from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
from ollim_bot.kernel.base.environment import child_environment
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.engine.bridge import Programs
from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables, log_out, login_status
from ollim_bot.kernel.store.journal import Git
from ollim_bot.kernel.values.ports import SessionSpec, Toolset
from ollim_bot.kernel.values.tool_servers import ServerSpec

SOURCES = Path(__file__).resolve().parents[3] / "src"
STARTS = {
    *("run", "Popen", "call", "check_call", "check_output", "getoutput", "system", "popen"),
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "execlpe", "fork"),
    *("spawnv", "spawnve", "spawnl", "posix_spawn", "posix_spawnp", "forkpty", "run_to_end"),
}
# A file without any of them starts nothing.
WORDS = ("subprocess", "exec", "spawn", "os.fork", "os.system", "popen", "pty.", "run_to_end")
OF_ASYNCIO = {each for each in STARTS if "subprocess" in each}
MAKERS = {"child_environment", "whole_environment"}
# Where the environment stands among the arguments, if it has no name.
PLACES = {"execve": 2, "execvpe": 2, "run_to_end": 1}
OURSELVES = "it is this program, which has all settings"
EXCEPTIONS = {
    ("app/start.py", "run"): OURSELVES,
    ("features/install/updater.py", "start_updater"): OURSELVES,
    ("features/install/updater.py", "running"): OURSELVES,
    ("features/install/updater.py", "_start_bot"): OURSELVES,
    ("features/install/service.py", "examined_by"): OURSELVES,
    ("features/install/service.py", "run_to_end"): "its callers make it, and stand here",
    ("kernel/engine/bridge.py", "run"): "the agent's programs get what was made for the engine",
    ("kernel/engine/die_with_parent.py", "main"): "it passes on what was made for the program",
}


class Start(ast.NodeVisitor):
    """Collects each start of a program with the function that it stands in."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[str, int, ast.expr | None]] = []
        self._functions = [""]
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node.func)
        if name in STARTS:
            named = {each.arg: each.value for each in node.keywords}
            place = PLACES.get(name, len(node.args))
            by_place = node.args[place] if place < len(node.args) else None
            self.found.append((self._functions[-1], node.lineno, named.get("env", by_place)))
        self.generic_visit(node)

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()


def _called(function: ast.expr) -> str:
    """The name of a function that starts a program; empty for others, such as `asyncio.run`."""
    match function:
        case ast.Name(name) if name in STARTS - {"run", "call"}:
            return name
        case ast.Attribute(ast.Name("os" | "subprocess" | "pty"), name) if name in STARTS:
            return name
        case ast.Attribute(_, name) if name in OF_ASYNCIO:
            return name
    return ""


def _is_made(value: ast.expr | None, tree: ast.Module) -> bool:
    """Whether it takes over nothing but what `MAKERS` make, here or where it was assigned."""
    match value:
        case ast.Call(ast.Name(name)):
            return name in MAKERS
        case ast.Dict(keys, values):
            others = [value for key, value in zip(keys, values, strict=True) if key is None]
            return all(ast.unparse(each).isupper() or _is_made(each, tree) for each in others)
        case ast.Name() | ast.Attribute():
            name, given = ast.unparse(value), [*_assigned(tree)]
            made = [each for target, each in given if target == name]
            return bool(made) and all(_is_made(each, tree) for each in made)
    return False


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign):
            yield ast.unparse(each.targets[0]), each.value


def starts() -> Iterator[tuple[str, str, str, bool]]:
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text()
        if not any(word in text for word in WORDS):
            continue
        tree = ast.parse(text)
        file = path.relative_to(SOURCES).as_posix().removeprefix("ollim_bot/")
        for function, line, environment in Start(tree).found:
            yield file, function, f"{file}:{line}", _is_made(environment, tree)


def test_each_program_gets_an_environment_that_was_made() -> None:
    found = [*starts()]
    inherits = {(file, function): where for file, function, where, is_made in found if not is_made}
    assert {where for key, where in inherits.items() if key not in EXCEPTIONS} == set()
    assert EXCEPTIONS.keys() - inherits.keys() == set(), "no exceptions any more"
    assert len(found) > 15


SECRETS = (
    *("DISCORD_TOKEN", "WEBHOOK_SECRET", "GITHUB_HOOK_SECRET", "NTFY_TOKEN", "DATABASE_URL"),
    *("GOOGLE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "PGPASSWORD", "OF_ANOTHER_PROGRAM"),
)
# A program that notes its environment, whatever it is asked.
SPY = '#!/bin/sh\n/usr/bin/env > "$0.environment"\nexit 1\n'


@pytest.fixture
def spies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of spies, in front of the others, in an environment that is full of secrets."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", "notify-send", "systemctl", "pip", "claude"):
        (folder / name).write_text(SPY)
        (folder / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in SECRETS:
        monkeypatch.setenv(name, f"hush of {name}")
    return folder


async def look_at_login(claude: Path) -> None:
    await login_status(os.environ, cli=claude)


async def look_at_version(claude: Path) -> None:
    version_of(claude, os.environ)


async def sign_out(claude: Path) -> None:
    log_out(os.environ, cli=claude)


async def keep_history(git: Path) -> None:
    Git(git.parent).run("status")


async def fetch_skill(_: Path) -> None:
    git_archive("https://127.0.0.1:1/skill.git", "")


async def ask_supervisor(_: Path) -> None:
    Supervisor(SYSTEMD, os.environ).status()


async def notify(_: Path) -> None:
    DesktopNotifier(os.environ).notify("tea", "now")


async def install(pip: Path) -> None:
    run_program((str(pip), "install"), os.environ, patience(), "failed")


async def run_for_the_agent(claude: Path) -> None:
    variables = engine_variables({}, os.environ, claude.parent)
    await Programs(variables, claude.parent).run([str(claude)])


async def start_engine(claude: Path) -> None:
    variables = engine_variables({}, os.environ, claude.parent)
    engine = ClaudeEngine(variables, claude.parent, cli=claude)
    async with engine.open(SessionSpec("Be kind.", claude.parent), Toolset()):
        pass


async def start_server(claude: Path) -> None:
    spec = ServerSpec("spy", (str(claude),))
    async with open_connection(
        spec, DataPaths(claude.parent), os.environ, ServerTimeouts(start=patience())
    ):
        pass


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("program", "start"),
    [
        ("claude", look_at_login),
        ("claude", look_at_version),
        ("claude", sign_out),
        ("claude", run_for_the_agent),
        ("claude", start_engine),
        ("claude", start_server),
        ("git", keep_history),
        ("git", fetch_skill),
        ("systemctl", ask_supervisor),
        ("notify-send", notify),
        ("pip", install),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_no_program_gets_a_secret(
    spies: Path, program: str, start: Callable[[Path], Awaitable[None]]
) -> None:
    with suppress(OllimError, SubprocessError):  # the spy only fails
        await start(spies / program)
    got = (spies / f"{program}.environment").read_text()
    assert "HOME=" in got
    assert "hush of" not in got


def test_the_environment_has_what_every_program_may_have_and_what_is_named() -> None:
    given = (
        "HOME",
        "LC_TIME",
        "https_proxy",
        "PIP_INDEX_URL",
        "UV_CACHE_DIR",
        "LC",
        "SSH_AUTH_SOCK",
    )
    environ = dict.fromkeys((*given, *SECRETS), "x")
    made = child_environment(environ, "PIP_*", "UV_CACHE_DIR")
    assert made.keys() == {"HOME", "LC_TIME", "https_proxy", "PIP_INDEX_URL", "UV_CACHE_DIR"}

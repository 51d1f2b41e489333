"""Everything that the doctor can find wrong comes with the command that is the next step.

`look` and `told` hold it for all findings of the other tests; here are those that only it produces.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from zoneinfo import ZoneInfo

import pytest
from tests.features.doctor.doctor_table import COMMAND, look, told
from tests.kernel.base.machine import FakeMachine
from tests.kernel.store.files.data_directory import NOW, DataDirectory

from ollim_bot.features.doctor import data_checks as data
from ollim_bot.features.doctor.examination import MODULES, checks
from ollim_bot.features.phone.pairing import phone
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.http_exchange import HttpAnswer
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret, Settings
from ollim_bot.kernel.store import state_inspection
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.store.skill_files import AddedSkill, SkillLock
from ollim_bot.kernel.upkeep import findings
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level
from ollim_bot.kernel.values.push import Pairing
from ollim_bot.kernel.values.surface_state import PushState
from ollim_bot.kernel.values.tool_servers import ToolServerRecord
from ollim_bot.surfaces.discord.account import discord_account

Findings = Iterator[DoctorFinding]


def write(paths: DataPaths, relative: str, text: str) -> Path:
    path = paths.root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def given(paths: DataPaths) -> DoctorInput:
    return DoctorInput(None, Location(paths, ZoneInfo("Europe/Berlin")), (), {}, NOW)


def of_tool_servers(there: DataDirectory) -> Findings:
    paths = there.paths
    write(paths, "mcp.json", '{"mcpServers": {"docs": {"command": "x"}, "a": {"command": "x"}}}')
    paths.mcp.chmod(0o644)
    yield from look(given(paths), "tool servers")
    known = ToolServerRecord().written(read_servers(paths).specs)
    failing = {name: state.failed("does not start") for name, state in known.servers.items()}
    there.run(lambda tx: tx.tool_servers.put(replace(known, servers=failing)), is_holder=True)
    yield from look(given(paths), "tool servers")


def of_files(there: DataDirectory) -> Findings:
    there.paths.gitignore.unlink()
    there.paths.gitignore.mkdir()
    yield from look(given(there.paths), "data directory")
    yield from told("files", data.received_files(there.paths, much=-1))


def of_skills(there: DataDirectory) -> Findings:
    paths = there.paths
    text = "---\nname: mail\ndescription: reads\ncolour: red\n---\nRead.\n"
    write(paths, "skills/mail/SKILL.md", text)
    SkillLock(paths.skills).write({"gone": AddedSkill("x.org", "", {"SKILL.md": "0" * 64})})
    yield from look(given(paths), "skills")


def of_settings(there: DataDirectory) -> Findings:
    place = FakeMachine(there.paths.root)
    own = place.write("OLLIM_USER_NAME=Ada\nDISCORD_TOKN=x\n", folder=place.home / ".ollim-bot")
    own.chmod(0o644)
    some = place.settings(OLLIM_USER_NAME="Bob")
    yield from look(DoctorInput(some, some, (), {}, NOW), "environment")
    wrong = place.problems(OLLIM_WEB_PORT="many")
    yield from look(DoctorInput(None, None, wrong, {}, NOW), "environment")


def answering(*answers: HttpAnswer | OSError) -> Callable[..., HttpAnswer]:
    left = list(answers)

    def ask(_url: str, _headers: object) -> HttpAnswer:
        answer = left.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return ask


def of_discord(_: DataDirectory) -> Findings:
    token, right = Secret("token"), HttpAnswer(200, {"username": "bot"})
    team = HttpAnswer(200, {"team": {"members": [{"user": {"id": "1", "username": "ada"}}]}})
    owned = HttpAnswer(200, {"owner": {"id": "1", "username": "ada"}})
    answers: list[tuple[HttpAnswer | OSError, HttpAnswer, int | None]] = [
        (OSError("away"), right, None),
        (HttpAnswer(401, {}), right, None),
        (HttpAnswer(429, {}), right, None),
        (HttpAnswer(503, {}), right, None),
        (HttpAnswer(404, {}), right, None),
        (right, HttpAnswer(200, {}), None),
        (right, owned, 2),
        (right, team, None),
        (right, team, 2),
    ]
    for first, second, owner in answers:
        answer = answering(first, second)
        yield from told("Discord", [discord_account(token, owner, None, answer)])


def of_the_phone(there: DataDirectory) -> Findings:
    paths = there.paths
    write(paths, "state/push.json", "{}").chmod(0o644)
    yield from look(given(paths), "phone")
    pairing = Pairing("https://ntfy.example.org", "topic", "replies", NOW - timedelta(days=8))
    healthy, state = HttpAnswer(200, {"healthy": True}), PushState()
    answers = (healthy, OSError("away"), HttpAnswer(503, None), HttpAnswer(200, {"x": 1}))
    for ask in [answering(answer) for answer in answers]:
        yield from told("phone", phone(pairing, state, "https://x.org", NOW, ask))
    pressed = PushState(last_press=NOW - timedelta(days=6))
    (right,) = phone(pairing, pressed, None, NOW, answering(healthy))
    assert right.level is Level.PASS


def of_a_shared_database(there: DataDirectory) -> Findings:
    environ = {"OLLIM_DATA_DIR": str(there.paths.root), "DATABASE_URL": "postgresql:///x?host=/no"}
    settings = Settings.from_env(environ, cwd=there.paths.root)
    here = replace(given(there.paths), settings=settings, environ=environ)
    (there.paths.state / DATABASE).touch()
    yield from look(here, "database", "copies")


def of_the_database(there: DataDirectory) -> Findings:
    there.run(lambda tx: tx.session.put(SessionId("abc")), is_holder=True)
    there.run(lambda tx: tx.messages.prepare_search(is_supported=False))
    yield from look(given(there.paths), "database")
    with closing(sqlite3.connect(there.paths.state / DATABASE)) as connection:
        connection.execute("PRAGMA user_version=1")
    yield from look(given(there.paths), "database")


@pytest.mark.parametrize(
    "case",
    [
        *(of_tool_servers, of_files, of_skills, of_settings, of_discord, of_the_phone),
        *(of_a_shared_database, of_the_database),
    ],
)
def test_each_finding_has_a_command(
    case: Callable[[DataDirectory], Findings], tmp_path: Path
) -> None:
    found = list(case(DataDirectory(tmp_path)))
    assert {each.level for each in found} - {Level.PASS, Level.OFF}


# In these, no finding has a step of its own: it is that of the row.
BY_ROW = {"features.keeping.backup", "features.tasks.checks"}
NAMES = [f"ollim_bot.{name}" for name in MODULES if name not in BY_ROW]


@pytest.mark.parametrize("name", [*NAMES, findings.__name__, state_inspection.__name__])
def test_each_step_has_a_command_in_its_words(name: str) -> None:
    steps = list(steps_in(import_module(name)))
    assert steps
    assert [ast.unparse(call) for call, words in steps if not COMMAND.search(words)] == []


def test_the_step_of_each_row_has_a_command() -> None:
    steps = [check.next for check in checks() if check.next]
    assert [step for step in steps if not COMMAND.search(step)] == []
    assert {check.name for check in checks() if check.next} >= {"bot", "service", "sentinel"}


_MAKERS = re.compile(r"^(?:warned|failed|StateProblem)$|failed if ")


def steps_in(module: ModuleType) -> Iterator[tuple[ast.Call, str]]:
    """Each call that makes a finding with a step of its own, and all texts that this may have."""
    tree = ast.parse(Path(module.__file__ or "").read_text())
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
            # What mends itself names the command that does, and an attribute is made elsewhere.
            has_step = len(call.args) == 2 and not isinstance(call.args[1], ast.Attribute)
            if has_step and _MAKERS.search(ast.unparse(call.func)):
                yield call, words_of(function, module)


def words_of(node: ast.AST, module: ModuleType) -> str:
    """All texts in it, with the constants of the module."""
    inside = list(ast.walk(node))
    known = (getattr(module, each.id, "") for each in inside if isinstance(each, ast.Name))
    literals = (each.value for each in inside if isinstance(each, ast.Constant))
    return "\n".join(each for each in (*known, *literals) if isinstance(each, str))

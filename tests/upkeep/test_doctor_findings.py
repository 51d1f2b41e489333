"""Everything that the doctor can find wrong comes with the command that is the next step."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FrameType, ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.domain.ledger_scene import Scene, routine
from tests.environment.machine import FakeMachine
from tests.google.scene import google_scene
from tests.storage.data_directory import NOW, DataDirectory, QuickDisk
from tests.upkeep.doctor_table import look, told
from tests.upkeep.test_doctor_backup import FOLDER, GAP
from tests.upkeep.test_doctor_backup import made as backup_made
from tests.upkeep.test_doctor_webhooks import FREE_TEXT, OFFLINE, hook

from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.presence import Presence, Version
from ollim_bot.domain.provider import NO_LOGIN
from ollim_bot.domain.push import Pairing
from ollim_bot.domain.surface_state import PushState
from ollim_bot.domain.tool_servers import ToolServerRecord
from ollim_bot.domain.travel import PlannedZone
from ollim_bot.environment import Location
from ollim_bot.errors import SignInNeeded
from ollim_bot.paths import DataPaths
from ollim_bot.settings import Secret, Settings
from ollim_bot.store import state_inspection
from ollim_bot.store.calendars import CalendarFiles
from ollim_bot.store.copies import copy_database
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.journal import open_journal
from ollim_bot.store.opening import open_database
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.server_file import read_servers
from ollim_bot.store.skill_files import AddedSkill, SkillLock
from ollim_bot.upkeep import checks
from ollim_bot.upkeep.checks import data, jobs, machine, network, service
from ollim_bot.upkeep.checks.network import HttpAnswer
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, Level, failed, warned
from ollim_bot.upkeep.examination import CHECKS
from ollim_bot.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    maintenance,
    write_update,
)
from ollim_bot.upkeep.instance import single_instance
from ollim_bot.upkeep.releases import InstalledProgram, InstallKind

EXAMINED: tuple[ModuleType, ...] = (*(data, jobs, machine, network), state_inspection)
Findings = Iterator[DoctorFinding]
COMMAND = re.compile(
    r"`(?:/restart\b|(?:sudo )?(?:apt|chmod|chown|df|du|git|kill|loginctl|ls|mv|ollim-bot|openssl"
    r"|pipx|rm|timedatectl|touch)\b)"
)
DAY = timedelta(days=1)


def write(paths: DataPaths, relative: str, text: str) -> Path:
    path = paths.root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def given(paths: DataPaths) -> DoctorInput:
    return DoctorInput(None, Location(paths, ZoneInfo("Europe/Berlin")), (), {}, NOW)


def of_the_bot(there: DataDirectory) -> Findings:
    crashed = Presence(version="0.1", failure="The disk is full.", failed_at=NOW)
    pid_file, cut_off = there.paths.bot_pid, Presence(running_since=NOW)
    pid_file.touch()
    yield from told("bot", service.running(7, crashed, NOW - DAY, "0.2", NOW))
    yield from told("bot", service.stopped(cut_off, None, pid_file, NOW))
    yield from told("bot", service.stopped(crashed, NOW, there.paths.heartbeat, NOW))


def of_updates(there: DataDirectory) -> Findings:
    environment = there.paths.root / "env"
    installation = InstalledProgram(InstallKind.PIP, environment, Version(0, 12, 0))
    installation.beside.mkdir(parents=True)
    record = UpdateRecord("0.12.0", "0.13.0", "a", "b", NOW - DAY, Phase.SWITCHED)
    write_update(there.paths, record)
    yield from look(given(there.paths), "update")
    returned = replace(record, phase=Phase.RETURNED, reason="no")
    yield from told("update", service.of_the_last(returned, NOW))
    yield from told("update", service.of_installation(installation, Version(0, 13, 0)))


def of_the_history(there: DataDirectory) -> Findings:
    root = there.paths.root
    yield from told("git", data.git_history(root, "git-that-is-not-there"))
    with open_journal(there.paths, on_problem=print) as journal:
        journal.prepare()
    lock = root / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    yield from told("git", data.git_history(root))
    lock.unlink()
    (root / ".git" / "MERGE_HEAD").write_text("0" * 40)
    yield from told("git", data.git_history(root))


def of_files_of_the_owner(there: DataDirectory) -> Findings:
    paths = there.paths
    write(paths, ".claude/agents/a.md", "---\nname: a\ndescription: A.\nhooks: {}\n---\nYou.\n")
    write(paths, ".claude/agents/b.md", "---\nname: b\n---\nYou.\n")
    yield from look(given(paths), "subagents")
    write(paths, "tool-policy.yaml", 'bg_forks:\n  override: ["WebSearch(*)", "mcp__a__*"]\n')
    yield from told("tool policy", data.tool_policy(paths))
    write(paths, "tool-policy.yaml", "main_sesion: {}\n")
    yield from told("tool policy", data.tool_policy(paths))
    paths.tasks.mkdir()
    yield from look(given(paths), "tasks")


def of_tool_servers(there: DataDirectory) -> Findings:
    paths = there.paths
    write(paths, "mcp.json", '{"mcpServers": {"docs": {"command": "x"}, "a": {"command": "x"}}}')
    paths.mcp.chmod(0o644)
    yield from look(given(paths), "tool servers")
    known = ToolServerRecord().written(read_servers(paths).specs)
    failing = {name: state.failed("does not start") for name, state in known.servers.items()}
    there.run(lambda tx: tx.tool_servers.put(replace(known, servers=failing)), is_holder=True)
    yield from look(given(paths), "tool servers")


def of_calendars(there: DataDirectory) -> Findings:
    copy = CalendarCopy("Work", "x.org (hidden)", as_of=NOW - DAY, limits="Some are cut.")
    CalendarFiles(there.paths).write_copy(copy)
    CalendarFiles(there.paths).write_copy(copy._replace(name="Home").failed("It is gone.", NOW))
    with single_instance(there.paths.bot_pid):
        yield from look(given(there.paths), "calendars")
    next(there.paths.calendars.glob("*.json")).write_text("{")
    yield from look(given(there.paths), "calendars")


def of_copies(there: DataDirectory) -> Findings:
    database = made(there)
    with single_instance(there.paths.bot_pid):
        copy = copy_database(database, NOW - DAY)
        os.utime(database, (NOW.timestamp(), NOW.timestamp()))
        yield from look(given(there.paths), "copies")
    copy.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    yield from look(given(there.paths), "copies")


def made(there: DataDirectory) -> Path:
    there.run(lambda tx: tx.session.put(SessionId("abc")), is_holder=True)
    return there.paths.state / DATABASE


def of_the_folder(there: DataDirectory) -> Findings:
    paths = there.paths
    name, nowhere = "data directory", DataPaths(paths.root / "none")
    yield from told(name, data.data_directory(nowhere, lambda *_: False))
    yield from told(name, data.data_directory(paths, lambda path, _: path != paths.routines))
    for each in (paths.root, paths.state):
        each.chmod(0o755)
    write(paths, "state/web_token", "x").chmod(0o644)
    (paths.locks / "x").mkdir()
    paths.claude_skills.unlink()
    paths.webhook_spec_link.unlink()
    paths.webhook_spec_link.write_text("mine")
    paths.gitignore.write_text("")
    yield from look(given(paths), "data directory")
    paths.gitignore.unlink()
    paths.gitignore.mkdir()
    yield from look(given(paths), "data directory")


def of_another_account(there: DataDirectory) -> Findings:
    try:
        os.chown(there.paths.root, os.geteuid() + 1, -1)
    except PermissionError:
        pytest.skip("only the superuser gives folders away")
    yield from told("data directory", data.data_directory(there.paths))


def of_leftovers(there: DataDirectory) -> Findings:
    paths = there.paths
    for name in ("a.corrupt-20261115T080000.000000Z", "b.unapplied-20261115T080000Z"):
        write(paths, f"state/{name}", "x")
    (paths.root.parent / f"{paths.root.name}.before-restore-20261101T080000Z").mkdir()
    os.utime(write(paths, "state/.config.json.tmp", "x"), (0, 0))
    with maintenance(paths, MaintenanceKind.RESTORE, NOW):
        record = paths.maintenance.read_bytes()
    paths.maintenance.write_bytes(record)
    yield from told("leftovers", data.leftovers(paths, NOW))
    yield from told("files", data.received_files(paths, much=-1))


def of_jobs(there: DataDirectory) -> Findings:
    paths = there.paths
    skill = (
        "---\nname: mail\ndescription: reads\ncolour: red\nallowed-tools: mcp__a__*\n---\nRead.\n"
    )
    write(paths, "skills/mail/SKILL.md", skill)
    write(paths, "skills/tax/SKILL.md", "---\nname: tax\ndescription: x\nhooks: y\n---\n")
    SkillLock(paths.skills).write({"gone": AddedSkill("x.org", "", {"SKILL.md": "0" * 64})})
    cron = '---\nid: {}\ncron: "{}"\n{}\n---\ndo it\n'
    more = "background: true\nskills: [cook]\ncolour: red"
    write(paths, "routines/a.md", cron.format("a", "0 9 * * *", more))
    write(paths, "routines/b.md", cron.format("b", "61 9 * * *", "background: true"))
    yield from look(given(paths), "skills", "routines")


def of_the_ledger(there: DataDirectory) -> Findings:
    scene = Scene()
    scene.put(routine("morning", "30 8 * * *"))
    for _ in range(8):
        scene.wait(DAY)
        scene.checkpoint()
    kept = [row for row in scene.rows if row.occurrence is None]
    there.open(QuickDisk()).ledger.append(*kept)
    yield from look(given(there.paths), "ledger")


def of_the_machine(there: DataDirectory) -> Findings:
    at = given(there.paths)
    yield from look(replace(at, now=datetime(1970, 1, 1, tzinfo=UTC)), "clock")
    HeartbeatFile(there.paths).write(NOW + DAY)
    yield from look(at, "clock")
    there.run(lambda tx: tx.zone.put(PlannedZone("Asia/Tokyo")), is_holder=True)
    with single_instance(there.paths.bot_pid):
        yield from look(at, "time zone")
    yield from told("disk space", [machine.disk_space(0), machine.disk_space(60 * 1000**2)])
    yield from told("memory", [machine.memory(7, 2 * 1000**3)])
    gone = machine.claude_program(there.paths.root / "no-program", {})
    yield from told("Claude program", [machine.claude_program(None, {}), gone])
    yield from look(replace(at, provider=NO_LOGIN), "model")


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
        yield from told("Discord", [network.discord_account(token, owner, None, answer)])


def of_the_phone(there: DataDirectory) -> Findings:
    paths = there.paths
    write(paths, "state/push.json", "{}").chmod(0o644)
    yield from look(given(paths), "phone")
    pairing = Pairing("https://ntfy.example.org", "topic", "replies", NOW - 8 * DAY)
    healthy, state = HttpAnswer(200, {"healthy": True}), PushState()
    answers = (healthy, OSError("away"), HttpAnswer(503, None), HttpAnswer(200, {"x": 1}))
    for ask in [answering(answer) for answer in answers]:
        yield from told("phone", network.phone(pairing, state, "https://x.org", NOW, ask))
    pressed = PushState(last_press=NOW - 6 * DAY)
    (right,) = network.phone(pairing, pressed, None, NOW, answering(healthy))
    assert right.level is Level.PASS


def of_a_shared_database(there: DataDirectory) -> Findings:
    environ = {"OLLIM_DATA_DIR": str(there.paths.root), "DATABASE_URL": "postgresql:///x?host=/no"}
    settings = Settings.from_env(environ, cwd=there.paths.root)
    here = replace(given(there.paths), settings=settings, environ=environ)
    (there.paths.state / DATABASE).touch()
    yield from look(here, "database", "copies")


def of_google(there: DataDirectory) -> Findings:
    with google_scene(there.paths.root / "google") as scene:
        here = replace(given(scene.paths), now=scene.clock.now())
        scene.google.sign_ins.refresh_lasts = timedelta(days=7)
        scene.connect()
        yield from look(here, "Google")
        scene.google.sign_ins.revoke_everything()
        with pytest.raises(SignInNeeded):
            scene.client().call("GET", "/tasks/v1/users/@me/lists")
        yield from look(here, "Google")
        scene.paths.credentials.write_text("{}")
        scene.paths.credentials.chmod(0o644)
        scene.paths.token.write_text("garbage")
        yield from look(here, "Google")


def of_the_page(_: DataDirectory) -> Findings:
    refused, still = ConnectionRefusedError(), HttpAnswer(200, {"heartbeat_age": 900}, "ollim-bot")
    other = HttpAnswer(200, {})
    answers = [(answer, is_running) for answer in (refused, still) for is_running in (True, False)]
    for answer, is_running in [*answers, (other, True), (OSError(), True)]:
        found = network.page(
            1,
            answering(answer),
            is_running=is_running,
            has_discord=False,
            refusal=lambda _: "in use",
        )
        yield from told("page", found)
    nowhere = network.page(None, answering(), is_running=False, has_discord=False)
    yield from told("page", nowhere)
    yield from told("page", [*network.hosts(["x.org"], None), *network.hosts(["0.0.0.0"], 1)])


def of_webhooks(there: DataDirectory) -> Findings:
    place = FakeMachine(there.paths.root)
    folder = place.home / ".ollim-bot" / "webhooks"
    folder.mkdir(parents=True)
    fields = "fields: {type: object}"
    (folder / "ci.md").write_text(f"---\nid: ci\n{fields}\ncolour: red\n---\nLook.\n")
    (folder / "no.md").write_text("---\nid: no\nfields: {type: string}\n---\nLook.\n")
    some = place.settings(WEBHOOK_SECRET="short", WEBHOOK_PORT="9100")
    off = place.settings()
    yield from look(DoctorInput(off, off, (), {}, NOW), "webhooks")
    taken = jobs.port(1, [], answering(), is_running=False, refusal=lambda _: "in use")
    answers = (OSError(), HttpAnswer(200, {}))
    others = [jobs.port(1, [], answering(answer), is_running=True) for answer in answers]
    secrets = [hook(secret_env="CI_SECRET")], [hook(), hook("two")]
    wrong = [each for hooks in secrets for each in jobs.secrets(some, hooks)]
    yield from told("webhooks", [taken, *others, *wrong])
    yield from told("webhooks", jobs.screening([hook(fields=FREE_TEXT)], lambda: OFFLINE))


def of_backups(_: DataDirectory) -> Findings:
    for found in ([], [backup_made(200)], [backup_made(1, GAP)]):
        yield from told("backup", data.backups(found, FOLDER, NOW, is_automatic=True))


def of_the_database(there: DataDirectory) -> Findings:
    paths, path = there.paths, made(there)
    there.run(lambda tx: tx.messages.prepare_search(is_supported=False))
    (paths.state / "ballast").unlink()
    Path(f"{path}.suspect").touch()
    yield from look(given(paths), "database")
    for version in (99, 1):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version={version}")
        yield from look(given(paths), "database")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    yield from look(given(paths), "database")
    path.unlink()
    path.mkdir()
    yield from look(given(paths), "database")


def of_state_files(there: DataDirectory) -> Findings:
    paths = there.paths
    made(there)
    paths.sessions.write_text("by-hand")
    write(paths, "state/config.json", '{"bg_concurrency": 99}')
    write(paths, "state/fork.json", "]")
    write(paths, "state/inquiries.json", '{"version": 99}')
    write(paths, "state/session_history.jsonl", "-\n")
    paths.web_browsers.mkdir()
    yield from look(given(paths), "state files")


def of_a_state_file_behind(there: DataDirectory) -> Findings:
    paths = there.paths
    with closing(
        open_database(paths, lambda: NOW, is_holder=True, report=there.problems.append)
    ) as database:
        database.run(lambda tx: tx.session.put(SessionId("abc")))
        paths.sessions.unlink()
        write(paths, "state/sessions.json/in-the-way", "")
        database.run(lambda tx: tx.session.put(SessionId("def")))
        (paths.sessions / "in-the-way").unlink()
        paths.sessions.rmdir()
        paths.sessions.write_text("abc")
        yield from look(given(paths), "state files")


CASES: tuple[Callable[[DataDirectory], Findings], ...] = (
    *(of_the_bot, of_updates, of_the_history, of_files_of_the_owner, of_tool_servers),
    *(of_calendars, of_copies, of_the_folder, of_another_account, of_leftovers, of_jobs),
    *(of_the_ledger, of_the_machine, of_settings, of_discord, of_the_phone),
    *(of_a_shared_database, of_google, of_the_page, of_webhooks, of_backups),
    *(of_the_database, of_state_files, of_a_state_file_behind),
)


@pytest.mark.real_process
def test_every_finding_of_every_check_has_a_command(tmp_path: Path) -> None:
    found: list[DoctorFinding] = []
    with called_from(warned, failed, state_inspection.StateProblem.__new__) as reached:
        for number, case in enumerate(CASES):
            findings = list(case(DataDirectory(tmp_path / str(number))))
            assert {each.level for each in findings} - {Level.PASS, Level.OFF}, case
            found += findings
    steps = [(each.name, each.next) for each in found if not each.level.is_right]
    assert [step for step in steps if not COMMAND.search(step[1])] == []
    assert sorted(set(source_lines(EXAMINED)) - reached) == []


OTHERS = [
    import_module(f"{checks.__name__}.{each.name}")
    for each in iter_modules(checks.__path__)
    if f"{checks.__name__}.{each.name}" not in {module.__name__ for module in EXAMINED}
]


@pytest.mark.parametrize("module", OTHERS, ids=lambda module: module.__name__)
def test_the_steps_of_the_other_checks_have_a_command_in_their_words(module: ModuleType) -> None:
    """Other tests produce the findings of these modules."""
    found = [call for call in findings_in(module) if len(call.args) > 1]
    assert found
    without = [call for call in found if not COMMAND.search(words_of(call, module))]
    assert [ast.unparse(call) for call in without] == []


def test_the_step_of_each_row_has_a_command() -> None:
    steps = [check.next for check in CHECKS if check.next]
    assert [step for step in steps if not COMMAND.search(step)] == []
    assert {check.name for check in CHECKS if check.next} >= {"bot", "service", "sentinel"}


def words_of(call: ast.Call, module: ModuleType) -> str:
    """All texts that a finding may have, including the constants of the module."""
    names = (node.id for node in ast.walk(call) if isinstance(node, ast.Name))
    known = (getattr(module, name, "") for name in names)
    literals = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant))
    return "\n".join(each for each in (*known, *literals) if isinstance(each, str))


SourceLine = tuple[str, int]
_MAKERS = re.compile(r"^(?:warned|failed|StateProblem)$|failed if ")


@contextmanager
def called_from(*functions: Callable[..., Any]) -> Iterator[set[SourceLine]]:
    """Record the file and line of every call of the functions in this context."""
    codes = {each.__code__ for each in functions}
    reached: set[SourceLine] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes and frame.f_back is not None:
            reached.add((Path(frame.f_back.f_code.co_filename).name, frame.f_back.f_lineno))

    with ExitStack() as stack:
        stack.callback(sys.setprofile, sys.getprofile())
        sys.setprofile(note)
        yield reached


def source_lines(modules: Iterable[ModuleType]) -> Iterator[SourceLine]:
    """The lines that make a finding other than PASS."""
    for module in modules:
        for call in findings_in(module):
            yield Path(module.__file__ or "").name, call.lineno


def findings_in(module: ModuleType) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text())):
        if isinstance(node, ast.Call) and _MAKERS.search(ast.unparse(node.func)):
            yield node

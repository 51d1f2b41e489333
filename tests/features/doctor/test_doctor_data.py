"""What the doctor says of the data directory: jobs, ledger, policy, skills, state, history."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.features.doctor.doctor_table import look, told
from tests.kernel.store.files.data_directory import NOW, DataDirectory, QuickDisk
from tests.kernel.values.ledger_scene import Scene, routine

from ollim_bot import __version__
from ollim_bot.features.doctor.data_checks import git_history, tool_policy
from ollim_bot.features.doctor.examination import examine
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.moments import clock_time
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.store.copies import copy_database
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.journal import open_journal
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.presence import Presence
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent

BERLIN = ZoneInfo("Europe/Berlin")


NOT_RUNNING = (Level.OFF, "not running; `ollim-bot` starts it")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def found(data: DataDirectory, name: str) -> list[DoctorFinding]:
    return look(DoctorInput(None, Location(data.paths, BERLIN), (), {}, NOW), name)


def said(data: DataDirectory, name: str) -> list[tuple[Level, str]]:
    return [(finding.level, finding.detail) for finding in found(data, name)]


def write(data: DataDirectory, relative: str, text: str) -> Path:
    path = data.paths.root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def job(job_id: str, *fields: str) -> str:
    return "\n".join(["---", f"id: {job_id}", *fields, "---", f"do {job_id}", ""])


def test_jobs_are_counted_with_the_next_moment(data: DataDirectory) -> None:
    write(data, "routines/a.md", job("a", 'cron: "0 9 * * *"'))
    write(data, "routines/b.md", job("b", 'cron: "0 8 * * *"', "description: Morning"))
    write(data, "routines/c.md", job("c", 'cron: "0 11 * * *"', "enabled: false"))
    write(data, "reminders/d.md", job("d", 'run-at: "2026-11-15T09:30"'))
    assert said(data, "routines") == [
        (Level.PASS, "3 routines, 1 paused; next tomorrow 8:00 (in 22 h): Morning")
    ]
    assert said(data, "reminders") == [(Level.PASS, "1 reminder, 1 overdue")]


def test_each_wrong_job_is_named_with_file_line_and_reason(data: DataDirectory) -> None:
    write(data, "routines/a.md", job("a", 'cron: "0 9 * * *"'))
    write(data, "routines/b.md", job("b", 'cron: "61 9 * * *"'))
    write(data, "routines/c.md", job("c", 'cron: "0 9 * * *"', "colour: red"))
    wrong, doubtful, right = said(data, "routines")
    assert wrong[0] is Level.FAIL
    assert wrong[1].startswith("routines/b.md:3: cron: ")
    assert doubtful[0] is Level.WARN
    assert doubtful[1].startswith("routines/c.md:4: colour: ")
    assert right == (Level.PASS, "2 routines; next tomorrow 9:00 (in 23 h): do a")


def test_where_every_job_is_wrong_none_is_said_to_be_there(data: DataDirectory) -> None:
    write(data, "routines/b.md", job("b", 'cron: "61 9 * * *"'))
    assert [level for level, _ in said(data, "routines")] == [Level.FAIL]


def test_no_jobs_say_how_to_add_one(data: DataDirectory) -> None:
    ((level, detail),) = said(data, "reminders")
    assert level is Level.PASS
    assert "`ollim-bot reminder add --help`" in detail


def history() -> Scene:
    scene = Scene()
    scene.put(routine("morning", "30 8 * * *"))
    for _ in range(8):
        scene.wait(timedelta(days=1))
        scene.checkpoint()
    return scene


def test_a_right_ledger_passes(data: DataDirectory) -> None:
    assert said(data, "ledger") == [(Level.PASS, "no runs yet")]
    scene = history()
    data.open(QuickDisk()).ledger.append(*scene.rows)
    assert said(data, "ledger") == [
        (Level.PASS, "8 runs, and nothing is missing, doubled or made up")
    ]


def test_what_the_ledger_lacks_is_a_failure_and_not_too_many_are_named(data: DataDirectory) -> None:
    kept = [row for row in history().rows if row.occurrence is None]
    data.open(QuickDisk()).ledger.append(*kept)
    findings = said(data, "ledger")
    assert [level for level, _ in findings] == [Level.FAIL] * 6
    assert findings[0][1].endswith("was due, and nothing is known of it.")
    assert findings[5][1] == "3 more like that"


def test_a_clock_behind_the_heartbeat_is_noticed(data: DataDirectory) -> None:
    later = NOW + timedelta(hours=2)
    HeartbeatFile(data.paths).write(later)
    assert [level for level, _ in said(data, "clock")] == [Level.WARN]


def test_a_tool_policy_passes_warns_or_fails(data: DataDirectory) -> None:
    assert [finding.level for finding in tool_policy(data.paths)] == [Level.PASS]
    write(data, "tool-policy.yaml", 'main_session:\n  additional_allowed: ["Read(./**.txt)"]\n')
    assert said(data, "tool policy") == [(Level.PASS, "1 pattern allowed besides")]
    write(data, "tool-policy.yaml", 'bg_forks:\n  override: ["WebSearch(*)"]\n')
    warning, right = said(data, "tool policy")
    assert warning[0] is Level.WARN
    assert "`WebSearch(*)`" in warning[1]
    assert right[0] is Level.PASS
    write(data, "tool-policy.yaml", "\nmain_sesion: {}\n")
    ((level, detail),) = said(data, "tool policy")
    assert level is Level.FAIL
    assert detail.startswith("tool-policy.yaml:2: ")


@pytest.mark.parametrize(
    ("check", "file", "content"),
    [
        (
            "routines",
            "routines/a.md",
            job("a", 'cron: "0 9 * * *"', "background: true", "allowed-tools: [mcp__home__*]"),
        ),
        (
            "skills",
            "skills/home/SKILL.md",
            "---\nname: home\ndescription: lights\nallowed-tools: mcp__home__*\n---\nDo it.\n",
        ),
        (
            "tool policy",
            "tool-policy.yaml",
            (
                'main_session:\n  additional_allowed: ["mcp__home__d*"]\n'
                'bg_forks:\n  override: ["mcp__home__*"]\n'
            ),
        ),
    ],
)
def test_a_pattern_that_names_no_tool_of_a_server_is_a_warning(
    data: DataDirectory, check: str, file: str, content: str
) -> None:
    write(data, file, content)
    (level, detail), (right, _) = said(data, check)
    assert (level, right) == (Level.WARN, Level.PASS)
    assert "`mcp__home__*` allows a background run nothing, since it names no tool" in detail
    write(data, file, content.replace("mcp__home__*", "mcp__home__lamp"))
    assert [each for each, _ in said(data, check)] == [Level.PASS]


def test_subagents_are_named_and_so_is_what_is_wrong_with_a_file(data: DataDirectory) -> None:
    fields = "name: packer\ndescription: Packs.\nhooks: {}\n"
    write(data, ".claude/agents/packer.md", f"---\n{fields}---\nYou pack.\n")
    write(data, ".claude/agents/wrong.md", "---\nname: wrong\n---\nYou err.\n")
    problem, warning, right = said(data, "subagents")
    assert problem == (Level.FAIL, ".claude/agents/wrong.md: description: is missing.")
    assert warning[0] is Level.WARN
    assert "packer.md:4: hooks: has no effect here" in warning[1]
    assert right[0] is Level.PASS
    assert "packer" in right[1]


def test_a_job_that_may_use_every_command_is_named(data: DataDirectory) -> None:
    tools = ("background: true", 'allowed-tools: ["Bash(*)"]')
    write(data, "routines/a.md", job("a", 'cron: "0 9 * * *"', *tools))
    level, detail = said(data, "routines")[0]
    assert level is Level.FAIL
    assert "allowed-tools: `Bash(*)` would allow every command" in detail


def test_tool_servers_that_are_wrong_or_wait_are_named(data: DataDirectory) -> None:
    assert said(data, "tool servers") == [(Level.PASS, "none")]
    write(data, "mcp.json", '{"mcpServers": {"notes": {"command": "x"}, "docs": {"command": "x"}}}')
    data.paths.mcp.chmod(0o644)
    wrong, is_open, waits = said(data, "tool servers")
    assert wrong[0] is Level.FAIL
    assert wrong[1].startswith("mcp.json:1: docs: the name is that of a server of the program")
    assert is_open == (Level.WARN, "others may read mcp.json")
    assert waits == (Level.WARN, "notes: not approved yet")


def test_calendars_that_fail_or_are_old_are_named(data: DataDirectory) -> None:
    assert said(data, "calendars") == [(Level.OFF, "none; `ollim-bot cal subscribe -` adds one")]
    copy = CalendarCopy("Work", "x.org (hidden)", as_of=NOW - timedelta(hours=2), limits="- cut.")
    CalendarFiles(data.paths).write_copy(copy)
    CalendarFiles(data.paths).write_copy(
        copy._replace(name="Home", limits="").failed("It is gone.", NOW)
    )
    age = f"as of {clock_time((NOW - timedelta(hours=2)).astimezone(BERLIN))}"
    ages = (Level.PASS, f"Home {age}, Work {age}")
    fails, cut = (Level.WARN, "Home cannot be read: It is gone"), (Level.WARN, "Work: - cut")
    assert said(data, "calendars") == [fails, cut, ages]
    with single_instance(data.paths.bot_pid):
        old = (Level.WARN, f"Work was not read for long: {age}")
        assert said(data, "calendars") == [fails, old, cut, ages]
    (path, _) = sorted(data.paths.calendars.glob("*.json"))
    path.write_text("{")
    ((level, detail),) = said(data, "calendars")
    assert level is Level.FAIL
    assert detail.startswith(f"state/calendars/{path.name} cannot be used: not JSON")
    assert path.read_text() == "{"


def test_tasks_are_counted_and_nothing_is_written(data: DataDirectory) -> None:
    assert said(data, "tasks") == [(Level.PASS, "none")]
    write(data, "tasks.md", "- [ ] buy a card\n- [x] call Ada\n")
    assert said(data, "tasks") == [(Level.PASS, "1 open task in tasks.md")]
    assert not data.paths.task_ids.exists()
    data.paths.tasks.write_bytes(b"- [ ] a\0")
    assert said(data, "tasks") == [(Level.FAIL, "tasks.md is not UTF-8 text. Save it as UTF-8.")]


def test_the_running_bot_is_told_of_with_its_version(data: DataDirectory) -> None:
    assert said(data, "bot") == [NOT_RUNNING]
    begun = Presence().begun(NOW, None, __version__)
    data.run(lambda tx: tx.presence.put(begun), is_holder=True)
    HeartbeatFile(data.paths).write(NOW - timedelta(seconds=40))
    pid = os.getpid()
    right = (Level.PASS, f"{__version__} runs as process {pid}")
    with single_instance(data.paths.bot_pid):
        assert said(data, "bot") == [right]
        HeartbeatFile(data.paths).write(NOW - timedelta(minutes=20))
        assert said(data, "bot") == [right]  # it has just been started
        os.utime(data.paths.bot_pid, (0, 0))
        stuck = f"it runs as process {pid}, but has done nothing for 20 min"
        assert said(data, "bot") == [(Level.FAIL, stuck), right]
        HeartbeatFile(data.paths).write(NOW)
        data.run(lambda tx: tx.presence.put(replace(begun, version="0.1.0")))
        other, _ = said(data, "bot")
        assert other == (Level.WARN, f"version 0.1.0 runs, and {__version__} is installed")


def test_how_the_bot_ended_is_told_unless_it_was_stopped(data: DataDirectory) -> None:
    begun = Presence().begun(NOW - timedelta(hours=3), None, __version__)
    failure = begun.ended(for_restart=False).failed("The port is taken.", NOW)
    data.run(lambda tx: tx.presence.put(begun), is_holder=True)
    HeartbeatFile(data.paths).write(NOW - timedelta(hours=1))
    cut_off = (Level.WARN, "it was cut off without warning, last seen today 9:00")
    assert said(data, "bot") == [cut_off, NOT_RUNNING]
    data.paths.bot_pid.write_text("1\n")
    assert said(data, "bot")[0][1] == "state/bot.pid was left behind by a bot that was cut off"
    data.paths.bot_pid.unlink()
    data.run(lambda tx: tx.presence.put(failure))
    told = (Level.WARN, "it ended by itself today 10:00: The port is taken.")
    assert said(data, "bot") == [told, NOT_RUNNING]
    with single_instance(data.paths.bot_pid):
        assert "was started again: The port is taken." in said(data, "bot")[0][1]
    data.run(lambda tx: tx.presence.put(failure.begun(NOW, None).ended(for_restart=False)))
    assert said(data, "bot") == [NOT_RUNNING]


def test_copies_that_are_damaged_or_late_are_named(data: DataDirectory) -> None:
    path = made(data)
    copy = copy_database(path, NOW - timedelta(days=1))
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    right = (Level.PASS, "1, the newest of yesterday 10:00")
    assert said(data, "copies") == [right]
    with single_instance(data.paths.bot_pid):
        late, _ = said(data, "copies")
        assert late[1].startswith("the newest is of yesterday 10:00, though the bot runs")
    copy.write_bytes(copy.read_bytes()[:4096] + b"\xff" * 9000)
    damaged, _ = said(data, "copies")
    assert (damaged[0], "is damaged (" in damaged[1]) == (Level.WARN, True)


def test_data_from_before_a_restore_is_named_after_a_week(data: DataDirectory) -> None:
    root = data.paths.root
    root.with_name(f"{root.name}.before-restore-20261112T090000Z").mkdir()
    assert said(data, "leftovers") == [(Level.PASS, "none")]
    old = root.with_name(f"{root.name}.before-restore-20261101T090000Z")
    old.mkdir()
    assert said(data, "leftovers") == [
        (Level.WARN, f"{old} is the data from before a restore 14 d ago")
    ]


def test_an_update_that_was_cut_off_is_named_and_one_that_goes_on_is_not(
    data: DataDirectory,
) -> None:
    with maintenance(data.paths, MaintenanceKind.UPDATE, NOW):
        record = data.paths.maintenance.read_bytes()
        assert said(data, "leftovers") == [(Level.PASS, "none")]
    data.paths.maintenance.write_bytes(record)
    assert said(data, "leftovers") == [(Level.WARN, "the update of today 10:00 was cut off")]


def test_skills_that_are_wrong_or_missing_are_named(data: DataDirectory) -> None:
    assert said(data, "skills") == [(Level.PASS, "none")]
    write(data, "skills/mail/SKILL.md", "---\nname: mail\ndescription: reads mail\n---\nRead it.\n")
    write(
        data, "routines/a.md", job("a", 'cron: "0 9 * * *"', "background: true", "skills: [mail]")
    )
    assert said(data, "skills") == [(Level.PASS, "1 skill")]
    write(data, "skills/tax/SKILL.md", "---\nname: tax\ndescription: x\nhooks: y\n---\n")
    write(
        data,
        "reminders/b.md",
        job("b", 'run-at: "2026-12-01T09:30"', "background: true", "skills: [mail, cook]"),
    )
    wrong, missing, _ = said(data, "skills")
    assert wrong[0] is Level.FAIL
    assert wrong[1].startswith("The skill tax does not load: skills/tax/SKILL.md:4: hooks: ")
    assert missing == (Level.WARN, "reminder b names the skill cook, which is not there")


@pytest.mark.parametrize(
    ("name", "content", "level", "words"),
    [
        ("sessions.json", b"\xff\xfe", Level.FAIL, "cannot be understood (not UTF-8 text)"),
        ("config.json", b'{"version": 99}', Level.FAIL, "was written by a newer ollim-bot"),
        ("config.json", b'{"bg_concurrency": 99}', Level.WARN, "bg_concurrency"),
        ("pending_updates.json", b"{}", Level.FAIL, "cannot be understood"),
        ("fork_messages.json", b"3", Level.FAIL, "cannot be understood"),
        ("inquiries.json", b"[]", Level.FAIL, "cannot be understood"),
        ("ping_budget.json", b"{}", Level.FAIL, "cannot be understood"),
        ("fork.json", b"]", Level.FAIL, "cannot be understood"),
        ("web_browsers.json", b"]", Level.FAIL, "cannot be understood"),
        ("session_history.jsonl", b"-\n", Level.WARN, "has 1 line that cannot be read"),
    ],
)
def test_a_state_file_that_cannot_be_read_is_named_and_left_as_it_is(
    data: DataDirectory, name: str, content: bytes, level: Level, words: str
) -> None:
    path = data.paths.state / name
    path.write_bytes(content)
    ((seen, detail),) = said(data, "state files")
    assert seen is level
    assert detail.startswith(f"state/{name}")
    assert words in detail
    assert path.read_bytes() == content
    assert not list(data.paths.state.glob("*.corrupt-*"))


def test_a_folder_in_the_place_of_a_state_file_is_a_failure(data: DataDirectory) -> None:
    data.paths.config.mkdir()
    data.paths.session_history.mkdir()
    assert [level for level, _ in said(data, "state files")] == [Level.FAIL, Level.FAIL]


def test_right_state_files_pass_and_a_line_that_is_being_written_is_no_bad_one(
    data: DataDirectory,
) -> None:
    assert said(data, "state files") == [(Level.PASS, "none yet")]

    def step(tx: Transaction) -> None:
        tx.config.change(lambda config: config.with_value("bg_concurrency", "2"))
        tx.session_history.append(SessionEvent(SessionId("s"), SessionChange.CREATED, NOW))

    data.run(step, is_holder=True)
    with data.paths.session_history.open("a") as file:
        file.write('{"session_id": "t", "ev')
    assert said(data, "state files") == [(Level.PASS, "2 files, all readable")]


def made(data: DataDirectory) -> Path:
    """Make a database with a session, and return its path."""
    data.run(lambda tx: tx.session.put(SessionId("abc")), is_holder=True)
    return data.paths.state / DATABASE


def test_a_state_file_that_a_person_changed_is_named(data: DataDirectory) -> None:
    made(data)
    data.paths.sessions.write_text("by-hand")
    assert said(data, "state files") == [(Level.WARN, "state/sessions.json was changed by hand")]
    data.paths.sessions.unlink()
    assert said(data, "state files") == [(Level.WARN, "state/sessions.json was changed by hand")]
    with single_instance(data.paths.bot_pid):
        ((level, detail),) = said(data, "state files")
    assert level is Level.WARN
    assert detail.endswith("was changed while the bot runs, which does not read it")


def test_a_state_file_that_could_not_be_written_is_behind(data: DataDirectory) -> None:
    database = open_database(data.paths, lambda: NOW, is_holder=True, report=data.problems.append)
    database.run(lambda tx: tx.session.put(SessionId("abc")))
    data.paths.sessions.unlink()
    data.paths.sessions.mkdir()
    (data.paths.sessions / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("def")))
    (data.paths.sessions / "in-the-way").unlink()
    data.paths.sessions.rmdir()
    data.paths.sessions.write_text("abc")
    assert said(data, "state files") == [
        (Level.WARN, "state/sessions.json is older than what the bot knows")
    ]
    with single_instance(data.paths.bot_pid):
        assert [level for level, _ in said(data, "state files")] == [Level.PASS]
    database.close()


def test_what_a_hand_edit_replaced_is_named(data: DataDirectory) -> None:
    name = "config.json.unapplied-20261115T090000Z"
    write(data, f"state/{name}", "{}")
    ((level, detail),) = said(data, "leftovers")
    assert level is Level.WARN
    assert (
        detail == f"state/{name} is what the bot knew when a change by hand took its place 0 s ago"
    )


def test_a_database_is_whole_or_not_there_yet(data: DataDirectory) -> None:
    assert said(data, "database") == [(Level.PASS, "none yet; the first start makes it")]
    path = made(data)
    assert said(data, "database") == [(Level.PASS, "whole")]
    ((level, detail),) = said(data, "copies")
    assert (level, detail.startswith("none yet")) == (Level.PASS, True)
    copy_database(path, NOW - timedelta(hours=2))
    assert said(data, "copies") == [(Level.PASS, "1, the newest of today 8:00")]
    copy_database(path, NOW)
    assert said(data, "copies") == [(Level.PASS, "2, the newest of today 10:00")]


def test_a_damaged_database_is_a_failure_and_left_as_it_is(data: DataDirectory) -> None:
    path = made(data)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    before = path.read_bytes()
    (finding,) = found(data, "database")
    assert finding.level is Level.FAIL
    assert finding.detail.startswith("state/ollim.db is damaged (")
    assert f"`touch {path}.suspect`" in finding.next
    assert path.read_bytes() == before


def test_the_step_for_a_damaged_database_lets_a_start_mend_it(data: DataDirectory) -> None:
    path = made(data)
    copy_database(path, NOW)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    Path(f"{path}.suspect").touch()
    assert data.run(lambda tx: tx.session.get(), is_holder=True) == "abc"
    assert [level for level, _ in said(data, "database")] == [Level.PASS]


def test_a_database_of_a_newer_version_is_a_failure(data: DataDirectory) -> None:
    with closing(sqlite3.connect(made(data))) as connection:
        connection.execute("PRAGMA user_version=99")
    ((level, detail),) = said(data, "database")
    assert level is Level.FAIL
    assert detail.startswith("state/ollim.db belongs to a newer ollim-bot (schema 99;")


def test_a_folder_in_the_place_of_the_database_is_a_failure(data: DataDirectory) -> None:
    (data.paths.state / DATABASE).mkdir()
    ((level, detail),) = said(data, "database")
    assert level is Level.FAIL
    assert detail.startswith("state/ollim.db ")


def test_what_belongs_to_the_database_is_looked_at_too(data: DataDirectory) -> None:
    path = made(data)
    (data.paths.state / "ballast").unlink()
    Path(f"{path}.suspect").touch()
    assert said(data, "database") == [
        (Level.FAIL, "state/ollim.db gave an error that a start has to look into"),
        (Level.WARN, "state/ballast, the reserve for a full disk, is missing"),
    ]


@pytest.mark.real_process
def test_git_is_looked_at_and_nothing_is_committed(data: DataDirectory) -> None:
    root = data.paths.root
    (finding,) = told("git", git_history(root))
    assert finding.detail.endswith("the history begins with the first start")
    assert not (root / ".git").exists()
    with open_journal(data.paths, on_problem=print) as journal:
        journal.prepare()
    (finding,) = told("git", git_history(root))
    assert finding.detail.endswith("there is a history, and all is in it")
    write(data, "USER.md", "Ada")
    (finding,) = told("git", git_history(root))
    assert finding.detail.endswith("there is a history, and 1 change not in it yet")
    assert "USER.md" in _git(root, "status", "--porcelain")


@pytest.mark.real_process
def test_no_git_is_a_warning(data: DataDirectory) -> None:
    (finding,) = told("git", git_history(data.paths.root, "git-that-is-not-there"))
    assert finding.level is Level.WARN
    assert "apt install git" in finding.next
    (finding,) = told("git", git_history(data.paths.root / "nowhere"))
    assert finding.level is Level.PASS


@pytest.mark.real_process
def test_an_unfinished_merge_and_an_old_lock_are_warnings(data: DataDirectory) -> None:
    root = data.paths.root
    with open_journal(data.paths, on_problem=print) as journal:
        journal.prepare()
    lock = root / ".git" / "index.lock"
    lock.touch()
    assert [finding.level for finding in told("git", git_history(root))] == [Level.PASS]
    os.utime(lock, (0, 0))
    old, _ = told("git", git_history(root))
    assert (old.level, f"rm {lock}" in old.next) == (Level.WARN, True)
    lock.unlink()
    (root / ".git" / "MERGE_HEAD").write_text(_git(root, "rev-parse", "HEAD"))
    (merge,) = told("git", git_history(root))
    assert merge.level is Level.WARN
    assert "is not finished" in merge.detail


@pytest.mark.real_engine
def test_everything_is_left_as_it_was(data: DataDirectory) -> None:
    with open_journal(data.paths, on_problem=print) as journal:
        journal.prepare()
    data.run(lambda tx: tx.ledger.append(*history().rows), is_holder=True)
    write(data, "routines/b.md", job("b", 'cron: "61 9 * * *"'))
    made(data)
    write(data, "state/config.json", "{torn")
    before = _tree(data.paths.root)
    assert examine(DoctorInput(None, Location(data.paths, BERLIN), (), {}, NOW))
    assert _tree(data.paths.root) == before


@pytest.mark.real_engine
def test_nothing_there_at_all_passes_everywhere(tmp_path: Path) -> None:
    place = Location(DataPaths(tmp_path / "nowhere"), BERLIN)
    findings = examine(DoctorInput(None, place, (), {}, NOW))
    assert {finding.level for finding in findings} == {Level.PASS, Level.OFF}
    assert DoctorFinding(Level.OFF, "memory", "the bot is not running") in findings
    assert not place.paths.root.exists()


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout


def _tree(root: Path) -> dict[Path, tuple[int, int, bytes]]:
    return {
        path: (status.st_mode, 0, b"")
        if path.is_dir()  # SQLite makes files beside a database that it reads, and removes them
        else (status.st_mode, status.st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        for status in [path.lstat()]
    }

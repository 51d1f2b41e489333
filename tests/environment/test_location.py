"""Where settings and data are found, and that most commands work with wrong settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.environment.machine import FakeMachine

from ollim_bot.environment import locate
from ollim_bot.errors import BadSettings
from ollim_bot.paths import DataPaths
from ollim_bot.settings import LogLevel


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_the_environment_wins_over_the_folder_and_the_folder_over_the_data_directory(
    machine: FakeMachine,
) -> None:
    machine.write("OLLIM_USER_NAME=folder\nOLLIM_BOT_NAME=folder\n")
    machine.write(
        "OLLIM_USER_NAME=data\nOLLIM_BOT_NAME=data\nOLLIM_LOG=error\n",
        folder=machine.home / ".ollim-bot",
    )
    settings = machine.settings(OLLIM_USER_NAME="environment")
    assert settings.user_name == "environment"
    assert settings.bot_name == "folder"
    assert settings.log_level is LogLevel.ERROR


def test_an_empty_value_is_as_good_as_none_and_space_around_one_is_not_part_of_it(
    machine: FakeMachine,
) -> None:
    machine.write("OLLIM_USER_NAME=folder\nWEBHOOK_PORT=\n")
    settings = machine.settings(OLLIM_USER_NAME=" ", DISCORD_TOKEN="", OLLIM_BOT_NAME=" Ollie\n")
    assert settings.user_name == "folder"
    assert settings.discord_token is None
    assert settings.bot_name == "Ollie"


@pytest.mark.parametrize(
    ("value", "below_root"),
    [
        pytest.param("~/data", "home/data", id="home"),
        pytest.param("~", "home", id="home-itself"),
        pytest.param("data", "start/data", id="from-the-folder"),
        pytest.param("./a b/../c", "start/a b/../c", id="odd-but-right"),
    ],
)
def test_the_data_directory_can_be_moved(
    machine: FakeMachine, tmp_path: Path, value: str, below_root: str
) -> None:
    assert machine.settings(OLLIM_DATA_DIR=value).paths.root == tmp_path / below_root
    environ = {"HOME": str(machine.home), "OLLIM_DATA_DIR": value}
    assert locate(environ, machine.cwd).paths.root == tmp_path / below_root


def test_the_env_file_of_a_moved_data_directory_is_read(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.write("OLLIM_TIMEZONE=Asia/Tokyo", folder=tmp_path / "data")
    assert machine.settings(OLLIM_DATA_DIR="../data").zone.key == "Asia/Tokyo"


@pytest.mark.parametrize(
    "value", ["../other", "~", "/srv/other", '"unclosed', "x\nOLLIM_DATA_DIR=y"]
)
def test_the_folder_of_the_start_does_not_choose_the_data_directory(
    machine: FakeMachine, tmp_path: Path, value: str
) -> None:
    path = machine.write(f"OLLIM_DATA_DIR={value}\n")
    machine.write("OLLIM_USER_NAME=Mallory\n", folder=tmp_path / "other")
    usual = machine.home / ".ollim-bot"
    place, settings = locate({"HOME": str(machine.home)}, machine.cwd), machine.settings()
    assert (place.paths.root, settings.paths.root) == (usual, usual)
    assert settings.user_name == "friend"
    told = (
        f"{path}:1: OLLIM_DATA_DIR: is ignored, as this is not the `.env` of the data directory. "
        "Right: in the environment."
    )
    if '"' not in value:
        assert place.warnings == settings.warnings == (told,)


def test_in_the_data_directory_its_own_file_sets_everything(machine: FakeMachine) -> None:
    machine.write("WEBHOOK_PORT=9100\nWEBHOOK_SECRET=s\nOLLIM_WEB_HOSTS=box\n")
    settings = machine.settings(OLLIM_DATA_DIR=".")
    assert (settings.webhook_port, settings.web_hosts, settings.warnings) == (9100, ("box",), ())


def test_the_data_directory_cannot_be_moved_from_inside(machine: FakeMachine) -> None:
    path = machine.write("\nOLLIM_DATA_DIR=/elsewhere", folder=machine.home / ".ollim-bot")
    assert machine.problems() == (
        (
            f"{path}:2: OLLIM_DATA_DIR: cannot be set inside the data directory. "
            "Right: in the environment."
        ),
    )


def test_started_in_the_data_directory_its_file_is_read_once(machine: FakeMachine) -> None:
    path = machine.write("broken\n", mode=0o644)
    assert machine.problems(OLLIM_DATA_DIR=".") == (
        f"{path}:1: has no `=`. Write NAME=value, or # before a comment.",
    )


def test_a_file_cannot_be_the_data_directory(machine: FakeMachine) -> None:
    (machine.cwd / "data").touch()
    assert machine.problems(OLLIM_DATA_DIR="data") == (
        "environment: OLLIM_DATA_DIR: 'data' is a file. Right: a folder, such as ~/.ollim-bot.",
    )


def test_without_a_home_the_data_directory_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings) as caught:
        locate({}, tmp_path)
    assert caught.value.problems == (
        "OLLIM_DATA_DIR: is needed without HOME. Right: /srv/ollim-bot.",
    )
    assert locate({"OLLIM_DATA_DIR": "/srv/x"}, tmp_path).paths.root == Path("/srv/x")


def test_a_folder_called_env_is_somebody_elses(machine: FakeMachine) -> None:
    (machine.cwd / ".env").mkdir()
    assert machine.settings().user_name == "friend"


@pytest.mark.real_process
def test_a_file_without_permission_is_a_problem(machine: FakeMachine) -> None:
    """Root may read everything, so a child process without root reads the file."""
    machine.write("OLLIM_USER_NAME=x", mode=0)
    machine.cwd.chmod(0o755)
    child = """
import os
from pathlib import Path
from ollim_bot.environment import load_env_file
if os.getuid() == 0:
    os.setuid(65534)
print(load_env_file(Path(".env")).problems[0].sentence)
"""
    told = subprocess.run(
        [sys.executable, "-c", child], cwd=machine.cwd, capture_output=True, text=True, check=True
    ).stdout
    assert told.startswith("cannot be read (Permission denied). Make it a text file of yours")


def test_a_place_is_found_whatever_else_is_wrong(machine: FakeMachine) -> None:
    machine.write("broken\nOLLIM_LOG=loud\nWEBHOOK_PORT=x\nOLLIM_TIMEZONE=Asia/Tokyo\nA='")
    place = locate({"HOME": str(machine.home), "OLLIM_WEB_PORT": "x"}, machine.cwd)
    assert place.paths.root == machine.home / ".ollim-bot"
    assert place.zone.key == "Asia/Tokyo"


@pytest.mark.parametrize(
    "line", ["OLLIM_DATA_DIR /srv", "OLLIM_TIMEZONE='UTC", "OLLIM_TIMEZONE=Nowhere"]
)
def test_a_place_is_refused_when_its_own_lines_are_wrong(machine: FakeMachine, line: str) -> None:
    path = machine.write(f"# first\n{line}")
    with pytest.raises(BadSettings) as caught:
        locate({"HOME": str(machine.home)}, machine.cwd)
    assert [problem.startswith(f"{path}:2: ") for problem in caught.value.problems] == [True]


def test_a_place_that_the_environment_gives_needs_no_file(machine: FakeMachine) -> None:
    machine.write("OLLIM_TIMEZONE=Nowhere")
    given = {"OLLIM_DATA_DIR": str(machine.home), "OLLIM_TIMEZONE": "UTC"}
    assert locate(given, machine.cwd).paths.root == machine.home
    with pytest.raises(BadSettings):
        locate({"HOME": str(machine.home)}, machine.cwd)


def test_the_data_directory_has_the_paths_that_are_documented(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    others = ("root", "lock_of", "jobs")
    names = [name for name in vars(DataPaths) if not name.startswith("_") and name not in others]
    found = {name: os.fspath(getattr(paths, name).relative_to(tmp_path)) for name in names}
    assert found == {
        "attachments": "state/attachments",
        "servers": "state/servers",
        "identity": "IDENTITY.md",
        "user": "USER.md",
        "tool_policy": "tool-policy.yaml",
        "mcp": "mcp.json",
        "routines": "routines",
        "reminders": "reminders",
        "webhooks": "webhooks",
        "skills": "skills",
        "tasks": "tasks.md",
        "task_ids": "state/task_ids.json",
        "downloads": "downloads",
        "claude_agents": ".claude/agents",
        "claude_skills": ".claude/skills",
        "routine_spec_link": "routine-reminder-spec.md",
        "webhook_spec_link": "webhook-spec.md",
        "env_file": ".env",
        "gitignore": ".gitignore",
        "state": "state",
        "bot_pid": "state/bot.pid",
        "sessions": "state/sessions.json",
        "session_history": "state/session_history.jsonl",
        "pending_updates": "state/pending_updates.json",
        "fork_messages": "state/fork_messages.json",
        "inquiries": "state/inquiries.json",
        "ping_budget": "state/ping_budget.json",
        "config": "state/config.json",
        "fork": "state/fork.json",
        "heartbeat": "state/heartbeat",
        "standing_by": "state/standing_by",
        "machine_id": "state/machine_id",
        "known_schedule": "state/known_schedule.db",
        "files_current": "state/files-current",
        "set_aside": "state/set-aside",
        "waiting_files": "state/waiting-files.json",
        "restored_transcripts": "state/restored_transcripts",
        "commands": "state/commands.sock",
        "led": "state/led",
        "shared_settings": "state/settings.env",
        "maintenance": "state/maintenance.json",
        "sentinel": "state/sentinel.json",
        "update": "state/update.json",
        "before_update": "state/before-update",
        "credentials": "state/credentials.json",
        "token": "state/token.json",
        "calendars": "state/calendars",
        "google_revoked": "state/google_revoked.json",
        "push": "state/push.json",
        "web_token": "state/web_token",
        "web_browsers": "state/web_browsers.json",
        "locks": "state/.locks",
    }


@pytest.mark.real_process
def test_finding_the_place_imports_nothing_heavy() -> None:
    heavy = {"asyncio", "logging", "subprocess", "difflib", "importlib.resources", "tempfile"}
    child = "import sys, ollim_bot.environment, ollim_bot.settings; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, check=True
    ).stdout
    assert heavy.isdisjoint(loaded.split())

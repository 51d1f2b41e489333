"""Where settings, data and the time zone are found, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.base.machine import FakeMachine

from ollim_bot.kernel.base.environment import load_env_file, locate, read_env_file, system_zone
from ollim_bot.kernel.base.errors import BadSettings
from ollim_bot.kernel.base.moments import near_zone, zone_named
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import LogLevel
from ollim_bot.kernel.base.text import nearest


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
        ("~/data", "home/data"),
        ("~", "home"),
        ("data", "start/data"),
        ("./a b/../c", "start/a b/../c"),
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
from ollim_bot.kernel.base.environment import load_env_file
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
    others = ("root", "lock_of", "jobs", "backups")
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
    child = (
        "import sys; from ollim_bot.kernel.base import environment, settings; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, check=True
    ).stdout
    assert heavy.isdisjoint(loaded.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("KEY=value", "value"),
        ("export KEY=value", "value"),
        ("\texport\tKEY = value \t", "value"),
        ("\ufeffKEY=value\r\n", "value"),
        ("KEY=value\rOTHER=x", "value"),
        ("KEY=two words", "two words"),
        pytest.param("KEY=value # why", "value", id="inline-comment"),
        pytest.param("KEY=value\t# why", "value", id="inline-comment-after-a-tab"),
        pytest.param("KEY=a#b", "a#b", id="hash-inside-a-word"),
        pytest.param("KEY=#b", "#b", id="hash-at-once"),
        pytest.param("KEY= # nothing", "", id="only-a-comment"),
        ("KEY=", ""),
        ("KEY=O'Brien", "O'Brien"),
        ("KEY=a=b=c", "a=b=c"),
        ("KEY=$HOME", "$HOME"),
        pytest.param(r"KEY='a\n$b # \'", r"a\n$b # \ "[:-1], id="single-quotes-are-literal"),
        (r'KEY="a\n\t\r\"\\\$\`"', 'a\n\t\r"\\$`'),
        pytest.param('KEY="a # b" # c', "a # b", id="hash-inside-quotes"),
        ('KEY="one\ntwo"', "one\ntwo"),
        ("KEY='one\r\ntwo'", "one\ntwo"),
        ("KEY=''", ""),
        ("export=value\nKEY=x", "x"),
        ("KEY=\u2028x\x0b", "\u2028x\x0b"),
    ],
)
def test_a_right_line_is_read(text: str, value: str) -> None:
    file = read_env_file(text)
    assert file.values["KEY"] == value
    assert file.problems == ()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param(
            "KEY value", "has no `=`. Write NAME=value, or # before a comment.", id="no-="
        ),
        (
            "MY-KEY=value",
            "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…",
        ),
        ("=value", "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…"),
        (
            "TWO NAMES=value",
            "before `=` stands one name of letters, digits and _, such as OLLIM_TIMEZONE=…",
        ),
        ('KEY="value', 'KEY: the quotes do not match. Write KEY="value" and nothing after it.'),
        ("KEY='value", 'KEY: the quotes do not match. Write KEY="value" and nothing after it.'),
        (
            'KEY="value" more',
            'KEY: the quotes do not match. Write KEY="value" and nothing after it.',
        ),
        (
            r'KEY="C:\dir"',
            (
                "KEY: in double quotes a backslash is written twice (\\\\), "
                'or stands before one of n t r " $ `.'
            ),
        ),
        ("KEY=\udce4", "KEY: is not UTF-8 text. Save the file as UTF-8."),
        ("KEY=a\0b", "KEY: is not UTF-8 text. Save the file as UTF-8."),
    ],
)
def test_a_wrong_line_is_told_with_its_number_and_the_others_are_still_read(
    line: str, sentence: str
) -> None:
    file = read_env_file(f"A=1\n\n# note\n{line}\nB=2\n")
    assert file.values == {"A": "1", "B": "2"}
    assert [(problem.line, problem.sentence) for problem in file.problems] == [(4, sentence)]


def test_no_sentence_repeats_a_value() -> None:
    secret = "hunter2hunter2"
    lines = (f"KEY {secret}", f"{secret}", f'KEY="{secret}', f'KEY="\\d{secret}"', f"K-={secret}")
    problems = read_env_file("\n".join(lines)).problems
    assert len(problems) == len(lines)
    assert all(secret not in problem.sentence for problem in problems)


def test_a_name_set_twice_is_a_problem_that_names_both_lines() -> None:
    file = read_env_file("KEY=first\nOTHER=x\nKEY=second")
    assert file.values == {"KEY": "first", "OTHER": "x"}
    assert file.problems == (
        (3, "KEY: is set twice, in line 1 and in line 3. Keep one of them.", "KEY"),
    )


def test_a_problem_knows_which_setting_it_is_about() -> None:
    problems = read_env_file("ONE two\nexport THREE: four\n-=x\nFIVE='").problems
    assert [problem.name for problem in problems] == ["ONE", "THREE", None, "FIVE"]


def test_lines_are_counted_across_values_of_many_lines() -> None:
    file = read_env_file('A="1\n2\n3"\nB=4\nwrong')
    assert file.lines == {"A": 1, "B": 4}
    assert file.problems[0].line == 5


def test_an_open_quote_does_not_swallow_the_lines_below() -> None:
    file = read_env_file('A="1\nB=2\nC="3"\n')
    assert file.values == {"B": "2", "C": "3"}
    assert [problem.line for problem in file.problems] == [1]


@given(st.text())
def test_no_text_makes_reading_fail(text: str) -> None:
    read_env_file(text)


_PIECES = st.sampled_from(["KEY", "A", "=", "'", '"', "\\", "#", " ", "\n", "\r", "export ", "x"])


@given(st.lists(_PIECES).map("".join))
def test_whatever_is_read_stands_on_the_line_it_claims(text: str) -> None:
    file = read_env_file(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for name, number in file.lines.items():
        assert name in lines[number - 1]
    for problem in file.problems:
        assert lines[problem.line - 1].strip()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_value_survives_being_written_in_double_quotes(value: str) -> None:
    escapes = {"\n": "n", "\t": "t", "\r": "r", '"': '"', "\\": "\\", "$": "$", "`": "`"}
    written = value.translate({ord(plain): f"\\{letter}" for plain, letter in escapes.items()})
    file = read_env_file(f'BEFORE=1\nKEY="{written}"\nAFTER=2\n')
    assert file.values == {"BEFORE": "1", "KEY": value, "AFTER": "2"}
    assert file.problems == ()


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert load_env_file(tmp_path / ".env").values == {}
    (tmp_path / "file").write_text("x")
    assert load_env_file(tmp_path / "file" / ".env").problems == ()


def test_a_folder_in_the_place_of_the_file_is_no_file(tmp_path: Path) -> None:
    assert load_env_file(tmp_path).problems == ()


def test_bytes_that_are_not_utf_8_spoil_only_their_line(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"# K\xe4se\nA=\xe4\nB=gr\xc3\xbcn\n")
    file = load_env_file(path)
    assert file.values == {"B": "grün"}
    assert [problem.line for problem in file.problems] == [2]


@pytest.mark.parametrize(("mode", "open_to_others"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_says_so(
    tmp_path: Path, mode: int, open_to_others: bool
) -> None:
    path = tmp_path / ".env"
    path.touch()
    path.chmod(mode)
    assert load_env_file(path).open_to_others is open_to_others


def key(tz: str, etc: Path) -> str | None:
    zone = system_zone({"TZ": tz}, etc)
    return zone.key if zone else None


@pytest.mark.parametrize(
    ("tz", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("{}/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        (":{}/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        (":{}/zoneinfo/right/Asia/Tokyo", "Asia/Tokyo"),
        (":{}/localtime", "America/New_York"),
        ("", "America/New_York"),
        ("<+03>-3", "America/New_York"),
        ("/nowhere", "America/New_York"),
    ],
)
def test_the_zone_of_the_machine_is_first_what_tz_says(tmp_path: Path, tz: str, zone: str) -> None:
    (tmp_path / "localtime").symlink_to("zoneinfo/America/New_York")
    assert key(tz.format(tmp_path), tmp_path) == zone


def test_the_zone_of_the_machine_is_then_where_localtime_leads(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to("/nowhere/share/zoneinfo/Asia/Tokyo")
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert key("", tmp_path) == "Asia/Tokyo"


def test_the_zone_of_the_machine_is_last_what_timezone_holds(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"a copy")
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert key("", tmp_path) == "Europe/Berlin"


@pytest.mark.parametrize("content", [b"Europe\n", b"", b"\xff", b"../x", b"a\0b"])
def test_a_machine_may_name_no_zone_at_all(tmp_path: Path, content: bytes) -> None:
    assert key("", tmp_path) is None
    (tmp_path / "timezone").write_bytes(content)
    assert key("", tmp_path) is None


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Amercia/New_York", "America/New_York"),
        ("new york", "America/New_York"),
        ("PST", None),
        ("GMT+2", None),
        ("", None),
    ],
)
def test_what_a_person_meant_is_guessed_where_it_is_near(text: str, zone: str | None) -> None:
    assert near_zone(text) == zone


@given(st.text() | st.sampled_from(["../x", "Europe", "/etc/passwd", "zone.tab", ".", "\udc80"]))
def test_no_name_of_a_zone_raises(name: str) -> None:
    zone = zone_named(name)
    assert zone is None or zone.key == name


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("berlni", "berlin"),
        ("berli", "berlin"),
        ("berlinn", "berlin"),
        ("berlinnnn", None),
        ("pst", None),
        ("", None),
    ],
)
def test_a_slip_is_understood_and_no_more(word: str, near: str | None) -> None:
    assert nearest(word, ["est", "berlin", "tokyo"]) == near

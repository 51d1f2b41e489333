"""`ollim-bot backup` and `restore` say what they did, what they left out, and what to do next."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest
from tests.terminal import PROGRAM, Terminal

from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance

OF_0_13 = Path(__file__).parent / "backup-0.13.tar.gz"


@pytest.fixture
def used(terminal: Terminal) -> Terminal:
    """A terminal with a reminder, a database and keys."""
    terminal.done("reminder", "add", "-m", "call the dentist", "--at", "tomorrow 9am")
    terminal.done("config", "set", "bg_concurrency", "5")
    terminal.write(".env", "OLLIM_USER_NAME=Ada\n")
    return terminal


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def elsewhere(tmp_path: Path) -> Terminal:
    """A terminal on a machine without ollim-bot."""
    other = Terminal(tmp_path / "another home")
    other.home.mkdir()
    return other


def made(terminal: Terminal, *words: str) -> Path:
    return Path(terminal.json("backup", *words)["path"])


def test_a_backup_is_put_beside_the_data_and_says_what_it_lacks(used: Terminal) -> None:
    (used.paths.root / "notes").symlink_to("/etc")
    first, second, *rest = used.done("backup").splitlines()
    assert first == "Backup: ~/.ollim-bot-backups/ollim-bot-20261115T133000Z.tar.gz"
    assert second.startswith("It has ")
    assert second.endswith(" kB. Only you can read it.")
    assert rest == [
        "Left out, because they are keys: .env. `--with-keys` takes them along.",
        "Left out, because they are links or pipes: notes.",
    ]
    with_keys = used.done("backup", "--with-keys", "mine.tar.gz")
    assert "Your keys are in it: keep it where nobody else can read it." in with_keys
    assert (used.home / "mine.tar.gz").stat().st_mode & 0o777 == 0o600


@pytest.mark.real_process
def test_a_file_that_may_not_be_read_is_named_and_the_exit_code_is_1(used: Terminal) -> None:
    used.write("USER.md", "closed").chmod(0)
    command = [str(PROGRAM), "backup"]
    if os.geteuid() == 0:
        # Root reads everything, unless these two capabilities are dropped.
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    environ = {**used.environ, "PATH": os.environ["PATH"]}
    ran = subprocess.run(command, env=environ, cwd=used.home, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "USER.md" in ran.stderr


def test_older_ones_are_removed_by_number(used: Terminal) -> None:
    (used.home / "disk").mkdir()
    made(used, "disk")
    assert "Removed: ollim-bot-20261115T133000Z.tar.gz." in used.done(
        "backup", "disk", "--keep", "1"
    )
    assert os.listdir(used.home / "disk") == ["ollim-bot-20261115T133000Z-2.tar.gz"]


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["backup", "--keep", "0"], 2, "number from 1 on"),
        (["backup", "--keep", "many"], 2, "number from 1 on"),
        (["backup", "gone/"], 2, "Make it first"),
        (["backup", "gone/x.tar.gz"], 2, "is not a folder"),
        (["backup", ".ollim-bot"], 2, "in the data directory itself"),
        (["backup", "taken"], 1, "exists already"),
        (["restore", "gone.tar.gz"], 2, "is not a file"),
        (["restore", ".ollim-bot"], 2, "is not a file"),
        (["restore"], 2, "required"),
        (["restore", "taken"], 1, "is cut off"),
        (["restore", "taken", "--accept", "hooks,everything"], 2, "--accept takes hooks, servers"),
        (["restore", "taken", "--accept", ""], 2, "--accept takes hooks, servers"),
        (["restore", "taken", "--verify"], 1, "is cut off"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_nothing_is_left(
    used: Terminal, words: list[str], code: int, reason: str
) -> None:
    (used.home / "taken").write_text("")
    before = sorted(os.listdir(used.home))
    answer = used.run(*words)
    assert (answer.code, answer.out) == (code, "")
    assert reason in answer.err
    assert len(answer.err.splitlines()) == 1
    assert sorted(os.listdir(used.home)) == before


def test_without_a_data_directory_there_is_nothing_to_back_up(terminal: Terminal) -> None:
    assert terminal.run("backup").code == 1
    assert os.listdir(terminal.home) == []


def test_a_restore_keeps_what_was_there_and_takes_its_keys(used: Terminal) -> None:
    file = made(used)
    used.write(".env", "OLLIM_USER_NAME=Grace\n")
    used.done("reminder", "add", "-m", "something later", "--at", "tomorrow 10am")
    lines = used.done("restore", str(file)).splitlines()
    aside = used.home / ".ollim-bot.before-restore-20261115T133000Z"
    assert lines[0].startswith("Restored the backup of today 14:30 (ollim-bot ")
    assert lines[1:] == [
        "What was there before is kept: ~/.ollim-bot.before-restore-20261115T133000Z",
        "Keys come from there: .env.",
        "Start the bot again: `ollim-bot`. It lists what was due since, and repeats nothing.",
    ]
    assert "call the dentist" in used.done("reminder", "list")
    assert "something later" not in used.done("reminder", "list")
    assert used.paths.env_file.read_text() == "OLLIM_USER_NAME=Grace\n"
    assert len(list((aside / "reminders").iterdir())) == 2
    assert not (aside / "state" / "maintenance.json").exists()
    assert used.done("config", "get", "bg_concurrency") == "5\n"


def test_a_restore_on_another_machine_names_the_keys_that_are_missing(
    used: Terminal, elsewhere: Terminal
) -> None:
    used.write("state/push.json", "{}")
    file = made(used, "there.tar.gz")
    told = elsewhere.json("restore", str(file))
    assert told["missing"] == [".env", "state/push.json"]
    assert told["aside"] is None
    assert told["brought"] == []
    assert "call the dentist" in elsewhere.done("reminder", "list")
    assert os.listdir(elsewhere.home) == [".ollim-bot"]
    assert "No phone is paired then." in elsewhere.done("restore", str(file))


@pytest.mark.real_time
def test_a_restore_waits_for_no_bot_and_for_no_update(used: Terminal) -> None:
    file = made(used)
    with single_instance(used.paths.bot_pid):
        answer = used.run("restore", str(file))
        assert answer.code == 1
        assert "Stop it first." in answer.err
    with maintenance(used.paths, MaintenanceKind.UPDATE, used.now):
        answer = used.run("restore", str(file))
        assert answer.code == 1
        assert "the update that began at 14:30" in answer.err
    assert sorted(os.listdir(used.home)) == [".ollim-bot", ".ollim-bot-backups"]


@pytest.fixture
def moving(used: Terminal) -> str:
    """A backup with keys, a skill and a hook."""
    used.write(".claude/settings.json", '{"hooks": {"Stop": [{"command": "notify-me"}]}}')
    used.write("skills/mail/SKILL.md", "---\nname: mail\ndescription: mail\n---\nRead it.\n")
    return str(made(used, "--with-keys", "moving.tar.gz"))


@pytest.mark.parametrize(("typed", "is_taken"), [("y\n", True), ("\n", False), ("", False)])
def test_a_restore_asks_one_question_about_what_can_act(
    elsewhere: Terminal, moving: str, monkeypatch: pytest.MonkeyPatch, typed: str, is_taken: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    shown = elsewhere.done("restore", moving)
    assert shown.count("[y/N]") == 1
    asked, _, after = shown.partition("[y/N]")
    assert asked.splitlines()[1:4] == [
        "  hooks   .claude/settings.json (runs notify-me)",
        "  skills  skills/mail (1 file)",
        "  keys    .env (OLLIM_USER_NAME)",
    ]
    assert elsewhere.paths.env_file.exists() is is_taken
    assert ("The files are in ~/.ollim-bot/state/left-off. " in after) is not is_taken


@pytest.mark.parametrize(
    ("words", "left_off"),
    [
        ([], ["hooks", "skills", "keys"]),
        (["--accept", "none"], ["hooks", "skills", "keys"]),
        (["--accept", "keys, Skills"], ["hooks"]),
        (["--accept", "hooks,servers,policy,agents,skills,keys"], []),
        (["--accept", "all"], []),
    ],
)
def test_without_a_terminal_only_what_is_accepted_comes(
    elsewhere: Terminal, moving: str, words: list[str], left_off: list[str]
) -> None:
    told = elsewhere.json("restore", moving, *words)
    assert [each["power"] for each in told["brought"]] == ["hooks", "skills", "keys"]
    assert [each["power"] for each in told["left_off"]] == left_off
    assert elsewhere.paths.env_file.exists() is ("keys" not in left_off)


@pytest.mark.real_process
def test_a_backup_of_0_13_is_restored(elsewhere: Terminal) -> None:
    """The file is of that program itself: its tables are older, and its keys are left out."""
    lines = elsewhere.done("restore", str(OF_0_13)).splitlines()
    assert lines[0].endswith("(ollim-bot 0.12.0): 14 files.")
    assert lines[1] == "Keys that are missing: .env. `ollim-bot setup` asks for some of them."
    assert "call the dentist" in elsewhere.done("reminder", "list")
    assert "buy oats" in elsewhere.done("tasks", "list")
    assert elsewhere.done("config", "get", "bg_concurrency") == "5\n"
    log = ("git", "-C", str(elsewhere.paths.root), "log", "--oneline")
    assert len(subprocess.check_output(log).splitlines()) == 3


@pytest.mark.real_engine
def test_a_trial_checks_everything_and_changes_nothing(used: Terminal, elsewhere: Terminal) -> None:
    file = made(used, "--with-keys")

    def state() -> dict[Path, tuple[int, int]]:
        files = (path for path in used.home.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = state()
    trial = used.json("restore", str(file), "--verify")
    assert trial["complete"] is True
    assert trial["brought"] == []
    assert {finding["level"] for finding in trial["findings"]} <= {"PASS", "OFF", "WARN", "FAIL"}
    shown = elsewhere.done("restore", str(file), "--verify")
    first, second, *rest = shown.splitlines()
    assert first.startswith("The backup of today 14:30 (ollim-bot ")
    assert second.endswith(
        "every checksum is right, and the database is whole. Nothing was changed."
    )
    assert rest[:2] == [
        "It brings things that can act, and that are new here. A restore asks about them:",
        "  keys  .env (OLLIM_USER_NAME)",
    ]
    assert not elsewhere.paths.root.exists()
    assert rest[-1].startswith("The doctor there: ")
    assert not [line for line in rest if "Discord" in line or "page" in line]
    of_engine = (used.home / ".claude", elsewhere.home / ".claude")
    after = {
        path: how
        for path, how in state().items()
        if not any(map(path.is_relative_to, of_engine)) and path.name != ".claude.json"
    }
    assert after == before

"""`ollim-bot doctor`: the whole installation in one report, whatever is wrong with it."""

from __future__ import annotations

import json
import os
import re
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from tests.ports import unused_port
from tests.terminal import CommandResult, Terminal

from ollim_bot.features.doctor.examination import checks
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.provider import ProviderKind, ProviderMemory

pytestmark = pytest.mark.real_engine

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
# What a fresh machine does not use.
UNUSED = {
    *("bot", "webhooks", "calendars", "Discord", "phone", "Google", "service", "sentinel"),
    *("backup", "memory", "reach", "standby"),
}
NAMES = [
    "environment",
    "bot",
    "update",
    "data directory",
    "leftovers",
    "files",
    "git",
    "clock",
    "time zone",
    "routines",
    "reminders",
    "webhooks",
    "ledger",
    "tasks",
    "tool policy",
    "subagents",
    "skills",
    "tool servers",
    "calendars",
    "database",
    "copies",
    "standby",
    "state files",
    "Claude program",
    "model",
    "Discord",
    "phone",
    "Google",
    "page",
    "reach",
    "service",
    "sentinel",
    "backup",
    "disk space",
    "memory",
]
TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.a-secret-that-nobody-may-read-here"
LINE = re.compile(r"(PASS|WARN|FAIL)  ([\w ]+): .+")


@pytest.fixture(autouse=True)
def _of_its_own(terminal: Terminal) -> None:
    terminal.environ["OLLIM_WEB_PORT"] = str(unused_port())
    # The offline model, so that the doctor does not check the login unless the test wants that.
    terminal.environ["OLLIM_MODEL"] = "offline"


def wrong(answer: CommandResult) -> list[tuple[str, str]]:
    """The lines that are not PASS, each with the next step below it."""
    lines = answer.out.splitlines()
    found = []
    for line, below in pairwise(lines):
        match = LINE.fullmatch(line)
        if match and match[1] != "PASS":
            assert below.startswith("      ")
            found.append((match[1], line[6:]))
    return found


def test_a_fresh_machine_passes_and_nothing_is_made(terminal: Terminal) -> None:
    answer = terminal.run("doctor")
    assert (answer.code, answer.err) == (0, "")
    assert [line.partition(":")[0] for line in answer.out.splitlines()[:-1]] == [
        f"{'OFF ' if name in UNUSED else 'PASS'}  {name}" for name in NAMES
    ]
    passes = len(NAMES) - len(UNUSED)
    assert answer.out.endswith(
        f"\nSUMMARY: {passes} passed, 0 warnings, 0 failures, {len(UNUSED)} off\n"
    )
    assert not terminal.paths.root.exists()


def test_what_is_wrong_has_a_step_below_it_and_a_failure_is_exit_code_1(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.write("state/config.json", "{torn")
    terminal.write("routines/a.md", '---\nid: a\ncron: "61 9 * * *"\n---\ndo it\n')
    terminal.paths.state.chmod(0o755)
    answer = terminal.run("doctor")
    assert (answer.code, answer.err) == (1, "")
    found = wrong(answer)
    assert [level for level, _ in found] == ["WARN", "FAIL", "FAIL"]
    assert found[1][1].startswith("routines: routines/a.md:3: cron: ")
    assert found[2][1].startswith("state files: state/config.json cannot be understood")
    assert "passed, 1 warning, 2 failures, " in answer.out.splitlines()[-1]


def test_a_warning_alone_is_exit_code_0(terminal: Terminal) -> None:
    terminal.environ["OLLIM_TIMEZON"] = "Europe/Berlin"
    answer = terminal.run("doctor")
    assert answer.code == 0
    ((level, line),) = wrong(answer)
    assert level == "WARN"
    assert line.endswith("OLLIM_TIMEZON: there is no such setting. Did you mean OLLIM_TIMEZONE?")


def test_what_only_the_agents_environment_lacks_is_not_found_wrong(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.write(".env", f"DISCORD_TOKEN={TOKEN}\nANTHROPIC_API_KEY=of-the-owner\n").chmod(0o600)
    fields = "{type: object, properties: {note: {type: string, maxLength: 50}}}"
    terminal.write(
        "webhooks/build.md", f"---\nid: build\nfields: {fields}\n---\nLook at {{note}}.\n"
    )
    terminal.environ |= {
        "DISCORD_API_URL": f"http://127.0.0.1:{unused_port()}",
        "DISCORD_TOKEN": TOKEN,
        "WEBHOOK_PORT": str(unused_port()),
        "WEBHOOK_SECRET": "a-long-secret-that-is-long-enough",
    }
    engines = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "offline"}
    terminal.environ |= engine_variables(engines, terminal.environ, Path("/bin"))
    terminal.environ[CALLED_BY] = CONVERSATION
    answer = terminal.run("doctor")
    assert (answer.code, answer.err, wrong(answer)) == (0, "", [])
    assert "PASS  webhooks: 1 file; the owner's doctor sees the secrets\n" in answer.out
    assert answer.out.splitlines()[-1] == (
        "Not looked at, because you have no keys here: environment, model, Discord, phone. The "
        "owner's `/doctor` looks at them too."
    )
    report = json.loads(terminal.run("doctor", "--json").out)
    assert report["for_owner"] == ["environment", "model", "Discord", "phone"]


def test_wrong_settings_do_not_keep_the_data_from_being_checked(terminal: Terminal) -> None:
    terminal.environ |= {"OLLIM_WEB_PORT": "many", "DISCORD_OWNER_ID": "me"}
    answer = terminal.run("doctor")
    assert answer.code == 1
    assert [line.partition(": ")[0] for _, line in wrong(answer)] == ["environment"] * 2
    assert "PASS  routines" in answer.out
    assert "page:" not in answer.out
    assert "Discord:" not in answer.out


def test_a_data_directory_that_cannot_be_told_leaves_what_can_be(terminal: Terminal) -> None:
    terminal.environ["OLLIM_DATA_DIR"] = "~nobody-knows/data"
    answer = terminal.run("doctor")
    assert answer.code == 1
    assert [line[:4] for line in answer.out.splitlines()] == ["FAIL", "    ", "PASS", "SUMM"]


def test_programs_get_all_of_it_as_one_object(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.write("state/config.json", "{torn")
    answer = terminal.run("doctor", "--json")
    assert (answer.code, answer.err) == (1, "")
    report = json.loads(answer.out)
    assert (report["warnings"], report["failures"]) == (0, 1)
    assert report["passed"] + report["off"] == len(NAMES) - 1
    assert [finding["name"] for finding in report["findings"]] == NAMES
    (failure,) = (each for each in report["findings"] if each["level"] == "FAIL")
    assert failure["detail"].startswith("state/config.json cannot be understood")
    assert failure["next"]


def test_the_command_says_what_it_mended_and_looks_again(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.write(".env", "OLLIM_USER_NAME=Ada\n").chmod(0o644)
    terminal.paths.claude_skills.unlink()
    before = terminal.run("doctor").out
    assert f"others can read it\n      Run `chmod 600 {terminal.paths.env_file}`." in before
    assert "`ollim-bot doctor --fix` does that." in before
    assert not terminal.paths.claude_skills.exists()
    lines = terminal.run("doctor", "--fix").out.splitlines()
    assert lines[:3] == [
        f"FIXED  environment: only you can read {terminal.paths.env_file} now",
        "FIXED  data directory: .claude/skills made again",
        "",
    ]
    assert "PASS  environment: all settings are right" in lines
    assert stat.S_IMODE(terminal.paths.env_file.stat().st_mode) == 0o600
    report = terminal.run("doctor", "--fix", "--json").out
    assert '"fixed": []' in report
    assert terminal.run("doctor", "--fix").out.startswith("There was nothing to mend.\n\n")


def test_no_secret_is_ever_shown(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.environ |= {
        "DISCORD_TOKEN": TOKEN,
        "DISCORD_API_URL": "http://127.0.0.1:9/api",
        "ANTHROPIC_API_KEY": "sk-ant-of-mine",
        "WEBHOOK_SECRET": "very-hidden",
    }
    terminal.write("state/web_token", "page-secret")
    terminal.write("routines/a.md", f'---\nid: a\ncron: "{TOKEN}"\n---\ndo very-hidden\n')
    terminal.write("routines/b.md", '---\nid: b\ncron: "very-hidden"\n---\ndo it\n')
    for words in (["doctor"], ["doctor", "--json"]):
        answer = terminal.run(*words)
        assert "Discord cannot be reached now" in answer.out
        assert "[redacted]" in answer.out
        for secret in (TOKEN, "sk-ant-of-mine", "very-hidden", "page-secret"):
            assert secret not in answer.out + answer.err


def test_a_server_that_needs_no_key_makes_no_word_a_secret(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.environ |= {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_AUTH_TOKEN": "none"}
    answer = terminal.run("doctor")
    assert "leftovers: none" in answer.out
    assert "[redacted]" not in answer.out + answer.err


def test_the_running_bot_is_told_of(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    with single_instance(terminal.paths.bot_pid):
        answer = terminal.run("doctor")
    assert f"PASS  memory: the bot (process {os.getpid()}) uses " in answer.out
    assert [line for _, line in wrong(answer)] == [
        f"page: the bot runs, but nothing answers at port {terminal.environ['OLLIM_WEB_PORT']}"
    ]


def test_a_real_model_that_was_used_and_has_no_login_is_a_failure(terminal: Terminal) -> None:
    del terminal.environ["OLLIM_MODEL"]
    assert "PASS  model: offline model" in terminal.run("doctor").out
    prepare_data_directory(terminal.paths)
    terminal.keep(lambda tx: tx.provider.put(ProviderMemory(ProviderKind.CLAUDE)))
    answer = terminal.run("doctor")
    assert answer.code == 1
    assert wrong(answer) == [("FAIL", "model: Claude (not signed in)")]


def test_the_page_of_the_docs_explains_every_line() -> None:
    explained = re.findall(r"^\| `([\w ]+)` \|", PAGE, re.MULTILINE)
    assert explained == NAMES == [check.name for check in checks()]

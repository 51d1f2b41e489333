"""The guards see every path in a call, whichever tool is called."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.tools.house import House

from ollim_bot.agent import ToolCall
from ollim_bot.tools import texts
from ollim_bot.tools.guards import address_guard, state_dir_guard
from ollim_bot.tools.reach import Reach


def judged(house: House, reach: Reach, tool: str, arguments: Mapping[str, object]) -> str | None:
    spelled = {
        name: house.spelled(value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    return state_dir_guard(ToolCall(tool, spelled), reach)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "{data}/note.md"}),
        ("Read", {"file_path": ".claude/agents/guide.md"}),
        ("Write", {"file_path": "{data}/new.md", "content": "see state/token.json"}),
        ("Edit", {"file_path": "note.md", "old_string": ".env", "new_string": "/etc/passwd"}),
        ("NotebookEdit", {"notebook_path": "a.ipynb"}),
        ("Glob", {"pattern": "**/*.md"}),
        ("Glob", {"pattern": "routines/*"}),
        ("Grep", {"pattern": "state/.*", "glob": "*.md"}),
        ("Grep", {"pattern": "x", "path": "note.md"}),
        ("WebSearch", {"query": "state/"}),
        ("mcp__discord__ping_user", {"message": "state/token.json"}),
        ("mcp__discord__send_file", {"file_path": "{data}/notes/plan.md"}),
    ],
)
def test_harmless_calls_pass(
    house: House, reach: Reach, tool: str, arguments: dict[str, object]
) -> None:
    assert judged(house, reach, tool, arguments) is None


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit"])
@pytest.mark.parametrize(
    "path",
    ["state/token.json", "{data}/.env", "to-link.md", "folder/x.md", "/etc/hosts", "", None, ["a"]],
)  # fmt: skip
def test_every_tool_for_files_is_kept_out(
    house: House, reach: Reach, tool: str, path: object
) -> None:
    assert judged(house, reach, tool, {"file_path": path}) is not None
    assert judged(house, reach, tool, {}) is not None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "tool-policy.yaml"}),
        ("Edit", {"file_path": ".claude/settings.json"}),
        ("NotebookEdit", {"notebook_path": "state/x.ipynb"}),
        ("NotebookEdit", {"file_path": "a.ipynb"}),
        ("Glob", {"pattern": "*"}),
        ("Glob", {"pattern": "*.md", "path": "state"}),
        ("Grep", {"pattern": "x"}),
        ("Grep", {"pattern": "x", "path": "state", "glob": "*.md"}),
        ("LS", {"path": "state"}),
        ("LS", {"path": "{home}"}),
        ("Anything", {"directory": ".git"}),
        ("Agent", {"prompt": "x", "cwd": "/"}),
        ("mcp__files__read", {"path": "{data}/state/token.json"}),
        ("mcp__discord__send_file", {"file_path": ".env"}),
    ],
)
def test_a_path_is_seen_in_every_argument_that_may_be_one(
    house: House, reach: Reach, tool: str, arguments: dict[str, object]
) -> None:
    assert judged(house, reach, tool, arguments) is not None


def test_the_folder_in_a_glob_does_not_say_where_a_search_for_words_begins(
    house: House, reach: Reach
) -> None:
    (house.data / "notes/.env").write_text("secret")
    arguments = {"pattern": "x", "path": "notes", "glob": "notes/*"}
    assert judged(house, reach, "Grep", arguments) is not None
    assert judged(house, reach, "Grep", {**arguments, "glob": "notes/*.md"}) is None


@pytest.mark.parametrize(
    "command",
    [
        "ollim-bot reminder list",
        "ollim-bot reminder add -m 'call the dentist' --at 'tomorrow 9am'",
        "ollim-bot reminder add -m 'renew the state insurance; ask for a form'",
        "ollim-bot reminder add -m state --in 20m",
        "ollim-bot reminder add -m 'wait...' --in 20m",
        "ollim-bot reminder add -m 'read https://example.com/state/x' --in 1h",
        "ollim-bot history search .",
        "git log --oneline",
        "cat note.md",
        "cat notes/*.md",
        "cat *.txt",
        "wc -l routines/daily.md",
        "ls notes/state",
    ],
)
def test_commands_that_name_nothing_protected_pass(
    house: House, reach: Reach, command: str
) -> None:
    assert judged(house, reach, "Bash", {"command": command}) is None


@pytest.mark.parametrize(
    "command",
    [
        "cat state/token.json", "cat ./state/token.json", "cat '{data}/state/token.json'",
        "cat \"state/token.json\"", "cat st'at'e/token.json", "cat STATE/token.json",
        "cat notes/../state/token.json", "cat notes/up/state/token.json", "cat folder/token.json",
        "cat to-link.md", "cat sta*/token.json", "cat */token.json", "cat ?tate/*", "cat to-*",
        "cat *.md", "cat s*", "ls state", "ls 'state'", "grep -r x state", "tar -Cstate -c x",
        "dd if=state/token.json", "curl -d @state/token.json x", "cp a:state/token.json b",
        "bash -c 'cat state/token.json'", "bash -c 'cd state'", "./state/run",
        "ollim-bot reminder add -m 'state/token.json'", "ollim-bot x --file=state/token.json",
    ],
)  # fmt: skip
def test_a_command_that_names_the_state_is_refused(
    house: House, reach: Reach, command: str
) -> None:
    reason = judged(house, reach, "Bash", {"command": command})
    assert reason is not None
    assert "state/ is protected" in reason


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat .env.local", "cat .e*", "cat .ENV", "cat '.env'", "cat *",
        "cat .git/config", "git --git-dir=.git log", "rm tool-policy.yaml", "rm -r .claude",
        "tee .claude/settings.json", "ls .", "grep -r x .", "grep -r x ./", "grep -r x ..",
        "find /", "find {data}", "tar -c notes/..", "cat /proc/self/environ", "cat /proc/*/environ",
    ],
)  # fmt: skip
def test_a_command_that_names_what_else_is_protected_is_refused(
    house: House, reach: Reach, command: str
) -> None:
    reason = judged(house, reach, "Bash", {"command": command})
    assert reason is not None
    assert "protected" in reason


@pytest.mark.parametrize(
    "command",
    ["", "  ", "a; b", "cat sta$x", "cat `x`", "cat st\\ate/x", "cat {s,x}tate/x", "cat [s]tate/x",
     "cat ~/x", "cat < note.md", "echo $(x)", "a\nb", "cat 'x", None, ["cat", "x"]],
)  # fmt: skip
def test_a_command_that_is_not_plain_is_refused(
    house: House, reach: Reach, command: object
) -> None:
    assert judged(house, reach, "Bash", {"command": command}) == texts.UNCLEAR_COMMAND


@pytest.mark.parametrize("command", ["cd notes", "pushd notes", "popd", "'cd' notes", "cd"])
def test_commands_stay_where_they_are(house: House, reach: Reach, command: str) -> None:
    assert judged(house, reach, "Bash", {"command": command}) == texts.STAYS_HERE


def test_only_fetching_has_an_address() -> None:
    def nobody(host: str) -> list[str]:
        raise AssertionError(host)

    assert address_guard(ToolCall("WebSearch", {"url": "http://127.0.0.1"}), nobody) is None
    assert address_guard(ToolCall("WebFetch", {"url": "http://127.0.0.1"}), nobody) is not None
    assert address_guard(ToolCall("WebFetch", {}), nobody) is not None

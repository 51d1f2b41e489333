"""The guards see every path in a call, whichever tool is called."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from tests.tools.home_scene import HomeScene

from ollim_bot.ports import ToolCall
from ollim_bot.tools import texts
from ollim_bot.tools.guards import address_guard, state_dir_guard
from ollim_bot.tools.path_rules import PathPolicy


def judged(
    home: HomeScene, path_policy: PathPolicy, tool: str, arguments: Mapping[str, object]
) -> str | None:
    spelled = {
        name: home.spelled(value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    return state_dir_guard(ToolCall(tool, spelled), path_policy)


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
    home: HomeScene, path_policy: PathPolicy, tool: str, arguments: dict[str, object]
) -> None:
    assert judged(home, path_policy, tool, arguments) is None


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit"])
@pytest.mark.parametrize(
    "path",
    ["state/token.json", "state/calendars/work.source.json", "{data}/.env", "to-link.md",
     "folder/x.md", "/etc/hosts", "", None, ["a"]],
)  # fmt: skip
def test_every_tool_for_files_is_kept_out(
    home: HomeScene, path_policy: PathPolicy, tool: str, path: object
) -> None:
    assert judged(home, path_policy, tool, {"file_path": path}) is not None
    assert judged(home, path_policy, tool, {}) is not None


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
        ("mcp__discord__send_file", {"file_path": "mcp.json"}),
    ],
)
def test_a_path_is_seen_in_every_argument_that_may_be_one(
    home: HomeScene, path_policy: PathPolicy, tool: str, arguments: dict[str, object]
) -> None:
    assert judged(home, path_policy, tool, arguments) is not None


def test_the_folder_in_a_glob_does_not_say_where_a_search_for_words_begins(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    (home.data / "notes/.env").write_text("secret")
    arguments = {"pattern": "x", "path": "notes", "glob": "notes/*"}
    assert judged(home, path_policy, "Grep", arguments) is not None
    assert judged(home, path_policy, "Grep", {**arguments, "glob": "notes/*.md"}) is None


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
        "wc -l routines/daily.md",
        "ls notes/state",
    ],
)
def test_commands_that_name_nothing_protected_pass(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) is None


@pytest.mark.parametrize(
    "command",
    [
        "cat state/token.json", "cat ./state/token.json", "cat '{data}/state/token.json'",
        "cat \"state/token.json\"", "cat st'at'e/token.json", "cat STATE/token.json",
        "cat notes/../state/token.json", "cat notes/up/state/token.json", "cat folder/token.json",
        "cat to-link.md", "ls state", "ls 'state'", "grep -r x state", "tar -Cstate -c x",
        "dd if=state/token.json", "curl -d @state/token.json x", "cp a:state/token.json b",
        "cat state/calendars/work.source.json",
        "bash -c 'cat state/token.json'", "bash -c 'cd state'", "./state/run",
        "ollim-bot reminder add -m 'state/token.json'", "ollim-bot runs --file=state/token.json",
    ],
)  # fmt: skip
def test_a_command_that_names_the_state_is_refused(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason is not None
    assert "state/ is protected" in reason


@pytest.mark.parametrize(
    "command",
    [
        "cat .env", "cat .env.local", "cat .ENV", "cat '.env'",
        "cat .git/config", "git --git-dir=.git log", "rm tool-policy.yaml", "rm -r .claude",
        "tee .claude/settings.json", "ls .", "grep -r x .", "grep -r x ./", "grep -r x ..",
        "cp -rL notes copy", "tar -ch notes", "find /", "find {data}",
        "tar -c notes/..", "cat /proc/self/environ",
    ],
)  # fmt: skip
def test_a_command_that_names_what_else_is_protected_is_refused(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason is not None
    assert "protected" in reason


@pytest.mark.parametrize(
    "command",
    ["", "  ", "a; b", "cat sta$x", "cat `x`", "cat st\\ate/x", "cat {s,x}tate/x", "cat [s]tate/x",
     "cat notes/*.md", "cat *.txt", "cat sta*/token.json", "cat */token.json", "cat ?tate/*",
     "cat *",
     "cat **/token.json", "cat /proc/*/environ", "ollim-bot reminder list /usr/*/*",
     "ollim-bot routine add -m x --*", "cat ~/x", "cat < note.md", "echo $(x)",
     "a\nb", "cat 'x", None, ["cat", "x"]],
)  # fmt: skip
def test_a_command_that_is_not_plain_is_refused(
    home: HomeScene, path_policy: PathPolicy, command: object
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) == texts.UNCLEAR_COMMAND


@pytest.mark.parametrize("command", ["cd notes", "pushd notes", "popd", "'cd' notes", "cd"])
def test_commands_stay_where_they_are(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) == texts.STAYS_HERE


def test_only_fetching_has_an_address() -> None:
    def no_lookup(host: str) -> list[str]:
        raise AssertionError(host)

    assert address_guard(ToolCall("WebSearch", {"url": "http://127.0.0.1"}), no_lookup) is None
    assert address_guard(ToolCall("WebFetch", {"url": "http://127.0.0.1"}), no_lookup) is not None
    assert address_guard(ToolCall("WebFetch", {}), no_lookup) is not None


@pytest.mark.parametrize(
    "command",
    [
        "grep -r hunter", "grep -R hunter", "grep -inr hunter", "grep --recursive hunter",
        "grep --rec hunter notes", "grep -d recurse hunter", "grep --directories=recurse x",
        "egrep -r hunter", "/usr/bin/grep -r hunter", "rgrep hunter", "ls -R", "ls -laR",
        "ls --recursive",
    ],
)  # fmt: skip
def test_a_command_that_goes_down_from_where_it_is_run_is_refused(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason == texts.REACHES_TOO_FAR


@pytest.mark.parametrize("command", ["grep -in x note.md", "ls -la notes/state", "ls -r routines"])
def test_one_that_stays_at_what_it_names_passes(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) is None


def test_a_folder_is_named_only_if_nothing_in_it_leads_out(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    def names(folder: str) -> str | None:
        return judged(home, path_policy, "Bash", {"command": f"cp -rL {folder} copy"})

    assert names("routines") is None
    (home.data / "routines/.env").write_text("secret")
    assert names("routines") == texts.REACHES_TOO_FAR
    assert names("notes") == texts.REACHES_TOO_FAR


@pytest.mark.parametrize(
    "command",
    [
        "cat {home}/outside.md", "cat ../outside.md", "cat to-outside.md", "cat /etc/passwd",
        "cat notes/far/plan.md", "cp note.md {home}/copy.md", "tee /tmp/x",
        "curl file:///etc/hosts",
        "dd of={home}/copy.md", "env -C routines cat ../../outside.md", "ls {home}/elsewhere",
    ],
)  # fmt: skip
def test_no_program_is_handed_what_is_outside(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason is not None
    assert "outside the data directory" in reason


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/wc -l note.md", "curl https://example.com/etc/passwd", "cat note.md /dev/null",
        "sed -n s/a/b/p note.md", "date +%d/%m/%Y", "grep -c /nowhere/at/all note.md",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_passes(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) is None


@pytest.mark.parametrize(
    "command",
    [
        "env -C notes cat ../state/token.json", "env -C routines cat ../.env",
        "env --chdir=notes cat up/state/token.json", "make -C notes -f ../tool-policy.yaml",
    ],
)  # fmt: skip
def test_nor_where_it_is_told_to_begin_elsewhere(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason is not None
    assert "is protected" in reason


def test_a_second_name_of_a_secret_is_not_named_either(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    os.link(home.data / "state/token.json", home.data / "routines/hard.md")
    for command in ("cat routines/hard.md", "cp -r routines copy"):
        assert judged(home, path_policy, "Bash", {"command": command}) is not None


OWNERS = [
    "ollim-bot", "ollim-bot web url", "ollim-bot web", "ollim-bot 'web' url",
    "/bin/ollim-bot web url", "env ollim-bot web url", "nice -n 5 ollim-bot web url",
    "ollim-bot web url --new", "ollim-bot config set permission_mode bypassPermissions",
    "ollim-bot config unset permission_mode", "ollim-bot config --json set a b",
    "env ollim-bot config set a b", "ollim-bot auth login", "ollim-bot auth status",
    "ollim-bot setup --non-interactive", "ollim-bot google auth", "ollim-bot service install",
    "ollim-bot backup --with-keys", "ollim-bot restore x", "ollim-bot update", "ollim-bot sentinel",
    "ollim-bot messages export", "ollim-bot webhook url x", "ollim-bot doctor --fix",
    "ollim-bot doctor --json --fix", "ollim-bot cal subscribe https://example.com/x",
    "ollim-bot cal unsubscribe x", "ollim-bot cal refresh", "ollim-bot mcp approve x",
    "ollim-bot mcp remove x",
    "ollim-bot skill add x --yes", "ollim-bot skill remove x", "ollim-bot whatever comes",
    "ollim-bot --set config", "ollim-bot -- skill add x", "ollim-bot '' skill add x",
    "ollim-bot skill '' add x", "ollim-bot skill -- add x", "ollim-bot skill --help add x",
    "ollim-bot --trial", "ollim-bot push x", "ollim-bot standby", "ollim-bot undo",
    "ollim-bot forget x", "ollim-bot about-me", "env ollim-bot cal subscribe x",
    "nice /usr/bin/ollim-bot webhook url x", "env ollim-bot about-me",
]  # fmt: skip


@pytest.mark.parametrize("command", OWNERS)
def test_what_changes_powers_is_never_done_by_the_agent(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    reason = judged(home, path_policy, "Bash", {"command": command})
    assert reason is not None
    assert "is for the owner alone" in reason


@pytest.mark.parametrize(
    "command",
    ["ollim-bot config list", "ollim-bot config get model.main", "ollim-bot doctor",
     "ollim-bot skill list", "ollim-bot mcp list", "ollim-bot webhook list", "ollim-bot cal today",
     "ollim-bot help config set", "ollim-bot help skill add --yes --", "ollim-bot --help",
     "ollim-bot version", "ollim-bot rehearse 7d",
     "grep ollim-bot note.md", "grep -c ollim-bot notes/plan.md"],
)  # fmt: skip
def test_what_only_shows_is_not_the_owners(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) is None


def test_a_command_that_names_too_many_files_is_not_looked_through(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    for number in range(60):
        (home.data / f"routines/{number}").mkdir()
    many = " ".join(f"routines/{number}" for number in range(60))
    assert judged(home, path_policy, "Bash", {"command": f"ls {many}"}) == texts.TOO_MUCH
    long = "./" * 2048 + "state/token.json"
    assert judged(home, path_policy, "Bash", {"command": f"cat {long}"}) == texts.TOO_MUCH
    # For our own commands it is a text.
    said = f"ollim-bot reminder add --in 2h -m '{'a/b ' * 2048}'"
    assert judged(home, path_policy, "Bash", {"command": said}) is None


def test_what_is_about_the_page_may_be_asked(home: HomeScene, path_policy: PathPolicy) -> None:
    for command in ("ollim-bot help web", "ollim-bot reminder add -m web --in 1h"):
        assert judged(home, path_policy, "Bash", {"command": command}) is None

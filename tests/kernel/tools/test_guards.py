"""The guards see every path in a call, whichever tool is called."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.tools.home_scene import SECRET, HomeScene

from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.tools.guards import address_guard, state_dir_guard
from ollim_bot.kernel.values.ports import ToolCall

pytestmark = pytest.mark.same_fixtures


def judged(
    home: HomeScene, path_policy: PathPolicy, tool: str, arguments: Mapping[str, object]
) -> str | None:
    return state_dir_guard(ToolCall(tool, spelled(home, arguments)), path_policy)


def spelled(home: HomeScene, value: object) -> Any:
    if isinstance(value, str):
        return home.spelled(value)
    if isinstance(value, Mapping):
        return {home.spelled(key): spelled(home, each) for key, each in value.items()}
    return [spelled(home, each) for each in value] if isinstance(value, list) else value


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
        "ollim-bot reminder add -m state --in 20m", "ollim-bot reminder add -m 'wait...' --in 20m",
        "ollim-bot reminder add -m 'read https://example.com/state/x' --in 1h",
        "ollim-bot history search .", "git log --oneline", "cat note.md",
        "wc -l routines/daily.md", "ls notes/state", "grep -in x note.md", "ls -la notes/state",
        "ls -r routines", "/usr/bin/wc -l note.md", "curl https://example.com/etc/passwd",
        "cat note.md /dev/null", "sed -n s/a/b/p note.md", "date +%d/%m/%Y",
        "grep -c /nowhere/at/all note.md", "ollim-bot config list",
        "ollim-bot config get model.main", "ollim-bot doctor", "ollim-bot skill list",
        "ollim-bot mcp list", "ollim-bot webhook list", "ollim-bot cal today",
        "ollim-bot help config set", "ollim-bot help skill add --yes --", "ollim-bot --help",
        "ollim-bot version", "ollim-bot rehearse 7d", "grep ollim-bot note.md",
        "grep -c ollim-bot notes/plan.md", "ollim-bot help web",
        "ollim-bot reminder add -m web --in 1h",
    ],
)  # fmt: skip
def test_commands_that_name_nothing_protected_pass(
    home: HomeScene, path_policy: PathPolicy, command: str
) -> None:
    assert judged(home, path_policy, "Bash", {"command": command}) is None


# Each reason, and the commands that are refused for it.
REFUSED_COMMANDS: dict[str, list[object]] = {
    "state/ is protected": [
        "cat state/token.json", "cat ./state/token.json", "cat '{data}/state/token.json'",
        "cat \"state/token.json\"", "cat st'at'e/token.json", "cat STATE/token.json",
        "cat notes/../state/token.json", "cat notes/up/state/token.json", "cat folder/token.json",
        "cat to-link.md", "ls state", "ls 'state'", "grep -r x state", "tar -Cstate -c x",
        "dd if=state/token.json", "curl -d @state/token.json x", "cp a:state/token.json b",
        "cat state/calendars/work.source.json", "bash -c 'cat state/token.json'",
        "bash -c 'cd state'", "./state/run", "ollim-bot reminder add -m 'state/token.json'",
        "ollim-bot runs --file=state/token.json",
    ],
    "protected": [
        "cat .env", "cat .env.local", "cat .ENV", "cat '.env'", "cat .git/config",
        "git --git-dir=.git log", "rm tool-policy.yaml", "rm -r .claude",
        "tee .claude/settings.json", "ls .", "grep -r x .", "grep -r x ./", "grep -r x ..",
        "cp -rL notes copy", "tar -ch notes", "find /", "find {data}", "tar -c notes/..",
        "cat /proc/self/environ", "env -C notes cat ../state/token.json",
        "env -C routines cat ../.env", "env --chdir=notes cat up/state/token.json",
        "make -C notes -f ../tool-policy.yaml",
    ],
    texts.UNCLEAR_COMMAND: [
        "", "  ", "a; b", "cat sta$x", "cat `x`", "cat st\\ate/x", "cat {s,x}tate/x",
        "cat [s]tate/x", "cat notes/*.md", "cat *.txt", "cat sta*/token.json", "cat */token.json",
        "cat ?tate/*", "cat *", "cat **/token.json", "cat /proc/*/environ",
        "ollim-bot reminder list /usr/*/*", "ollim-bot routine add -m x --*", "cat ~/x",
        "cat < note.md", "echo $(x)", "a\nb", "cat 'x", None, ["cat", "x"],
    ],
    texts.STAYS_HERE: [
        "cd notes", "pushd notes", "popd", "'cd' notes", "cd",
    ],
    texts.REACHES_TOO_FAR: [
        "grep -r hunter", "grep -R hunter", "grep -inr hunter", "grep --recursive hunter",
        "grep --rec hunter notes", "grep -d recurse hunter", "grep --directories=recurse x",
        "egrep -r hunter", "/usr/bin/grep -r hunter", "rgrep hunter", "ls -R", "ls -laR",
        "ls --recursive",
    ],
    "outside the data directory": [
        "cat {home}/outside.md", "cat ../outside.md", "cat to-outside.md", "cat /etc/passwd",
        "cat notes/far/plan.md", "cp note.md {home}/copy.md", "tee /tmp/x",
        "curl file:///etc/hosts", "dd of={home}/copy.md", "env -C routines cat ../../outside.md",
        "ls {home}/elsewhere",
    ],
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED_COMMANDS)
def test_a_command_that_may_reach_something_else_is_refused_with_the_reason(
    home: HomeScene, path_policy: PathPolicy, reason: str
) -> None:
    for command in REFUSED_COMMANDS[reason]:
        said = judged(home, path_policy, "Bash", {"command": command})
        assert reason in (said or ""), command


def test_only_fetching_has_an_address() -> None:
    def no_lookup(host: str) -> list[str]:
        raise AssertionError(host)

    assert address_guard(ToolCall("WebSearch", {"url": "http://127.0.0.1"}), no_lookup) is None
    assert address_guard(ToolCall("WebFetch", {"url": "http://127.0.0.1"}), no_lookup) is not None
    assert address_guard(ToolCall("WebFetch", {}), no_lookup) is not None


def test_a_folder_is_named_only_if_nothing_in_it_leads_out(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    def names(folder: str) -> str | None:
        return judged(home, path_policy, "Bash", {"command": f"cp -rL {folder} copy"})

    assert names("routines") is None
    (home.data / "routines/.env").write_text("secret")
    assert names("routines") == texts.REACHES_TOO_FAR
    assert names("notes") == texts.REACHES_TOO_FAR


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


SERVER = "mcp__files__any"

SECRET_PATHS = [
    "state/token.json", "./state//token.json", "state", "State/", "state/new.json",
    "STATE/token.json",
    "{data}/state/token.json", "/{data}/state/token.json", "notes/../state/token.json",
    "notes/up/state/token.json", "to-token.md", "to-link.md", "folder", "folder/token.json",
    ".env", ".env.local", "notes/.env", "mcp.json", "{data}/mcp.json", "tool-policy.yaml",
    ".claude/settings.json", "skills/skills.lock", ".git/config", ".mcp.json", ".gitattributes",
    "/proc/self/environ", "state/token.json\n", " state/token.json\t", "state/token.json\0.md",
    "state/token.json\0" + "x" * 5000,
    "st\u200bate/token.json", "\ufeffstate/token.json", "ｓｔａｔｅ/token.json",
    "plan, state/token.json", "plan\n.env\n", "a; mcp.json", "state／token.json",
    "ｓtate／．．／state／token.json", "sta\ud800te/token.json", "state%2Ftoken.json",
    "%73tate/token.json",
    "%2573tate%252Ftoken.json", "./" * 3000 + "state/token.json",
    "/" * 5000 + "{data}/state/token.json",
    "file:///{data}/state/token.json", "file://{data}/state/token.json", "FILE://{data}/.env",
    "file:{data}/state/token.json", "file:state/token.json", "file:state",
    "file://state/token.json",
    "file://localhost{data}/state/token.json", "File://LOCALHOST/%2e%2e{data}/state/token.json",
    "file:///%64ata/..{data}/%73tate/token.json", "file://{data}/sta\nte/token.json",
    "file://{data}/state/token.json?x=1", "file://{data}/state/token.json#a",
    "sqlite:///{data}/state/ollim.db", "sqlite:///state/ollim.db", "jar:file://{data}/.env!/x",
    "git+file://{data}/.git", "notes://x/state/token.json", "unix:state/token.json",
    "data/state/token.json", "home/data/state/token.json", "../state/token.json",
    "../data/state/token.json", "../../token.json", "~/data/state/token.json", "$HOME/data/.env",
    "${HOME}/data/state/token.json", "$PWD/state/token.json", "$OLLIM_DATA_DIR/.env",
    "--file=state/token.json", "@state/token.json", "-fstate/token.json", "key=.env",
    "note.md,state/token.json", "note.md state/token.json", "note.md\nstate/token.json",
    "notes/plan.md:{data}/state/token.json", "sta?e/token.json", "[s]tate/token.json",
    "s*/token.json", "**/token.json", "**/.env", "{{state,notes}}/*", "*/deep/web_token",
    "https://x/../../state/token.json", "notes/up/*/token.json", "{data}/st*/x/../token.json",
]  # fmt: skip

BELOW_AND_OUTSIDE = [
    ".", "./", "..", "/", "{data}", "{data}/", "{home}", "~", "$HOME", "$PWD", "file://{data}",
    "notes/up", "notes", "home", "data/notes/up", "./data/", "/etc/passwd", "/etc", "~/outside.md",
    "{home}/outside.md", "{home}/new/newer/newest.md", "{home}/elsewhere", "file:///etc/passwd",
    "file://localhost/etc/passwd", "file://etc/passwd",
    "to-outside.md", "notes/far/plan.md", "{data}-2/note.md", "{home}/a name/with spaces in it",
]  # fmt: skip


@pytest.mark.parametrize("path", SECRET_PATHS)
def test_a_tool_server_is_given_nothing_protected(
    home: HomeScene, path_policy: PathPolicy, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("HOME", str(home.root))
    path = path.replace("{{", "{").replace("}}", "}")
    for arguments in given_as(path):
        assert judged(home, path_policy, SERVER, arguments) is not None, arguments


@pytest.mark.parametrize("path", BELOW_AND_OUTSIDE)
def test_nor_what_is_outside_or_has_something_protected_below_it(
    home: HomeScene, path_policy: PathPolicy, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("HOME", str(home.root))
    for arguments in given_as(path):
        reason = judged(home, path_policy, SERVER, arguments)
        assert reason is not None, arguments
        assert "outside the data directory" in reason or "protected" in reason


def given_as(path: str) -> list[dict[str, object]]:
    """The same path in every place where a server may look for one."""
    return [
        {"source": path},
        {"paths": ["note.md", path]},
        {"edits": [{"target": {"uri": path}}]},
        {"request": json.dumps({"a": [path]})},
        {"request": json.dumps(json.dumps({"a": path, "b": {}}))},
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"files": {"state/token.json": "x"}},
        {"files": {".env": None}},
        {"files": {"mcp.json": {}}},
        {"request": '{"path": "state/token.json", "path": "note.md"}'},
        {"request": '\ufeff {"state/x": 1}'},
    ],
)
def test_a_path_may_also_be_a_key_and_come_twice(
    home: HomeScene, path_policy: PathPolicy, arguments: dict[str, object]
) -> None:
    assert judged(home, path_policy, SERVER, arguments) is not None


def test_words_with_spaces_are_a_path_where_they_lead_to_one(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    (home.data / "my old keys").symlink_to("state/token.json")
    (home.data / "state/my keys").write_text("x")
    for text, is_open in {
        "my old keys": False,
        "my new keys": True,
        "state/my keys": False,
        "state/no such keys": True,
        "no name/../state/token.json": False,
    }.items():
        assert (judged(home, path_policy, SERVER, {"a": text}) is None) is is_open


def test_a_path_that_leads_up_is_refused_wherever_the_server_begins() -> None:
    policy = PathPolicy(Path("/no-such-data"))
    assert policy.to_pass_on(["../token.json"]) == texts.outside("../token.json")
    assert policy.to_pass_on(["token.json"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "note.md", "notes/plan.md", "{data}/note.md", "file://{data}/note.md", "file:///{data}/note.md",
        "routines", "new/x.md",
        "notes/state/old.md", "statement.md", "a b/c d.md", "", " ", "*", ".*", "a?", "-", "50%",
        "1/2/2026", "and/or", "1/3", "owner/name", "ollim/ollim-bot#12", "feature/state/x",
        "either/or",
        "n/a", "10:30", "a:b", "key=value", "me@example.com", "mailto:me@example.com", "#tag/sub",
        "https://example.com/state/token.json", "http://example.com/.env?x=state/y",
        "HTTPS://a.b/etc/passwd",
        "https://example.com/.env and https://example.com/x",
        "https://example.com/a https://example.com/b", "/help", "/v1/users/3", "/repos/owner/name",
        "users/{{id}}", "[docs](https://example.com/a)", "image/*", "*.md", "**/*.json", "**/*",
        "*/*",
        "notes/*.md", "src/**/*.ts", "*/5 * * * *", "~5 minutes", "$5/month", "$a/b$", "text/plain",
        "data:text/plain;base64,aGVsbG8/d29ybGQ=", "application/json; charset=utf-8",
        ".github/workflows/a.yml",
        "The state/ folder is protected.", "state/ is where the bot keeps its own things",
        "state/token.json is none of its business", ".env is a file of settings",
        "Note: state/ is closed.",
        "Look at state/token.json, then at /etc/passwd.", "the state of things", "stateless",
        "# Plan\n\n- write to state/ never\n- read /etc/hosts\n", "a\nb\nstate\n", "ok...",
        "Done.", "e.g.",
        "id,title,state", "sort:state", "{{\"state\": \"open\"}}", "[ ] buy milk", "[1/2] x",
        "mongodb://db.example/data", "ssh://git@example.com/srv/x.git", "urn:isbn:0451450523",
        "x" * 200_000, "ab/" * 60_000, "\ud83d", "日本語/テスト", "½", "a" * 300 + "/b",
    ],
)  # fmt: skip
def test_a_tool_server_is_given_what_is_open_and_every_other_text(
    home: HomeScene, path_policy: PathPolicy, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HOME", str(home.root))
    text = text.replace("{{", "{").replace("}}", "}")
    field: dict[str, object] = {"state": "open", "filter": {"state": text, "x": [1, None]}}
    # A very long text takes long in each place.
    for arguments in (*(given_as(text) if len(text) < 1000 else ()), field):
        assert judged(home, path_policy, SERVER, arguments) is None, arguments


def test_our_own_tools_are_given_texts_that_only_look_like_paths(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    for tool in ("mcp__discord__ping_user", "mcp__docs__search_docs"):
        assert judged(home, path_policy, tool, {"message": "state/token.json"}) is None


def nested(depth: int) -> object:
    value: object = "note.md"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": nested(70)}, {"x": "[" * 100_000}, {"x": ["a"] * 20_000}, {"x": "ab c" * 300_000},
        {"paths": [f"notes/{number}.md" for number in range(2100)]},
        {"paths": ",".join(f"a/{number}" for number in range(2100))},
        {"paths": [f"routines/{number}" for number in range(60)]},
        {"globs": [f"s*/{number}" for number in range(60)]},
        {"paths": ["a/" * 1900 + str(number) for number in range(200)]},
    ],
)  # fmt: skip
@pytest.mark.real_time
def test_more_than_can_be_looked_through_is_refused_soon(
    home: HomeScene, path_policy: PathPolicy, arguments: dict[str, object]
) -> None:
    for number in range(60):
        (home.data / f"routines/{number}").mkdir()
    began = time.process_time()
    assert judged(home, path_policy, SERVER, arguments) == texts.TOO_MUCH_GIVEN
    assert time.process_time() - began < 5


PIECES = [
    "state", "token.json", "notes", "up", "folder", "..", ".", "", "%2e%2e", "data", "home", "far",
    "outside.md", ".env", "to-link.md", "note.md", "s*", "%73tate", "a b",
]  # fmt: skip
STARTS = ["", "/", "./", "{data}/", "{home}/", "~/", "file:", "file://", "file://{data}/", "x="]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(3))
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from(STARTS))
def test_whatever_a_server_could_open_with_a_text_is_no_secret(
    home: HomeScene, path_policy: PathPolicy, parts: list[str], start: str
) -> None:
    """Compared with the disk, as a server opens it that takes a path or an address of a file."""
    text = home.spelled(start + "/".join(parts))
    path = unquote(text.removeprefix("file:").removeprefix("//"))
    for opened in (text, path, os.path.normpath(path), path.removeprefix("x=")):
        for base in (home.data, home.root, home.data / "notes"):
            if SECRET in content(os.path.join(base, opened)):
                assert judged(home, path_policy, SERVER, {"a": [text]}) is not None


def content(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""

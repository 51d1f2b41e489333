"""What is protected cannot be reached, however the path to it is spelled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.tools.home_scene import SECRET, HomeScene

from ollim_bot.kernel.permissions.path_rules import LONGEST_PATH, PathPolicy
from ollim_bot.kernel.store.server_file import named_places
from ollim_bot.kernel.values.tool_servers import NamedPlaces, ServerSpec

OPEN_TO_READ = [
    "note.md", "./notes/plan.md", "{data}/note.md", "notes/../note.md", "notes/state/old.md",
    "statement.md", "new/folder/new.md", ".claude/agents/guide.md", "tool-policy.yaml", "spec.md",
    "{home}/texts/spec.md", ".",
]  # fmt: skip

# Each reason, and the paths that are neither read nor written for it.
CLOSED = {
    "state/ is protected.": [
        "state", "state/", "state/token.json", "./state//token.json", "{data}/state/token.json",
        "/{data}/state/token.json", "{home}/../home/data/state/token.json",
        "notes/../state/token.json", "nowhere/../state/token.json", "state/new.json",
        "state/new/newer.json", "STATE/token.json", "State/Token.json", "state./token.json",
        "state /token.json", "ｓｔａｔｅ/token.json", "st\u200bate/token.json",
        "\ufeffstate/token.json", "to-token.md", "to-link.md", "to-nothing.md",
        "folder/token.json", "folder/new.md",
        "folder", "home/data/state/token.json", "notes/up/state/token.json",
        "notes/up/folder/deep/web_token", "notes/up/notes/up/state", "into/../folder/token.json",
    ],
    "mcp.json is protected": ["mcp.json", "./MCP.json", "notes/../mcp.json"],
    ".env is protected.": [
        ".env", "./.env", ".ENV", ".env.local", ".env.d/x.md", "notes/.env", ".envrc.md", ".env.",
    ],
    ".git/ is protected.": [
        ".git/config", ".git", ".GIT/config", "notes/up/.git/config", "notes/.git/HEAD",
    ],
    "/proc is protected.": [
        "/proc/self/environ", "/proc/self/cwd/note.md", "/proc/self/root{data}/note.md", "/proc",
    ],
    "outside the data directory": [
        "..", "../outside.md", "{home}/outside.md", "/etc/passwd", "/", "to-outside.md",
        "home/outside.md", "notes/far/plan.md", "notes/far/../outside.md", "{data}-2/note.md",
        "{data}-backups/ollim-bot-20261116T090000Z.tar.gz",
        "{data}.before-restore-20261116T090000Z/.env", "{home}/texts-2/x.md",
    ],
    "more than one way": [
        "", " ", " note.md", "note.md ", "note.md\n", "~", "~/note.md", "~root/x", "a\0b",
        "a\x1b.md",
    ],
}  # fmt: skip


@pytest.mark.same_fixtures
@pytest.mark.parametrize("path", OPEN_TO_READ)
def test_the_rest_of_the_data_directory_is_open(
    home: HomeScene, path_policy: PathPolicy, path: str
) -> None:
    assert path_policy.to_read(home.spelled(path)) is None


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("reason", "path"), [(why, path) for why in CLOSED for path in CLOSED[why]]
)
def test_what_is_protected_outside_or_unclear_is_neither_read_nor_written(
    home: HomeScene, path_policy: PathPolicy, reason: str, path: str
) -> None:
    path = home.spelled(path)
    for said in (path_policy.to_read(path), path_policy.to_write(path)):
        assert reason in (said or "")


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "path",
    ["tool-policy.yaml", "./Tool-Policy.YAML", ".claude/agents/guide.md", ".claude/settings.json",
     ".Claude/x.md", ".claude/skills/plan.md", "notes/up/tool-policy.yaml", "spec.md",
     "{home}/texts/spec.md", "{home}/texts/new.md", "notes/.claude/skills/x/SKILL.md",
     "notes/.claude/commands/x.md", ".claude.json", "notes/.claude-plugin/x.md", ".mcp.json",
     "notes/.mcp.json", ".gitattributes", "notes/.gitattributes", ".GitAttributes", ".gitmodules",
     ".gitignore", "notes/new/.gitignore", "skills/skills.lock"],
)  # fmt: skip
def test_some_things_are_only_read(home: HomeScene, path_policy: PathPolicy, path: str) -> None:
    assert path_policy.to_write(home.spelled(path)) is not None


@pytest.mark.parametrize(
    "path", ["note.md", "new.md", "new/new.md", "skills/x/SKILL.md", "notes/up/a.md"]
)
def test_files_of_the_data_directory_are_written(path_policy: PathPolicy, path: str) -> None:
    assert path_policy.to_write(path) is None


def test_a_link_that_leads_to_itself_reaches_nothing(path_policy: PathPolicy) -> None:
    assert path_policy.to_read("loop.md") is None
    assert path_policy.to_read("loop.md/../state/token.json") is not None


def test_a_second_name_of_a_secret_file_is_no_way_to_it(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    os.link(home.data / "state/token.json", home.data / "hard.md")
    os.link(home.data / "note.md", home.data / "same.md")
    assert path_policy.to_read("hard.md") == "hard.md is protected."
    assert path_policy.to_read("same.md") is None


def test_no_search_finds_a_secret_file_by_its_second_name(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    assert path_policy.to_search("notes", "*.md", begins_at_glob=False) is None
    os.link(home.data / "note.md", home.data / "notes/same.md")
    assert path_policy.to_search("notes", "*.md", begins_at_glob=False) is None
    os.link(home.data / "state/token.json", home.data / "notes/hard.md")
    for where, glob in (("notes", "*.md"), ("", "**/hard.md"), ("notes/hard.md", "")):
        assert path_policy.to_search(where, glob, begins_at_glob=False) is not None
    assert path_policy.to_search("notes", "*.txt", begins_at_glob=False) is None


def test_a_second_name_of_a_file_that_was_moved_is_known_too(
    home: HomeScene, path_policy: PathPolicy
) -> None:
    (home.data / "state").rename(home.root / "kept")
    (home.data / "state").symlink_to("../kept")
    os.link(home.root / "kept/token.json", home.data / "hard.md")
    assert path_policy.to_read("hard.md") == "hard.md is protected."


def test_a_state_that_was_moved_stays_protected(home: HomeScene, path_policy: PathPolicy) -> None:
    (home.data / "state").rename(home.data / "kept")
    (home.data / "state").symlink_to("kept")
    (home.data / ".env").rename(home.data / "settings.txt")
    (home.data / ".env").symlink_to("settings.txt")
    assert (path_policy.to_read("kept/token.json") or "").startswith("state/ is protected.")
    assert (path_policy.to_read("settings.txt") or "").startswith(".env is protected.")


def test_a_data_directory_behind_a_link_is_the_same(home: HomeScene) -> None:
    (home.root / "linked").symlink_to("data")
    path_policy = PathPolicy(home.root / "linked")
    for place in ("", f"{home.root}/linked/", f"{home.data}/"):
        assert path_policy.to_read(f"{place}note.md") is None
        assert (path_policy.to_read(f"{place}state/x") or "").startswith("state/ is protected.")
    assert path_policy.to_read("../outside.md") is not None


FOLDERS = ["..", ".", "", "state", "STATE", "folder", "home", "data", "notes", "up", "far", "into"]
FILES = ["note.md", "token.json", "web_token", "to-link.md", ".env", "outside.md", "plan.md"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(3))
@given(
    st.lists(st.sampled_from(FOLDERS + FILES), max_size=8),
    st.sampled_from(["", "{data}/", "{home}/", "/"]),
)
@example(["home", "..", "home", "data", "state", "token.json"], "")
@example(["notes", "far", "..", "data", "folder", "deep", "web_token"], "{data}/")
def test_whatever_leads_to_a_secret_is_refused(
    home: HomeScene, path_policy: PathPolicy, parts: list[str], start: str
) -> None:
    """Compared with the disk itself, with `..` resolved before links and after them."""
    path = home.spelled(start) + "/".join(parts)
    whole = os.path.join(home.data, path)
    if any(SECRET in content(Path(each)) for each in (whole, os.path.normpath(whole))):
        assert path_policy.to_read(path) is not None


def content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("where", "glob"),
    [
        ("", "*.md"), ("", "**/*.md"), (".", "*.md"), ("routines", ""), ("routines", "*"),
        ("notes", "**"), ("", "notes/*.md"), ("note.md", ""), ("{data}", "*.md"),
        ("{home}/texts", ""), ("", "plan.md"), ("routines", "*.{md,txt}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("begins_at_glob", [True, False])
def test_a_search_that_cannot_find_secrets_is_made(
    home: HomeScene, path_policy: PathPolicy, where: str, glob: str, begins_at_glob: bool
) -> None:
    assert path_policy.to_search(home.spelled(where), glob, begins_at_glob=begins_at_glob) is None


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("where", "glob"),
    [
        ("", ""), (".", ""), ("", "*"), ("", "**/*"), ("", "*.json"), ("", "*token*"),
        ("", "t*n.json"), ("", "token.json"), ("", "?tate/*"), ("", "**/web_token"),
        ("", "*.LOCAL"), ("", "!*.md"), ("", "*.json *.md"), ("", "*.json,*.md"),
        ("", "{*.json,*.md}"), ("", "*.[jm]*"), ("", "*.m[d]"), ("", "{state,x}/*.md"),
        ("", "state/*.md"), ("", "./state/*.md"), ("", "folder/*.md"), ("", "{data}/state/*.md"),
        ("", "{home}/*.md"), ("", "/*.md"), ("", "../*.md"), ("", "~/*.md"),
        ("", "notes/../state/*.md"), ("state", "*.md"), ("folder", "*.md"), ("..", "*.md"),
        ("{home}", "*.md"), ("home", "*.md"), ("~", "*.md"), (" state", "*.md"),
        ("notes/up", "*.json"), ("notes/up", ""), ("to-token.md", ""), (".env", ""),
        (".git", "*.md"), ("notes/far", "*.md"), ("", "notes/*/../../state/token.json"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("begins_at_glob", [True, False])
def test_a_search_that_might_find_a_secret_is_refused(
    home: HomeScene, path_policy: PathPolicy, where: str, glob: str, begins_at_glob: bool
) -> None:
    spelled = (home.spelled(where), home.spelled(glob))
    assert path_policy.to_search(*spelled, begins_at_glob=begins_at_glob) is not None


@pytest.mark.parametrize(
    "name", ["state/a.md", "state/deep/A.MD", ".env.md", "notes/.env.md", ".git/x.md"]
)
def test_notes_among_the_secrets_close_the_search_of_all_notes(
    home: HomeScene, path_policy: PathPolicy, name: str
) -> None:
    (home.data / name).write_text(SECRET)
    assert "protected files" in (path_policy.to_search("", "*.md", begins_at_glob=False) or "")
    assert path_policy.to_search("routines", "*.md", begins_at_glob=False) is None


def test_the_servers_of_the_owner_are_not_named_either(path_policy: PathPolicy) -> None:
    for path in ("mcp.json", "./MCP.json", "notes/../mcp.json"):
        assert "mcp.json is protected" in (path_policy.to_name([path]) or "")
    assert path_policy.to_read("notes/mcp.json") is None


def test_no_path_is_longer_than_a_disk_knows(path_policy: PathPolicy) -> None:
    long = "notes/" + "a/" * 2045
    assert len(long) == LONGEST_PATH
    assert path_policy.to_read(long) is None
    assert "4096 characters at most" in str(path_policy.to_read(f"{long}a"))
    assert "4096 characters at most" in str(path_policy.to_write(f"{long}a"))


def of_server(home: HomeScene, *command: str, **variables: str) -> PathPolicy:
    places = named_places(ServerSpec("notes", command, variables), home.data)
    return PathPolicy(home.data, servers=lambda: places)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "tools/server.py"),
        ("python", "{data}/tools/server.py"),
        ("./tools/server",),
        ("uv", "run", "--directory", "./tools", "server"),
        ("uv", "run", "--directory=./tools", "server"),
        ("python", "notes/up/tools/server.py"),
    ],
)
def test_code_of_a_tool_server_is_not_written_and_texts_are(
    home: HomeScene, command: tuple[str, ...]
) -> None:
    (home.data / "tools" / "lib").mkdir(parents=True)
    (home.data / "tools" / "server.py").write_text("import json")
    (home.data / "tools" / "server").write_text("#!/bin/sh")
    (home.data / "elsewhere").symlink_to("tools")
    policy = of_server(home, *(home.spelled(word) for word in command))
    for path in ("json.py", "JSON.PY", "server.py", "lib/x.so", "x.md/json.py", "new/json.py"):
        for folder in ("tools", "TOOLS", "./notes/../tools", "{data}/tools", "elsewhere"):
            reason = policy.to_write(home.spelled(f"{folder}/{path}"))
            assert reason is not None, (folder, path)
            assert "tool server" in reason
    assert policy.to_hand_over(["tools/json.py"])
    assert policy.to_read("tools/server.py") is None
    for path in ("tools/notes.md", "other/json.py", "json.py", "toolsmith/x.py"):
        assert policy.to_write(path) is None


def test_a_server_in_the_data_directory_itself_leaves_the_texts_to_the_agent(
    home: HomeScene,
) -> None:
    (home.data / "server.py").write_text("import json")
    policy = of_server(home, "python", "server.py", "--tasks", "./tasks.md", PATHS="./lib:./more")
    for path in ("json.py", "sub/x.py", "server.py", "pyproject.toml", "lib", "more"):
        assert policy.to_write(path) is not None
    for path in ("USER.md", "notes/plan.md", "routines/daily.md", "tasks.md"):
        assert policy.to_write(path) is None
    assert policy.to_hand_over(["status"]) is None


@pytest.mark.parametrize(
    "command", [("notes-server", "notes"), ("npx", "-y", "@some/server"), ("python", "/opt/s.py")]
)
def test_a_server_elsewhere_protects_nothing(home: HomeScene, command: tuple[str, ...]) -> None:
    assert named_places(ServerSpec("notes", command), home.data) == NamedPlaces()

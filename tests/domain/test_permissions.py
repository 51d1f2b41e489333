"""Modes decide calls that no pattern decides; a lasting grant allows only what was asked."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ollim_bot.domain.agent_caller import shell_words
from ollim_bot.domain.permissions import (
    FILE_ARGUMENTS,
    LONGEST_GRANT,
    Verdict,
    grant_for,
    in_words,
    is_allowed,
    matches,
    relative,
    verdict,
)
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.tool_patterns import Problems, problems

ROOT = "/home/me/.ollim-bot"
REAL = "/mnt/disk/data"
WRITING = ("Write", "Edit", "MultiEdit", "NotebookEdit")
OTHERS = ("Read", "Bash", "WebFetch", "mcp__mail__send", "Agent")

words = st.sampled_from(
    ["git", "status", "ollim-bot", "tasks", "-la", "--x=1", "'a b'", "'*'", "rm", "notes", "*.md",
     "'a;b'", "./x", "run", "''", "'$(x)'", "a)b", '"q"', "config"]
)  # fmt: skip
commands = st.lists(words, min_size=1, max_size=4).map(" ".join) | st.text(max_size=12)
parts = st.sampled_from(["notes", "a.txt", "..", ".", "st*te", "state", "deep", "x y", ".env"])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join) | st.text(max_size=8)
places = st.builds(lambda start, path: start + path, st.sampled_from(["", "/", f"{ROOT}/"]), paths)
globs = st.lists(
    st.sampled_from(["notes", "*", "**", "a?", "*.txt", "{a,b}", ".."]), max_size=3
).map("/".join)
hosts = st.sampled_from(["example.com", "Example.com:8080", "a.b", "[2606::1]", "x@a.b", "a.b?"])
ends = st.sampled_from(["", "/", "/a/b?c=d", "?q", "#x", "/../x", "\\@evil.com/"])
urls = st.builds(
    lambda scheme, host, end: f"{scheme}://{host}{end}",
    st.sampled_from(["https", "http", "HTTPS", "ftp"]),
    hosts,
    ends,
)
calls: st.SearchStrategy[tuple[str, dict[str, object]]] = st.one_of(
    st.tuples(st.just("Bash"), commands.map(lambda command: {"command": command})),
    st.sampled_from(sorted(FILE_ARGUMENTS)).flatmap(
        lambda tool: st.tuples(st.just(tool), places.map(lambda at: {FILE_ARGUMENTS[tool]: at}))
    ),
    st.tuples(
        st.just("Grep"), st.builds(lambda at, glob: {"path": at, "glob": glob}, paths, globs)
    ),
    st.tuples(st.just("Glob"), globs.map(lambda glob: {"pattern": glob})),
    st.tuples(st.just("WebFetch"), urls.map(lambda url: {"url": url})),
    st.tuples(st.just("Skill"), st.text(max_size=6).map(lambda name: {"skill": name})),
    st.tuples(
        st.sampled_from(
            ["mcp__mail__send", "mcp__mail__*", "mcp__mail", "TodoWrite", "*", "A*", ""]
        ),
        st.just({}),
    ),
    st.tuples(st.text(max_size=8), st.just({})),
)


def granted(tool: str, /, **arguments: object) -> str:
    return str(grant_for(tool, arguments, ROOT) or "")


@pytest.mark.parametrize(
    ("mode", "edits", "others"),
    [
        (PermissionMode.DONT_ASK, Verdict.REFUSE, Verdict.REFUSE),
        (PermissionMode.DEFAULT, Verdict.ASK, Verdict.ASK),
        (PermissionMode.ACCEPT_EDITS, Verdict.LET_THROUGH, Verdict.ASK),
        (PermissionMode.BYPASS, Verdict.LET_THROUGH, Verdict.LET_THROUGH),
    ],
)
def test_each_mode_decides_about_what_no_pattern_allows(
    mode: PermissionMode, edits: Verdict, others: Verdict
) -> None:
    assert {verdict(mode, tool) for tool in WRITING} == {edits}
    assert {verdict(mode, tool) for tool in OTHERS} == {others}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo hello", "Bash(echo *)"),
        ("ollim-bot runs show 3f2a9c1b", "Bash(ollim-bot runs *)"),
        ("ollim-bot help routine", "Bash(ollim-bot help *)"),
        ("ollim-bot --help routine", "Bash(ollim-bot --help routine)"),
        ("ollim-bot skill add x", "Bash(ollim-bot skill add x)"),
        ("ollim-bot reminder list --json", "Bash(ollim-bot reminder list *)"),
        ("ollim-bot reminder add -m x", "Bash(ollim-bot reminder add -m x)"),
        ("git status", "Bash(git status)"),
        ("git grep foo", "Bash(git grep foo)"),
        ("git log -3 'a b'", ""),
        ("ollim-bot tasks add 'x; y'", ""),
        ("ollim-bot", "Bash(ollim-bot)"),
        ("date", "Bash(date)"),
        ("ls -la notes", "Bash(ls -la notes)"),
        ("git --no-pager log", "Bash(git --no-pager log)"),
        ("git 'status'", "Bash(git status)"),
        ("rm notes", "Bash(rm notes)"),
        ("npm run x", "Bash(npm run x)"),
        ("ollim-bot config set model opus", "Bash(ollim-bot config set model opus)"),
        ("python -c 'print(1)'", "Bash(python -c print(1))"),
        ("echo 'a b'", "Bash(echo *)"),
        ("cat 'a b'", ""),
        ("cat '*'", ""),
        ("cat *.md", ""),
        ("'g*t' status", ""),
        ("cat ''", ""),
        ("git 'log;x'", ""),
        ("cat '`x`'", ""),
        ("a; b", ""),
        ("", ""),
        (f"cat {'x' * LONGEST_GRANT}", ""),
        ("cat 'a\u202eb'", ""),
    ],
)
def test_a_command_is_granted_as_it_is_unless_any_like_it_is_harmless(
    command: str, expected: str
) -> None:
    assert granted("Bash", command=command) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("notes/a.txt", "Write(./notes/**)"),
        (f"{ROOT}/notes/deep/a.txt", "Write(./notes/deep/**)"),
        ("a.txt", "Write(./a.txt)"),
        ("notes/../a.txt", "Write(./a.txt)"),
        ("no*es/a.txt", ""),
        ("a?.txt", ""),
        ("notes/a`.txt", "Write(./notes/**)"),
        ("no`tes/a.txt", ""),
        ("state/a.txt", ""),
        (".env", ""),
        (".", ""),
        ("", ""),
        ("a\nb/c", ""),
    ],
)
def test_a_file_is_known_by_its_folder(path: str, expected: str) -> None:
    assert granted("Write", file_path=path) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/a/b?c", "WebFetch(https://example.com/**)"),
        ("https://example.com", "WebFetch(https://example.com/**)"),
        ("http://example.com:8080/", "WebFetch(http://example.com:8080/**)"),
        ("https://example.com@evil.com/", ""),
        ("https://example.com?x", ""),
        ("https://*.com/", ""),
        ("ftp://example.com/", ""),
        ("", ""),
    ],
)
def test_an_address_is_known_by_its_site(url: str, expected: str) -> None:
    assert granted("WebFetch", url=url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com.evil.com/",
        "https://example.com@evil.com/",
        "https://example.comevil.com/",
        "https://evil.com/example.com/",
        "https://evil.com\\.example.com/",
        "https://www.example.com/",
        "http://example.com/",
        "https://example.com:8443/",
    ],
)
def test_a_site_that_only_looks_like_it_is_another_one(url: str) -> None:
    site = grant_for("WebFetch", {"url": "https://example.com/a"}, ROOT)
    assert site is not None
    assert not matches(site, "WebFetch", {"url": url}, ROOT)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Grep", {"pattern": "x", "path": "notes"}, "Grep(./notes)"),
        ("Grep", {"pattern": "x", "path": "notes", "glob": "*.txt"}, "Grep(./notes/**)"),
        ("Grep", {"pattern": "x", "glob": "*.txt"}, "Grep(./**/*.txt)"),
        ("Grep", {"pattern": "x"}, ""),
        ("Glob", {"pattern": "notes/*.txt"}, "Glob(./notes/**)"),
        ("Glob", {"pattern": "*.txt"}, "Glob(./*.txt)"),
        ("Glob", {"pattern": "{a,b}/*"}, ""),
        ("Glob", {"pattern": "../*"}, ""),
        ("Skill", {"skill": "mail", "args": "x y"}, "Skill(mail *)"),
        ("Skill", {"skill": "*"}, ""),
        ("Skill", {"skill": "mail now"}, ""),
        ("Agent", {"subagent_type": "guide", "prompt": "x"}, "Agent(guide)"),
        ("Agent", {"prompt": "x"}, "Agent"),
        ("mcp__mail__send", {"to": "x"}, "mcp__mail__send"),
        ("mcp__mail__*", {}, ""),
        ("WebSearch", {"query": "x"}, "WebSearch"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
    ],
)  # fmt: skip
def test_other_tools_are_known_by_where_they_look_or_by_their_name(
    tool: str, arguments: dict[str, object], expected: str
) -> None:
    assert granted(tool, **arguments) == expected


def test_a_folder_with_two_names_gives_the_same_pattern_under_both() -> None:
    for path in ("notes/a.txt", f"{ROOT}/notes/a.txt", f"{REAL}/notes/a.txt"):
        for roots in ((ROOT, REAL), (REAL, ROOT)):
            grant = grant_for("Write", {"file_path": path}, *roots)
            assert str(grant) == "Write(./notes/**)"
            assert grant is not None
            assert is_allowed([grant], "Write", {"file_path": path}, *roots)


@given(calls)
def test_a_grant_is_right_and_allows_the_call_it_was_made_for(
    call: tuple[str, dict[str, object]],
) -> None:
    grant = grant_for(*call, ROOT)
    if grant is not None:
        assert problems(str(grant)) == Problems()
        assert len(str(grant)) <= LONGEST_GRANT
        assert str(grant).isprintable()
        assert matches(grant, *call, ROOT)


@given(calls, calls)
def test_a_grant_never_allows_another_tool(
    call: tuple[str, dict[str, object]], other: tuple[str, dict[str, object]]
) -> None:
    grant = grant_for(*call, ROOT)
    assert grant is None or other[0] == call[0] or not matches(grant, *other, ROOT)


@given(commands, commands)
@example("git status", "git push")
@example("echo a", "echo a b")
def test_a_grant_for_a_command_allows_only_itself_unless_any_like_it_is_harmless(
    asked: str, other: str
) -> None:
    grant = grant_for("Bash", {"command": asked}, ROOT)
    assume(grant is not None)
    assert grant is not None
    if matches(grant, "Bash", {"command": other}, ROOT):
        first, second = (shell_words(command) or () for command in (asked, other))
        harmless = first[0] == second[0] == "echo"
        assert first == second or (harmless and str(grant) == "Bash(echo *)")


SHELLS = [
    "git grep foo", "git log", "git status", "git diff", "tar cf a.tar notes", "find notes",
    "sed -n p notes/plan.md", "awk 1 notes/plan.md", "gh pr list", "npm test", "pip list",
    "cargo build", "systemctl status x", "uv sync", "brew list", "ssh host", "less notes/plan.md",
    "man ls", "date", "cat notes/plan.md", "ls", "sort notes/plan.md", "make",
    "ollim-bot tasks list x",
    "ollim-bot routine add -m x", "ollim-bot reminder edit 1 --in 2h",
]  # fmt: skip


@pytest.mark.parametrize("command", SHELLS)
def test_no_grant_allows_a_flag_that_was_not_asked_for(command: str) -> None:
    """`--open-files-in-pager=…`, `--to-command=…`, `--output=…`: many a flag starts a program."""
    grant = grant_for("Bash", {"command": command}, ROOT)
    assert grant is not None
    assert matches(grant, "Bash", {"command": command}, ROOT)
    if str(grant) != "Bash(ollim-bot tasks list *)":
        for flag in ("--open-files-in-pager=touch", "-exec", "--to-command=sh", "-c", "x"):
            assert not matches(grant, "Bash", {"command": f"{command} {flag}"}, ROOT)


@given(places, places)
@example("notes/a.txt", "notes-2/a.txt")
@example("a.txt", "notes/a.txt")
def test_a_grant_for_a_file_stays_in_its_folder(asked: str, other: str) -> None:
    grant = grant_for("Write", {"file_path": asked}, ROOT)
    if grant is not None and matches(grant, "Write", {"file_path": other}, ROOT):
        first, second = relative(asked, ROOT), relative(other, ROOT)
        folder = first.rpartition("/")[0]
        assert first == second or (folder not in ("", ".") and second.startswith(f"{folder}/"))


@given(urls, urls)
def test_a_grant_for_an_address_stays_on_its_site(asked: str, other: str) -> None:
    grant = grant_for("WebFetch", {"url": asked}, ROOT)
    if grant is not None and matches(grant, "WebFetch", {"url": other}, ROOT):
        first, second = urlsplit(asked), urlsplit(other)
        assert (first.scheme, first.netloc) == (second.scheme, second.netloc)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("Bash", {"command": "git grep foo"}, "exactly this command"),
        ("Bash", {"command": "ollim-bot runs list"}, "`ollim-bot runs` with any arguments"),
        ("Write", {"file_path": "notes/a.txt"}, "every file below this folder"),
        ("Write", {"file_path": "a.txt"}, "this and nothing else"),
        ("WebFetch", {"url": "https://example.com/a"}, "every page of this site"),
        ("mcp__mail__send", {"to": "x"}, "any use of it"),
    ],
)
def test_what_a_grant_allows_is_said_in_words(
    tool: str, arguments: dict[str, object], words: str
) -> None:
    grant = grant_for(tool, arguments, ROOT)
    assert grant is not None
    assert in_words(grant) == words

"""Modes decide calls that no pattern decides; a lasting grant allows only what was asked."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ollim_bot.kernel.values.agent_caller import LONGEST_COMMAND, MOST_WORDS, quoted, shell_words
from ollim_bot.kernel.values.events import tool_label
from ollim_bot.kernel.values.permissions import (
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
from ollim_bot.kernel.values.runtime_config import PermissionMode
from ollim_bot.kernel.values.tool_patterns import Problems, problems

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


WORDS = ["a", "-x", "./é", "=y", "'b c'", "'$b;'", '"d | e"', "''", '"f', "g'", "%", "a:b@c", "0,+"]

LIVE = [*"$`\\;&|<>(){}[]~!#^=*?", "\n", "\r", "\0"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ollim-bot reminder list", ["ollim-bot", "reminder", "list"]),
        ("  a \t b ", ["a", "b"]),
        ("add -m 'buy milk; call mum'", ["add", "-m", "buy milk; call mum"]),
        ('add -m "it\'s late!"', ["add", "-m", "it's late!"]),
        ("a'b'\"c\"d", ["abcd"]),
        ("a ''", ["a", ""]),
        ("add -m Größe --at 9:00", ["add", "-m", "Größe", "--at", "9:00"]),
        ("a --x=y", ["a", "--x=y"]),
        ("a '$HOME' '`x`' '\\'", ["a", "$HOME", "`x`", "\\"]),
        ("", []),
    ],
)
def test_plain_words_are_read(command: str, words: list[str]) -> None:
    assert shell_words(command) == tuple(words)


@pytest.mark.parametrize(
    "command",
    [
        "a; b", "a & b", "a && b", "a | b", "a || b", "a > b", "a < b", "a >> b", "a <<< b",
        "a $(b)", "a `b`", "a $b", "a ${b}", 'a "$b"', 'a "`b`"', 'a "\\x"', "a $'b'", "a \\b",
        "a\nb", "a 'b\nc'", "a\rb", "a\0b", "a\x1bb", "a #b", "a ~", "a ~/b", "a {b,c}", "a [bc]",
        "(a)", "! a", "a !b", "a ^b", "X=1 a", "=a", "a =b", "a 'b", 'a "b', "a 'b'\"", "a '[b]'*",
        "a\u00a0b", "a <(b)", "a\\\nb", "a *", "a *.md",
        "a **/b", "a ?b", "a --*", "a 'b'*", "a x\"\"?",
    ],
)  # fmt: skip
def test_what_may_be_more_than_words_is_not_read(command: str) -> None:
    assert shell_words(command) is None


@pytest.mark.real_process
@given(st.lists(st.sampled_from([*WORDS, " ", "\t"]), max_size=8).map("".join))
@example("a 'b c' \"d\"e")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_shell_reads_the_same_words(tmp_path: Path, command: str) -> None:
    words = shell_words(command)
    if not words:
        return
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"printf '%s\\0' {command}"],
        cwd=tmp_path,
        env={"PATH": "", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(ran.stdout.split("\0")[:-1]) == words


def test_what_is_too_long_is_not_read() -> None:
    assert shell_words(f"a {'b' * (LONGEST_COMMAND - 2)}") is not None
    assert shell_words(f"a {'b' * (LONGEST_COMMAND - 1)}") is None
    assert shell_words("a " * MOST_WORDS) is not None
    assert shell_words("a " * (MOST_WORDS + 1)) is None


PROFILE = """
shopt -s globstar dotglob extglob nullglob expand_aliases autocd cdspell
set -o history -o histexpand
alias a='echo aliased' x='echo' ollim-bot='echo aliased'
function b { echo function; }
"""

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)

TRAPS = st.sampled_from(
    ["a", "b", "*", "**", "?", "--*", "~", "~root", "{a,b}", "$HOME", "`id`", "!!", "'", "''", "\\",
     "a'b", '"', "[a-z]", "@(a|b)", "=ls", "#", "x=1", "-", "", ";", "%1"]
)  # fmt: skip


@pytest.mark.real_process
@given(st.lists(TEXTS | TRAPS, min_size=1, max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_profile_changes_a_word_in_quotes(tmp_path: Path, words: list[str]) -> None:
    for name in ("--allowed-tool=Bash(python3 *)", ".hidden", "a", "b"):
        (tmp_path / name).mkdir(exist_ok=True)
    line = quoted(["/usr/bin/printf", "%s\\0", *words])
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"{PROFILE}\neval {shlex.quote(line)}"],
        cwd=tmp_path,
        env={"PATH": "", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split("\0")[:-1] == words


AROUND = st.lists(st.sampled_from(["a", " ", "'b c'", '"d"', "-x"]), max_size=6).map("".join)


@given(AROUND, st.sampled_from(LIVE), AROUND)
def test_a_live_character_outside_quotes_is_never_read(before: str, live: str, after: str) -> None:
    if live != "=" or not before.strip():
        assert shell_words(before + live + after) is None


LONG = "x" * 200


@pytest.mark.parametrize(
    ("tool", "arguments", "label"),
    [
        ("Read", {"file_path": "/home/ada/notes/today.md"}, "Read(notes/today.md)"),
        ("Read", {"file_path": "today.md"}, "Read(today.md)"),
        ("Read", {"file_path": "/"}, "Read(/)"),
        ("Edit", {"file_path": "a/b.md", "old_string": "x", "new_string": "y"}, "Edit(a/b.md)"),
        ("NotebookEdit", {"notebook_path": "/a/b/c.ipynb"}, "NotebookEdit(b/c.ipynb)"),
        ("Bash", {"command": "ls -la"}, "Bash(ls -la)"),
        ("Bash", {"command": "ls\nrm -r x", "description": "looks"}, "Bash(ls)"),
        ("Bash", {"command": "\n\n  echo hi  "}, "Bash(echo hi)"),
        ("Bash", {"command": LONG}, f"Bash({'x' * 49}…)"),
        ("Bash", {"command": "x" * 50}, f"Bash({'x' * 50})"),
        ("Grep", {"pattern": "TODO", "path": "/home/ada"}, "Grep(TODO)"),
        ("Glob", {"pattern": "**/*.md"}, "Glob(**/*.md)"),
        ("LS", {"path": "/home/ada/notes"}, "LS(ada/notes)"),
        ("WebFetch", {"url": "https://e.org/x", "prompt": "p"}, "WebFetch(https://e.org/x)"),
        ("WebSearch", {"query": "weather"}, "WebSearch(weather)"),
        ("Agent", {"description": "look about", "prompt": LONG}, "Agent(look about)"),
        ("Skill", {"skill": "cooking"}, "Skill(cooking)"),
        ("mcp__discord__ping_user", {"message": "hello"}, "ping_user"),
        ("mcp__my_server__do__it", {}, "my_server: do__it"),
        ("mcp__odd", {}, "mcp__odd"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
        ("Read", {}, "Read"),
        ("Read", {"file_path": ""}, "Read"),
        ("Read", {"file_path": None, "path": "a/b"}, "Read(a/b)"),
        ("Read", {"file_path": ["a"]}, "Read"),
        ("Bash", {"command": "a\x1b[31m\u202eb"}, "Bash(a [31m b)"),
        (LONG, {"command": LONG}, f"{'x' * 59}…({'x' * 49}…)"),
    ],
)
def test_the_argument_that_says_most_is_shown_shortly(
    tool: str, arguments: dict[str, object], label: str
) -> None:
    assert tool_label(tool, arguments) == label


NAMES = st.sampled_from(["file_path", "command", "pattern", "url", "path", "query", "description"])

VALUES = st.text() | st.integers() | st.none() | st.lists(st.text()) | st.binary()


@given(st.text(), st.dictionaries(NAMES | st.text(), VALUES))
def test_whatever_the_model_sends_the_label_is_one_short_printable_line(
    tool: str, arguments: dict[str, object]
) -> None:
    label = tool_label(tool, arguments)
    assert len(label) <= 112
    assert label.isprintable()
    assert len(label.splitlines()) <= 1

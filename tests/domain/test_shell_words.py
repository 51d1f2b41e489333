"""A command is read as the shell reads it, or not at all."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ollim_bot.domain.agent_caller import LONGEST_COMMAND, MOST_WORDS, quoted, shell_words

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

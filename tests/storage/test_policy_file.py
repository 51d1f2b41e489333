"""What the owner allows counts at once; a wrong file changes nothing and is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ollim_bot.domain.tool_policy import ToolPolicy
from ollim_bot.paths import DataPaths
from ollim_bot.store.policy_file import PolicyFile
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS


class Owner:
    """Writes the file, each time a moment later, and hears what is wrong with it."""

    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        self.told: list[str] = []
        self.file = PolicyFile(self.paths, self.told.append)
        self._moment = 1_800_000_000_000_000_000

    def writes(self, text: str) -> ToolPolicy:
        self.paths.tool_policy.write_text(text)
        self._moment += 1_000_000
        os.utime(self.paths.tool_policy, ns=(self._moment, self._moment))
        return self.file.read()


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_without_a_file_the_defaults_count(owner: Owner) -> None:
    policy = owner.file.read()
    assert policy.main(MAIN_TOOLS) == MAIN_TOOLS
    assert policy.background(DEFAULT_BG_TOOLS) == DEFAULT_BG_TOOLS
    assert owner.told == []


def test_what_the_owner_adds_counts_at_once(owner: Owner) -> None:
    policy = owner.writes(
        'main_session:\n  additional_allowed: ["Bash(git status)"]\n'
        "bg_forks:\n  additional_allowed:\n    - WebFetch(https://example.com/*)\n"
    )
    assert policy.main(MAIN_TOOLS) == (*MAIN_TOOLS, "Bash(git status)")
    assert policy.background(DEFAULT_BG_TOOLS) == (
        *DEFAULT_BG_TOOLS,
        "WebFetch(https://example.com/*)",
    )
    assert owner.writes("").main(MAIN_TOOLS) == MAIN_TOOLS


def test_background_tools_can_be_replaced(owner: Owner) -> None:
    policy = owner.writes('bg_forks:\n  override: ["Read(./notes/**.md)"]\n')
    assert policy.background(DEFAULT_BG_TOOLS) == ("Read(./notes/**.md)",)
    assert owner.writes("bg_forks:\n  override: []\n").background(DEFAULT_BG_TOOLS) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("main_session: all", "tool-policy.yaml:1: main_session takes lists"),
        ("\nmain: {}", "tool-policy.yaml:2: main is not known"),
        ("main_session:\n  allowed: []", "allowed is not known"),
        ("main_session:\n  additional_allowed: Bash", "takes a list of patterns"),
        ('main_session:\n  additional_allowed: ["Bash(*)"]', "Bash(*)"),
        ('main_session:\n  additional_allowed: ["Bash(ls; rm x)"]', "Bash(ls; rm x)"),
        ('main_session:\n  additional_allowed: ["Write(state/x)"]', "Write(state/x)"),
        ("main_session: [", "not YAML"),
    ],
)
def test_a_wrong_file_is_named_once_and_the_last_good_one_counts(
    owner: Owner, text: str, words: str
) -> None:
    good = owner.writes('main_session:\n  additional_allowed: ["Bash(git status)"]\n')
    assert owner.writes(text) == good
    assert owner.file.read() == good
    (told,) = owner.told
    assert words in told
    assert told.startswith("tool-policy.yaml")
    assert told.endswith("what was allowed before counts.")


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1_500_000_000)


@pytest.mark.parametrize(
    ("make", "words"),
    [(Path.mkdir, "not a file"), (os.mkfifo, "not a file"), (make_huge, "larger than 1 MB")],
)
def test_a_file_that_is_none_is_named(
    owner: Owner, make: Callable[[Path], None], words: str
) -> None:
    make(owner.paths.tool_policy)
    assert owner.file.read() == ToolPolicy()
    assert words in owner.told[0]

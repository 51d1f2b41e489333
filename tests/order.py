"""What a developer wants to know first: the tests that failed last, and what the change touches."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePath

import pytest

_IMPORTED = re.compile(r"^(?:from ([\w.]+) import|import ([\w.]+))", re.MULTILINE)


def first_tests(config: pytest.Config, items: Sequence[pytest.Item]) -> list[int]:
    """The tests to run before all others: those that failed last, then those of the change.

    There are none where nobody waits, in a continuous integration.
    """
    if os.environ.get("CI"):
        return []
    # Not there if the plugin is not.
    cache: pytest.Cache | None = getattr(config, "cache", None)
    failed = cache.get("cache/lastfailed", {}) if cache else {}
    changed = _changed_files(config.rootpath)
    touched = touched_by(changed, {each.path for each in items}, config.rootpath)
    ranks = [_rank(each, failed, touched) for each in items]
    return sorted((test for test, rank in enumerate(ranks) if rank), key=lambda test: -ranks[test])


def _rank(item: pytest.Item, failed: Collection[str], touched: Collection[Path]) -> int:
    return 2 if item.nodeid in failed else int(item.path in touched)


def touched_by(changed: Iterable[str], tests: Iterable[Path], root: Path) -> set[Path]:
    """The files of tests that have changed, or import a module that has."""
    paths = [PurePath(each) for each in changed if each.endswith(".py")]
    modules = {".".join(each.with_suffix("").parts).removeprefix("src.") for each in paths}
    if not modules:
        return set()
    changed_files = {root / each for each in paths}
    return {each for each in tests if each in changed_files or modules & imported_by(each)}


def imported_by(file: Path) -> set[str]:
    return {first or second for first, second in _IMPORTED.findall(file.read_text("utf-8"))}


def _changed_files(root: Path) -> list[str]:
    """What differs from the branch that this one follows, else from the last commit."""
    for base in ("@{upstream}", "HEAD"):
        if (tracked := _git(root, "diff", "--name-only", base)) is not None:
            return tracked + (_git(root, "ls-files", "--others", "--exclude-standard") or [])
    return []


def _git(root: Path, *arguments: str) -> list[str] | None:
    try:
        ran = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.splitlines()

"""The data directory is created on first use, and repaired without touching user files."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import TEXTS, prepare_data_directory


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path / "deep" / "data")
    prepare_data_directory(paths)
    return paths


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1_500_000_000)


def tree(paths: DataPaths) -> dict[str, tuple[int, bytes | str]]:
    return {
        str(path.relative_to(paths.root)): (path.lstat().st_mode, content(path))
        for path in sorted(paths.root.rglob("*"))
    }


def content(path: Path) -> bytes | str:
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else ""


def test_everything_is_there(paths: DataPaths) -> None:
    agents = ("routines", "reminders", "webhooks", "skills", "downloads", ".claude/agents")
    for folder in (*agents, "state/attachments", "state/.locks"):
        assert (paths.root / folder).is_dir()
    for profile in (paths.identity, paths.user):
        assert profile.read_bytes() == (TEXTS / profile.name).read_bytes()
    assert os.readlink(paths.claude_skills) == "../skills"
    for link in (paths.routine_spec_link, paths.webhook_spec_link):
        assert link.is_symlink()
        assert link.resolve() == TEXTS / link.name
        assert len(link.read_text()) > 1000


def test_nobody_else_may_look(paths: DataPaths) -> None:
    assert stat.S_IMODE(paths.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(paths.state.stat().st_mode) == 0o700


def test_a_second_time_changes_nothing(paths: DataPaths) -> None:
    before = tree(paths)
    prepare_data_directory(paths)
    assert tree(paths) == before


def test_what_people_wrote_stays(paths: DataPaths) -> None:
    paths.identity.write_text("someone else")
    paths.webhook_spec_link.unlink()
    paths.webhook_spec_link.write_text("my own notes")
    paths.gitignore.write_text("/private/")
    prepare_data_directory(paths)
    assert paths.identity.read_text() == "someone else"
    assert paths.webhook_spec_link.read_text() == "my own notes"
    lines = paths.gitignore.read_text().splitlines()
    assert lines[0] == "/private/"
    assert "/state/*" in lines


def test_a_link_that_leads_nowhere_is_made_anew(paths: DataPaths) -> None:
    paths.routine_spec_link.unlink()
    paths.routine_spec_link.symlink_to("/an/older/installation/routine-reminder-spec.md")
    prepare_data_directory(paths)
    assert paths.routine_spec_link.resolve() == TEXTS / "routine-reminder-spec.md"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, make_huge])
def test_a_gitignore_that_is_no_text_is_named_and_nothing_else_is_held_up(
    paths: DataPaths, make: Callable[[Path], None]
) -> None:
    paths.gitignore.unlink()
    make(paths.gitignore)
    paths.identity.unlink()
    (problem,) = prepare_data_directory(paths).problems
    assert problem.startswith(".gitignore is ")
    assert problem.endswith(". Move it away; a new one is made then.")
    assert paths.identity.exists()


@pytest.mark.real_process
def test_a_persons_own_git_add_takes_nothing_private(paths: DataPaths) -> None:
    for private in (paths.env_file, paths.token, paths.config, paths.downloads / "x.pdf"):
        private.write_text("private")
    paths.session_history.write_text("{}\n")
    (paths.routines / "mine.md").write_text("---\n")
    (paths.routines / ".mine.md.tmp").write_text("half")
    git = ["git", "-C", str(paths.root), "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    listed = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True)
    assert [
        name for name in listed.stdout.splitlines() if not name.startswith(".claude/agents/")
    ] == [".gitignore", "IDENTITY.md", "USER.md", "routines/mine.md", "state/session_history.jsonl"]


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteFailed, match=r"file.*could not be made: Not a directory"):
        prepare_data_directory(DataPaths(tmp_path / "file" / "data"))

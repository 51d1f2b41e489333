"""`doctor --fix`: it fixes and reports what is safe to fix, and leaves what a person wrote."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features.doctor.doctor_table import look, told
from tests.kernel.store.files.data_directory import NOW
from tests.terminal import held

from ollim_bot.features.doctor.data_checks import data_directory, git_history, is_git_at_work
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.instance import running_pid, single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import TEXTS, prepare_data_directory
from ollim_bot.kernel.store.journal import open_journal
from ollim_bot.kernel.upkeep.findings import DoctorInput, Level, Repair, repaired

MENDING = ("bot", "data directory", "leftovers", "tool servers", "Google")
DAY = 24 * 3600.0
OLD = time.time() - DAY


def fixed(paths: DataPaths) -> list[Repair]:
    given = DoctorInput(None, Location(paths, ZoneInfo("UTC")), (), {}, NOW)
    return repaired(look(given, *MENDING))


def left(path: Path, content: str = "half") -> None:
    path.write_text(content)
    os.utime(path, (OLD, OLD))


def others_may_read(path: Path) -> None:
    path.write_text("{}")
    path.chmod(0o644)


def all_open(paths: DataPaths) -> None:
    for each in (paths.root, paths.state):
        each.chmod(0o755)
    others_may_read(paths.web_token)


FAULTS: dict[str, Callable[[DataPaths], object]] = {
    "an open folder": lambda paths: paths.root.chmod(0o755),
    "an open state folder": lambda paths: paths.state.chmod(0o777),
    "an open state file": lambda paths: all_open(paths),
    "an open mcp.json": lambda paths: others_may_read(paths.mcp),
    "an open token": lambda paths: others_may_read(paths.credentials),
    "no link to the skills": lambda paths: paths.claude_skills.unlink(),
    "a link to an older version": lambda paths: relinked(paths.webhook_spec_link),
    "no .gitignore": lambda paths: paths.gitignore.unlink(),
    "a short .gitignore": lambda paths: paths.gitignore.write_text("*.bak\n/state/*"),
    "a folder for a lock": lambda paths: (paths.locks / "x").mkdir(),
    "a link for a lock": lambda paths: (paths.locks / "y").symlink_to("/dev/null"),
    "a pipe for a lock": lambda paths: os.mkfifo(paths.locks / "z"),
    "a pid without a bot": lambda paths: paths.bot_pid.write_text("1\n"),
    "an unfinished job": lambda paths: left(paths.routines / ".a.md.tmp"),
    "an unfinished state file": lambda paths: left(paths.state / ".config.json.tmp"),
    "an unfinished salvage": lambda paths: left(paths.state / ".ollim.db.salvaged"),
}

# All of these are old, so only their names protect them.
WRITTEN: dict[str, Callable[[DataPaths], object]] = {
    "notes": lambda paths: left(paths.root / ".notes.tmp", "mine"),
    "a draft": lambda paths: left(paths.routines / "draft.tmp", "mine"),
    "a job": lambda paths: left(paths.routines / "a.md", "---\nid: a\n---\nmine"),
    "a hidden skill": lambda paths: left(paths.skills / ".x.md.tmp", "mine"),
    "tasks": lambda paths: left(paths.tasks, "- [ ] mine"),
    "secrets": lambda paths: left(paths.env_file, "DISCORD_TOKEN=mine"),
    "a folder of skills": lambda paths: own_folder(paths.claude_skills),
    "a specification": lambda paths: own_file(paths.routine_spec_link),
    "a full folder for a lock": lambda paths: own_folder(paths.locks / "w"),
    "what was set aside": lambda paths: left(paths.state / "config.json.corrupt-1", "mine"),
    "a picture": lambda paths: left(paths.attachments / ".x.tmp", "mine"),
    "a download": lambda paths: left(paths.downloads / ".x.tmp", "mine"),
    "another folder": lambda paths: own_folder(paths.root / "mine"),
    "a link": lambda paths: (paths.root / "link").symlink_to("/nowhere"),
    "an unfinished merge": lambda paths: own_folder(paths.root / ".git"),
}


def relinked(link: Path) -> None:
    older = link.parent.parent / "older" / "ollim_bot" / "texts" / link.name
    older.parent.mkdir(parents=True)
    older.write_text("the text of an older version")
    link.unlink()
    link.symlink_to(older)


def own_folder(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    path.mkdir(exist_ok=True)
    left(path / "own", "mine")


def own_file(path: Path) -> None:
    path.unlink()
    left(path, "mine")


@contextmanager
def made_directory() -> Iterator[DataPaths]:
    with TemporaryDirectory() as above:
        paths = DataPaths(Path(above) / "data")
        prepare_data_directory(paths)
        yield paths


def content(root: Path) -> dict[Path, bytes | str]:
    found: dict[Path, bytes | str] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[path] = f"-> {path.readlink()}"
        elif path.is_file():
            found[path] = path.read_bytes()
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_mended_once_and_told(fault: str) -> None:
    with made_directory() as paths:
        assert fixed(paths) == []
        FAULTS[fault](paths)
        assert fixed(paths) != []
        assert fixed(paths) == []
        assert stat.S_IMODE(paths.state.stat().st_mode) == 0o700
        assert paths.claude_skills.is_dir()
        assert paths.webhook_spec_link.readlink() == TEXTS / paths.webhook_spec_link.name
        assert "/.env" in paths.gitignore.read_text().splitlines()


@settings(max_examples=25, deadline=None)
@given(
    st.sets(st.sampled_from(sorted(FAULTS)), min_size=1), st.sets(st.sampled_from(sorted(WRITTEN)))
)
def test_nothing_that_a_person_wrote_is_changed(faults: set[str], written: set[str]) -> None:
    with made_directory() as paths:
        usual = content(paths.root)
        for name in sorted(written):
            WRITTEN[name](paths)
        mine = {path: text for path, text in content(paths.root).items() if usual.get(path) != text}
        for name in sorted(faults):
            if not ("skills" in name and "a folder of skills" in written):
                FAULTS[name](paths)
        ignored = paths.gitignore.read_bytes() if paths.gitignore.exists() else b""
        fixed(paths)
        after = content(paths.root)
        assert {path: after.get(path) for path in mine} == mine
        assert paths.gitignore.read_bytes().startswith(ignored)
        assert fixed(paths) == []


def test_a_write_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    (paths.state / ".config.json.tmp").write_text("half")
    assert fixed(paths) == []
    assert (paths.state / ".config.json.tmp").exists()


def test_the_file_of_a_running_bot_is_left_alone(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    paths.bot_pid.write_text("1\n")
    given = DoctorInput(None, Location(paths, ZoneInfo("UTC")), (), {}, NOW)
    findings = look(given, "bot")
    with single_instance(paths.bot_pid):  # started after it was examined
        assert repaired(findings) == []
        assert running_pid(paths.bot_pid) == os.getpid()


@pytest.mark.real_process
def test_a_lock_of_git_is_removed_only_if_it_is_old_and_no_git_is_at_work(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    with open_journal(paths, on_problem=print) as journal:
        journal.prepare()
    lock = paths.root / ".git" / "index.lock"
    lock.touch()
    assert repaired(git_history(paths.root)) == []
    left(lock)
    assert repaired(git_history(paths.root, is_at_work=lambda _: True)) == []
    assert lock.exists()
    ((name, what),) = repaired(told("git", git_history(paths.root)))
    assert (name, what) == ("git", f"{lock}, which no git held, is removed")
    assert not lock.exists()
    assert repaired(git_history(paths.root)) == []


@pytest.mark.real_process
def test_a_git_that_runs_in_the_folder_is_noticed(tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\necho runs\nread end\n")
    git.chmod(0o700)
    below = tmp_path / "data" / "skills"
    below.mkdir(parents=True)
    assert not is_git_at_work(tmp_path / "data")
    pipe = subprocess.PIPE
    with subprocess.Popen([git], cwd=below, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        assert is_git_at_work(tmp_path / "data")
        assert not is_git_at_work(tmp_path / "other")
        process.communicate("\n")
    assert not is_git_at_work(tmp_path / "data")


@pytest.mark.real_process
def test_beside_a_running_bot_the_same_is_mended(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    paths.root.chmod(0o755)
    with held(paths.bot_pid) as bot:
        assert [name for name, _ in fixed(paths)] == ["data directory"]
        assert running_pid(paths.bot_pid) == bot.pid


def test_a_folder_that_is_closed_to_its_owner_is_opened(tmp_path: Path) -> None:
    """The permission check is a fake one, since root may open everything."""
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    paths.routines.chmod(0o500)
    findings = told("data directory", data_directory(paths, lambda path, _: path != paths.routines))
    assert repaired(findings) == [
        Repair("data directory", f"{paths.routines} can be read and written again")
    ]
    assert stat.S_IMODE(paths.routines.stat().st_mode) == 0o700


def test_what_resists_is_told_again(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    own_folder(paths.locks / "w")
    given = DoctorInput(None, Location(paths, ZoneInfo("UTC")), (), {}, NOW)
    assert repaired(look(given, "data directory")) == []
    failure = look(given, "data directory")[0]
    assert (failure.level, str(paths.locks / "w") in failure.next) == (Level.FAIL, True)

"""If git fails in any way, nothing is lost, and the problem is reported once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.kernel.store.files.journal.git_repos import (
    REAL_GIT,
    JournalScene,
    eventually,
    git_script,
    git_that_removes_lock,
)

pytestmark = pytest.mark.real_process

REFUSED = "git could not add to the history of"


def test_a_file_that_git_will_not_take_is_told_once_and_hinders_nothing(
    scene: JournalScene,
) -> None:
    journal = scene.journal()
    for text in ("first\n", "second\n"):
        for name in ("a.md", "b.md", "git~1", "c.md"):
            journal.note(scene.write(name, text), f"auto: write {name}")
        assert journal.flush()
    assert len(scene.messages()) == 2
    assert scene.tracked() == {"a.md", "b.md", "c.md"}
    (problem,) = scene.problems
    assert problem.startswith(f"{REFUSED} {scene.root}: invalid path 'git~1'. Changes are kept")


def test_a_huge_file_is_not_put_into_the_history_and_hinders_nothing(scene: JournalScene) -> None:
    journal = scene.journal()
    os.truncate(scene.write("huge.md"), 1_500_000_000)
    for name in ("a.md", "huge.md"):
        journal.note(scene.write(name) if name == "a.md" else scene.root / name, f"add {name}")
    assert journal.flush()
    assert scene.tracked() == {"a.md"}
    assert scene.problems == ["huge.md is not in the history: it is larger than 25 MB."]


@pytest.mark.parametrize("entry", ["", "bin"])
def test_no_program_of_the_folder_itself_is_taken_for_git(
    scene: JournalScene, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PATH has a relative entry, as many PATHs have by mistake."""
    for folder in (scene.root, scene.root / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        git_script(folder / "git", f"touch {scene.root / 'ran'}", f'exec {REAL_GIT} "$@"')
    monkeypatch.chdir(scene.root)
    monkeypatch.setenv("PATH", f"{entry}:{os.environ['PATH']}")
    journal = scene.journal(git="git")
    journal.note(scene.write("a.md"), "add a")
    assert journal.flush()
    assert not (scene.root / "ran").exists()
    monkeypatch.setenv("PATH", entry)
    journal.note(scene.write("b.md"), "add b")
    assert not journal.flush()
    assert "git was not found" in scene.problems[-1]
    assert not (scene.root / "ran").exists()


def test_a_problem_can_be_printed_whatever_the_file_is_called(scene: JournalScene) -> None:
    journal = scene.journal()
    journal.note(scene.write("a.md"), "add a")
    huge = scene.write(os.fsdecode(b"\xff.md"))
    os.truncate(huge, 1_500_000_000)
    journal.note(huge, "auto: write it")
    assert journal.flush()
    (problem,) = scene.problems
    assert problem.isprintable()
    assert problem.encode("utf-8").startswith(b"\\udcff.md is not in the history: ")


def test_when_git_can_take_nothing_everything_waits(repository: JournalScene) -> None:
    repository.git("config", "filter.broken.clean", "false")
    repository.git("config", "filter.broken.required", "true")
    repository.write(".gitattributes", "[ab].md filter=broken\n")
    journal = repository.journal()
    for name in ("a.md", "b.md"):
        journal.note(repository.write(name), f"add {name}")
    assert not journal.flush()
    assert not journal.flush()
    assert len(repository.problems) == 1
    (repository.root / ".gitattributes").unlink()
    assert journal.flush()
    assert repository.committed() == {"a.md", "b.md"}


def test_a_lock_that_is_released_in_time_is_waited_for(
    repository: JournalScene, tmp_path: Path
) -> None:
    lock = repository.root / ".git/index.lock"
    lock.touch()
    journal = repository.journal(git=git_that_removes_lock(tmp_path / "git", lock))
    journal.note(repository.write("a.md"), "add a")
    assert journal.flush()
    assert repository.messages()[0] == "add a"
    assert repository.problems == []


def test_a_lock_that_stays_is_told_once_and_nothing_is_lost(repository: JournalScene) -> None:
    lock = repository.root / ".git/index.lock"
    lock.touch()
    journal = repository.journal()
    journal.note(repository.write("a.md"), "add a")
    assert not journal.flush()
    journal.note(repository.write("b.md"), "add b")
    assert not journal.flush()
    (problem,) = repository.problems
    assert problem == (
        f"{REFUSED} {repository.root}: Unable to create '{lock}': File exists. "
        "Changes are kept, and it is tried again. `git status` there says more."
    )
    lock.unlink()
    assert journal.flush()
    assert repository.messages()[0] == "2 changes: add a, add b\n\nadd a\nadd b"


@pytest.mark.parametrize(
    ("join", "give_up"),
    [
        pytest.param(["merge"], ["merge", "--abort"], id="merge"),
        pytest.param(["rebase"], ["rebase", "--abort"], id="rebase"),
        pytest.param(["cherry-pick"], ["cherry-pick", "--abort"], id="cherry-pick"),
        pytest.param(["revert", "--no-edit"], ["revert", "--abort"], id="revert"),
    ],
)
def test_an_unfinished_merge_is_left_to_its_owner(
    repository: JournalScene, join: list[str], give_up: list[str]
) -> None:
    repository.leave_conflict("README.md", *join)
    repository.write("README.md", "resolved\n")
    repository.git("add", "README.md")
    tip = repository.git("rev-parse", "HEAD")
    journal = repository.journal()
    journal.note(repository.write("a.md"), "add a")
    assert not journal.flush()
    assert repository.git("rev-parse", "HEAD") == tip
    assert "?? a.md" in repository.git("status", "--porcelain")
    (problem,) = repository.problems
    assert "a merge or rebase there is not finished" in problem
    repository.git(*give_up)
    assert journal.flush()
    assert repository.messages()[0] == "add a"


def test_a_conflict_is_left_to_its_owner(repository: JournalScene) -> None:
    repository.leave_conflict("README.md", "read-tree", "-m", "main~1", "main")
    journal = repository.journal()
    journal.note(repository.write("README.md", "<<<<<<<\n"), "auto: edit README.md")
    assert not journal.flush()
    assert "UU README.md" in repository.git("status", "--porcelain")
    repository.git("reset", "--quiet")
    assert journal.flush()
    assert repository.messages()[0] == "auto: edit README.md"


@pytest.mark.parametrize("executable", [True, False])
def test_without_git_everything_works_and_it_is_told_once(
    scene: JournalScene, tmp_path: Path, executable: bool
) -> None:
    no_git = tmp_path / "git"
    if not executable:
        no_git.touch(0o644)
    journal = scene.journal(git=no_git)
    journal.prepare()
    journal.note(scene.write("a.md"), "add a")
    assert not journal.flush()
    assert not journal.flush()
    (problem,) = scene.problems
    assert problem == (
        f"{no_git} was not found; changes are kept but without history. "
        "Install git, for example with `apt install git`."
    )
    no_git.unlink(missing_ok=True)
    no_git.symlink_to(REAL_GIT)
    assert journal.flush()
    assert scene.messages() == ["add a"]


def test_a_git_that_hangs_is_ended_with_its_children(scene: JournalScene, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    hanging = git_script(tmp_path / "git", f"exec 9> '{pipe}'", "echo alive >&9", "sleep 60 & wait")

    def nobody_holds_the_pipe() -> bool:
        try:
            return os.read(reader, 100) == b""
        except BlockingIOError:
            return False

    journal = scene.journal(git=hanging, time_limit=0.3)
    journal.note(scene.write("a.md"), "add a")
    started = time.monotonic()
    assert not journal.flush()
    assert time.monotonic() - started < 10
    assert "was stopped after 0.3 s" in scene.problems[0]
    assert eventually(nobody_holds_the_pipe)
    os.close(reader)


def test_a_lock_file_that_cannot_be_opened_is_a_problem_and_no_crash(scene: JournalScene) -> None:
    journal = scene.journal()
    (scene.root.parent / "journal.lock").mkdir()
    journal.note(scene.write("a.md"), "add a")
    assert not journal.flush()
    (problem,) = scene.problems
    assert "not a regular file" in problem

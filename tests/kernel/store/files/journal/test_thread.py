"""The thread of the journal commits after a pause, and ends when it is closed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from tests.kernel.store.files.journal.git_repos import (
    JournalScene,
    eventually,
    git_script,
    git_that_removes_lock,
)

pytestmark = pytest.mark.real_process


def test_short_commands_need_no_thread(scene: JournalScene) -> None:
    journal = scene.journal()
    before = threading.active_count()
    journal.note(scene.write("a.md"), "add a")
    journal.flush()
    journal.close()
    assert threading.active_count() == before
    assert scene.messages() == ["add a"]


def test_the_thread_commits_when_notes_have_paused(scene: JournalScene) -> None:
    with scene.journal(pause=0.1) as journal:
        for name in "abc":
            journal.note(scene.write(f"{name}.md"), f"add {name}")
        assert eventually(lambda: scene.messages() != [])
        assert scene.committed() == {"a.md", "b.md", "c.md"}


def test_notes_that_never_pause_are_committed_in_the_end(scene: JournalScene) -> None:
    with scene.journal(pause=60, longest_pause=0.1) as journal:
        journal.note(scene.write("a.md"), "add a")
        assert eventually(lambda: scene.messages() == ["add a"])


def test_what_the_thread_has_git_do_gives_way_to_everything_else(
    scene: JournalScene, tmp_path: Path
) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    yielding = git_script(
        tmp_path / "git", f'until [ "$(nice)" -gt {own} ]; do sleep 0.01; done', 'exec "$GIT" "$@"'
    )
    with scene.journal(git=yielding, pause=0.0) as journal:
        journal.note(scene.write("a.md"), "add a")
        assert eventually(lambda: scene.messages() == ["add a"])


def test_closing_commits_what_is_waiting_and_ends_the_thread(scene: JournalScene) -> None:
    before = threading.active_count()
    with scene.journal() as journal:
        journal.note(scene.write("a.md"), "add a")
    assert scene.messages() == ["add a"]
    assert threading.active_count() == before


def test_closing_does_not_wait_for_a_git_that_hangs(scene: JournalScene, tmp_path: Path) -> None:
    pid, go = tmp_path / "pid", tmp_path / "go"
    hanging = git_script(
        tmp_path / "git", f"echo $$ > '{pid}'", f"until [ -e '{go}' ]; do sleep 0.02; done"
    )
    journal = scene.journal(git=hanging, pause=0.0)
    journal.start()
    journal.note(scene.write("a.md"), "add a")
    assert eventually(pid.exists)
    started = time.monotonic()
    journal.close(limit=0.1)
    assert time.monotonic() - started < 5
    go.touch()
    assert eventually(lambda: "journal" not in {t.name for t in threading.enumerate()})


def test_the_thread_does_not_hurry_when_git_fails(scene: JournalScene, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    failing = git_script(
        tmp_path / "git", f"echo call >> '{calls}'", "echo fatal: no >&2", "exit 128"
    )
    with scene.journal(git=failing, pause=0.0) as journal:
        journal.note(scene.write("a.md"), "add a")
        assert eventually(lambda: scene.problems != [])
        assert not eventually(lambda: len(calls.read_text().split()) > 2, within=0.2)


def test_the_thread_leaves_room_for_somebody_who_uses_git(
    repository: JournalScene, tmp_path: Path
) -> None:
    lock = repository.root / ".git/index.lock"
    lock.touch()
    with repository.journal(
        git=git_that_removes_lock(tmp_path / "git", lock), pause=0.0
    ) as journal:
        journal.note(repository.write("a.md"), "add a")
        assert eventually(lambda: repository.messages()[0] == "add a")
        journal.note(repository.write("b.md"), "add b")
        assert not eventually(lambda: repository.messages()[0] == "add b", within=0.2)
    assert repository.messages()[0] == "add b"


def test_the_thread_lets_git_tidy_up(scene: JournalScene, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    telling = git_script(tmp_path / "git", f"echo \"$*\" >> '{calls}'", 'exec "$GIT" "$@"')
    with scene.journal(git=telling, pause=0.0) as journal:
        journal.note(scene.write("a.md"), "add a")
        assert eventually(lambda: calls.exists() and "gc --auto" in calls.read_text())

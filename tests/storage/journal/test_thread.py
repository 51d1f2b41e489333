"""The thread of the journal commits in its own time, and ends when told."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.storage.journal.git_repos import Kept, eventually, program, releasing


def test_short_commands_need_no_thread(kept: Kept) -> None:
    journal = kept.journal()
    before = threading.active_count()
    journal.note(kept.write("a.md"), "add a")
    journal.flush()
    journal.close()
    assert threading.active_count() == before
    assert kept.messages() == ["add a"]


def test_the_thread_commits_when_notes_have_paused(kept: Kept) -> None:
    with kept.journal(pause=0.1) as journal:
        for name in "abc":
            journal.note(kept.write(f"{name}.md"), f"add {name}")
        assert eventually(lambda: kept.messages() != [])
        assert kept.committed() == {"a.md", "b.md", "c.md"}


def test_notes_that_never_pause_are_committed_in_the_end(kept: Kept) -> None:
    with kept.journal(pause=60, longest_pause=0.1) as journal:
        journal.note(kept.write("a.md"), "add a")
        assert eventually(lambda: kept.messages() == ["add a"])


def test_closing_commits_what_is_waiting_and_ends_the_thread(kept: Kept) -> None:
    before = threading.active_count()
    with kept.journal() as journal:
        journal.note(kept.write("a.md"), "add a")
    assert kept.messages() == ["add a"]
    assert threading.active_count() == before


def test_closing_does_not_wait_for_a_git_that_hangs(kept: Kept, tmp_path: Path) -> None:
    pid, go = tmp_path / "pid", tmp_path / "go"
    hanging = program(
        tmp_path / "git", f"echo $$ > '{pid}'", f"until [ -e '{go}' ]; do sleep 0.02; done"
    )
    journal = kept.journal(git=hanging, pause=0.0)
    journal.start()
    journal.note(kept.write("a.md"), "add a")
    assert eventually(pid.exists)
    started = time.monotonic()
    journal.close(limit=0.1)
    assert time.monotonic() - started < 5
    go.touch()
    assert eventually(lambda: "journal" not in {t.name for t in threading.enumerate()})


def test_the_thread_does_not_hurry_when_git_fails(kept: Kept, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    failing = program(tmp_path / "git", f"echo call >> '{calls}'", "echo fatal: no >&2", "exit 128")
    with kept.journal(git=failing, pause=0.0) as journal:
        journal.note(kept.write("a.md"), "add a")
        assert eventually(lambda: kept.problems != [])
        assert not eventually(lambda: len(calls.read_text().split()) > 2, within=0.2)


def test_the_thread_leaves_room_for_somebody_who_uses_git(repository: Kept, tmp_path: Path) -> None:
    lock = repository.root / ".git/index.lock"
    lock.touch()
    with repository.journal(git=releasing(tmp_path / "git", lock), pause=0.0) as journal:
        journal.note(repository.write("a.md"), "add a")
        assert eventually(lambda: repository.messages()[0] == "add a")
        journal.note(repository.write("b.md"), "add b")
        assert not eventually(lambda: repository.messages()[0] == "add b", within=0.2)
    assert repository.messages()[0] == "add b"


def test_the_thread_lets_git_tidy_up(kept: Kept, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    telling = program(tmp_path / "git", f"echo \"$*\" >> '{calls}'", 'exec "$GIT" "$@"')
    with kept.journal(git=telling, pause=0.0) as journal:
        journal.note(kept.write("a.md"), "add a")
        assert eventually(lambda: calls.exists() and "gc --auto" in calls.read_text())

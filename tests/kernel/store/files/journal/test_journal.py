"""Notes become commits, in batches, from any thread or process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.kernel.store.files.journal.git_repos import JournalScene, eventually, git_script

pytestmark = pytest.mark.real_process


def test_notes_become_one_commit(scene: JournalScene) -> None:
    journal = scene.journal()
    journal.note(scene.write("routines/a.md"), "add routine a1b2c3d4")
    journal.note(scene.write("reminders/b.md"), "add reminder 0f0f0f0f")
    assert journal.flush()
    (message,) = scene.messages()
    assert message == (
        "2 changes: add routine a1b2c3d4, add reminder 0f0f0f0f\n"
        "\n"
        "add routine a1b2c3d4\n"
        "add reminder 0f0f0f0f"
    )
    assert scene.committed() == {"routines/a.md", "reminders/b.md"}
    assert scene.problems == []


def test_a_thousand_writes_are_one_commit_of_a_few_processes(
    scene: JournalScene, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    counting = git_script(tmp_path / "git", f"echo call >> '{calls}'", 'exec "$GIT" "$@"')
    journal = scene.journal(git=counting)
    for number in range(1000):
        journal.note(scene.write(f"reminders/{number}.md"), f"add reminder {number:08x}")
    assert journal.flush()
    assert len(scene.messages()) == 1
    assert len(scene.committed()) == 1000
    assert len(calls.read_text().splitlines()) <= 5


def test_preparing_makes_a_repository_and_commits_what_changed_unseen(scene: JournalScene) -> None:
    scene.write("routines/a.md")
    scene.journal().prepare()
    assert scene.messages() == ["begin with: routines/a.md"]
    scene.write("routines/a.md", "edited\n")
    scene.write("routines/b.md")
    scene.journal().prepare()
    scene.journal().prepare()
    newest, oldest = scene.messages()
    assert newest.startswith("2 changes: by hand: routines/a.md, by hand: routines/b.md\n")
    assert oldest == "begin with: routines/a.md"


def test_two_processes_commit_everything_once(scene: JournalScene) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from ollim_bot.kernel.store.journal import GitJournal\n"
        "from ollim_bot.kernel.store.files import FileLock\n"
        "root, name = Path(sys.argv[1]), sys.argv[2]\n"
        "lock = FileLock(root.parent / 'journal.lock')\n"
        "journal = GitJournal(root, lock, on_problem=sys.exit)\n"
        "for number in range(10):\n"
        "    path = root / f'{name}-{number}.md'\n"
        "    path.write_text('text')\n"
        "    journal.note(path, f'add {path.stem}')\n"
        "    assert journal.flush()\n"
    )
    processes = [
        subprocess.Popen((sys.executable, "-c", script, str(scene.root), name)) for name in "ab"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    expected = {f"{name}-{number}" for name in "ab" for number in range(10)}
    assert sorted(scene.messages()) == sorted(f"add {stem}" for stem in expected)
    assert scene.tracked() == {f"{stem}.md" for stem in expected}


def test_a_file_written_again_during_its_commit_is_committed_again(
    scene: JournalScene, tmp_path: Path
) -> None:
    reached, go = tmp_path / "reached", tmp_path / "go"
    slow = git_script(
        tmp_path / "git",
        '"$GIT" "$@" || exit $?',
        'case "$*" in *" commit "*) ;; *) exit 0 ;; esac',
        f"touch '{reached}'",
        f"until [ -e '{go}' ]; do sleep 0.02; done",
    )
    journal = scene.journal(git=slow)
    journal.note(scene.write("a.md", "first\n"), "auto: edit a.md")
    committing = threading.Thread(target=journal.flush)
    committing.start()
    assert eventually(reached.exists)
    journal.note(scene.write("a.md", "second\n"), "auto: edit a.md")
    go.touch()
    committing.join()
    assert journal.flush()
    assert scene.git("show", "HEAD:a.md") == "second\n"
    assert len(scene.messages()) == 2


def test_of_too_many_notes_the_oldest_lose_their_message_only(scene: JournalScene) -> None:
    journal = scene.journal()
    journal.note(scene.write("oldest.md"), "add oldest")
    journal.note(scene.write("second.md"), "add second")
    for number in range(9999):
        journal.note(scene.root / f"{number}.md", "come and gone")
    assert journal.flush()
    assert scene.messages() == ["add second"]
    journal.prepare()
    assert scene.messages() == ["by hand: oldest.md", "add second"]


def test_notes_from_many_threads_all_arrive(scene: JournalScene) -> None:
    journal = scene.journal()

    def write(name: str) -> None:
        for number in range(20):
            journal.note(scene.write(f"{name}-{number}.md"), f"add {name}-{number}")

    writers = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert journal.flush()
    assert len(scene.tracked()) == 80

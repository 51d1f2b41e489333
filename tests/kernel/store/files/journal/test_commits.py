"""What a commit of the journal holds, and what it leaves out."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.kernel.store.files.journal.git_repos import GitFolder, JournalScene

pytestmark = pytest.mark.real_process


def test_commits_have_their_own_author_and_branch(scene: JournalScene) -> None:
    journal = scene.journal()
    journal.note(scene.write("a.md"), "add a")
    journal.flush()
    assert scene.git("log", "--format=%an <%ae> %cn <%ce> %D") == (
        "ollim-bot <ollim-bot@localhost> ollim-bot <ollim-bot@localhost> HEAD -> main\n"
    )


def test_notes_without_a_change_make_no_commit(repository: JournalScene) -> None:
    journal = repository.journal()
    journal.note(repository.root / "README.md", "auto: edit README.md")
    journal.note(repository.root / "never.md", "auto: write never.md")
    assert journal.flush()
    assert repository.messages() == ["by a person"]
    assert repository.problems == []


def test_a_removed_file_is_committed_as_removed(repository: JournalScene) -> None:
    journal = repository.journal()
    (repository.root / "README.md").unlink()
    journal.note(repository.root / "README.md", "remove it")
    assert journal.flush()
    assert repository.messages()[0] == "remove it"
    assert repository.tracked() == set()


def test_what_came_and_went_within_a_batch_leaves_no_trace(repository: JournalScene) -> None:
    journal = repository.journal()
    passing = repository.write("reminders/passing.md")
    journal.note(passing, "add reminder passing")
    passing.unlink()
    journal.note(passing, "remove reminder passing")
    journal.note(repository.write("reminders/lasting.md"), "add reminder lasting")
    assert journal.flush()
    assert repository.messages()[0] == "add reminder lasting"


def test_a_file_that_was_staged_and_is_gone_hinders_nothing(repository: JournalScene) -> None:
    journal = repository.journal()
    gone = repository.write("gone.md")
    repository.git("add", "gone.md")
    gone.unlink()
    journal.note(gone, "remove gone")
    journal.note(repository.write("a.md"), "add a")
    assert journal.flush()
    assert repository.messages()[0] == "add a"
    assert repository.git("status", "--porcelain") == ""


def test_a_note_about_a_folder_speaks_of_the_files_in_it(scene: JournalScene) -> None:
    scene.write("skills/cooking/SKILL.md")
    scene.write("skills/cooking/pasta.md")
    journal = scene.journal()
    journal.note(scene.root / "skills/cooking", "add skill cooking")
    journal.flush()
    assert scene.messages() == ["add skill cooking"]
    assert scene.committed() == {"skills/cooking/SKILL.md", "skills/cooking/pasta.md"}


def test_a_file_in_a_linked_folder_is_committed_where_it_really_is(scene: JournalScene) -> None:
    scene.write("skills/cooking/SKILL.md")
    scene.write(".claude/agents/a.md")
    (scene.root / ".claude/skills").symlink_to("../skills")
    journal = scene.journal()
    journal.note(scene.root / ".claude/skills/cooking/SKILL.md", "edit skill cooking")
    journal.flush()
    assert scene.committed() == {"skills/cooking/SKILL.md"}


def test_nothing_outside_the_data_directory_is_committed(
    scene: JournalScene, tmp_path: Path
) -> None:
    secret = GitFolder(tmp_path / "elsewhere").write("secret.md")
    (scene.root / "way-out").symlink_to(secret.parent)
    journal = scene.journal()
    for path in (secret, scene.root / "way-out/secret.md", scene.root / "../elsewhere/secret.md"):
        journal.note(path, "auto: write secret")
    assert journal.flush()
    assert scene.messages() == []


@pytest.mark.parametrize("path", ["nul\0byte", "\ud800", "a" * 3000])
def test_impossible_paths_hinder_nothing(scene: JournalScene, path: str) -> None:
    journal = scene.journal()
    journal.note(Path(path), "write it")
    journal.note(scene.write("a.md"), "add a")
    assert journal.flush()
    assert scene.messages() == ["add a"]


def test_private_files_are_never_committed_even_if_nothing_is_ignored(scene: JournalScene) -> None:
    private = [".env", ".env.local", "state/token.json", "state/a/b.json", "downloads/invoice.pdf"]
    journal = scene.journal()
    scene.write(".gitignore", "")
    for name in [*private, "state/session_history.jsonl"]:
        journal.note(scene.write(name), f"auto: write {name}")
    journal.note(scene.root, "everything")
    journal.note(scene.root / "state", "the state")
    journal.flush()
    scene.journal().prepare()
    assert scene.tracked() == {"state/session_history.jsonl", ".gitignore"}


def test_ignored_files_are_left_out_and_the_others_committed(scene: JournalScene) -> None:
    scene.write(".gitignore", "*.log\n")
    journal = scene.journal()
    journal.note(scene.write("run.log"), "write log")
    journal.note(scene.write("a.md"), "add a")
    assert journal.flush()
    assert scene.messages() == ["add a"]
    assert scene.problems == []


def test_a_file_its_owner_untracked_stays_untracked(repository: JournalScene) -> None:
    repository.write(".gitignore", "README.md\n")
    repository.git("rm", "--quiet", "--cached", "README.md")
    journal = repository.journal()
    journal.note(repository.write("README.md", "new\n"), "auto: edit README.md")
    assert journal.flush()
    assert repository.git("status", "--porcelain", "README.md") == "D  README.md\n"


def test_what_a_person_has_staged_stays_staged_and_uncommitted(repository: JournalScene) -> None:
    repository.write("mine.md")
    repository.git("add", "mine.md")
    journal = repository.journal()
    journal.note(repository.write("a.md"), "add a")
    assert journal.flush()
    assert repository.committed() == {"a.md"}
    assert repository.git("status", "--porcelain") == "A  mine.md\n"


ODD_NAMES = [
    "*",
    "[a-z].md",
    ":(top)x",
    "!not",
    "-q",
    "--all",
    "#hash",
    " leading and trailing ",
    "new\nline",
    "quo\"te's",
    "back\\slash",
    "tab\t",
    "größe 🐢.md",
    "?",
]


def test_odd_names_are_names(scene: JournalScene) -> None:
    raw = os.fsdecode(b"\xff\xfe.md")
    bystander = scene.write("b.md")
    journal = scene.journal()
    for name in (*ODD_NAMES, raw):
        journal.note(scene.write(name), f"auto: write {name}")
    assert journal.flush()
    assert scene.committed() == {*ODD_NAMES, raw}
    assert bystander.name in scene.git("status", "--porcelain")


@given(message=st.text())
@example("# no comment")
@example("--amend")
@example("\udcff a\0b")
@example("")
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_message_can_be_committed(scene: JournalScene, message: str) -> None:
    journal = scene.journal()
    journal.note(scene.write("a.md", f"{time.monotonic_ns()}\n"), message)
    assert journal.flush()
    expected = message.replace("\0", " ").strip() or "change a.md"
    raw = scene.git("cat-file", "commit", "HEAD").partition("\n\n")[2]
    assert raw == f"{expected.encode('utf-8', 'backslashreplace').decode()}\n"
    assert scene.problems == []

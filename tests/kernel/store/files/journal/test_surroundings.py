"""Neither the git settings of a person nor other repositories disturb the journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.store.files.journal.git_repos import GitFolder, JournalScene, git_script

pytestmark = pytest.mark.real_process


def test_a_repository_around_the_data_directory_is_not_touched(tmp_path: Path) -> None:
    outer = GitFolder(tmp_path / "outer")
    outer.become_repository()
    outer.commit_by_hand("theirs.md")
    before = outer.git("status", "--porcelain", "--untracked-files=no")
    inner = JournalScene(outer.root / "data")
    inner.root.mkdir()
    (inner.root / ".git").mkdir()
    journal = inner.journal()
    journal.note(inner.write("a.md"), "add a")
    assert journal.flush()
    assert inner.messages() == ["add a"]
    assert outer.messages() == ["by a person"]
    assert outer.git("status", "--porcelain", "--untracked-files=no") == before


def test_a_worktree_is_a_repository_of_its_own(tmp_path: Path) -> None:
    main = GitFolder(tmp_path / "main")
    main.become_repository()
    main.commit_by_hand("a.md")
    main.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    tree = JournalScene(tmp_path / "tree")
    journal = tree.journal()
    journal.note(tree.write("b.md"), "add b")
    assert journal.flush()
    assert tree.messages() == ["add b", "by a person"]
    assert main.messages() == ["by a person"]


def test_the_surroundings_do_not_lead_git_elsewhere(
    scene: JournalScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as surroundings:
        surroundings.setenv("GIT_DIR", str(tmp_path / "elsewhere.git"))
        surroundings.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere.index"))
        surroundings.setenv("GIT_AUTHOR_NAME", "Somebody")
        journal = scene.journal()
        journal.note(scene.write("a.md"), "add a")
        assert journal.flush()
    assert scene.git("log", "--format=%an %s") == "ollim-bot add a\n"


def test_commits_are_not_signed_and_ask_nobody(
    scene: JournalScene, home: Path, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    ask = git_script(tmp_path / "ask", f"touch '{asked}'", "exit 1")
    (home / ".gitconfig").write_text(
        f"[commit]\n gpgsign = true\n[gpg]\n program = {ask}\n[core]\n editor = {ask}\n"
    )
    journal = scene.journal()
    journal.note(scene.write("a.md"), "add a")
    assert journal.flush()
    assert scene.messages() == ["add a"]
    assert not asked.exists()


def test_hooks_are_not_run(repository: JournalScene, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    hooks = repository.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"):
        git_script(hooks / name, f"touch '{ran}'", "exit 1")
    journal = repository.journal()
    journal.note(repository.write("a.md"), "add a")
    assert journal.flush()
    assert repository.messages()[0] == "add a"
    assert not ran.exists()


def test_a_repository_inside_hinders_nothing(scene: JournalScene) -> None:
    inner = GitFolder(scene.root / "skills/tool")
    inner.become_repository()
    inner.commit_by_hand("theirs.md")
    journal = scene.journal()
    for text in ("first\n", "second\n"):
        journal.note(inner.write("SKILL.md", text), "edit skill tool")
        journal.note(scene.write("a.md", text), "auto: write a.md")
        assert journal.flush()
    scene.journal().prepare()
    assert scene.tracked() == {"a.md"}
    assert inner.messages() == ["by a person"]
    assert scene.problems == []


def test_a_broken_repository_is_not_mistaken_for_the_one_around_it(tmp_path: Path) -> None:
    outer = GitFolder(tmp_path / "outer")
    outer.become_repository()
    outer.commit_by_hand("theirs.md")
    inner = JournalScene(outer.root / "data")
    inner.write(".git/HEAD", "garbage\n")
    journal = inner.journal()
    journal.note(inner.write("a.md"), "add a")
    assert not journal.flush()
    assert outer.messages() == ["by a person"]
    (problem,) = inner.problems
    assert str(inner.root) in problem


def test_a_link_to_a_repository_that_is_gone_is_told(scene: JournalScene) -> None:
    scene.write(".git", "gitdir: /nowhere\n")
    journal = scene.journal()
    journal.note(scene.write("a.md"), "add a")
    assert not journal.flush()
    (problem,) = scene.problems
    assert "not a git repository: /nowhere" in problem


def test_a_repository_of_another_user_is_told_once_and_left_alone(
    repository: JournalScene, tmp_path: Path
) -> None:
    other_git = git_script(
        tmp_path / "git", "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1", 'exec "$GIT" "$@"'
    )
    journal = repository.journal(git=other_git)
    journal.prepare()
    journal.note(repository.write("a.md"), "add a")
    assert not journal.flush()
    assert repository.messages() == ["by a person"]
    (problem,) = repository.problems
    assert "detected dubious ownership" in problem

"""A path to a job or a skill is known as one, however it is spelled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollim_bot.kernel.permissions.path_rules import job_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for folder in ("routines/old", "reminders", "webhooks", "skills/mail", "notes"):
        (root / folder).mkdir(parents=True)
    for file in ("routines/daily.md", "skills/mail/SKILL.md", "notes/plan.md", "notes/work.md"):
        (root / file).write_text(file)
    (tmp_path / "linked").symlink_to("data")
    links = {
        "notes/up": "..",
        "notes/in": "../skills/mail",
        "notes/out": "/",
        "notes/to-daily.md": "../routines/daily.md",
        "routines/linked.md": "../notes/plan.md",
        "reminders/new.md": "../notes/not-yet.md",
        "skills/far": "../notes/far-skill",
    }
    for link, target in links.items():
        (root / link).symlink_to(target)
    os.link(root / "notes/work.md", root / "webhooks/hard.md")
    (root / "notes/far-skill").mkdir()
    return root


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("routines/daily.md", "routines/daily.md"),
        ("routines/new.md", "routines/new.md"),
        ("./reminders/x.md", "reminders/x.md"),
        ("webhooks/x.md", "webhooks/x.md"),
        ("skills/mail/SKILL.md", "skills/mail/SKILL.md"),
        ("skills/new/SKILL.md", "skills/new/SKILL.md"),
        ("skills/new/skill.md", "skills/new/skill.md"),
        ("routines/NEW.MD", "routines/NEW.MD"),
        ("{root}/routines/daily.md", "routines/daily.md"),
        ("{root}/../linked/routines/daily.md", "routines/daily.md"),
        ("notes/../routines/x.md", "routines/x.md"),
        ("notes/up/routines/x.md", "routines/x.md"),
        ("notes/in/../mail/SKILL.md", "skills/mail/SKILL.md"),
        ("notes/out/../../routines/x.md", "routines/x.md"),
        ("notes/to-daily.md", "routines/daily.md"),
        ("notes/plan.md", "routines/linked.md"),
        ("notes/not-yet.md", "reminders/new.md"),
        ("notes/work.md", "webhooks/hard.md"),
        ("notes/far-skill/SKILL.md", "skills/far/SKILL.md"),
    ],
)
def test_a_job_is_known_by_every_path_to_it(root: Path, path: str, file: str) -> None:
    assert file in [str(each) for each in job_files(root, path.replace("{root}", str(root)))]


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    "path",
    [
        "notes/to.md", "routines/old/x.md", "routines/.hidden.md", "routines/x.txt", "routines.md",
        "skills/SKILL.md", "skills/mail/more.md", "skills/mail/deep/SKILL.md", "USER.md",
        "../routines/x.md", "notes/routines/x.md", "",
    ],
)  # fmt: skip
def test_other_files_are_not_taken_for_jobs(root: Path, path: str) -> None:
    assert job_files(root, path) == ()


def test_a_data_directory_behind_a_link_has_the_same_jobs(root: Path) -> None:
    linked = root.parent / "linked"
    for path in ("routines/x.md", f"{root}/routines/x.md", f"{linked}/routines/x.md"):
        assert [str(file) for file in job_files(linked, path)] == ["routines/x.md"]


def test_where_a_folder_is_not_there_yet_capitals_do_not_matter(tmp_path: Path) -> None:
    assert [str(file) for file in job_files(tmp_path, "Routines/x.md")] == ["routines/x.md"]


def test_a_folder_that_only_looks_alike_is_another_one(root: Path) -> None:
    (root / "Routines").mkdir(exist_ok=True)
    is_other = not (root / "Routines").samefile(root / "routines")
    assert bool(job_files(root, "Routines/x.md")) is not is_other

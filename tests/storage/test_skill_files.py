"""The skills of a data directory: those that load, and why others do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollim_bot.domain.skills import Skill
from ollim_bot.store.skill_files import AddedSkill, SkillFolder, SkillLock, digest, parsed_skill

GOOD = "---\nname: mail\ndescription: Reads mail.\n---\nRead it. !`ollim-bot today`\n"


def headed(*lines: str) -> bytes:
    head = "\n".join(("name: mail", "description: x", *lines))
    return f"---\n{head}\n---\nx\n".encode()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_skill_has_its_description_tools_and_commands() -> None:
    skill = parsed_skill("mail", GOOD.replace("---\nR", "allowed-tools: Read\n---\nR").encode())
    assert isinstance(skill, Skill)
    assert (skill.description, skill.tools) == ("Reads mail.", ("Read",))
    assert (skill.commands, skill.warnings) == (("ollim-bot today",), ())


def test_the_fields_of_other_programs_have_no_effect_and_a_warning() -> None:
    lines = ("license: MIT", "metadata: {a: b}", "argument-hint: '[x]'", "user-invocable: true")
    skill = parsed_skill("mail", headed(*lines))
    assert isinstance(skill, Skill)
    assert skill.warnings == (
        "skills/mail/SKILL.md:6: argument-hint: has no effect here",
        "skills/mail/SKILL.md:7: user-invocable: has no effect here",
    )


def test_the_form_of_other_programs_for_commands_is_ours() -> None:
    skill = parsed_skill("mail", headed("allowed-tools: Bash(git status:*), Read"))
    assert isinstance(skill, Skill)
    assert skill.tools == ("Bash(git status *)", "Read")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"Read it.", "SKILL.md:1: the first line must be --- alone"),
        (b"---\nname: mail\n---\nx", "description: is missing"),
        (b"---\nname: [\n---\nx", "YAML"),
        (b"\xff", "is not UTF-8 text"),
        (headed("hooks: {Stop: []}"), ":4: hooks: would make the engine act by itself; remove it"),
        (headed("Hooks: {Stop: []}"), ":4: Hooks: would make the engine act by itself"),
        (headed("model: opus"), ":4: model: would make the engine act by itself"),
        (headed("context: fork"), ":4: context: would make the engine act by itself"),
        (headed("disable_model_invocation: true"), "disable-model-invocation: would make"),
        (headed("allowed-tools: Bash"), "`Bash` would allow every command"),
        (headed().replace(b": mail", b": post"), "name: must be the name of its folder, mail"),
        (headed().replace(b": x", b": " + b"x" * 1025), "is longer than 1024 characters"),
    ],
)
def test_a_skill_that_does_not_load_has_a_reason(data: bytes, reason: str) -> None:
    found = parsed_skill("mail", data)
    assert not isinstance(found, Skill)
    assert reason in found[0]


def test_each_change_is_seen_and_each_broken_skill_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    skills = SkillFolder(tmp_path, told.append)
    assert not skills.read().loaded
    path = write(tmp_path, "mail", GOOD)
    write(tmp_path, ".hidden", "x")
    (tmp_path / "skills.lock").write_text("{}")
    first = skills.read()
    assert (list(first.loaded), dict(first.broken), told) == (["mail"], {}, [])
    path.write_text(GOOD.replace("Read it", "Read all of it"))
    assert skills.read().loaded["mail"].version != first.loaded["mail"].version
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        broken = skills.read().broken
    assert broken == {"empty": ("skills/empty/SKILL.md: is not there",)}
    assert told == ["The skill empty does not load: skills/empty/SKILL.md: is not there."]
    os.truncate(path, 2_000_000)
    assert "larger than 1 MB" in skills.read().broken["mail"][0]


def test_a_later_change_of_an_added_skill_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    skills, path = SkillFolder(tmp_path, told.append), write(tmp_path, "mail", GOOD)
    added = AddedSkill("elsewhere", "", {"SKILL.md": digest(GOOD.encode())})
    SkillLock(tmp_path).write({"mail": added})
    skills.read()
    assert told == []
    path.write_text(f"{GOOD}More.")
    for _ in range(2):
        skills.read()
    (said,) = told
    assert said.startswith("skills/mail/SKILL.md was changed since the skill was added. ")
    (tmp_path / "skills.lock").write_text("x")
    for _ in range(2):
        skills.read()
    assert "cannot be read" in told[-1]
    assert len(told) == 2

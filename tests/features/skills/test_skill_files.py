"""Skills and subagents of a data directory: which load, and why others do not."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.owner_files import BUNDLED, SubagentFiles
from ollim_bot.kernel.store.skill_files import (
    AddedSkill,
    SkillFolder,
    SkillLock,
    digest,
    parsed_skill,
)
from ollim_bot.kernel.values.skills import Skill

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


NAMES = {
    "gmail-reader",
    "history-reviewer",
    "ollim-bot-guide",
    "responsiveness-reviewer",
    "user-proxy",
}

SHIPPED = (BUNDLED / "shipped.sha256").read_text().split()


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    made = DataPaths(tmp_path / "data")
    prepare_data_directory(made)
    return made


def written(paths: DataPaths, name: str, head: str, body: str = "You do it.") -> SubagentFiles:
    path = paths.claude_agents / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"---\n{head}---\n{body}\n")
    return SubagentFiles(paths)


def problem(paths: DataPaths, name: str, head: str, body: str = "You do it.") -> str:
    found = written(paths, name, head, body).read()
    assert set(found.known) == NAMES
    (sentence,) = found.problems
    return sentence


def test_a_new_data_directory_has_the_five(paths: DataPaths) -> None:
    found = SubagentFiles(paths).read()
    assert set(found.known) == NAMES
    assert (found.problems, found.warnings, found.hidden) == ((), (), ())
    models = {one.name: one.model for one in found.known.values()}
    assert {name for name, model in models.items() if model == "haiku"} == {
        "ollim-bot-guide",
        "user-proxy",
    }
    assert set(models.values()) == {"haiku", "sonnet"}


def test_what_is_installed_now_is_known_by_its_hash_later() -> None:
    for file in BUNDLED.glob("*.md"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in SHIPPED


def test_a_missing_one_comes_back_and_an_edited_one_is_kept(paths: DataPaths) -> None:
    edited, gone = paths.claude_agents / "user-proxy.md", paths.claude_agents / "gmail-reader.md"
    edited.write_text(edited.read_text() + "Be bold.\n")
    gone.unlink()
    prepare_data_directory(paths)
    assert edited.read_text().endswith("Be bold.\n")
    assert gone.read_bytes() == (BUNDLED / gone.name).read_bytes()


def test_one_that_was_never_edited_follows_the_package(paths: DataPaths) -> None:
    # The text of another shipped subagent serves as an older version of this one.
    old = paths.claude_agents / "user-proxy.md"
    old.write_bytes((BUNDLED / "gmail-reader.md").read_bytes())
    prepare_data_directory(paths)
    assert old.read_bytes() == (BUNDLED / old.name).read_bytes()


def test_a_link_or_a_folder_in_the_place_of_one_is_left_alone(paths: DataPaths) -> None:
    link, folder = paths.claude_agents / "user-proxy.md", paths.claude_agents / "gmail-reader.md"
    link.unlink()
    folder.unlink()
    link.symlink_to(BUNDLED / "gmail-reader.md")
    folder.mkdir()
    prepare_data_directory(paths)
    assert link.is_symlink()
    assert folder.is_dir()


def test_the_owners_own_is_one_too(paths: DataPaths) -> None:
    head = (
        "name: packer\ndescription: Packs bags.\nmodel: inherit\ntools: Read(./**.md), WebFetch\n"
    )
    one = written(paths, "packer.md", head).read().known["packer"]
    assert (one.description, one.instructions, one.model) == ("Packs bags.", "You do it.", "")
    assert [str(pattern) for pattern in one.tools or ()] == ["Read(./**.md)", "WebFetch"]


@pytest.mark.parametrize(
    ("tools", "patterns"),
    [
        ("", None),
        ("tools: '*'\n", None),
        ("tools: [Read, 'Grep(./**.md)']\n", ["Read", "Grep(./**.md)"]),
        ("tools:\n  - mcp__docs__*\n", ["mcp__docs__*"]),
        ("tools: WebFetch(https://a.de/x,y), Read\n", ["WebFetch(https://a.de/x,y)", "Read"]),
    ],
)  # fmt: skip
def test_tools_can_be_written_in_each_usual_way(
    paths: DataPaths, tools: str, patterns: list[str] | None
) -> None:
    files = written(paths, "packer.md", f"name: packer\ndescription: Packs.\n{tools}")
    one = files.read().known["packer"]
    assert (None if one.tools is None else [str(each) for each in one.tools]) == patterns


@pytest.mark.parametrize(
    ("name", "head", "words"),
    [
        ("x.md", "name: x\n", "x.md: description: is missing."),
        ("x.md", "description: d\n", "x.md: name: is missing."),
        ("x.md", "name: y\ndescription: d\n", "x.md:2: name: must be the name of its file, x."),
        ("x.md", "name: A b\ndescription: d\n", "x.md:2: name: 'A b' is not right"),
        ("x.md", "name: x\ndescription: d\ntools: Bash\n", "x.md:4: tools: `Bash` would allow"),
        ("x.md", "name: x\ndescription: d\nmodel: a b\n", "x.md:4: model: 'a b' is not right"),
        ("x.md", "name: [x\n", "x.md:"),
        ("more/user-proxy.md", "name: user-proxy\ndescription: d\n", "another subagent called"),
    ],
)
def test_what_is_written_wrongly_is_named_with_its_reason(
    paths: DataPaths, name: str, head: str, words: str
) -> None:
    assert words in problem(paths, name, head)


def test_so_is_a_file_without_text_or_without_fields(paths: DataPaths) -> None:
    head = "name: x\ndescription: d\n"
    assert "it says nothing below its fields" in problem(paths, "x.md", head, "")
    (paths.claude_agents / "x.md").write_bytes(b"\xff\xfe")
    assert "it is not UTF-8 text" in SubagentFiles(paths).read().problems[0]
    (paths.claude_agents / "x.md").write_text("# Notes\n")
    assert "the first line must be ---" in SubagentFiles(paths).read().problems[0]


def test_the_engine_is_kept_from_offering_those(paths: DataPaths) -> None:
    written(paths, "x.md", "name: other\ndescription: d\n")
    written(paths, "y.md", "name: user-proxy\ndescription: d\n")
    assert SubagentFiles(paths).read().hidden == ("other",)


def test_powers_that_a_file_claims_have_no_effect_and_that_is_said(paths: DataPaths) -> None:
    head = "name: x\ndescription: d\npermissionMode: bypassPermissions\nhooks: {}\n"
    found = written(paths, "x.md", head).read()
    assert "x" in found.known
    assert [warning.partition(" has no")[0] for warning in found.warnings] == [
        ".claude/agents/x.md:4: permissionMode:",
        ".claude/agents/x.md:5: hooks:",
    ]


def test_a_change_counts_at_once(paths: DataPaths) -> None:
    files = written(paths, "x.md", "name: x\ndescription: d\ntools: Read\n")
    assert files.read() is files.read()
    written(paths, "x.md", "name: x\ndescription: d\ntools: WebFetch\n")
    (pattern,) = files.read().known["x"].tools or ()
    assert str(pattern) == "WebFetch"

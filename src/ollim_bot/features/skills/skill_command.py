"""`ollim-bot skill`: instructions that the agent loads by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.skill_files import AddedSkill, SkillFolder, SkillLock
from ollim_bot.kernel.values.shared_files import SKILL_FILE, SKILLS
from ollim_bot.kernel.values.skills import Skill, SkillSet, addresses_in, scripts_in
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import agrees, no_such, show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, writable

if TYPE_CHECKING:
    from ollim_bot.features.skills.skill_packages import Candidate

_NONE = "No skills. Write skills/NAME/SKILL.md, or add one: ollim-bot skill add FOLDER"
_NO_TERMINAL = "There is no terminal to ask you in. Look at the above, and add --yes to agree."

_SKILL = Noun("skill")
run = _SKILL.run


def _names(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    for name, skill in SkillFolder(open_data(caller).paths.skills).read().loaded.items():
        yield Completion(name, title(skill.description))


_NAME = argument(
    "name", metavar="NAME", help="as `ollim-bot skill list` shows it", completions=_names
)
_YES = argument("--yes", action="store_true", help="do it without a question")


@_SKILL.verb("all skills", "", JSON)
def _list(given: Given, caller: Caller) -> None:
    paths = open_data(caller).paths
    skills, added = SkillFolder(paths.skills).read(), SkillLock(paths.skills).read()
    names = sorted((*skills.loaded, *skills.broken))
    if "json" in given:
        print_json({"skills": [_object(name, skills, added) for name in names]})
    elif not names:
        show(_NONE)
    else:
        rows = []
        for name in names:
            origin = f" (from {_shown_origin(added[name])})" if name in added else ""
            state = f"does not load: {'; '.join(skills.broken.get(name, ()))}"
            if name not in skills.broken:
                state = f"{skills.loaded[name].description}{origin}"
            rows.append((name, state))
        show(plain(columns(rows)))


def _shown_origin(added: AddedSkill) -> str:
    return f"{added.origin}@{added.commit[:12]}" if added.commit else added.origin


def _object(name: str, skills: SkillSet, added: Mapping[str, AddedSkill]) -> dict[str, object]:
    skill, origin = skills.loaded.get(name), added.get(name)
    return {
        "name": name,
        "loads": skill is not None,
        "description": skill.description if skill else "",
        "allowed_tools": list(skill.tools) if skill else [],
        "commands": list(skill.commands) if skill else [],
        "problems": list(skills.broken.get(name, ())),
        "warnings": list(skill.warnings) if skill else [],
        "origin": origin.origin if origin else "",
        "commit": origin.commit if origin else "",
    }


@_SKILL.verb("one skill, with its text", "mail", _NAME, JSON)
def _show(given: Given, caller: Caller) -> None:
    name, paths = str(given["name"]), open_data(caller).paths
    skills, added = SkillFolder(paths.skills).read(), SkillLock(paths.skills).read()
    if name not in skills.loaded and name not in skills.broken:
        known = (*skills.loaded, *skills.broken)
        raise no_such(f"There is no skill {name}.", name, known, "ollim-bot skill list")
    if "json" in given:
        print_json(_object(name, skills, added))
        return
    skill = skills.loaded.get(name)
    for line in _described(skill, added.get(name)) if skill else skills.broken[name]:
        show(plain(line))
    try:
        text = read_file(paths.skills / name / SKILL_FILE, SizeLimit.SKILL)
    except FileNotFoundError:
        return
    show(f"\n{plain(text.decode('utf-8', 'replace')).strip()}")


def _described(skill: Skill, added: AddedSkill | None) -> Iterator[str]:
    yield f"{skill.name}: {skill.description}"
    if skill.tools:
        yield f"It adds to a job that names it: {', '.join(skill.tools)}"
    if skill.commands:
        yield f"It runs when it is loaded: {', '.join(skill.commands)}"
    if added is not None:
        yield f"It was added from {_shown_origin(added)}"
    yield from skill.warnings


@_SKILL.verb(
    "add one from elsewhere",
    "./mail",
    argument(
        "source",
        metavar="SOURCE",
        help="a folder, a ZIP file, or the address of a git repository, with @COMMIT if you like",
    ),
    _YES,
)
def _add(given: Given, caller: Caller) -> None:
    from ollim_bot.features.skills.skill_packages import SkillInstaller, candidate

    source = str(given["source"])
    one = candidate(source, caller.path(source))
    data = open_data(caller)
    SkillInstaller(data.paths).refuse_taken(one.skill.name)
    for line in _wanted(one):
        show(plain(line))
    _agree(f"Add the skill {one.skill.name}?", is_given="yes" in given)
    with writable(data) as opened:
        opened.keep_files(f"{SKILLS}/{one.skill.name}/{SKILL_FILE}", is_before=True)
        SkillInstaller(opened.paths).add(one)
        _journal(opened, one.skill.name, f"add skill {one.skill.name}")
    show(f"Added the skill {one.skill.name}. The agent has it from its next answer on.")


@_SKILL.verb("remove one", "mail", _NAME, _YES)
def _remove(given: Given, caller: Caller) -> None:
    from ollim_bot.features.skills.skill_packages import SkillInstaller

    name, data = str(given["name"]), open_data(caller)
    _agree(f"Remove the skill {plain(name)} with all its files?", is_given="yes" in given)
    with writable(data) as opened:
        opened.keep_files(f"{SKILLS}/{name}/{SKILL_FILE}", is_before=True)
        SkillInstaller(opened.paths).remove(name)
        _journal(opened, name, f"remove skill {name}")
    show(f"Removed the skill {plain(name)}.")


def _wanted(one: Candidate) -> Iterator[str]:
    """What the owner has to know before the skill is added."""
    skill, scripts, hosts = one.skill, scripts_in(one.files), addresses_in(one.files)
    commit = f", commit {one.commit}" if one.commit else ""
    yield f"{skill.name}: {skill.description}"
    yield f"  from       {one.origin}{commit}"
    yield f"  files      {', '.join(sorted(one.files))}"
    yield f"  tools      {_named(skill.tools, 'for jobs that name the skill')}"
    yield f"  scripts    {_named(scripts, 'run only if tool-policy.yaml allows it')}"
    yield f"  addresses  {_named(hosts)}"
    if one.removed:
        yield f"  taken out  {', '.join(one.removed)}"
    yield from (f"  note       {warning}" for warning in skill.warnings)


def _named(words: Sequence[str], remark: str = "") -> str:
    listed = ", ".join(words) or "none"
    return f"{listed} ({remark})" if words and remark else listed


def _agree(question: str, *, is_given: bool) -> None:
    """Raises `OllimError` unless the owner agrees."""
    if is_given:
        return
    if not sys.stdin.isatty():
        raise WrongInput(_NO_TERMINAL)
    if not agrees(question):
        raise OllimError("Nothing was changed.")


@_SKILL.verb("whether added skills were changed since", "", JSON)
def _check(given: Given, caller: Caller) -> None:
    lock = SkillLock(open_data(caller).paths.skills)
    differences = lock.differences()
    if "json" in given:
        print_json({"differences": differences})
    if differences:
        raise OllimError("\n".join(differences))
    if "json" not in given:
        count = len(lock.read())
        show(f"{counted(count, 'added skill')}, as added." if count else "No added skills.")


def _journal(data: Data, name: str, message: str) -> None:
    """Have the skill and the lock committed together."""
    data.journal.note(data.paths.skills / name, message)
    data.journal.note(SkillLock(data.paths.skills).path, f"lock skill {name}")
    data.keep_files(f"{SKILLS}/{name}/{SKILL_FILE}")

"""Skills that the agent writes or uses: none may have the engine run commands of its own accord."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ollim_bot.agent import ToolCall
from ollim_bot.domain.job_files import SKILL_FILE, JobFolder
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, WRITING
from ollim_bot.plain_files import Largest, Unfit, read_file
from ollim_bot.tools import texts
from ollim_bot.tools.file_edits import UnclearEdit, written
from ollim_bot.tools.ground import files_below, is_within

_HOOKS = "hooks"
_MARK = "---"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_UNCLEAR = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]|$)")


def skill_guard(call: ToolCall, root: Path) -> str | None:
    """Keeps hooks out of skills: the engine runs their commands and asks nobody.

    They are looked for before a skill is written, since the engine remembers what once stood
    there, and before one is used, since others may have written it.
    """
    if call.tool == "Skill":
        skills = filter(_is_skill_file, files_below(str(root)))
        return next(filter(None, (_wrong(path, os.path.realpath(root)) for path in skills)), None)
    path = os.path.join(root, str(call.arguments.get(FILE_ARGUMENTS.get(call.tool, ""), "")))
    if call.tool not in WRITING or not _is_of_a_skill(path, root):
        return None
    try:
        text = written(os.path.relpath(path, root), _content(path), call.tool, call.arguments)
    except UnclearEdit as unclear:
        return str(unclear)
    except Unfit as unfit:
        return texts.unfit_file(os.path.relpath(path, root), unfit.reason)
    return texts.NO_HOOKS if may_have_hooks(text) else None


def may_have_hooks(text: str) -> bool:
    """Whether a skill has hooks among its fields; True also where that is unclear."""
    first, *others = _LINE_ENDS.split(text.lstrip("\ufeff \t\r\n"))
    if not first.startswith(_MARK):
        return False
    lines = [line.rstrip(" \t") for line in others]
    end = lines.index(_MARK) if _MARK in lines else len(lines)
    fields = [line for line in lines[:end] if line and not line.lstrip(" \t").startswith("#")]
    if first.strip() != _MARK or any(map(_UNCLEAR.search, fields)):
        return True
    # Whatever is indented, or an item of a list, belongs to the field before it.
    top = [line for line in fields if line[0] not in " \t-"]
    if fields and fields[0] not in top:
        return True
    named = [_FIELD.match(line) for line in top]
    return any(name is None or name[1].casefold() == _HOOKS for name in named)


def _wrong(path: str, root: str) -> str | None:
    """Why no skill is used as long as this one is so; also where nobody can look into it."""
    shown = os.path.relpath(path, root)
    try:
        return texts.skill_with_hooks(shown) if may_have_hooks(_content(path) or "") else None
    except Unfit as unfit:
        return texts.unfit_skill(shown, unfit.reason)


def _is_of_a_skill(path: str, root: Path) -> bool:
    real = os.path.realpath(path)
    home = os.path.join(os.path.realpath(root), JobFolder.SKILLS)
    return is_within(real.casefold(), home.casefold()) or _is_skill_file(real)


def _is_skill_file(path: str) -> bool:
    return os.path.basename(path).casefold() == SKILL_FILE.casefold()


def _content(path: str) -> str | None:
    """None where there is no file that anybody could read. Raises `Unfit` for what is none."""
    try:
        return read_file(path, Largest.SKILL).decode("utf-8", "replace")
    except Unfit:
        raise
    except OSError:
        return None

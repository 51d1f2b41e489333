"""The system prompt and the set-up questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ollim_bot.domain.shared_files import Names, Profile
from ollim_bot.prompts.context import joined, one_line

PARTS = ("role", "prompts", "forks", "answers", "jobs", "world", "tools", "profile", "care")

_TEXTS = Path(__file__).resolve().parent.parent / "texts"
_TOOLS = "{tools}"
_BLANK = re.compile(r"\{(user_name|bot_name|zone)\}")


def read_manual(tool_lines: Sequence[str]) -> str:
    """How the agent works, with one list item for each of `tool_lines`.

    Read it once in a process: the text belongs to the running code.
    """
    parts = ((_TEXTS / "system" / f"{part}.md").read_text("utf-8").strip() for part in PARTS)
    return joined("\n\n", *parts).replace(_TOOLS, "\n".join(f"- {line}" for line in tool_lines))


def build_system_prompt(profile: Profile, names: Names, zone: str, manual: str) -> str:
    """The same arguments give the same text, so that the model's cache holds.

    The profile is taken literally; only the blanks of the manual are filled in.
    """
    values = {"user_name": names.user, "bot_name": names.bot, "zone": zone}
    filled = _BLANK.sub(lambda blank: one_line(values[blank[1]]), manual)
    return joined("\n\n", profile.identity.strip(), profile.user.strip(), filled)


def read_set_up() -> str:
    """The prompt with the set-up questions. Read it once in a process, like the manual."""
    return _read("set-up.md")


def read_screening() -> str:
    """The system prompt of a session that screens. Read it once in a process, like the manual."""
    return _read("screening.md")


def _read(name: str) -> str:
    return (_TEXTS / name).read_text("utf-8").strip()

"""The system prompt and the set-up questions."""

from __future__ import annotations

import re
from pathlib import Path

from ollim_bot.domain.shared_files import Names, Profile
from ollim_bot.prompts.context import joined, one_line

PARTS = ("role", "prompts", "forks", "answers", "jobs", "tools", "profile", "care")

_FOLDER = Path(__file__).resolve().parent.parent / "texts" / "system"
_BLANK = re.compile(r"\{(user_name|bot_name|zone)\}")


def read_manual() -> str:
    """How the agent works here. Read once in a process's life: it belongs to the code that runs."""
    return joined("\n\n", *((_FOLDER / f"{part}.md").read_text("utf-8").strip() for part in PARTS))


def build_system_prompt(profile: Profile, names: Names, zone: str, manual: str) -> str:
    """The same for the same arguments, so that the model's cache holds; without a time in it.

    The profile stands there as people wrote it; only the blanks of the manual are filled in.
    """
    values = {"user_name": names.user, "bot_name": names.bot, "zone": zone}
    filled = _BLANK.sub(lambda blank: one_line(values[blank[1]]), manual)
    return joined("\n\n", profile.identity.strip(), profile.user.strip(), filled)


_TEXT = Path(__file__).resolve().parent.parent / "texts" / "set-up.md"


def read_set_up() -> str:
    """Read once in a process's life: it belongs to the code that runs."""
    return _TEXT.read_text("utf-8").strip()

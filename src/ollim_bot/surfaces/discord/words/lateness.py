"""What arrives late says so, before anything else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ollim_bot.domain.moments import describe
from ollim_bot.surfaces.discord.channel import Letter
from ollim_bot.surfaces.discord.words.small_text import small
from ollim_bot.surfaces.discord.words.split import LONGEST

_LATE = timedelta(seconds=60)
_WORDS = "late · written "


def dated(letter: Letter, written: datetime, now: datetime) -> Letter:
    """With when it was written, if that is longer ago than a minute and there is room for it."""
    if now.astimezone(UTC) - written.astimezone(UTC) <= _LATE:
        return letter
    words = f"{_WORDS}{describe(written.replace(second=0, microsecond=0), now)}"
    if letter.card is not None:
        footer = " · ".join(part for part in (words, letter.card_footer) if part)
        return replace(letter, card_footer=footer)
    text = "\n".join(part for part in (small(words), letter.text) if part)
    return replace(letter, text=text) if len(text) <= LONGEST else letter


def undated(text: str) -> str:
    """The words of a message without the line about when it was written."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith(small(_WORDS)) else text

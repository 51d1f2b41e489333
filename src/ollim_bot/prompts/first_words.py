"""From a stored prompt back to the words of the owner, for a list of conversations."""

from __future__ import annotations

import re

from ollim_bot.prompts.continued import THE_WORDS
from ollim_bot.prompts.lookalikes import TAG_NAMES
from ollim_bot.prompts.tags import SYSTEM, restored

_LONGEST = 60

_ABOVE = re.compile(
    rf"""
    (?: \[ (?: {TAG_NAMES} ) (?: : [^\]\n]* )? \] [ ]? )*  \n?
    (?: \[ \d{{4}}-\d\d-\d\d [^\]\n]* \] (?: \n | \Z ) )?
    (?: RECENT[ ]BACKGROUND[ ]UPDATES[ ]\( [^\n]* (?: \n | \Z ) (?: [^\n]+ (?: \n | \Z ) )* )?
    \n*
    """,
    re.VERBOSE,
)
_ASIDE = re.compile(
    r"(?: (?: >[ ] [^\n]* (?: \n | \Z ) )+ | Attached[ ]files:\n (?: -[ ] [^\n]* (?: \n | \Z ) )+ )"
    r"\n*",
    re.VERBOSE,
)


def first_words(prompt: str) -> str:
    """On one line, 60 characters at most; empty where the owner said nothing."""
    rest = _without(_ABOVE, prompt)
    if prompt.startswith(SYSTEM):
        rest = rest.partition(f"\n{THE_WORDS}\n\n")[2]
    while (shorter := _without(_ASIDE, rest)) != rest:
        rest = shorter
    line = " ".join(restored(rest).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _without(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return text[found.end() :] if found else text

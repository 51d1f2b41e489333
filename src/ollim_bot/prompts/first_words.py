"""The words of the owner or of a job in a prompt, without the program's additions."""

from __future__ import annotations

import re

from ollim_bot.domain.text import shortened
from ollim_bot.prompts.context import (
    FENCE,
    FORK_STARTED,
    NOT_THE_OWNERS,
    SYSTEM,
    TAG_NAMES,
    restored,
)
from ollim_bot.prompts.turns import TASK, THE_WORDS, TOPIC

_LONGEST = 60
# The engine begins a compacted conversation with this sentence.
_SUMMED_UP = "This session is being continued from a previous conversation"

_OF_PROGRAM = re.compile(rf"\[(?!button\])(?:{TAG_NAMES})(?::[^\]\n]*)?\]")
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
    rf"""
    (?: (?: >[ ] [^\n]* (?: \n | \Z ) )+
      | Attached[ ]files:\n (?: -[ ] [^\n]* (?: \n | \Z ) )*
      | {re.escape(NOT_THE_OWNERS)} : [^\n]* \n
        < (?P<mark> {FENCE}-[0-9a-f]+ ) > \n (?s: .*? ) \n </ (?P=mark) >
    ) \n*
    """,
    re.VERBOSE,
)


def is_of_program(prompt: str) -> bool:
    """Whether a job or the program asked this, and neither the owner nor a button of theirs."""
    return _OF_PROGRAM.match(prompt) is not None


def task_words(prompt: str) -> str:
    """The task in a prompt of a job or of the program, without the lines above it."""
    _, announced, task = prompt.partition(f"\n{TASK}\n")
    return restored(task if announced else _without(_ABOVE, prompt)).strip()


def first_words(prompt: str) -> str:
    """The words on one line, 60 characters at most; empty if the owner said nothing."""
    if prompt.startswith(_SUMMED_UP):
        return ""
    rest = _without(_ABOVE, prompt)
    if prompt.startswith(FORK_STARTED):
        rest = _said_in_fork(rest)
    if prompt.startswith(SYSTEM):
        rest = rest.partition(f"\n{THE_WORDS}\n\n")[2]
    while (shorter := _without(_ASIDE, rest)) != rest:
        rest = shorter
    return shortened(" ".join(restored(rest).split()), _LONGEST)


def _said_in_fork(prompt: str) -> str:
    """The topic of the fork, or the words with which the owner opened it."""
    task, _, rest = prompt.partition("\n")
    return task.removeprefix(TOPIC) if task.startswith(TOPIC) else _without(_ABOVE, rest)


def _without(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return text[found.end() :] if found else text

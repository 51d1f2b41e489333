"""Reads a prompt of the bot: who speaks, what happened meanwhile, and what is said."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(
    r"\[(?P<name>routine-bg|routine|reminder-bg|reminder|webhook|fork-started|fork-timeout"
    r"|button|system)(?::(?P<subject>[^\]\n]+))?\][ ]?"
)
_MARK = re.compile(r"\[(?:late|stale-fork): [^\]\n]*\][ ]?")
_TIMESTAMP = re.compile(r"\[\d{4}-\d\d-\d\d \w{3} \d\d:\d\d [AP]M [^\]\n]+\](?:\n|$)")
_UPDATES = re.compile(r"RECENT BACKGROUND UPDATES \((?P<duty>[^\n]*)\)\n(?P<lines>(?:.+(?:\n|$))*)")
_UPDATE = re.compile(r"^- (?:\([^)\n]*ago\) |\(just now\) )?(?P<text>.+)$", re.MULTILINE)
_ASIDE = re.compile(r"(?:(?:> ?.*(?:\n|$))+|Attached files:\n(?:- .*(?:\n|$))+)\n*")


@dataclass(frozen=True, slots=True)
class SpokenPrompt:
    """`tag` is empty where the owner speaks; `updates` are those that are to be mentioned."""

    text: str
    tag: str = ""
    subject: str = ""
    updates: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """The body of a background job: what comes after the instructions of the program."""
        return self.text.rstrip().rpartition("\n\n")[2].strip()


def read_prompt(text: str) -> SpokenPrompt:
    tag = _TAG.match(text)
    rest = _without(_MARK, text[tag.end() :] if tag else text).lstrip("\n")
    rest = _without(_TIMESTAMP, rest)
    updates = _UPDATES.match(rest)
    rest = (rest[updates.end() :] if updates else rest).lstrip("\n")
    while aside := _ASIDE.match(rest):
        rest = rest[aside.end() :]
    return SpokenPrompt(
        text=rest.strip(),
        tag=tag["name"] if tag else "",
        subject=(tag["subject"] or "") if tag else "",
        updates=_to_mention(updates),
    )


def _without(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return text[found.end() :] if found else text


def _to_mention(updates: re.Match[str] | None) -> tuple[str, ...]:
    if updates is None or not updates["duty"].startswith("mention"):
        return ()
    return tuple(_UPDATE.findall(updates["lines"]))

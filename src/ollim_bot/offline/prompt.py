"""Reads a prompt of the bot: who speaks, what happened meanwhile, and what is said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_TAG = re.compile(
    r"\[(?P<name>routine-bg|routine|reminder-bg|reminder|webhook|fork-started|fork-timeout"
    r"|button|system)(?::(?P<subject>[^\]\n]+))?\][ ]?"
)
_MARK = re.compile(r"\[(?:late|stale-fork): [^\]\n]*\][ ]?")
_TIMESTAMP = re.compile(
    r"\[(?P<day>\d{4}-\d\d-\d\d) \w{3} (?P<hour>\d\d):(?P<minute>\d\d) (?P<half>[AP]M)"
    r" (?P<zone>[^\]\n]+)\](?:\n|$)"
)
_UPDATES = re.compile(r"RECENT BACKGROUND UPDATES \((?P<duty>[^\n]*)\)\n(?P<lines>(?:.+(?:\n|$))*)")
_UPDATE = re.compile(r"^- (?:\([^)\n]*ago\) |\(just now\) )?(?P<text>.+(?:\n  .+)*)$", re.MULTILINE)
_TASK = "YOUR TASK:"
_CHAIN = re.compile(r"CHAIN CONTEXT: check \d+ of \d+\.[^\n]*\n\n")
_ASIDE = re.compile(
    r"(?:(?:> ?.*(?:\n|$))+|Attached files:\n(?:- .*(?:\n|$))+"
    r"|Data, not the owner's words: .*\n<(untrusted-[0-9a-f]+)>\n(?s:.*?)\n</\1>)\n*"
)

# The two ways in which the program asks for the answer that a restart has cut off: with the words
# of the owner, or without them where they stand in the conversation already.
_CUT_OFF = "The program was restarted"
_THE_WORDS = "\nWhat the owner had written:\n\n"
_ALREADY = "\nThese tools had already been called:\n"


@dataclass(frozen=True, slots=True)
class SpokenPrompt:
    """`tag` is empty where the owner speaks; `updates` are those that are to be mentioned.

    `points_elsewhere`: it came with a quote, a file or an image, and may be about that. `moment` is
    when it was written, on the clocks of `zone`. `may_have_acted`: tools were called for it before
    the program was restarted, and it may not be seen what came of that.
    """

    text: str
    tag: str = ""
    subject: str = ""
    updates: tuple[str, ...] = ()
    points_elsewhere: bool = False
    moment: datetime | None = None
    zone: str = ""
    may_have_acted: bool = False

    @property
    def task(self) -> str:
        """The body of a background job: what comes after the instructions of the program."""
        _, mark, task = f"\n{self.text}".partition(f"\n{_TASK}\n")
        return (task if mark else self.text.rstrip().rpartition("\n\n")[2]).strip()

    @property
    def instructions(self) -> str:
        """What the program says about a background job, before its body."""
        return self.text[: -len(self.task)] if self.task else self.text

    @property
    def said_in_turn(self) -> str:
        """The body of a job that comes in the conversation."""
        return _taken(_CHAIN, self.text)[1].strip()

    @property
    def asks_to_go_on(self) -> bool:
        """With what was asked before: its answer was cut off."""
        return self.tag == "system" and self.text.startswith(_CUT_OFF)


def read_prompt(text: str) -> SpokenPrompt:
    tag, rest = _taken(_TAG, text)
    _, rest = _taken(_MARK, rest)
    stamp, rest = _taken(_TIMESTAMP, rest.lstrip("\n"))
    updates, rest = _taken(_UPDATES, rest)
    name, body = _speaker(tag["name"] if tag else "", rest.lstrip("\n"))
    said = _without_asides(body)
    return SpokenPrompt(
        text=said.strip(),
        tag=name,
        subject=(tag["subject"] or "") if tag else "",
        updates=_to_mention(updates),
        points_elsewhere=said != body,
        moment=_moment(stamp) if stamp else None,
        zone=stamp["zone"] if stamp else "",
        may_have_acted=_may_have_acted(tag["name"] if tag else "", rest.lstrip("\n")),
    )


def _taken(pattern: re.Pattern[str], text: str) -> tuple[re.Match[str] | None, str]:
    """What stands at the beginning, and the rest."""
    found = pattern.match(text)
    return found, text[found.end() :] if found else text


def _speaker(tag: str, body: str) -> tuple[str, str]:
    """The words of the owner that the program hands on again are the owner's."""
    if tag == "system" and body.startswith(_CUT_OFF) and _THE_WORDS in body:
        return "", body.partition(_THE_WORDS)[2]
    return tag, body


def _may_have_acted(tag: str, body: str) -> bool:
    is_cut_off = tag == "system" and body.startswith(_CUT_OFF)
    return is_cut_off and _ALREADY in body.partition(_THE_WORDS)[0]


def _without_asides(text: str) -> str:
    while aside := _ASIDE.match(text):
        text = text[aside.end() :]
    return text


def _moment(stamp: re.Match[str]) -> datetime | None:
    hour = int(stamp["hour"]) % 12 + (12 if stamp["half"] == "PM" else 0)
    try:
        return datetime.fromisoformat(f"{stamp['day']}T{hour:02}:{stamp['minute']}")
    except ValueError:
        return None


def _to_mention(updates: re.Match[str] | None) -> tuple[str, ...]:
    if updates is None or not updates["duty"].startswith("mention"):
        return ()
    return tuple(_UPDATE.findall(updates["lines"]))

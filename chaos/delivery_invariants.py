"""Invariants of delivery: Discord has each message of the log once, and no others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

from chaos.evidence import NOT_KEPT, Evidence, Row
from chaos.findings import Finding, missing, wrong

_BAD_ENDS = ("unsure", "not_sent")
_CUT_SHORT = "-# cut off here; it goes on below"
# Remarks about the state of the bot: they are on Discord, and not in the log.
_PASSING = re.compile(r"-# (shutting down$|Your message waits, since it cannot be written down: )")


def _refs(row: Row) -> list[str]:
    return str(row.get("refs", {}).get("discord", "")).split()


def _each_message_is_on_discord(evidence: Evidence) -> Iterator[Finding]:
    there = {str(row["id"]) for row in evidence.discord}
    gone = {row["id"] for row in evidence.owner if row["event"] == "deleted"}
    bad = {str(row["id"]) for row in evidence.outbox if row["row"] in _BAD_ENDS}
    for row in evidence.messages:
        if "discord" not in row.get("refs", {}) or row["id"] in gone or row["id"] in bad:
            continue
        refs = _refs(row)
        if not refs:
            yield missing(f"{_short(row)} is not on Discord")
        elif not there.issuperset(refs):
            yield wrong(f"{_short(row)} does not stand on Discord any more")


def _nothing_else_is_on_discord(evidence: Evidence) -> Iterator[Finding]:
    known = Counter(ref for row in evidence.messages for ref in _refs(row))
    for ref, times in known.items():
        if times > 1:
            yield wrong(f"{times} messages of the log are one on Discord: {ref}")
    for row in evidence.discord:
        is_expected = str(row["id"]) in known or row["text"].endswith((_CUT_SHORT, NOT_KEPT))
        if row["is_ours"] and not is_expected and not _PASSING.match(row["text"]):
            yield wrong(f"on Discord and in no log: {row['text'][:100]!r}")


def _each_mark_is_there_once(evidence: Evidence) -> Iterator[Finding]:
    """Counts the marks of pings and reminders, and those at the start and end of an answer."""
    shown, logged = _marks_on_discord(evidence), _marks_in_log(evidence)
    for mark, times in logged.items():
        if times > 1:
            yield wrong(f"{mark} is {times} times in the log")
        elif shown[mark] != 1:
            kind = wrong if shown[mark] else missing
            yield kind(f"{mark} is {shown[mark]} times on Discord")
    for mark, times in shown.items():
        if times > 1 and mark not in logged:
            yield wrong(f"{mark} is {times} times on Discord")


# How Discord shows a reminder that the owner has answered.
_ANSWERED = re.compile(r"^[✓⏱–] (Drink r\d+) · ", re.MULTILINE)
# A ping may be a line of a digest.
PING = r"Ping p\d+(?=$| \((?:Late|From untrusted content): )"
_MARK = re.compile(rf"\[/?a\d+\]|{PING}|^Drink r\d+\.$", re.MULTILINE)


def _marks_on_discord(evidence: Evidence) -> Counter[str]:
    counted: Counter[str] = Counter()
    authors = {ref: row["author"] for row in evidence.messages for ref in _refs(row)}
    for row in evidence.discord:
        is_rest = (
            row["text"].endswith((_CUT_SHORT, NOT_KEPT)) or authors.get(str(row["id"])) == "program"
        )
        if row["is_ours"] and not is_rest:
            counted.update(_MARK.findall(row["text"]))
            counted.update(f"{mark}." for mark in _ANSWERED.findall(row["text"]))
    return counted


def _marks_in_log(evidence: Evidence) -> Counter[str]:
    counted: Counter[str] = Counter()
    bad = {str(row["id"]) for row in evidence.outbox if row["row"] in _BAD_ENDS}
    for row in evidence.messages:
        if row["author"] in ("assistant", "background") and row["id"] not in bad:
            counted.update(_MARK.findall(row["text"]))
    return counted


def _answers_are_whole_on_discord(evidence: Evidence) -> Iterator[Finding]:
    """An answer may be split into several messages."""
    there = {str(row["id"]): _without_remarks(row["text"]) for row in evidence.discord}
    for row in evidence.messages:
        if row["author"] != "assistant" or row.get("is_cut_off"):
            continue
        refs = _refs(row)
        shown = " ".join(there.get(ref, "") for ref in refs).split()
        if refs and shown != str(row["text"]).split():
            yield missing(f"{_short(row)} is other words on Discord: {' '.join(shown)[-60:]!r}")


def _without_remarks(text: str) -> str:
    """Without the lines in small print, such as that the message is late."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("-# "))


def _each_ping_reported_as_sent_is_in_the_log(evidence: Evidence) -> Iterator[Finding]:
    kept = (*evidence.messages, *evidence.held, *evidence.turned)
    logged = Counter(mark for row in kept for mark in _MARK.findall(row["text"]))
    for row in evidence.model:
        is_ping = row["event"] == "called" and row["mark"].startswith("p")
        if is_ping and row["is_done"] and not logged[f"Ping {row['mark']}"]:
            yield missing(f"the model was told that ping {row['mark']} was sent")


def _discord_has_the_order_of_the_log(evidence: Evidence) -> Iterator[Finding]:
    """Compares the order of the answers, and that of all other messages, each on its own.

    What must come may go before what need not, but not between the parts of one message.
    """
    said = [row for row in evidence.messages if row["author"] != "owner"]
    for is_answer in (True, False):
        parts = [
            (int(ref), number)
            for number, row in enumerate(said)
            if ("turn" in row) == is_answer
            for ref in _refs(row)
        ]
        newest = newest_that_must = 0
        for ref, number in parts:
            must = bool(said[number].get("must"))
            if ref < (newest_that_must if must else newest):
                yield wrong(f"later on Discord than in the log: {_short(said[number])}")
            newest = max(newest, ref)
            newest_that_must = max(newest_that_must, ref) if must else newest_that_must
        together = [number for number, _ in groupby(number for _, number in sorted(parts))]
        for number, times in Counter(together).items():
            if times > 1:
                yield wrong(f"others are between the parts of {_short(said[number])}")


def _nothing_is_unfinished(evidence: Evidence) -> Iterator[Finding]:
    yield from (missing(f"{row['id']} is on its way") for row in evidence.noted("waiting"))
    yield from (missing(f"draft {row['id']}") for row in evidence.noted("drafts"))
    for row in evidence.discord:
        if row["marks"] and not row["is_ours"]:
            yield missing(f"{row['text']!r} is still marked with {row['marks']}")


def _short(row: Row) -> str:
    return f"{row['author']} {row['text'][:60]!r}"


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_message_is_on_discord,
    _nothing_else_is_on_discord,
    _each_mark_is_there_once,
    _answers_are_whole_on_discord,
    _each_ping_reported_as_sent_is_in_the_log,
    _discord_has_the_order_of_the_log,
    _nothing_is_unfinished,
)

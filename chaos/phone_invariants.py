"""Invariants of the phone: what must come rings there once, and a kept press counts once."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain

from chaos.evidence import NOT_KEPT, Evidence, Row
from chaos.findings import Finding, missing, wrong

_CHANNEL = "ntfy"
REMINDER = re.compile(r"\bDrink (r\d+)\b")
_STRANGER = re.compile(r"\bstranger s\d+\b")
# What each button has to leave as the answer of the item.
_ANSWERS = {"Done": "done", "1 h": "snoozed"}


def sequence_of(message: object) -> str:
    """The sequence under which a message of the log is on the phone."""
    return hashlib.blake2s(f"{message} 0".encode(), digest_size=12).hexdigest()


def _pushes(evidence: Evidence) -> list[Row]:
    """What came from the bot, each with its `place`: strangers write there too."""
    rows = ({**row, "place": place} for place, row in enumerate(evidence.noted("pushes")))
    return [
        row
        for row in rows
        if row["event"] == "message" and row["sequence"] and not _STRANGER.search(row["text"])
    ]


def _unknown(evidence: Evidence) -> set[str]:
    """The messages that may have arrived on the phone, or were refused there."""
    return {str(row["id"]) for row in evidence.noted("push_outbox")}


def _each_card_has_rung(evidence: Evidence) -> Iterator[Finding]:
    there = {row["id"] for row in evidence.noted("pushes")}
    unknown, is_paired = _unknown(evidence), bool(evidence.noted("pairing"))
    for row in evidence.messages:
        ref = row.get("refs", {}).get(_CHANNEL)
        if row["id"] in unknown:
            continue
        if ref is None and row.get("must") and is_paired:
            yield missing(f"“{row['text'][:40]}” must come, and was not meant for the phone")
        elif ref == "":
            yield missing(f"“{row['text'][:40]}” is not on the phone")
        elif ref is not None and not there.issuperset(str(ref).split()):
            yield wrong(f"“{row['text'][:40]}” is confirmed, and never was on the phone")


def _nothing_else_has_rung(evidence: Evidence) -> Iterator[Finding]:
    known = {sequence_of(row["id"]) for row in evidence.messages}
    unkept = {
        name
        for row in evidence.discord
        if str(row["text"]).endswith(NOT_KEPT)
        for name in REMINDER.findall(row["text"])
    }
    sequences: defaultdict[str, set[str]] = defaultdict(set)
    for row in _pushes(evidence):
        names = REMINDER.findall(row["text"])
        for name in names[:1]:
            sequences[name].add(row["sequence"])
        if row["sequence"] not in known and unkept.isdisjoint(names):
            yield wrong(f"on the phone and in no log: {row['text']!r}")
    for name, all_of_it in sequences.items():
        if len(all_of_it) > 1 and name not in unkept:
            yield wrong(f"reminder {name} is {len(all_of_it)} notifications of the phone")


def _nothing_rings_twice(evidence: Evidence) -> Iterator[Finding]:
    """A server that has lost what it kept cannot say what it had: a repeat replaces then."""
    lost = [row["pushes"] for row in evidence.noted("forgotten")]
    counted: Counter[tuple[int, str]] = Counter()
    texts: dict[str, str] = {}
    for row in _pushes(evidence):
        age = sum(each <= row["place"] for each in lost)
        if row["is_heard"]:
            counted[age, row["sequence"]] += 1
            texts[row["sequence"]] = row["text"]
    for (_, sequence), times in counted.items():
        if times > 1:
            yield wrong(f"{texts[sequence].strip()!r} rang {times} times")


def _what_is_answered_is_gone(evidence: Evidence) -> Iterator[Finding]:
    """The phone may have missed the sign if the server forgot it."""
    lost = max((row["pushes"] for row in evidence.noted("forgotten")), default=0)
    excused = {row["sequence"] for row in evidence.noted("pushes")[:lost]}
    excused |= {sequence_of(each) for each in _unknown(evidence)}
    shown = {row["sequence"] for row in evidence.noted("drawers")} - excused
    for item in evidence.items:
        if item.get("answer") and sequence_of(item["card"]) in shown:
            yield missing(f"{item['occurrence']} was answered, and is still on a phone")


def _a_press_counts_once(evidence: Evidence) -> Iterator[Finding]:
    has_answer: dict[str, bool] = {}
    for row in evidence.ledger:
        if row["state"] == "answered":
            is_undone, occurrence = row["answer"] == "undone", row["occurrence"]
            if has_answer.get(occurrence) and not is_undone:
                yield wrong(f"{occurrence} was answered again, though nothing was undone")
            has_answer[occurrence] = not is_undone
    rows = evidence.noted("presses")
    lost = max((row["presses"] for row in evidence.noted("forgotten")), default=0)
    pressed: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        pressed[row["name"]].add(_ANSWERS[row["label"]])
    kept = {row["name"] for row in rows[lost:] if row["is_kept"]}
    items = {str(row["occurrence"]).split(":")[1]: row for row in evidence.items}
    for name, labels in pressed.items():
        item = items.get(name)
        answer = item and item.get("answer")
        if not answer and name in kept:
            yield missing(f"reminder {name} was answered on the phone, and is open")
        by_phone = answer and item and item.get("answered_by") == _CHANNEL
        if by_phone and answer not in labels:
            yield wrong(f"reminder {name} is {answer}, and {sorted(labels)} was pressed")


def _doubt_has_a_cause(evidence: Evidence) -> Iterator[Finding]:
    """What has arrived can be read back, unless the server has lost it."""
    if not evidence.noted("forgotten"):
        for each in sorted(_unknown(evidence)):
            yield wrong(f"the bot does not know whether {each} is on the phone")


def _strangers_are_not_heard(evidence: Evidence) -> Iterator[Finding]:
    prompts = (row["prompt"] for row in evidence.model if row["event"] == "asked")
    said = (row["text"] for row in evidence.messages)
    for text in chain(evidence.main_talk, prompts, said):
        for mark in _STRANGER.findall(str(text))[:1]:
            yield wrong(f"the words of {mark} came through the phone")


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_card_has_rung,
    _nothing_else_has_rung,
    _nothing_rings_twice,
    _what_is_answered_is_gone,
    _a_press_counts_once,
    _doubt_has_a_cause,
    _strangers_are_not_heard,
)

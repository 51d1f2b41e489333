"""Invariants of quiet times: what waits comes once, in one message, in its order."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise

from chaos.evidence import END_STATES, Evidence, Row, moment
from chaos.findings import Finding, missing, wrong

STILL_WAITS = "waits for the end of the quiet"
_ASKING = ("done", "taken")
_OVERVIEWS = ("today-", "reminders-", "routines-")
_SHORTEST_BETWEEN = timedelta(seconds=30)


def _rows_by(evidence: Evidence, state: str, name: str) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.ledger:
        if row["state"] == state and name in row:
            found[row[name]].append(row)
    return found


def _held(evidence: Evidence) -> Iterator[Row]:
    """The rows of messages that had to wait; the turn of a routine that waits has no message."""
    return (row for row in evidence.ledger if row["state"] == "held" and "message" in row)


def _each_held_message_comes_once(evidence: Evidence) -> Iterator[Finding]:
    """Or it was dropped; a time of a nag that was held has its end."""
    logged = {str(row["id"]) for row in evidence.messages}
    waiting = {str(row["id"]) for row in evidence.held}
    released, dropped = (_rows_by(evidence, each, "message") for each in ("released", "dropped"))
    ends = _ends(evidence)
    holds = Counter(row["message"] for row in _held(evidence))
    for row in _held(evidence):
        one, times = row["occurrence"], len(released[row["message"]])
        over = times + len(dropped[row["message"]]) + (row["message"] in waiting)
        if times > 1 or over != holds[row["message"]]:
            kind = wrong if times else missing
            yield kind(f"“{row['text']}” ({one}) was held, and came {times} times")
        elif "#" in one and one not in ends:
            yield missing(f"{one} was held, and has no end")
        elif times and released[row["message"]][0]["digest"] not in logged:
            yield missing(f"the digest with “{row['text']}” is not in the log")


def _ends(evidence: Evidence) -> dict[str, Row]:
    rows = (row for row in evidence.ledger if row["state"] in END_STATES)
    return {row["occurrence"]: row for row in rows if "occurrence" in row}


def _what_was_answered_is_not_asked_again(evidence: Evidence) -> Iterator[Finding]:
    answers = _rows_by(evidence, "answered", "occurrence")
    for row in evidence.ledger:
        if row["state"] != "released":
            continue
        base = row["occurrence"].partition("#")[0]
        before = [each for each in answers[base] if moment(each["ts"]) < moment(row["ts"])]
        if before and before[-1]["answer"] != "undone":
            yield wrong(f"{base} was answered in the quiet, and asked again in {row['digest']}")


def _what_is_dropped_was_answered_or_replaced(evidence: Evidence) -> Iterator[Finding]:
    """By a later message of its job, or of its chain, that came or was held at that moment."""
    answers = _rows_by(evidence, "answered", "occurrence")
    holds = {row["message"]: moment(row["ts"]) for row in _held(evidence)}
    came = [(row["occurrence"], moment(row["ts"])) for row in _held(evidence)]
    said = (row for row in evidence.messages if row.get("occurrence"))
    came += [(row["occurrence"], moment(row["at"])) for row in said]
    for row in (each for each in evidence.ledger if each["state"] == "dropped"):
        one, at = row["occurrence"], moment(row["ts"])
        before = [each for each in answers[one.partition("#")[0]] if moment(each["ts"]) <= at]
        is_answered = bool(before) and before[-1]["answer"] != "undone"
        since, job = holds.get(row["message"], at), one.split(":")[1]
        is_replaced = any(
            other != one and (when == at or (since <= when <= at and f":{job}:" in other))
            for other, when in came
        )
        if not (is_answered or is_replaced):
            yield wrong(f"{one} was held, and dropped without an answer or a later one")


def _what_was_held_is_only_in_its_digest(evidence: Evidence) -> Iterator[Finding]:
    """Unless the owner has it shown."""
    shown = {row["message"] for row in evidence.noted("shown")}
    logged = {str(row["id"]) for row in evidence.messages}
    for row in _held(evidence):
        if row["message"] in logged - shown:
            yield wrong(f"“{row['text']}” was held, and came beside its digest")


def _a_digest_has_its_lines_in_order(evidence: Evidence) -> Iterator[Finding]:
    lines: defaultdict[str, list[Row]] = defaultdict(list)
    held = {row["message"]: row for row in _held(evidence)}
    for row in evidence.ledger:
        if "digest" in row and row["message"] in held:
            lines[row["digest"]].append(held[row["message"]])
    for row in evidence.messages:
        name = str(row["id"])
        if name in evidence.digests:
            entries = evidence.digests[name]
            ids, times = [each["id"] for each in entries], [moment(each["at"]) for each in entries]
            lost = [each["text"] for each in lines[name] if each["message"] not in ids]
            if lost or times != sorted(times) or len(ids) != len(set(ids)):
                yield wrong(f"the digest {name} is not in order, or lacks {lost}")
        elif not row.get("card"):
            yield from _in_text(row, [each["text"] for each in lines[name]])


def _in_text(digest: Row, texts: list[str]) -> Iterator[Finding]:
    position = 0
    for text in texts:
        position = digest["text"].find(text.removesuffix("."), position)
        if position < 0:
            yield wrong(f"“{text}” is not in its place in the digest {digest['id']}")
            return


def _a_quiet_ends_with_one_digest(evidence: Evidence) -> Iterator[Finding]:
    digests = [row for row in evidence.messages if str(row["id"]).startswith("digest-")]
    for one, following in pairwise(digests):
        between = moment(following["at"]) - moment(one["at"])
        if timedelta() <= between < _SHORTEST_BETWEEN:
            yield wrong(f"{one['id']} and {following['id']} came at once")


def _each_open_item_is_asked_for_in_one_place(evidence: Evidence) -> Iterator[Finding]:
    """No button asks for what has its answer; overviews show every item once more."""
    items = {_key(row["occurrence"]): row for row in evidence.items}
    asking: defaultdict[str, list[str]] = defaultdict(list)
    for row in evidence.messages:
        for button in (row.get("card") or {}).get("buttons", ()):
            is_asking = button["action"] in _ASKING and not button["is_used"]
            if is_asking and not str(row["id"]).startswith(_OVERVIEWS):
                # The card of a run by hand may ask for an item that was there.
                meant = items.get(button["data"], {}).get("same_as") or button["data"]
                asking[meant].append(str(row["id"]))
    for key, places in asking.items():
        if len(places) > 1:
            yield wrong(f"the item {key} is asked for in {places}")
        elif key not in items or items[key].get("answer") or items[key].get("is_followed_up"):
            yield wrong(f"{places[0]} asks for an item that is not open")


def _key(occurrence: str) -> str:
    """The short name of an item in its buttons."""
    return hashlib.sha256(occurrence.encode()).hexdigest()[:12]


def _of_a_routine_only_the_newest_turn_runs(evidence: Evidence) -> Iterator[Finding]:
    """Of the turns that wait for the end of one quiet."""
    ends = _ends(evidence)
    waits: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.ledger:
        if row["state"] == "held" and "message" not in row:
            waits[row["occurrence"].split(":")[1]].append(row)
    for rows in waits.values():
        for older, newer in pairwise(rows):
            end = ends.get(older["occurrence"])
            is_later = end is not None and moment(end["ts"]) > moment(newer["ts"])
            if end is not None and is_later and end["state"] != "skipped":
                yield wrong(f"{older['occurrence']} ran, although {newer['occurrence']} waited too")


def _nothing_waits(evidence: Evidence) -> Iterator[Finding]:
    yield from (missing(f"“{row['text']}” {STILL_WAITS}") for row in evidence.held)


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_held_message_comes_once,
    _what_was_answered_is_not_asked_again,
    _what_is_dropped_was_answered_or_replaced,
    _what_was_held_is_only_in_its_digest,
    _a_digest_has_its_lines_in_order,
    _a_quiet_ends_with_one_digest,
    _each_open_item_is_asked_for_in_one_place,
    _of_a_routine_only_the_newest_turn_runs,
    _nothing_waits,
)

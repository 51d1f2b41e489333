"""Invariants of quiet times: each held message comes once, in a digest, in its order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from chaos.evidence import Evidence, Row
from chaos.findings import Finding, missing, wrong

STILL_WAITS = "waits for the end of the quiet"


def _each_held_message_comes_once(evidence: Evidence) -> Iterator[Finding]:
    logged = {str(row["id"]): row for row in evidence.messages}
    waiting = {str(row["id"]) for row in evidence.held}
    released: defaultdict[str, list[Row]] = defaultdict(list)
    for row in evidence.ledger:
        if row["state"] == "released":
            released[row["message"]].append(row)
    for row in evidence.ledger:
        # A repetition of a due item is put off instead of held.
        if row["state"] != "held" or "#" in row["occurrence"]:
            continue
        times, is_waiting = len(released[row["message"]]), row["message"] in waiting
        if times + is_waiting != 1:
            kind = wrong if times else missing
            yield kind(f"“{row['text']}” was held, and came {times} times")
        elif times and released[row["message"]][0]["digest"] not in logged:
            yield missing(f"the digest with “{row['text']}” is not in the log")


def _a_digest_has_its_lines_in_order(evidence: Evidence) -> Iterator[Finding]:
    lines: defaultdict[str, list[str]] = defaultdict(list)
    digest_of = {row["message"]: row["digest"] for row in evidence.ledger if "digest" in row}
    for row in evidence.ledger:
        if row["state"] == "held" and row["message"] in digest_of:
            lines[digest_of[row["message"]]].append(row["text"])
    for row in evidence.messages:
        position = 0
        for text in lines[str(row["id"])]:
            position = row["text"].find(text.removesuffix("."), position)
            if position < 0:
                yield wrong(f"“{text}” is not in its place in the digest {row['id']}")
                break


def _nothing_waits(evidence: Evidence) -> Iterator[Finding]:
    yield from (missing(f"“{row['text']}” {STILL_WAITS}") for row in evidence.held)


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_held_message_comes_once,
    _a_digest_has_its_lines_in_order,
    _nothing_waits,
)

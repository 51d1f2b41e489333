"""Invariants of two machines: one leads at a time, and it takes over in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.evidence import Evidence, Row
from chaos.findings import Finding, wrong

# In seconds of the lease: from the last renewal to the first message.
_BAR = 30.0
# In seconds: a planned hand-over, and the time until the next reminder is due.
_PLANNED = 5.0 + 6.0
# In seconds: what does not get shorter with the lease, such as the start of a process.
_START = 15.0


@dataclass(frozen=True, slots=True)
class TakeOver:
    """`seconds` passed from the last sign of the former leader to the first message."""

    process: str
    seconds: float
    is_planned: bool


def check_lease(data: Path, record: Path) -> list[Finding]:
    evidence = Evidence(data, record)
    rules = (
        _one_leads_at_a_time,
        _only_the_leader_changes,
        _only_the_leader_sends,
        _each_command_hands_over,
        _in_time,
        _free_in_time,
        _what_is_armed_has_its_text,
    )
    return list(dict.fromkeys(finding for rule in rules for finding in rule(evidence)))


def take_over_bar(pace: float) -> float:
    """The seconds within which another machine has sent something."""
    return min(_BAR, _BAR / 2 * pace + _START)


def take_overs(data: Path, record: Path) -> list[TakeOver]:
    """Each change of the leader after which something was sent, unless the server was away."""
    evidence = Evidence(data, record)
    events, sends = evidence.noted("lease"), evidence.noted("sends")
    found: list[TakeOver] = []
    last = 0.0
    is_planned = False
    for number, row in enumerate(events):
        if row["event"] == "taken" and last:
            until = _next_taken(events[number + 1 :])
            own = (each["at"] for each in sends if each["process"] == row["process"])
            first = min((at for at in own if row["at"] <= at < until), default=None)
            if first is not None and not _was_down(evidence, last, first):
                found.append(TakeOver(row["process"], first - last, is_planned))
        if row["event"] in ("taken", "renewed", "released"):
            last, is_planned = row["at"], row["event"] == "released"
    return found


def _was_down(evidence: Evidence, begin: float, end: float) -> bool:
    """Whether there was no server in between, so that no machine could lead."""
    return any(row["from"] < end and row["to"] > begin for row in evidence.noted("outages"))


def _next_taken(events: list[Row]) -> float:
    return next((row["at"] for row in events if row["event"] == "taken"), float("inf"))


def _takers(evidence: Evidence) -> dict[int, Row]:
    taken = (row for row in evidence.noted("lease") if row["event"] == "taken")
    return {row["epoch"]: row for row in taken}


def _one_leads_at_a_time(evidence: Evidence) -> Iterator[Finding]:
    for row in _takers(evidence).values():
        if not row["was_free"]:
            yield wrong(f"{row['process']} took the lease while another machine held it")


def _only_the_leader_changes(evidence: Evidence) -> Iterator[Finding]:
    takers = _takers(evidence)
    for row in evidence.noted("lease"):
        taker = takers.get(row["epoch"])
        if taker is not None and row["process"] != taker["process"]:
            yield wrong(f"{row['process']} has {row['event']} while {taker['process']} led")


def _what_is_armed_has_its_text(evidence: Evidence) -> Iterator[Finding]:
    for row in evidence.noted("armed_without_text"):
        yield wrong(f"{row['job']} was armed before its file was stored")


def _only_the_leader_sends(evidence: Evidence) -> Iterator[Finding]:
    takers = list(_takers(evidence).values())
    for send in evidence.noted("sends"):
        leaders = [row["process"] for row in takers if row["at"] <= send["at"]]
        if not leaders or leaders[-1] != send["process"]:
            yield wrong(f"{send['process']} sent something while {leaders[-1:]} led")


def _each_command_hands_over(evidence: Evidence) -> Iterator[Finding]:
    for row in evidence.noted("hand_overs"):
        if row["code"] != 0:
            yield wrong(f"`ollim-bot standby hand-over` ended with {row['code']}")


def _in_time(evidence: Evidence) -> Iterator[Finding]:
    pace = float(next((row["pace"] for row in evidence.noted("pace")), 1.0))
    bar = take_over_bar(pace)
    for each in take_overs(evidence.data, evidence.record):
        limit = _PLANNED if each.is_planned else bar
        if each.seconds > limit:
            yield wrong(f"{each.process} took over after {each.seconds:.1f} s, not {limit:g}")


def _free_in_time(evidence: Evidence) -> Iterator[Finding]:
    """Also a machine that took the lease and sent nothing must not have waited for longer."""
    bar = take_over_bar(float(next((row["pace"] for row in evidence.noted("pace")), 1.0)))
    last = 0.0
    for row in evidence.noted("lease"):
        is_late = last and row["event"] == "taken" and row["at"] - last > bar
        if is_late and not _was_down(evidence, last, row["at"]):
            yield wrong(f"{row['process']} leads after {row['at'] - last:.1f} s, not {bar:g}")
        if row["event"] in ("taken", "renewed", "released"):
            last = row["at"]

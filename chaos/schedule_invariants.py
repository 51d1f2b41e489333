"""Invariants of scheduled work: each occurrence has one end, each reminder comes once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from chaos.evidence import END_STATES, NOT_KEPT, Evidence, Row, moment
from chaos.findings import Finding, missing, wrong

_LATE = timedelta(seconds=60)


def _each_occurrence_has_one_end(evidence: Evidence) -> Iterator[Finding]:
    states: defaultdict[str, list[str]] = defaultdict(list)
    last: dict[str, Row] = {}
    for row in evidence.ledger:
        if "occurrence" in row:
            states[row["occurrence"]].append(row["state"])
            last[row["occurrence"]] = row
    for occurrence, all_passed in states.items():
        passed = _since_last_plan(all_passed)
        if passed == ["planned"] and _is_still_to_come(last[occurrence], evidence.ledger[-1]):
            continue
        ends = [each for each in passed if each in END_STATES]
        if passed.count("due") > 1 or passed.count("delivered") > 1:
            yield wrong(f"{occurrence} was begun or delivered twice: {passed}")
        if "running" in passed and "due" not in passed:
            yield wrong(f"{occurrence} was run and never claimed: {passed}")
        if len(ends) != 1:
            yield (wrong if ends else missing)(f"{occurrence} has {len(ends)} ends: {passed}")


def _since_last_plan(passed: list[str]) -> list[str]:
    """Without the plans of the moment that were taken back before it came."""
    while passed[:3] == ["planned", "skipped", "planned"]:
        passed = passed[2:]
    return passed


def _is_still_to_come(planned: Row, newest: Row) -> bool:
    return moment(planned["at"]) > moment(newest["ts"])


def _each_reminder_comes_once(evidence: Evidence) -> Iterator[Finding]:
    said = defaultdict(list)
    for row in evidence.messages:
        if row["author"] == "background":
            said[row["text"]].append(row)
    times_due = Counter(
        row["occurrence"].split(":")[1]
        for row in evidence.ledger
        if row["state"] == "due" and not row["occurrence"].endswith(":manual")
    )
    for name, order in _ordered_reminders(evidence).items():
        came = said[order["text"]]
        if not came and _was_shown_unkept(evidence, order["text"]):
            continue
        if times_due[name] > 1:
            yield wrong(f"reminder {name} was due {times_due[name]} times")
        if len(came) != 1:
            yield (wrong if came else missing)(f"reminder {name} came {len(came)} times")
        elif order.get("is_timed", True):
            yield from _in_time(evidence, order, came[0])


def _was_shown_unkept(evidence: Evidence, text: str) -> bool:
    """Whether it came while the disk was full, and so is on Discord but not in the log."""
    shown = (str(row["text"]) for row in evidence.discord if row["is_ours"])
    return any(each.startswith(text) and each.endswith(NOT_KEPT) for each in shown)


def _ordered_reminders(evidence: Evidence) -> Mapping[str, Row]:
    """The reminders by their names, each as the owner has changed it last."""
    return {row["id"]: row for row in evidence.noted("orders")}


def _in_time(evidence: Evidence, order: Row, came: Row) -> Iterator[Finding]:
    lateness = moment(came["at"]) - moment(order["at"])
    if lateness < timedelta():
        yield wrong(f"reminder {order['id']} came {-lateness} too early")
    name = f"[reminder-bg:{order['id']}] [late: "
    is_labelled = str(came.get("footer", "")).startswith("Late") or any(
        row["event"] == "asked" and row["prompt"].startswith(name) for row in evidence.model
    )
    if lateness > _LATE * 2 and not is_labelled:
        yield wrong(f"reminder {order['id']} came {lateness} late, and nobody said so")


def _what_has_come_is_gone(evidence: Evidence) -> Iterator[Finding]:
    for name in _ordered_reminders(evidence):
        if (evidence.data / "reminders" / f"{name}.md").exists():
            yield missing(f"the file of reminder {name} is still there")


def _what_was_cancelled_is_gone(evidence: Evidence) -> Iterator[Finding]:
    for row in evidence.noted("cancelled"):
        if (evidence.data / "reminders" / f"{row['id']}.md").exists():
            yield wrong(f"reminder {row['id']} was cancelled, and its file is there")


def _a_click_counts_once(evidence: Evidence) -> Iterator[Finding]:
    put_off = Counter(text.strip().rpartition("\n")[2] for text in evidence.reminder_texts)
    for row in evidence.noted("clicks"):
        times = put_off[row["text"]]
        if times != 1 and (times > 1 or row["is_certain"]):
            yield (wrong if times else missing)(f"“{row['text']}” was put off {times} times")


def _each_call_is_one_run(evidence: Evidence) -> Iterator[Finding]:
    """The bot has to run each call of a webhook that it has accepted, even after a crash."""
    claimed = {row["occurrence"] for row in evidence.ledger if row["state"] == "due"}
    said = [row["text"] for row in (*evidence.messages, *evidence.held)]
    calls: dict[int, Row] = {}
    for row in evidence.noted("calls"):
        first = calls.setdefault(row["call"], row)
        if row["run"] != first["run"]:
            yield wrong(f"call {row['call']} is two runs: {first['run']} and {row['run']}")
    for number, row in calls.items():
        if row["run"] not in claimed:
            yield missing(f"call {number} was accepted, and is not in the ledger")
        if row["is_plain"] and not any(f"Ping p{number}" in text for text in said):
            yield missing(f"the words of call {number} have not come")


INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_occurrence_has_one_end,
    _each_reminder_comes_once,
    _what_has_come_is_gone,
    _what_was_cancelled_is_gone,
    _a_click_counts_once,
    _each_call_is_one_run,
)

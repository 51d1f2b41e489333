"""The invariants that depend on the time, in addition to those of `chaos.checker`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from chaos.evidence import END_STATES, Evidence, Row, moment
from chaos.years.scene import YearsScene
from chaos.years.timeline import IntervalKind

_LATE = timedelta(seconds=60)
_IN_TIME = timedelta(seconds=2)
_CERTAINLY_DONE_AFTER = timedelta(minutes=20)
# If the bot was away at the due time, the repeats are up to this much later.
_LONGEST_NAG_DELAY = timedelta(days=7)
_PING = re.compile(r"Ping p\d+")
_TEXT = re.compile(r"^(Put off|Check|Drink) (\w+)\.$")


def describe_end(row: Row) -> str:
    reason = f": {row['reason']}" if row.get("reason") else ""
    return f"occurrences {row['state']}{reason}"


def _end_rows(evidence: Evidence) -> dict[str, Row]:
    rows = (row for row in evidence.ledger if row["state"] in END_STATES)
    return {row["occurrence"]: row for row in rows if "occurrence" in row}


def _every_due_time_has_an_end(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    ends = _end_rows(evidence)
    for version in scene.host.timeline.versions:
        for interval, due_times in scene.host.timeline.expected(version):
            for at in due_times:
                name = f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}"
                if name not in ends:
                    yield f"{name} was due ({interval.kind} {interval.start} to {interval.end})"


def _nothing_ran_that_was_not_due(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    due: defaultdict[str, set[str]] = defaultdict(set)
    for version in scene.host.timeline.versions:
        due[version.job].update(f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in version.due_times)
    for name in _end_rows(evidence):
        kind, job, at = name.split(":", 2)
        if kind == "routine" and job not in scene.after_done and at not in due[job]:
            yield f"{name} was never due"


def _only_the_newest_missed_time_runs(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """All older times that a job missed in one absence are superseded."""
    ends = _end_rows(evidence)
    for version in scene.host.timeline.versions:
        seen: set[str] = set()
        for interval, due_times in scene.host.timeline.expected(version):
            names = [f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}" for at in due_times]
            if interval.kind is IntervalKind.AWAY and interval.end - interval.start > 2 * _LATE:
                for name in names[:-1]:
                    end = ends.get(name)
                    if end and name not in seen and end.get("reason") != "superseded":
                        yield f"{name} is older than another that was missed: {describe_end(end)}"
            seen.update(names)


def _due_times_are_noticed_in_time(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """Skips the edges of each interval, where the bot wakes up or goes away."""
    claims = _claim_times(evidence)
    for version in scene.host.timeline.versions:
        seen: set[str] = set()
        for interval, due_times in scene.host.timeline.expected(version):
            first, last = interval.start + 2 * _LATE, interval.end - 2 * _LATE
            for at in due_times:
                name = f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}"
                if interval.kind is IntervalKind.WATCHED and first < at < last and name not in seen:
                    lateness = claims.get(name, interval.end) - at
                    if lateness > _IN_TIME:
                        yield f"{name} was noticed {lateness} after it was due"
                seen.add(name)


def _claim_times(evidence: Evidence) -> dict[str, datetime]:
    rows = (row for row in evidence.ledger if row["state"] == "due")
    return {row["occurrence"]: moment(row["ts"]) for row in rows}


def _lateness_is_told_to_the_model(_: YearsScene, evidence: Evidence) -> Iterator[str]:
    """The prompt has to say so if a run was claimed more than a minute after its due time."""
    asked = [row for row in evidence.model if row["event"] == "asked"]
    prompts_of_job: defaultdict[str, list[Row]] = defaultdict(list)
    for row in asked:
        found = re.match(r"\[(routine|reminder)(?:-bg)?:([\w-]+)\]", row["prompt"])
        if found:
            prompts_of_job[f"{found[1]}:{found[2]}"].append(row)
    claimed = _claim_times(evidence)
    waited = {row["occurrence"] for row in evidence.ledger if row["state"] == "held"}
    for row in evidence.ledger:
        if row["state"] != "running" or row.get("attempt") != 1 or row["occurrence"] in waited:
            continue
        kind, job, at = row["occurrence"].split(":", 2)
        lateness = claimed[row["occurrence"]] - moment(at)
        if lateness > _LATE:
            prompts = [
                each
                for each in prompts_of_job[f"{kind}:{job}"]
                if timedelta() <= moment(each["at"]) - moment(row["ts"]) < _LATE
            ]
            if prompts and not any("[late: " in each["prompt"] for each in prompts):
                yield f"{row['occurrence']} was begun {lateness} late, and nobody said so"


def _missed_times_are_told_to_the_owner(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    told = evidence.notices
    titles = {each.job: each.title.rstrip(".") for each in scene.host.timeline.versions}
    silent = {each.job for each in scene.host.timeline.versions if each.late == "skip"}
    for name, row in _end_rows(evidence).items():
        kind, job, _ = name.split(":", 2)
        if row["state"] != "missed" or kind != "routine" or job in silent or job not in titles:
            continue
        words = [each["text"] for each in told if moment(each["at"]) >= moment(row["ts"]) - _LATE]
        if not any(titles[job] in each or "more" in each for each in words):
            yield f"{name} was missed, and nobody said so"


def _snoozed_reminders_come_again(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    came: Counter[str] = Counter()
    for row in evidence.messages:
        found = _TEXT.match(row["text"])
        if found and row["author"] == "background":
            came[found[2]] += 1
    waiting = Counter(
        found[2]
        for path in (scene.host.data / "reminders").glob("*.md")
        if (found := _TEXT.match(path.read_text().strip().rpartition("\n")[2]))
    )
    for name, count in scene.snoozed.items():
        times = came[name] + waiting[name]
        if not 1 + count.certain <= times <= 1 + count.certain + count.possible:
            yield f"{name} was put off {count.certain} times, and is in {times} places"
    yield from (f"{name} came although it was cancelled" for name in scene.cancelled if came[name])


def _foreground_reminders_come_once(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """They are turns of the conversation, and so have no message of their own."""
    came = Counter(
        row["occurrence"].split(":")[1] for row in evidence.ledger if row["state"] == "delivered"
    )
    for name, at in scene.foreground_reminders.items():
        if at < scene.now - _CERTAINLY_DONE_AFTER and came[name] != 1:
            yield f"{name}, due at {at}, came {came[name]} times"


def _repeats_and_heads_ups_come_once(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """Each repeat and each heads-up has one message if it is done, and none otherwise.

    The message may wait for the end of the quiet, or have been dropped then.
    """
    parts = {name: row for name, row in _end_rows(evidence).items() if "#" in name}
    said = Counter(row.get("occurrence") for row in (*evidence.messages, *evidence.held))
    of_quiet = (row for row in evidence.ledger if row["state"] in ("released", "dropped"))
    said.update(row["occurrence"] for row in of_quiet)
    for name, row in parts.items():
        if said[name] != (row["state"] == "done"):
            yield f"{name} came {said[name]} times: {describe_end(row)}"
    of_job = Counter(name.split(":")[1] for name in parts if name[-2] == "#")
    for job, nag in scene.nags.items():
        if nag.ends_at < scene.now - _LONGEST_NAG_DELAY and of_job[job] != nag.repeats:
            yield f"{job} was to come again {nag.repeats} times, and {of_job[job]} have an end"


def _heads_ups_come_before_the_due_time(_: YearsScene, evidence: Evidence) -> Iterator[str]:
    for row in evidence.messages:
        name, part = [*str(row.get("occurrence")).split("#"), ""][:2]
        if part.startswith("before") and moment(row["at"]) >= moment(name.split(":", 2)[2]):
            yield f"“{row['text']}” came at {row['at']}, after {name}"


def _no_ping_comes_in_quiet_hours(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """The times of messages and the quiet hours are both in the owner's zone."""
    since = scene.quiet_since
    for row in evidence.messages:
        at = moment(row["at"])
        is_ping = row["author"] == "background" and _PING.fullmatch(row["text"])
        if is_ping and since is not None and at > since and _is_in_quiet_hours(at):
            yield f"“{row['text']}” came at {at:%H:%M}, in the quiet"


def _no_routine_speaks_in_quiet_hours(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """A turn of the conversation that was due before the quiet may run in it.

    So may one that waited for the end of an earlier quiet, if the bot ran between the two.
    """
    since = scene.quiet_since
    held_until: dict[str, datetime] = {}
    turns: defaultdict[str, list[datetime]] = defaultdict(list)
    for row in evidence.model:
        found = row["event"] == "asked" and re.match(r"\[routine:([\w-]+)\]", row["prompt"])
        if found:
            turns[found[1]].append(moment(row["at"]))
    for row in evidence.ledger:
        if row["state"] == "held" and "message" not in row:
            held_until[row["occurrence"]] = moment(row["until"])
        if row["state"] != "running" or since is None:
            continue
        kind, job, key = row["occurrence"].split(":", 2)
        began = moment(row["ts"])
        is_turn = any(timedelta() <= at - began < _LATE for at in turns[job])
        if kind != "routine" or not is_turn or began < since + _LATE:
            continue
        until = held_until.get(row["occurrence"])
        if until is not None and _ran_by_day(scene, until, began):
            continue
        if _is_in_quiet_hours(began) and _is_in_quiet_hours(moment(key).astimezone(began.tzinfo)):
            yield f"{row['occurrence']} ran at {began:%H:%M}, in the quiet"


def _ran_by_day(scene: YearsScene, until: datetime, began: datetime) -> bool:
    """Whether the bot ran after `until` and before the night of `began`."""
    night = (began - timedelta(hours=7)).replace(hour=22, minute=0, second=0)
    return any(
        each.kind is IntervalKind.WATCHED and max(each.start, until) < min(each.end, night)
        for each in scene.host.timeline.intervals
    )


def _is_in_quiet_hours(at: datetime) -> bool:
    """Excludes the first and the last two minutes, in which a ping may be under way."""
    minutes = at.hour * 60 + at.minute
    return minutes >= 22 * 60 + 2 or minutes < 7 * 60 - 2


INVARIANTS: tuple[Callable[[YearsScene, Evidence], Iterator[str]], ...] = (
    _every_due_time_has_an_end,
    _nothing_ran_that_was_not_due,
    _only_the_newest_missed_time_runs,
    _due_times_are_noticed_in_time,
    _lateness_is_told_to_the_model,
    _missed_times_are_told_to_the_owner,
    _snoozed_reminders_come_again,
    _foreground_reminders_come_once,
    _repeats_and_heads_ups_come_once,
    _heads_ups_come_before_the_due_time,
    _no_ping_comes_in_quiet_hours,
    _no_routine_speaks_in_quiet_hours,
)

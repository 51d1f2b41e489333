"""The laws of long times, beside those of the checker: they know what the clock has done."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from chaos.evidence import Evidence, Row, moment
from chaos.years.diary import Span
from chaos.years.world import World

ENDS = ("done", "failed", "timed_out", "skipped", "missed", "interrupted")
_LATE = timedelta(seconds=60)
_IN_TIME = timedelta(seconds=2)
_DUE_FOR_SURE = timedelta(minutes=20)
# A bot that was away when a reminder was due brings its further times that much later.
_LONG_AGO = timedelta(days=7)
_PING = re.compile(r"Ping p\d+")
_TEXT = re.compile(r"^(Put off|Check|Drink) (\w+)\.$")


def end_of(row: Row) -> str:
    reason = f": {row['reason']}" if row.get("reason") else ""
    return f"occurrences {row['state']}{reason}"


def _ends(evidence: Evidence) -> dict[str, Row]:
    rows = (row for row in evidence.ledger if row["state"] in ENDS)
    return {row["occurrence"]: row for row in rows if "occurrence" in row}


def _all_that_was_due_has_an_end(world: World, evidence: Evidence) -> Iterator[str]:
    ends = _ends(evidence)
    for version in world.machine.diary.versions:
        for stretch, moments in world.machine.diary.expected(version):
            for at in moments:
                name = f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}"
                if name not in ends:
                    yield f"{name} was due ({stretch.kind} {stretch.start} to {stretch.end})"


def _nothing_else_was_done(world: World, evidence: Evidence) -> Iterator[str]:
    due: defaultdict[str, set[str]] = defaultdict(set)
    for version in world.machine.diary.versions:
        due[version.job].update(f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in version.moments)
    for name in _ends(evidence):
        kind, job, at = name.split(":", 2)
        if kind == "routine" and at not in due[job]:
            yield f"{name} was never due"


def _only_the_newest_counts(world: World, evidence: Evidence) -> Iterator[str]:
    """Of what a job has missed while nobody watched."""
    ends = _ends(evidence)
    for version in world.machine.diary.versions:
        seen: set[str] = set()
        for stretch, moments in world.machine.diary.expected(version):
            names = [f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}" for at in moments]
            if stretch.kind is Span.AWAY and stretch.end - stretch.start > 2 * _LATE:
                for name in names[:-1]:
                    end = ends.get(name)
                    if end and name not in seen and end.get("reason") != "superseded":
                        yield f"{name} is older than another that was missed: {end_of(end)}"
            seen.update(names)


def _what_is_watched_comes_in_time(world: World, evidence: Evidence) -> Iterator[str]:
    """Between waking up and going away, which each take a moment."""
    claims = _claims(evidence)
    for version in world.machine.diary.versions:
        seen: set[str] = set()
        for stretch, moments in world.machine.diary.expected(version):
            first, last = stretch.start + 2 * _LATE, stretch.end - 2 * _LATE
            for at in moments:
                name = f"routine:{version.job}:{at:%Y-%m-%dT%H:%M:%SZ}"
                if stretch.kind is Span.WATCHED and first < at < last and name not in seen:
                    lateness = claims.get(name, stretch.end) - at
                    if lateness > _IN_TIME:
                        yield f"{name} was noticed {lateness} after it was due"
                seen.add(name)


def _claims(evidence: Evidence) -> dict[str, datetime]:
    rows = (row for row in evidence.ledger if row["state"] == "due")
    return {row["occurrence"]: moment(row["ts"]) for row in rows}


def _late_is_said(_: World, evidence: Evidence) -> Iterator[str]:
    """To the model, of whatever is found to be due more than a minute too late."""
    asked = [row for row in evidence.model if row["event"] == "asked"]
    heads: defaultdict[str, list[Row]] = defaultdict(list)
    for row in asked:
        found = re.match(r"\[(routine|reminder)(?:-bg)?:([\w-]+)\]", row["prompt"])
        if found:
            heads[f"{found[1]}:{found[2]}"].append(row)
    claimed = _claims(evidence)
    for row in evidence.ledger:
        if row["state"] != "running" or row.get("attempt") != 1:
            continue
        kind, job, at = row["occurrence"].split(":", 2)
        lateness = claimed[row["occurrence"]] - moment(at)
        if lateness > _LATE:
            prompts = [
                each
                for each in heads[f"{kind}:{job}"]
                if timedelta() <= moment(each["at"]) - moment(row["ts"]) < _LATE
            ]
            if prompts and not any("[late: " in each["prompt"] for each in prompts):
                yield f"{row['occurrence']} was begun {lateness} late, and nobody said so"


def _missed_is_said(world: World, evidence: Evidence) -> Iterator[str]:
    told = evidence.notices
    titles = {each.job: each.title.rstrip(".") for each in world.machine.diary.versions}
    silent = {each.job for each in world.machine.diary.versions if each.late == "skip"}
    for name, row in _ends(evidence).items():
        kind, job, _ = name.split(":", 2)
        if row["state"] != "missed" or kind != "routine" or job in silent:
            continue
        words = [each["text"] for each in told if moment(each["at"]) >= moment(row["ts"]) - _LATE]
        if not any(titles[job] in each or "more" in each for each in words):
            yield f"{name} was missed, and nobody said so"


def _what_was_put_off_comes_again(world: World, evidence: Evidence) -> Iterator[str]:
    came: Counter[str] = Counter()
    for row in evidence.messages:
        found = _TEXT.match(row["text"])
        if found and row["author"] == "background":
            came[found[2]] += 1
    waiting = Counter(
        found[2]
        for path in (world.machine.data / "reminders").glob("*.md")
        if (found := _TEXT.match(path.read_text().strip().rpartition("\n")[2]))
    )
    for name, known in world.snoozed.items():
        times = came[name] + waiting[name]
        if not 1 + known.surely <= times <= 1 + known.surely + known.perhaps:
            yield f"{name} was put off {known.surely} times, and is in {times} places"
    yield from (f"{name} came although it was cancelled" for name in world.cancelled if came[name])


def _foreground_reminders_come(world: World, evidence: Evidence) -> Iterator[str]:
    """Those that are turns of the conversation, and no message of their own."""
    came = Counter(
        row["occurrence"].split(":")[1] for row in evidence.ledger if row["state"] == "delivered"
    )
    for name, at in world.turns.items():
        if at < world.now - _DUE_FOR_SURE and came[name] != 1:
            yield f"{name}, due at {at}, came {came[name]} times"


def _each_time_comes_once(world: World, evidence: Evidence) -> Iterator[str]:
    """Each further time and each heads-up that is done is one message; all others are none."""
    parts = {name: row for name, row in _ends(evidence).items() if "#" in name}
    said = Counter(row.get("occurrence") for row in evidence.messages)
    for name, row in parts.items():
        if said[name] != (row["state"] == "done"):
            yield f"{name} came {said[name]} times: {end_of(row)}"
    of_job = Counter(name.split(":")[1] for name in parts if name[-2] == "#")
    for job, known in world.nags.items():
        if known.over < world.now - _LONG_AGO and of_job[job] != known.times:
            yield f"{job} was to come again {known.times} times, and {of_job[job]} have an end"


def _a_heads_up_comes_before(_: World, evidence: Evidence) -> Iterator[str]:
    for row in evidence.messages:
        name, part = [*str(row.get("occurrence")).split("#"), ""][:2]
        if part.startswith("before") and moment(row["at"]) >= moment(name.split(":", 2)[2]):
            yield f"“{row['text']}” came at {row['at']}, after {name}"


def _no_ping_comes_in_the_quiet(world: World, evidence: Evidence) -> Iterator[str]:
    """By the owner's clock, which each message has its moment from."""
    since = world.quiet_since
    for row in evidence.messages:
        at = moment(row["at"])
        is_ping = row["author"] == "background" and _PING.fullmatch(row["text"])
        if is_ping and since is not None and at > since and _is_night(at):
            yield f"“{row['text']}” came at {at:%H:%M}, in the quiet"


def _is_night(at: datetime) -> bool:
    """But for the minutes in which a ping may be on its way."""
    minutes = at.hour * 60 + at.minute
    return minutes >= 22 * 60 + 2 or minutes < 7 * 60 - 2


LAWS: tuple[Callable[[World, Evidence], Iterator[str]], ...] = (
    _all_that_was_due_has_an_end,
    _nothing_else_was_done,
    _only_the_newest_counts,
    _what_is_watched_comes_in_time,
    _late_is_said,
    _missed_is_said,
    _what_was_put_off_comes_again,
    _foreground_reminders_come,
    _each_time_comes_once,
    _a_heads_up_comes_before,
    _no_ping_comes_in_the_quiet,
)

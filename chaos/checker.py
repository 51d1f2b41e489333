"""Finds broken invariants, from files alone: it imports nothing of the program that it checks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos import (
    calendar_invariants,
    delivery_invariants,
    phone_invariants,
    quiet_invariants,
    schedule_invariants,
)
from chaos.evidence import Evidence, Row
from chaos.findings import Finding, missing, wrong

TASK = re.compile(r"^task (t\d+)\b", re.MULTILINE)

_PLAIN_SENTENCE = ("failed", "timed_out")
_TOKENS = 500


def check(data: Path, record: Path) -> list[Finding]:
    """What is not as it has to be once the bot has settled."""
    evidence = Evidence(data, record)
    found = [finding for invariant in _INVARIANTS for finding in invariant(evidence)]
    found += [wrong(f"cannot be read: {each}") for each in evidence.unreadable]
    return found


def in_doubt(data: Path, record: Path) -> list[str]:
    """The messages of which the bot has said that they may not have arrived."""
    rows = Evidence(data, record).outbox
    return [str(row["id"]) for row in rows if row["row"] == "unsure"]


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the owner, after all edits and deletions."""

    id: str
    text: str
    is_certain: bool
    is_deleted: bool


def owner_messages(evidence: Evidence) -> dict[str, Said]:
    said: dict[str, Said] = {}
    for row in evidence.owner:
        known = said.get(row["id"])
        match row["event"]:
            case "said" | "perhaps":
                certain = row["event"] == "said"
                said[row["id"]] = Said(row["id"], row["text"], certain, is_deleted=False)
            case "edited" if known:
                said[known.id] = Said(known.id, known.text, known.is_certain, known.is_deleted)
            case "deleted" if known:
                said[known.id] = Said(known.id, known.text, known.is_certain, is_deleted=True)
    return said


def _each_message_has_one_end(evidence: Evidence) -> Iterator[Finding]:
    ends = defaultdict(list)
    for row in evidence.inbox:
        if row["row"] == "ended":
            for each in row["inputs"]:
                ends[each].append(row["end"])
    answers = _whole_answers(evidence)
    logged = {str(row["id"]): row for row in evidence.messages}
    for each in owner_messages(evidence).values():
        if each.is_deleted or not (each.is_certain or each.id in logged):
            continue
        if each.id not in logged:
            yield missing(f"“{each.text}” is not in the log")
        elif len(ends[each.id]) != 1:
            kind = wrong if ends[each.id] else missing
            yield kind(f"“{each.text}” has {len(ends[each.id])} ends: {ends[each.id]}")
        else:
            yield from _the_end_is_true(evidence, each, ends[each.id][0], answers)


def _the_end_is_true(
    evidence: Evidence, said: Said, end: str, answers: Mapping[str, int]
) -> Iterator[Finding]:
    task = TASK.match(said.text)
    mark = task[1] if task else ""
    if end == "answered" and mark and answers.get(mark, 0) != 1:
        kind = wrong if answers.get(mark, 0) else missing
        yield kind(f"“{said.text}” was answered {answers.get(mark, 0)} times")
    notes = evidence.notices
    taken = (row for row in evidence.inbox if row["row"] in ("taken", "failed"))
    turns = {row["turn"] for row in taken if said.id in row["inputs"]}
    if end in _PLAIN_SENTENCE and turns and not any(row.get("turn") in turns for row in notes):
        yield missing(f"“{said.text}” ended as {end}, and nobody said so")
    if end == "set_aside" and not any(said.text in row["text"] for row in notes):
        yield missing(f"“{said.text}” was set aside, and nobody said so")
    if end == "withdrawn":
        yield wrong(f"“{said.text}” was withdrawn, and not by the owner")


def _whole_answers(evidence: Evidence) -> Counter[str]:
    """How many whole answers there are to each task."""
    tasks = {row["mark"]: row["tasks"] for row in evidence.model if row["event"] == "answer"}
    counted: Counter[str] = Counter()
    for row in evidence.messages:
        if row["author"] == "assistant" and not row.get("is_cut_off"):
            for mark in re.findall(r"\[(a\d+)\]", row["text"]):
                counted.update(tasks.get(mark, ()))
    return counted


def _nothing_waits(evidence: Evidence) -> Iterator[Finding]:
    """Every accepted input has an end, also a command or a prompt of the program itself."""
    accepted = (row for row in evidence.inbox if row["row"] == "accepted")
    ids = {given["id"] for row in accepted for given in row.values() if isinstance(given, dict)}
    ended = {each for row in evidence.inbox if row["row"] == "ended" for each in row["inputs"]}
    yield from (missing(f"{each} waits") for each in sorted(ids - ended))


def _no_message_came_in_twice(evidence: Evidence) -> Iterator[Finding]:
    texts = Counter(row["text"] for row in evidence.messages if row["author"] == "owner")
    for text, times in texts.items():
        if text.startswith("task ") and times > 1:
            yield wrong(f"“{text}” is {times} messages of the log")


def _the_model_is_told_each_task_once(evidence: Evidence) -> Iterator[Finding]:
    told = Counter(mark for text in evidence.main_talk for mark in TASK.findall(text))
    for mark, times in told.items():
        if times > 1:
            yield wrong(f"{mark} was said to the model {times} times")


def _each_update_is_shown_once(evidence: Evidence) -> Iterator[Finding]:
    places = Counter(mark for text in evidence.main_talk for mark in re.findall(r"\bu\d+\b", text))
    for update in evidence.value("pending_updates.json") or ():
        places.update(re.findall(r"\bu\d+\b", update["message"]))
    for row in evidence.ledger:
        if row["state"] == "update_dropped":
            places.update(re.findall(r"\bu\d+\b", row["message"]))
    for row in evidence.model:
        if row["event"] == "called" and row["mark"].startswith("u") and row["is_done"]:
            times = places[row["mark"]]
            if times != 1:
                yield (wrong if times else missing)(f"update {row['mark']} is in {times} places")


def _the_budget_is_exact(evidence: Evidence) -> Iterator[Finding]:
    budget = evidence.value("ping_budget.json")
    paid = sum(_paid_pings(row) for row in (*evidence.messages, *evidence.held))
    tokens = next((row["tokens"] for row in evidence.noted("budget")), _TOKENS)
    spent = tokens - (budget["available"] if budget else tokens)
    if abs(spent - paid) > 0.5:
        yield wrong(f"{paid} pings have cost {spent:.2f}")


def _paid_pings(row: Row) -> int:
    """A digest can contain several."""
    if row["author"] != "background":
        return 0
    return len(re.findall(delivery_invariants.PING, row["text"], re.MULTILINE))


def _each_call_is_made_once(evidence: Evidence) -> Iterator[Finding]:
    """Each call of the tool leaves a reminder file with its mark."""
    made = Counter(
        mark
        for text in evidence.reminder_texts
        for mark in re.findall(r"^Buy (x\d+)\.$", text, re.MULTILINE)
    )
    yield from (
        wrong(f"{mark} was bought {times} times") for mark, times in made.items() if times > 1
    )
    for row in evidence.model:
        is_made = row["event"] == "called" and row["mark"].startswith("x") and row["is_done"]
        if is_made and not made[row["mark"]]:
            yield wrong(f"the model was told that {row['mark']} was bought")


def _each_errand_stands_once(evidence: Evidence) -> Iterator[Finding]:
    """A task of `tasks.md` is not lost, not doubled, and stays ticked."""
    path = evidence.data / "tasks.md"
    text = path.read_text() if path.exists() else ""
    boxes: defaultdict[str, list[str]] = defaultdict(list)
    for box, title in re.findall(r"^- \[([ x])\] (Errand e\d+)$", text, re.MULTILINE):
        boxes[title].append(box)
    yield from (
        wrong(f"{title} stands {len(found)} times in tasks.md")
        for title, found in boxes.items()
        if len(found) > 1
    )
    for row in evidence.noted("errands"):
        if row["title"] not in boxes:
            yield wrong(f"{row['title']} was added, and is not in tasks.md")
    for row in evidence.noted("ticks"):
        if boxes[row["title"]] != ["x"]:
            yield wrong(f"{row['title']} was ticked, and is {boxes[row['title']]}")


def _the_settings_are_kept(evidence: Evidence) -> Iterator[Finding]:
    """Each value is the last one that was confirmed, or one that was tried afterwards."""
    allowed: defaultdict[str, list[object]] = defaultdict(lambda: [None])
    for row in evidence.noted("settings"):
        key, value = row["key"], row["value"]
        allowed[key] = [value] if row["is_certain"] else [*allowed[key], value]
    kept = evidence.value("config.json") or {}
    for key, values in allowed.items():
        if kept.get(key) not in values:
            yield wrong(f"{key} is {kept.get(key)}, not one of {values}")


def _the_page_shows_the_log(evidence: Evidence) -> Iterator[Finding]:
    shown = [(row["id"], row["text"]) for row in evidence.noted("page")]
    kept = [(row["id"], row["text"]) for row in evidence.messages]
    if shown and shown != kept[-len(shown) :]:
        yield missing("the page shows something else than the log has")


def _state_can_be_read(evidence: Evidence) -> Iterator[Finding]:
    for path in evidence.state.glob("*.json"):
        if path.name != "sessions.json":  # not JSON, in spite of its name
            evidence.value(path.name)
    yield from (wrong(f"{each.name} was set aside") for each in evidence.state.glob("*.corrupt-*"))


def _a_second_process_was_refused(evidence: Evidence) -> Iterator[Finding]:
    for row in evidence.noted("second_processes"):
        if row["code"] != 1:
            yield wrong(f"a second process ended with {row['code']}")


_INVARIANTS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _each_message_has_one_end,
    _nothing_waits,
    _no_message_came_in_twice,
    _the_model_is_told_each_task_once,
    _each_update_is_shown_once,
    _the_budget_is_exact,
    _each_call_is_made_once,
    _each_errand_stands_once,
    _the_settings_are_kept,
    _the_page_shows_the_log,
    _state_can_be_read,
    _a_second_process_was_refused,
    *delivery_invariants.INVARIANTS,
    *schedule_invariants.INVARIANTS,
    *quiet_invariants.INVARIANTS,
    *calendar_invariants.INVARIANTS,
    *phone_invariants.INVARIANTS,
)

"""`ollim-bot runs`: what the bot did by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.features.runs.run_reports import (
    find_run,
    said_by,
    sent_by,
    stories_named,
    stories_since,
    used_in_words,
)
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe, describe_with_distance, duration_in_words
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, counted
from ollim_bot.kernel.store.codecs.ledger_codec import LEDGER_ROWS
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.run_history import DROPPED, HELD, RELEASED, RunStory, part_in_words
from ollim_bot.kernel.values.run_words import (
    answer_in_words,
    decisions,
    first_sentence,
    listed,
    reason,
    refused_pings,
    run_object,
    sources_of,
    state_in_words,
    tools_of,
    why,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    fenced_for,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import (
    EXPORT_ARGUMENTS,
    PAGE_SIZE,
    Data,
    export,
    open_data,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction

_USUAL = "7d"
# The facts of a row that may have the words of others.
_WORDS = ("message", "refused_pings", "report", "text")
_ALL = 2**62


def listing(found: Sequence[RunStory], now: datetime) -> str:
    """Each line begins with a word by which `runs show` finds the run."""
    return columns(
        [
            (plain(word), describe(_minute(record.fired), now), _state(record), _line(record, now))
            for word, record in zip(_words(found), found, strict=True)
        ]
    )


def page(record: RunStory, now: datetime, said: Sequence[str] = ()) -> str:
    """`said` has the messages that the run sent, as far as they are still stored."""
    pings = "; ".join([*_pings(record, said), *_held_pings(record, now)])
    known = _facts(record, now) | {"pings": pings}
    facts = [(f"  {name}", plain(text)) for name, text in known.items() if text]
    rows = [
        (f"  {describe(_whole(each.at), now, is_exact=True)}", plain(each.what))
        for each in decisions(record, now)
    ]
    return f"{title(record.title)}\n{columns(facts)}\n\nstep by step\n{columns(rows)}"


def _words(found: Sequence[RunStory]) -> Iterator[str]:
    """The job's id for its newest run, and the short id of the run for the others."""
    named = set[str]()
    for record in found:
        job = record.occurrence.job_id
        if job in named or record.occurrence.part:
            yield record.short_id
        else:
            yield job
            named.add(job)


def _line(record: RunStory, now: datetime) -> str:
    said = " ".join(reason(record, now).split())
    notes = (part_in_words(record.occurrence), said, answer_in_words(record))
    note, name = plain("; ".join(each for each in notes if each)), title(record.title)
    return f"{name}  ({note})" if note else name


def _facts(record: RunStory, now: datetime) -> dict[str, str]:
    facts, occurrence = record.facts, record.occurrence
    due = occurrence.scheduled_at
    by_hand = ", by hand" if occurrence.manual else ""
    part = f", {part_in_words(occurrence)}" if occurrence.part else ""
    attempts = facts.get("attempts") or facts.get("attempt")
    is_given = record.is_delivered or record.last_word == "skipped"
    return {
        "id": record.id,
        "what": f"{occurrence.kind} {occurrence.job_id}{by_hand}{part}",
        "due": describe_with_distance(due, now) if due else "",
        "began": _began(record, now),
        "ended": _ended(facts, now),
        "outcome": _state(record),
        "why": why(record, now),
        "answer": answer_in_words(record),
        "reason": str(facts.get("reason") or ""),
        "error": str(facts.get("error") or ""),
        "attempts": "" if attempts in (None, 1) else str(attempts),
        "spoke": "in the conversation" if facts.get("answered") else "",
        "pings": "",
        "silent": "" if is_given else str(facts.get("silent_because") or ""),
        "report": str(facts.get("report") or ""),
        "tools": ", ".join(
            name if times == 1 else f"{name} ×{times}" for name, times in tools_of(record).items()
        ),
        "subagents": ", ".join(map(str, listed(facts.get("subagents")))),
        "untrusted": f"it had read: {facts['untrusted']}" if facts.get("untrusted") else "",
        "used": used_in_words(record),
        "session": str(facts.get("session") or ""),
    }


def _began(record: RunStory, now: datetime) -> str:
    facts = record.facts
    running = (row.ts for row in reversed(record.rows) if row.state == "running")
    began = _moment(facts.get("started")) or next(running, None)
    late = facts.get("lateness")
    if began is None:
        return ""
    words = f", {duration_in_words(timedelta(seconds=late))} late" if isinstance(late, int) else ""
    return f"{describe(_whole(began), now, is_exact=True)}{words}"


def _ended(facts: Mapping[str, object], now: datetime) -> str:
    began, ended = _moment(facts.get("started")), _moment(facts.get("ended"))
    if ended is None:
        return ""
    took = ""
    if began is not None:
        took = f", after {duration_in_words(ended.astimezone(UTC) - began.astimezone(UTC))}"
    return f"{describe(_whole(ended), now, is_exact=True)}{took}"


def _pings(record: RunStory, said: Sequence[str]) -> list[str]:
    sent = sent_by(record)
    words = [f"sent: {_quoted(text)}" for text in said]
    if len(sent) > len(said):
        words.append(f"{len(sent) - len(said)} sent")
    return words + [
        f"refused: {_quoted(text)}, because {first_sentence(told)}"
        for text, told in refused_pings(record)
    ]


def _held_pings(record: RunStory, now: datetime) -> Iterator[str]:
    """What became of each message that had to wait; one may have waited a second time."""
    came = {row.facts.get("message"): row.ts for row in record.rows if row.state == RELEASED}
    noted = (row for row in record.rows if row.state in (HELD, DROPPED))
    dropped = {row.facts.get("message"): row.facts.get("why") for row in noted}
    for row in record.rows:
        if row.state != HELD:
            continue
        message, until = row.facts.get("message"), _moment(row.facts.get("until")) or now
        if at := came.get(message):
            word = f"came {describe(_minute(at), now)}, after the quiet"
        elif why := dropped.get(message):
            word = f"did not come, because {why}"
        else:
            word = f"waits until {describe(until, now)}"
        yield f"{word}: {_quoted(str(row.facts.get('text', '')))}"


def _quoted(text: str) -> str:
    return f"“{title(text)}”"


def _state(record: RunStory) -> str:
    return plain(state_in_words(record))


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


_RUNS = Noun("runs")
run = _RUNS.run


def _job_ids(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    data = open_data(caller)
    for job in (job for kind in JobKind for job in data.jobs(kind)):
        yield Completion(job.spec.id, title(job.spec.title))


@_RUNS.verb(
    "the newest runs",
    "--job morning --since 30d",
    argument("--job", metavar="ID", help="only the runs of this job", completions=_job_ids),
    argument("--since", metavar="7d", help="how far back; a week if not given"),
    JSON,
)
def _list(given: Given, caller: Caller) -> None:
    length = parse_duration(given.get("since", _USUAL))
    data = open_data(caller)
    job, since = given.get("job"), data.now.astimezone(UTC) - length
    found = [
        record
        for record in data.ask_if_used(lambda tx: stories_since(tx, since)) or []
        if job in (None, record.occurrence.job_id)
    ]
    if "json" in given:
        runs = [run_object(_as_seen(record, caller), data.now) for record in found]
        print_json({"runs": runs})
    elif found:
        show(listing([_as_seen(record, caller) for record in found], data.now))
    elif not data.ask_if_used(lambda tx: tx.ledger.tail(1)):
        show("No runs yet.")
    else:
        of_job = f" of {job}" if job else ""
        show(plain(f"No runs{of_job} in the last {duration_in_words(length)}."))


@_RUNS.verb(
    "one run, whole",
    "morning",
    argument(
        "run",
        metavar="ID",
        help="of the run, or its beginning; of a job, for its newest run",
        completions=_job_ids,
    ),
    JSON,
)
def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    word = str(given["run"])
    record = find_run(word, data.ask_if_used(lambda tx: stories_named(tx, word)) or [])
    if "json" in given:
        print_json(page_object(_as_seen(record, caller), data.now))
    else:
        said = data.read(lambda tx: said_by(tx, record)) or []
        words = page(record, data.now, said)
        untrusted = str(record.facts.get("untrusted") or "")
        about = f"the record of a run that had read: {untrusted}"
        show(fenced_for(caller.agent, words, untrusted, about) if untrusted else words)


@_RUNS.verb("prove that every run that was due has ended", "", JSON)
def _check(given: Given, caller: Caller) -> None:
    from ollim_bot.kernel.values.ledger_check import check

    data = open_data(caller)
    # Read before the ledger, which then has everything that was claimed until this moment.
    watched_until = HeartbeatFile(data.paths).read()
    rows = all_rows(data)
    findings = check(rows, data.now, watched_until)
    runs = len({row.occurrence for row in rows if row.occurrence})
    if "json" in given:
        print_json({"runs": runs, "watched_until": watched_until, "findings": findings})
    elif not findings:
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up."
        show(right if runs else "No runs yet.")
    if findings:
        raise OllimError(plain("\n".join(findings)))


def _as_seen(record: RunStory, caller: Caller) -> RunStory:
    """The run; for the agent, without the words of a run that had read untrusted text."""
    return record._replace(rows=[_row_as_seen(row, caller) for row in record.rows])


def _row_as_seen(row: LedgerRow, caller: Caller) -> LedgerRow:
    if not caller.agent or not row.facts.get("untrusted"):
        return row
    hidden = {name: FROM_UNTRUSTED for name in _WORDS if name in row.facts}
    return replace(row, facts={**row.facts, **hidden})


def all_rows(data: Data) -> list[LedgerRow]:
    """The whole ledger; empty if no bot has run yet."""
    return data.ask_if_used(lambda tx: tx.ledger.page(0, _ALL)[0]) or []


@_RUNS.verb(
    "every row of the ledger, one JSON object a line", "--since 2026-11-01", *EXPORT_ARGUMENTS
)
def _export(given: Given, caller: Caller) -> None:
    def rows_after(after: int, tx: Transaction) -> tuple[list[tuple[datetime, bytes]], int]:
        rows, last = tx.ledger.page(after, PAGE_SIZE)
        return [(row.ts, LEDGER_ROWS.encode(_row_as_seen(row, caller))) for row in rows], last

    export(given, caller, rows_after)


def page_object(record: RunStory, now: datetime) -> dict[str, object]:
    """One run with its decisions and its rows."""
    rows = [{"ts": row.ts, "state": row.state, "facts": dict(row.facts)} for row in record.rows]
    return run_object(record, now) | {
        "decisions": [each._asdict() for each in decisions(record, now)],
        "tools": tools_of(record),
        "sources": sources_of(record),
        "cost": None if record.spent is None else record.spent.as_object(),
        "rows": rows,
    }

"""`ollim-bot cost`: what the model costs, by day, by job and by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.costs import (
    CONVERSATION,
    CostLine,
    CostReport,
    cost_report,
    job_name,
    month_start,
)
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.run_history import RunStory
from ollim_bot.kernel.values.usage import dollars
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import EXPORT_ARGUMENTS, PAGE_SIZE, export, open_data

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction

_BY = ("day", "job", "model")
_UNKNOWN_MODEL = "model not known"


_COST = Noun("cost")
run = _COST.run


@_COST.verb(
    "what today and this month have cost",
    "--by job",
    argument("--by", choices=_BY, help="a line for each day, job or model"),
    argument(
        "--since", metavar="30d", help="how far back; since the first of this month if not given"
    ),
    JSON,
)
def _list(given: Given, caller: Caller) -> None:
    from ollim_bot.features.money.cost_reports import costs_since

    data = open_data(caller)
    since = _since(given, data.now)
    report = data.ask_if_used(lambda tx: costs_since(tx, since, data.now))
    report = report or cost_report([], since, data.now, None)
    titles = {name: title(each) for name, each in report.titles.items()}
    wanted = [given["by"]] if "by" in given else [*_BY]
    if "json" in given:
        print_json(_as_object(report, wanted, titles))
    elif "by" in given:
        rows = [
            (
                line.amount.in_words(4),
                counted(line.uses, "use"),
                plain(_name(line.name, given["by"], titles)),
            )
            for line in _lines(report, given["by"])
        ]
        show(columns(rows) if rows else "Nothing has been used yet.")
    else:
        show(_summary(report, titles, month_start(data.now).date()))


def _since(given: Given, now: datetime) -> datetime:
    if "since" not in given:
        return month_start(now)
    moment = (now.astimezone(UTC) - parse_duration(given["since"])).astimezone(now.tzinfo)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _lines(report: CostReport, by: str) -> Sequence[CostLine]:
    return {"day": report.by_day, "job": report.by_job, "model": report.by_model}[by]


def _summary(report: CostReport, titles: Mapping[str, str], month: date) -> str:
    cap = "no daily limit" if report.cap is None else f"${report.cap:.2f} a day for jobs"
    rows = [
        ("  today", report.today.in_words()),
        ("  limit", cap),
        ("  this month", report.month.in_words()),
    ]
    if report.month_at_pace is not None:
        rows.append(("  at this pace", f"${dollars(report.month_at_pace):.2f} a month"))
    rows += [(f"  {name}", amount.in_words()) for name, amount in report.used]
    head = "What the model costs" if report.since == month else f"Since {report.since:%d %b %Y}"
    parts = [f"{head}\n{columns(rows)}"]
    if report.costliest:
        runs = []
        for each in report.costliest:
            # The word by which `runs show` finds the run.
            word = RunStory(Occurrence.parse(each.name), ()).short_id
            name = plain(titles.get(job_name(each.name), ""))
            runs.append((f"  {word}", each.amount.in_words(4), name))
        parts.append(f"the dearest runs\n{columns(runs)}")
    parts.append("`ollim-bot cost --by day`, `--by job` and `--by model` show more.")
    return "\n\n".join(parts)


def _name(name: str, by: str, titles: Mapping[str, str]) -> str:
    if by == "model":
        return name or _UNKNOWN_MODEL
    if by == "job" and name == CONVERSATION:
        return "the conversation"
    found = titles.get(name, "") if by == "job" else ""
    return f"{found}  ({name})" if found else name


def _as_object(
    report: CostReport, wanted: Sequence[str], titles: Mapping[str, str]
) -> dict[str, object]:
    pace = report.month_at_pace
    return {
        "since": report.since,
        "today": report.today.as_object(),
        "month": report.month.as_object(),
        "daily_cost_cap": report.cap,
        "month_at_pace_usd": None if pace is None else dollars(pace),
        "conversation": report.conversation.as_object(),
        "jobs": report.jobs.as_object(),
        **{
            f"by_{by}": [_line_object(each, by, titles) for each in _lines(report, by)]
            for by in wanted
        },
        "costliest": [
            {
                "id": each.name,
                "title": titles.get(job_name(each.name), ""),
                **each.amount.as_object(),
            }
            for each in report.costliest
        ],
    }


def _line_object(line: CostLine, by: str, titles: Mapping[str, str]) -> dict[str, object]:
    named = {"title": titles.get(line.name, "")} if by == "job" else {}
    used = {"uses": line.uses, "tokens": line.tokens}
    return {by: line.name, **named, **line.amount.as_object(), **used}


@_COST.verb("every use of a model, one JSON object a line", "--since 2026-11-01", *EXPORT_ARGUMENTS)
def _export(given: Given, caller: Caller) -> None:
    export(given, caller, _page)


def _page(after: int, tx: Transaction) -> tuple[list[tuple[datetime, bytes]], int]:
    from ollim_bot.kernel.store.codecs.plain import encode_plain

    rows, last = tx.usage.page(after, PAGE_SIZE)
    return [(row.at, encode_plain(row)) for row in rows], last

"""Listing and showing jobs. Nothing is written."""

from __future__ import annotations

import sys
from datetime import datetime

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import note, open_data
from ollim_bot.cli.jobs import words
from ollim_bot.cli.jobs.json import job_object, page_object
from ollim_bot.cli.jobs.noun import JobNoun, S
from ollim_bot.cli.json_output import print_json
from ollim_bot.cli.verbs import Given
from ollim_bot.cli.wording import plain
from ollim_bot.ports import ShelfReport, Shelved


def list_jobs(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    report = noun.shelf(data).report()
    if "json" in given:
        _print_report(noun, report, data.now)
    else:
        _print_list(noun, report, data.now)


def show_job(noun: JobNoun[S], given: Given, caller: Caller) -> None:
    data = open_data(caller)
    shelved = noun.shelf(data).get(given["job"])
    if "json" in given:
        print_json(page_object(noun, shelved, data.now))
    else:
        print(words.page(noun, shelved.item, caller.shown(shelved.path), data.now))


def _print_list(noun: JobNoun[S], report: ShelfReport[S], now: datetime) -> None:
    if report.jobs:
        jobs = [(shelved.item, moment) for shelved, moment in _by_moment(noun, report, now)]
        print(words.listing(noun, jobs, now), flush=True)
    elif report.problems:
        print(f"No {noun.name} can run: every file has a problem.", flush=True)
    else:
        print(f"No {noun.plural}. Add one: {noun.add_example}", flush=True)
    for problem in report.problems:
        print(plain(problem), file=sys.stderr)
    for warning in report.warnings:
        note(warning)


def _print_report(noun: JobNoun[S], report: ShelfReport[S], now: datetime) -> None:
    jobs = [job_object(noun, shelved, now) for shelved, _ in _by_moment(noun, report, now)]
    print_json(
        {
            noun.plural: jobs,
            "problems": list(report.problems),
            "warnings": list(report.warnings),
        }
    )


def _by_moment(
    noun: JobNoun[S], report: ShelfReport[S], now: datetime
) -> list[tuple[Shelved[S], datetime | None]]:
    """The jobs with their next moments, the soonest first and the paused ones last."""

    def order(entry: tuple[Shelved[S], datetime | None]) -> tuple[bool, float, str]:
        shelved, moment = entry
        return moment is None, moment.timestamp() if moment else 0, shelved.item.spec.id

    return sorted(((shelved, noun.next(shelved.item, now)) for shelved in report.jobs), key=order)

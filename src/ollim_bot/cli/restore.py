"""`ollim-bot restore`: puts a backup back, or tries it out in a scratch place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import note
from ollim_bot.cli.framework import json_flag, plain, print_json
from ollim_bot.cli.parser import Parser
from ollim_bot.cli.terminal import typed, width_of, wrapped
from ollim_bot.domain.moments import describe
from ollim_bot.domain.text import counted
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.upkeep.backup_reports import Restored, RestoreReport, TrialReport
from ollim_bot.upkeep.doctor import Level, summary

_COMMAND = "ollim-bot restore"
_ABOUT = "put a backup in the place of the data directory, which is moved aside"


def run(words: Sequence[str], caller: Caller) -> None:
    parser = Parser(_COMMAND, _ABOUT, f"{_COMMAND} ollim-bot-20261116T060000Z.tar.gz --verify")
    parser.add_argument("file", metavar="FILE", help="the backup")
    parser.add_argument(
        "--verify", action="store_true", help="try it out in a scratch place; nothing is changed"
    )
    json_flag(parser)
    given = parser.read(words)
    file = caller.path(str(given["file"]))
    if not file.is_file():
        raise WrongInput(f"{file} is not a file. Name a backup, such as ollim-bot-….tar.gz.")
    place = caller.place()
    now = caller.now().astimezone(place.zone)
    if "verify" in given:
        _verify(file, caller, now, is_json="json" in given)
        return
    from ollim_bot.upkeep.restore import restore

    report = restore(file, place.paths, caller.environ, now)
    if "json" in given:
        aside = None if report.aside is None else str(report.aside)
        print_json({**_object(report.restored), "aside": aside, "since": list(report.said)})
    else:
        _print(_lines(report, caller, now))


def _verify(file: Path, caller: Caller, now: datetime, *, is_json: bool) -> None:
    from ollim_bot.upkeep.restore import try_out

    trial = try_out(file, caller.environ, now)
    if is_json:
        findings = [asdict(finding) for finding in trial.findings]
        print_json({**_object(trial.restored), "findings": findings})
    else:
        _print(_trial_lines(trial, now))
    if not trial.restored.manifest.is_complete:
        raise OllimError("It is not complete: what is named above was missing when it was made.")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(wrapped(typed(plain(line)), width_of(sys.stdout), "  "))


def _moment(restored: Restored, now: datetime) -> str:
    at = restored.manifest.made_at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    return f"{describe(at, now)} (ollim-bot {restored.manifest.version})"


def _trial_lines(trial: TrialReport, now: datetime) -> Iterator[str]:
    count = counted(len(trial.restored.manifest.files), "file")
    yield f"The backup of {_moment(trial.restored, now)} can be restored."
    yield f"{count}: every checksum is right, and the database is whole. Nothing was changed."
    yield from _gaps(trial.restored)
    for finding in trial.findings:
        if finding.level is not Level.PASS:
            yield f"{finding.level}  {finding.name}: {finding.detail}"
    yield f"The doctor there: {summary(trial.findings).removeprefix('SUMMARY: ')}"


def _lines(report: RestoreReport, caller: Caller, now: datetime) -> Iterator[str]:
    restored = report.restored
    count = counted(len(restored.manifest.files), "file")
    yield f"Restored the backup of {_moment(restored, now)}: {count}."
    if report.aside is not None:
        yield f"What was there before is kept: {caller.shown(report.aside)}"
    if restored.keys:
        yield f"Keys come from there: {', '.join(restored.keys)}."
    if restored.missing:
        missing = ", ".join(restored.missing)
        yield f"Keys that are missing: {missing}. `ollim-bot setup` asks for some of them."
    yield from _gaps(restored)
    if report.said:
        yield "Since this backup you said, and the bot does not know it any more:"
        yield from (f"  {words}" for words in report.said)
    for sentence in restored.notes:
        note(sentence)
    yield "Start the bot again: `ollim-bot`. It lists what was due since, and repeats nothing."


def _gaps(restored: Restored) -> Iterator[str]:
    for gap in restored.manifest.unread:
        yield f"Not in the backup: {gap.path.removeprefix('data/')} ({gap.reason})"
    for name in restored.manifest.links:
        yield f"Not in the backup, since it was a link: {name}"


def _object(restored: Restored) -> dict[str, object]:
    manifest = restored.manifest
    return {
        "made_at": manifest.made_at,
        "version": manifest.version,
        "complete": manifest.is_complete,
        "files": len(manifest.files),
        "keys": list(restored.keys),
        "missing": list(restored.missing),
        "links": list(manifest.links),
        "unread": [{"path": gap.path, "reason": gap.reason} for gap in manifest.unread],
        "notes": list(restored.notes),
    }

"""`ollim-bot restore`: puts a backup back, or tries it out in a scratch place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import note
from ollim_bot.cli.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.cli.terminal import agrees, show
from ollim_bot.domain.moments import describe
from ollim_bot.domain.text import counted
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.upkeep.backup import LEFT_OFF, Brought, Power, Restored, RestoreReport, TrialReport
from ollim_bot.upkeep.doctor import summary

_PAIRING = "state/push.json"
_NOT_PAIRED = "No phone is paired then. `ollim-bot push setup` pairs it."


@command(
    "restore",
    "put a backup in the place of the data directory, which is moved aside",
    "ollim-bot-20261116T060000Z.tar.gz --verify",
    argument("file", metavar="FILE", help="the backup"),
    argument(
        "--verify", action="store_true", help="try it out in a scratch place; nothing is changed"
    ),
    argument(
        "--accept",
        metavar="WHAT",
        help="take in what can act, without a question: "
        f"{', '.join(Power)} with commas between, or all, or none",
    ),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    accepted = _accepted(str(given["accept"])) if "accept" in given else None
    file = caller.path(str(given["file"]))
    if not file.is_file():
        raise WrongInput(f"{file} is not a file. Name a backup, such as ollim-bot-….tar.gz.")
    place = caller.place()
    now = caller.now().astimezone(place.zone)
    if "verify" in given:
        _verify(file, place.paths, caller, now, is_json="json" in given)
        return
    from ollim_bot.upkeep.restore import restore

    move_rows = _move_rows(place.paths, caller)

    def choose(brought: Sequence[Brought]) -> Set[Power]:
        if accepted is not None or "json" in given or not sys.stdin.isatty():
            return accepted or frozenset()
        return frozenset(Power) if _agrees(brought) else frozenset()

    report = restore(file, place.paths, caller.environ, now, choose, move_rows=move_rows)
    if "json" in given:
        aside = None if report.aside is None else str(report.aside)
        print_json({**_object(report.restored), "aside": aside, "since": list(report.said)})
    else:
        _print(_lines(report, caller, now))


def _move_rows(paths: DataPaths, caller: Caller) -> Callable[[Path], None] | None:
    """Moves the rows to the server that machines share; None if this one has a file of its own.

    Raises `OllimError` if a machine leads there.
    """
    from ollim_bot.store.standby import load_standby, shared_address

    address = shared_address(caller.environ, paths)
    if address is None:
        return None
    mover = load_standby("moving").row_mover
    move: Callable[[Path], None] = mover(address, paths, caller.environ, caller.now)
    return move


def _accepted(typed: str) -> Set[Power]:
    """Raises `WrongInput`."""
    words = {word.strip().lower() for word in typed.split(",")} - {""}
    if words == {"all"}:
        return frozenset(Power)
    if words == {"none"}:
        return frozenset()
    if not words or not words <= {*Power}:
        raise WrongInput(
            f"--accept takes {', '.join(Power)} with commas between, or all, or none; "
            f"not {typed!r:.60}."
        )
    return frozenset(map(Power, words))


def _agrees(brought: Sequence[Brought]) -> bool:
    _print(_list_powers("This backup brings things that can act, and that are new here:", brought))
    _print(iter(["Take them in only if the backup is your own, and nobody else could change it."]))
    return agrees("Take in all of them?")


def _list_powers(head: str, brought: Sequence[Brought]) -> Iterator[str]:
    if brought:
        yield head
    width = max((len(each.power) for each in brought), default=0)
    for each in brought:
        yield f"  {each.power:<{width}}  {' '.join(str(each).split())}"


def _verify(file: Path, paths: DataPaths, caller: Caller, now: datetime, *, is_json: bool) -> None:
    from ollim_bot.upkeep.restore import try_out

    trial = try_out(file, paths, caller.environ, now)
    if is_json:
        findings = [asdict(finding) for finding in trial.findings]
        print_json({**_object(trial.restored), "findings": findings})
    else:
        _print(_trial_lines(trial, now))
    if not trial.restored.manifest.is_complete:
        raise OllimError("It is not complete: what is named above was missing when it was made.")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        show(plain(line), "  ")


def _moment(restored: Restored, now: datetime) -> str:
    at = restored.manifest.made_at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    return f"{describe(at, now)} (ollim-bot {restored.manifest.version})"


def _trial_lines(trial: TrialReport, now: datetime) -> Iterator[str]:
    count = counted(len(trial.restored.manifest.files), "file")
    yield f"The backup of {_moment(trial.restored, now)} can be restored."
    yield f"{count}: every checksum is right, and the database is whole. Nothing was changed."
    yield from _gaps(trial.restored)
    yield from _list_powers(
        "It brings things that can act, and that are new here. A restore asks about them:",
        trial.restored.brought,
    )
    for finding in trial.findings:
        if not finding.level.is_right:
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
    if _PAIRING in restored.missing:
        yield _NOT_PAIRED
    yield from _gaps(restored)
    yield from _left_off(restored.left_off, caller)
    if report.said:
        yield "Since this backup you said, and the bot does not know it any more:"
        yield from (f"  {words}" for words in report.said)
    for sentence in restored.notes:
        note(sentence)
    yield "Start the bot again: `ollim-bot`. It lists what was due since, and repeats nothing."


def _left_off(left_off: Sequence[Brought], caller: Caller) -> Iterator[str]:
    yield from _list_powers("Left off, since it can act and you did not take it in:", left_off)
    if any(each.files for each in left_off):
        root = caller.place().paths.root
        folder = caller.shown(root / LEFT_OFF)
        yield (
            f"The files are in {folder}. To use one, read it, and move it to the same place in "
            f"{caller.shown(root)}."
        )
    for each in left_off:
        if each.later:
            yield f"To have {each.name} again: {each.later}."


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
        "brought": [_brought_object(each) for each in restored.brought],
        "left_off": [_brought_object(each) for each in restored.left_off],
        "links": list(manifest.links),
        "unread": [{"path": gap.path, "reason": gap.reason} for gap in manifest.unread],
        "notes": list(restored.notes),
    }


def _brought_object(each: Brought) -> dict[str, object]:
    return {
        "power": each.power,
        "name": each.name,
        "detail": each.detail,
        "files": list(each.files),
    }

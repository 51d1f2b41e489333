"""`ollim-bot restore`: puts a backup back, or tries it out in a scratch place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.features.keeping.backup import LEFT_OFF, Brought, Power
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.upkeep.findings import summary
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.surfaces.terminal.printing import agrees, show
from ollim_bot.surfaces.terminal.terminal_data import note

if TYPE_CHECKING:
    from ollim_bot.features.keeping.restore import Restored

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
    from ollim_bot.features.keeping.restore import restore, try_out
    from ollim_bot.kernel.store.standby_loader import load_standby, shared_address

    accepted = _accepted(str(given["accept"])) if "accept" in given else None
    file = caller.path(str(given["file"]))
    if not file.is_file():
        raise WrongInput(f"{file} is not a file. Name a backup, such as ollim-bot-….tar.gz.")
    place, is_trial, is_json = caller.place(), "verify" in given, "json" in given
    paths, now = place.paths, caller.now().astimezone(place.zone)

    def choose(brought: Sequence[Brought]) -> Set[Power]:
        if accepted is not None or is_json or not sys.stdin.isatty():
            return accepted or frozenset()
        _print(
            _list_powers("This backup brings things that can act, and that are new here:", brought)
        )
        _print(["Take them in only if the backup is your own, and nobody else could change it."])
        return frozenset(Power) if agrees("Take in all of them?") else frozenset()

    if is_trial:
        restored = try_out(file, paths, caller.environ, now)
    else:
        address, move_rows = shared_address(caller.environ, paths), None
        if address is not None:
            mover = load_standby("moving").row_mover
            move_rows = mover(address, paths, caller.environ, caller.now)
        restored = restore(file, paths, caller.environ, now, choose, move_rows=move_rows)
    if is_json:
        print_json(_object(restored, is_trial=is_trial))
    else:
        _print(_trial_lines(restored, now) if is_trial else _lines(restored, caller, now))
    if is_trial and not restored.manifest.is_complete:
        raise OllimError("It is not complete: what is named above was missing when it was made.")


def _accepted(typed: str) -> Set[Power]:
    """Raises `WrongInput`."""
    words = {word.strip().lower() for word in typed.split(",")} - {""}
    if words in ({"all"}, {"none"}):
        return frozenset(Power if words == {"all"} else ())
    if not words or not words <= {*Power}:
        choices = f"{', '.join(Power)} with commas between, or all, or none"
        raise WrongInput(f"--accept takes {choices}; not {typed!r:.60}.")
    return frozenset(map(Power, words))


def _list_powers(head: str, brought: Sequence[Brought]) -> Iterator[str]:
    if brought:
        yield head
    width = max((len(each.power) for each in brought), default=0)
    for each in brought:
        yield f"  {each.power:<{width}}  {' '.join(str(each).split())}"


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        show(plain(line), "  ")


def _moment(restored: Restored, now: datetime) -> str:
    at = restored.manifest.made_at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    return f"{describe(at, now)} (ollim-bot {restored.manifest.version})"


def _trial_lines(trial: Restored, now: datetime) -> Iterator[str]:
    count = counted(len(trial.manifest.files), "file")
    yield f"The backup of {_moment(trial, now)} can be restored."
    yield f"{count}: every checksum is right, and the database is whole. Nothing was changed."
    yield from _gaps(trial)
    yield from _list_powers(
        "It brings things that can act, and that are new here. A restore asks about them:",
        trial.brought,
    )
    for finding in trial.findings:
        if not finding.level.is_right:
            yield f"{finding.level}  {finding.name}: {finding.detail}"
    yield f"The doctor there: {summary(trial.findings).removeprefix('SUMMARY: ')}"


def _lines(restored: Restored, caller: Caller, now: datetime) -> Iterator[str]:
    count = counted(len(restored.manifest.files), "file")
    yield f"Restored the backup of {_moment(restored, now)}: {count}."
    if restored.aside is not None:
        yield f"What was there before is kept: {caller.shown(restored.aside)}"
    if restored.keys:
        yield f"Keys come from there: {', '.join(restored.keys)}."
    if restored.missing:
        missing = ", ".join(restored.missing)
        yield f"Keys that are missing: {missing}. `ollim-bot setup` asks for some of them."
    if _PAIRING in restored.missing:
        yield _NOT_PAIRED
    yield from _gaps(restored)
    head = "Left off, since it can act and you did not take it in:"
    yield from _list_powers(head, restored.left_off)
    if any(each.files for each in restored.left_off):
        root = caller.place().paths.root
        yield (
            f"The files are in {caller.shown(root / LEFT_OFF)}. To use one, read it, and move it "
            f"to the same place in {caller.shown(root)}."
        )
    yield from (
        f"To have {each.name} again: {each.later}." for each in restored.left_off if each.later
    )
    if restored.said:
        yield "Since this backup you said, and the bot does not know it any more:"
        yield from (f"  {words}" for words in restored.said)
    for sentence in restored.notes:
        note(sentence)
    yield "Start the bot again: `ollim-bot`. It lists what was due since, and repeats nothing."


def _gaps(restored: Restored) -> Iterator[str]:
    for gap in restored.manifest.unread:
        yield f"Not in the backup: {gap.path.removeprefix('data/')} ({gap.reason})"
    for name in restored.manifest.links:
        yield f"Not in the backup, since it was a link: {name}"


def _object(restored: Restored, *, is_trial: bool) -> dict[str, object]:
    manifest, found = restored.manifest, asdict(restored)
    for brought in (*found["brought"], *found["left_off"]):
        del brought["later"]
    names = ("keys", "missing", "brought", "left_off", "notes")
    if is_trial:
        of_kind = {"findings": found["findings"]}
    else:
        aside = None if restored.aside is None else str(restored.aside)
        of_kind = {"aside": aside, "since": restored.said}
    return {
        "made_at": manifest.made_at,
        "version": manifest.version,
        "complete": manifest.is_complete,
        "files": len(manifest.files),
        "links": manifest.links,
        "unread": [asdict(gap) for gap in manifest.unread],
        **{name: found[name] for name in names},
        **of_kind,
    }

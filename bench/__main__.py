"""`make bench`: every measure as a row, exit 1 if one misses its bar."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import (
    background,
    backup,
    cli_start,
    discord,
    due,
    far,
    git_history,
    history,
    jobs,
    ledger,
    linear,
    memory,
    new_files,
    past_runs,
    postgres,
    schedule,
    starts,
    storage,
    take_overs,
    turns,
    two_machines,
    views,
    webhooks,
    week,
    week_page,
)
from bench.measure import Result
from bench.table import table

PARTS: Mapping[str, tuple[Callable[[Path], list[Result]], str | None]] = {
    "commands": (cli_start.measure, cli_start.__doc__),
    "jobs": (jobs.measure, jobs.__doc__),
    "schedule": (schedule.measure, schedule.__doc__),
    "week": (week.measure, week.__doc__),
    "starts": (starts.measure, starts.__doc__),
    "new-files": (new_files.measure, new_files.__doc__),
    "storage": (storage.measure, storage.__doc__),
    "postgres": (postgres.measure, postgres.__doc__),
    "ledger": (ledger.measure, ledger.__doc__),
    "history": (history.measure, history.__doc__),
    "backup": (backup.measure, backup.__doc__),
    "linear": (linear.measure, linear.__doc__.partition("\n")[0]),
    "git": (git_history.measure, git_history.__doc__),
    "turns": (turns.measure, turns.__doc__),
    "due": (due.measure, due.__doc__),
    "far": (far.measure, far.__doc__),
    "two-machines": (two_machines.measure, two_machines.__doc__),
    "discord": (discord.measure, discord.__doc__),
    "background": (background.measure, background.__doc__),
    "webhooks": (webhooks.measure, webhooks.__doc__),
    "week-page": (week_page.measure, week_page.__doc__),
    "views": (views.measure, views.__doc__),
    "memory": (memory.measure, memory.__doc__),
}

# These take minutes, and run only where they are named.
LONG: Mapping[str, tuple[Callable[[Path], list[Result]], str | None]] = {
    "take-overs": (take_overs.measure, take_overs.__doc__)
}


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    known = {**PARTS, **LONG}
    chosen = [name for name in known if name in (given.only or PARTS)]
    if given.list:
        print("\n".join(f"{name:14}{known[name][1]}" for name in given.only or known))
        return 0
    # Programs are ended here in the middle of an answer, which their servers would complain of.
    logging.disable()
    results = _measured(chosen)
    run = past_runs.this_run(results, Path(__file__).parents[1])
    runs = past_runs.read(past_runs.FILE)
    is_whole = len(chosen) == len(PARTS)
    print(table(results, past_runs.usual_ratios(run, runs), is_whole=is_whole))
    is_kept = is_whole if given.record is None else given.record
    if is_kept and not os.environ.get("CI"):
        past_runs.append(past_runs.FILE, run)
    return 0 if all(result.passes for result in results) else 1


def _measured(parts: Sequence[str]) -> list[Result]:
    results: list[Result] = []
    for name in parts:
        print(name, end=" ", file=sys.stderr, flush=True)
        measure, _ = {**PARTS, **LONG}[name]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            results += measure(Path(folder))
    print(file=sys.stderr)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*PARTS, *LONG], help="some parts")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument(
        "--record",
        action=argparse.BooleanOptionalAction,
        help="add a line to past_runs.jsonl; a whole run does if this is omitted",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

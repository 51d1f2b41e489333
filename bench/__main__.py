"""`make bench`: every measure as a row, exit 1 if one misses its bar."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from devtools.localpostgres import find_binaries

from bench import (
    commands,
    discord,
    linear,
    memory,
    report,
    schedule,
    storage,
    turns,
    views,
    webhooks,
)
from bench.measure import Result

try:
    from bench import standby
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("ollim_bot_standby", "psycopg"):
        raise
    standby = None  # type: ignore[assignment]

Measure = Callable[[Path], list[Result]]

PARTS: Mapping[str, Measure] = {
    "commands": commands.measure,
    "jobs": schedule.measure_jobs,
    "schedule": schedule.measure_schedule,
    "week": views.measure_week,
    "starts": schedule.measure_starts,
    "new-files": schedule.measure_new_files,
    "storage": storage.measure_storage,
    "ledger": storage.measure_ledger,
    "history": storage.measure_history,
    "backup": storage.measure_backup,
    "linear": linear.measure,
    "git": storage.measure_git,
    "turns": turns.measure_turns,
    "due": turns.measure_due,
    "discord": discord.measure,
    "background": turns.measure_background,
    "webhooks": webhooks.measure,
    "week-page": views.measure_week_page,
    "views": views.measure_views,
    "memory": memory.measure,
}
# These need the package ollim_bot_standby and a PostgreSQL server, and are left out without them.
STANDBY = ("postgres", "far", "two-machines")
# These need both, too; they take minutes, and run only where they are named.
LONG = ("take-overs",)
ALL = (*PARTS, *STANDBY, *LONG)


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    parts, missing = _parts()
    chosen = [name for name in parts if name in given.only] if given.only else [*PARTS, *STANDBY]
    if given.list:
        print("\n".join(_described(name, parts.get(name)) for name in given.only or ALL))
        return 0
    # Programs are ended here in the middle of an answer, which their servers would complain of.
    logging.disable()
    results = _measured({name: parts[name] for name in chosen if name in parts})
    run = report.this_run(results, Path(__file__).parents[1])
    past = report.usual_ratios(run, report.read(report.FILE))
    is_whole = given.only is None
    print(report.table(results, past, is_whole=is_whole))
    if left_out := [name for name in given.only or [*PARTS, *STANDBY] if name not in parts]:
        print(f"\nLeft out, without {missing}: {', '.join(left_out)}")
    is_kept = is_whole if given.record is None else given.record
    if is_kept and not os.environ.get("CI"):
        report.append(report.FILE, run)
    return 0 if all(result.passes for result in results) else 1


def _parts() -> tuple[Mapping[str, Measure], str]:
    """What can be measured here, and what is missing for the rest."""
    if standby is None:
        return PARTS, "the package ollim_bot_standby"
    if find_binaries() is None:
        return PARTS, "a PostgreSQL server"
    further = {
        "postgres": standby.measure_postgres,
        "far": standby.measure_far,
        "two-machines": standby.measure_two_machines,
        "take-overs": standby.measure_take_overs,
    }
    return {**PARTS, **further}, ""


def _described(name: str, measure: Measure | None) -> str:
    words = (measure.__doc__ or "") if measure else "needs ollim_bot_standby and PostgreSQL"
    return f"{name:14}{words}"


def _measured(parts: Mapping[str, Measure]) -> list[Result]:
    results: list[Result] = []
    for name, measure in parts.items():
        print(name, end=" ", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            results += measure(Path(folder))
    print(file=sys.stderr)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ALL, help="some parts")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument(
        "--record",
        action=argparse.BooleanOptionalAction,
        help="add a line to past_runs.jsonl; a whole run does if this is omitted",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`: every measure as a row, exit 1 if one misses its bar."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench import cli_start, discord, due, history, job_book, jobs, ledger, schedule, storage, turns
from bench.measure import Result, table


def main() -> int:
    results: list[Result] = []
    for part in (
        cli_start,
        jobs,
        job_book,
        schedule,
        storage,
        ledger,
        history,
        turns,
        due,
        discord,
    ):
        with tempfile.TemporaryDirectory() as folder:
            results += part.measure(Path(folder))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(table(results))
    return 0 if all(result.passes for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())

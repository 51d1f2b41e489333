"""`python -m chaos.standby` injects faults into two machines that share a PostgreSQL server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.patience import measure_patience

from chaos.planted_bugs import program_with_bug
from chaos.standby.faults import FAULTS
from chaos.standby.planted_bugs import STANDBY_BUGS
from chaos.standby.runner import StandbyOutcome, plan, run_faults
from chaos.steps import described


def main() -> int:
    options = _options()
    logging.basicConfig(level=logging.CRITICAL, format="%(message)s", stream=sys.stdout)
    logging.getLogger("chaos").setLevel(logging.DEBUG if options.verbose else logging.WARNING)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed} (again: python -m chaos.standby --seed {seed})", flush=True)
    measure_patience()
    with ExitStack() as stack:
        bugs = [bug for bug in STANDBY_BUGS if bug.name == options.planted]
        settings = stack.enter_context(program_with_bug(bugs[0])) if bugs else {}
        focus = bugs[0].focus if bugs else ()
        outcome = asyncio.run(
            run_faults(
                plan(seed, options.only or focus),
                seconds=options.seconds,
                pace=options.pace,
                ahead=options.ahead,
                settings=settings,
                keep=options.keep,
            )
        )
    print(report(outcome), flush=True)
    return 1 if outcome.broken else 0


def report(outcome: StandbyOutcome) -> str:
    counts = f"{len(outcome.steps)} steps, {outcome.times_settled} times at rest"
    lines = [f"{counts}, {outcome.reminders} reminders; met:"]
    lines += [f"  {outcome.hits[name]:5} {name}" for name in sorted(outcome.hits)]
    for is_planned, name in ((False, "take-over"), (True, "hand-over")):
        times = [each.seconds for each in outcome.taken if each.is_planned is is_planned]
        lines.append(f"{name}, from the last renewal to the first message: {spread(times)}")
    if outcome.broken:
        lines += ["BROKEN:", *(f"  {each}" for each in outcome.broken), "after these steps:"]
        lines.append(described(outcome.steps))
    return "\n".join(lines)


def spread(times: Sequence[float]) -> str:
    """The half and the last hundredth of the times."""
    if not times:
        return "none"
    half, late = middle(times), last_hundredth(times)
    return f"p50 {half:.1f} s, p99 {late:.1f} s, of {len(times)}"


def middle(times: Sequence[float]) -> float:
    return sorted(times)[(len(times) - 1) // 2]


def last_hundredth(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.standby", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to inject faults")
    parser.add_argument("--seed", type=int, help="repeat the steps of a seed")
    parser.add_argument("--pace", type=float, default=1.0, help="a second of the lease, in seconds")
    parser.add_argument("--ahead", type=float, default=180.0, help="how far apart the clocks are")
    parser.add_argument("--only", action="append", choices=[*FAULTS], help="what comes first")
    parser.add_argument("--planted", choices=[bug.name for bug in STANDBY_BUGS], help="plant a bug")
    parser.add_argument("--keep", type=Path, help="where to copy all files if something breaks")
    parser.add_argument("--verbose", action="store_true", help="print each step")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

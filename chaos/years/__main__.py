"""`python -m chaos.years`: months and years of the whole bot in a few minutes."""

from __future__ import annotations

import argparse
import logging
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

from chaos.steps import described, read_steps, write_steps
from chaos.years.runner import Outcome, plan, plan_nights, play

_MOST_SHOWN = 20
_LAST_STEPS = 40


def main() -> int:
    given = _parser().parse_args()
    level = logging.INFO if given.verbose else logging.CRITICAL
    logging.basicConfig(level=logging.CRITICAL, format="%(message)s")
    logging.getLogger("chaos").setLevel(level)
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    planned = plan_nights(seed) if given.nights else plan(seed)
    steps = read_steps(given.replay) if given.replay else planned
    start = datetime.fromisoformat(given.start).replace(tzinfo=UTC)
    outcome = play(steps, seed=seed, start=start, days=given.days, keep=given.keep)
    print(_report(outcome, given.days))
    if outcome.broken:
        file = Path(f"years-{seed}.steps")
        write_steps(file, outcome.steps)
        print(f"All steps are in {file}: python -m chaos.years --seed {seed} --replay {file}")
    return 1 if outcome.broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos.years", description=__doc__)
    parser.add_argument("--days", type=float, default=365, help="how many days of the bot")
    parser.add_argument("--seed", type=int, help="the same seed is the same year")
    parser.add_argument("--start", default="2025-01-01", help="the first day")
    parser.add_argument("--replay", type=Path, help="play the steps of this file")
    parser.add_argument("--keep", type=Path, help="leave all files there if something is broken")
    parser.add_argument("--nights", action="store_true", help="quiet hours, and much that waits")
    parser.add_argument("--verbose", action="store_true", help="say what happens")
    return parser


def _report(outcome: Outcome, days: float) -> str:
    lines = [
        f"{days:g} days in {outcome.seconds:.0f} s, of which {outcome.cpu_seconds:.0f} of work",
        f"{len(outcome.steps):7}  steps",
    ]
    lines += [f"{times:7}  {what}" for what, times in sorted(outcome.counts.items())]
    if not outcome.broken:
        return "\n".join([*lines, f"Nothing is broken; all was looked at {outcome.checks} times."])
    lines += ["Broken:", *(f"  {each}" for each in outcome.broken[:_MOST_SHOWN])]
    lines += ["The last steps:", described(outcome.steps[-_LAST_STEPS:])]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m chaos` runs the steps of a seed. If something breaks, it looks for fewer steps."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.patience import measure_patience

from chaos import faults, phone_faults
from chaos.crash_points import labels_without_crash_point
from chaos.planted_bugs import PLANTED_BUGS, program_with_bug
from chaos.runner import ChaosOutcome, plan, run_steps
from chaos.shrink import shrunk
from chaos.steps import Step, described, read_steps, write_steps

_COUNTED = {*faults.COUNTED_FAULTS, *phone_faults.COUNTED_FAULTS}
_OUT = Path(tempfile.gettempdir()) / "chaos-failure.jsonl"


def main() -> int:
    options = _options()
    logging.basicConfig(level=logging.CRITICAL, format="%(message)s", stream=sys.stdout)
    logging.getLogger("chaos").setLevel(logging.DEBUG if options.verbose else logging.WARNING)
    measure_patience()
    with ExitStack() as stack:
        bugs = [bug for bug in PLANTED_BUGS if bug.name == options.planted]
        settings = stack.enter_context(program_with_bug(bugs[0])) if bugs else {}
        return asyncio.run(_run(options, settings))


async def _run(options: argparse.Namespace, settings: Mapping[str, str]) -> int:
    outcome = await run_steps(
        _steps(options), seconds=options.seconds, settings=settings, keep=options.keep
    )
    print(report(outcome), flush=True)
    if not outcome.broken:
        return 0
    await _shorten(outcome.steps, options, settings)
    return 1


def _steps(options: argparse.Namespace) -> Iterable[Step]:
    if options.replay:
        return read_steps(options.replay)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed} (again: python -m chaos --seed {seed})", flush=True)
    focus = next((bug.focus for bug in PLANTED_BUGS if bug.name == options.planted), ())
    return plan(seed, focus)


async def _shorten(
    steps: Sequence[Step], options: argparse.Namespace, settings: Mapping[str, str]
) -> None:
    """Print fewer steps that break, or all of them if they do not break again.

    A failure that depends on timing may not happen again with the same steps.
    """
    write_steps(options.out, steps)
    print(f"Looking for fewer steps, in {options.tries} tries", flush=True)

    async def breaks(fewer: Sequence[Step]) -> bool:
        outcome = await run_steps(fewer, seconds=options.seconds, settings=settings)
        return bool(outcome.broken)

    fewest = await shrunk(steps, breaks, options.tries)
    write_steps(options.out, fewest)
    print(f"The fewest that broke:\n{described(fewest)}")
    print(f"Play them again: python -m chaos --replay {options.out}")


def report(outcome: ChaosOutcome) -> str:
    counts = f"{len(outcome.steps)} steps, {outcome.times_settled} times at rest"
    lines = [f"{counts}, {outcome.messages} messages, {outcome.in_doubt} in doubt; met:"]
    lines += [f"  {outcome.hits[name]:5} {name}" for name in sorted({*_COUNTED, *outcome.hits})]
    lines += [
        f"  written, and without a point: {name}"
        for name in labels_without_crash_point(outcome.passed_crash_points)
    ]
    if outcome.broken:
        lines += ["BROKEN:", *(f"  {each}" for each in outcome.broken), "after these steps:"]
        lines.append(described(outcome.steps))
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to inject faults")
    parser.add_argument("--seed", type=int, help="repeat the steps of a seed")
    parser.add_argument("--replay", type=Path, help="play the steps of a file")
    parser.add_argument("--planted", choices=[bug.name for bug in PLANTED_BUGS], help="with a bug")
    parser.add_argument("--tries", type=int, default=12, help="how often to try with fewer steps")
    parser.add_argument("--out", type=Path, default=_OUT, help="where the steps are written")
    parser.add_argument("--keep", type=Path, help="leave a copy of all files there if it breaks")
    parser.add_argument("--verbose", action="store_true", help="tell each step and each wait")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

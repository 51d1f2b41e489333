"""`python -m chaos`: plays a seed, and where something breaks, looks for the shortest way there."""

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

from chaos.faults import POINTS
from chaos.planted import PLANTED, planted
from chaos.play import Outcome, plan, play
from chaos.points import without_point
from chaos.shrink import shrunk
from chaos.steps import Step, read, told, written

_OUT = Path(tempfile.gettempdir()) / "chaos-failure.jsonl"


def main() -> int:
    options = _options()
    logging.basicConfig(level=logging.CRITICAL, format="%(message)s", stream=sys.stdout)
    logging.getLogger("chaos").setLevel(logging.DEBUG if options.verbose else logging.WARNING)
    with ExitStack() as stack:
        bugs = [bug for bug in PLANTED if bug.name == options.planted]
        settings = stack.enter_context(planted(bugs[0])) if bugs else {}
        return asyncio.run(_run(options, settings))


async def _run(options: argparse.Namespace, settings: Mapping[str, str]) -> int:
    outcome = await play(
        _steps(options), seconds=options.seconds, settings=settings, keep=options.keep
    )
    print(report(outcome), flush=True)
    if not outcome.broken:
        return 0
    await _shorten(outcome.steps, options, settings)
    return 1


def _steps(options: argparse.Namespace) -> Iterable[Step]:
    if options.replay:
        return read(options.replay)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed} (again: python -m chaos --seed {seed})", flush=True)
    return plan(seed)


async def _shorten(
    steps: Sequence[Step], options: argparse.Namespace, settings: Mapping[str, str]
) -> None:
    """What depends on the moment may not break again; then the steps stay as they were."""
    written(options.out, steps)
    print(f"Looking for fewer steps, in {options.tries} tries", flush=True)

    async def breaks(fewer: Sequence[Step]) -> bool:
        outcome = await play(fewer, seconds=options.seconds, settings=settings)
        return bool(outcome.broken)

    fewest = await shrunk(steps, breaks, options.tries)
    written(options.out, fewest)
    print(f"The fewest that broke:\n{told(fewest)}")
    print(f"Play them again: python -m chaos --replay {options.out}")


def report(outcome: Outcome) -> str:
    counts = f"{len(outcome.steps)} steps, {outcome.rests} times at rest"
    lines = [f"{counts}, {outcome.messages} messages, {outcome.in_doubt} in doubt; met:"]
    lines += [f"  {outcome.hits[name]:5} {name}" for name in sorted({*POINTS, *outcome.hits})]
    lines += [f"  written, and without a point: {name}" for name in without_point(outcome.passed)]
    if outcome.broken:
        lines += ["BROKEN:", *(f"  {each}" for each in outcome.broken), "after these steps:"]
        lines.append(told(outcome.steps))
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to injure")
    parser.add_argument("--seed", type=int, help="repeat the steps of a seed")
    parser.add_argument("--replay", type=Path, help="play the steps of a file")
    parser.add_argument("--planted", choices=[bug.name for bug in PLANTED], help="with a bug")
    parser.add_argument("--tries", type=int, default=12, help="how often to try with fewer steps")
    parser.add_argument("--out", type=Path, default=_OUT, help="where the steps are written")
    parser.add_argument("--keep", type=Path, help="leave a copy of all files there if it breaks")
    parser.add_argument("--verbose", action="store_true", help="tell each step and each wait")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

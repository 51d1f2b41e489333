"""What a run prints and keeps: a table beside the usual ratios of past runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import ollim_bot
from bench.measure import Bar, Result, shown

FILE = Path(__file__).with_name("past_runs.jsonl")

_COMPARED_WITH = 5
_FEWEST = 3
_WORSE = 1.25


@dataclass(frozen=True, slots=True)
class Run:
    """`rows` has the ratio and the amount of each measure. No field names a person, a host or
    a path."""

    date: str
    version: str
    commit: str | None
    python: str
    cores: int
    system: str
    rows: Mapping[str, tuple[float, float]]

    def is_like(self, other: Run) -> bool:
        """Whether the two ran on machines that can be compared."""
        mine, others = (each.python.split(".")[:2] for each in (self, other))
        return (mine, self.cores, self.system) == (others, other.cores, other.system)


@dataclass(frozen=True, slots=True)
class UsualRatio:
    """The usual ratio of a measure. Nothing counts as worse until the measure has run a few
    times."""

    usual: float
    times: int

    def is_worse(self, ratio: float) -> bool:
        return self.times >= _FEWEST and ratio > self.usual * _WORSE


def this_run(results: Iterable[Result], root: Path) -> Run:
    return Run(
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        version=ollim_bot.__version__,
        commit=_commit(root),
        python=platform.python_version(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        rows={each.measure: (_short(each.ratio), _short(each.amount)) for each in results},
    )


def read(file: Path) -> list[Run]:
    """Raises `ValueError` for a line that is not a run, so that damage to the file is noticed."""
    if not file.exists():
        return []
    return [_run(json.loads(line)) for line in file.read_text().splitlines() if line.strip()]


def append(file: Path, run: Run) -> None:
    with file.open("a") as runs:
        runs.write(json.dumps(asdict(run)) + "\n")


def usual_ratios(run: Run, runs: Sequence[Run]) -> dict[str, UsualRatio]:
    """The usual ratio of each measure, from its last runs on machines like this one."""
    past = {}
    for measure in run.rows:
        alike = [each for each in runs if each.is_like(run) and measure in each.rows]
        ratios = [each.rows[measure][0] for each in alike[-_COMPARED_WITH:]]
        if ratios:
            past[measure] = UsualRatio(median(ratios), len(ratios))
    return past


def _run(raw: Mapping[str, object]) -> Run:
    rows = raw.get("rows")
    if not isinstance(rows, dict):
        raise ValueError("a run without rows")
    pairs = {name: (float(ratio), float(amount)) for name, (ratio, amount) in rows.items()}
    commit = raw.get("commit")
    return Run(
        str(raw["date"]),
        str(raw["version"]),
        None if commit is None else str(commit),
        str(raw["python"]),
        int(str(raw["cores"])),
        str(raw["system"]),
        pairs,
    )


def _commit(root: Path) -> str | None:
    """None without git or a repository. It ends with `+` if the source was changed since."""
    with suppress(OSError, subprocess.CalledProcessError):
        name = _git(root, "rev-parse", "--short", "HEAD")
        return f"{name}+" if _git(root, "status", "--porcelain", "--", "src") else name
    return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _short(number: float) -> float:
    return float(f"{number:.4g}")


Cells = tuple[str, ...]

_HEAD: Cells = ("", "measure", "", "baseline", "", "ratio", "usual", "limit", "")


def table(results: Sequence[Result], past: Mapping[str, UsualRatio], *, is_whole: bool) -> str:
    """`is_whole` says that all parts have run; then a bar without a row is named too."""
    of_bars = [row for bar in Bar for row in _of_bar(bar, results, past, is_whole=is_whole)]
    rest = [_cells(each, past) for each in results if each.of is None]
    widths = _widths([_HEAD, *(row for row in of_bars if len(row) > 1), *rest])
    blocks = [("The bars", of_bars), ("The rest", rest)]
    lines = []
    for title, rows in blocks:
        if rows:
            lines += [title, _line(_HEAD, widths), *(_line(row, widths) for row in rows), ""]
    return "\n".join(lines).rstrip()


def _of_bar(
    bar: Bar, results: Sequence[Result], past: Mapping[str, UsualRatio], *, is_whole: bool
) -> Iterator[Cells]:
    """The bar in the words of the contract, followed by its measures."""
    number = list(Bar).index(bar) + 1
    rows = [_cells(each, past) for each in results if each.of is bar]
    if rows or is_whole:
        yield (f"{number}. {bar.value}",)
    yield from rows
    if is_whole and not rows:
        yield ("   NOT MEASURED",)


def _cells(result: Result, past: Mapping[str, UsualRatio]) -> Cells:
    before = past.get(result.measure)
    verdict = ("pass" if result.passes else "FAIL") if result.limits else ""
    slower = "SLOWER" if before is not None and before.is_worse(result.ratio) else ""
    return (
        "  ",
        result.measure,
        shown(result.amount, result.unit),
        result.baseline,
        shown(result.baseline_amount, result.unit),
        f"{result.ratio:.2f}",
        "" if before is None else f"{before.usual:.2f}",
        result.limits,
        " ".join(filter(None, [verdict, slower])),
    )


def _widths(rows: Sequence[Cells]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]


def _line(row: Cells, widths: Sequence[int]) -> str:
    if len(row) == 1:
        return row[0]
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return " ".join(cells).rstrip()

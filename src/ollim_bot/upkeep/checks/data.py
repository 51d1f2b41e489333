"""Checks of the data directory."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.jobs import JobKind, Reminder, Routine, ShelfReport
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.moments import describe_with_distance
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.schedule import ScheduledJob, key_of, next_due
from ollim_bot.paths import DataPaths
from ollim_bot.upkeep.doctor import Finding, counted, failed, passed, warned

DATA_DIRECTORY = "data directory"
_ALL_BITS = os.R_OK | os.W_OK | os.X_OK
_OTHERS = 0o077
_SET_ASIDE = "*.corrupt-*"

May = Callable[[Path, int], bool]


def data_directory(paths: DataPaths, may: May = os.access) -> Iterator[Finding]:
    if not paths.root.exists():
        yield _not_there(paths.root, may)
        return
    closed = [folder for folder in _folders(paths) if not may(folder, _ALL_BITS)]
    for folder in closed:
        yield failed(
            DATA_DIRECTORY,
            f"{folder} cannot be read and written",
            f"Run `chmod u+rwx {_typed(folder)}`, as the account that it belongs to.",
        )
    yield from _open_to_others(paths)
    if paths.state not in closed:
        yield from map(_set_aside, sorted(paths.state.glob(_SET_ASIDE)))
    if not closed:
        yield passed(DATA_DIRECTORY, f"{paths.root} can be written")


def _open_to_others(paths: DataPaths) -> Iterator[Finding]:
    open_folders = [each for each in (paths.root, paths.state) if _is_open_to_others(each)]
    for folder in open_folders:
        yield warned(
            DATA_DIRECTORY,
            f"others on this machine can look into {folder}",
            f"Run `chmod 700 {_typed(folder)}`; the next start does so too.",
        )
    # Behind a closed folder nobody gets to them.
    is_way_open = len(open_folders) == 2
    opened = [path for path in _files(paths.state) if is_way_open and _is_open_to_others(path)]
    if opened:
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        yield warned(
            DATA_DIRECTORY,
            f"others may read {opened[0]}{more}",
            f"Run `chmod -R go= {_typed(paths.state)}`; the next start does so too.",
        )
    if paths.root.stat().st_uid != os.geteuid():
        yield warned(
            DATA_DIRECTORY,
            f"{paths.root} belongs to another account, which can read and change all of it",
            "Run the bot as that account, or make the folder its own.",
        )


def _files(state: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(state):
        yield from (path for name in names if not (path := Path(folder, name)).is_symlink())


def _not_there(root: Path, may: May) -> Finding:
    above = next(folder for folder in root.parents if folder.exists())
    if may(above, _ALL_BITS):
        return passed(DATA_DIRECTORY, f"{root} is not there yet; the first start makes it")
    return failed(
        DATA_DIRECTORY,
        f"{root} is not there and cannot be made",
        f"Let {above} be written, or set OLLIM_DATA_DIR to a folder of yours.",
    )


def _folders(paths: DataPaths) -> Sequence[Path]:
    below = (paths.state, paths.locks, paths.routines, paths.reminders, paths.skills)
    return [paths.root, *(folder for folder in below if folder.exists())]


def _is_open_to_others(folder: Path) -> bool:
    try:
        return bool(stat.S_IMODE(folder.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def _set_aside(path: Path) -> Finding:
    return warned(
        DATA_DIRECTORY,
        f"{path.parent.name}/{path.name} could not be understood once and was set aside",
        f"Look whether you need something of it, then run `rm {_typed(path)}`.",
    )


def _typed(path: Path) -> str:
    return shlex.quote(str(path))


SKILLS = "skills"
_MEND_SKILL = "Mend the file; until then the skill may not work as meant."

J = TypeVar("J", Routine, Reminder)


def jobs(kind: JobKind, report: ShelfReport[J], now: datetime, zone: tzinfo) -> Iterator[Finding]:
    name = f"{kind}s"
    mend = f"Mend the file; `ollim-bot {kind} list` shows whether it is right."
    for problem in report.problems:
        yield failed(name, problem, mend)
    for warning in report.warnings:
        yield warned(name, warning, mend)
    if report.jobs or not report.problems:
        yield passed(name, _overview(kind, [one.item for one in report.jobs], now, zone))


def skills(
    there: Collection[str], problems: Iterable[str], wanting: Iterable[ScheduledJob]
) -> Iterator[Finding]:
    """`there` are the names of those that there are, `wanting` the jobs that may name some."""
    wrong = list(problems)
    for problem in wrong:
        yield failed(SKILLS, problem, _MEND_SKILL)
    for job in wanting:
        for name in job.spec.skills:
            if name not in there:
                yield warned(
                    SKILLS,
                    f"{key_of(job)} names the skill {name}, which is not there",
                    f"Write skills/{name}/SKILL.md, or take the name out of the job.",
                )
    yield passed(SKILLS, counted(len(there), "skill") if there else "none")


def _overview(kind: JobKind, found: Sequence[ScheduledJob], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    paused = sum(not job.spec.enabled for job in found)
    overdue = sum(_is_overdue(job, now, zone) for job in found)
    counts = [counted(len(found), str(kind))]
    counts += [f"{paused} paused"] if paused else []
    counts += [f"{overdue} overdue"] if overdue else []
    return f"{', '.join(counts)}{_next(found, now, zone)}"


def _next(found: Sequence[ScheduledJob], now: datetime, zone: tzinfo) -> str:
    moments = ((next_due(job, now, zone), job.spec.short_title) for job in found)
    coming = sorted((moment, title) for moment, title in moments if moment is not None)
    if not coming:
        return ""
    moment, title = coming[0]
    return f"; next {describe_with_distance(moment, now)}: {title}"


def _is_overdue(job: ScheduledJob, now: datetime, zone: tzinfo) -> bool:
    is_due = isinstance(job, Reminder) and job.due(zone).astimezone(UTC) <= now.astimezone(UTC)
    return is_due and job.spec.enabled


LEDGER = "ledger"
_MOST_NAMED = 5
_SHOW = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."
_ALL = "`ollim-bot runs check` names them all."
_LEFT_OUT = "They stay where they are and harm nothing; copy the file if you want to look into it."


def ledger(
    rows: Sequence[LedgerRow], skipped: int, now: datetime, watched_until: datetime | None
) -> Iterator[Finding]:
    """`skipped` lines could not be read."""
    wrong = check(rows, now, watched_until)
    for sentence in wrong[:_MOST_NAMED]:
        yield failed(LEDGER, sentence, _SHOW)
    if len(wrong) > _MOST_NAMED:
        yield failed(LEDGER, f"{len(wrong) - _MOST_NAMED} more like that", _ALL)
    if skipped:
        yield warned(LEDGER, f"{counted(skipped, 'line')} cannot be read", _LEFT_OUT)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(LEDGER, right if runs else "no runs yet")

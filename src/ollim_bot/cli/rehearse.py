"""`ollim-bot rehearse`: what would happen in the days to come, and where it would pinch."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, open_data
from ollim_bot.cli.instants import zone_of
from ollim_bot.cli.json_output import json_flag, print_json
from ollim_bot.cli.parser import Parser
from ollim_bot.cli.wording import plain
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.rehearsal import MOST_ASKED, Circumstances, Rehearsal, rehearse, warnings
from ollim_bot.errors import WrongInput
from ollim_bot.storage.codecs.values import MemoryCodec, PingBudgetCodec, RuntimeConfigCodec
from ollim_bot.storage.jobs.reminders import REMINDERS
from ollim_bot.storage.jobs.routines import ROUTINES
from ollim_bot.upkeep.instance import running_pid

if TYPE_CHECKING:
    from ollim_bot.domain.schedule import ScheduledJob

_COMMAND = "ollim-bot rehearse"
_ABOUT = "what would happen in the days to come, as the jobs stand now"
_EXAMPLE = "ollim-bot rehearse --days 14"
_USUAL_DAYS = 7
_MOST_DAYS = 366
_SKILL_FILE = "SKILL.md"


class _Jobs(NamedTuple):
    jobs: list[ScheduledJob]
    problems: list[str]


def run(words: Sequence[str], caller: Caller) -> None:
    parser = Parser(_COMMAND, _ABOUT, _EXAMPLE)
    parser.add_argument("--days", metavar="7", help="how many days; a week if not given")
    json_flag(parser)
    given = parser.read(words)
    days = _days(given.get("days", str(_USUAL_DAYS)))
    data = open_data(caller)
    jobs = _jobs(data)
    facts = Facts(data.stored(data.paths.memory, MemoryCodec()))
    is_running = running_pid(data.paths.bot_pid) is not None
    circumstances = replace(
        _circumstances(data),
        watched_until=None if is_running else facts.heartbeat or data.now,
        skills=_skills(data.paths.skills),
        is_skipped=facts.is_skipped if facts.skips else None,
    )
    rehearsal = rehearse(jobs.jobs, circumstances, days)
    _answer(rehearsal, jobs.problems, as_json="json" in given, is_running=is_running)


def warnings_of(job: ScheduledJob, data: Data) -> Sequence[str]:
    """What to say of a job that was just added; nothing where asking would take long."""
    folders = (data.paths.routines, data.paths.reminders)
    if sum(1 for folder in folders if folder.is_dir() for _ in folder.iterdir()) > MOST_ASKED:
        return ()
    others = [other for other in _jobs(data).jobs if other != job]
    return warnings(job, others, _circumstances(data))


def _circumstances(data: Data) -> Circumstances:
    return Circumstances(
        data.now,
        zone_of(data.now),
        data.stored(data.paths.ping_budget, PingBudgetCodec(lambda: data.now)),
        data.stored(data.paths.config, RuntimeConfigCodec()),
    )


def _answer(
    rehearsal: Rehearsal, problems: Sequence[str], *, as_json: bool, is_running: bool
) -> None:
    from ollim_bot.cli.rehearsal_words import page, page_object

    if as_json:
        print_json(page_object(rehearsal, is_running=is_running) | {"problems": problems})
        return
    print(page(rehearsal, is_running=is_running), flush=True)
    for problem in problems:
        print(plain(problem), file=sys.stderr)


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= _MOST_DAYS:
        wrong = f"--days: {text!r} is not a number from 1 to {_MOST_DAYS}."
        raise WrongInput(f"{wrong} Example: {_EXAMPLE}")
    return int(text)


def _jobs(data: Data) -> _Jobs:
    routines = data.shelf(data.paths.routines, ROUTINES).report()
    reminders = data.shelf(data.paths.reminders, REMINDERS).report()
    jobs: list[ScheduledJob] = [one.item for one in routines.jobs]
    jobs += [one.item for one in reminders.jobs]
    return _Jobs(jobs, [*routines.problems, *reminders.problems])


def _skills(folder: Path) -> frozenset[str]:
    return frozenset(path.parent.name for path in folder.glob(f"*/{_SKILL_FILE}"))

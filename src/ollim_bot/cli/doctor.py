"""`ollim-bot doctor`: checks the installation, and repairs what is safe."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.cli.terminal import Style, painted, typed, width_of, wrapped
from ollim_bot.errors import BadSettings, OllimError
from ollim_bot.upkeep.doctor import (
    DoctorFinding,
    DoctorInput,
    Level,
    Repair,
    has_failures,
    report,
    summary,
)

if TYPE_CHECKING:
    from ollim_bot.environment import Location
    from ollim_bot.settings import Settings

_INDENT = "      "
_STYLES = {"PASS": Style.GREEN, "WARN": Style.YELLOW, "FAIL": Style.RED, "FIXED": Style.GREEN}
_FIXED = "FIXED"
_NOTHING = "There was nothing to mend."
_LEVEL = re.compile(rf"^(?:{'|'.join(_STYLES)})\b")
_FOR_OWNER = (
    "Not looked at, because you have no keys here: {}. The owner's `/doctor` looks at them too."
)


@command(
    "doctor",
    "check everything, and say what to do where something is wrong",
    "",
    JSON,
    argument(
        "--fix",
        action="store_true",
        help="mend what is safe to mend (permissions, links, stale locks), then look again",
    ),
)
def run(flags: Given, caller: Caller) -> None:
    from ollim_bot.upkeep.examination import OWNERS, examine, mend

    given = _doctor_input(caller)
    for_owner = OWNERS if given.is_agents else ()
    findings = examine(given, for_owner)
    repairs = mend(given, findings) if "fix" in flags else None
    if repairs:
        findings = examine(_doctor_input(caller))
    if "json" in flags:
        print_json(_object(findings, repairs, for_owner))
    else:
        text = report(findings) if repairs is None else f"{_told(repairs)}\n\n{report(findings)}"
        if for_owner:
            text += f"\n{_FOR_OWNER.format(', '.join(for_owner))}"
        print(_in_terminal(plain(text), caller.environ))
    if has_failures(findings):
        raise OllimError("")  # the report is printed; only the exit code is left


def _told(repairs: Sequence[Repair]) -> str:
    return "\n".join(f"{_FIXED}  {name}: {what}" for name, what in repairs) or _NOTHING


def print_short_report(caller: Caller) -> bool:
    """Print what is not right, and the summary. Returns whether a check has failed."""
    from ollim_bot.upkeep.examination import examine

    findings = examine(_doctor_input(caller))
    wrong = [finding for finding in findings if not finding.level.is_right]
    lines = [*report(wrong).splitlines()[:-1], summary(findings)]
    print(_in_terminal(plain("\n".join(lines)), caller.environ), flush=True)
    return has_failures(findings)


def _in_terminal(text: str, environ: Mapping[str, str]) -> str:
    """The report in lines of whole words, with the level of each finding in its colour."""
    width = width_of(sys.stdout)
    lines = [wrapped(line, width, _INDENT) for line in typed(text).splitlines()]
    return "\n".join(_LEVEL.sub(lambda found: _painted(found[0], environ), line) for line in lines)


def _painted(level: str, environ: Mapping[str, str]) -> str:
    return painted(level, _STYLES[level], sys.stdout, environ)


def _doctor_input(caller: Caller) -> DoctorInput:
    environ, now = caller.environ, caller.now()
    settings: Settings | None = None
    place: Location | None = None
    problems: Sequence[str] = ()
    try:
        place = settings = caller.settings()
    except BadSettings as bad:
        problems = bad.problems
        with suppress(BadSettings):
            place = caller.place()
    is_agents = place is not None and caller.agent is not None
    return DoctorInput(settings, place, problems, environ, now, is_agents=is_agents)


def _object(
    findings: Sequence[DoctorFinding], repairs: Sequence[Repair] | None, for_owner: Sequence[str]
) -> dict[str, object]:
    levels = [finding.level for finding in findings]
    fixed = {} if repairs is None else {"fixed": [repair._asdict() for repair in repairs]}
    left_out = {"for_owner": [*for_owner]} if for_owner else {}
    return {
        **fixed,
        **left_out,
        "findings": [_row(finding) for finding in findings],
        "passed": levels.count(Level.PASS),
        "warnings": levels.count(Level.WARN),
        "failures": levels.count(Level.FAIL),
        "off": levels.count(Level.OFF),
    }


def _row(finding: DoctorFinding) -> dict[str, str]:
    names = ("level", "name", "detail", "next")
    return {name: str(getattr(finding, name)) for name in names}

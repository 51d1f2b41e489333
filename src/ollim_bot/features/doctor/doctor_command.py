"""`ollim-bot doctor`: checks the installation, and repairs what is safe."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import BadSettings, OllimError
from ollim_bot.kernel.upkeep.findings import DoctorInput, Level, has_failures, report, summary
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, argument, command, plain, print_json
from ollim_bot.surfaces.terminal.printing import Style, painted, typed, width_of, wrapped

if TYPE_CHECKING:
    from ollim_bot.kernel.base.environment import Location
    from ollim_bot.kernel.base.settings import Settings

_STYLES = {"PASS": Style.GREEN, "WARN": Style.YELLOW, "FAIL": Style.RED, "FIXED": Style.GREEN}
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
    from ollim_bot.features.doctor.examination import checks, examine, mend

    given = _doctor_input(caller)
    # What these look at, the environment of the agent does not have.
    for_owner = [check.name for check in checks() if check.is_owners and given.is_agents]
    findings = examine(given, lambda check: check.name in for_owner)
    repairs = mend(given, findings) if "fix" in flags else None
    if repairs:
        findings = examine(_doctor_input(caller))
    if "json" in flags:
        levels = [finding.level for finding in findings]
        rows = (
            {"level": each.level, "name": each.name, "detail": each.detail, "next": each.next}
            for each in findings
        )
        print_json(
            {
                **({} if repairs is None else {"fixed": [repair._asdict() for repair in repairs]}),
                **({"for_owner": for_owner} if for_owner else {}),
                "findings": [*rows],
                "passed": levels.count(Level.PASS),
                "warnings": levels.count(Level.WARN),
                "failures": levels.count(Level.FAIL),
                "off": levels.count(Level.OFF),
            }
        )
    else:
        lines = [report(findings)]
        if repairs is not None:
            mended = (f"FIXED  {name}: {what}" for name, what in repairs)
            lines = ["\n".join(mended) or "There was nothing to mend.", "", *lines]
        if for_owner:
            lines.append(_FOR_OWNER.format(", ".join(for_owner)))
        _print("\n".join(lines), caller.environ)
    if has_failures(findings):
        raise OllimError("")  # the report is printed; only the exit code is left


def print_short_report(caller: Caller) -> bool:
    """Print what is not right, and the summary. Returns whether a check has failed."""
    from ollim_bot.features.doctor.examination import examine

    findings = examine(_doctor_input(caller))
    wrong = [finding for finding in findings if not finding.level.is_right]
    _print("\n".join([*report(wrong).splitlines()[:-1], summary(findings)]), caller.environ)
    return has_failures(findings)


def _print(text: str, environ: Mapping[str, str]) -> None:
    """Print the report in lines of whole words, with the level of each finding in its colour."""
    width = width_of(sys.stdout)
    for line in typed(plain(text)).splitlines():
        shown = wrapped(line, width, " " * 6)
        if level := _LEVEL.match(shown):
            colour = painted(level[0], _STYLES[level[0]], sys.stdout, environ)
            shown = colour + shown.removeprefix(level[0])
        print(shown)
    sys.stdout.flush()


def _doctor_input(caller: Caller) -> DoctorInput:
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
    return DoctorInput(settings, place, problems, caller.environ, caller.now(), is_agents=is_agents)

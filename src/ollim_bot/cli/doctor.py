"""`ollim-bot doctor`: checks the installation, and says how to repair it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import json_flag, plain, print_json
from ollim_bot.cli.parser import Parser
from ollim_bot.cli.terminal import Style, painted, typed, width_of, wrapped
from ollim_bot.errors import BadSettings, OllimError
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, Level, has_failures, report

_COMMAND = "ollim-bot doctor"
_INDENT = "      "
_STYLES = {Level.PASS: Style.GREEN, Level.WARN: Style.YELLOW, Level.FAIL: Style.RED}
_LEVEL = re.compile(rf"^(?:{'|'.join(Level)})\b")
_ABOUT = "whether everything is as it should be, and what to do where it is not"


def run(words: Sequence[str], caller: Caller) -> None:
    parser = Parser(_COMMAND, _ABOUT, _COMMAND)
    json_flag(parser)
    given = parser.read(words)
    from ollim_bot.upkeep.examination import examine

    findings = examine(_doctor_input(caller))
    if "json" in given:
        print_json(_object(findings))
    else:
        print(_in_terminal(plain(report(findings)), caller.environ))
    if has_failures(findings):
        raise OllimError("")  # the report is printed; only the exit code is left


def _in_terminal(text: str, environ: Mapping[str, str]) -> str:
    """The report in lines of whole words, with the level of each finding in its colour."""
    width = width_of(sys.stdout)
    lines = [wrapped(line, width, _INDENT) for line in typed(text).splitlines()]
    return "\n".join(_LEVEL.sub(lambda found: _painted(found[0], environ), line) for line in lines)


def _painted(level: str, environ: Mapping[str, str]) -> str:
    return painted(level, _STYLES[Level(level)], sys.stdout, environ)


def _doctor_input(caller: Caller) -> DoctorInput:
    environ, now = caller.environ, caller.now()
    try:
        settings = caller.settings()
        return DoctorInput(settings, settings, (), environ, now)
    except BadSettings as bad:
        problems = bad.problems
    try:
        return DoctorInput(None, caller.place(), problems, environ, now)
    except BadSettings:
        return DoctorInput(None, None, problems, environ, now)


def _object(findings: Sequence[DoctorFinding]) -> dict[str, object]:
    levels = [finding.level for finding in findings]
    return {
        "findings": [asdict(finding) for finding in findings],
        "passed": levels.count(Level.PASS),
        "warnings": levels.count(Level.WARN),
        "failures": levels.count(Level.FAIL),
    }

"""The rows of the doctor's table, one by one; whatever they find wrong comes with a command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from ollim_bot.features.doctor.examination import checks
from ollim_bot.kernel.upkeep.findings import Check, DoctorFinding, DoctorInput

NOTHING = DoctorInput(None, None, (), {}, datetime(2026, 11, 15, tzinfo=UTC))
COMMAND = re.compile(
    r"`(?:/restart\b|(?:sudo )?(?:apt|chmod|chown|df|du|git|kill|loginctl|ls|mv|ollim-bot|openssl"
    r"|pipx|rm|timedatectl|touch)\b)"
)


def check(name: str) -> Check:
    return next(each for each in checks() if each.name == name)


def look(given: DoctorInput, *names: str) -> list[DoctorFinding]:
    """What the checks of these names find."""
    return with_commands(finding for name in names for finding in check(name).found(given))


def told(name: str, findings: Iterable[DoctorFinding]) -> list[DoctorFinding]:
    """The findings as the check of this name tells them."""
    return with_commands(replace(check(name), look=lambda _: findings).found(NOTHING))


def with_commands(findings: Iterable[DoctorFinding]) -> list[DoctorFinding]:
    found = list(findings)
    for each in found:
        assert each.level.is_right or COMMAND.search(each.next), each
    return found

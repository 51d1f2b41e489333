"""The rows of the doctor's table, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from ollim_bot.upkeep.doctor import Check, DoctorFinding, DoctorInput
from ollim_bot.upkeep.examination import CHECKS

NOTHING = DoctorInput(None, None, (), {}, datetime(2026, 11, 15, tzinfo=UTC))


def check(name: str) -> Check:
    return next(each for each in CHECKS if each.name == name)


def look(given: DoctorInput, *names: str) -> list[DoctorFinding]:
    """What the checks of these names find."""
    return [finding for name in names for finding in check(name).found(given)]


def told(name: str, findings: Iterable[DoctorFinding]) -> list[DoctorFinding]:
    """The findings as the check of this name tells them."""
    return replace(check(name), look=lambda _: findings).found(NOTHING)

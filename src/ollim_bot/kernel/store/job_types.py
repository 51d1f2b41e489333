"""The registry of the kinds of job: how the files of each are read and written.

What is particular to a kind besides that is said by the class of its jobs, in the domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.job_formats import REMINDERS, JobFormat
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.store.webhook_format import WEBHOOKS

JOB_TYPES: Mapping[JobKind, JobFormat[Any]] = {
    JobKind.ROUTINE: ROUTINES,
    JobKind.REMINDER: REMINDERS,
    JobKind.WEBHOOK: WEBHOOKS,
}

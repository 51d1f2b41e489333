"""The form of a job, made up for the page."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.web.days import HOSTILE

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.job_form import JobForm, form_of
from ollim_bot.domain.jobs import JobSpec, JobText, Routine

NOW = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)


def hostile_form() -> JobForm:
    """A form with everything in it, whose texts all try to be markup."""
    text = f"\n</textarea>{HOSTILE}\n</details>&amp;"
    spec = JobSpec(
        id="plan",
        message=text,
        description=f'">{HOSTILE}',
        first_step=HOSTILE,
        untrusted=HOSTILE,
        set_by="routine:x",
    )
    job = Routine(spec, Cron.parse("0 9 * * 1-5"))
    return form_of(job, "plan", JobText("plan.md", text), NOW, is_skipped=False)

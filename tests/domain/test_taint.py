"""What a run has read of others, and what tells of it later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ollim_bot.domain.jobs import JobSpec, Reminder, WebhookSpec
from ollim_bot.domain.runs import taint_of_job
from ollim_bot.domain.taint import (
    Taint,
    addresses_in,
    marked_taint,
    reading_of,
)

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
TYPED = "see (https://Example.com/a_(b)), or x.example/y. And <https://q.example/?a=1#top>!"
TAINT = Taint(("forwarded message",), addresses_in(TYPED))


def test_a_mark_gives_back_the_sources() -> None:
    taint = Taint(("web page", "mail"))
    assert marked_taint(taint.mark) == taint
    assert (Taint().mark, marked_taint(None), marked_taint(" , ")) == ("", Taint(), Taint())


def test_a_job_taints_its_run_by_its_mark_and_a_webhook_by_its_values() -> None:
    spec = JobSpec(id="a", message="See https://news.example/today.")
    trusted, marked = Reminder(spec, NOW), Reminder(replace(spec, untrusted="mail"), NOW)
    assert taint_of_job(trusted) == Taint(addresses=addresses_in(spec.message))
    assert taint_of_job(marked) == Taint(("mail",))
    assert taint_of_job(WebhookSpec(spec, {})).sources == ("webhook request",)


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("ollim-bot gmail unread", "mail"),
        ("'/opt/venv/bin/ollim-bot' 'gmail' 'read' '1'", "mail"),
        ("/opt/venv/bin/ollim-bot cal today", "calendar entry"),
        ("/opt/other gmail unread", "text that others wrote"),
    ],
)
def test_what_a_command_of_ours_has_shown_is_named_also_by_its_path(
    command: str, source: str
) -> None:
    result = "Data\n<untrusted-0123456789abcdef>\nx\n</untrusted-0123456789abcdef>"
    reading = reading_of("Bash", {"command": command}, result, ())
    assert reading is not None
    assert reading.source == source

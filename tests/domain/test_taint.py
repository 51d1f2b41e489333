"""What a run has read of others, and what tells of it later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ollim_bot.domain.hook_jobs import WebhookSpec
from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.runs import taint_of_job
from ollim_bot.domain.taint import (
    Reading,
    Taint,
    addresses_in,
    kind_of,
    marked_taint,
    reading_of,
    site_of,
)

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
TYPED = "see (https://Example.com/a_(b)), or x.example/y. And <https://q.example/?a=1#top>!"
TAINT = Taint(("forwarded message",), addresses_in(TYPED))


SITES = {
    "https://News.Example/today?a=b": "news.example",
    "HTTP://news.example:8080": "news.example",
    " https://news.example#top": "news.example",
    "https://xn--bcher-kva.example/": "xn--bcher-kva.example",
    "https://bücher.example/": "",
    "https://b\u0131g.example/": "",
    "https://ban\u212a.example/": "",
    f"https://{'a' * 50}.{'b' * 30}.example/": f"{'a' * 21}.{'b' * 30}.example",
    "https://ada@news.example/": "",
    "https://evil.example\\@news.example/": "",
    "https://[::1]/": "",
    "https://news example/": "",
    "https://*you-may*.example/": "",
    "https://news.example。evil.example/": "",
    "https://news.example%2eevil.example/": "",
    "ftp://news.example/": "",
    "news.example": "",
    "": "",
}


@pytest.mark.parametrize(("url", "site"), SITES.items())
def test_a_page_is_named_by_its_site_in_plain_characters(url: str, site: str) -> None:
    assert site_of(url) == site
    reading = reading_of("WebFetch", {"url": url}, "", ())
    assert reading == Reading(f"web page {site}" if site else "web page")


def test_many_sites_are_one_kind_and_are_not_all_named() -> None:
    taint = Taint()
    for number in range(30):
        taint = taint.after(Reading(f"web page {number}.example")).after(Reading("mail"))
    assert len(taint.sources) == 22
    assert {*map(kind_of, taint.sources)} == {"web page", "mail"}
    assert taint.in_words == "a web page 0.example and a mail and a web page 1.example and 19 more"


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

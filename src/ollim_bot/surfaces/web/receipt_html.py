"""The receipt of a day as markup for the page: what was due, and why something did not come."""

from __future__ import annotations

from datetime import datetime
from html import escape

from ollim_bot.domain.moments import describe
from ollim_bot.domain.receipts import DueThing, Receipt
from ollim_bot.domain.run_pages import address_of_run
from ollim_bot.domain.text import one_line
from ollim_bot.surfaces.web.marked import marked

_LONGEST = 120
_MOST = 20


def receipt_html(receipt: Receipt, now: datetime, *, is_linked: bool = True) -> str:
    """The numbers, what did not simply come with its reason, and whether all is accounted for."""
    lines = "".join(_line(each, now) for each in receipt.notable[:_MOST])
    left = len(receipt.notable) - _MOST
    day = f"/runs?day={receipt.day.isoformat()}"
    more = f'<p><a href="{day}">{left} more</a></p>' if left > 0 else ""
    link = f' <a href="{day}">The runs of the day</a>' if is_linked else ""
    things = f'<ul class="things">{lines}</ul>' if lines else ""
    return (
        '<section class="receipt"><h3>Receipt of the day</h3>'
        f"<p>{escape(receipt.sentence(now))}</p>{things}{more}"
        f'<p class="about">{marked(receipt.checked)}{link}</p></section>'
    )


def _line(thing: DueThing, now: datetime) -> str:
    due = thing.due.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    title, reason = one_line(thing.title, _LONGEST), one_line(thing.why(now), _LONGEST)
    about = f"{thing.word}: {reason}" if reason else thing.word
    why = "" if thing.story is None else why_link(thing.occurrence.id, title)
    return (
        f'<li class="thing"><p><time datetime="{escape(thing.due.isoformat())}">'
        f'{escape(describe(due, now))}</time> <bdi class="what">{escape(title)}</bdi> '
        f'<bdi class="about">{escape(about)}</bdi></p>{why}</li>'
    )


def why_link(run: str, title: str) -> str:
    """Leads to the page of a run."""
    name = escape(f"Why? {title}")
    href = escape(address_of_run(run))
    return f'<div class="buttons"><a href="{href}" aria-label="{name}">Why?</a></div>'

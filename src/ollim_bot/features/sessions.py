"""The conversations on the page, of which the owner can go back to each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import counted, shortened
from ollim_bot.kernel.values.sessions import CompactionLine, SessionLine, SessionList
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    joined_parts,
    list_section,
    show_more,
    time_html,
)

_EMPTY = "There are no conversations yet. Write a message, and the first one stands here."
_NO_WORDS = "no words yet"
_LONGEST = 300


@joined_parts
def sessions_html(listed: SessionList, most: int) -> Iterator[str]:
    """The main conversations, those beside them, and what was shortened, `most` of each."""
    yield "<h2>Sessions</h2>"
    if not listed.main and not listed.side:
        yield f'<p class="empty">{_EMPTY}</p>'
    main = [_session(each, listed.now) for each in listed.main[:most]]
    side = [_session(each, listed.now) for each in listed.side[:most]]
    compactions = [_compaction(each, listed.now) for each in listed.compactions[:most]]
    parts = (
        ("main", "Conversations", main),
        ("side", "Side conversations", side),
        ("compactions", "Compactions", compactions),
    )
    for name, heading, lines in parts:
        yield list_section(f"sessions-{name}", heading, lines)
    lists = (listed.main, listed.side, listed.compactions)
    yield show_more(sum(max(0, len(each) - most) for each in lists))


def _session(line: SessionLine, now: datetime) -> str:
    notes = [counted(line.answers, "answer")] if line.answers else []
    notes += ["this one"] if line.is_current else []
    back_to = None if line.is_current else line.id
    return _line(line, " · ".join(notes), back_to, "Go back to it", now)


def _compaction(line: CompactionLine, now: datetime) -> str:
    note = "shortened to a summary" if line.before else "shortened to a summary, in place"
    return _line(line, note, line.before, "Go back before it", now)


def _line(
    line: SessionLine | CompactionLine,
    note: str,
    back_to: SessionId | None,
    label: str,
    now: datetime,
) -> str:
    words, button = shortened(line.words, _LONGEST) or _NO_WORDS, ""
    if back_to:
        button = (
            f'<div class="buttons"><button type="button" data-action="resume" '
            f'data-field-id="{escape(back_to)}" aria-label="{escape(f"{label}: {words}")}">'
            f"{label}</button></div>"
        )
    return (
        f'<li class="thing"><p>{time_html(line.at, describe(line.at, now), "about")} '
        f'<bdi class="what">{escape(words)}</bdi>{about(note)}</p>{button}</li>'
    )


PAGES = (ViewPage("sessions", "Sessions", sessions_html, "s"),)

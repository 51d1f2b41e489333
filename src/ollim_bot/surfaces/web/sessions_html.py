"""The conversations as markup for the page. Every text in it is data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.moments import describe
from ollim_bot.domain.session_list import CompactionLine, SessionLine, SessionList
from ollim_bot.domain.text import counted, shortened
from ollim_bot.surfaces.web.marked import section, show_more

_EMPTY = "There are no conversations yet. Write a message, and the first one stands here."
_NO_WORDS = "no words yet"
_LONGEST = 300


def sessions_html(listed: SessionList, most: int) -> str:
    """The main conversations, those beside them, and what was shortened, `most` of each."""
    lists = (listed.main, listed.side, listed.compactions)
    left = sum(max(0, len(each) - most) for each in lists)
    return "".join([*_parts(listed, most), show_more(left)])


def _parts(listed: SessionList, most: int) -> Iterator[str]:
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
        if lines:
            things = f'<ul class="things">{"".join(lines)}</ul>'
            yield section(f"sessions-{name}", heading, things)


def _session(line: SessionLine, now: datetime) -> str:
    about = [counted(line.answers, "answer")] if line.answers else []
    about += ["this one"] if line.is_current else []
    button = "" if line.is_current else _resume(line.id, "Go back to it", line.words)
    return _line(line.at, line.words, about, button, now)


def _compaction(line: CompactionLine, now: datetime) -> str:
    about = ["shortened to a summary"] if line.before else ["shortened to a summary, in place"]
    button = _resume(line.before, "Go back before it", line.words) if line.before else ""
    return _line(line.at, line.words, about, button, now)


def _line(at: datetime, words: str, about: Sequence[str], button: str, now: datetime) -> str:
    minute = at.replace(second=0, microsecond=0)
    moment = escape(describe(minute, now))
    when = f'<time class="about" datetime="{escape(at.isoformat())}">{moment}</time>'
    note = f' <span class="about">{escape(" · ".join(about))}</span>' if about else ""
    what = escape(shortened(words, _LONGEST) or _NO_WORDS)
    return f'<li class="thing"><p>{when} <bdi class="what">{what}</bdi>{note}</p>{button}</li>'


def _resume(session: SessionId, label: str, words: str) -> str:
    name = escape(f"{label}: {shortened(words, _LONGEST) or _NO_WORDS}")
    return (
        f'<div class="buttons"><button type="button" data-action="resume" '
        f'data-field-id="{escape(session)}" aria-label="{name}">{label}</button></div>'
    )

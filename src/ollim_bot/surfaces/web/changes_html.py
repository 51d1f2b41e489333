"""The changes as markup for the page. Every text in it is data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from html import escape

from ollim_bot.domain.answer_undo import state_words
from ollim_bot.domain.change_list import CHANGERS, ChangeFilter, ChangeLine, ChangeList
from ollim_bot.domain.changes import ANSWER, SETTING, ChangeRow
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.run_pages import address_of_run
from ollim_bot.domain.text import counted, shortened
from ollim_bot.surfaces.web.marked import section

_EMPTY = (
    "Nothing was changed yet. What you, the bot or an editor change from now on stands here, with "
    'a way back. Begin with a setting: <a href="/settings">Settings</a>.'
)
_NOTHING_FITS = 'No change fits. <a href="/changes">Show all</a>'
_LONGEST_LINE = 300
_FIRST_LINES = 6


def changes_html(listed: ChangeList, _: int) -> str:
    """The changes, each with Undo or the reason why not, and the older history below them."""
    return "".join(_parts(listed))


def _parts(listed: ChangeList) -> Iterator[str]:
    yield "<h2>Changes</h2>"
    yield _filter(listed.meant)
    if not listed.lines and not listed.older:
        is_filtered = listed.meant != ChangeFilter()
        yield f'<p class="empty">{_NOTHING_FITS if is_filtered else _EMPTY}</p>'
    if listed.lines:
        lines = "".join(_line(each, listed.now) for each in listed.lines)
        yield f'<ul class="things">{lines}</ul>'
    if listed.older:
        lines = "".join(
            f'<li class="thing"><p>{_time(at, listed.now)} <bdi class="what">{_short(what)}</bdi>'
            "</p></li>"
            for at, what in listed.older
        )
        things = f'<ul class="things">{lines}</ul>'
        yield section("changes-older", "Older, from the history in git", things)
    if listed.has_more:
        yield '<button type="button" class="plain" data-most>Show more</button>'


def _filter(meant: ChangeFilter) -> str:
    options = "".join(
        f'<option value="{each}"{" selected" if each == meant.who else ""}>{each}</option>'
        for each in CHANGERS
    )
    return (
        '<form data-filter="1"><label>Who<select name="who"><option value="">anyone</option>'
        f"{options}</select></label><label>Find"
        f'<input name="words" value="{escape(meant.words)}" autocomplete="off"></label></form>'
    )


def _line(line: ChangeLine, now: datetime) -> str:
    change = line.change
    about = [change.key]
    about += [f"undoes {change.undoes}"] if change.undoes else []
    about += ["undone"] if line.is_undone else []
    about += [f"with words of others: {change.untrusted}"] if change.untrusted else []
    return (
        f'<li class="thing"><p>{_time(change.at, now)} {_did(change)} '
        f'<bdi class="what">{_short(change.what)}</bdi> '
        f'<span class="about">by {_cause(change)}'
        f"{''.join(f' · <bdi>{_short(each)}</bdi>' for each in about)}</span>"
        f"</p>{_difference(line, now)}{_undo(line)}</li>"
    )


def _cause(change: ChangeRow) -> str:
    """Who made the change, and in which turn or run; a run leads to its own page."""
    if not change.cause:
        return change.by
    cause = f"<bdi>{_short(change.cause)}</bdi>"
    with suppress(ValueError):
        run = Occurrence.parse(change.cause).id
        cause = f'<a href="{escape(address_of_run(run))}">{cause}</a>'
    return f"{change.by}, {cause}"


def _did(change: ChangeRow) -> str:
    return "answered" if change.kind == ANSWER else change.did


def _difference(line: ChangeLine, now: datetime) -> str:
    change = line.change
    if change.kind == ANSWER:
        return _pair(state_words(change.before, now), state_words(change.after, now))
    if change.kind == SETTING:
        return _pair(str(change.before), str(change.after))
    if not line.difference:
        command = f"<code>ollim-bot changes {escape(change.key)}</code>"
        return "" if change.is_cut else f'<p class="about">{command} shows it whole.</p>'
    first, rest = line.difference[:_FIRST_LINES], line.difference[_FIRST_LINES:]
    lines = "".join(map(_changed, first))
    if not rest:
        return f'<ul class="difference">{lines}</ul>'
    more = "".join(map(_changed, rest))
    return (
        f'<ul class="difference">{lines}</ul><details data-fold="{escape(change.key)}"><summary>'
        f'{counted(len(rest), "more line")}</summary><ul class="difference">{more}</ul></details>'
    )


def _pair(before: str, after: str) -> str:
    return (
        f"<p>was <del><bdi>{_short(before)}</bdi></del>, "
        f"is <ins><bdi>{_short(after)}</bdi></ins></p>"
    )


def _changed(line: str) -> str:
    tag, word = ("ins", "added") if line.startswith("+") else ("del", "removed")
    text = f"<bdi>{_short(line[1:])}</bdi>"
    return f"<li><span>{word}</span> <{tag}>{text}</{tag}></li>"


def _undo(line: ChangeLine) -> str:
    if line.is_undone:
        return ""
    if line.refusal:
        edit = f' <a href="{escape(line.edit)}">Edit</a>' if line.edit else ""
        return f'<p class="about">Undo is not possible: <bdi>{escape(line.refusal)}</bdi>{edit}</p>'
    change = line.change
    name = escape(f"Undo: {_did(change)} {shortened(change.what, _LONGEST_LINE)}, {change.key}")
    return (
        '<div class="buttons"><button type="button" data-action="undo" '
        f'data-field-id="{escape(change.key)}" aria-label="{name}">Undo</button></div>'
    )


def _time(at: datetime, now: datetime) -> str:
    local = at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    return f'<time datetime="{escape(at.isoformat())}">{escape(describe(local, now))}</time>'


def _short(text: str) -> str:
    return escape(shortened(text, _LONGEST_LINE))

"""What the bot knows about the owner, as markup for the page. Every text in it is data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from html import escape
from itertools import groupby

from ollim_bot.domain.about_me import AboutMe, KnownLine
from ollim_bot.surfaces.web.marked import section, show_more

_EMPTY = (
    "It has written down nothing about you yet. What it remembers will stand here, line by line: "
    "tell it something in Chat that it should remember."
)
_EVERYWHERE = (
    "Forget takes a line out of the notes; the log, past runs and the history still have it. To "
    "have words gone everywhere, stop the bot and type "
    '<code>ollim-bot forget --everywhere "likes tea"</code> with your own: it lists the places '
    "first and asks, and it cannot be undone."
)


def about_me_html(known: AboutMe, most: int) -> str:
    """The notes by file, each line with its source, Edit and Forget; `most` lines at most."""
    return "".join(_parts(known, most))


def _parts(known: AboutMe, most: int) -> Iterator[str]:
    yield "<h2>About me</h2>"
    for problem in known.problems:
        yield f'<p class="problem"><bdi>{escape(problem)}</bdi></p>'
    if not known.lines:
        yield f'<p class="empty">{_EMPTY}</p>'
        return
    for number, (file, lines) in enumerate(groupby(known.lines[:most], lambda line: line.file)):
        shown = "".join(_line(each, known.today) for each in lines)
        heading = f"<bdi>{escape(file)}</bdi>"
        yield section(f"about-{number}", heading, f'<ul class="things">{shown}</ul>')
    yield show_more(len(known.lines) - most)
    yield f'<p class="remark">{_EVERYWHERE}</p>'


def _line(line: KnownLine, today: date) -> str:
    name, text = escape(line.reference), escape(line.text)
    origin = escape(line.origin(today))
    about = f' <span class="about">{origin}</span>' if origin else ""
    fields = (
        f'data-field-file="{escape(line.file)}" data-field-line="{line.number}" '
        f'data-field-text="{text}"'
    )
    return (
        f'<li class="thing"><p><bdi class="what">{text}</bdi>{about}</p><div class="buttons">'
        f'<details class="more" data-fold="{name}"><summary aria-label="Edit: {name}">Edit'
        f'</summary><form data-action="edit" {fields}><label>Line {line.number} of '
        f'<bdi>{escape(line.file)}</bdi><input name="words" value="{text}" autocomplete="off" '
        f'required></label><button aria-label="Save: {name}">Save</button></form></details>'
        f'<button type="button" data-action="forget" {fields} aria-label="Forget: {name}">Forget'
        "</button></div></li>"
    )

"""What several views share: our own sentences as markup, a part with its heading, a receipt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from html import escape
from typing import Any, NamedTuple, ParamSpec

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import one_line, with_program
from ollim_bot.kernel.values.receipts import DueThing, Receipt
from ollim_bot.kernel.values.run_words import address_of_run

P = ParamSpec("P")


class ViewPage(NamedTuple):
    """How the page shows the view `name`, which `draw` draws with so many lines of each list.

    The `letter` leads to it after `g`. A `path` that ends with a slash is followed by an id. A
    narrow screen has a link to it under More, unless it `is_in_bar`. If it `is_paged`, the view is
    also asked for `most`, and reads no more lines than that.
    """

    name: str
    title: str
    draw: Callable[[Any, int], str]
    letter: str = ""
    style: str = ""
    path: str = ""
    is_in_bar: bool = False
    is_paged: bool = False

    @property
    def pattern(self) -> str:
        """Its addresses, without the first slash."""
        return rf"{self.path[1:]}[\s\S]+" if self.path else self.name

    @property
    def json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "path": self.path or f"/{self.name}",
            "title": self.title,
            "letter": self.letter,
            "isInBar": self.is_in_bar,
            "style": self.style,
        }


_CODE = re.compile(r"`([^`]+)`")
_SHOWN = re.compile(r"(?<=<code>)[^<]+")


def joined_parts(parts: Callable[P, Iterator[str]]) -> Callable[P, str]:
    """Make a function that yields parts of markup return them as one text."""

    @wraps(parts)
    def whole(*args: P.args, **kwargs: P.kwargs) -> str:
        return "".join(parts(*args, **kwargs))

    return whole


def marked(sentence: str) -> str:
    """The sentence, escaped, with its commands set apart."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))


def section(key: str, heading: str, body: str, kind: str = "") -> str:
    """A part of a view below its heading; both are markup, and the heading names the part."""
    begin = f'<section class="{kind}"' if kind else "<section"
    return f'{begin} aria-labelledby="{key}"><h3 id="{key}">{heading}</h3>{body}</section>'


def things(lines: Iterable[str]) -> str:
    return f'<ul class="things">{"".join(lines)}</ul>'


def list_section(key: str, heading: str, lines: Sequence[str], kind: str = "") -> str:
    """A list below its heading; empty without lines."""
    return section(key, heading, things(lines), kind) if lines else ""


def fold(key: str, summary: str, body: str) -> str:
    """A part that the owner opens, which stays open by its `key`; all three are markup."""
    return f'<details data-fold="{key}"><summary>{summary}</summary>{body}</details>'


def about(note: str) -> str:
    """A note behind the words of a line; empty if there is none."""
    return f' <span class="about">{escape(note)}</span>' if note else ""


def time_html(at: datetime, words: str, kind: str = "") -> str:
    begin = f'<time class="{kind}"' if kind else "<time"
    return f'{begin} datetime="{escape(at.isoformat())}">{escape(words)}</time>'


def show_more(left: int) -> str:
    """The button that asks for more of the lists; empty if nothing is left."""
    button = f'<button type="button" class="plain" data-most>Show more · {left} left</button>'
    return button if left > 0 else ""


def select(name: str, options: Iterable[tuple[str, str]], chosen: str) -> str:
    """A field with these values and labels, of which one is chosen."""
    listed = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>'
        f"{escape(label)}</option>"
        for value, label in options
    )
    return f'<select name="{name}">{listed}</select>'


_LONGEST = 120
_MOST_THINGS = 20


def receipt_html(receipt: Receipt, now: datetime, *, is_linked: bool = True) -> str:
    """The numbers, what did not simply come with its reason, and whether all is accounted for."""
    lines = [_receipt_line(each, now) for each in receipt.notable[:_MOST_THINGS]]
    left = len(receipt.notable) - _MOST_THINGS
    day = f"/runs?day={receipt.day.isoformat()}"
    more = f'<p><a href="{day}">{left} more</a></p>' if left > 0 else ""
    link = f' <a href="{day}">The runs of the day</a>' if is_linked else ""
    return (
        '<section class="receipt"><h3>Receipt of the day</h3>'
        f"<p>{escape(receipt.sentence(now))}</p>{things(lines) if lines else ''}{more}"
        f'<p class="about">{marked(receipt.checked)}{link}</p></section>'
    )


def _receipt_line(thing: DueThing, now: datetime) -> str:
    title = one_line(thing.title, _LONGEST)
    reason = one_line(thing.why(now), _LONGEST)
    about = f"{thing.word}: {reason}" if reason else thing.word
    link = ""
    if thing.story is not None:
        name, href = escape(f"Why? {title}"), escape(address_of_run(thing.occurrence.id))
        link = f'<div class="buttons"><a href="{href}" aria-label="{name}">Why?</a></div>'
    return (
        f'<li class="thing"><p>{time_html(thing.due, describe(thing.due, now))} '
        f'<bdi class="what">{escape(title)}</bdi> '
        f'<bdi class="about">{escape(about)}</bdi></p>{link}</li>'
    )


def quick_add(label: str, example: str) -> str:
    """The line that adds something; the page says beneath it what it would add."""
    return (
        '<form class="quick-add" data-action="add" data-previews="1" data-once="1">'
        f'<label>{label}<input name="line" maxlength="400" autocomplete="off" '
        f'enterkeyhint="done" placeholder="{example}" required></label>'
        '<button>Add</button><div class="preview" aria-live="polite"></div>'
        '<p class="problem" role="alert"></p></form>'
    )


def with_typed_commands(html: str, program: str) -> str:
    """The markup with its commands as they are typed where the program is called `program`.

    Text in a field, and text that is not marked as a command, stays.
    """
    return _SHOWN.sub(lambda found: with_program(f"{found[0]}`", program)[:-1], html)

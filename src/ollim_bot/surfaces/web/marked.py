"""What several views share: our own sentences as markup, a part with its heading, a button."""

from __future__ import annotations

import re
from html import escape

from ollim_bot.domain.text import with_program

_CODE = re.compile(r"`([^`]+)`")
_SHOWN = re.compile(r"(?<=<code>)[^<]+")


def marked(sentence: str) -> str:
    """The sentence, escaped, with its commands set apart."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))


def section(key: str, heading: str, body: str, kind: str = "") -> str:
    """A part of a view below its heading; both are markup, and the heading names the part."""
    begin = f'<section class="{kind}"' if kind else "<section"
    return f'{begin} aria-labelledby="{key}"><h3 id="{key}">{heading}</h3>{body}</section>'


def show_more(left: int) -> str:
    """The button that asks for more of the lists; empty if nothing is left."""
    button = f'<button type="button" class="plain" data-most>Show more · {left} left</button>'
    return button if left > 0 else ""


def with_typed_commands(html: str, program: str) -> str:
    """The markup with its commands as they are typed where the program is called `program`.

    What stands in a field, or is not set apart as a command, stays.
    """
    return _SHOWN.sub(lambda found: with_program(f"{found[0]}`", program)[:-1], html)

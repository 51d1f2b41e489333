"""Our own sentences as markup, in which words between backticks are commands."""

from __future__ import annotations

import re
from html import escape

from ollim_bot.domain.text import with_program

_CODE = re.compile(r"`([^`]+)`")
_SHOWN = re.compile(r"(?<=<code>)[^<]+")


def marked(sentence: str) -> str:
    """The sentence, escaped, with its commands set apart."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))


def with_typed_commands(html: str, program: str) -> str:
    """The markup with its commands as they are typed where the program is called `program`.

    What stands in a field, or is not set apart as a command, stays.
    """
    return _SHOWN.sub(lambda found: with_program(f"{found[0]}`", program)[:-1], html)

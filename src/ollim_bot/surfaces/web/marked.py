"""Our own sentences as markup, in which words between backticks are commands."""

from __future__ import annotations

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


def marked(sentence: str) -> str:
    """The sentence, escaped, with its commands set apart."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))

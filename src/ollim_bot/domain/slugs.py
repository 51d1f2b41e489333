"""File names that people can read, from text in any script."""

from __future__ import annotations

import re
from itertools import dropwhile
from unicodedata import category, normalize

LONGEST_SLUG = 50

# Of a longer text only the beginning is looked at.
_READ = 1000

# Letters and marks that show nothing by themselves: fillers, joiners, and what picks the look of
# an emoji. Format characters, the other invisible ones, have a category of their own.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def slug(text: str) -> str:
    """Lower-case letters and digits with single hyphens between; empty if there are none."""
    visible = "".join(sign for sign in _INVISIBLE.sub("", text[:_READ]) if category(sign) != "Cf")
    # Some capitals come apart when they are lowered, and have to be put together again.
    folded = normalize("NFKC", normalize("NFKC", visible).lower())
    kept = "".join(sign if sign.isalnum() or _is_mark(sign) else "-" for sign in folded)
    words = ("".join(dropwhile(_is_mark, part)) for part in kept.split("-"))
    return "-".join(filter(None, words))[:LONGEST_SLUG].rstrip("-")


def _is_mark(sign: str) -> bool:
    # Many scripts write vowels as marks on the letter before; without them words fall apart.
    return category(sign) in ("Mn", "Mc")

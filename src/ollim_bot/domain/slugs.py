"""File names that people can read, from text in any script."""

from __future__ import annotations

import unicodedata

LONGEST_SLUG = 50


def slug(text: str) -> str:
    """Lower-case letters and digits with single hyphens between; empty if there are none."""
    folded = unicodedata.normalize("NFKC", text).lower()
    kept = "".join(sign if _belongs(sign) else "-" for sign in folded)
    words = "-".join(part for part in kept.split("-") if part)
    return words[:LONGEST_SLUG].rstrip("-")


def _belongs(sign: str) -> bool:
    # Many scripts write vowels as marks on the letter before; without them words fall apart.
    return sign.isalnum() or unicodedata.category(sign) in ("Mn", "Mc")

"""Safe file names from those that somebody gave, in any script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from unicodedata import category, normalize

LONGEST_NAME = 100

# File systems count bytes, at most 255 of them; a name needs room for a temporary one as well.
_MOST_BYTES = 200
_LONGEST_SUFFIX = 16
_JOINERS = "\u200c\u200d"
_UNFIT = re.compile(r'[<>:"|?*`\x00-\x1f]')


def safe_name(given: str) -> str:
    """Without folders, invisible signs and a leading dot or hyphen; never empty."""
    last = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    visible = "".join(_sign(each) for each in normalize("NFC", last))
    words = " ".join(_UNFIT.sub("-", visible).split())
    name = words.lstrip(f".- {_JOINERS}").rstrip(f". {_JOINERS}")
    # Cutting may make a suffix of what was none, and then a dot before it has to go.
    while (shorter := _shortened(name, "")) != name:
        name = shorter
    return name or "file"


def numbered_names(name: str) -> Iterator[str]:
    """The name itself, then `name-2`, `name-3` and so on, none longer than a name may be."""
    yield name
    for number in count(2):
        yield _shortened(name, f"-{number}")


def _sign(sign: str) -> str:
    kind = category(sign)
    if kind in ("Zl", "Zp", "Zs"):
        return " "
    # Joiners belong to the spelling of words in some scripts; all others here only deceive.
    is_hidden = kind in ("Cc", "Cf", "Cs", "Co") and sign not in _JOINERS
    return "" if is_hidden else sign


def _shortened(name: str, number: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _LONGEST_SUFFIX:
        stem, dot, suffix = name, "", ""
    end = f"{number}{dot}{suffix}"
    stem = stem[: LONGEST_NAME - len(end)]
    while len(f"{stem}{end}".encode()) > _MOST_BYTES:
        stem = stem[:-1]
    return f"{stem.rstrip(f'. {_JOINERS}')}{end}"

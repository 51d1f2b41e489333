"""Words that a slip of the hand may have turned into each other."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that `word` is a slip of: two keystrokes at most, fewer in a short word."""
    slips = min(2, (len(word) - 2) // 2)
    close = (name for name in names if abs(len(name) - len(word)) <= slips)
    distance, name = min(((_keystrokes(word, name), name) for name in close), default=(3, ""))
    return name if distance <= slips else None


def _keystrokes(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for typed, letter in enumerate(one, 1):
        above, row = row, [typed]
        for column, wanted in enumerate(other):
            change = above[column] + (letter != wanted)
            row.append(min(change, above[column + 1] + 1, row[column] + 1))
    return row[-1]

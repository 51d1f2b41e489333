"""Code fences, as far as a text that is cut between two of them has to know them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Discord takes a fence for one however far it is indented. All kinds of white space count, since
# all of them are taken away at the ends of a message, where a fence appears then.
_FENCE_LIKE = re.compile(r"[^\S\n]*(`{3,}|~{3,})(.*)", re.DOTALL)
_CLOSING_SO_FAR = re.compile(r"[^\S\n]*(?:(?:`+|~+)\s*)?\Z")
# How far a line that closes a fence may be indented and be sure to find room.
_SLACK = 4


@dataclass(frozen=True, slots=True)
class Fence:
    """`marker` is what it was opened with, and what closes it."""

    marker: str
    language: str = ""

    @property
    def opening(self) -> str:
        return f"{self.marker}{self.language}\n"

    def closing(self, text: str) -> str:
        """What has to stand after `text`, which ends within this fence."""
        return self.marker if text.endswith("\n") else f"\n{self.marker}"

    def is_closed_by(self, line: str, longest: int) -> bool:
        """By a marker that is alone on its line and as long as this one or longer."""
        word = line.strip()
        is_marker = word.startswith(self.marker) and not word.strip(self.marker[0])
        return is_marker and len(word) <= share_of(longest)

    def kept_free(self, line: str) -> int:
        """How many characters to keep for what may have to follow a line that is in this fence.

        With more of the same line it never becomes less, so that where a text is cut does not
        depend on how much of it has come. Room for a line that closes the fence is kept, too: at
        the beginning of the next message that would leave an empty block.
        """
        closing = 1 + len(self.marker)
        if len(line.rstrip() or line) <= closing + _SLACK and _CLOSING_SO_FAR.match(line):
            return closing
        return 2 * closing + _SLACK


def is_fence_like(line: str) -> bool:
    """Whether it begins like one, whatever follows."""
    return _FENCE_LIKE.match(line) is not None


def opened_by(line: str, longest: int) -> Fence | None:
    """None if it opens none, or one that would take more than its share of `longest` characters."""
    found = _FENCE_LIKE.match(line)
    if found is None:
        return None
    marker, about = found[1], found[2].rstrip()
    if max(len(marker), len(about)) > share_of(longest) or (marker[0] == "`" and "`" in about):
        return None
    # A language that begins like the marker would make another one of it.
    return Fence(marker, "".join(about.split()[:1]).lstrip(marker[0]))


def kept_free(line: str, longest: int) -> int:
    """As `Fence.kept_free`, for a line that is in no fence and may open one."""
    found = _FENCE_LIKE.match(line)
    return 0 if found is None else 1 + min(len(found[1]), share_of(longest))


def share_of(longest: int) -> int:
    """How long a marker may be, and what is said after it."""
    return longest // 8


def most_kept(longest: int) -> int:
    """No line has more than this kept free after it."""
    return 2 * (1 + share_of(longest)) + _SLACK

"""The words about a message on its way, and the numbers of messages."""

from __future__ import annotations

ON_ITS_WAY = "It is on its way; the service does not answer now."

_LARGEST = 2**63 - 1


def as_number(text: str) -> int | None:
    """The text as the number of a message, ours or a service's; None if it cannot be one."""
    is_short = len(text) <= len(str(_LARGEST))
    if not (is_short and text.isascii() and text.isdecimal()):
        return None
    return int(text) if int(text) <= _LARGEST else None

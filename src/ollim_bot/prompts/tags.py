"""Tags: the first thing in a prompt that the owner did not type."""

from __future__ import annotations

import re

from ollim_bot.domain.jobs import JobKind

FORK_STARTED = "[fork-started]"
FORK_TIMEOUT = "[fork-timeout]"
BUTTON = "[button]"
SYSTEM = "[system]"

_LOOKS_LIKE_OURS = re.compile(
    r"\[(?=\s*(?:routine|routine-bg|reminder|reminder-bg|webhook|fork-started|fork-timeout"
    r"|stale-fork|button|system|late)\s*[:\]])",
    re.IGNORECASE,
)


def job_tag(kind: JobKind, job_id: str, *, background: bool) -> str:
    """`[routine-bg:abc123]`; a webhook is always in the background and does not say so."""
    mark = "-bg" if background and kind is not JobKind.WEBHOOK else ""
    return f"[{kind}{mark}:{job_id}]"


def neutralised(text: str) -> str:
    """Text of the owner or of a stranger, in which no tag can pose as ours."""
    return _LOOKS_LIKE_OURS.sub(r"\\[", text)

"""What stands before the owner's words: the time, what happened meanwhile, what they reply to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ollim_bot.domain.moments import WEEKDAYS
from ollim_bot.domain.updates import PendingUpdates, omission_notice
from ollim_bot.prompts.tags import neutralised

FOR_MAIN = "RECENT BACKGROUND UPDATES (mention key findings in your response)"
READ_ONLY = "RECENT BACKGROUND UPDATES (read-only — main session will also see these)"

_LONGEST_QUOTE = 500


def timestamp(now: datetime) -> str:
    """`[2026-02-24 Tue 10:15 AM PST]`."""
    hour, half = now.hour % 12 or 12, "AM" if now.hour < 12 else "PM"
    day = f"{now:%Y-%m-%d} {WEEKDAYS[now.weekday()]}"
    return f"[{day} {hour:02}:{now.minute:02} {half} {now.tzname()}]"


def age(then: datetime, now: datetime) -> str:
    """`just now`, `5m ago`, `2h ago`, `3d ago`."""
    minutes = int((now.astimezone(UTC) - then.astimezone(UTC)).total_seconds() // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}m ago"
    if minutes < 24 * 60:
        return f"{minutes // 60}h ago"
    return f"{minutes // (24 * 60)}d ago"


def updates_block(updates: PendingUpdates, header: str, now: datetime) -> str:
    """Empty if nothing waits."""
    lines = [f"- ({age(entry.ts, now)}) {entry.message}" for entry in updates.entries]
    if updates.omitted:
        lines.insert(0, f"- {omission_notice(updates.omitted)}")
    return "\n".join([header, *lines]) if lines else ""


def quoted(text: str) -> str:
    """The message that is replied to, 500 characters at most."""
    short = text.strip()
    if len(short) > _LONGEST_QUOTE:
        short = f"{short[: _LONGEST_QUOTE - 1]}…"
    return "\n".join(f"> {line}" for line in neutralised(short).splitlines())


def attachments_list(paths: Sequence[str]) -> str:
    """The files that came with a message, where the agent can read them."""
    return "\n".join(["Attached files:", *(f"- {path}" for path in paths)]) if paths else ""


def owner_prompt(
    text: str,
    now: datetime,
    *,
    updates: str = "",
    reply_to: str = "",
    attachments: Sequence[str] = (),
) -> str:
    """A message of the owner as the agent sees it."""
    context = _joined("\n", timestamp(now), updates)
    quote = quoted(reply_to) if reply_to.strip() else ""
    return _joined("\n\n", context, quote, attachments_list(attachments), neutralised(text))


def _joined(separator: str, *parts: str) -> str:
    return separator.join(_present(parts))


def _present(parts: Iterable[str]) -> Iterable[str]:
    return (part for part in parts if part)

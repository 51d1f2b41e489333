"""How full the model's window is, and what the owner is told about it."""

from __future__ import annotations

from ollim_bot.domain.events import Usage

_WORTH_A_WORD = 60
_SOON_FULL = 80


def percent_used(context: int, window: int | None) -> int | None:
    """Rounded down; None where the window is not known."""
    return None if not window else context * 100 // window


def context_warning(usage: Usage) -> str:
    """Empty below 60 %."""
    percent = percent_used(usage.context, usage.window)
    if percent is None or percent < _WORTH_A_WORD:
        return ""
    advice = (
        "consider /compact" if percent < _SOON_FULL else "compaction soon, /compact recommended"
    )
    return f"context: {percent}% ({thousands(usage.context)}) — {advice}"


def thousands(tokens: int) -> str:
    """`950`, `45k`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{round(tokens / 1000)}k"
    return f"{tokens / 1_000_000:.1f}M"

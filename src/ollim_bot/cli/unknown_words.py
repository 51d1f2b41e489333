"""Refusals of unknown words, with the known word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ollim_bot.domain.text import nearest
from ollim_bot.errors import WrongInput

# Words for one thing: where a command knows another of a row, that one is meant.
_SAME = (
    ("add", "create", "new", "set", "subscribe", "install", "login"),
    ("list", "ls", "status", "all"),
    ("show", "get", "view", "read"),
    ("edit", "change", "update", "modify", "set"),
    ("cancel", "delete", "remove", "rm", "unset", "unsubscribe", "uninstall", "logout"),
    ("pause", "disable", "stop", "reject"),
    ("resume", "enable", "start", "reopen", "approve"),
    ("done", "complete", "finish", "tick"),
    ("snooze", "later"),
    ("unset", "reset"),
    ("search", "find", "grep"),
)


def no_such(sentence: str, word: str, known: Iterable[str], overview: str) -> WrongInput:
    """Refuse the word, and name the known one that was meant, or where to find all."""
    names = list(known)
    others = (each for row in _SAME if word in row for each in row)
    meant = next((each for each in others if each in names), None) or _misspelt(word, names)
    hint = f"Did you mean `{meant}`?" if meant else f"`{overview}` shows them all."
    return WrongInput(f"{sentence} {hint}")


def _misspelt(word: str, names: Sequence[str]) -> str | None:
    begun = [name for name in names if len(word) > 1 and name.startswith(word)]
    return begun[0] if len(begun) == 1 else nearest(word, names)

"""Refusals of unknown words, with the known word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from ollim_bot.domain.text import nearest
from ollim_bot.errors import WrongInput

_OTHER_WORDS = {
    "create": "add",
    "new": "add",
    "set": "add",
    "ls": "list",
    "get": "show",
    "change": "edit",
    "update": "edit",
    "delete": "cancel",
    "remove": "cancel",
    "rm": "cancel",
    "disable": "pause",
    "stop": "pause",
    "enable": "resume",
    "start": "resume",
    "later": "snooze",
    "reset": "unset",
}


def no_such(sentence: str, word: str, known: Iterable[str], overview: str) -> WrongInput:
    """Refuse the word, and name the known one that was meant, or where to find all."""
    names = list(known)
    other = _OTHER_WORDS.get(word)
    meant = other if other in names else nearest(word, names)
    hint = f"Did you mean `{meant}`?" if meant else f"`{overview}` shows them all."
    return WrongInput(f"{sentence} {hint}")

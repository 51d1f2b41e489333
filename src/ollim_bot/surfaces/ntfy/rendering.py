"""A message of the log as a push: as much of it as may leave the machine, and its buttons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.digest import OF_DIGEST
from ollim_bot.domain.due_items import DONE, SNOOZE, TAKEN
from ollim_bot.domain.moments import describe
from ollim_bot.domain.push import is_announced
from ollim_bot.domain.runtime_config import PushContent
from ollim_bot.domain.text import FROM_UNTRUSTED, one_line, shown_literally, visible

# In bytes, as JSON writes it. The server takes as many, and turns what is longer into a file.
LONGEST_TEXT = 4096
_CUT = "…"
# Line ends, and what joins letters and emoji.
_KEPT = "\n\u200c\u200d"
_LABELS = {DONE: "Done", TAKEN: "Taken"}
_WAITS = {"10m": "10 min", "1h": "1 h"}
# Without a sound: what is shown again, or no longer asks.
_SILENT, _USUAL, _LOUD = 2, 3, 4
_LATE = timedelta(seconds=60)
_WRITTEN = "late · written "

_OTHER = "There is something for you."


class Wording(NamedTuple):
    """What a push says, before it has buttons."""

    title: str
    text: str
    priority: int
    tags: tuple[str, ...]


def wording(
    message: ChatMessage,
    content: PushContent,
    name: str,
    now: datetime,
    *,
    is_repeated: bool = False,
) -> Wording:
    """The words of a push; `name` is the bot's. One that `is_repeated` makes no sound.

    It begins with when it was written, if that is more than a minute ago.
    """
    title, text = _words(message, content)
    text = text or name
    if now - message.at > _LATE:
        text = f"{_WRITTEN}{describe(message.at.replace(second=0, microsecond=0), now)}\n{text}"
    priority = _LOUD if message.must else _USUAL
    return Wording(
        one_line(shown_literally(title or name), 120),
        cut(visible(shown_literally(text), besides=_KEPT)) or _OTHER,
        _SILENT if is_repeated else priority,
        () if message.untrusted is None else ("warning",),
    )


def phone_buttons(message: ChatMessage) -> Sequence[tuple[str, Button]]:
    """The buttons that the phone has, with their labels there: at most three.

    What asks for more than that has none there.
    """
    if message.card is None or is_announced(message):
        return ()
    usable = [each for each in message.card.buttons if not (each.is_used or each.line or each.asks)]
    settling = [(_LABELS[each.action], each) for each in usable if each.action in _LABELS]
    waits = {each.data.rpartition(":")[2]: each for each in usable if each.action == SNOOZE}
    snoozing = [(label, waits[wait]) for wait, label in _WAITS.items() if wait in waits]
    return [*settling[:1], *snoozing] if settling else []


def leads_to_page(message: ChatMessage) -> bool:
    """Whether it is to be answered on the page."""
    return is_digest(message) or is_announced(message)


def is_digest(message: ChatMessage) -> bool:
    return message.id.startswith(OF_DIGEST)


def is_over(message: ChatMessage) -> bool:
    """Whether a card asks for nothing any more."""
    card = message.card
    return card is not None and not phone_buttons(message) and not is_announced(message)


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, shortened at a character so that it has at most so many bytes in JSON."""
    if _size(text) <= longest:
        return text
    left = longest - _size(_CUT)
    for place, letter in enumerate(text):
        left -= _size(letter)
        if left < 0:
            return text[:place].rstrip() + _CUT
    return text


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def _words(message: ChatMessage, content: PushContent) -> tuple[str, str]:
    """Title and text; the bot's name stands for an empty one."""
    if content is PushContent.FULL:
        return _whole_words(message)
    if message.untrusted is not None:
        return "", f"{_sort(message)} {FROM_UNTRUSTED}"
    title = message.card.title if message.card else message.job
    if title and content is PushContent.TITLE and not is_digest(message):
        return title, ""
    return "", _sort(message)


def _whole_words(message: ChatMessage) -> tuple[str, str]:
    title, words = message.job, message.text
    if (card := message.card) is not None:
        words = words or card.text
        if not is_digest(message):
            title, words = card.title, card.text.removeprefix(card.title)
    return title, "\n\n".join(filter(None, (words.strip(), message.footer.strip())))


def _sort(message: ChatMessage) -> str:
    """What came, without a word of it."""
    if is_digest(message):
        return "Messages waited while it was quiet."
    if is_announced(message):
        return "I need an answer from you."
    return "A reminder waits for you." if message.card and message.occurrence else _OTHER

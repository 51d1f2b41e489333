"""Messages of the log as letters that Discord takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.surfaces.discord.channel import Letter
from ollim_bot.surfaces.discord.words import fences
from ollim_bot.surfaces.discord.words.card_limits import fitted
from ollim_bot.surfaces.discord.words.fences import Fence
from ollim_bot.surfaces.discord.words.small_text import FORK, one_line, small, without_markup
from ollim_bot.surfaces.discord.words.split import LONGEST, Pieces, split

FROM_THE_PAGE = "from the page"
CUT_OFF = "cut off here"

_MOST_FILES = 10
_LONGEST_JOB = 100
_LONGEST_FOOTER = 300
_NOTHING = "…"


def parts_of(message: ChatMessage) -> tuple[ChatMessage, ...]:
    """The message as Discord can take it, at least one; the same each time it is asked.

    The text of a part is all that will stand there, with marks and small lines. A card is one part.
    """
    texts = ("",) if message.card is not None else _texts(message)
    files = message.attachments
    if not texts and not files:
        texts = (_NOTHING,)
    count = max(len(texts), -(-len(files) // _MOST_FILES))
    return tuple(
        replace(
            message,
            text=texts[number] if number < len(texts) else "",
            attachments=files[number * _MOST_FILES : (number + 1) * _MOST_FILES],
            card=message.card if number == 0 else None,
        )
        for number in range(count)
    )


def letter_of(part: ChatMessage) -> Letter:
    """A part as it is sent, and as it is edited into a draft."""
    if part.card is None:
        return Letter(part.text, files=part.attachments)
    footer = _card_footer(part)
    return Letter("", fitted(part.card, footer), footer, part.attachments)


def _texts(message: ChatMessage) -> tuple[str, ...]:
    head, foot = _head(message), _foot(message)
    match message.author:
        case Author.OWNER:
            return _line_by_line(message.text, _quoted, head, [small(FROM_THE_PAGE), *foot])
        case Author.PROGRAM:
            return _line_by_line(message.text, _small, head, foot)
        case _:
            pieces = Pieces().added("\n".join([*head, message.text.strip()]))
            return pieces.closed().added("\n".join(["", *foot])).shown if foot else pieces.shown


def _head(message: ChatMessage) -> list[str]:
    if not message.job:
        return []
    return [small(f"⏰ {without_markup(one_line(message.job, _LONGEST_JOB))}")]


def _foot(message: ChatMessage) -> list[str]:
    lines = [
        CUT_OFF if message.is_cut_off else "",
        one_line(message.footer, _LONGEST_FOOTER),
        FORK if message.in_fork else "",
    ]
    return [small(line) for line in lines if line]


def _card_footer(message: ChatMessage) -> str:
    """All in one line. The mark of a job stands here, too, so that the words are the card's own.

    A reminder that is named by its own words says them once.
    """
    is_named = message.card is not None and message.card.title == message.job
    parts = [
        f"⏰ {one_line(message.job, _LONGEST_JOB)}" if message.job and not is_named else "",
        one_line(message.footer, _LONGEST_FOOTER),
        FORK if message.in_fork else "",
    ]
    return " · ".join(part for part in parts if part)


def _line_by_line(
    text: str, marked: Callable[[str], str], head: Sequence[str], foot: Sequence[str]
) -> tuple[str, ...]:
    """Pieces whose every line bears a mark, which takes room."""
    room = LONGEST - sum(len(line) + 1 for line in (*head, *foot))
    pieces: list[str] = []
    # Of a quarter there is always room for the marks, even if every line had one character only.
    for longest in (room - 40, room * 3 // 4, room // 2, room // 4):
        pieces = [marked(piece) for piece in split(text, longest)]
        if all(len(piece) <= room for piece in pieces):
            break
    if not pieces:
        lines = [*head, *foot]
        return ("\n".join(lines),) if lines else ()
    pieces[0] = "\n".join([*head, pieces[0]])
    pieces[-1] = "\n".join([pieces[-1], *foot])
    return tuple(pieces)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def _small(text: str) -> str:
    """Code stays as it is: within a fence the mark would be shown."""
    lines: list[str] = []
    fence: Fence | None = None
    for line in text.split("\n"):
        before = fence
        if fence is None:
            fence = fences.opened_by(line, LONGEST)
        elif fence.is_closed_by(line, LONGEST):
            fence = None
        is_code = before is not None or fence is not None
        lines.append(line if is_code or not line.strip() else small(line))
    return "\n".join(lines)

"""The values that are exchanged with Discord, and the interface of the owner's channel."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Protocol

from ollim_bot.kernel.base.errors import Unreachable
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.values.cards import Button, Card, CardField
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.surfaces.discord.split import (
    LONGEST,
    LONGEST_SHOWN,
    MOST_PIECES,
    Fence,
    is_too_long,
    opened_by,
    shortened,
    split,
    with_tables,
)

NAME = "discord"

_INPUT = "discord-"


def input_of(ref: str) -> InputId:
    """The id of the input that a message of the owner becomes."""
    return InputId(f"{_INPUT}{ref}")


def ref_of(input_id: InputId) -> str | None:
    """The message that an input came from; None if it came from another surface."""
    return input_id.removeprefix(_INPUT) if input_id.startswith(_INPUT) else None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message in Discord's limits: text of 2000 characters at most, a card, ten files.

    `card_footer` is the small line at the foot of the card, `buttons` are those without a card.
    Without `has_previews` Discord fetches no address in the text to show a preview of it. `whole`
    is the content of the file `WHOLE`.
    """

    text: str = ""
    card: Card | None = None
    card_footer: str = ""
    files: tuple[Attachment, ...] = ()
    has_previews: bool = True
    buttons: tuple[Button, ...] = ()
    whole: str = field(default="", compare=False)


def without_previews(text: str) -> OutgoingMessage:
    """A text whose addresses may not be fetched; one without an address needs no such mark."""
    return OutgoingMessage(text, has_previews="://" not in text)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at Discord. `size` is the size that Discord states."""

    name: str
    size: int
    url: str


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What Discord tells of a forwarded message, which does not include its author.

    `place` is where the original is: `this conversation`, `a server`, `another conversation`.
    """

    place: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message as Discord shows it now.

    `text` is its text; for a message of the bot without text, that of its first card. `forwarded`
    is set if its words and files are a forwarded message; `quote_forwarded` says the same of the
    quote. `nonce` is empty once Discord has forgotten it. `has_buttons` is True if a button can be
    pressed; `marks` are the bot's own reactions. `reply_to` is the id of the message that it
    replies to, and `quote` the words of that message.
    """

    ref: str
    at: datetime
    is_owners: bool
    is_ours: bool
    text: str = ""
    nonce: str = ""
    is_edited: bool = False
    has_card: bool = False
    has_buttons: bool = False
    marks: frozenset[str] = frozenset()
    files: tuple[RemoteFile, ...] = ()
    reply_to: str | None = None
    quote: str = ""
    forwarded: Forwarded | None = None
    quote_forwarded: Forwarded | None = None


class HistoryHidden(Unreachable):
    """Discord answers, but does not let the bot read the messages."""


class DmChannel(Protocol):
    """The owner's direct messages. Each call ends within a minute.

    Calls raise `DeliveryFailed` if Discord refuses for good (also if the message is gone),
    `Unreachable` if nothing was done and a later try may succeed, `DeliveryUncertain` if the
    outcome is unknown. Calls that only read raise `Unreachable`, or its subclass `HistoryHidden` if
    another try is of little use.
    """

    async def send(self, outgoing: OutgoingMessage, nonce: str) -> str:
        """Return the id of the message; the earlier id if Discord remembers the nonce."""

    async def edit(self, ref: str, outgoing: OutgoingMessage) -> None:
        """Replace text and card; the files of the message stay."""

    async def delete(self, ref: str) -> None:
        """Delete the message; do nothing if it is already gone."""

    async def mark(self, ref: str, emoji: str) -> None: ...

    async def unmark(self, ref: str, emoji: str) -> None: ...

    async def show_typing(self) -> None:
        """Show that the bot types, for some ten seconds or until the next message."""

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        """The newest messages, oldest first, 100 at most."""

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        """All messages after `ref`, oldest first."""

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        """Write the content to `target`.

        Raises `DeliveryFailed` if the file is gone or larger than `most` bytes; `target` then does
        not exist.
        """

    def pause_before_edit(self) -> float:
        """How many seconds an optional edit should wait to leave room in the rate limits."""


FORK = "side conversation · apart from the main one"

_SMALL = "-# "
_MARKUP = re.compile(r"([\\`*_~|<>\[\]:])")
# In a footer a colon stands in sentences and times; only that of an address makes a link.
_ESCAPED = r"\\\1"
_FOOTER_MARKUP = re.compile(r"([\\`*_~|<>\[\]]|:(?=//))")


_LATE = timedelta(seconds=60)
_LATE_MARK = "late · written "
FORWARDED = "forwarded message"
_LONGEST_TITLE = 256
_LONGEST_DESCRIPTION = 4096
_LONGEST_NAME = 256
_LONGEST_VALUE = 1024
_LONGEST_LABEL = 80
_LONGEST_ID = 100
_LONGEST_IN_ALL = 6000
_MOST_FIELDS = 25
_MOST_BUTTONS = 25
_LEFT_OUT = "…"
FROM_THE_PAGE = "from the page"
CUT_OFF = "cut off here"
_MOST_FILES = 10
_LONGEST_JOB = 100
_LONGEST_FOOTER = 300
# The file with a text that is too long for messages; it is nowhere on the disk.
WHOLE = Attachment("message.md", "", "text/markdown", 0)
GOES_ON_IN_FILE = "Only the beginning fits here. The whole text is in this file."


def small(line: str) -> str:
    return f"{_SMALL}{line}"


def is_small(text: str) -> bool:
    """Whether all lines are small ones."""
    return all(line.startswith(_SMALL) for line in text.split("\n"))


def without_small(text: str) -> str:
    return "\n".join(line.removeprefix(_SMALL) for line in text.split("\n"))


def one_line(text: str, longest: int) -> str:
    """Join the words into one line, without unprintable characters."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * longest])
    return shortened(" ".join(printable.split()), longest)


def without_markup(text: str) -> str:
    """Escape the text, so that each character is shown as it is and an address is no link."""
    return _MARKUP.sub(_ESCAPED, text)


def dated(outgoing: OutgoingMessage, written: datetime, now: datetime) -> OutgoingMessage:
    """Add when it was written, if that is more than a minute ago and there is room."""
    if now.astimezone(UTC) - written.astimezone(UTC) <= _LATE:
        return outgoing
    words = f"{_LATE_MARK}{describe(written.replace(second=0, microsecond=0), now)}"
    if outgoing.card is not None:
        footer = " · ".join(part for part in (words, outgoing.card_footer) if part)
        return replace(outgoing, card_footer=footer)
    text = "\n".join(part for part in (small(words), outgoing.text) if part)
    return replace(outgoing, text=text) if len(text) <= LONGEST else outgoing


def undated(text: str) -> str:
    """Remove the line that `dated` adds."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith(small(_LATE_MARK)) else text


def found_among(
    ours: Sequence[ReceivedMessage], outgoing: OutgoingMessage, nonce: str, others: Collection[str]
) -> str | None:
    """The message that was sent with this nonce, or that has the same words.

    Messages with the same words are not it if they are among `others`.
    """
    by_nonce = (each.ref for each in ours if each.nonce == nonce)
    by_words = (each.ref for each in ours if each.ref not in others and _says(each, outgoing))
    return next(by_nonce, None) or next(by_words, None)


def _says(seen: ReceivedMessage, outgoing: OutgoingMessage) -> bool:
    card = "" if outgoing.card is None else outgoing.card.text
    same_words = undated(seen.text).split() == (outgoing.text or card).split()
    return same_words and len(seen.files) == len(outgoing.files)


def untrusted_of(forwarded: Forwarded, zone: tzinfo | None) -> Untrusted:
    """Describe the forwarded message, with its time in the owner's zone."""
    at = forwarded.at
    written = "" if at is None else f", written {at.astimezone(zone):%Y-%m-%d %H:%M}"
    about = f"a message that the owner forwarded from {forwarded.place} on Discord{written}"
    return Untrusted(FORWARDED, f"{about}. Discord does not say who wrote it.")


def fitted(card: Card, footer: str) -> Card:
    """Shorten the card to Discord's limits, with this footer. Shortened texts end with `…`."""
    # Move the lines into the description. A line with buttons has a number, as they have.
    with_buttons = sorted({each.line for each in card.buttons if each.line})
    numbers = {line: number for number, line in enumerate(with_buttons, 1)}
    rows = [card.description] if card.description else []
    # Discord itself keeps this true: `in 25 minutes`, then `2 minutes ago`.
    rows += [f"<t:{int(card.until.timestamp())}:R>"] if card.until else []
    for line, each in enumerate(card.lines, 1):
        mark = f"**{numbers[line]}** · " if line in numbers else ""
        rows += [f"**{each.heading}**"] if each.heading else []
        rows.append(f"{mark}{_FOOTER_MARKUP.sub(_ESCAPED, each.text)}")
    buttons = tuple(
        each._replace(label=f"{numbers[each.line]} · {each.label}") if each.line else each
        for each in sorted(card.buttons, key=lambda each: each.line or len(card.lines) + 1)
    )
    card = card._replace(description="\n".join(rows), buttons=buttons, lines=())
    title = shortened(card.title, _LONGEST_TITLE)
    left = _LONGEST_IN_ALL - len(title) - len(footer)
    description = shortened(card.description, min(_LONGEST_DESCRIPTION, left))
    fields = tuple(_fields(card.fields, left - len(description)))
    is_blank = not fields and not title.strip() and not description.strip()
    return card._replace(
        title=_LEFT_OUT if is_blank else title,
        description=description,
        fields=fields,
        buttons=tuple(_buttons(card.buttons)),
    )


def _fields(fields: Sequence[CardField], room: int) -> Iterator[CardField]:
    """As many fields as fit; the last one then says how many are missing."""
    for number, each in enumerate(fields):
        missing = len(fields) - number
        rest = CardField(_LEFT_OUT, f"{missing} more")
        # Fill an empty name or value, which Discord refuses.
        name = shortened(each.name, _LONGEST_NAME) if each.name.strip() else _LEFT_OUT
        value = shortened(each.value, _LONGEST_VALUE) if each.value.strip() else _LEFT_OUT
        fitting = each._replace(name=name, value=value)
        size = len(fitting.name) + len(fitting.value)
        is_last = missing == 1
        kept = 0 if is_last else len(rest.name) + len(rest.value)
        if size + kept > room or (number == _MOST_FIELDS - 1 and not is_last):
            yield rest
            return
        room -= size
        yield fitting


def _buttons(buttons: Sequence[Button]) -> Iterator[Button]:
    """The buttons that Discord accepts: one with a long or repeated id is shown as used."""
    known = set[str]()
    for number, button in enumerate(buttons[:_MOST_BUTTONS]):
        label = shortened(button.label, _LONGEST_LABEL) if button.label.strip() else _LEFT_OUT
        shown = button._replace(label=label)
        if len(shown.custom_id) > _LONGEST_ID or shown.custom_id in known:
            shown = shown._replace(action="none", data=str(number), is_used=True)
        known.add(shown.custom_id)
        yield shown


def parts_of(message: ChatMessage) -> tuple[ChatMessage, ...]:
    """Split the message into what Discord accepts, at least one part; always the same parts.

    The text of a part is complete, with marks and small lines. A card is one part. Of a text that
    needs more than ten parts, nine show the beginning, and the last one is the text as a file.
    """
    texts = ("",) if message.card is not None else _texts(message)
    is_beginning = message.card is None and is_too_long(message.text.strip(), texts)
    if is_beginning:
        texts = texts[: MOST_PIECES - 1]
    files = message.attachments
    if not texts and not files:
        texts = ("…",)
    count = max(len(texts), -(-len(files) // _MOST_FILES))
    parts = tuple(
        replace(
            message,
            text=texts[number] if number < len(texts) else "",
            attachments=files[number * _MOST_FILES : (number + 1) * _MOST_FILES],
            card=message.card if number == 0 else None,
        )
        for number in range(count)
    )
    return (*parts, replace(message, attachments=(WHOLE,))) if is_beginning else parts


def outgoing_of(part: ChatMessage) -> OutgoingMessage:
    """A part in the form that is sent, or edited into a draft."""
    if part.attachments == (WHOLE,):
        lines = [small(GOES_ON_IN_FILE), *_foot(part)]
        return OutgoingMessage("\n".join(lines), files=part.attachments, whole=part.text)
    if part.card is None:
        trusted = OutgoingMessage(part.text, files=part.attachments)
        if part.untrusted is None:
            return trusted
        return replace(without_previews(part.text), files=part.attachments)
    if part.card.earlier_of:
        line = _FOOTER_MARKUP.sub(_ESCAPED, one_line(part.card.title, _LONGEST_FOOTER))
        return replace(without_previews(small(line)), files=part.attachments)
    footer = _card_footer(part)
    return OutgoingMessage("", fitted(part.card, footer), footer, part.attachments)


def _texts(message: ChatMessage) -> tuple[str, ...]:
    """The text in pieces; of a text that is too long, at least the pieces that are shown."""
    text = message.text.strip()
    job = without_markup(one_line(message.job, _LONGEST_JOB))
    head = [small(f"⏰ {job}")] if message.job else []
    foot = [] if len(text) > LONGEST_SHOWN else _foot(message)
    text = text[:LONGEST_SHOWN]
    match message.author:
        case Author.OWNER:
            return _line_by_line(text, _quoted, head, [small(FROM_THE_PAGE), *foot])
        case Author.PROGRAM:
            return _line_by_line(text, _small, head, foot)
        case _:
            return split("\n".join([*head, with_tables(text)]), foot="\n".join(foot))


def _foot(message: ChatMessage) -> list[str]:
    lines = [
        CUT_OFF if message.is_cut_off else "",
        _FOOTER_MARKUP.sub(_ESCAPED, one_line(message.footer, _LONGEST_FOOTER)),
        FORK if message.in_fork else "",
    ]
    return [small(line) for line in lines if line]


def _card_footer(message: ChatMessage) -> str:
    """The footer on one line. It names the job, so that the card's words are its own.

    A name that is part of the card's title is left out.
    """
    is_named = message.card is not None and message.job in message.card.title
    parts = [
        f"⏰ {one_line(message.job, _LONGEST_JOB)}" if message.job and not is_named else "",
        one_line(message.footer, _LONGEST_FOOTER),
        FORK if message.in_fork else "",
    ]
    return " · ".join(part for part in parts if part)


def _line_by_line(
    text: str, marked: Callable[[str], str], head: Sequence[str], foot: Sequence[str]
) -> tuple[str, ...]:
    """Split a text whose every line gets a mark, which takes room."""
    room = LONGEST - sum(len(line) + 1 for line in (*head, *foot))
    pieces: list[str] = []
    # A quarter always leaves room for the marks, even if every line has one character only.
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
    """Mark each line as small except code: within a fence the mark would be shown."""
    lines: list[str] = []
    fence: Fence | None = None
    for line in text.split("\n"):
        before = fence
        if fence is None:
            fence = opened_by(line, LONGEST)
        elif fence.is_closed_by(line, LONGEST):
            fence = None
        is_code = before is not None or fence is not None
        lines.append(line if is_code or not line.strip() else small(line))
    return "\n".join(lines)

"""The messages that show a running turn."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from ollim_bot.chat import TurnStart
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.events import EndCause
from ollim_bot.domain.inputs import InputId
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.messages import DmChannel, OutgoingMessage
from ollim_bot.surfaces.discord.rendering import is_small, letter_of, parts_of
from ollim_bot.surfaces.discord.status_line import Live


@dataclass(slots=True, eq=False)
class Draft:
    """One message. `shown` is None while it is not known what stands there.

    `tried_at` is when it was first sent, while it is not known whether it arrived. One that
    `is_lost` is not drawn any more and cannot be taken over; one that `is_taken` is part of an
    answer, and no draft any more.
    """

    nonce: str
    ref: str | None = None
    shown: OutgoingMessage | None = None
    tried_at: float | None = None
    is_lost: bool = False
    is_taken: bool = False


async def _no_drawing() -> None:
    pass


@dataclass(slots=True, eq=False)
class TurnDrafts:
    """The drafts of one turn.

    `holder` is the message that takes `taken` of them over; the others go. `delivered` are the
    messages of the turn whose delivery has ended, and `awaited` those that are still to come once
    the turn is over. `is_overtaken` means that something was sent below the drafts that they have
    to follow. `is_over` means that the turn has ended, by `cause`; `is_closed` that it has ended
    without an answer. `stop` ends the drawing, and returns when no request is under way any more.
    """

    start: TurnStart
    live: Live = field(default_factory=Live)
    drafts: list[Draft] = field(default_factory=list)
    stop: Callable[[], Awaitable[None]] = _no_drawing
    holder: MessageId | None = None
    taken: Sequence[Draft] = ()
    delivered: set[MessageId] = field(default_factory=set)
    awaited: set[MessageId] = field(default_factory=set)
    cause: EndCause = EndCause.INTERRUPTED
    in_fork: bool = False
    is_overtaken: bool = False
    is_over: bool = False
    is_closed: bool = False
    made: int = 0

    @property
    def turn(self) -> TurnId:
        return self.start.turn

    @property
    def text(self) -> str:
        """What was written so far."""
        pieces = self.live.text
        return "".join(piece.source for piece in pieces.done) + pieces.rest

    @property
    def has_text(self) -> bool:
        return bool(self.text.strip())

    @property
    def shows_words(self) -> bool:
        """Whether the owner may have read words of it by now, and not only status lines."""
        shown = [each.shown for each in self.drafts if each.ref is not None]
        return any(letter is None or not is_small(letter.text) for letter in shown)

    def stands_above(self, ref: str) -> bool:
        """Whether a draft that was not taken over yet stands above that message."""
        refs = (each.ref for each in self.drafts if not each.is_taken)
        return any(each is not None and int(each) < int(ref) for each in refs)

    def fitting(self, letters: Sequence[OutgoingMessage]) -> list[Draft]:
        """The first drafts, as far as each can be edited to show its letter."""
        fitting = []
        for draft, letter in zip(self.drafts, letters, strict=False):
            if draft.ref is None or draft.is_lost or letter.files:
                break
            fitting.append(draft)
        return fitting

    def cut_off(self) -> tuple[OutgoingMessage, ...]:
        """What was written so far, as a message that ends there."""
        message = ChatMessage(
            MessageId(self.turn),
            self.start.at,
            Author.ASSISTANT,
            self.text,
            is_cut_off=True,
            in_fork=self.in_fork,
        )
        return tuple(letter_of(part) for part in parts_of(message))

    def at(self, index: int) -> Draft:
        """The draft there; a new one if there is none yet."""
        if index == len(self.drafts):
            self.drafts.append(Draft(_nonce(self.turn, self.made)))
            self.made += 1
        return self.drafts[index]

    def torn_off(self, index: int) -> list[Draft]:
        """Remove the drafts from there on, and give them."""
        rest = self.drafts[index:]
        del self.drafts[index:]
        return rest


def _nonce(turn: TurnId, number: int) -> str:
    """Always the same for the same draft, so that even a try that arrives late is known."""
    return hashlib.blake2s(f"{turn} {number}".encode(), digest_size=12).hexdigest()


# An answer that is delivered so soon after it was given takes its drafts over even if the next turn
# has begun: with questions in line, that one begins at once.
_SOON = timedelta(seconds=10)
_LOOK_BACK = 50


class DraftMemory(Protocol):
    """Remembers the ids of drafts across a crash. Returns at once and never fails."""

    def add_draft(self, ref: str) -> None: ...

    def remove_draft(self, ref: str) -> None: ...


class Drafts:
    """The drafts of all turns.

    An answer takes over the drafts of its turn, part by part. It is sent as new messages, and the
    drafts are deleted, where it would else be overlooked or out of order: if a newer turn has begun
    more than a moment ago, all of it; if a draft cannot be edited, that part and the rest.

    Drafts of a turn that still runs move, by being deleted and begun again at the end, when the
    answer of another turn was sent below them. As long as they show no words, they move below
    anything that is sent, such as a card that the turn waits for.
    """

    def __init__(
        self, channel: DmChannel, clock: Clock, errands: BackgroundTasks, memory: DraftMemory
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._errands = errands
        self._memory = memory
        self._sheets: dict[TurnId, TurnDrafts] = {}
        self._newest: TurnId | None = None
        self._arriving: MessageId | None = None
        self._last_answer = "0"

    def open(self, start: TurnStart) -> TurnDrafts:
        self._sheets = {
            turn: each
            for turn, each in self._sheets.items()
            if not each.is_closed and (each.drafts or not each.is_over)
        }
        sheet = self._sheets[start.turn] = TurnDrafts(start)
        self._newest = start.turn
        return sheet

    def drawn(self, draft: Draft, ref: str) -> None:
        draft.ref = ref
        self._memory.add_draft(ref)

    def begin(self, message_id: MessageId) -> None:
        """A message is being delivered. Messages come one after the other."""
        if self._arriving != message_id:
            self._give_up(self._arriving)
        self._arriving = message_id

    async def take_over(
        self, message: ChatMessage, letters: Sequence[OutgoingMessage]
    ) -> Sequence[Draft]:
        """The drafts that the first of these letters have to be edited into. Drawing stops.

        Asked again for the same message, it answers the same.
        """
        self.begin(message.id)
        sheet = self._sheet_for(message)
        if sheet is None:
            return ()
        await sheet.stop()
        if sheet.holder is None:
            sheet.holder = message.id
            sheet.taken = sheet.fitting(letters) if self._is_current(sheet, message) else ()
        return sheet.taken

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        """The message stands there under `refs`; none if it never will."""
        self._arriving = None
        sheet = None if message.turn is None else self._sheets.get(message.turn)
        if refs:
            self._overtake(message, refs[-1])
        if sheet is None:
            return
        sheet.delivered.add(message.id)
        sheet.awaited.discard(message.id)
        if sheet.holder == message.id and refs:
            self._hand_over(sheet, refs)
        elif sheet.holder == message.id:
            self._give_up(message.id)
        elif sheet.is_over and sheet.holder is None and not sheet.awaited:
            self._errands.send_off(self._close(sheet, sheet.cause))

    def end(self, turn: TurnId, cause: EndCause, messages: Sequence[MessageId] = ()) -> None:
        """The turn is over and has added `messages` to the log.

        If no answer comes, its words stay only if it was broken off.
        """
        sheet = self._sheets.get(turn)
        if sheet is None:
            return
        sheet.is_over, sheet.cause = True, cause
        sheet.awaited = {*messages} - sheet.delivered
        if not sheet.awaited and sheet.holder is None:
            self._errands.send_off(self._close(sheet, cause))
        else:
            self._errands.send_off(_stopped(sheet))

    def must_move(self, sheet: TurnDrafts) -> bool:
        """Whether its drafts have to move to the end, and nothing is just being delivered."""
        return self._is_overtaken(sheet) and self._arriving is None

    def is_draft(self, ref: str) -> bool:
        return any(draft.ref == ref for each in self._sheets.values() for draft in each.drafts)

    def remove(self, ref: str) -> None:
        """Take a message away that was a draft, as soon as that is possible."""
        self.discard([Draft("", ref)])

    def discard(self, drafts: list[Draft]) -> None:
        """Take them away, as soon as that is possible."""
        for draft in drafts:
            if not draft.is_taken and (draft.ref is not None or draft.tried_at is not None):
                self._errands.send_off(self._discarded(draft))

    def _sheet_for(self, message: ChatMessage) -> TurnDrafts | None:
        """The one whose drafts it may take over. A note replaces status lines only, never words."""
        sheet = None if message.turn is None else self._sheets.get(message.turn)
        if sheet is None or sheet.holder not in (None, message.id):
            return None
        is_note = message.author is not Author.ASSISTANT
        return None if is_note and sheet.has_text and sheet.holder is None else sheet

    def _is_current(self, sheet: TurnDrafts, message: ChatMessage) -> bool:
        if self._is_overtaken(sheet) or sheet.is_closed:
            return False
        is_soon = self._clock.now() - message.at < _SOON
        return sheet.turn == self._newest or is_soon

    def _is_overtaken(self, sheet: TurnDrafts) -> bool:
        """Asked anew each time, since drafts that are slow to send get their place late."""
        return sheet.is_overtaken or sheet.stands_above(self._last_answer)

    def _hand_over(self, sheet: TurnDrafts, refs: Sequence[str]) -> None:
        """These drafts are part of a message from now on; the others go."""
        for draft in sheet.drafts:
            if draft.ref is not None and draft.ref in refs:
                draft.is_taken = True
                self._memory.remove_draft(draft.ref)
        self.discard(sheet.drafts)
        del self._sheets[sheet.turn]

    def _overtake(self, message: ChatMessage, ref: str) -> None:
        """Drafts that stand above the message may have to follow it."""
        if message.turn is not None:
            self._last_answer = ref
            return
        for each in self._sheets.values():
            # An answer never stands above what it answers, such as a quote from the page.
            is_before = InputId(message.id) in each.start.inputs
            each.is_overtaken |= is_before or not each.shows_words

    def _give_up(self, message_id: MessageId | None) -> None:
        for sheet in self._sheets.values():
            if message_id is not None and sheet.holder == message_id:
                sheet.holder = None
                self._errands.send_off(self._close(sheet, EndCause.INTERRUPTED))

    async def _discarded(self, draft: Draft) -> None:
        async def gone() -> None:
            ref = draft.ref or await self._found(draft)
            if ref is not None:
                await self._channel.delete(ref)

        await self._errands.keep_trying(gone)
        if draft.ref is not None:
            self._memory.remove_draft(draft.ref)

    async def _found(self, draft: Draft) -> str | None:
        newest = await self._channel.newest(_LOOK_BACK)
        return next((each.ref for each in newest if each.nonce == draft.nonce), None)

    async def _close(self, sheet: TurnDrafts, cause: EndCause) -> None:
        """Without an answer: of a turn that was completed, nothing was meant to stay."""
        sheet.is_over = sheet.is_closed = True
        await sheet.stop()
        if sheet.holder is not None:
            return
        letters = () if cause is EndCause.COMPLETED or not sheet.has_text else sheet.cut_off()
        self.discard(sheet.torn_off(len(letters)))
        for draft, letter in zip(list(sheet.drafts), letters, strict=False):
            await self._kept(draft, letter)

    async def _kept(self, draft: Draft, letter: OutgoingMessage) -> None:
        ref = draft.ref
        if ref is None:
            self.discard([draft])
        elif not draft.is_taken:
            if draft.shown != letter:
                await self._errands.keep_trying(lambda: self._channel.edit(ref, letter))
            self._memory.remove_draft(ref)


async def _stopped(sheet: TurnDrafts) -> None:
    await sheet.stop()

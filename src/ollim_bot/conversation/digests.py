"""Posts the digest after the quiet, keeps its lines up to date, and answers its buttons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.delivery import record_fork_message
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.digest import (
    SHOW_HELD,
    TURN_PAGE,
    Digest,
    HeldMessage,
    HeldMessages,
    digest_message,
    waits_for_digest,
)
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.run_history import RELEASED
from ollim_bot.store.item_answers import release_card
from ollim_bot.store.messages import Sender
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction


def add_digest(tx: Transaction, poster: MessagePoster, now: datetime) -> None:
    """Add everything that waits for the end of the quiet to the log, as one message.

    What was answered meanwhile is left out.
    """
    waited = tx.held.get().waiting
    tx.held.put(HeldMessages())
    held = [each for each in (release_card(tx, one, now) for one in waited) if each is not None]
    if not held:
        return
    digest = Digest.of(held, now)
    _close_oldest(tx, poster, digest)
    poster.add_to_log(tx, _drawn(tx, digest), _sender(digest))
    if len(held) == 1:
        record_fork_message(tx, held[0].message, _sender(digest))
    tx.ledger.append(*(_released(each, digest, now) for each in held if each.message.occurrence))


def _is_to_be_told(tx: Transaction, held: HeldMessage) -> bool:
    return waits_for_digest(held, tx.due_items.get(held.item) if held.item else None)


def _sender(digest: Digest) -> Sender:
    """A reply to the only line leads to the session that said it."""
    charge = Charge.TOKEN if digest.pings else Charge.NOTHING
    if len(digest.entries) > 1:
        return Sender(charge)
    return Sender(charge, digest.entries[0].fork, digest.entries[0].parent)


def _released(held: HeldMessage, digest: Digest, now: datetime) -> LedgerRow:
    facts = {"message": held.message.id, "digest": digest.id}
    return LedgerRow(now, RELEASED, Occurrence.parse(held.message.occurrence), facts)


def _close_oldest(tx: Transaction, poster: MessagePoster, digest: Digest) -> None:
    """Keep the digest if it has buttons; one that is kept no longer loses its own."""
    if not digest.has_buttons:
        return
    before = tx.digests.get()
    after = before.with_new(digest)
    tx.digests.put(after)
    for each in before.kept:
        message = tx.messages.get(each.id)
        if after.find(each.id) is None and message is not None and message.card is not None:
            closed = replace(message.card, buttons=())
            poster.add_to_log(tx, replace(message, card=closed))


def _drawn(tx: Transaction, digest: Digest) -> ChatMessage:
    keys = (each.item for each in digest.entries if each.item)
    items = {key: item for key in keys if (item := tx.due_items.get(key)) is not None}
    messages = (each.message.id for each in digest.entries)
    posted = frozenset(each for each in messages if tx.messages.get(each) is not None)
    return digest_message(digest, items, posted, tx.now)


def redraw_digests(tx: Transaction, poster: MessagePoster) -> None:
    """Show in each digest what has become of its lines."""
    for digest in tx.digests.get().kept:
        _redraw(tx, poster, digest)


def _redraw(tx: Transaction, poster: MessagePoster, digest: Digest) -> None:
    message, drawn = tx.messages.get(digest.id), _drawn(tx, digest)
    if message is not None and (message.card, message.text) != (drawn.card, drawn.text):
        poster.add_to_log(tx, replace(message, text=drawn.text, card=drawn.card))


class DigestButtons:
    """Shows a message that a line only names, and turns the pages of a digest."""

    def __init__(self, store: Store, poster: MessagePoster) -> None:
        self._store = store
        self._poster = poster
        self.actions: Mapping[str, Action] = {
            SHOW_HELD: Action(self._show, Uses.NOTHING),
            TURN_PAGE: Action(self._turn, Uses.NOTHING),
        }

    async def _show(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        def step(tx: Transaction) -> bool:
            digest = tx.digests.get().find(message.id)
            held = None if digest is None else digest.find(button.data)
            if digest is None or held is None or tx.messages.get(held.message.id) is not None:
                return False
            # The digest has paid for it.
            sender = Sender(Charge.NOTHING, held.fork, held.parent)
            if _is_to_be_told(tx, held):
                self._poster.add_to_log(tx, held.message, sender)
            _redraw(tx, self._poster, digest)
            return True

        return _answer(is_done=await self._store.transact(step))

    async def _turn(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        def step(tx: Transaction) -> bool:
            digest = tx.digests.get().find(MessageId(message.id))
            if digest is None or not button.data.isdecimal():
                return False
            turned = replace(digest, page=int(button.data))
            tx.digests.change(lambda known: known.changed(turned))
            _redraw(tx, self._poster, turned)
            return True

        return _answer(is_done=await self._store.transact(step))


def _answer(*, is_done: bool) -> CommandAnswer:
    return CommandAnswer() if is_done else CommandAnswer(texts.BUTTON_USED, is_error=True)

"""Questions about the log, each answered from one state of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ollim_bot.conversation.jobs.cards import is_undo_of_change
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import addresses_in
from ollim_bot.store.transaction import Transaction

_NEWEST = 500
# How many of the owner's latest messages are searched for addresses that the owner typed.
_REMEMBERED = 100
_OF_SESSION = 20
_NEAREST = 20


def answer_of(tx: Transaction, turn: TurnId) -> ChatMessage | None:
    """The answer with which a turn ended; None if it was cut off or not committed."""
    for each in reversed(tx.messages.of_turn(turn)):
        if each.message.author is Author.ASSISTANT and not each.message.is_cut_off:
            return each.message
    return None


def open_items(tx: Transaction) -> tuple[Sequence[DueItem], DueItem | None]:
    """The open items, and the one whose card is the newest thing that the bot has said.

    None is, where another open card stands right above it.
    """
    waiting = tx.due_items.open()
    if not waiting:
        return (), None
    cards = {each.card: each for each in waiting}
    newest = (each.message for each in tx.messages.page(_NEAREST))
    said = [each.id for each in newest if each.author is not Author.OWNER]
    is_alone = not any(each in cards for each in said[-2:-1])
    return waiting, cards.get(said[-1]) if said and is_alone else None


def open_question(tx: Transaction) -> ChatMessage | None:
    """The card on which the agent has just asked something, with a button for each answer."""
    for each in reversed(tx.messages.page(_NEAREST)):
        message, card = each.message, each.message.card
        if message.author is Author.OWNER:
            return None
        if message.author is Author.ASSISTANT and card is not None and card.is_question:
            return message
    return None


def context_of(tx: Transaction, session: SessionId) -> int:
    """The number of tokens in a session at its last answer; 0 if unknown."""
    for each in tx.messages.newest_of_session(session, _OF_SESSION):
        if each.message.spent is not None:
            return each.message.spent.context
    return 0


def with_open_button(tx: Transaction, action: str) -> list[ChatMessage]:
    """The newest messages that have an unused button of this action."""
    newest = (each.message for each in tx.messages.page(_NEWEST))
    return [each for each in newest if _can_be_clicked(each, action)]


def _can_be_clicked(message: ChatMessage, action: str) -> bool:
    buttons = message.card.buttons if message.card else ()
    return any(button.action == action and not button.is_used for button in buttons)


def undo_of_change(
    tx: Transaction, replied_to: MessageId | None
) -> tuple[ChatMessage, Button] | None:
    """The card of a change that can be undone: the one replied to, else the only one since the
    owner's last message.
    """
    newest = (each.message for each in reversed(tx.messages.page(_NEAREST)))
    since = takewhile(lambda each: each.author is not Author.OWNER, newest)
    quoted = None if replied_to is None else tx.messages.get(replied_to)
    found = [
        (each, button)
        for each in (since if replied_to is None else [quoted])
        for button in (each.card.buttons if each and each.card else ())
        if each is not None and is_undo_of_change(button)
    ]
    return found[0] if len(found) == 1 else None


class TypedAddresses:
    """The web addresses in the owner's latest messages.

    Each change of the log is looked at once: to read the latest messages again for every turn would
    take longer than all else before the model is asked.
    """

    def __init__(self) -> None:
        self._change = 0
        self._by_place: dict[int, frozenset[str]] = {}

    def read(self, tx: Transaction) -> frozenset[str]:
        changed = tx.messages.since_change(self._change, _NEWEST) if self._change else []
        if not self._change or len(changed) == _NEWEST:
            changed = tx.messages.page(_NEWEST)
        for each in changed:
            self._change = max(self._change, each.change)
            self._by_place.pop(each.seq, None)
            if each.message.is_typed:
                self._by_place[each.seq] = addresses_in(each.message.text)
        newest = sorted(self._by_place)[-_REMEMBERED:]
        self._by_place = {place: self._by_place[place] for place in newest}
        return frozenset().union(*self._by_place.values())

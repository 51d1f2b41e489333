"""Questions about the log, each answered from one state of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ollim_bot.conversation.jobs.cards import is_undo_of_change
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.sessions import SessionId
from ollim_bot.store.transaction import Transaction

_NEWEST = 500
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


def newest_typed(tx: Transaction, most: int) -> list[str]:
    """The owner's own words, newest first, at most so many messages of them."""
    newest = (each.message for each in reversed(tx.messages.page(_NEWEST)))
    return [each.text for each in newest if each.is_typed][:most]

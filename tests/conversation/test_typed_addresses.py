"""The addresses that the owner typed are known, though each message is read only once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from devtools.doubles.repeating_store import RepeatingStore

from ollim_bot.conversation.message_poster import TypedAddresses
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId

NOW = datetime(2026, 11, 15, 14, 30, tzinfo=UTC)


def say(store: RepeatingStore, *texts: str, first: int = 0, author: Author = Author.OWNER) -> None:
    for number, text in enumerate(texts, first):
        at = NOW + timedelta(seconds=number)
        message = ChatMessage(MessageId(f"m{number}"), at, author, text)
        store.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]


def test_what_the_owner_types_later_is_added_to_what_is_known() -> None:
    store, typed = RepeatingStore(lambda: NOW), TypedAddresses()
    say(store, "See a.example.")
    assert store.query(typed.read) == {"a.example"}
    say(store, "And b.example.", first=1)
    say(store, "Or c.example.", first=2, author=Author.ASSISTANT)
    assert store.query(typed.read) == {"a.example", "b.example"}
    assert store.query(typed.read) == store.query(TypedAddresses().read)


def test_an_edit_takes_an_address_back() -> None:
    store, typed = RepeatingStore(lambda: NOW), TypedAddresses()
    say(store, "See a.example.", "And b.example.")
    store.query(typed.read)
    say(store, "See nothing.")
    assert store.query(typed.read) == {"b.example"}


def test_only_the_latest_hundred_messages_count() -> None:
    store, typed = RepeatingStore(lambda: NOW), TypedAddresses()
    say(store, "See a.example.", "And b.example.")
    store.query(typed.read)
    say(store, *["Nothing."] * 99, first=2)
    assert store.query(typed.read) == {"b.example"}
    say(store, "Still nothing.", first=101)
    assert store.query(typed.read) == frozenset()

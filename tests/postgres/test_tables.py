"""Both databases have the same tables, and a search finds the same in both, in the same order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

from devtools.doubles.repeating_store import RepeatingStore
from tests.postgres_server import leading
from tests.store.scene import NOW
from tests.store.test_marks import FORMER, MAIN, put_former
from tests.store.test_query_plans import ask_as_the_lists_do

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.forgetting import Passage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.search import Search, Speaker, terms_of
from ollim_bot.store.connection import connect_in_memory
from ollim_bot.store.schema import COPIES, migrate, tables
from ollim_bot.store.transaction import Transaction
from ollim_bot_standby.postgres.connection import Address, connect_to

WORDS = (
    *("water", "milk", "bread", "call", "dentist", "tomorrow", "Über", "über", "naïve", "naive"),
    *("straße", "STRASSE", "ice-cream", "e-mail", "a.b.c", "3.14", "10k", "I'm", "don’t", "日本語"),
    *("テスト", "café", "cafe\u0301", "snake_case", "½", "²", "Ⅳ", "ﬁne", "x"),
)
SEARCHES = (
    *("water", "wat", "wate milk", '"water milk"', '"call den"', "uber", "strasse", "naive"),
    *("ice cream", '"ice cream"', "email", "e-mail", "a.b", "3.14", "10", "i'm", "don’t", "日本"),
    *("テスト", "cafe", "snake", "case", "1⁄2", "iv", "fine", "absent", "water absent", "x"),
    *("bread bread", '"bread bread"', "tomorrow water call", "dentist caf", "attached"),
)


def corpus() -> list[ChatMessage]:
    chance = random.Random(7)
    authors = (Author.OWNER, Author.ASSISTANT, Author.BACKGROUND)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(150)]
    texts += ["water milk " + "word " * 20_000, "long" * 2000, ""]
    return [
        ChatMessage(
            MessageId(f"m{number}"), NOW + timedelta(minutes=number), chance.choice(authors), text
        )
        for number, text in enumerate(texts)
    ]


def found(tx: Transaction, searches: Sequence[str] = SEARCHES) -> dict[str, list[str]]:
    limits: tuple[dict[str, Any], ...] = (
        {},
        {"limit": 60},
        {"who": Speaker.OWNER},
        {"since": NOW + timedelta(minutes=40), "until": NOW + timedelta(minutes=120)},
    )
    return {
        f"{words} {limit}": [
            each.message.id for each in tx.messages.search(Search(terms_of(words), **limit))
        ]
        for words in searches
        for limit in limits
    }


def test_a_search_finds_the_same_in_the_same_order(address: Address) -> None:
    def fill(tx: Transaction) -> None:
        for message in corpus():
            tx.messages.add(message)
        edited = corpus()[3]
        tx.messages.add(ChatMessage(edited.id, edited.at, edited.author, "water bread edited"))

    store = RepeatingStore(lambda: NOW, is_repeating=False)
    store.run(fill)
    with leading(address, lambda: NOW) as (_, database):
        database.run(fill)
        expected, got = store.query(found), database.query(found)
    different = {
        name: (expected[name], got[name]) for name in expected if expected[name] != got[name]
    }
    assert different == {}
    assert sum(map(len, expected.values())) > 1000


def test_the_lists_and_the_forgetting_of_words_ask_what_both_understand(address: Address) -> None:
    def count_words(tx: Transaction) -> int:
        return sum(tx.texts.count(passage).values())

    passage = Passage.of("water milk")
    with leading(address, lambda: NOW) as (_, database):
        database.run(ask_as_the_lists_do)
        for text in ("Water milk", "bread"):
            message = ChatMessage(MessageId(text), NOW, Author.OWNER, text)
            database.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]
        assert database.query(count_words) == 1
        database.run(lambda tx: tx.texts.forget(passage))
        assert database.query(count_words) == 0
        assert database.query(lambda tx: tx.messages.count()) == 2


def test_both_databases_have_the_same_columns(address: Address) -> None:
    with closing(connect_in_memory()) as memory:
        migrate(memory)
        named = {
            name: {row[1] for row in memory.execute(f"PRAGMA table_info({name})")}
            for (name,) in memory.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("search")
        }
    assert named.keys() - COPIES == {each.name for each in tables()}
    assert all(named[each.name] == set(each.columns) for each in tables())
    with leading(address, lambda: NOW), closing(connect_to(address)) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema()"
        ).fetchall()
    on_server = {name: {row[1] for row in rows if row[0] == name} for name, _ in rows}
    assert {name: on_server[name] for name in on_server.keys() & named.keys()} == named
    assert on_server.keys() - named.keys() == {"lease", "search", "search_state"}


def test_the_marks_of_version_013_on_a_server_are_taken_over_once(address: Address) -> None:
    with leading(address, lambda: NOW) as (_, database):
        database.run(lambda tx: put_former(tx, FORMER))
        database.prepare()
        assert database.query(lambda tx: tx.marks.of(MAIN)) == ("web page", "mail")
        assert len(database.query(lambda tx: tx.marks.left())) == 2

"""Searching what was said, with a long history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

from bench.fixtures import NOW, new_database, running
from bench.measure import Result, compare
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.store.database import Database
from ollim_bot.store.transaction import Transaction

LONG = 100_000
WORDS = 40
ROUNDS = 15
# Without growth the ratio is 1; the rest allows for the noise between two medians of a disk.
NO_GROWTH = 1.5

_OFTEN = "often"
_MORE = 0.1


def measure(folder: Path) -> list[Result]:
    command = str(Path(sys.executable).with_name("ollim-bot"))
    old, new = new_database(folder / "data"), new_database(folder / "short")
    old.run(fill_history)
    old.checkpoint()
    numbers = count(LONG)
    bare = running([sys.executable, "-c", "pass"], folder)
    rows = [
        compare(
            f"history search, {LONG} messages, {about}, cold",
            running([command, "history", "search", *words], folder),
            "python -c pass",
            bare,
            rounds=ROUNDS,
            most_more=_MORE,
        )
        for about, words in (
            ("a rare word", ("rare77",)),
            ("a word of all", (_OFTEN, "--who", "bot")),
        )
    ]
    rows.append(
        compare(
            f"message added with {LONG} before it",
            lambda: _add(old, next(numbers)),
            "with none",
            lambda: _add(new, next(numbers)),
            rounds=4 * ROUNDS,
            most_times=NO_GROWTH,
        )
    )
    old.close()
    new.close()
    return rows


def fill_history(tx: Transaction) -> None:
    for message in _messages():
        tx.messages.add(message)


def _messages() -> Iterator[ChatMessage]:
    chance = Random(1)
    usual = [
        f"word{min(chance.randrange(1, 20_000), chance.randrange(1, 20_000))}"
        for _ in range(400_000)
    ]
    for number in range(LONG):
        start = chance.randrange(len(usual) - WORDS)
        yield _message(number, " ".join(usual[start : start + WORDS]))


def _message(number: int, words: str) -> ChatMessage:
    author = Author.ASSISTANT if number % 2 else Author.OWNER
    at = NOW - timedelta(minutes=LONG - number)
    text = f"{_OFTEN} {words} rare{number // 100}"
    return ChatMessage(MessageId(f"m{number}"), at, author, text)


def _add(database: Database, number: int) -> None:
    database.run(lambda tx: tx.messages.add(_message(number, "a few words of the owner")))

"""The whole database can be exported as lines of JSON at any time, without a change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.terminal import Terminal

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.surfaces.terminal.terminal_data import PAGE_SIZE

AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
DENTIST = Occurrence.scheduled(JobKind.REMINDER, "dentist", AT)
ROWS = [
    LedgerRow(AT, "due", DENTIST, {}),
    LedgerRow(AT + timedelta(days=1), "update_dropped", None, {"message": "Grüße \ud83d"}),
    LedgerRow(AT + timedelta(days=2), "done", DENTIST, {"pings": ["17"]}),
]
MESSAGES = [
    ChatMessage(MessageId("16"), AT, Author.OWNER, "hello\nthere"),
    ChatMessage(MessageId("17"), AT + timedelta(days=1), Author.BACKGROUND, "Call\x1b[31m 🦷"),
]
NOUNS = ("runs", "messages")


@contextmanager
def opened(terminal: Terminal) -> Iterator[Database]:
    database = open_database(terminal.paths, lambda: AT, is_holder=True, report=print)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture
def bot(terminal: Terminal) -> Terminal:
    terminal.paths.locks.mkdir(parents=True)
    with opened(terminal) as database:
        database.run(lambda tx: tx.ledger.append(*ROWS))
        database.run(lambda tx: [tx.messages.add(message) for message in MESSAGES])
        database.run(lambda tx: tx.deliveries.note_received("discord", MessageId("17"), ["9", "8"]))
    return terminal


def exported(terminal: Terminal, *words: str) -> list[Any]:
    return [json.loads(line) for line in terminal.done(*words).splitlines()]


def writes(folder: Path) -> dict[str, tuple[int, int]]:
    """The time and size of each file, without the `-shm` file, which every reader changes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def test_every_row_of_the_ledger_is_exported_in_its_form_oldest_first(bot: Terminal) -> None:
    due, dropped, done = exported(bot, "runs", "export")
    assert due == {"ts": AT.isoformat(), "occurrence": DENTIST.id, "state": "due"}
    assert (dropped["state"], dropped["message"]) == ("update_dropped", "Grüße \ud83d")
    assert (done["state"], done["pings"]) == ("done", ["17"])


def test_every_message_is_exported_with_its_ids_on_the_channels(bot: Terminal) -> None:
    first, second = exported(bot, "messages", "export", "--format", "jsonl")
    assert (first["id"], first["author"], first["text"]) == ("16", "owner", "hello\nthere")
    assert (second["text"], second["refs"]) == ("Call\x1b[31m 🦷", {"discord": "9 8"})


@pytest.mark.parametrize(
    ("since", "count"),
    [("2026-11-03", 1), ("2026-11-02T12:00:00+00:00", 2), ("2026-11-02T13:00", 2), ("90d", 3),
     ("2026-12-01", 0), ("13d", 1)],
)  # fmt: skip
def test_since_leaves_out_what_is_older(bot: Terminal, since: str, count: int) -> None:
    assert len(exported(bot, "runs", "export", "--since", since)) == count


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("since", ["soon", "2026-13-01", "0001-01-01T00:00:00+14:00", ""])
def test_a_wrong_date_is_said_in_one_sentence(bot: Terminal, noun: str, since: str) -> None:
    said = bot.refused(noun, "export", "--since", since)
    assert said == (
        f"--since: {since!r} is not right. It takes a date such as 2026-11-01, or a length of time "
        "such as 30d.\n"
    )


def test_a_long_log_is_exported_page_by_page_with_none_missing_or_doubled(bot: Terminal) -> None:
    count = 2 * PAGE_SIZE + 1
    rows = [LedgerRow(AT, "noted", None, {"n": number}) for number in range(count)]
    said = [ChatMessage(MessageId(f"m{n}"), AT, Author.ASSISTANT, str(n)) for n in range(count)]
    with opened(bot) as database:
        database.run(lambda tx: tx.ledger.append(*rows))
        database.run(lambda tx: [tx.messages.add(message) for message in said])
    noted = [row["n"] for row in exported(bot, "runs", "export") if row["state"] == "noted"]
    assert noted == list(range(count))
    texts = [each["text"] for each in exported(bot, "messages", "export")[len(MESSAGES) :]]
    assert texts == [str(n) for n in range(count)]


@pytest.mark.parametrize("noun", NOUNS)
def test_an_export_changes_nothing_also_while_the_bot_runs(bot: Terminal, noun: str) -> None:
    before = writes(bot.home)
    alone = bot.done(noun, "export")
    assert writes(bot.home) == before
    with single_instance(bot.paths.bot_pid), opened(bot) as database:
        database.run(lambda tx: tx.meta.put("probe", ""))
        before = writes(bot.home)
        assert bot.done(noun, "export") == alone
        assert writes(bot.home) == before


def test_a_file_is_written_whole_and_readable_by_its_owner_alone(bot: Terminal) -> None:
    assert bot.done("runs", "export", "--output", "runs.jsonl") == "3 rows are in ~/runs.jsonl.\n"
    written = bot.home / "runs.jsonl"
    assert written.read_text() == bot.done("runs", "export")
    assert written.stat().st_mode & 0o777 == 0o600
    assert bot.done("messages", "export", "--since", "13d", "--output", "none.jsonl") == (
        "0 rows are in ~/none.jsonl.\n"
    )
    assert {path.name for path in bot.home.iterdir()} == {".ollim-bot", "runs.jsonl", "none.jsonl"}


def test_a_file_that_exists_is_replaced_only_by_force(bot: Terminal) -> None:
    there = bot.home / "mine.txt"
    there.write_text("mine")
    said = bot.refused("runs", "export", "--output", "mine.txt", code=1)
    assert said == f"{there} exists already. --force replaces it.\n"
    assert there.read_text() == "mine"
    bot.done("runs", "export", "--output", "mine.txt", "--force")
    assert there.read_text() == bot.done("runs", "export")


def test_what_is_no_file_is_not_replaced_by_force_either(bot: Terminal) -> None:
    folder = bot.home / "folder"
    folder.mkdir()
    said = bot.refused("runs", "export", "--output", "folder", "--force", code=1)
    assert said == f"{folder} is not a file. Name another one.\n"


def test_a_link_is_followed_by_force(bot: Terminal) -> None:
    (bot.home / "real.jsonl").write_text("old")
    (bot.home / "link").symlink_to("real.jsonl")
    bot.done("runs", "export", "--output", "link", "--force")
    assert (bot.home / "link").is_symlink()
    assert (bot.home / "real.jsonl").read_text() == bot.done("runs", "export")


def test_a_folder_that_is_not_there_is_named(bot: Terminal) -> None:
    said = bot.refused("runs", "export", "--output", "no/such.jsonl", code=1)
    assert "no/such.jsonl: could not be written: No such file or directory." in said


@pytest.mark.parametrize("noun", NOUNS)
def test_without_a_database_it_is_said_and_nothing_is_made(terminal: Terminal, noun: str) -> None:
    said = terminal.refused(noun, "export", "--output", "out.jsonl", code=1)
    assert "does not exist yet. Start the bot once" in said
    assert said.count("\n") == 1
    assert list(terminal.home.iterdir()) == []


def damage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def break_a_row(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ledger SET value = '{' WHERE seq = 2")
    connection.close()


def make_newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [(damage, "is damaged"), (break_a_row, "is damaged"), (make_newer, "newer version")],
)
def test_what_cannot_be_read_is_never_exported_as_less(
    bot: Terminal, harm: Any, sentence: str
) -> None:
    harm(bot.paths.state / DATABASE)
    said = bot.refused("runs", "export", "--output", "out.jsonl", code=1)
    assert sentence in said
    assert said.count("\n") == 1
    assert {path.name for path in bot.home.iterdir()} == {".ollim-bot"}


def test_the_agent_can_read_the_ledger_and_write_no_file_with_it(bot: Terminal) -> None:
    bot.environ["OLLIM_CALLED_BY"] = "conversation"
    assert len(exported(bot, "runs", "export")) == len(ROWS)
    for words in (("--output", "USER.md"), ("--output=USER.md",)):
        said = bot.refused("runs", "export", *words, code=1)
        assert "`ollim-bot runs export --output` is for the owner alone" in said
    assert {path.name for path in bot.home.iterdir()} == {".ollim-bot"}

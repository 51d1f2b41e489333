"""Every message can be found by its words, even after its conversation was cleared."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.repeating_store import RepeatingStore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.store.scene import StoreScene

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.copies import copies_of, suspect
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE, ask
from ollim_bot.kernel.store.state_inspection import database_troubles
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.search import Search, Speaker, folded_words, terms_of

NOW = datetime(2026, 11, 15, 14, 30, tzinfo=UTC)
FIRST, SECOND = SessionId("first-session"), SessionId("second-session")
HOSTILE = (
    '"',
    '""',
    "a OR b",
    "AND",
    "NOT",
    "NEAR(a b)",
    "who:owner",
    "{text} : x",
    "text : (",
    "a*",
    "*",
    "^a",
    "-a",
    "a + b",
    "'; DROP TABLE messages; --",
    "a\x00b",
    "\ud800",
    "%",
    "_",
    "a" * 5000,
    "x " * 5000,
)


def said(name: str, text: str, author: Author = Author.OWNER, **fields: object) -> ChatMessage:
    return ChatMessage(MessageId(name), NOW, author, text, **fields)  # type: ignore[arg-type]


def answer(name: str, text: str, session: SessionId) -> ChatMessage:
    return said(name, text, Author.ASSISTANT, turn=TurnId(f"turn-{name}"), session=session)


def store_of(*messages: ChatMessage, is_indexed: bool = True) -> RepeatingStore:
    store = RepeatingStore(lambda: NOW)
    if not is_indexed:
        store.run(lambda tx: tx.messages.prepare_search(is_supported=False))
    for message in messages:
        store.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]
    return store


def found(store: RepeatingStore, words: str, **limits: object) -> list[str]:
    wanted = Search(terms_of(words), **limits)  # type: ignore[arg-type]
    return [each.message.id for each in store.query(lambda tx: tx.messages.search(wanted))]


@pytest.fixture(params=[True, False], ids=["indexed", "compared"])
def is_indexed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_every_message_is_found_by_each_of_its_words(texts: list[str], data: st.DataObject) -> None:
    store = store_of(*(said(f"m{number}", text) for number, text in enumerate(texts)))
    number = data.draw(st.integers(0, len(texts) - 1))
    words = folded_words(texts[number])
    if words:
        _, start, end = data.draw(st.sampled_from(words))
        assert f"m{number}" in found(store, texts[number][start:end])


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=40, deadline=None)
def test_any_text_can_be_searched_for_and_both_ways_find_the_same(text: str, words: str) -> None:
    try:
        terms_of(words)
    except WrongInput:
        return
    indexed, compared = store_of(said("m", text)), store_of(said("m", text), is_indexed=False)
    assert found(indexed, words) == found(compared, words)


@pytest.mark.parametrize("words", HOSTILE)
def test_what_looks_like_syntax_is_looked_for_as_words(words: str) -> None:
    store = store_of(said("m", "something of the kind"))
    with suppress(WrongInput):  # there is no word in it
        assert found(store, words) == []


def test_case_accents_beginnings_phrases_and_files_count_as_a_person_expects(
    is_indexed: bool,
) -> None:
    store = store_of(
        said("café", "Das Café am Fluß, um re\u0301sume\u0301s zu lesen"),
        said("tokyo", "明日は東京へ行く"),
        said("file", "here", attachments=(Attachment("Invoice 12.pdf", "d/x", "a/b", 1),)),
        said("order", "am Café der Fluß"),
        is_indexed=is_indexed,
    )
    assert found(store, "CAFE fluss") == ["order", "café"]
    assert found(store, "resumes") == ["café"]
    assert found(store, "caf") == ["order", "café"]
    assert found(store, "caf am") == []
    assert found(store, '"Café am Fluß"') == ["café"]
    assert found(store, "“cafe am”") == ["café"]
    assert found(store, '"caf"') == []
    assert found(store, "東京") == ["tokyo"]
    assert found(store, "京東") == []
    assert found(store, "invoice") == ["file"]


def test_an_edit_is_found_by_its_new_words_only(is_indexed: bool) -> None:
    store = store_of(said("m", "buy apples"), said("m", "buy pears"), is_indexed=is_indexed)
    assert found(store, "apples") == []
    assert found(store, "pears buy") == ["m"]


def test_a_search_is_limited_to_a_time_a_session_and_a_speaker(is_indexed: bool) -> None:
    hour = timedelta(hours=1)
    store = store_of(
        said("asked", "tea please"),
        answer("answered", "tea is ready", FIRST),
        said("pinged", "tea is cold", Author.BACKGROUND, session=SessionId("run")),
        said("noted", "tea: a note of the program", Author.PROGRAM),
        said("again", "more tea"),
        answer("later", "no tea is left", SECOND),
        is_indexed=is_indexed,
    )
    later = ChatMessage(MessageId("late"), NOW + hour, Author.OWNER, "tea, an hour later")
    store.run(lambda tx: tx.messages.add(later))

    def ids(**limits: object) -> set[str]:
        return set(found(store, "tea", **limits))

    assert ids(who=Speaker.OWNER) == {"asked", "again", "late"}
    assert ids(who=Speaker.JOB) == {"pinged"}
    assert ids(who=Speaker.BOT) == {"answered", "noted", "later"}
    assert ids(since=NOW + hour) == {"late"}
    assert ids(until=NOW + hour) == ids() - {"late"}
    assert ids(session=FIRST) == {"asked", "answered"}
    assert ids(session=SECOND) == {"noted", "again", "later"}
    assert ids(session=SessionId("run")) == {"pinged"}
    assert len(found(store, "tea", limit=2)) == 2


def test_the_better_match_comes_first_and_the_newer_of_equals() -> None:
    long = " ".join(["word"] * 60)
    store = store_of(
        said("old", "call the dentist"),
        said("new", "call the dentist"),
        said("long", f"dentist {long}"),
        *(said(f"other{number}", f"something else {number}") for number in range(20)),
    )
    assert found(store, "dentist") == ["new", "old", "long"]


def test_a_session_is_told_with_the_questions_that_it_answered() -> None:
    store = store_of(
        said("asked", "tea please"),
        answer("answered", "tea is ready", FIRST),
        said("again", "more tea"),
        answer("later", "no tea is left", SECOND),
        said("back", "as before"),
        answer("resumed", "yes", FIRST),
    )
    story = store.query(lambda tx: tx.messages.of_session(FIRST))
    assert [each.message.id for each in story] == ["asked", "answered", "back", "resumed"]
    assert store.query(lambda tx: tx.messages.of_session(SessionId("none"))) == []


def opened(paths: DataPaths) -> Database:
    return open_database(paths, lambda: NOW, is_holder=True, report=lambda _: None)


def by_word(paths: DataPaths, word: str) -> list[str]:
    wanted = Search(terms_of(word))
    return [each.message.id for each in ask(paths, NOW, lambda tx: tx.messages.search(wanted))]


def indexed(database: Path, word: str) -> int:
    with closing(sqlite3.connect(database)) as connection:
        sql = "SELECT count(*) FROM search WHERE search MATCH ?"
        return int(connection.execute(sql, (word,)).fetchone()[0])


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path)
    paths.state.mkdir()
    return paths


def test_a_message_and_its_words_are_committed_together(paths: DataPaths) -> None:
    def fails(tx: Transaction) -> None:
        tx.messages.add(said("lost", "never happened"))
        raise WrongInput("no")

    with closing(opened(paths)) as database:
        database.run(lambda tx: tx.messages.add(said("kept", "kept words")))
        with pytest.raises(WrongInput):
            database.run(fails)
    assert by_word(paths, "kept") == ["kept"]
    assert indexed(paths.state / DATABASE, "happened") == 0


def test_an_older_database_is_indexed_once_at_the_first_start(scene: StoreScene) -> None:
    path = scene.state / DATABASE
    scene.open().run(lambda tx: tx.messages.add(said("m", "from before")))
    scene.return_to_version(2)
    scene.open().close()
    assert indexed(path, "before") == 1
    assert by_word(scene.paths, "before") == ["m"]
    assert len(copies_of(path)) == 1


def test_words_added_where_sqlite_cannot_index_are_indexed_once_it_can(paths: DataPaths) -> None:
    with closing(opened(paths)) as database:
        database.run(lambda tx: tx.messages.prepare_search(is_supported=False))
        database.run(lambda tx: tx.messages.add(said("m", "added elsewhere")))
    assert by_word(paths, "elsewhere") == ["m"]
    assert indexed(paths.state / DATABASE, "elsewhere") == 0
    problems = [trouble.sentence for trouble in database_troubles(paths, NOW)]
    assert problems == ["SQLite has no full-text search here, so a search compares all messages"]
    opened(paths).close()
    assert list(database_troubles(paths, NOW)) == []
    assert indexed(paths.state / DATABASE, "elsewhere") == 1


def test_what_is_salvaged_of_a_damaged_database_can_be_searched(paths: DataPaths) -> None:
    path = paths.state / DATABASE
    with closing(opened(paths)) as database:
        for number in range(300):
            database.run(lambda tx, n=number: tx.messages.add(said(f"m{n}", f"word{n} rest")))  # type: ignore[misc]
    with closing(sqlite3.connect(path)) as connection:
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='search_data'")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((root[0] - 1) * size)
        file.write(b"\xff" * size)
    suspect(path)
    opened(paths).close()
    assert by_word(paths, "word123") == ["m123"]
    assert indexed(path, "rest") == 300

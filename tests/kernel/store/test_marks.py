"""Marks say by place where the words of others are, and none is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.kernel.store.scene import NOW, StoreScene
from tests.stores import memory_stores

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.mark_rows import MOST_LEFT, encoded_mark, key_of
from ollim_bot.kernel.store.records import PUT_RECORD
from ollim_bot.kernel.store.schema import tables
from ollim_bot.kernel.store.steps import forget_words
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.forgetting import Passage
from ollim_bot.kernel.values.taint import LOST, TaintMark
from ollim_bot.kernel.values.tasks import Task

MAIN = SessionId("main")
HOUR = timedelta(hours=1)
# As version 0.13 has written it.
FORMER = (
    '{"recent":[{"at":"2026-11-15T08:30:00+00:00","source":"web page"}],'
    '"sessions":[{"session":"main","sources":["web page","mail"]},'
    '{"session":"other","sources":["mail"]}],'
    '"tasks":[{"id":"3f2a9c1b","title":"Buy what they sell","untrusted":"mail"},'
    '{"is_shown":true,"title":"Öl  nachfüllen","untrusted":"web page, mail"}]}'
)


def marked_at(path: str, source: str = "mail") -> TaintMark:
    return TaintMark(source, NOW, path=path)


def titled(title: str, source: str = "mail", untold: str = "") -> TaintMark:
    return TaintMark(source, NOW, title=title, untold=untold)


def test_a_day_ends_what_may_have_led_to_a_change(tmp_path: Path) -> None:
    at = [NOW]
    database = StoreScene(tmp_path).open(now=lambda: at[0])
    database.run(lambda tx: tx.marks.read(MAIN, ["web page"], in_turn=True))
    at[0] += HOUR
    database.run(lambda tx: tx.marks.read(MAIN, ["mail", "web page"], in_turn=True))
    database.run(lambda tx: tx.marks.end(MAIN))
    for hours, sources in ((24, {"mail", "web page"}), (26, set()), (-30, set())):
        now = NOW + hours * HOUR
        found = database.query(lambda tx, now=now: tx.marks.in_last_day(now))  # type: ignore[misc]
        assert {*found.sources} == sources
    database.close()


def test_a_session_is_careful_since_it_first_read_until_the_owner_writes(tmp_path: Path) -> None:
    at = [NOW]
    database = StoreScene(tmp_path).open(now=lambda: at[0])
    database.run(lambda tx: tx.marks.read(MAIN, ["web page"]))
    at[0] += HOUR
    database.run(lambda tx: tx.marks.read(MAIN, ["mail", "web page"]))
    assert database.query(lambda tx: tx.marks.of(MAIN)) == ("web page", "mail")
    known = database.query(lambda tx: tx.marks.of_session(MAIN))
    assert known == TaintMark("web page, mail", NOW)
    branch = SessionId("branch")
    database.run(lambda tx: tx.marks.go_on(branch, tx.marks.of_session(MAIN)))
    assert database.query(lambda tx: tx.marks.of_session(branch)) == known
    database.run(lambda tx: tx.marks.end(MAIN))
    assert database.query(lambda tx: tx.marks.of_session(MAIN)) is None
    database.close()


@pytest.mark.parametrize("folder", ["", "notes", "Notes/Others", 'notes/a"b', "notes/f\u00fcr"])
def test_the_marks_in_a_folder_are_those_whose_paths_lead_there(folder: str) -> None:
    stores = memory_stores(NOW)
    paths = [
        *("notes/a.md", "notes/others/b.md", 'notes/a"b/\u00e9.md', "notes/fu\u0308r/c.md"),
        *("notes.md", "notesx/d.md", "a.md", "notes/others.md"),
    ]
    for path in paths:
        stores.state.run(lambda tx, path=path: tx.marks.leave(marked_at(path)))  # type: ignore[misc]
    stores.state.run(lambda tx: tx.marks.leave(titled("notes/x")))
    found = stores.state.query(lambda tx: tx.marks.below(folder))
    chosen = stores.state.query(lambda tx: tx.marks.below(folder, lambda names: names & {"c.md"}))
    same = {"Notes/Others": "notes/others", "notes/f\u00fcr": "notes/fu\u0308r"}.get(folder, folder)
    inside = {each for each in paths if each.startswith(f"{same}/" if same else "")}
    assert {each.path for each in found} == inside
    assert {each.path for each in chosen} == inside & {"notes/fu\u0308r/c.md"}


@pytest.mark.parametrize("path", ["notes/a.md", "Notes/A.md", "notes/Straße.md", "n\u0303/\u00e9"])
def test_a_file_is_found_under_each_name_that_a_file_system_takes_for_it(path: str) -> None:
    stores = memory_stores(NOW)
    stores.state.run(lambda tx: tx.marks.leave(marked_at(path.upper())))
    assert stores.state.query(lambda tx: tx.marks.of_files([path, "b.md"])) == [
        marked_at(path.upper())
    ]


def test_a_second_writing_adds_its_sources() -> None:
    stores = memory_stores(NOW)
    stores.state.run(lambda tx: tx.marks.leave(titled("Buy milk", untold="1")))
    stores.state.run(lambda tx: tx.marks.leave(titled("buy  MILK", "web page, mail", "2")))
    assert stores.state.query(lambda tx: tx.marks.of_task("Buy milk")) == "mail, web page"
    # Shown was the first one.
    stores.state.run(lambda tx: tx.marks.tell(titled("Buy milk", untold="1")))
    (left,) = stores.state.query(lambda tx: tx.marks.untold())
    stores.state.run(lambda tx: tx.marks.tell(left))
    assert stores.state.query(lambda tx: tx.marks.untold()) == []
    assert stores.state.query(lambda tx: tx.marks.of_task("Buy milk")) == "mail, web page"


def test_at_the_limit_nothing_more_is_left_and_no_mark_is_pushed_out() -> None:
    stores = memory_stores(NOW)
    first = fill(stores.state.run)
    with pytest.raises(WrongInput, match="10,000 notes and tasks have words of others already"):
        stores.state.run(lambda tx: tx.marks.leave(marked_at("notes/more.md")))
    # What has a mark may get more, what is written already is never without one, and reading goes
    # on.
    stores.state.run(lambda tx: tx.marks.leave(replace(first, source="web page")))
    stores.state.run(lambda tx: tx.marks.leave(titled("there"), is_written=True))
    stores.state.run(lambda tx: tx.marks.read(MAIN, ["mail"], in_turn=True))
    assert stores.state.query(lambda tx: len(tx.marks.left())) == MOST_LEFT + 1


def fill(run: object) -> TaintMark:
    """Leave as many marks as there may be; the first of them is returned."""
    marks = [marked_at(f"notes/others/{number}.md") for number in range(MOST_LEFT)]
    table = next(each for each in tables() if each.name == "marks")
    rows = [encoded_mark(key_of(each), each) for each in marks]
    assert callable(run)
    columns, values = ", ".join(table.columns), ", ".join("?" * len(table.columns))
    sql = f"INSERT INTO marks ({columns}) VALUES ({values})"
    run(lambda tx: [tx.statements.write("marks", sql, *row) for row in rows])
    return marks[0]


def test_what_is_forgotten_is_in_no_mark_and_the_rest_of_a_title_keeps_it() -> None:
    stores = memory_stores(NOW)
    stores.state.run(lambda tx: tx.marks.leave(titled("Call Melissa about it")))
    stores.state.run(lambda tx: tx.marks.leave(marked_at("notes/melissa.md")))
    passage = Passage.of("Melissa")
    stores.state.run(lambda tx: forget_words(tx, passage))
    (title,) = [each.title for each in stores.state.query(lambda tx: tx.marks.left()) if each.title]
    assert "Melissa" not in title
    assert stores.state.query(lambda tx: tx.marks.of_task(title)) == "mail"
    # The file is renamed in the same way, and keeps its mark.
    name = f"notes/{passage.cut_from_name('melissa.md')}"
    assert [each.path for each in stores.state.query(lambda tx: tx.marks.of_files([name]))] == [
        name
    ]
    assert stores.state.query(lambda tx: tx.marks.of_files(["notes/melissa.md"])) == []


def check_former(database: Database) -> None:
    assert database.query(lambda tx: tx.marks.of(MAIN)) == ("web page", "mail")
    assert database.query(lambda tx: tx.marks.of(SessionId("other"))) == ("mail",)
    assert database.query(lambda tx: tx.marks.in_last_day(NOW)).sources == ("web page",)
    titles = [Task("1", "buy what they sell"), Task("2", "öl nachfüllen"), Task("3", "Rest")]
    found = database.query(lambda tx: tx.marks.marked(titles))
    assert [each.untrusted for each in found] == ["mail", "web page, mail", ""]
    assert [each.untold for each in database.query(lambda tx: tx.marks.untold())] == ["3f2a9c1b"]


def put_former(tx: Transaction, value: str) -> None:
    tx.statements.write("taint", PUT_RECORD, "taint", value)


def test_the_marks_of_version_013_are_taken_over_once(scene: StoreScene) -> None:
    scene.open().run(lambda tx: put_former(tx, FORMER))
    scene.close()
    check_former(scene.open())
    scene.opened[-1].run(lambda tx: tx.marks.end(MAIN))
    scene.close()
    assert scene.open().query(lambda tx: tx.marks.of(MAIN)) == ()


def test_of_marks_that_cannot_be_read_it_is_known_that_they_are_lost(scene: StoreScene) -> None:
    scene.open().run(lambda tx: put_former(tx, '{"sessions":[{"session":7}]}'))
    scene.close()
    assert scene.open().query(lambda tx: tx.marks.of(MAIN)) == (LOST,)

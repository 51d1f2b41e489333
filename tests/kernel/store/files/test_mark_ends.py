"""A mark ends with its words: by the owner's hand, by an Undo, or when they are gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.file_changes import NOW, RowsBeside, file_changes
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.store.mark_rows import hash_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.taint import TaintMark

DAY = timedelta(days=1)
PLAN = "plan.md"
EVIL, WORSE = "EVIL: one\n", "EVIL: two\n"


class Desk:
    """The data directory of an owner; the notes in it are by the agent."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        self.at = NOW
        self.rows = RowsBeside(data.paths, self.now)
        self.changes = file_changes(data.paths, data.journal, now=self.now)
        self.changes.look()

    def now(self) -> datetime:
        return self.at

    def agent_writes(
        self, text: str, source: str, *, is_killed: bool = False, is_known: bool = True
    ) -> ChangeRow:
        """As the bot has it: the mark first, then the file, then what was changed."""
        self.at += DAY / 24
        self.changes.begin(PLAN, f"{len(text):08x}", CONVERSATION, source if is_known else "")
        if source:
            self.rows.run(lambda tx: tx.marks.leave(TaintMark(source, tx.now, path=PLAN)))
        (self.data.paths.root / PLAN).write_text(text)
        self.changes.look([PLAN], Changer.AGENT, CONVERSATION)
        marks = self.rows.query(lambda tx: tx.marks.of_files([PLAN]))
        for mark in [] if is_killed else marks:
            after = TaintMark(mark.source, mark.since, PLAN, hash=hash_of(text.encode()))
            self.rows.run(lambda tx, mark=mark, after=after: tx.marks.exchange(mark, after))  # type: ignore[misc]
        return self.rows.query(lambda tx: tx.changes.newest(1))[0]

    def marked(self) -> list[str]:
        return [each.path or each.title for each in self.changes.settle_marks()]

    def mark_task(self, title: str, age: timedelta) -> None:
        mark = TaintMark("mail", NOW - age, title=title)
        self.rows.run(lambda tx: tx.marks.leave(mark))

    def put_tasks(self, text: str) -> None:
        (self.data.paths.root / "tasks.md").write_text(text)
        self.changes.look(["tasks.md"])


@pytest.fixture
def desk(data: DataDirectory) -> Desk:
    return Desk(data)


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_undo_of_the_write_takes_its_mark_away(desk: Desk, *, is_killed: bool) -> None:
    desk.agent_writes("mine\n", "")
    change = desk.agent_writes(EVIL, "web page", is_killed=is_killed)
    assert desk.marked() == [PLAN]
    desk.changes.undo_file(change, Changer.PAGE)
    assert (desk.data.paths.root / PLAN).read_text() == "mine\n"
    assert desk.marked() == []


def test_an_undo_that_brings_words_of_others_back_keeps_the_mark(desk: Desk) -> None:
    desk.agent_writes(EVIL, "web page")
    change = desk.agent_writes(WORSE, "web page")
    desk.changes.undo_file(change, Changer.PAGE)
    assert (desk.data.paths.root / PLAN).read_text() == EVIL
    assert desk.marked() == [PLAN]


def test_each_undo_of_a_careful_write_to_the_same_words_takes_its_mark_away(desk: Desk) -> None:
    desk.agent_writes("mine\n", "")
    for text in (EVIL, WORSE):
        change = desk.agent_writes(text, "web page")
        assert desk.marked() == [PLAN]
        desk.changes.undo_file(change, Changer.PAGE)
        assert desk.marked() == []


@pytest.mark.parametrize(
    ("which", "left"), [(0, f"{EVIL}\nsecond\n"), (1, f"{EVIL}\nfirst\n")], ids=["merged", "last"]
)
def test_an_undo_of_what_was_written_beside_words_of_others_keeps_their_mark(
    desk: Desk, which: int, left: str
) -> None:
    """A session that is not careful wrote it, so neither of its changes has a source."""
    desk.agent_writes(EVIL, "web page")
    texts = (f"{EVIL}\nfirst\n", f"{EVIL}\nfirst\n\nsecond\n")
    changes = [desk.agent_writes(text, "") for text in texts]
    desk.changes.undo_file(changes[which], Changer.PAGE)
    assert (desk.data.paths.root / PLAN).read_text() == left
    assert desk.marked() == [PLAN]


def test_an_undo_keeps_a_mark_that_is_older_than_all_changes_that_are_kept(desk: Desk) -> None:
    old = desk.agent_writes(EVIL, "web page")
    desk.rows.run(lambda tx: tx.changes.remove(old.key))
    desk.at += 2 * DAY
    change = desk.agent_writes(WORSE, "mail")
    assert desk.rows.query(lambda tx: tx.changes.newest(9)) == [change]
    desk.changes.undo_file(change, Changer.PAGE)
    assert desk.marked() == [PLAN]


def test_an_undo_of_an_undo_brings_the_mark_back_with_the_words(desk: Desk) -> None:
    desk.agent_writes("mine\n", "")
    change = desk.agent_writes(EVIL, "web page")
    for text, marked in (("mine\n", []), (EVIL, [PLAN]), ("mine\n", [])):
        desk.changes.undo_file(change, Changer.PAGE)
        assert (desk.data.paths.root / PLAN).read_text() == text
        assert desk.marked() == marked
        change = desk.rows.query(lambda tx: tx.changes.newest(1))[0]


def test_what_was_written_beside_them_comes_back_with_the_mark(desk: Desk) -> None:
    desk.agent_writes("mine\n", "")
    changes = [desk.agent_writes(EVIL, "web page"), desk.agent_writes(f"{EVIL}more\n", "")]
    for change in reversed(changes):
        desk.changes.undo_file(change, Changer.PAGE)
    assert desk.marked() == []
    for undo in desk.rows.query(lambda tx: tx.changes.newest(2)):
        desk.at += DAY / 24
        desk.changes.undo_file(undo, Changer.PAGE)
        assert desk.marked() == [PLAN]
    assert (desk.data.paths.root / PLAN).read_text() == f"{EVIL}more\n"


def test_an_undo_keeps_the_mark_of_a_write_whose_session_was_let_go_on_meanwhile(
    desk: Desk,
) -> None:
    """The run knows what it has read, and the session no more."""
    desk.agent_writes(EVIL, "web page", is_known=False)
    desk.changes.undo_file(desk.agent_writes(f"{EVIL}more\n", ""), Changer.PAGE)
    assert (desk.data.paths.root / PLAN).read_text() == EVIL
    assert desk.marked() == [PLAN]


def test_the_mark_of_a_note_that_never_came_goes_after_a_day(desk: Desk) -> None:
    """A kill leaves one too many; a note that is about to be written keeps its own."""
    mark = TaintMark("mail", NOW, path="never.md")
    desk.rows.run(lambda tx: tx.marks.leave(mark))
    desk.agent_writes(EVIL, "web page", is_killed=True)
    for age, marked in ((DAY / 2, ["never.md", PLAN]), (2 * DAY, [PLAN])):
        desk.at = NOW + age
        assert desk.marked() == marked
    # Nobody knows what the agent wrote there, so only that it is gone can be seen.
    (desk.data.paths.root / PLAN).write_text("mine\n")
    assert desk.marked() == [PLAN]
    (desk.data.paths.root / PLAN).unlink()
    assert desk.marked() == []


def test_a_note_that_is_made_anew_where_one_never_came_has_its_own_mark(desk: Desk) -> None:
    def step(tx: Transaction) -> TaintMark:
        return tx.marks.leave(TaintMark("mail", tx.now, path=PLAN, session="main"))

    desk.rows.run(step)
    desk.at += 2 * DAY
    desk.rows.run(step)
    assert desk.marked() == [PLAN]


@pytest.mark.parametrize("change", [lambda note: note.write_text("mine now\n"), Path.unlink])
def test_the_owners_hand_ends_a_mark_that_an_undo_has_kept(
    desk: Desk, change: Callable[[Path], object]
) -> None:
    desk.agent_writes(EVIL, "web page")
    desk.changes.undo_file(desk.agent_writes(WORSE, "web page"), Changer.PAGE)
    assert desk.marked() == [PLAN]
    change(desk.data.paths.root / PLAN)
    assert desk.marked() == []


def test_the_mark_of_a_task_goes_when_nothing_can_bring_the_task_back(desk: Desk) -> None:
    desk.put_tasks("- [ ] Buy this\n")
    for title in ("Buy this", "Never came"):
        desk.mark_task(title, 2 * DAY)
    desk.mark_task("Comes now", DAY / 2)
    assert desk.marked() == ["Buy this", "Comes now"]
    # The Undo of this change would bring it back.
    desk.put_tasks("")
    assert desk.marked() == ["Buy this", "Comes now"]
    for each in desk.rows.query(lambda tx: tx.changes.newest(9)):
        desk.rows.run(lambda tx, key=each.key: tx.changes.remove(key))  # type: ignore[misc]
    assert desk.marked() == ["Comes now"]


def test_no_change_of_the_list_of_tasks_takes_the_mark_of_the_list_away(desk: Desk) -> None:
    desk.rows.run(lambda tx: tx.marks.leave(TaintMark("mail", tx.now, path="tasks.md")))
    for text in ("- [ ] EVIL\n", "- [ ] EVIL\n- [ ] mine\n", "- [ ] EVIL\n- [x] mine\n"):
        desk.put_tasks(text)
    desk.changes.undo_file(desk.rows.query(lambda tx: tx.changes.newest(1))[0], Changer.PAGE)
    assert desk.marked() == ["tasks.md"]
    desk.put_tasks("- [ ] EVIL\n")
    assert desk.marked() == ["tasks.md"]


def test_where_tasks_are_at_google_no_task_is_taken_for_gone(desk: Desk) -> None:
    desk.mark_task("At Google", 2 * DAY)
    desk.data.paths.token.write_text("{}")
    assert desk.marked() == ["At Google"]


def test_a_start_takes_away_what_ended_while_no_bot_ran(desk: Desk) -> None:
    desk.agent_writes(EVIL, "web page")
    (desk.data.paths.root / PLAN).write_text("mine\n")
    Desk(desk.data)
    assert desk.rows.query(lambda tx: tx.marks.left()) == []

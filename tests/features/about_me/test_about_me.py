"""`ollim-bot about-me`: every line that the bot remembers, with where it comes from."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from tests.stores import memory_stores
from tests.terminal import BERLIN, SUNDAY, Terminal

from ollim_bot.features.about_me.about_me_view import AboutMePage
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.store.journal import Git, Note, record
from ollim_bot.kernel.values.about_me import OWNERS_WORDS
from ollim_bot.kernel.values.changes import Changer

pytestmark = pytest.mark.real_process


def commit(terminal: Terminal, day: str, *notes: Note) -> None:
    """Commit as the journal does, on that day."""
    root = terminal.paths.root
    record(Git(root.resolve()).opened(), notes)
    at = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    when = {"GIT_AUTHOR_DATE": at.isoformat(), "GIT_COMMITTER_DATE": at.isoformat()}
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--amend", "--no-edit", "-q",
         "--date", at.isoformat()],
        cwd=root, env=os.environ | when, check=True,
    )  # fmt: skip


def note(terminal: Terminal, name: str, message: str, source: str = "") -> Note:
    return Note(terminal.paths.root / name, message, source)


def remember(terminal: Terminal) -> None:
    terminal.make_directory()
    terminal.write("USER.md", "Ada, in Berlin.\n")
    commit(terminal, "2025-05-01", note(terminal, "USER.md", "by hand: USER.md"))
    terminal.write("USER.md", "Ada, in Berlin.\n\n- likes tea\n")
    commit(terminal, "2026-05-03", note(terminal, "USER.md", "auto: edit USER.md", OWNERS_WORDS))
    terminal.write("USER.md", "Ada, in Berlin.\n\n- likes tea\n- hates mail\n")
    commit(terminal, "2026-05-04", note(terminal, "USER.md", "auto: edit USER.md", "web page"))
    terminal.write("notes/plans.md", "A boat.\n")
    commit(terminal, "2026-05-05", note(terminal, "notes/plans.md", "auto: write notes/plans.md"))


def test_every_line_has_its_source_and_its_day(terminal: Terminal) -> None:
    remember(terminal)
    said = terminal.done("about-me")
    assert "USER.md:1  1 May 2025                     Ada, in Berlin.\n" in said
    assert "USER.md:3  from your words of 3 May       - likes tea\n" in said
    assert "USER.md:4  from a web page read on 4 May  - hates mail\n" in said
    assert "notes/plans.md:1  5 May  A boat.\n" in said
    assert said.index("USER.md:1") < said.index("IDENTITY.md:1") < said.index("notes/plans")


def test_the_lines_are_there_for_programs(terminal: Terminal) -> None:
    remember(terminal)
    lines = {f"{one['file']}:{one['line']}": one for one in terminal.json("about-me")["lines"]}
    assert lines["USER.md:3"] == {
        "file": "USER.md",
        "line": 3,
        "text": "- likes tea",
        "day": "2026-05-03",
        "source": OWNERS_WORDS,
        "untrusted": None,
    }
    assert lines["USER.md:4"]["untrusted"] == "web page"
    assert lines["notes/plans.md:1"]["source"] is None


@pytest.mark.parametrize(
    ("notes", "shown"),
    [
        (
            [("auto: edit USER.md", OWNERS_WORDS), ("auto: edit USER.md", "mail")],
            "from a mail read",
        ),
        ([("auto: edit USER.md", OWNERS_WORDS), ("by hand: USER.md", "")], "3 May"),
        ([("auto: edit USER.md", OWNERS_WORDS), ("auto: write USER.md", OWNERS_WORDS)], "words of"),
        ([("auto: edit USER.md", "")], "3 May"),
    ],
)
def test_of_a_commit_with_several_changes_the_least_trusted_counts(
    terminal: Terminal, notes: list[tuple[str, str]], shown: str
) -> None:
    terminal.make_directory()
    terminal.write("USER.md", "one line\n")
    commit(terminal, "2026-05-03", *(note(terminal, "USER.md", *each) for each in notes))
    (line,) = [each for each in terminal.done("about-me").splitlines() if "one line" in each]
    assert shown in line
    assert ("your words" in line) is ("words" in shown)


def test_what_is_not_in_the_history_has_the_day_on_which_it_was_saved(terminal: Terminal) -> None:
    path = terminal.write("USER.md", "fresh\n")
    os.utime(path, (SUNDAY.timestamp(), SUNDAY.timestamp()))
    assert "USER.md:1  15 Nov  fresh" in terminal.done("about-me")


def test_jobs_and_tasks_and_what_others_sent_are_not_about_me(terminal: Terminal) -> None:
    terminal.make_directory()
    for name in ("tasks.md", "reminders/a.md", "downloads/b.md", "state/c.md", ".claude/d.md"):
        terminal.write(name, "not this\n")
    terminal.write("skills/mail/notes.md", "Greets with Hi.\n")
    said = terminal.done("about-me")
    assert "not this" not in said
    assert "skills/mail/notes.md:1" in said


def test_a_file_that_cannot_be_read_is_named(terminal: Terminal) -> None:
    terminal.paths.root.mkdir()
    terminal.paths.user.write_bytes(b"\xff\xfe")
    assert "USER.md cannot be read" in terminal.run("about-me").err


class Page:
    """The page of a bot in the same data directory."""

    def __init__(self, terminal: Terminal) -> None:
        self.root, journal = terminal.paths.root, RecordingJournal()
        clock = ManualClock(terminal.now, zone=BERLIN)
        store = memory_stores(clock.now).state
        self.changes = FileChanges(terminal.paths, store, journal, clock.now)
        self.view = AboutMePage(store, clock, terminal.paths, self.changes, journal)
        self.rows = store.query

    async def act(self, action: str, file: str, line: int, text: str, words: str = "") -> str:
        """What is said; a refusal begins with `!`."""
        fields = {"file": file, "line": str(line), "text": text, "words": words}
        answer = await self.view.act("web", action, fields)
        return f"{'!' * answer.is_error}{answer.text}"


async def test_the_page_shows_the_same_lines(terminal: Terminal) -> None:
    remember(terminal)
    known = await Page(terminal).view.look({})
    shown = [(each.file, each.number, each.text, each.source) for each in known.lines]
    listed = terminal.json("about-me")["lines"]
    assert shown == [(e["file"], e["line"], e["text"], e["source"] or "") for e in listed]
    assert [f"{each.day}" for each in known.lines] == [each["day"] for each in listed]


async def test_a_line_is_changed_and_forgotten_on_the_page_unless_it_is_another_one(
    terminal: Terminal,
) -> None:
    remember(terminal)
    page, user = Page(terminal), terminal.write("USER.md", "Ada\n  - tea\r\n- mail")
    begun = user.read_bytes()
    assert await page.act("edit", "USER.md", 2, "- tea", "- <b>x</b>") == (
        "Saved. Changes has a way back."
    )
    assert user.read_bytes() == b"Ada\n  - <b>x</b>\r\n- mail"
    edited = user.read_bytes()
    refused = await page.act("edit", "USER.md", 2, "- tea", "- coffee")
    assert refused.startswith("!Line 2 of USER.md has changed since it was shown; nothing was")
    assert refused.endswith("You had typed: - coffee")
    for file, line, text in (
        ("USER.md", 3, "- tea"),
        ("USER.md", 99, "- tea"),
        ("USER.md", 0, "- mail"),
        ("../USER.md", 1, "Ada"),
        (f"{user}", 1, "Ada"),
        ("routines/plan.md", 1, "---"),
        ("", 1, ""),
    ):
        assert (await page.act("forget", file, line, text)).startswith("!"), (file, line)
    for words in ("", " ", "two\nlines", "two\x0clines"):
        assert (await page.act("edit", "USER.md", 3, "- mail", words)).startswith("!Write one line")
    assert user.read_bytes() == edited
    assert (await page.act("forget", "USER.md", 1, "Ada")).startswith("Forgotten.")
    assert user.read_bytes() == b"  - <b>x</b>\r\n- mail"
    rows = page.rows(lambda tx: tx.changes.newest(9))
    assert [(each.place, each.by) for each in rows] == [("USER.md", Changer.PAGE)] * 2
    for row in rows:
        page.changes.undo_file(row, Changer.PAGE)
    assert user.read_bytes() == begun

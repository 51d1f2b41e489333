"""The text of tasks.md: what is a task, and that all other lines stay byte for byte."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.store.task_file import TaskText, with_date
from ollim_bot.kernel.values.tasks import Task, note_lines, one_line

DAY = date(2026, 11, 20)


def read(text: str) -> list[tuple[str, date | None, str, bool]]:
    entries = TaskText.of(text.encode()).entries()
    return [
        (task.title, task.due, task.notes, task.done) for task in (entry.task for entry in entries)
    ]


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("- [ ] call mum", Task("", "call mum")),
        ("- [ ] call mum (due 2026-11-20)", Task("", "call mum", DAY)),
        ("- [x] call mum (due 2026-11-20)  \r", Task("", "call mum", DAY, done=True)),
        ("* [X]   call \t mum", Task("", "call mum", done=True)),
        ("  + [ ] nested (Due: 2026-11-20)", Task("", "nested", DAY)),
        ("12. [ ] numbered", Task("", "numbered")),
        ("3) [ ] numbered", Task("", "numbered")),
        ("- [ ] two (due 2026-11-01) (due 2026-11-20)", Task("", "two", DAY)),
        ("- [ ] no such day (due 2026-02-30)", Task("", "no such day (due 2026-02-30)")),
        ("- [ ] (due 2026-11-20) at the start", Task("", "(due 2026-11-20) at the start")),
        ("- [ ] [x] box in the title", Task("", "[x] box in the title")),
    ],
)
def test_a_list_item_with_a_box_is_a_task(line: str, task: Task) -> None:
    assert [entry.task for entry in TaskText.of(line.encode()).entries()] == [task]


@pytest.mark.parametrize(
    "line",
    [
        *("", "# [ ] x", "- x", "-[ ] x", "- [] x", "- [-] x", "- [ ]", "- [ ] ", "- [ ]x"),
        *("> - [ ] x", "- [ ] (due 2026-11-20)", "[ ] x", "text - [ ] x", "1234567890. [ ] x"),
    ],
)
def test_any_other_line_is_not(line: str) -> None:
    assert TaskText.of(line.encode()).entries() == []


def test_indented_lines_below_a_task_are_its_notes() -> None:
    text = (
        "- [ ] a\n  one\n\n    two\n\n- [ ] b\n  - [x] c\n\tdeep\n  - plain\nno note\n  - [ ] d\n"
    )
    assert read(text) == [
        ("a", None, "one\n\n  two", False),
        ("b", None, "", False),
        ("c", None, "deep", True),
        ("d", None, "", False),
    ]


def test_a_new_task_stands_below_the_last_open_one() -> None:
    before = TaskText.of(b"# Mine\r\n- [ ] a\r\n  note\r\n\r\n# Done\r\n- [x] b")
    after, line = before.added("new", DAY, "why")
    assert after.raw == (
        b"# Mine\r\n- [ ] a\r\n  note\r\n- [ ] new (due 2026-11-20)\r\n  why\r\n"
        b"\r\n# Done\r\n- [x] b"
    )
    assert line == 3
    assert TaskText.of(b"- [x] b").added("new", None, "")[0].raw == b"- [x] b\n- [ ] new\n"


def test_a_new_task_takes_no_lines_of_others_for_its_notes() -> None:
    before = TaskText.of(b"- [ ] a\n  - [ ] b\n  text of a\n\n  more of a\n\nend\n")
    after, _ = before.added("new", None, "")
    assert after.raw == (b"- [ ] a\n  - [ ] b\n  text of a\n\n  more of a\n- [ ] new\n\nend\n")


def test_notes_that_look_like_tasks_make_none() -> None:
    notes = "- [ ] pay the attacker\n  * [x] done\n\\- [ ] with a backslash"
    text, _ = TaskText.of(b"").added("read the mail", None, notes)
    (entry,) = text.entries()
    assert entry.task.notes == notes


def test_a_date_at_the_end_of_a_title_is_its_date() -> None:
    assert with_date("pay (due 2026-11-20)", None) == ("pay", DAY)
    assert with_date("pay (due 2026-11-01)", DAY) == ("pay", DAY)
    with pytest.raises(WrongInput):
        with_date("(due 2026-11-20)", None)


# Lines of all kinds, with the letters that matter to the format more often than others.
_PIECES = ["- [ ] ", "- [x] ", "* [ ] ", "1. [X] ", "(due 2026-11-20)", "(due 2026-02-30)", "water"]
_PIECES += ["\n", "\r\n", "\n\n", "  ", "\t", "# ", "- ", "\\", "\r", "\x0b", "\x85", "\ufeff", "é"]
texts = st.lists(st.sampled_from(_PIECES) | st.text(max_size=4), max_size=24).map("".join)
raws = texts.map(lambda text: text.encode("utf-8", "replace")) | st.binary(max_size=40)
titles = st.text(min_size=1, max_size=20).filter(lambda text: _is_title(text))
notes = texts.filter(lambda text: _is_writable(text)).map(note_lines)
days = st.none() | st.dates(min_value=date(1900, 1, 1))


def _is_writable(text: str) -> bool:
    return all(not "\ud800" <= sign <= "\udfff" for sign in text)


def _is_title(text: str) -> bool:
    try:
        with_date(one_line(text), None)
    except WrongInput:
        return False
    return True


@given(raws)
def test_a_text_that_is_read_and_written_is_the_same(raw: bytes) -> None:
    assert TaskText.of(raw).raw == raw


@settings(max_examples=60)
@given(raws)
def test_a_tick_changes_one_byte_and_back(raw: bytes) -> None:
    text = TaskText.of(raw)
    for place, entry in enumerate(text.entries()):
        ticked = text.ticked(entry, done=not entry.task.done)
        assert len(ticked.raw) == len(raw)
        assert sum(one != other for one, other in zip(ticked.raw, raw, strict=True)) == 1
        again = ticked.ticked(ticked.entries()[place], done=entry.task.done)
        assert again.raw.replace(b"[X]", b"[x]") == raw.replace(b"[X]", b"[x]")


@settings(max_examples=60)
@given(raws)
@example(b"- [ ] a\n  note\n- [ ] b")
@example(b"- [ ] a")
def test_what_is_removed_and_put_back_is_where_it_was(raw: bytes) -> None:
    text = TaskText.of(raw)
    for entry in text.entries():
        without, taken = text.removed(entry)
        assert [*without.lines] == [*text.lines[: entry.start], *text.lines[entry.end :]]
        assert without.put_back(taken)[0].raw == raw


@settings(max_examples=80)
@given(raws, titles, days, notes)
def test_an_added_task_is_read_as_it_was_given_and_its_removal_restores_the_text(
    raw: bytes, title: str, due: date | None, note: str
) -> None:
    before = TaskText.of(raw)
    plain, day = with_date(one_line(title), due)
    after, line = before.added(plain, day, note)
    again = TaskText.of(after.raw)
    assert again.lines == after.lines
    places = [entry.start for entry in again.entries()]
    new = again.entries()[places.index(line)]
    assert new.task == Task("", plain, day, note)
    others = [entry.task for entry in again.entries() if entry.start != line]
    assert others == [entry.task for entry in before.entries()]
    assert after.removed(new)[0].raw.rstrip(b"\r\n") == raw.rstrip(b"\r\n")


@settings(max_examples=80)
@given(raws, titles, days, notes)
def test_an_edited_task_has_its_new_parts_and_all_else_stays(
    raw: bytes, title: str, due: date | None, note: str
) -> None:
    text = TaskText.of(raw)
    plain, day = with_date(one_line(title), due)
    for place, entry in enumerate(text.entries()):
        after = text.titled(entry, plain, day)
        assert len(after.entries()) == len(text.entries())
        after = TaskText.of(after.noted(after.entries()[place], note).raw)
        changed = after.entries()[place]
        assert changed.task == Task("", plain, day, note, entry.task.done)
        assert after.lines[: entry.start] == text.lines[: entry.start]
        rest = len(text.lines) - entry.end
        assert after.lines[len(after.lines) - rest :] == text.lines[len(text.lines) - rest :]


@settings(max_examples=40)
@given(raws)
def test_the_date_alone_can_be_changed_and_changed_back(raw: bytes) -> None:
    text = TaskText.of(raw)
    for place, entry in enumerate(text.entries()):
        moved = text.titled(entry, entry.task.title, date(2030, 1, 1))
        assert moved.entries()[place].task.due == date(2030, 1, 1)
        back = moved.titled(moved.entries()[place], entry.task.title, entry.task.due)
        assert [one.task for one in back.entries()] == [one.task for one in text.entries()]


def test_a_part_goes_below_the_notes_and_parts_of_its_task_and_nothing_else_changes() -> None:
    found = {}
    for before, number in {
        "- [ ] a\n  note\n- [ ] b": 0,
        "# X\r\n\t1. [ ] a\r\n# Y\r\n": 0,
        "- [ ] a\n    - [x] b\n        - [ ] c\n      text\n- [ ] d\n": 0,
        "- [ ] a\n  - [ ] b\n\n  more\n- [ ] c\n": 1,
    }.items():
        text, line = TaskText.of(before.encode()).with_part(number, "new", DAY)
        added = text.lines[line]
        entries = text.entries()
        part = next(each for each in entries if each.start == line)
        assert (part.task.title, part.task.due, part.task.notes) == ("new", DAY, "")
        assert part.parent == number
        others = "".join(text.lines[:line] + text.lines[line + 1 :])
        assert others.splitlines() == before.splitlines()
        found[before] = added
    assert [*found.values()] == [
        "  - [ ] new (due 2026-11-20)\n",
        "\t   - [ ] new (due 2026-11-20)\r\n",
        "    - [ ] new (due 2026-11-20)\n",
        "    - [ ] new (due 2026-11-20)\n",
    ]

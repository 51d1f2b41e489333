"""Cards about tasks, also about the move to another list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from ollim_bot.kernel.base.moments import clock_time
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, counted, one_line, shortened
from ollim_bot.kernel.values.cards import MOST_ON_LINES, Button, ButtonStyle, Card, CardLine
from ollim_bot.kernel.values.due_items import MOVE, UNDO, break_down_button
from ollim_bot.kernel.values.taint import TaintMark, marked_taint, untrusted_label
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    TASK,
    TASK_DELETE,
    TASK_DONE,
    Task,
    in_order,
    is_due,
    task_words,
)

_NOTHING = "No task is open. Tell me what you want to do, and I write it down."
_UNDO_FOR = timedelta(minutes=10)
# Each has two buttons at least, and a card takes 25.
_MOST = 12
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class TaskUndo:
    """A task that a click has ticked, or deleted if there is a `receipt`, until it can be undone.

    `message` shows the click. `buttons` and `text` were there in place of the Undo and its line.
    """

    key: str
    task: Task
    receipt: str
    message: str
    buttons: tuple[Button, ...]
    text: str
    at: datetime

    @property
    def until(self) -> datetime:
        return self.at.astimezone(UTC) + _UNDO_FOR

    @property
    def is_deletion(self) -> bool:
        return bool(self.receipt)

    @property
    def words(self) -> str:
        """`✓ water the ferns · 9:04`."""
        title = one_line(self.task.title, _LONGEST_TITLE)
        clock = clock_time(self.at.replace(second=0))
        return f"– {title} · deleted {clock}" if self.is_deletion else f"✓ {title} · {clock}"

    @property
    def button(self) -> Button:
        line = self.buttons[0].line
        title = f" “{shortened(self.task.title, 60)}”"
        return Button(f"Undo{'' if line else title}", UNDO, f"{TASK}:{self.key}", line=line)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """A click that its list may not have yet: on the task's own button, or on the Undo."""

    undo: TaskUndo
    takes_back: bool = False


@dataclass(frozen=True, slots=True)
class TaskUndos:
    """The clicks on tasks that can still be undone, and those that are not carried out yet."""

    undos: tuple[TaskUndo, ...] = ()
    begun: tuple[TaskStep, ...] = ()

    def find(self, key: str) -> TaskUndo | None:
        return next((each for each in self.undos if each.key == key), None)

    def including(self, undo: TaskUndo) -> TaskUndos:
        return replace(self, undos=(*self.without(undo.key).undos, undo))

    def without(self, key: str) -> TaskUndos:
        return replace(self, undos=tuple(each for each in self.undos if each.key != key))

    def beginning(self, step: TaskStep) -> TaskUndos:
        return replace(self, begun=(*self.ending(step.undo.key).begun, step))

    def ending(self, key: str) -> TaskUndos:
        return replace(self, begun=tuple(each for each in self.begun if each.undo.key != key))

    def over(self, now: datetime) -> list[TaskUndo]:
        return [each for each in self.undos if each.until <= now.astimezone(UTC)]


def tasks_card(tasks: Sequence[Task], today: date) -> Card:
    """The open tasks, those that are due first, with a button to tick and one to delete each."""
    found = in_order([task for task in tasks if not task.done])
    shown = found[:_MOST]
    marks_file = any(task.list != FILE_LIST for task in found)
    lines, buttons = list[CardLine](), list[Button]()
    heading = ""
    for number, task in enumerate(shown, 1):
        group = "Due" if is_due(task, today) else "Later" if task.due else "No date"
        text = task_words(task, today, marks_file=marks_file)
        lines.append(CardLine(text, "" if group == heading else group))
        buttons.append(Button("Done", TASK_DONE, task.id, ButtonStyle.SUCCESS, line=number))
        buttons.append(Button("Delete", TASK_DELETE, task.id, line=number))
        # It is left out where the card has no room for it.
        if len(shown) * 2 + number <= MOST_ON_LINES:
            buttons.append(break_down_button(f"{TASK}:{task.id}", number))
        heading = group
    more = len(found) - len(shown)
    words = f"Not shown: {more} more. `ollim-bot tasks list` shows all." if more else ""
    return Card("Tasks", words if found else _NOTHING, lines=tuple(lines), buttons=tuple(buttons))


def added_card(marks: Sequence[TaintMark]) -> Card:
    """The card of tasks that a careful session has added; an Undo deletes its task."""
    label = untrusted_label(marked_taint(",".join(mark.source for mark in marks)))
    return Card(
        f"{'Tasks' if len(marks) > 1 else 'Task'} added: {FROM_UNTRUSTED}",
        label,
        lines=tuple(CardLine(one_line(mark.title, _LONGEST_TITLE)) for mark in marks),
        buttons=tuple(
            Button("Undo", TASK_DELETE, mark.untold, line=line)
            for line, mark in enumerate(marks, 1)
        ),
    )


def replaced_by_undo(card: Card, clicked: Button) -> tuple[Button, ...]:
    """The buttons that a click takes away: those of its line, or the one that was clicked."""
    if not clicked.line:
        return (clicked,)
    return tuple(each for each in card.buttons if each.line == clicked.line)


def line_of(card: Card, button: Button) -> str:
    """The text of the line that the button belongs to; empty if it belongs to the whole card."""
    return card.lines[button.line - 1].text if 0 < button.line <= len(card.lines) else ""


def settled_on(card: Card, undo: TaskUndo) -> Card:
    """The card after the click: its line says what was done, and one button takes that back."""
    return _exchanged(card, undo.buttons, (undo.button,), undo.words)


def taken_back_on(card: Card, undo: TaskUndo) -> Card:
    return _exchanged(card, (undo.button,), undo.buttons, undo.text)


def expired_on(card: Card, undo: TaskUndo) -> Card:
    """The card without the Undo; a button that has no line stays, used."""
    used = () if undo.text else tuple(each._replace(is_used=True) for each in undo.buttons)
    return _exchanged(card, (undo.button,), used, undo.words)


def _exchanged(card: Card, old: Sequence[Button], new: Sequence[Button], text: str) -> Card:
    """The card with `new` buttons in the place of the old, and their line with another text."""
    gone = {each.custom_id for each in old}
    places = [place for place, each in enumerate(card.buttons) if each.custom_id in gone]
    if not places:
        return card
    before = card.buttons[: places[0]]
    after = [each for each in card.buttons[places[0] :] if each.custom_id not in gone]
    line = old[0].line
    lines = tuple(
        each._replace(text=text) if number == line else each
        for number, each in enumerate(card.lines, 1)
    )
    return card._replace(buttons=(*before, *new, *after), lines=lines)


# Begins the data of the button, and so tells it from others that move something.
MOVE_TASKS = f"{TASK}s"


@dataclass(frozen=True, slots=True)
class TaskMoves:
    """`begun` are the ids of tasks of the file that may be at the service already."""

    is_offered: bool = False
    begun: tuple[str, ...] = ()

    def beginning(self, task_id: str) -> TaskMoves:
        return replace(self, begun=(*self.without(task_id).begun, task_id))

    def without(self, task_id: str) -> TaskMoves:
        return replace(self, begun=tuple(each for each in self.begun if each != task_id))


def is_same(one: Task, other: Task) -> bool:
    return (one.title, one.due, one.notes) == (other.title, other.due, other.notes)


def offer_card(count: int) -> Card:
    are = "is" if count == 1 else "are"
    them = "it" if count == 1 else "them"
    return Card(
        f"Move {counted(count, 'task')} to Google?",
        f"{counted(count, 'open task')} {are} still in tasks.md. Left there, {them} "
        f"stay{'s' if count == 1 else ''} listed, marked (file).",
        buttons=(
            Button(f"Move {them}", MOVE, MOVE_TASKS, ButtonStyle.PRIMARY),
            Button(f"Leave {them}", "dismiss"),
        ),
    )


def moved_card(count: int) -> Card:
    return Card(moved_words(count))


def moved_words(count: int) -> str:
    return f"{counted(count, 'task')} moved to Google" if count else "Nothing to move"

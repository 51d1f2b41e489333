"""Cards about tasks, also about the move to another list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ollim_bot.kernel.base.moments import clock_time
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, one_line, shortened
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.due_items import UNDO
from ollim_bot.kernel.values.taint import TaintMark, marked_taint, untrusted_label
from ollim_bot.kernel.values.tasks import TASK, TASK_DELETE, Task

_UNDO_FOR = timedelta(minutes=10)
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

"""Moving the tasks of the file to a connected service: what is known of it, and its cards."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ollim_bot.domain.cards import Button, ButtonStyle, Card
from ollim_bot.domain.quiet import MOVE
from ollim_bot.domain.task_cards import TASK
from ollim_bot.domain.tasks import Task
from ollim_bot.domain.text import counted

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

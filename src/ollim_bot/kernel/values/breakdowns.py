"""Break it down: a task or a due item becomes small steps, by the agent or by the owner's words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, counted, one_line
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardLine
from ollim_bot.kernel.values.due_items import ITEM, UNDO, DueItem
from ollim_bot.kernel.values.tasks import FILE_LIST, TASK, TASK_DONE, Task
from ollim_bot.kernel.values.tasks import one_line as as_title

TYPE_STEPS = "type_steps"
# Begins the data of an Undo that is for steps.
STEPS = "steps"

_MOST_STEPS, _LONGEST_TITLE, _LONGEST_STEP = 10, 200, 200
_MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class Thing:
    """What is broken down: `ref` is `task:` with an id, or `item:` with the key of a due item.

    `untrusted` is the mark of its words. `task` is the id of the task that the steps are parts of;
    empty if one with these words has to be made.
    """

    ref: str
    words: str
    untrusted: str = ""
    task: str = ""

    @classmethod
    def of_task(cls, task: Task) -> Thing:
        return cls(f"{TASK}:{task.id}", task.title, task.untrusted, task.id)

    @classmethod
    def of_item(cls, item: DueItem) -> Thing:
        line = one_line(item.as_reminder.spec.words, _LONGEST_TITLE)
        words = line.rstrip(".,;: ") or line
        return cls(f"{ITEM}:{item.key}", words, item.untrusted)

    @property
    def key(self) -> str:
        """Its short name in buttons and towards the agent."""
        return hashlib.sha256(self.ref.encode()).hexdigest()[:8]

    @property
    def item(self) -> str:
        """The key of the due item; empty for a task."""
        kind, _, key = self.ref.partition(":")
        return key if kind == ITEM else ""

    @property
    def safe_words(self) -> str:
        """Its words towards the agent, without untrusted text."""
        return FROM_UNTRUSTED if self.untrusted else self.words

    def titled(self, before: str = "", after: str = "") -> str:
        """Its words in the title of a card, between these."""
        short = one_line(self.words, _LONGEST_TITLE)
        words = f"{short} {FROM_UNTRUSTED}" if self.untrusted else short
        return one_line(f"{before}{words}{after}", 250)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A thing on its way to its steps.

    `asked` is the input that asks the agent for them; empty once the owner is asked. With `parts`
    the list has the `steps`, whose mark is `untrusted`: those are their ids, `parent` is the task
    above them, and `list` the name of their list. They can be taken back until `undo_until`.
    `message` shows all that. `former` is the first step that the due item had before.
    """

    thing: Thing
    asked: str = ""
    steps: tuple[str, ...] = ()
    untrusted: str = ""
    parent: str = ""
    parts: tuple[str, ...] = ()
    list: str = FILE_LIST
    message: str = ""
    former: str = ""
    undo_until: datetime | None = None

    @property
    def key(self) -> str:
        return self.thing.key

    def can_undo(self, now: datetime) -> bool:
        return self.undo_until is not None and now.astimezone(UTC) < self.undo_until


@dataclass(frozen=True, slots=True)
class Breakdowns:
    """The newest breakdowns, one for each thing."""

    known: tuple[Breakdown, ...] = ()

    def find(self, key: str) -> Breakdown | None:
        return next((each for each in self.known if each.key == key), None)

    def including(self, one: Breakdown) -> Breakdowns:
        return Breakdowns((*self.without(one.key).known, one)[-_MOST_KEPT:])

    def without(self, key: str) -> Breakdowns:
        return Breakdowns(tuple(each for each in self.known if each.key != key))


def steps_in(words: str) -> tuple[str, ...]:
    """The steps that the owner typed: by lines, else by semicolons, else by commas."""
    apart = next((each for each in ("\n", ";", ",") if each in words.strip()), "\n")
    return checked_steps(words.split(apart))


def checked_steps(steps: Sequence[str]) -> tuple[str, ...]:
    """The steps, each once, on one line and without a number. Raises `WrongInput`."""
    found = [re.sub(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", "", each).strip() for each in steps]
    titles = tuple(dict.fromkeys(as_title(each) for each in found if each))
    if not titles:
        raise WrongInput("Name at least one step, such as “find the letter”.")
    if len(titles) > _MOST_STEPS:
        raise WrongInput(f"{_MOST_STEPS} steps at most; these are {len(titles)}.")
    if long := next((each for each in titles if len(each) > _LONGEST_STEP), None):
        raise WrongInput(f"A step takes {_LONGEST_STEP} characters at most: “{long[:40]}…”")
    return titles


def typing_card(thing: Thing) -> Card:
    """Asks the owner for the steps, where no model has made them."""
    asks = "Which steps? (find the letter; call the office)"
    return Card(
        f"Break it down: {one_line(thing.titled(), _LONGEST_TITLE)}",
        "No model has made steps of it. Type them, the smallest first.",
        buttons=(Button("Type the steps", TYPE_STEPS, thing.key, ButtonStyle.PRIMARY, asks=asks),),
    )


def steps_card(one: Breakdown) -> Card:
    """The steps with a Done each, and one Undo for all of them."""
    mark = f" · {FROM_UNTRUSTED}" if one.untrusted else ""
    lines = tuple(CardLine(f"{one_line(each, _LONGEST_STEP)}{mark}") for each in one.steps)
    ticks = (
        Button("Done", TASK_DONE, part, ButtonStyle.SUCCESS, line=number)
        for number, part in enumerate(one.parts, 1)
    )
    title = one.thing.titled(before=f"{counted(len(one.steps), 'step')}: ")
    undo = Button("Undo", UNDO, f"{STEPS}:{one.key}")
    return Card(title, lines=lines, buttons=(*ticks, undo))

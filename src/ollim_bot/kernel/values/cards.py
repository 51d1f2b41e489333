"""Cards with their buttons, and the prompts stored behind agent buttons."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MOST_FIELDS = 25
MOST_BUTTONS = 5
MOST_ON_LINES = 25
LONGEST_IN_ALL = 6000
_LONGEST = {"title": 256, "description": 4096, "field name": 256, "field value": 1024, "label": 80}
LIVE_FOR = 7 * 86400


class Color(StrEnum):
    BLUE = "blue"
    GREEN = "green"
    RED = "red"
    YELLOW = "yellow"
    PURPLE = "purple"


class ButtonStyle(StrEnum):
    PRIMARY = "primary"
    SECONDARY = "secondary"
    SUCCESS = "success"
    DANGER = "danger"


class CardField(NamedTuple):
    name: str
    value: str
    inline: bool = False


class Button(NamedTuple):
    """`action` and `data` say what a click does, for example `agent` with the key of a prompt.

    A button that `is_used` is shown and does nothing. `line` is the line of the card that the
    button belongs to, counted from 1; 0 means the whole card. `asks` is a question whose answer,
    in words, comes with the click.
    """

    label: str
    action: str
    data: str = ""
    style: ButtonStyle = ButtonStyle.SECONDARY
    is_used: bool = False
    line: int = 0
    asks: str = ""

    @property
    def custom_id(self) -> str:
        """`act:<action>:<data>`."""
        return f"act:{self.action}:{self.data}"


class CardLine(NamedTuple):
    """A line of plain text, which buttons of the card may belong to.

    `heading` stands above the line, where a group of lines begins.
    """

    text: str
    heading: str = ""


class Card(NamedTuple):
    """`earlier_of` names the thing for which a newer card asks: this one is then a quiet line, and
    the page shows all lines of one thing as one. `until` is the moment to which it counts: surfaces
    show the time left. `job` is the id of the job that it is about, which the page can edit.
    """

    title: str
    description: str = ""
    color: Color = Color.BLUE
    fields: tuple[CardField, ...] = ()
    buttons: tuple[Button, ...] = ()
    lines: tuple[CardLine, ...] = ()
    earlier_of: str = ""
    until: datetime | None = None
    job: str = ""

    @property
    def text(self) -> str:
        """The card as plain text, for quotes and for screen readers."""
        fields = (f"{one.name}: {one.value}" for one in self.fields)
        lines = (part for one in self.lines for part in (one.heading, one.text))
        return "\n".join(part for part in (self.title, self.description, *fields, *lines) if part)

    @property
    def is_question(self) -> bool:
        """Whether the agent asks something that a button, or the next words, can answer."""
        can_answer = bool(self.buttons) and not any(one.is_used for one in self.buttons)
        is_agents = all(one.action in ("agent", "dismiss") for one in self.buttons)
        return self.title.endswith("?") and can_answer and is_agents

    def problems(self) -> list[str]:
        """A sentence for each limit that the card exceeds."""
        found = [
            *_too_long("title", self.title),
            *_too_long("description", self.description),
            *(each for one in self.fields for each in _too_long("field name", one.name)),
            *(each for one in self.fields for each in _too_long("field value", one.value)),
            *(each for one in self.buttons for each in _too_long("label", one.label)),
        ]
        if not self.title.strip():
            found.append("A card needs a title.")
        if any(not one.name.strip() or not one.value.strip() for one in self.fields):
            found.append("A field needs a name and a value.")
        if any(not one.label.strip() for one in self.buttons):
            found.append("A button needs a label.")
        if len({one.custom_id for one in self.buttons}) < len(self.buttons):
            found.append("Two buttons of a card cannot do the same.")
        if len(self.fields) > MOST_FIELDS:
            found.append(
                f"A card takes {MOST_FIELDS} fields at most; this one has {len(self.fields)}."
            )
        most = MOST_ON_LINES if self.lines else MOST_BUTTONS
        if len(self.buttons) > most:
            found.append(f"A card takes {most} buttons at most; this one has {len(self.buttons)}.")
        if self._length > LONGEST_IN_ALL:
            found.append(
                f"A card takes {LONGEST_IN_ALL} characters in all; this one has {self._length}. "
                "Say the rest as text."
            )
        return found

    @property
    def _length(self) -> int:
        in_fields = sum(len(one.name) + len(one.value) for one in self.fields)
        in_lines = sum(len(one.heading) + len(one.text) for one in self.lines)
        return len(self.title) + len(self.description) + in_fields + in_lines


def _too_long(part: str, text: str) -> list[str]:
    most = _LONGEST[part]
    if len(text) <= most:
        return []
    return [f"The {part} takes {most} characters at most; this one has {len(text)}."]


ENSURE_LABEL = "Make sure it comes"


@dataclass(frozen=True, slots=True)
class ButtonPrompt:
    """A prompt that a click sends. `key` is 8 hexadecimal characters, `ts` is in unix seconds.

    `untrusted` are the untrusted sources that the turn had read when it stored the prompt.
    """

    key: str
    prompt: str
    ts: float
    untrusted: tuple[str, ...] = ()

    def is_live(self, now: float) -> bool:
        return now - self.ts < LIVE_FOR


@dataclass(frozen=True, slots=True)
class ButtonPrompts:
    waiting: tuple[ButtonPrompt, ...] = ()

    def pruned(self, now: float) -> ButtonPrompts:
        return ButtonPrompts(tuple(inquiry for inquiry in self.waiting if inquiry.is_live(now)))

    def stored(self, inquiry: ButtonPrompt) -> ButtonPrompts:
        others = self.without({inquiry.key})
        return ButtonPrompts((*others.waiting, inquiry)).pruned(inquiry.ts)

    def without(self, keys: Set[str]) -> ButtonPrompts:
        return ButtonPrompts(tuple(inquiry for inquiry in self.waiting if inquiry.key not in keys))

    def taken(self, key: str, now: float) -> tuple[ButtonPrompts, ButtonPrompt | None]:
        """The prompts without that one, and the prompt unless it was taken or has expired."""
        live = self.pruned(now)
        found = next((inquiry for inquiry in live.waiting if inquiry.key == key), None)
        return live.without({key}), found

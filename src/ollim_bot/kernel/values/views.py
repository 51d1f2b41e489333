"""The ports of the views beside the conversation, and what those of health and settings show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from ollim_bot.kernel.values.push import PhoneView


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """What an action did, in a sentence.

    `field` names the field that is wrong, and `go` is the address of the view to show next.
    """

    text: str = ""
    is_error: bool = False
    field: str = ""
    go: str = ""


@dataclass(frozen=True, slots=True)
class OtherReading:
    """Another way to read what is typed; `value` goes into the field `reading` when pressed."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What typed fields would do, in sentences, before anything is done."""

    sentences: tuple[str, ...] = ()
    readings: tuple[OtherReading, ...] = ()
    is_error: bool = False


Shown_co = TypeVar("Shown_co", covariant=True)


class View(Protocol[Shown_co]):
    """A part of the program's state that the page shows."""

    async def look(self, asked: Mapping[str, str], /) -> Shown_co:
        """The state as it is now; `asked` are the words of the address.

        Raises `OllimError` where it cannot be read.
        """

    def changes(self) -> AsyncIterator[None]:
        """An item after each change of what it shows; several at once make one."""

    async def open_items(self) -> int | None:
        """How many things in it wait for an answer; None if it has no such things."""
        return None


@runtime_checkable
class ActingView(View[Shown_co], Protocol[Shown_co]):
    """A view whose lines can be acted on."""

    async def act(self, surface: str, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Does it. What is no longer there answers with a sentence, and nothing is done."""

    async def preview(self, action: str, fields: Mapping[str, str], /) -> Preview:  # noqa: ARG002
        """What the action would do with these fields; nothing is done."""
        return Preview()


# Each `View` by the name of its panel.
Views: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HealthLine:
    """What a check found: `PASS`, `WARN`, `FAIL` or `OFF`, and the next step to take."""

    level: str
    name: str
    detail: str
    next: str = ""
    can_fix: bool = False

    @property
    def is_right(self) -> bool:
        return self.level in ("PASS", "OFF")


@dataclass(frozen=True, slots=True)
class WayOut:
    """A channel, the moment of the newest message that it confirmed, and how many wait for it."""

    name: str
    newest: datetime | None
    waiting: int


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The last examination; `looked` is None before the first."""

    now: datetime
    lines: Sequence[HealthLine] = ()
    looked: datetime | None = None
    is_looking: bool = False
    ways: Sequence[WayOut] = ()
    pending_updates: int = 0


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting: what it does, its value and default as a person types them, and what it takes.

    `choices` are all values if there are few. `effect` says what it does at present.
    """

    key: str
    about: str
    value: str
    default: str
    takes: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    effect: str = ""

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class SettingGroup:
    name: str
    lines: Sequence[SettingLine]


@dataclass(frozen=True, slots=True)
class SettingsView:
    """All settings, and the phone if one can be paired."""

    groups: Sequence[SettingGroup] = ()
    phone: PhoneView | None = None

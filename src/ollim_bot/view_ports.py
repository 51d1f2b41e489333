"""The ports of the views beside the conversation: what the page shows of the day, and acts on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from ollim_bot.domain.about_me import AboutMe
from ollim_bot.domain.changes import ChangeList
from ollim_bot.domain.costs import CostReport
from ollim_bot.domain.day import DayView
from ollim_bot.domain.job_form import JobForm
from ollim_bot.domain.job_list import JobList
from ollim_bot.domain.receipts import RunList, RunPage
from ollim_bot.domain.session_list import SessionList
from ollim_bot.domain.views import HealthReport, Preview, SettingsView, ViewAnswer
from ollim_bot.domain.week import WeekView

Shown_co = TypeVar("Shown_co", covariant=True)


class View(Protocol[Shown_co]):
    """A part of the program's state that the page shows."""

    async def look(self, asked: Mapping[str, str], /) -> Shown_co:
        """The state as it is now; `asked` are the words of the address.

        Raises `OllimError` where it cannot be read.
        """

    def changes(self) -> AsyncIterator[None]:
        """An item after each change of what it shows; several at once make one."""


@runtime_checkable
class ActingView(View[Shown_co], Protocol[Shown_co]):
    """A view whose lines can be acted on."""

    async def act(self, surface: str, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Does it. What is no longer there answers with a sentence, and nothing is done."""

    async def preview(self, action: str, fields: Mapping[str, str], /) -> Preview:  # noqa: ARG002
        """What the action would do with these fields; nothing is done."""
        return Preview()


class DayService(ActingView[DayView], Protocol):
    """The day. The action `press` presses the button `custom_id` as on a card, with `words`."""

    async def open_items(self) -> int:
        """How many things wait for an answer."""


@dataclass(frozen=True, slots=True)
class Views:
    """The views of the page."""

    today: DayService
    week: View[WeekView]
    jobs: ActingView[JobList]
    job: ActingView[JobForm]
    runs: View[RunList]
    run: View[RunPage]
    money: View[CostReport]
    settings: ActingView[SettingsView]
    health: ActingView[HealthReport]
    sessions: ActingView[SessionList]
    changes: ActingView[ChangeList]
    about_me: ActingView[AboutMe]

"""The panels beside the conversation: fragments of markup, each with the number of its change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Any, NamedTuple

from ollim_bot.domain.views import Preview
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import RequestRefused
from ollim_bot.surfaces.web.day_html import day_html
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.jobs_html import job_html, jobs_html
from ollim_bot.surfaces.web.runs_html import changes_html, money_html, run_html, runs_html
from ollim_bot.surfaces.web.settings_html import (
    about_me_html,
    health_html,
    sessions_html,
    settings_html,
)
from ollim_bot.surfaces.web.week_html import week_html
from ollim_bot.view_ports import ActingView, View, Views

# How many lines a list begins with.
PAGE = 100
# Seconds between two frames that say that a panel is stale.
_PAUSE = 0.2
# How long a state that was read serves further tabs, unless it changes.
_KEPT_SECONDS = 0.5

_logger = logging.getLogger(__name__)

Send = Callable[[Json], None]
# The markup of a state, with this number of lines of each list at most.
Draw = Callable[[Any, int], str]


class _Kept(NamedTuple):
    shown: object
    change: int
    at: float


class Panel:
    """A view for all tabs. They are told the number of each change, and then ask for it.

    If it `is_paged`, its view is also asked for `most`, and reads no more lines than that. `count`
    counts the open things in it.
    """

    def __init__(
        self,
        name: str,
        view: View[object],
        draw: Draw,
        clock: Clock,
        send: Send,
        *,
        is_paged: bool = False,
        count: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.name = name
        self.view = view
        self._draw = draw
        self._clock = clock
        self._send = send
        self._is_paged = is_paged
        self._count = count
        self._change = 0
        self._kept: dict[frozenset[tuple[str, str]], _Kept] = {}

    async def state(self) -> Json:
        """The number of the newest change, and that of the open things."""
        # The change first: what changes in between is then told again.
        change = self._change
        return {"change": change, **({"open": await self._count()} if self._count else {})}

    async def fragment(self, asked: Mapping[str, str], most: int) -> Json:
        """The markup for the words of an address, with `most` lines of each list at most."""
        change, now = self._change, self._clock.monotonic()
        if self._is_paged:
            asked = {**asked, "most": str(most)}
        key = frozenset(asked.items())
        kept = self._kept.get(key)
        # All tabs ask at once after a change.
        if kept is None or kept.change != change or now - kept.at > _KEPT_SECONDS:
            kept = _Kept(await self.view.look(asked), change, now)
            while len(self._kept) >= 8:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
        return {"html": await asyncio.to_thread(self._draw, kept.shown, most), "change": change}

    async def watch(self) -> None:
        """Tell the tabs of each change, until cancelled."""
        async for _ in self.view.changes():
            await self.renew()
            await self._clock.sleep(_PAUSE)

    async def renew(self) -> None:
        """Tell the tabs that it has changed."""
        self._change += 1
        self._kept.clear()
        try:
            self._send({"type": "stale", "panel": self.name, **await self.state()})
        except OllimError:
            _logger.warning("The page could not be told of a change", exc_info=True)


class Panels:
    """All panels of the page, by name."""

    def __init__(self, views: Views, clock: Clock, send: Send) -> None:
        at, count = (clock, send), views.today.open_items
        panels = (
            Panel("today", views.today, day_html, *at, count=count),
            Panel("week", views.week, week_html, *at),
            Panel("jobs", views.jobs, jobs_html, *at, is_paged=True),
            Panel("job", views.job, job_html, *at),
            Panel("runs", views.runs, runs_html, *at, is_paged=True),
            Panel("run", views.run, run_html, *at),
            Panel("money", views.money, money_html, *at),
            Panel("health", views.health, health_html, *at),
            Panel("settings", views.settings, settings_html, *at),
            Panel("sessions", views.sessions, sessions_html, *at),
            Panel("changes", views.changes, changes_html, *at, is_paged=True),
            Panel("about-me", views.about_me, about_me_html, *at),
        )
        self._panels = {each.name: each for each in panels}

    def named(self, name: str) -> Panel:
        found = self._panels.get(name)
        if found is None:
            raise RequestRefused(404, frames.NOT_FOUND)
        return found

    def acting(self, name: str) -> ActingView[object]:
        """The view of a panel whose buttons and forms do something."""
        view = self.named(name).view
        if not isinstance(view, ActingView):
            raise RequestRefused(404, frames.NOT_FOUND)
        return view

    async def renew_reach(self) -> None:
        """Tell the tabs that other ways lead to the owner now: the day says which."""
        await self._panels["today"].renew()

    async def states(self) -> Json:
        return {name: await each.state() for name, each in self._panels.items()}

    async def watch(self) -> None:
        """Tell the tabs of the changes of each panel, until cancelled."""
        async with asyncio.TaskGroup() as watching:
            for each in self._panels.values():
                watching.create_task(each.watch())


def preview_html(preview: Preview) -> str:
    """The sentences of a preview, and a button for each other reading."""
    kind = ' class="problem"' if preview.is_error else ""
    lines = [f"<p{kind}><bdi>{escape(each)}</bdi></p>" for each in preview.sentences]
    buttons = [
        f'<button name="reading" value="{escape(each.value)}">{escape(each.label)}</button>'
        for each in preview.readings
    ]
    return "".join(lines) + (f'<div class="buttons">{"".join(buttons)}</div>' if buttons else "")

"""The panels beside the conversation: fragments of markup, each with the number of its change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.values.views import ActingView, Preview, View, Views
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.frames import Json, RequestRefused
from ollim_bot.surfaces.web.marked import ViewPage

# How many lines a list begins with.
PAGE = 100
# Seconds between two frames that say that a panel is stale.
_PAUSE = 0.2
# How long a state that was read serves further tabs, unless it changes.
_KEPT_SECONDS = 0.5

_logger = logging.getLogger(__name__)

Send = Callable[[Json], None]


class _Kept(NamedTuple):
    shown: object
    change: int
    at: float


class Panel:
    """A view for all tabs. They are told the number of each change, and then ask for it."""

    def __init__(self, page: ViewPage, view: View[object], clock: Clock, send: Send) -> None:
        self.view = view
        self._page = page
        self._clock = clock
        self._send = send
        self._change = 0
        self._kept: dict[frozenset[tuple[str, str]], _Kept] = {}

    async def state(self) -> Json:
        """The number of the newest change, and that of the open things."""
        # The change first: what changes in between is then told again.
        change, count = self._change, await self.view.open_items()
        return {"change": change, **({} if count is None else {"open": count})}

    async def fragment(self, asked: Mapping[str, str], most: int) -> Json:
        """The markup for the words of an address, with `most` lines of each list at most."""
        change, now = self._change, self._clock.monotonic()
        if self._page.is_paged:
            asked = {**asked, "most": str(most)}
        key = frozenset(asked.items())
        kept = self._kept.get(key)
        # All tabs ask at once after a change.
        if kept is None or kept.change != change or now - kept.at > _KEPT_SECONDS:
            kept = _Kept(await self.view.look(asked), change, now)
            while len(self._kept) >= 8:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
        html = await asyncio.to_thread(self._page.draw, kept.shown, most)
        return {"html": html, "change": change}

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
            self._send({"type": "stale", "panel": self._page.name, **await self.state()})
        except OllimError:
            _logger.warning("The page could not be told of a change", exc_info=True)


class Panels:
    """All panels of the page, by name."""

    def __init__(self, pages: Sequence[ViewPage], views: Views, clock: Clock, send: Send) -> None:
        self._panels = {each.name: Panel(each, views[each.name], clock, send) for each in pages}

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

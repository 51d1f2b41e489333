"""The page and the channels: built from the settings, and restarted after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from ollim_bot import __version__
from ollim_bot.app.build import ConversationParts
from ollim_bot.clock import Backoff
from ollim_bot.conversation.conversation import Conversation
from ollim_bot.errors import OllimError
from ollim_bot.ports import Channel, ChatSurface, Clock, OpenAttachment, Surface
from ollim_bot.settings import Settings
from ollim_bot.store.attachments.files import files_of
from ollim_bot.store.store import Store
from ollim_bot.surfaces.web.keys import BrowserKeys
from ollim_bot.surfaces.web.read_mark import RememberedMark
from ollim_bot.surfaces.web.secret import web_secret
from ollim_bot.surfaces.web.surface import Health, PageFiles, WebAddress, WebSurface

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

_logger = logging.getLogger(__name__)

Announce = Callable[[WebSurface | None], None]
MakeChannel = Callable[[Store, OpenAttachment, Clock], Channel]


async def kept_up(
    run: Callable[[], Awaitable[None]],
    name: str,
    tell: Callable[[OllimError], Awaitable[None]],
    clock: Clock,
) -> None:
    """Run a service, and start it again after each failure, with growing pauses.

    `tell` is called with the reason, where a person can do something about it.
    """
    async for _ in Backoff(clock, _FIRST_PAUSE, _LONGEST_PAUSE):
        try:
            await run()
        except OllimError as error:
            await tell(error)
        except Exception:  # a fault of one service must not end the bot
            _logger.exception("The service %s failed", name)


class Surfaces:
    """Runs the surfaces. `followers` follow the log; `channels` confirm what is sent to them."""

    def __init__(
        self,
        followers: Sequence[ChatSurface],
        clock: Clock,
        *,
        channels: Sequence[Channel] = (),
        page: WebSurface | None = None,
    ) -> None:
        self.followers = followers
        self.channels = channels
        self._all: Sequence[Surface] = [*followers, *channels]
        self._page = page
        self._clock = clock

    def services(
        self, conversation: Conversation, parts: ConversationParts, announce: Announce
    ) -> list[Coroutine[None, None, None]]:
        """The coroutines that must run for the surfaces."""
        found = [self._kept_up(surface, conversation, parts) for surface in self._all]
        found.append(self._announced(announce))
        found += [_greeted(channel, parts) for channel in self.channels]
        return found

    async def _announced(self, announce: Announce) -> None:
        """Announce the start when the page is ready; without a page, when a channel is."""
        if self._page is not None:
            await self._page.ready()
        elif self.channels:
            await self.channels[0].connected()
        announce(self._page)

    async def _kept_up(
        self, surface: Surface, conversation: Conversation, parts: ConversationParts
    ) -> None:
        async def tell(error: OllimError) -> None:
            if len(self._all) == 1:
                raise error
            await self._said(str(error), parts)

        await kept_up(lambda: surface.run(conversation), surface.name, tell, self._clock)

    async def _said(self, sentence: str, parts: ConversationParts) -> None:
        """Show the problem in the status while it lasts, and tell it once a day."""
        await parts.board.trouble(sentence)
        await parts.notices.tell(sentence, key=f"{sentence} {self._clock.now():%Y-%m-%d}")


async def open_surfaces(
    settings: Settings,
    store: Store,
    clock: Clock,
    make_channels: Sequence[MakeChannel],
    heartbeat_age: Callable[[], float | None],
    on_problem: Callable[[str], None],
) -> Surfaces:
    """Make the page, if it is on, and the channels."""
    paths = settings.paths
    opener = files_of(paths.root, paths.attachments)
    channels = [make(store, opener, clock) for make in make_channels]
    if settings.web_port is None:
        return Surfaces([], clock, channels=channels)
    await asyncio.to_thread(web_secret, paths)
    page = WebSurface(
        at=WebAddress(settings.web_port, settings.web_hosts),
        keys=BrowserKeys(paths, clock, report=on_problem),
        files=PageFiles(paths.state / "uploads", opener),
        read_mark=RememberedMark(store),
        clock=clock,
        health=Health(__version__, heartbeat_age),
    )
    return Surfaces([page], clock, channels=channels, page=page)


async def _greeted(channel: Channel, parts: ConversationParts) -> None:
    await channel.connected()
    await parts.greeting.say()

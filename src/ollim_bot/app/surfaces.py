"""The page and the channels: built from the settings, and restarted after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from ollim_bot import __version__
from ollim_bot.app.build import ConversationParts
from ollim_bot.features.about_me import about_me_view
from ollim_bot.features.changes import changes_view
from ollim_bot.features.doctor import health_view
from ollim_bot.features.history import sessions
from ollim_bot.features.jobs import jobs_view
from ollim_bot.features.money import money_view
from ollim_bot.features.runs import runs_view
from ollim_bot.features.settings import settings_view
from ollim_bot.features.settings.settings_view import PhoneSettings
from ollim_bot.features.today import day_view
from ollim_bot.features.week import week_view
from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import OllimError, StorageError
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.conversation import Conversation
from ollim_bot.kernel.conversation.notice_poster import Notices
from ollim_bot.kernel.store.attachments.attachment_files import files_of
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.channels import PushChannel
from ollim_bot.kernel.values.ports import Channel, ChatSurface, OpenAttachment, Surface
from ollim_bot.surfaces.web.access import BrowserKeys
from ollim_bot.surfaces.web.api import RememberedMark
from ollim_bot.surfaces.web.page import WebSurface
from ollim_bot.surfaces.web.secret import web_secret

# The views of the page, in the order of its menu.
PAGES = (
    *day_view.PAGES,
    *week_view.PAGES,
    *jobs_view.PAGES,
    *runs_view.PAGES,
    *money_view.PAGES,
    *changes_view.PAGES,
    *about_me_view.PAGES,
    *health_view.PAGES,
    *settings_view.PAGES,
    *sessions.PAGES,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

_logger = logging.getLogger(__name__)

Service = Callable[[], Coroutine[None, None, None]]


async def keep_running(run: Service, store: Store, notices: Notices, clock: Clock) -> None:
    """Run a service to its end, again after each failure. The owner is told once a day.

    A disk that refuses is not told here, and the service starts again when it takes writes.
    """

    async def tell(error: BaseException) -> None:
        if isinstance(error, StorageError):
            _logger.warning("The service %s has to wait: %s", name, error)
            await store.until_writable()
            return
        sentence = str(error) if isinstance(error, OllimError) else texts.SERVICE_FAULT
        await notices.tell(sentence, key=f"{sentence} {clock.now():%Y-%m-%d}")

    name = (run.func if isinstance(run, partial) else run).__qualname__
    await start_again(run, name, tell, clock, may_end=True)


async def start_again(
    run: Service,
    name: str,
    tell: Callable[[BaseException], Awaitable[None]],
    clock: Clock,
    *,
    may_end: bool = False,
) -> None:
    """Run a service, and start it again after each failure, with growing pauses.

    Its end is a failure too, unless it `may_end`. `tell` is called with the error, and may raise it
    to give up.
    """
    async for _ in Backoff(clock, _FIRST_PAUSE, _LONGEST_PAUSE):
        try:
            await run()
            if may_end:
                return
        except Exception as failed:  # a fault of one service must not end the bot
            error = first_error(failed)
            if not isinstance(error, OllimError):
                _logger.exception("The service %s failed", name)
            await tell(error)


async def in_order(first: Awaitable[None], run: Service) -> None:
    """Run a service after something that it needs."""
    await first
    await run()


def first_error(failed: BaseException) -> BaseException:
    """The error behind a group; the other tasks were only cancelled because of it."""
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed


Announce = Callable[[WebSurface | None], None]
MakeChannel = Callable[[Store, OpenAttachment, Clock], Channel]
MakePhone = Callable[[Store, Clock], PhoneSettings]


@dataclass(eq=False)
class Surfaces:
    """Runs the surfaces. `followers` follow the log; `channels` confirm what is sent to them.

    The owner talks on the `followers` and on the channels that do more than send.
    """

    followers: Sequence[ChatSurface]
    clock: Clock
    _: KW_ONLY
    channels: Sequence[Channel] = ()
    page: WebSurface | None = None

    def __post_init__(self) -> None:
        self._talking = [each for each in self.channels if not isinstance(each, PushChannel)]
        self._all: Sequence[Surface] = [*self.followers, *self.channels]

    def services(self, conversation: Conversation, parts: ConversationParts) -> list[Service]:
        """The surfaces, each started again after a failure.

        A failure of the only one on which the owner can talk ends the bot.
        """
        return [partial(self._serve, surface, conversation, parts) for surface in self._all]

    def greetings(self, parts: ConversationParts, announce: Announce) -> list[Service]:
        """What the surfaces say first, once they are ready."""
        greet = [partial(_greet, channel, parts) for channel in self._talking]
        return [partial(self._announce, announce), *greet]

    async def _announce(self, announce: Announce) -> None:
        """Announce the start when the page is ready; without a page, when a channel is."""
        if self.page is not None:
            await self.page.ready()
        elif self._talking:
            await self._talking[0].connected()
        announce(self.page)

    async def _serve(
        self, surface: Surface, conversation: Conversation, parts: ConversationParts
    ) -> None:
        async def tell(error: BaseException) -> None:
            """Show the problem in the status while it lasts, and tell it once a day."""
            if not isinstance(error, OllimError):
                return
            if [surface] == [*self.followers, *self._talking]:
                raise error
            sentence = str(error)
            await parts.board.trouble(sentence)
            await parts.notices.tell(sentence, key=f"{sentence} {self.clock.now():%Y-%m-%d}")

        await start_again(lambda: surface.run(conversation), surface.name, tell, self.clock)


async def open_surfaces(
    settings: Settings,
    store: Store,
    clock: Clock,
    make_channels: Sequence[MakeChannel],
    heartbeat_age: Callable[[], float | None],
    on_problem: Callable[[str], None],
) -> Surfaces:
    """Make the page, if it is on, and the channels, which a machine that stands by does without."""
    read_only, paths = store.sharing.read_only, settings.paths
    opener = files_of(paths.root, paths.attachments)
    channels = [] if read_only else [make(store, opener, clock) for make in make_channels]
    if settings.web_port is None:
        return Surfaces([], clock, channels=channels)
    await asyncio.to_thread(web_secret, paths)
    page = WebSurface(
        pages=PAGES,
        port=settings.web_port,
        hosts=settings.web_hosts,
        keys=BrowserKeys(paths, clock, report=on_problem),
        uploads=paths.state / "uploads",
        open_attachment=opener,
        read_mark=RememberedMark(store),
        clock=clock,
        version=__version__,
        heartbeat_age=heartbeat_age,
        read_only=read_only,
    )
    return Surfaces([page], clock, channels=channels, page=page)


async def _greet(channel: Channel, parts: ConversationParts) -> None:
    await channel.connected()
    await parts.greeting.say()

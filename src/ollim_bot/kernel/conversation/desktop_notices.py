"""Shows what comes by itself on the desktop, where no page and no channel can show it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage

ONLY_HERE = "I can only show this here. A phone: `ollim-bot push setup`."
# The time in which a page that has just been opened can mark a message as read.
_GRACE = 1.0
_MOST = 20

_logger = logging.getLogger(__name__)


class Desktop(Protocol):
    """Where notifications are shown. Its methods may block."""

    def can_show(self, mode: str) -> bool:
        """Whether notifications are wanted and can be shown; `mode` is the setting."""

    def show(self, title: str, text: str) -> str | None:
        """Show a notification; its id, or nothing if it has none; None if that is not possible."""

    def replace(self, shown: str, title: str, text: str) -> None:
        """Put these words into the notification with that id; it then goes by itself."""


class OpenTabs(Protocol):
    """The tabs of the page; one that is gone does not count."""

    @property
    def is_in_view(self) -> bool: ...

    @property
    def may_notify(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Reach:
    """The ways to the owner besides a page that has to be opened."""

    desktop: Desktop | None = None
    page: OpenTabs | None = None

    def is_page_only(self, tx: Transaction) -> bool:
        """Whether nothing is seen before the owner opens the page."""
        is_told = has_channel(tx) or (self.page is not None and self.page.may_notify)
        return self.page is not None and not is_told and not self.has_desktop(tx)

    def has_desktop(self, tx: Transaction) -> bool:
        mode = tx.config.get().desktop_notifications
        return self.desktop is not None and self.desktop.can_show(mode)

    @property
    def is_attended(self) -> bool:
        """Whether an open page shows what comes."""
        return self.page is not None and (self.page.is_in_view or self.page.may_notify)


def has_channel(tx: Transaction) -> bool:
    """Whether a channel gets what comes."""
    return bool(tx.channels.all())


class DesktopWatch:
    """Shows each message once, unless it was read or answered at once.

    What waits for an answer is replaced when it was answered, if the desktop can do so.
    """

    def __init__(self, store: Store, reach: Reach, clock: Clock, name: Callable[[], str]) -> None:
        self._store = store
        self._reach = reach
        self._clock = clock
        self._name = name
        self._seen: int | None = None
        self._asking: dict[MessageId, str] = {}

    async def load(self) -> None:
        """Take what the log has now as seen."""
        self._seen = await self._store.read(lambda tx: tx.messages.last_seq())

    async def run(self) -> None:
        """Show what comes, until cancelled."""
        if self._reach.desktop is None:
            return
        with self._store.changes("messages") as changed:
            while True:
                changed.clear()
                if await self._store.read(lambda tx: tx.messages.last_seq()) != self._seen:
                    await self._clock.sleep(_GRACE)
                    seen, news = await self._store.read(self._news)
                    # Noted first: a program that fails does not show a message twice.
                    self._seen = seen
                    for message in news:
                        assert self._reach.desktop is not None
                        show = self._reach.desktop.show
                        shown = await asyncio.to_thread(show, self._name(), _words(message))
                        if shown is None:
                            _logger.warning("A notification could not be shown on the desktop")
                        elif shown and message.card is not None:
                            self._asking[message.id] = shown
                await self._replace_answered()
                await changed.wait()

    def _news(self, tx: Transaction) -> tuple[int, Sequence[ChatMessage]]:
        """The place up to which the log was read, and the newest that are to be shown."""
        last, read = tx.messages.last_seq(), tx.web.get().read
        mark = tx.messages.logged(read) if read is not None else None
        since = max(self._seen or 0, mark.seq if mark else 0)
        found = tx.messages.after(max(since, last - _MOST), _MOST)
        asking = {each.card for each in tx.due_items.open()}
        is_shown_elsewhere = has_channel(tx) or self._reach.is_attended
        wanted = not is_shown_elsewhere and self._reach.has_desktop(tx)
        news = [each.message for each in found if _is_news(each.message, each.message.id in asking)]
        return last, news if wanted else ()

    async def _replace_answered(self) -> None:
        def answered(tx: Transaction) -> Sequence[ChatMessage]:
            waiting = {each.card for each in tx.due_items.open()}
            known = [tx.messages.get(each) for each in self._asking]
            return [each for each in known if each and not _is_asking(each, each.id in waiting)]

        assert self._reach.desktop is not None
        for message in await self._store.read(answered) if self._asking else ():
            shown, words = self._asking.pop(message.id), _words(message)
            await asyncio.to_thread(self._reach.desktop.replace, shown, self._name(), words)


def _words(message: ChatMessage) -> str:
    return message.card.text if message.card else message.text


def _is_asking(message: ChatMessage, is_waiting: bool) -> bool:
    buttons = message.card.buttons if message.card else ()
    return is_waiting or any(each.action == "approve" and not each.is_used for each in buttons)


def _is_news(message: ChatMessage, is_waiting: bool) -> bool:
    """Whether it came by itself or asks something, and was not answered."""
    if _is_asking(message, is_waiting):
        return True
    if message.card is not None and message.occurrence:
        return False
    is_answer = message.author is Author.ASSISTANT and bool(message.job)
    return message.author is Author.BACKGROUND or is_answer

"""What the tools of one session use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.cards import ButtonPrompt
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.pings import PingBudget, PingVerdict
from ollim_bot.domain.runs import Intent, Run
from ollim_bot.ports import Clock, JobRepositories, Tool
from ollim_bot.store.item_answers import ItemAnswers
from ollim_bot.store.store import Store

_PACKAGE = Path(__file__).resolve().parents[1]

# May be called more than once for one payment, and has no effect except its result.
Payment = Callable[[PingBudget], tuple[PingBudget, PingVerdict]]


class Arrival(StrEnum):
    SENT = "sent"
    ON_ITS_WAY = "on its way"


class Poster(Protocol):
    """Sends the messages of a run; none is lost and none is sent twice."""

    async def send(
        self,
        message: ChatMessage,
        run: Run,
        pay: Payment | None = None,
        prompts: Sequence[ButtonPrompt] = (),
        item: DueItem | None = None,
        *,
        waits_as: str | None = None,
    ) -> PingVerdict:
        """Send the message for `run`, so that a reply to it leads to the session of the run.

        The payment, the message, the prompts behind its buttons and the due item that it shows are
        one step; nothing is sent if `pay` refuses. While it is quiet, a ping that costs a token is
        kept for the digest, and so is every message with `waits_as`; of those with the same text
        there, only the newest comes. Raises `NotStored` if the disk is full.
        """

    async def arrival(self, message_id: MessageId) -> Arrival:
        """Wait a moment for the channels to confirm the message.

        Raises `DeliveryFailed` if all of them refuse it; the payment is then given back.
        """

    async def budget(self) -> PingBudget:
        """The ping budget as it was last charged."""


def docs_folder() -> Path:
    """The documentation: inside an installed package, beside the source in a checkout."""
    shipped = _PACKAGE / "docs"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / "docs"


async def _without_effect(_: Intent) -> None:
    """Ignore the request: a background run has no conversation to change."""


@dataclass(slots=True)
class ToolContext:
    """`run` changes from turn to turn of one session; `root` is the data directory.

    `is_busy` says whether the owner is being answered now. `wants` stores durably what shall happen
    to the conversation after this turn. `items` answers due items, in the conversation only.
    `servers` gives the tools of the owner's servers as of now. `show_added` shows the owner a new
    reminder, by the name of its file, with an Undo. `pinging` is held while a ping of the run is
    being paid for, so that two at once are not both the first.
    """

    run: Run
    store: Store
    repositories: JobRepositories
    clock: Clock
    root: Path
    poster: Poster
    is_busy: Callable[[], bool]
    wants: Callable[[Intent], Awaitable[None]] = _without_effect
    items: ItemAnswers | None = None
    servers: Callable[[], Mapping[str, Sequence[Tool]]] = dict
    show_added: Callable[[str], None] = lambda _: None
    docs: Path = field(default_factory=docs_folder)
    pinging: asyncio.Lock = field(default_factory=asyncio.Lock)

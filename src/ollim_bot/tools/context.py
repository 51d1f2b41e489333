"""What the tools of one session work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.runs import Intent, Run
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

_PACKAGE = Path(__file__).resolve().parents[1]

Payment = Callable[[PingBudget], tuple[PingBudget, Charge | None]]


class Poster(Protocol):
    """Sends the messages of a run; none is lost and none is sent twice."""

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> bool:
        """Send it for `run`, so that a reply to it leads to the session of the run.

        The payment and the note that it is to be sent are one step. Returns False, with nothing
        sent, if `pay` gives no charge. Raises `DeliveryFailed` if it certainly did not arrive; the
        payment is then given back.
        """

    def is_on_its_way(self, message_id: MessageId) -> bool:
        """Whether it was accepted and its channel has not confirmed it yet."""


def docs_folder() -> Path:
    """The documentation: inside an installed package, beside the source in a checkout."""
    shipped = _PACKAGE / "docs"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / "docs"


async def _without_effect(_: Intent) -> None:
    """A background run has no conversation to change."""


@dataclass(slots=True)
class ToolContext:
    """`run` changes from turn to turn of one session; `root` is the data directory.

    `is_busy` says whether the owner is being answered now. `wants` stores durably what shall happen
    to the conversation after this turn.
    """

    run: Run
    stores: Stores
    clock: Clock
    root: Path
    poster: Poster
    is_busy: Callable[[], bool]
    wants: Callable[[Intent], Awaitable[None]] = _without_effect
    docs: Path = field(default_factory=docs_folder)

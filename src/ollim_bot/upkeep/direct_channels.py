"""The ways to reach the owner without the bot, and what else the sentinel finds outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.upkeep.desktop import Notifier


class SentinelClock(Protocol):
    """Time for a program without an event loop. `now` is in the owner's zone."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class LookUp(NamedTuple):
    """How to find a message that may have arrived: not among `others`, not before `since`.

    With `is_in_doubt`, it is not sent where the channel cannot be searched. With `was_tried`, an
    earlier run may have sent it.
    """

    others: Collection[str]
    since: datetime
    is_in_doubt: bool
    was_tried: bool = True


class DirectChannel(Protocol):
    """A channel that needs no bot; `name` is that of its deliveries."""

    @property
    def name(self) -> str: ...

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        """Look for the message, send it if it is not there, and return its id.

        Raises `Unreachable` if it was certainly not sent, `DeliveryFailed` if it is refused for
        good, and `DeliveryUncertain` if it may have been sent.
        """


@dataclass(frozen=True, slots=True)
class SentinelEnvironment:
    """What is outside of the data directory; None where there is none.

    A message is sent on all `channels`, and has reached the owner when one of them has it.
    `revive` asks the supervisor to start the bot, or to restart one that `is_running`; it returns
    whether the supervisor was asked. `maintenance` names the `update` or `restore` in progress.
    `is_server_away` says of a database that machines share whether it still does not answer.
    """

    channels: Sequence[DirectChannel] = ()
    notifier: Notifier | None = None
    revive: Callable[[bool], bool] | None = None
    maintenance: Callable[[], str | None] = lambda: None
    is_server_away: Callable[[], bool] | None = None

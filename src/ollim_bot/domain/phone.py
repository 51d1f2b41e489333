"""The owner's phone as the page shows it: not paired, being paired, or paired."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

# What the page can do with the phone.
PHONE_ACTIONS = frozenset({"pair", "cancel-pairing", "test-phone", "remove-phone"})


@dataclass(frozen=True, slots=True)
class PhoneOffer:
    """What the owner reads before a phone is paired.

    `public` is the address of a server that is open to all. `told` says what leaves the machine
    and who sees it, `of_public` who sees it there. `steps` are to be done on the phone.
    """

    public: str
    told: tuple[str, ...]
    of_public: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhoneCode:
    """What a phone needs to follow the bot: two names, which are keys, and the code to scan.

    `picture` has the rows of the code with its border; `#` is dark.
    """

    topic: str = field(repr=False)
    reply_topic: str = field(repr=False)
    picture: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PairingStatus:
    """`last_press` is None if no button was pressed since it was paired."""

    server: str
    since: datetime
    last_press: datetime | None = None


@dataclass(frozen=True, slots=True)
class PhoneAttempt:
    """A pairing that is not finished. It has a code, and an end, once the server was checked."""

    server: str
    code: PhoneCode | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PhoneView:
    """The phone at `now`. `told` is how the last attempt ended; it failed if `has_failed`.

    `code` is that of the paired phone, if the owner wants to see it again.
    """

    now: datetime
    offer: PhoneOffer
    paired: PairingStatus | None = None
    attempt: PhoneAttempt | None = None
    code: PhoneCode | None = None
    told: str = ""
    has_failed: bool = False

"""Who the bot is and whom it serves, as people wrote it down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProfileFile(StrEnum):
    IDENTITY = "IDENTITY.md"
    USER = "USER.md"


@dataclass(frozen=True, slots=True)
class Profile:
    """What stands in `IDENTITY.md` and in `USER.md`; empty where there is nothing."""

    identity: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    user: str
    bot: str

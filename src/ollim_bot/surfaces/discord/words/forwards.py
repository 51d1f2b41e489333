"""What the agent is told about a message that the owner has forwarded."""

from __future__ import annotations

from datetime import tzinfo

from ollim_bot.domain.taint import Untrusted
from ollim_bot.surfaces.discord.channel import Forwarded

FORWARDED = "forwarded message"


def untrusted_of(forwarded: Forwarded, zone: tzinfo | None) -> Untrusted:
    """What is known of it, with its moment on the owner's clock."""
    at = forwarded.at
    written = "" if at is None else f", written {at.astimezone(zone):%Y-%m-%d %H:%M}"
    about = f"a message that the owner forwarded from {forwarded.place} on Discord{written}"
    return Untrusted(FORWARDED, f"{about}. Discord does not say who wrote it.")

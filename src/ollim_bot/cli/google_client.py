"""The client of Google's APIs for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ollim_bot.integrations.google.client import GoogleClient
from ollim_bot.integrations.google.tokens import GoogleTokens
from ollim_bot.settings import google_addresses

if TYPE_CHECKING:
    from ollim_bot.cli.caller import Caller


def google_client(caller: Caller) -> GoogleClient:
    """A client that asks for a token only when it is used. Raises `BadSettings`."""
    addresses = google_addresses(caller.environ, cwd=caller.path("."))
    return GoogleClient(GoogleTokens(caller.place().paths, caller.now, addresses), addresses.api)

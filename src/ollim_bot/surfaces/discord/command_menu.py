"""The menu of slash commands at Discord."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import discord

from ollim_bot.clock import Backoff
from ollim_bot.domain.commands import CommandSpec
from ollim_bot.domain.text import shortened
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.errors import writing

_SLASH_COMMAND = 1
_STRING = 3
_BOT_DM = 1
# Arguments with proposals although the command lists no choices: their values change.
_ALSO_COMPLETED = frozenset({("resume", "id")})


_logger = logging.getLogger(__name__)


def payload(specs: Sequence[CommandSpec]) -> list[dict[str, Any]]:
    """The menu in Discord's form. Discord proposes argument values; the core checks them."""
    return [
        {
            "type": _SLASH_COMMAND,
            "name": spec.name,
            "description": _cut(spec.about),
            "options": [
                {
                    "type": _STRING,
                    "name": one.name,
                    "description": _cut(one.about),
                    "required": one.is_required,
                    "autocomplete": bool(one.choices) or (spec.name, one.name) in _ALSO_COMPLETED,
                }
                # Discord demands the required ones first.
                for one in sorted(spec.arguments, key=lambda each: not each.is_required)
            ],
            "contexts": [_BOT_DM],
        }
        for spec in specs
    ]


def fingerprint(menu: Sequence[Mapping[str, Any]], application: int) -> str:
    """A hash of the menu and its application."""
    text = json.dumps([application, *menu], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


async def sync(
    client: discord.Client,
    specs: Sequence[CommandSpec],
    clock: Clock,
    remembered: str | None,
    remember: Callable[[str], None],
) -> None:
    """Upload the menu unless its fingerprint equals the one that is `remembered`.

    The client must be logged in. Retries until Discord accepts the menu or the client is closed; a
    refusal ends the call.
    """
    application = client.application_id
    assert application is not None, "the client is not logged in"
    menu = payload(specs)
    mark = fingerprint(menu, application)
    if mark == remembered:
        return
    async for _ in Backoff(clock, 60.0, 3600.0):
        if client.is_closed():
            return
        try:
            async with writing():
                await client.http.bulk_upsert_global_commands(application, menu)
        except DeliveryFailed as error:
            _logger.error("Discord refused the slash commands: %s", error)
            return
        except (Unreachable, DeliveryUncertain) as error:
            _logger.warning("The slash commands are not at Discord yet: %s", error)
        else:
            remember(mark)
            return


def _cut(text: str) -> str:
    return shortened(text, 100)

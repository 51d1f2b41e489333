"""Writes down events of sessions so that a crash neither loses nor doubles one."""

from __future__ import annotations

import asyncio

from ollim_bot.domain.sessions import SessionChange, SessionEvent
from ollim_bot.stores import Stores

# A session begins once; but it may be left and come back to, so only the last word counts there.
_LOOKED_AT = {SessionChange.SWAPPED: 1}
_NEWEST = 50


async def log_once(stores: Stores, event: SessionEvent) -> None:
    """Unless the history has it already, from before a crash."""
    number = _LOOKED_AT.get(event.event, _NEWEST)
    newest = (await asyncio.to_thread(stores.session_history.tail, number)).entries
    if not any((old.session_id, old.event) == (event.session_id, event.event) for old in newest):
        await asyncio.to_thread(stores.session_history.append, event)

"""Writes down events of sessions so that a crash neither loses nor doubles one."""

from __future__ import annotations

import asyncio

from ollim_bot.domain.sessions import SessionEvent
from ollim_bot.stores import Stores

_NEWEST = 50


async def log_once(stores: Stores, event: SessionEvent) -> None:
    """Unless the history has it already, from before a crash."""
    newest = (await asyncio.to_thread(stores.session_history.tail, _NEWEST)).entries
    if not any((old.session_id, old.event) == (event.session_id, event.event) for old in newest):
        await asyncio.to_thread(stores.session_history.append, event)

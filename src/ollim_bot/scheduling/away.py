"""Tells the owner what was missed and is not run: in one message, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.catch_up import Missed, away_message
from ollim_bot.stores import Stores


async def tell_missed(
    missed: Sequence[Missed], since: datetime, stores: Stores, notices: Notices, now: datetime
) -> None:
    """To be done before the ledger says that they were missed, so that no crash comes between.

    `since` is the last heartbeat. It is the same at each start until all is written down, and the
    key says how far the telling has come. Raises `StorageError` where there is no room for it.
    """
    if not missed:
        return
    rows = await asyncio.to_thread(stores.ledger.read, since)
    # After a clock that was set back, some of it was told before.
    claimed = {row.occurrence for row in rows.entries}
    key = f"away {since.isoformat()} until "
    told = [datetime.fromisoformat(one.removeprefix(key)) for one in await notices.known(key)]
    until = max(told, default=since)
    if news := [one for one in missed if one.newest > until and one.occurrence not in claimed]:
        until = max(one.newest for one in news).astimezone(UTC)
        refused = await notices.tell(away_message(news, now), key=f"{key}{until.isoformat()}")
        if refused is not None:
            raise refused

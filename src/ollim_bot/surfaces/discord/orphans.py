"""Drafts that a crash has left behind: what shows no words goes, the rest says that it ends."""

from __future__ import annotations

from collections.abc import Collection

from ollim_bot.surfaces.discord.channel import Channel, Letter, Seen
from ollim_bot.surfaces.discord.drafts import DraftMemory
from ollim_bot.surfaces.discord.errands import Errands
from ollim_bot.surfaces.discord.split import LONGEST, split

GOES_ON_BELOW = "-# cut off here; it goes on below"

_SMALL = "-# "


async def close_orphans(
    channel: Channel, errands: Errands, memory: DraftMemory, refs: Collection[str]
) -> None:
    """Returns when all of them are closed, however long Discord cannot be reached.

    `refs` are those of an earlier life, without those that have become messages of the log.
    """
    if not refs:
        return
    seen: list[Seen] = []

    async def look() -> None:
        oldest = min(int(ref) for ref in refs)
        seen[:] = await channel.after(str(oldest - 1))

    await errands.is_done(look)
    there = [each for each in seen if each.ref in refs and each.is_ours]
    last = next((each.ref for each in reversed(there) if _words(each.text)), None)
    for each in there:
        await _close(channel, errands, each, is_last=each.ref == last)
    for ref in refs:
        memory.remove_draft(ref)


async def _close(channel: Channel, errands: Errands, seen: Seen, *, is_last: bool) -> None:
    words = _words(seen.text)
    if not words:
        await errands.is_done(lambda: channel.delete(seen.ref))
    elif is_last or words != seen.text:
        # A draft that is full and stands above others is whole as it is.
        room = LONGEST - len(GOES_ON_BELOW) - 1
        letter = Letter(f"{split(words, room)[0]}\n{GOES_ON_BELOW}")
        await errands.is_done(lambda: channel.edit(seen.ref, letter))


def _words(text: str) -> str:
    """Without the small lines at its end, which tell what goes on."""
    lines = text.rstrip().split("\n")
    while lines and lines[-1].startswith(_SMALL):
        lines.pop()
    return "\n".join(lines).rstrip()

"""Messages are taken once, in the order of their writing, in their newest version."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.surfaces.discord.inbound import InboundQueue
from ollim_bot.surfaces.discord.rendering import ReceivedMessage

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)

refs = st.integers(1, 40)


def seen(ref: int, text: str = "") -> ReceivedMessage:
    return ReceivedMessage(str(ref), NOW, is_owners=True, is_ours=False, text=text or f"text {ref}")


async def taken(arrivals: InboundQueue) -> list[tuple[int, str, bool]]:
    """Take all messages that can be taken now: id, text, and whether it was deleted."""
    found: list[tuple[int, str, bool]] = []
    while True:
        try:
            async with asyncio.timeout(0):
                first = await arrivals.first()
        except TimeoutError:
            return found
        found.append((int(first.seen.ref), first.seen.text, first.is_deleted))
        arrivals.done()


@given(st.sets(refs), st.sets(refs))
async def test_what_is_found_and_what_comes_meanwhile_are_one_order_of_each_once(
    found: set[int], live: set[int]
) -> None:
    arrivals = InboundQueue()
    arrivals.hold()
    for ref in sorted(live):
        arrivals.add(seen(ref))
    assert await taken(arrivals) == []
    arrivals.release(seen(ref) for ref in sorted(found))
    order = [ref for ref, _, _ in await taken(arrivals)]
    assert order == sorted(found | live)
    for ref in found | live:
        arrivals.add(seen(ref))
    arrivals.hold()
    arrivals.release(seen(ref) for ref in sorted(found | live))
    assert await taken(arrivals) == []


changes = st.lists(st.tuples(refs, st.none() | st.sampled_from(["one", "two"])))


@given(st.sets(refs), st.sets(refs), changes)
async def test_a_change_counts_whether_the_message_is_there_yet_or_not(
    found: set[int], live: set[int], steps: list[tuple[int, str | None]]
) -> None:
    arrivals = InboundQueue()
    arrivals.hold()
    for ref in sorted(live):
        arrivals.add(seen(ref))
    texts: dict[int, str] = {}
    deleted = set()
    for ref, text in steps:
        if ref in deleted:
            continue
        if text is None:
            arrivals.delete(str(ref))
            deleted.add(ref)
        else:
            arrivals.edit(str(ref), text)
            texts[ref] = text
    arrivals.release(seen(ref) for ref in sorted(found))
    for ref, text, is_deleted in await taken(arrivals):
        assert is_deleted == (ref in deleted)
        assert is_deleted or text == texts.get(ref, f"text {ref}")


async def test_the_first_can_be_changed_until_it_is_done() -> None:
    arrivals = InboundQueue()
    arrivals.add(seen(1))
    first = await arrivals.first()
    assert arrivals.edit("1", "new")
    assert first.seen.text == "new"
    arrivals.delete("1")
    assert first.is_deleted
    assert "1" in arrivals
    arrivals.done()
    assert "1" not in arrivals


def test_an_edit_that_changes_no_word_is_none() -> None:
    arrivals = InboundQueue()
    arrivals.add(seen(1, "hello"))
    assert not arrivals.edit("1", "hello")
    assert arrivals.edit("1", "bye")
    assert not arrivals.edit("1", "bye")
    assert arrivals.edit("2", "unknown")

"""The read mark of the owner is stored, and only moves forward."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from tests.web.browser import signed_in_browser
from tests.web.scene import SUNDAY, InMemoryReadMark, make_scene, running

from ollim_bot.domain.ids import MessageId
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.read_mark import ReadMark, RememberedMark
from ollim_bot.surfaces.web.refusals import RequestRefused


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SUNDAY)


@pytest.fixture
def reception(clock: ManualClock, tmp_path: Path) -> FakeReception:
    return FakeReception(clock, tmp_path)


def test_it_is_remembered() -> None:
    store = RepeatingStore(lambda: SUNDAY)
    mark = RememberedMark(store)
    assert mark.read() is None
    mark.write(MessageId("m1"))
    assert RememberedMark(store).read() == "m1"


async def test_it_goes_forward_only_and_tells_each_step_once(
    reception: FakeReception, clock: ManualClock
) -> None:
    told: list[Json] = []
    kept = InMemoryReadMark()
    mark = ReadMark(kept, reception, told.append)
    await mark.load()
    ids = []
    for text in ("one", "two", "three"):
        ids.append((await reception.say(text)).id)
        await clock.advance(1)
    for message_id in (ids[1], ids[1], ids[0], ids[2]):
        await mark.move(message_id)
    assert [frame["id"] for frame in told] == [ids[1], ids[2]]
    assert mark.last == kept.value == ids[2]


async def test_messages_of_one_moment_can_be_read_one_by_one(reception: FakeReception) -> None:
    mark = ReadMark(InMemoryReadMark(), reception, lambda _: None)
    first, second = await reception.say("one"), await reception.say("two")
    await mark.move(first.id)
    await mark.move(second.id)
    assert mark.last == second.id


async def test_a_mark_at_a_message_that_is_gone_does_not_hold_up(reception: FakeReception) -> None:
    kept = InMemoryReadMark()
    kept.value = MessageId("gone")
    mark = ReadMark(kept, reception, lambda _: None)
    await mark.load()
    said = await reception.say("one")
    await mark.move(said.id)
    assert kept.value == said.id
    with pytest.raises(RequestRefused):
        await mark.move(MessageId("m99"))


async def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    async with running(scene), signed_in_browser(scene) as browser:
        said = await scene.reception.say("one")
        await browser.post("/api/read", {"id": said.id})
    async with running(scene), signed_in_browser(scene) as browser, browser.tab() as (_, hello):
        assert hello["read"] == said.id

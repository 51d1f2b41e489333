"""Asking the owner while the disk fails or hangs: every question ends, and no failure is a yes."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest
from tests.conversation.approval_scene import WRITE, ApprovalScene
from tests.conversation.crashing import CrashingStore, StepCounter
from tests.conversation.failing_stores import FullDiskStore, UnreadableConfigStore
from tests.stores import on_store

from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.ports import Refusal
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Step

R = TypeVar("R")


@pytest.fixture
async def scene() -> ApprovalScene:
    return ApprovalScene()


async def test_what_cannot_be_remembered_is_not_granted_and_can_still_be_answered(
    scene: ApprovalScene,
) -> None:
    disk = FullDiskStore(scene.store, is_full=False)
    full = ApprovalScene(on_store(scene.stores, disk))
    (asking,) = await full.asked()
    disk.is_full = True
    answer = await full.click("always")
    assert answer.is_error
    assert "Allow it once" in answer.text
    assert not asking.done()
    await full.click("once")
    assert await full.within(asking) is None


async def test_what_cannot_be_shown_is_refused(scene: ApprovalScene) -> None:
    mute = ApprovalScene(on_store(scene.stores, FullDiskStore(scene.store)))
    refusal = await mute.within(mute.ask())
    assert refusal is not None
    assert "could not be asked" in refusal.reason


async def test_settings_that_cannot_be_read_ask_nobody(scene: ApprovalScene) -> None:
    blind = ApprovalScene(on_store(scene.stores, UnreadableConfigStore(scene.store)))
    assert await blind.approvals.mode() is PermissionMode.DONT_ASK
    assert await blind.approvals.decide(WRITE, "not allowed") == Refusal("not allowed")
    (asking,) = await blind.asked()
    await blind.until(lambda: blind.clock.sleeping == 1)
    await blind.clock.advance(600)
    assert isinstance(await blind.within(asking), Refusal)


class HangingStore(CrashingStore):
    """Not done with a step before `may_go_on`."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, StepCounter())
        self.may_go_on = asyncio.Event()
        self.was_asked = False

    async def transact(self, step: Step[R]) -> R:
        self.was_asked = True
        await self.may_go_on.wait()
        return await super().transact(step)


async def test_a_disk_that_hangs_keeps_no_call_waiting_for_longer(scene: ApprovalScene) -> None:
    hanging = HangingStore(scene.store)
    stuck = ApprovalScene(on_store(scene.stores, hanging))
    asking = stuck.ask()
    try:
        await stuck.until(lambda: hanging.was_asked and stuck.clock.sleeping == 1)
        await stuck.clock.advance(600)
        assert isinstance(await stuck.within(asking), Refusal)
    finally:
        hanging.may_go_on.set()


class SlowStore(CrashingStore):
    """The first step while it `is_slow` waits until `may_go_on`."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, StepCounter())
        self.may_go_on = asyncio.Event()
        self.is_slow = False
        self.begun = 0

    async def transact(self, step: Step[R]) -> R:
        self.begun += self.is_slow
        if self.begun == 1:
            await self.may_go_on.wait()
        return await super().transact(step)


async def test_a_reset_takes_back_also_what_is_just_being_granted(scene: ApprovalScene) -> None:
    store = SlowStore(scene.stores.state)
    slow = ApprovalScene(on_store(scene.stores, store))
    (asking,) = await slow.asked()
    store.is_slow = True
    granting = asyncio.create_task(slow.click("always"))
    try:
        await slow.until(lambda: store.begun == 1)
        reset = asyncio.create_task(slow.approvals.reset())
        await asyncio.wait({reset}, timeout=0.05)
    finally:
        store.may_go_on.set()
    answer = await slow.within(granting)
    await slow.within(reset)
    assert "too late" in answer.text
    assert isinstance(await slow.within(asking), Refusal)
    assert slow.granted == []

"""Asking the owner while the disk fails or hangs: every question ends, and no failure is a yes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.conversation.approval_scene import NOW, WRITE, Questions

from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.errors import Unreadable, WriteFailed
from ollim_bot.ports import Refusal
from ollim_bot.store.transaction import Transaction
from ollim_bot.testing.repeating_store import RepeatingStore

R = TypeVar("R")


@pytest.fixture
async def questions() -> Questions:
    return Questions()


class Refusing:
    """A store or a log whose disk is full, or gone."""

    def read(self, *_: object) -> Any:
        raise Unreadable(Path("state"), "cannot be read")

    def transact(self, _: Callable[..., Any]) -> Any:
        raise WriteFailed(Path("state"), "the disk is full")

    def append(self, *_: object) -> None:
        raise WriteFailed(Path("state"), "the disk is full")

    def tail(self, _: int) -> Any:
        raise Unreadable(Path("state"), "cannot be read")

    def compact(self, _: Callable[..., Any]) -> None:
        raise WriteFailed(Path("state"), "the disk is full")


async def test_what_cannot_be_remembered_is_not_granted_and_can_still_be_answered(
    questions: Questions,
) -> None:
    full = Questions(replace(questions.stores, memory=Refusing()))
    (asking,) = await full.asked()
    answer = await full.click("always")
    assert answer.is_error
    assert "Allow it once" in answer.text
    assert not asking.done()
    await full.click("once")
    assert await full.within(asking) is None


async def test_what_cannot_be_shown_is_refused(questions: Questions) -> None:
    store = RepeatingStore(lambda: NOW)
    store.fail_with(WriteFailed(Path("state"), "the disk is full"))
    mute = Questions(questions.stores, store)
    refusal = await mute.within(mute.ask())
    assert refusal is not None
    assert "could not be asked" in refusal.reason


async def test_settings_that_cannot_be_read_ask_nobody(questions: Questions) -> None:
    blind = Questions(replace(questions.stores, config=Refusing()))
    assert await blind.approvals.mode() is PermissionMode.DONT_ASK
    assert await blind.approvals.decide(WRITE, "not allowed") == Refusal("not allowed")
    (asking,) = await blind.asked()
    await blind.until(lambda: blind.clock.sleeping == 1)
    await blind.clock.advance(600)
    assert isinstance(await blind.within(asking), Refusal)


class HangingStore(RepeatingStore):
    """Not done with a step before `may_go_on`."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.may_go_on = asyncio.Event()
        self.was_asked = False

    async def transact(self, step: Callable[[Transaction], R]) -> R:
        self.was_asked = True
        await self.may_go_on.wait()
        return await super().transact(step)


async def test_a_disk_that_hangs_keeps_no_call_waiting_for_longer(questions: Questions) -> None:
    hanging = HangingStore()
    stuck = Questions(questions.stores, hanging)
    asking = stuck.ask()
    try:
        await stuck.until(lambda: hanging.was_asked and stuck.clock.sleeping == 1)
        await stuck.clock.advance(600)
        assert isinstance(await stuck.within(asking), Refusal)
    finally:
        hanging.may_go_on.set()


class SlowStore:
    """Waits before each change until `may_go_on`, in the order of asking."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.may_go_on = threading.Event()
        self.begun = 0

    def read(self) -> Any:
        return self._store.read()

    def transact(self, step: Callable[..., Any]) -> Any:
        self.begun += 1
        if self.begun == 1:
            self.may_go_on.wait()
        return self._store.transact(step)


async def test_a_reset_takes_back_also_what_is_just_being_granted(questions: Questions) -> None:
    memory = SlowStore(questions.stores.memory)
    slow = Questions(replace(questions.stores, memory=memory))
    (asking,) = await slow.asked()
    granting = asyncio.create_task(slow.click("always"))
    try:
        await slow.until(lambda: memory.begun == 1)
        reset = asyncio.create_task(slow.approvals.reset())
        await asyncio.wait({reset}, timeout=0.05)
    finally:
        memory.may_go_on.set()
    answer = await slow.within(granting)
    await slow.within(reset)
    assert "too late" in answer.text
    assert isinstance(await slow.within(asking), Refusal)
    assert slow.granted == []

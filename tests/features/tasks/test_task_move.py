"""The offer to move the tasks of the file to Google: once, none lost, none twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.tasks import MemoryTasks
from tests.kernel.conversation.scene import NOW, Scene, scene

from ollim_bot.features.tasks.task_lists import active_tasks
from ollim_bot.kernel.base.errors import Unreachable
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.tasks import DeletedTask, Task

LOST = Unreachable("Google did not answer.")


class _Service(MemoryTasks):
    """Loses the answers to the next `lost` additions, which are carried out all the same."""

    lost = 0

    def add(self, *given: object, **named: object) -> Task:
        task = super().add(*given, **named)  # type: ignore[arg-type]
        if self.lost:
            self.lost -= 1
            raise LOST
        return task


class _File(MemoryTasks):
    """Fails at the next `broken` deletions."""

    broken = 0

    def delete(self, task_id: str) -> DeletedTask:
        if self.broken:
            self.broken -= 1
            raise Unreachable("The disk is full.")
        return super().delete(task_id)


def lists() -> tuple[_Service, _File]:
    service, file = _Service("Google Tasks"), _File()
    file.add("water", NOW.date(), "the ferns")
    file.add("water")
    file.add("water")
    file.complete(file.add("done").id)
    return service, file


@asynccontextmanager
async def offered(service: TaskList | None, file: TaskList) -> AsyncIterator[Scene]:
    async with scene(ScriptedEngine(), tasks=lambda: active_tasks(file, service)) as at:
        running = asyncio.create_task(at.talk.task_commands.offer_move())
        yield at
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def titles(tasks: TaskList) -> list[str]:
    return [task.title for task in tasks.tasks()]


async def test_the_offer_is_made_once_and_only_with_a_service() -> None:
    service, file = lists()
    async with offered(None, file) as at:
        await at.clock.advance(120)
        assert not at.cards
    async with offered(service, file) as at:
        await at.until(lambda: at.cards)
        card = at.cards[-1]
        assert card.title == "Move 3 tasks to Google?"
        assert "3 open tasks are still in tasks.md" in card.description
        before = len(at.log)
        await at.press("Leave them")
        await at.clock.advance(600)
        assert len(at.log) == before
        assert len(titles(file)) == 3


async def test_a_click_moves_every_open_task_with_all_its_parts() -> None:
    service, file = lists()
    async with offered(service, file) as at:
        await at.until(lambda: at.cards)
        assert (await at.press("Move them")).text == ""
        assert titles(service) == ["water", "water", "water"]
        assert (service.tasks()[0].due, service.tasks()[0].notes) == (NOW.date(), "the ferns")
        assert [task.title for task in file.tasks(with_done=True)] == ["done"]
        card = at.cards[-1]
        assert (card.title, card.buttons) == ("3 tasks moved to Google", ())
        assert at.pending == [
            "Known to the owner: User moved 3 of the tasks in tasks.md to Google."
        ]


@pytest.mark.parametrize(("lost", "broken"), [(1, 0), (0, 1), (2, 0), (0, 2), (1, 1)])
async def test_a_move_that_broke_off_goes_on_where_it_was(lost: int, broken: int) -> None:
    service, file = lists()
    async with offered(service, file) as at:
        await at.until(lambda: at.cards)
        service.lost, file.broken = lost, broken
        for _ in range(lost + broken):
            assert "still in tasks.md" in (await at.press("Move them")).text
            assert len(titles(service)) + len(titles(file)) >= 3
        assert (await at.press("Move them")).text == ""
        assert titles(service) == ["water", "water", "water"]
        assert titles(file) == []

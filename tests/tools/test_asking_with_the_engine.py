"""The real engine asks its owner: the call waits on a card, and is made as the card says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.engine.scene import Scene, ask, scene
from tests.stores import Stores, memory_stores

from ollim_bot.conversation.approvals import Approvals
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import EndCause, TurnEnded
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.offline.messages import CallTool, Reply
from ollim_bot.ports import Toolset
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.surface import RecordingSurface
from ollim_bot.tools.gates import main_gate
from ollim_bot.tools.path_rules import PathPolicy

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


@dataclass
class Owner:
    """Sees cards, and clicks on them."""

    approvals: Approvals
    surface: RecordingSurface

    async def sees(self, words: str, after: ChatMessage | None = None) -> ChatMessage:
        """A card that says this, as it was shown last; `after` is an earlier one."""
        posts = self.surface.posts

        def is_shown() -> bool:
            is_new = after is None or posts[-1].id != after.id
            return is_new and words in "".join(self.surface.texts[-1:])

        async with asyncio.timeout(10), self.surface.news:
            await self.surface.news.wait_for(is_shown)
        return posts[-1]

    async def clicks(self, message: ChatMessage, word: str) -> None:
        assert message.card is not None
        (button,) = (each for each in message.card.buttons if each.data.endswith(word))
        assert not (await self.approvals.answer("web", message, button)).is_error


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
async def owner(stage: Scene) -> AsyncIterator[Owner]:
    stores: Stores = memory_stores(NOW)
    surface = RecordingSurface()
    store, clock = stores.state, ManualClock(NOW)
    fanout = SurfaceFanout(store, [surface])
    await fanout.load()
    following = asyncio.create_task(fanout.run())
    poster = MessagePoster(store, fanout, [], clock)
    approvals = Approvals(
        store, ConversationState(store), poster, clock, stage.spec.working_directory
    )
    await approvals.set_mode(PermissionMode.DEFAULT)
    yield Owner(approvals, surface)
    following.cancel()


@pytest.fixture
def tools(stage: Scene, owner: Owner) -> Toolset:
    gate = main_gate(
        PathPolicy(stage.spec.working_directory),
        granted=owner.approvals.granted,
        undecided=owner.approvals.decide,
    )
    return Toolset(builtin=("Write", "Bash"), gate=gate)


def write(name: str) -> CallTool:
    return CallTool("Write", {"file_path": name, "content": "hello"})


def written(stage: Scene) -> list[str]:
    folder = stage.spec.working_directory
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.txt"))


async def test_a_call_is_made_when_the_owner_says_so_and_its_like_are_from_then_on(
    stage: Scene, owner: Owner, tools: Toolset
) -> None:
    """An interruption ends the question."""
    stage.model.then(
        Reply((write("notes/a.txt"),)),
        Reply((write("notes/a.txt"),)),
        Reply((write("notes/b.txt"), write("state/c.txt"))),
        Reply((CallTool("Bash", {"command": "echo hi > notes/d.txt"}),)),
    ).answers("Done.")
    async with stage.session(tools) as session:
        turn = asyncio.create_task(ask(session, "write"))
        asked = await owner.sees("Allow Write?")
        await session.interrupt()
        end = (await turn)[-1]
        assert isinstance(end, TurnEnded)
        assert end.cause is EndCause.INTERRUPTED
        assert (await owner.sees("No longer needed.")).id == asked.id
        assert written(stage) == []

        turn = asyncio.create_task(ask(session, "write"))
        card = await owner.sees("Allow Write?", after=asked)
        assert written(stage) == []
        await owner.clicks(card, "always")
        await turn

    assert written(stage) == ["notes/a.txt", "notes/b.txt"]
    assert {message.id for message in owner.surface.posts} == {asked.id, card.id}
    assert "Allowed from now on: `Write(./notes/**)`" in owner.surface.posts[-1].text
    told = [result.is_error for each in stage.model.requests[2:] for result in each.tool_results]
    assert told == [False, False, True, True]

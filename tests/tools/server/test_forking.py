"""`enter_fork`, `exit_fork`, `save_context`: intents, written down where they make sense."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.tools.server.tool_scene import EVERYWHERE, MakeToolScene

from ollim_bot.domain.forks import Discard, Fork, ForkExit, Save
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.runs import EnterFork, RunKind

EXITS = [("exit_fork", Discard()), ("save_context", Save())]


@pytest.mark.parametrize(
    ("given", "intent"),
    [
        ({}, EnterFork()),
        ({"topic": " The trip\nto Rome "}, EnterFork("The trip to Rome")),
        ({"topic": "Rome", "idle_timeout": 20}, EnterFork("Rome", 20)),
        ({"idle_timeout": 20.0}, EnterFork("", 20)),
    ],
)
async def test_a_fork_is_opened_from_the_main_session(
    tool_scene: MakeToolScene, given: dict[str, object], intent: EnterFork
) -> None:
    at = tool_scene(RunKind.MAIN)
    assert "End your turn" in await at.works("enter_fork", **given)
    assert at.wanted == [intent]


@pytest.mark.parametrize("kind", [kind for kind in EVERYWHERE if kind is not RunKind.MAIN])
async def test_and_from_nowhere_else(tool_scene: MakeToolScene, kind: RunKind) -> None:
    at = tool_scene(kind)
    assert "main session only" in await at.is_refused("enter_fork", topic="Rome")
    assert at.wanted == []


@pytest.mark.parametrize(("name", "intent"), EXITS)
async def test_a_fork_is_left_from_within(
    tool_scene: MakeToolScene, name: str, intent: ForkExit
) -> None:
    at = tool_scene(RunKind.FORK)
    assert "when this turn has ended" in await at.works(name)
    assert at.wanted == [intent]


async def test_what_the_agent_saves_is_not_confirmed_yet(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.FORK)
    assert "The owner is asked" in await at.works("save_context")
    assert at.wanted == [Save()]


async def test_what_cannot_be_saved_is_refused_at_once_with_the_reason(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(RunKind.FORK)
    now = at.clock.now()
    gone_on = Fork("f1", SessionId("f"), SessionId("old"), "", timedelta(minutes=10), now, now)
    at.stores.state.run(lambda tx: tx.fork.put(gone_on))
    at.stores.state.run(lambda tx: tx.session.put(SessionId("new")))
    assert "the main conversation has gone on" in await at.is_refused("save_context")
    assert at.wanted == []


@pytest.mark.parametrize(("name", "_"), EXITS)
@pytest.mark.parametrize("kind", [kind for kind in EVERYWHERE if kind is not RunKind.FORK])
async def test_where_there_is_no_fork_there_is_nothing_to_leave(
    tool_scene: MakeToolScene, name: str, _: ForkExit, kind: RunKind
) -> None:
    at = tool_scene(kind)
    assert "nothing to leave" in await at.is_refused(name)
    assert at.wanted == []

"""`update_names`: remembered at once, from the main conversation only."""

from __future__ import annotations

import pytest
from tests.tools.server.tool_scene import EVERYWHERE, MakeToolScene, ToolScene

from ollim_bot.domain.runs import RunKind
from ollim_bot.domain.schedule import GivenNames


def names(at: ToolScene) -> GivenNames:
    known: GivenNames = at.stores.state.query(lambda tx: tx.names.get())
    return known


async def test_a_name_is_remembered_and_the_other_one_stays(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    at.stores.state.run(lambda tx: tx.names.put(GivenNames(bot="Ollim")))
    answer = await at.works("update_names", user_name=" Sam  Gray ", bot_name="")
    assert answer == "From now on the owner is called Sam Gray."
    assert names(at) == GivenNames("Sam Gray", "Ollim")


async def test_both_names_are_said_back(tool_scene: MakeToolScene) -> None:
    at = tool_scene(RunKind.MAIN)
    answer = await at.works("update_names", user_name="Sam", bot_name="Kit")
    assert answer == "From now on the owner is called Sam and you are called Kit."
    assert names(at) == GivenNames("Sam", "Kit")


@pytest.mark.parametrize("given", [{}, {"user_name": " "}, {"bot_name": "x" * 81}])
async def test_what_is_no_name_is_refused(
    tool_scene: MakeToolScene, given: dict[str, object]
) -> None:
    at = tool_scene(RunKind.MAIN)
    assert "up to 80 characters" in await at.is_refused("update_names", **given)
    assert names(at) == GivenNames()


@pytest.mark.parametrize("kind", [kind for kind in EVERYWHERE if kind is not RunKind.MAIN])
async def test_nowhere_but_in_the_main_conversation(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    assert "main conversation only" in await at.is_refused("update_names", user_name="Sam")
    assert names(at) == GivenNames()

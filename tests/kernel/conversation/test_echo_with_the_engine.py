"""Files that the real engine writes, and changes by our commands, are told and can be undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.kernel.conversation.echo_scene import PATH, EchoScene, refuse_marked_calls, routine
from tests.kernel.engine.scene import scene

from ollim_bot.kernel.conversation.job_echo import ChangeWatch
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.ports import AgentSession, Prompt, Toolset
from ollim_bot.offline.server import CallTool, Reply

pytestmark = pytest.mark.real_process

PROFILE = "You are kind.\nYou are brief.\n"
ADD = 'ollim-bot routine add --id noon -m "Eat." --description Eat --cron "0 12 * * *"'
FILE = "routines/eat.md"


@dataclass
class EchoedSession:
    """One session of the engine, whose changes are shown to the owner of the echo scene."""

    echo_scene: EchoScene
    model: ScriptedModel
    session: AgentSession
    watch: ChangeWatch
    _told: set[str] = field(default_factory=set)

    async def turn(self, *replies: Reply, titles: list[str]) -> list[tuple[ChatMessage, Card]]:
        """What is told of a turn in which the model answers so, by cards with these titles."""
        self.model.then(*replies)
        async for _ in self.watch.watching(self.session.turn(Prompt("go"))):
            pass
        told = [one for key, one in self.echo_scene.posted.items() if key not in self._told]
        self._told |= self.echo_scene.posted.keys()
        cards = [(one, one.card) for one in told if one.card]
        assert [card.title for _, card in cards] == titles
        return cards


@asynccontextmanager
async def echoed(home: Path) -> AsyncIterator[EchoedSession]:
    async with scene(home) as engine:
        # The program finds its data where it would be by itself.
        echo_scene = EchoScene(home / ".ollim-bot")
        watch = echo_scene.echo.watch()
        tools = Toolset(
            builtin=("Read", "Write", "Edit", "Bash"), gate=watch.noting(refuse_marked_calls)
        )
        async with engine.session(tools, working_directory=echo_scene.root) as session:
            yield EchoedSession(echo_scene, engine.model, session, watch)


def edit(path: str, old: str, new: str) -> CallTool:
    return CallTool("Edit", {"file_path": path, "old_string": old, "new_string": new})


async def test_what_the_engine_does_in_a_turn_is_told_and_undone(tmp_path: Path) -> None:
    """Several edits of a job as one; a profile that is rewritten; a command of ours."""
    async with echoed(tmp_path) as at:
        await check_that_several_edits_are_one_card_and_one_undo(at)
        await check_that_a_profile_is_told_and_undone(at)
        await check_that_a_command_is_told_and_undone(at)


async def check_that_several_edits_are_one_card_and_one_undo(at: EchoedSession) -> None:
    path = at.echo_scene.root / PATH
    path.write_text(routine())
    read = CallTool("Read", {"file_path": PATH})
    ((message, card),) = await at.turn(
        Reply((read, edit(PATH, "30 8", "0 12"), edit(PATH, "1-5", "*"))),
        Reply((edit(PATH, "Plan the day.", "Plan."), edit(PATH, "nowhere", "x"))),
        titles=["Routine changed: Plan"],
    )
    assert "Next: today 12:00, tomorrow 12:00, Thu 26 Feb 12:00." in card.description
    assert path.read_text() == routine(cron="0 12 * * *", body="Plan.")
    assert not (await at.echo_scene.undo(message)).is_error
    assert path.read_text() == routine()


async def check_that_a_profile_is_told_and_undone(at: EchoedSession) -> None:
    path = at.echo_scene.root / "IDENTITY.md"
    path.write_text(PROFILE)
    read = CallTool("Read", {"file_path": str(path)})
    titles = ["I changed who I am: IDENTITY.md", "I changed what I know about you: USER.md"]
    (message, _), _ = await at.turn(
        Reply((read, edit(str(path), "kind", "rude"))),
        Reply((CallTool("Write", {"file_path": "USER.md", "content": "Bo.\n"}),)),
        titles=titles,
    )
    assert not (await at.echo_scene.undo(message)).is_error
    assert path.read_text() == PROFILE


async def check_that_a_command_is_told_and_undone(at: EchoedSession) -> None:
    added = Reply((CallTool("Bash", {"command": ADD}),))
    ((message, _),) = await at.turn(added, titles=["Routine added: Eat"])
    assert (at.echo_scene.root / FILE).exists()
    assert not (await at.echo_scene.undo(message)).is_error
    assert not (at.echo_scene.root / FILE).exists()

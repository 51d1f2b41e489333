"""An answer that pauses in the middle until the test resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.discord.discord_scene import DiscordScene
from tests.e2e.model_engine import WAIT_FOR

from ollim_bot.offline.server import CallTool, Part, Reply, Say


@dataclass(frozen=True, slots=True)
class PausedAnswer:
    """The agent runs a command that ends after `resume`; the doubled engine knows it."""

    folder: Path
    name: str

    @property
    def call(self) -> CallTool:
        return CallTool("Bash", {"command": f"{WAIT_FOR} {self._signal.name}"})

    def resume(self) -> None:
        self._signal.touch()

    @property
    def _signal(self) -> Path:
        return self.folder / f"{self.name}.go"


async def pause_answer(
    scene: DiscordScene, before: str, after: str, *, begin: Sequence[Part] = ()
) -> PausedAnswer:
    """Ask a question whose answer pauses between the two texts, until `resume`.

    Returns when Discord shows the first text.
    """
    paused = await script_paused_answer(scene, before, after, begin=begin)
    scene.discord.say("go on")
    await scene.said_with(before)
    return paused


async def script_paused_answer(
    scene: DiscordScene, before: str, after: str, *, begin: Sequence[Part] = ()
) -> PausedAnswer:
    """Script such an answer for the next question."""
    await scene.bot.command("/permissions bypassPermissions")
    paused = PausedAnswer(scene.bot.data, f"wait{len(scene.model.requests)}")
    scene.model.then(Reply((*begin, Say(before), paused.call)), Reply((Say(after),)))
    return paused

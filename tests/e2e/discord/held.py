"""A turn that is held open from outside, in the middle of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.discord.talk import Talk

from ollim_bot.offline.messages import CallTool, Part, Reply, Say


@dataclass(frozen=True, slots=True)
class Hold:
    """The agent runs a command of this name that ends when `let_go` was called."""

    folder: Path
    name: str

    @property
    def call(self) -> CallTool:
        sign = self._sign.name
        # It ends by itself, too: a bot that is killed leaves it behind.
        waiting = f"for n in $(seq 2000); do [ -e {sign} ] && break; sleep 0.02; done"
        self._script.write_text(f"{waiting}\n")
        return CallTool("Bash", {"command": f"sh {self._script.name}"})

    def let_go(self) -> None:
        self._sign.touch()

    @property
    def _script(self) -> Path:
        return self.folder / f"{self.name}.sh"

    @property
    def _sign(self) -> Path:
        return self.folder / f"{self.name}.go"


async def held(talk: Talk, before: str, after: str, *, begin: Sequence[Part] = ()) -> Hold:
    """Ask; the answer stops between the two texts, and goes on in its own time after `let_go`.

    Returns when the first text can be read on Discord.
    """
    hold = await armed(talk, before, after, begin=begin)
    talk.discord.say("go on")
    await talk.said_with(before)
    return hold


async def armed(talk: Talk, before: str, after: str, *, begin: Sequence[Part] = ()) -> Hold:
    """The next question will be answered so."""
    await talk.bot.command("/permissions bypassPermissions")
    hold = Hold(talk.bot.data, f"wait{len(talk.model.requests)}")
    talk.model.then(Reply((*begin, Say(before), hold.call)), Reply((Say(after),)))
    return hold

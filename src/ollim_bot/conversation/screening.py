"""Asks a small model whether the text of a webhook's call is safe, before the agent sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ollim_bot.clock import within
from ollim_bot.domain.events import EndCause, FailureKind, TurnEnded
from ollim_bot.domain.jobs import Model
from ollim_bot.domain.usage import Usage
from ollim_bot.errors import EngineError
from ollim_bot.ports import AgentEngine, Clock, Prompt, Refusal, SessionSpec, ToolCall, Toolset
from ollim_bot.prompts.screening import is_safe

LONGEST_SECONDS = 30.0

_TOO_LONG = f"the check took longer than {LONGEST_SECONDS:.0f} s"


@dataclass(frozen=True, slots=True)
class ScreeningVerdict:
    """Without an `error`, the answer; `kind` says why if the model failed."""

    is_safe: bool = False
    error: str = ""
    kind: FailureKind | None = None


class Screening:
    """One check, in a session without tools, history, settings and record.

    `usage` can be read at any time, also after the check was cut off.
    """

    def __init__(self, engine: AgentEngine, clock: Clock) -> None:
        self.usage = Usage()
        self._engine = engine
        self._clock = clock

    async def verdict(self, prompt: str, instructions: str, usual: SessionSpec) -> ScreeningVerdict:
        """The verdict of the small model, or of the `usual` one where there is no small one."""
        spec = SessionSpec(
            instructions, usual.working_directory, model=Model.HAIKU.value, is_bare=True
        )
        found = await self._within(spec, prompt)
        if found.kind is FailureKind.MODEL_UNKNOWN and usual.model != spec.model:
            found = await self._within(replace(spec, model=usual.model), prompt)
        return found

    async def _within(self, spec: SessionSpec, prompt: str) -> ScreeningVerdict:
        """Ask until the limit. The session is closed when this returns or raises."""
        found = await within(LONGEST_SECONDS, self._clock, self._ask(spec, prompt))
        return found or ScreeningVerdict(error=_TOO_LONG)

    async def _ask(self, spec: SessionSpec, prompt: str) -> ScreeningVerdict:
        before = self.usage.cost_usd
        try:
            async with self._engine.open(spec, Toolset(gate=_refuse)) as agent:
                try:
                    async for event in agent.turn(Prompt(prompt)):
                        match event:
                            case TurnEnded(failure=failure) if failure is not None:
                                return ScreeningVerdict(
                                    error=failure.sentence.removesuffix("."), kind=failure.kind
                                )
                            case TurnEnded(EndCause.COMPLETED, text):
                                return ScreeningVerdict(is_safe(text))
                    return ScreeningVerdict(error="the engine stopped without a word")
                finally:
                    self.usage = agent.usage._replace(cost_usd=before + agent.usage.cost_usd)
        except EngineError as refused:
            return ScreeningVerdict(error=str(refused).removesuffix("."))


async def _refuse(_: ToolCall) -> Refusal | None:
    return Refusal("There are no tools here.")

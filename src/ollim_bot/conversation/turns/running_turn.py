"""A turn that runs now: its events are shown while its text is put together."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ollim_bot.chat import TurnStart
from ollim_bot.conversation.stage import Presentation
from ollim_bot.conversation.turns.answer_text import AnswerText
from ollim_bot.domain.events import (
    AgentEvent,
    Compacted,
    CompactionStarted,
    EndCause,
    TextStreamed,
    ToolStarted,
    TurnEnded,
)


class RunningTurn:
    """`was_asked` is set as soon as the engine may know of it."""

    def __init__(
        self, start: TurnStart, presentation: Presentation, *, can_be_replaced: bool = True
    ) -> None:
        self.start = start
        self.text = AnswerText()
        self.was_asked = False
        self.is_interrupted = False
        self.is_timed_out = False
        self.compacted: Compacted | None = None
        self._can_be_replaced = can_be_replaced
        self._is_compacting = False
        self._presentation = presentation

    @property
    def gives_way(self) -> bool:
        """Whether a newer message stops it."""
        return self._can_be_replaced and not self._is_compacting

    def show(self, event: AgentEvent) -> None:
        self._presentation.show(event)

    async def follow(self, events: AsyncIterator[AgentEvent]) -> TurnEnded:
        """Show all events but the last, which is kept until what it led to was posted."""
        if self.is_interrupted:
            return TurnEnded(EndCause.INTERRUPTED)
        self.was_asked = True
        end = TurnEnded(EndCause.INTERRUPTED)
        async for event in events:
            self._note(event)
            if isinstance(event, TurnEnded):
                end = event
            else:
                self.show(event)
        await self._presentation.flush()
        return end

    async def close(self, end: TurnEnded) -> None:
        await self._presentation.end(end)

    def _note(self, event: AgentEvent) -> None:
        self.text.add(event)
        match event:
            case CompactionStarted():
                self._is_compacting = True
            case Compacted():
                self.compacted = event
                self._is_compacting = False
            case TextStreamed() | ToolStarted():
                self._is_compacting = False

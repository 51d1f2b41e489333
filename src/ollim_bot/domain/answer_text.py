"""The text of an answer, collected from the events of its turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from ollim_bot.domain.events import (
    AgentEvent,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)

NO_RESPONSE = "no response — try again."


@dataclass(slots=True)
class AnswerText:
    """Collects the answer. A complete piece replaces the streamed text that it repeats."""

    _pieces: list[str] = field(default_factory=list)
    _streamed: str = ""
    _withdrawn: str = ""

    def add(self, event: AgentEvent) -> None:
        match event:
            case TextStreamed(text):
                self._streamed += text
            case TextWithdrawn():
                self._withdrawn, self._streamed = self._streamed or self._withdrawn, ""
            case TextCompleted(text):
                self._withdrawn = self._streamed = ""
                self._pieces.append(text)

    @property
    def so_far(self) -> str:
        return _joined([*self._pieces, self._streamed])

    @property
    def broken_off(self) -> str:
        """As `so_far`, with the words of a broken stream that no other words have replaced."""
        return _joined([*self._pieces, self._streamed or self._withdrawn])

    def whole(self, end: TurnEnded) -> str:
        """The collected text, else the engine's final text, else `NO_RESPONSE`."""
        return self.so_far or end.text.strip() or NO_RESPONSE


def _joined(pieces: list[str]) -> str:
    return "\n\n".join(piece.strip() for piece in pieces if piece.strip())

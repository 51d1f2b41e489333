"""The text of an answer, put together from the events of its turn."""

from __future__ import annotations

from ollim_bot.domain.events import (
    AgentEvent,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)

NO_RESPONSE = "no response — try again."


class AnswerText:
    """A whole piece takes the place of what streamed of it; what only streamed counts too."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._streamed = ""

    def add(self, event: AgentEvent) -> None:
        match event:
            case TextStreamed(text):
                self._streamed += text
            case TextWithdrawn():
                self._streamed = ""
            case TextCompleted(text):
                self._streamed = ""
                self._pieces.append(text)

    @property
    def so_far(self) -> str:
        return joined([*self._pieces, self._streamed])

    def whole(self, end: TurnEnded) -> str:
        """From what came, else from the engine's own last word, else a plain sentence."""
        return self.so_far or end.text.strip() or NO_RESPONSE


def joined(pieces: list[str]) -> str:
    return "\n\n".join(piece.strip() for piece in pieces if piece.strip())

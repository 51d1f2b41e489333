"""The text of an answer while it arrives, and whether it has to be taken back."""

from __future__ import annotations

from collections.abc import Iterator

from ollim_bot.domain.events import AgentEvent, TextCompleted, TextStreamed, TextWithdrawn


class StreamedText:
    """What was shown since the last whole piece. Only a whole piece is final."""

    def __init__(self) -> None:
        self._shown = ""

    def more(self, text: str) -> Iterator[AgentEvent]:
        self._shown += text
        yield TextStreamed(text)

    def whole(self, text: str) -> Iterator[AgentEvent]:
        if self._shown != text:
            yield from self.withdrawn()
        self._shown = ""
        yield TextCompleted(text)

    def withdrawn(self) -> Iterator[AgentEvent]:
        if self._shown:
            self._shown = ""
            yield TextWithdrawn()

"""The lines of the page that were added last."""

from __future__ import annotations

from dataclasses import dataclass, replace

# A page that lost its answer asks again soon.
_REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class AddedLine:
    """`key` is what the page called the line; `told` is the answer, empty while it is added."""

    key: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class AddedLines:
    """The lines that were added last, so that each is added once."""

    lines: tuple[AddedLine, ...] = ()

    def find(self, key: str) -> AddedLine | None:
        return next((each for each in self.lines if each.key == key), None)

    def including(self, line: AddedLine) -> AddedLines:
        others = (each for each in self.lines if each.key != line.key)
        return replace(self, lines=(*others, line)[-_REMEMBERED:])

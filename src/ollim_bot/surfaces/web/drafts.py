"""Markdown while it is being written: what is finished is rendered once, the rest again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from ollim_bot.surfaces.web.markdown import block_starts, render

# Drafts are drawn on the event loop, for which this is a tenth of a second at most.
_MOST_WORK = 20_000
# How much more work a sign is than a letter.
_WORK_OF_SIGNS = {"[": 30, "*": 4, "_": 4, "~": 4, "<": 4, "&": 4, "\n": 16}


@dataclass(frozen=True, slots=True)
class Draft:
    """`blocks` is HTML that stays as it is, whatever is added; `rest` is text.

    However a text is cut into what is added, the blocks and the tail at the end are together the
    HTML of the whole text. Only if too much of it comes without an end of a block, then it stands
    there as it was written, until its message takes the place of the draft.
    """

    blocks: tuple[str, ...] = ()
    rest: str = ""

    def added(self, text: str) -> Draft:
        return replace(self, rest=self.rest + text)

    def settled(self) -> Draft:
        """The same with all blocks taken out of the rest that nothing could change any more.

        The last block may always go on. A line does not count before its end has come: `***` ends
        a paragraph, but `***word***` goes on with it.
        """
        if is_much_work(self.rest):
            return self
        text, held_back = _with_plain_newlines(self.rest)
        end = text.rfind("\n") + 1
        *done, last = _sources(text[:end])
        if not done:
            return self
        blocks = (*self.blocks, *map(render, done))
        return Draft(blocks, last + text[end:] + held_back)

    def tail(self) -> str:
        return _as_written(self.rest) if is_much_work(self.rest) else render(self.rest)


def is_much_work(text: str) -> bool:
    """Whether to render it would take so long that others had to wait."""
    signs = sum(work * text.count(sign) for sign, work in _WORK_OF_SIGNS.items())
    return len(text) + signs > _MOST_WORK


def _as_written(text: str) -> str:
    lines = escape(text.rstrip().encode("utf-8", "replace").decode()).splitlines()
    return f"<p>{'<br>'.join(lines)}</p>\n"


def _sources(text: str) -> list[str]:
    """The text of each block, with what stands between it and the next one; at least one."""
    lines = [f"{line}\n" for line in text.split("\n")[:-1]]
    bounds = [0, *block_starts(text)[1:], len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(bounds)]


def _with_plain_newlines(text: str) -> tuple[str, str]:
    """A carriage return at the end may be half of a newline, so it is held back."""
    held_back = "\r" if text.endswith("\r") else ""
    text = text.removesuffix("\r")
    return text.replace("\r\n", "\n").replace("\r", "\n"), held_back

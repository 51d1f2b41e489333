"""Tools that search and read the documentation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path

from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.tools.tool_context import (
    Arguments,
    BackgroundUse,
    OwnTool,
    ToolContext,
    arguments,
    text,
)
from ollim_bot.kernel.values.agent_caller import LOOKS
from ollim_bot.kernel.values.ports import ToolAnswer

_MOST_FOUND = 8
_LONGEST_START = 200
_SMALL = 3
_LEAST = 0.1
_HEADING = re.compile(r"^#{1,4} +(.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ENDING = re.compile(r"(?:ing|ed|es|s|e)$")
_WORD = re.compile(r"[^\W_]{2,}")


# The terms of a section's text, of its heading, and of its page's name.
_Terms = tuple[Set[str], Set[str], Set[str]]


@dataclass(frozen=True, slots=True)
class Section:
    page: str
    heading: str
    words: str

    def terms(self) -> _Terms:
        return _terms(self.words), _terms(self.heading), _terms(self.page)


async def _search_docs(context: ToolContext, given: Arguments) -> ToolAnswer:
    found = await asyncio.to_thread(_found, context.docs, str(given["query"]))
    if not found:
        pages = ", ".join(await asyncio.to_thread(_pages, context.docs))
        return ToolAnswer(f"Nothing was found. There are these pages: {pages}.")
    starts = (shortened(" ".join(one.words.split()), _LONGEST_START) for one in found)
    listed = zip(found, starts, strict=True)
    return ToolAnswer("\n\n".join(f"{one.page} — {one.heading}\n{start}" for one, start in listed))


SEARCH_DOCS = OwnTool(
    "search_docs",
    "Search the documentation of ollim-bot itself.",
    arguments(["query"], query=text("a few words")),
    _search_docs,
    careful=LOOKS,
    background=BackgroundUse.DEFAULT_PATTERN,
    changes_something=False,
    prompt_line=(
        "`search_docs`, `read_doc`: how ollim-bot itself works. Look there before you explain it."
    ),
    server="docs",
)


async def _read_doc(context: ToolContext, given: Arguments) -> ToolAnswer:
    page = str(given["page"]).strip().removesuffix(".md")
    pages = await asyncio.to_thread(_pages, context.docs)
    if page not in pages:
        message = f"There is no page {page}. There are: {', '.join(pages)}."
        return ToolAnswer(message, is_error=True)
    content = await asyncio.to_thread((context.docs / f"{page}.md").read_text, "utf-8")
    return ToolAnswer(content)


READ_DOC = OwnTool(
    "read_doc",
    "Read a page of the documentation of ollim-bot itself.",
    arguments(["page"], page=text("as `search_docs` names it, such as `settings`")),
    _read_doc,
    careful=LOOKS,
    background=BackgroundUse.DEFAULT_PATTERN,
    changes_something=False,
    server="docs",
)


def _pages(folder: Path) -> Sequence[str]:
    return sorted(path.stem for path in folder.glob("*.md"))


def _found(folder: Path, query: str) -> Sequence[Section]:
    """The best sections first; headings and rare words weigh more."""
    sections = [(section, section.terms()) for section in _sections(folder)]
    # The terms of a query. Short words count only if there are no longer ones.
    weights = _weights(_phrases(query) or _terms(query), [terms for _, terms in sections])
    scored = [(_score(terms, weights), section) for section, terms in sections]
    best = sorted((one for one in scored if one[0]), key=lambda one: -one[0])
    return [section for _, section in best[:_MOST_FOUND]]


def _weights(wanted: Set[str], sections: Sequence[_Terms]) -> Mapping[str, float]:
    """The rarer a term is among the sections, the more it weighs."""
    numbers = {term: sum(any(term in part for part in one) for one in sections) for term in wanted}
    return {
        term: log(len(sections) / number) + _LEAST for term, number in numbers.items() if number
    }


def _score(terms: _Terms, weights: Mapping[str, float]) -> float:
    words, heading, page = terms
    return sum(
        weight * (2 * (word in words) + 2 * (word in heading) + (word in page))
        for word, weight in weights.items()
    )


def _terms(text: str) -> Set[str]:
    return _phrases(text) | {word.lower() for word in _WORD.findall(text) if len(word) <= _SMALL}


def _phrases(text: str) -> Set[str]:
    """The longer words without their endings, and pairs of neighbours."""
    longer = [word.lower() for word in _WORD.findall(text) if len(word) > _SMALL]
    stems = [_ENDING.sub("", word) for word in longer]
    return {*stems, *map(" ".join, pairwise(stems))}


def _sections(folder: Path) -> Sequence[Section]:
    found = []
    for page in _pages(folder):
        content = (folder / f"{page}.md").read_text("utf-8")
        prose = _CODE.sub(lambda code: " " * len(code[0]), content)
        headings = [*_HEADING.finditer(prose)]
        ends = (*(heading.start() for heading in headings[1:]), len(content))
        for heading, end in zip(headings, ends, strict=False):
            found.append(Section(page, heading[1].strip(), content[heading.end() : end].strip()))
    return found

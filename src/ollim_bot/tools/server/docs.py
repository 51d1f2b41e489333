"""`search_docs` and `read_doc`: the documentation of the product, for the agent to explain it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.tools.server.schemas import arguments, text

_PACKAGE = Path(__file__).resolve().parents[2]
_MOST_FOUND = 8
_HEADING = re.compile(r"^#{1,4} +(.+)$", re.MULTILINE)
_WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True, slots=True)
class Section:
    page: str
    heading: str
    words: str


def docs_folder() -> Path:
    """In the package where it is installed, beside it in a checkout."""
    shipped = _PACKAGE / "docs"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / "docs"


def docs_tools(folder: Path | None = None) -> tuple[Tool, Tool]:
    place = folder or docs_folder()
    return search_docs(place), read_doc(place)


def search_docs(folder: Path) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        found = await asyncio.to_thread(_found, folder, str(given["query"]))
        if not found:
            pages = ", ".join(await asyncio.to_thread(_pages, folder))
            return ToolAnswer(f"Nothing was found. There are these pages: {pages}.")
        return ToolAnswer(
            "\n\n".join(f"{one.page} — {one.heading}\n{_start(one)}" for one in found)
        )

    return Tool(
        "search_docs",
        "Search the documentation of ollim-bot itself.",
        arguments(["query"], query=text("a few words")),
        run,
    )


def read_doc(folder: Path) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        page = str(given["page"]).strip().removesuffix(".md")
        pages = await asyncio.to_thread(_pages, folder)
        if page not in pages:
            message = f"There is no page {page}. There are: {', '.join(pages)}."
            return ToolAnswer(message, is_error=True)
        content = await asyncio.to_thread((folder / f"{page}.md").read_text, "utf-8")
        return ToolAnswer(content)

    return Tool(
        "read_doc",
        "Read a page of the documentation of ollim-bot itself.",
        arguments(["page"], page=text("as `search_docs` names it, such as `settings`")),
        run,
    )


def _pages(folder: Path) -> Sequence[str]:
    return sorted(path.stem for path in folder.glob("*.md"))


def _found(folder: Path, query: str) -> Sequence[Section]:
    """The sections in which most of the words occur, headings counting more."""
    wanted = {word.lower() for word in _WORD.findall(query)}
    scored = [
        (_score(section, wanted), number, section)
        for number, section in enumerate(_sections(folder))
    ]
    best = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1]))
    return [section for _, _, section in best[:_MOST_FOUND]]


def _score(section: Section, wanted: set[str]) -> int:
    heading, words = section.heading.lower(), section.words.lower()
    return sum(
        (word in words) + 3 * (word in heading) + 2 * (word in section.page) for word in wanted
    )


def _sections(folder: Path) -> Sequence[Section]:
    found = []
    for page in _pages(folder):
        content = (folder / f"{page}.md").read_text("utf-8")
        headings = [*_HEADING.finditer(content)]
        ends = (*(heading.start() for heading in headings[1:]), len(content))
        for heading, end in zip(headings, ends, strict=False):
            found.append(Section(page, heading[1].strip(), content[heading.end() : end].strip()))
    return found


def _start(section: Section) -> str:
    line = " ".join(section.words.split())
    return line if len(line) <= 200 else f"{line[:199]}…"

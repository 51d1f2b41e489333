"""What the page has beyond plain markdown, and what it shows in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_BARE_LINK = re.compile(
    r"\bhttps?://[^\s/<>\"`()\[\]{}|\\^](?:\([^\s()<>\"`]*\)|[^\s<>\"`()\[\]{}|\\^])*"
    r"(?<![.,:;!?'*_~])",
    re.IGNORECASE,
)
_TASK = re.compile(r"\[([ xX])\] (?=\S)")


def for_the_page(state: StateCore) -> None:
    """A rule for the end of the core chain: changes the tokens of a whole text in place."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open"):
            _style_to_class(token)
        if token.type == "inline":
            children = _images_to_links(state, token.children or [])
            token.children = list(_with_bare_links(state, children))
    _make_task_boxes(state.tokens)


def _style_to_class(token: Token) -> None:
    # The page's security policy allows no styles but those of its own file.
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrs["class"] = style.replace("text-align:", "align-")


def _images_to_links(state: StateCore, tokens: Sequence[Token]) -> Iterator[Token]:
    """Looking at a picture elsewhere would tell the other side that the message was read."""
    depth = 0
    for token in tokens:
        depth += token.nesting if token.tag == "a" else 0
        if token.type != "image":
            yield token
            continue
        source = str(token.attrs.get("src", ""))
        alt = state.md.renderer.renderInlineAsText(token.children, state.md.options, state.env)  # type: ignore[attr-defined]
        if depth or not source:
            yield _text(alt)
        else:
            yield from _link(source, alt or source)


def _with_bare_links(state: StateCore, tokens: Iterator[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        depth += token.nesting if token.tag == "a" else 0
        if token.type == "text" and not depth and "://" in token.content:
            yield from _linked(state, token.content)
        else:
            yield token


def _linked(state: StateCore, text: str) -> Iterator[Token]:
    end = 0
    for found in _BARE_LINK.finditer(text):
        href = state.md.normalizeLink(found[0])
        if state.md.validateLink(href):
            yield _text(text[end : found.start()])
            yield from _link(href, found[0])
            end = found.end()
    yield _text(text[end:])


def _link(href: str, text: str) -> Iterator[Token]:
    yield Token("link_open", "a", 1, attrs={"href": href})
    yield _text(text)
    yield Token("link_close", "a", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _make_task_boxes(tokens: Sequence[Token]) -> None:
    for (item, paragraph), (_, inline) in pairwise(pairwise(tokens)):
        if (item.type, paragraph.type) == ("list_item_open", "paragraph_open"):
            _make_task_box(item, inline)


def _make_task_box(item: Token, inline: Token) -> None:
    children = inline.children or []
    found = _TASK.match(children[0].content) if children and children[0].type == "text" else None
    if found is None:
        return
    box = Token("task_box", "input", 0, attrs={"type": "checkbox", "disabled": ""})
    if found[1] != " ":
        box.attrs["checked"] = ""
    rest = _text(" " + children[0].content[found.end() :])
    inline.children = [box, rest, *children[1:]]
    item.attrs["class"] = "task"

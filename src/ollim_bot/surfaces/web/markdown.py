"""Markdown to HTML that may stand on the page, whoever wrote it.

Raw HTML stays text, nothing is loaded from elsewhere, and a link goes to the web or to a mail
program or is no link. References (`[name]: address`) stay text too, so that no block depends on
another one: what is shown is never changed by what comes later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ollim_bot.surfaces.web.markdown_tokens import for_the_page

_LINK = re.compile(r"(?:https?://[^/\s]|mailto:[^/\s])\S*", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ALIGNED = re.compile("align-(left|right|center)")
_EMPTY = re.compile("")

# A text that is made to be slow takes as many times longer as it may be nested.
_OPTIONS = {"html": False, "breaks": True, "linkify": False, "maxNesting": 20}
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code"),
    *("ul", "ol", "li", "input", "em", "strong", "s", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {
    ("a", "href"): _LINK,
    ("a", "title"): re.compile(".*", re.DOTALL),
    ("code", "class"): re.compile(r"language-[\w.+#-]{1,40}"),
    ("ol", "start"): re.compile(r"[0-9]{1,9}"),
    ("li", "class"): re.compile("task"),
    ("input", "type"): re.compile("checkbox"),
    ("input", "disabled"): _EMPTY,
    ("input", "checked"): _EMPTY,
    ("th", "class"): _ALIGNED,
    ("td", "class"): _ALIGNED,
}


class _Parser(MarkdownIt):
    def __init__(self) -> None:
        super().__init__("js-default", _OPTIONS)
        self.disable("reference")
        self.core.ruler.push("for_the_page", for_the_page)

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the name is the library's
        return _LINK.fullmatch(url) is not None


def _kept(tag: str, attribute: str, value: str) -> str | None:
    if (tag, attribute) in (("a", "rel"), ("a", "target")):
        return value
    form = _ATTRIBUTES.get((tag, attribute))
    return value if form is not None and form.fullmatch(value) else None


_PARSER = _Parser()
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes={
        tag: {name for owner, name in _ATTRIBUTES if owner == tag} for tag, _ in _ATTRIBUTES
    },
    attribute_filter=_kept,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


def render(text: str) -> str:
    """The same for the same text, always; never raises."""
    html: str = _PARSER.render(_SURROGATE.sub("\ufffd", text))
    return _CLEANER.clean(html)


def plain(text: str) -> str:
    """The words that `render` shows, without their marks; never raises."""
    return "".join(_words(_PARSER.parse(_SURROGATE.sub("\ufffd", text))))


def _words(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield from _words(token.children or ())
            yield "\n"
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        else:
            yield token.content


def block_starts(text: str) -> list[int]:
    """The lines, from 0, at which the blocks of the highest level begin."""
    tokens: list[Token] = []
    _PARSER.block.parse(text, _PARSER, {}, tokens)
    return [
        token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map
    ]

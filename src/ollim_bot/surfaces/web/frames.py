"""What the page is sent: frames of JSON, with Markdown as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise, takewhile
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_block import table
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.base.moments import clock_time
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandSpec
from ollim_bot.kernel.values.events import Activity
from ollim_bot.kernel.values.ports import Status
from ollim_bot.kernel.values.search import Term, excerpt

_BARE_LINK = re.compile(
    r"\bhttps?://[^\s/<>\"`()\[\]{}|\\^](?:\([^\s()<>\"`]*\)|[^\s<>\"`()\[\]{}|\\^])*"
    r"(?<![.,:;!?'*_~])",
    re.IGNORECASE,
)
_TASK = re.compile(r"\[([ xX])\] (?=\S)")


_LINK = re.compile(r"(?:https?://[^/\s]|mailto:[^/\s])\S*", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ALIGNED = re.compile("align-(left|right|center)")
_EMPTY = re.compile("")
# The rendering time of a hostile text grows with the nesting that is allowed.
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


def for_the_page(state: StateCore) -> None:
    """A rule for the end of the core chain: changes the tokens of a whole text in place."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open"):
            # The page's security policy allows only styles of its own file.
            style = str(token.attrs.pop("style", ""))
            if style:
                token.attrs["class"] = style.replace("text-align:", "align-")
        if token.type == "inline":
            token.children = list(_with_links(state, token.children or []))
    for (item, paragraph), (_, inline) in pairwise(pairwise(state.tokens)):
        if (item.type, paragraph.type) == ("list_item_open", "paragraph_open"):
            _make_task_box(item, inline)


def _with_links(state: StateCore, tokens: Sequence[Token]) -> Iterator[Token]:
    """Make links of bare addresses, and of images: loading one would tell its host of it."""
    depth = 0
    for given in tokens:
        token = given
        depth += token.nesting if token.tag == "a" else 0
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            alt = state.md.renderer.renderInlineAsText(token.children, state.md.options, state.env)  # type: ignore[attr-defined]
            if source and not depth:
                yield from _link(source, alt or source)
                continue
            token = _text(alt)
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


def _make_task_box(item: Token, inline: Token) -> None:
    first, *others = inline.children or [_text("")]
    if first.type == "text" and (found := _TASK.match(first.content)):
        box = Token("task_box", "input", 0, attrs={"type": "checkbox", "disabled": ""})
        if found[1] != " ":
            box.attrs["checked"] = ""
        inline.children = [box, _text(f" {first.content[found.end() :]}"), *others]
        item.attrs["class"] = "task"


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


# Rows that lack cells get empty ones. A table ends where it lacks more than so many: with the usual
# limit of 65,536, a text of 2,000 characters takes a second.
table.__globals__["MAX_AUTOCOMPLETED_CELLS"] = 300
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
    """Render the text as HTML. Deterministic; never raises."""
    html: str = _PARSER.render(_SURROGATE.sub("\ufffd", text))
    return _CLEANER.clean(html)


def plain(text: str) -> str:
    """The words that `render` shows, without markup; never raises."""
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
    """The line numbers, from 0, at which the top-level blocks begin."""
    tokens: list[Token] = []
    _PARSER.block.parse(text, _PARSER, {}, tokens)
    return [
        token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map
    ]


Json = dict[str, object]

# A longer text is shown with its markup: to render all results takes time.
_RENDERED_FOR_RESULT = 2000
# How much of a text is rendered for an excerpt: markdown is longer than its visible text.
_READ_FOR_EXCERPT = 1000


def message_json(
    message: ChatMessage, html: str, card: Json | None, reply_to: ChatMessage | None
) -> Json:
    return {
        "id": message.id,
        "at": message.at.isoformat(),
        "began": message.began.isoformat() if message.began else None,
        "author": message.author.value,
        "html": html,
        "text": message.text,
        "is_typed": message.is_typed,
        "reply_to": None if reply_to is None else _quoted(reply_to),
        "attachments": [
            {
                "name": each.name,
                "url": f"/api/attachments/{quote(message.id, safe='')}/{index}",
                "is_image": each.is_image,
                "size": each.size,
            }
            for index, each in enumerate(message.attachments)
        ],
        "turn": message.turn,
        "is_cut_off": message.is_cut_off,
        "footer": message.footer,
        "job": message.job,
        "run": message.occurrence,
        "in_fork": message.in_fork,
        "card": card,
    }


def result_json(message: ChatMessage, terms: Sequence[Term]) -> Json:
    """A message that was found, with its place in the log and the words around the match."""
    is_short = len(message.text) <= _RENDERED_FOR_RESULT
    text = plain(message.text) if is_short and not message.card else message.text
    return {
        "id": message.id,
        "at": message.at.isoformat(),
        "author": message.author.value,
        "job": message.job,
        "parts": [
            {"text": part.text, "is_match": part.is_match} for part in excerpt(text, terms, 200)
        ],
    }


def _quoted(message: ChatMessage) -> Json:
    words = " ".join(plain(message.text[:_READ_FOR_EXCERPT]).split())
    if not words and message.attachments:
        words = message.attachments[0].name
    excerpt = shortened(words, 120)
    return {"id": message.id, "author": message.author.value, "excerpt": excerpt}


def status_json(status: Status) -> Json:
    return {
        "provider": status.provider,
        "is_offline": status.is_offline,
        "model": status.model,
        "is_busy": status.is_busy,
        "bot_name": status.bot_name,
        "version": status.version,
        "program": status.program,
        "fork": asdict(status.fork) if status.fork else None,
        "quiet": "" if status.quiet_until is None else clock_time(status.quiet_until),
        "careful": asdict(status.careful) if status.careful else None,
        "trouble": " ".join(plain(status.trouble).split()) if status.trouble else "",
        "zone": status.zone,
        "has_jobs": status.has_jobs,
        "has_sound": status.has_sound and status.quiet_until is None,
    }


def command_json(command: CommandSpec) -> Json:
    return {
        "name": command.name,
        "about": command.about,
        "usage": command.usage,
        "arguments": [
            {
                "name": each.name,
                "about": each.about,
                "choices": list(each.choices),
                "is_required": each.is_required,
                "takes_rest": each.takes_rest,
            }
            for each in command.arguments
        ],
    }


def activity_json(activity: Activity) -> Json:
    tools = [
        {"id": line.id, "label": line.label, "state": line.state.value, "reason": line.reason}
        for line in activity.tools
    ]
    return {"phase": activity.phase, "tools": tools, "notes": list(activity.notes)}


def draft_frame(
    turn: TurnId, began: datetime | None, before: Sequence[str], now: Sequence[str], tail: str
) -> Json:
    """How many of the blocks that were shown before stay, and what follows them."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    keep = len(list(same))
    return {
        "type": "draft",
        "turn": turn,
        "began": began.isoformat() if began else None,
        "keep": keep,
        "blocks": list(now[keep:]),
        "tail": tail,
    }


def card_json(card: Card) -> Json:
    return {
        "title": card.title,
        "html": render(card.description),
        "color": card.color.value,
        "fields": [
            {"name": each.name, "html": render(each.value), "inline": each.inline}
            for each in card.fields
        ],
        "lines": [{"text": each.text, "heading": each.heading} for each in card.lines],
        "buttons": [
            {
                "label": button.label,
                "custom_id": button.custom_id,
                "style": button.style.value,
                "is_used": button.is_used,
                "line": button.line,
                "asks": button.asks,
            }
            for button in card.buttons
        ],
        "earlier_of": card.earlier_of,
        "until": card.until and card.until.isoformat(),
        "job": card.job,
    }


NO_KEY = "This page needs its key. Run `ollim-bot web url` and open the address that it prints."
USED_ADDRESS = (
    "That address was used already, or is too old. Run `ollim-bot web url` and open the new one."
)
WRONG_HOST = (
    "The page does not answer to that name. "
    "Open it as 127.0.0.1, or add the name to OLLIM_WEB_HOSTS."
)
WRONG_ORIGIN = "Another site sent this, so the bot did nothing. Use the page itself."
NOT_FOUND = "There is nothing here. The page is at `/`."
NO_MESSAGE = "That message is gone."
NO_BUTTON = "That button is gone."
NO_ATTACHMENT = "That file is gone. The bot keeps files for 30 days."
NO_PAGE = "The page is missing from this installation. Install ollim-bot again."
FAILED = "The bot could not do that. Its log says why."
NOT_UNDERSTOOD = "The bot did not understand the page. Reload it."
NO_FORM = "The bot expected a message and got something else. Reload the page."
NOTHING_SAID = "Write something, or add a file."
TOO_SLOW = "The connection was too slow. Send it again."
TOO_MANY_TABS = "The page is open in too many tabs. Close some of them."


def too_many_files(most: int) -> str:
    return f"A message takes up to {most} files."


def file_too_large(name: str, most: int) -> str:
    return f"{name} is too large. Files can be up to {_size(most)}."


def not_saved(name: str, reason: str) -> str:
    return f"{name} could not be saved: {reason}. Nothing was sent."


def text_too_long(most: int) -> str:
    return f"That message is too long. Send up to {most:,} characters, or a file."


def body_too_large(most: int) -> str:
    return f"That is too much at once. The limit is {_size(most)}."


class RequestRefused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def wrong_method(allowed: str) -> str:
    return f"This address takes only {allowed}."


def port_taken(port: int) -> str:
    return (
        f"The page cannot use port {port}: another program has it. "
        "Stop that one, or set OLLIM_WEB_PORT to another port."
    )


def port_refused(port: int, reason: str) -> str:
    return f"The page cannot use port {port}: {reason}. Set OLLIM_WEB_PORT to another port."


def _size(count: int) -> str:
    megabytes, rest = divmod(count, 1024 * 1024)
    return f"{megabytes} MB" if megabytes and not rest else f"{count / 1024:.3g} KB"

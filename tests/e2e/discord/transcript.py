"""A transcript of Discord and of the page, side by side, for people to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from itertools import groupby, takewhile, zip_longest
from textwrap import TextWrapper, fill
from typing import Any
from unicodedata import east_asian_width

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.localdiscord.validation import Json

from ollim_bot.kernel.base.moments import clock_time, describe

_WIDTH = 50
_GAP = "  "
_MOST_REPEATED = 4
_BLOCK = re.compile(r"<pre><code[^>]*>(.*?)\s*</code></pre>", re.DOTALL)
_AT_WORK = re.compile("^-# (Thinking…|Working…|.*(…|✓)$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """The visible text of a message; `by` is its author."""

    by: str
    lines: tuple[str, ...]
    is_changed: bool = False

    @property
    def title(self) -> str:
        return f"{self.by}, changed" if self.is_changed else self.by


class Transcript:
    """`owner` and `bot` are names; `instead` maps texts that vary to texts that do not."""

    def __init__(self, owner: str, bot: str, instead: Mapping[str, str]) -> None:
        self._owner = owner
        self._bot = bot
        self._instead = instead
        self._discord: dict[str, Entry] = {}
        self._page: dict[str, Entry] = {}
        self._lines: list[str] = []
        self._is_open = False
        self._is_silent = False

    @contextmanager
    def silence(self) -> Iterator[None]:
        """What happens inside is not written down."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    @property
    def text(self) -> str:
        self._close()
        return "\n".join(self._lines) + "\n"

    def chapter(self, title: str, words: str) -> None:
        self._close()
        self._lines += ["", f"## {title}", "", fill(words, 110)]

    def tells(self, words: str) -> None:
        """A paragraph of the story."""
        self._close()
        self._lines += ["", fill(words, 110)]

    def moment(self, words: str) -> None:
        self._add([words])

    def does(self, words: str) -> None:
        """An action of the owner other than a message."""
        self.notes(f"{self._owner} {words}")

    def notes(self, words: str) -> None:
        """A remark about something that no surface shows."""
        self._add([f"({words})"])

    def aside(self, text: str) -> None:
        """What only the owner sees on Discord, as the answer to a command or a click."""
        lines = map(self._settled, text.split("\n"))
        self._beside(Entry(f"{self._bot}, for {self._owner} alone", tuple(lines)), None)

    def look(
        self,
        discord: LocalDiscord,
        page: Sequence[Mapping[str, Any]],
        refs: Mapping[str, Sequence[str]],
    ) -> None:
        """Write down what is new or changed on both surfaces, in the order of the log.

        `refs` has the ids on Discord of each message on the page.
        """
        ours = (each for each in discord.messages if not is_at_work(each))
        left = {each.id: self._on_discord(each, discord) for each in ours}
        right = {each["id"]: self._on_the_page(each) for each in folded(page)}
        new_left, new_right = _news(self._discord, left), _news(self._page, right)
        self._discord, self._page = left, right
        paired = {one for name in right for one in refs.get(name, (name,))}
        alone = [one for one in new_left if one not in paired]
        for name in self._in_order(new_right):
            there = [one for one in refs.get(name, (name,)) if one in new_left]
            # Ids on Discord grow with time.
            while there and alone and int(alone[0]) < int(there[0]):
                self._pair([new_left[alone.pop(0)]], None)
            self._pair([new_left[one] for one in there], new_right[name])
        for one in alone:
            self._pair([new_left[one]], None)

    def _in_order(self, entries: Mapping[str, Entry]) -> list[str]:
        """The order of the page; if a card has changed, the owner's messages come first."""
        if not any(entry.is_changed for entry in entries.values()):
            return [*entries]
        return sorted(entries, key=lambda name: self._rank(entries[name]))

    def _rank(self, entry: Entry) -> int:
        return 1 if entry.is_changed else 0 if entry.by == self._owner else 2

    def _pair(self, left: Sequence[Entry], right: Entry | None) -> None:
        if left and right and left[0].by == right.by == self._owner:
            self._add([right.by, *(f"    {line}" for line in right.lines)])
            return
        for one, other in zip_longest(left, [right] if right else []):
            self._beside(one, other)

    def has_seen(self, message: Message) -> bool:
        return message.id in self._discord

    def words(self, message: Message) -> str:
        """All visible text of a message on Discord."""
        return "\n".join(_read(message))

    def _on_discord(self, message: Message, discord: LocalDiscord) -> Entry:
        by = self._owner if message.author == discord.owner else self._bot
        return Entry(by, tuple(map(self._settled, _read(message))))

    def _on_the_page(self, message: Mapping[str, Any]) -> Entry:
        by = self._owner if message["author"] == "owner" else self._bot
        return Entry(by, tuple(map(self._settled, read_on_page(message))))

    def _beside(self, left: Entry | None, right: Entry | None) -> None:
        columns = [[] if one is None else _column(one) for one in (left, right)]
        rows = zip_longest(*columns, fillvalue="")
        self._add([f"{_padded(one)}{_GAP}{other}".rstrip() for one, other in rows])

    def _add(self, lines: Sequence[str]) -> None:
        if self._is_silent:
            return
        if not self._is_open:
            self._lines += ["", "````text", f"{_padded('on Discord')}{_GAP}on the page", ""]
            self._is_open = True
        else:
            self._lines.append("")
        self._lines += lines

    def _settled(self, line: str) -> str:
        for varying, stable in self._instead.items():
            line = line.replace(varying, stable)
        return re.sub(r"\\([^\w\s])", r"\1", re.sub("^(│ )?-# ", r"\1· ", line))

    def _close(self) -> None:
        if self._is_open:
            self._lines.append("````")
            self._is_open = False


def is_at_work(message: Message) -> bool:
    """Whether it is a status line, which an answer will replace."""
    return _AT_WORK.search(message.text) is not None


def _news(before: Mapping[str, Entry], now: Mapping[str, Entry]) -> dict[str, Entry]:
    """New entries, and changed ones with a mark. The end of an Undo button is no change."""
    changed = {
        name: Entry(entry.by, _difference(before[name].lines, entry.lines), is_changed=True)
        for name, entry in now.items()
        if name in before and entry.lines not in (before[name].lines, before[name].lines[:-1])
    }
    return {
        name: changed.get(name, entry)
        for name, entry in now.items()
        if name in changed or name not in before
    }


def _difference(before: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """The first line, and the lines that differ from before."""
    pairs = zip(before, now, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return (now[0], "│ …", *now[same:]) if same > _MOST_REPEATED else tuple(now)


def _column(entry: Entry) -> list[str]:
    return [entry.title, *(part for line in entry.lines for part in _wrapped(line))]


def _padded(line: str) -> str:
    """The line padded to the width of a column; some characters are two columns wide."""
    wide = sum(east_asian_width(sign) in "WF" for sign in line)
    return line.ljust(_WIDTH - wide)


def _wrapped(line: str) -> list[str]:
    is_in_card = line.startswith("│")
    edge = "    │ " if is_in_card else "    "
    words = line.removeprefix("│").strip() if is_in_card else line
    wrapper = TextWrapper(
        _WIDTH, initial_indent=edge, subsequent_indent=edge, break_long_words=False
    )
    return wrapper.wrap(words) or [edge.rstrip()]


def _read(message: Message) -> Iterator[str]:
    if message.text:
        yield from message.text.split("\n")
    for embed in message.embeds:
        yield from (f"│ {line}".rstrip() for line in _card(embed))
    yield from (f"📎 {each.name}" for each in message.files)
    for row in message.components:
        if buttons := [_button(each) for each in row.get("components", [])]:
            yield " ".join(buttons)


def _card(embed: Json) -> Iterator[str]:
    yield embed.get("title", "")
    if description := embed.get("description"):
        yield from description.split("\n")
    for each in embed.get("fields", []):
        yield from f"{each['name']}: {each['value']}".split("\n")
    if footer := embed.get("footer", {}).get("text"):
        yield f"-# {footer}"


def _button(button: Json) -> str:
    label = str(button.get("label", "")) or str(button.get("placeholder", "…"))
    return _shown_button(label, is_used=bool(button.get("disabled")))


def _shown_button(label: str, *, is_used: bool) -> str:
    """The label with spaces at which no line breaks."""
    unbroken = label.replace(" ", "\N{NO-BREAK SPACE}")
    return f"‹{unbroken}›" if is_used else f"[{unbroken}]"


def folded(page: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The messages, where the earlier cards of a thing are one, as `conversation.js` shows them."""
    cards: dict[str, list[Mapping[str, Any]]] = {}
    for message in page:
        cards.setdefault((message["card"] or {}).get("earlier_of", ""), []).append(message)
    for message in page:
        thing = (message["card"] or {}).get("earlier_of", "")
        first, *later = cards[thing]
        if not thing:
            yield message
        elif message is [first, *later][-1]:
            clocks = [clock_time(_minute(each["at"])) for each in later]
            title = ", ".join([first["card"]["title"], *clocks])
            yield {**message, "card": {**message["card"], "title": title}}


def _minute(at: str) -> datetime:
    return datetime.fromisoformat(at).replace(second=0, microsecond=0)


def read_on_page(message: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a message, as `message.js` shows them."""
    if message["card"] and message["card"]["earlier_of"]:
        yield f"-# {message['card']['title']}"
        return
    if message["author"] == "background":
        at = _minute(message["at"])
        job, card = message["job"], message["card"]
        is_named = not job or (card and job in card["title"])
        yield f"-# {describe(at, at)}" if is_named else f"-# {job} · {describe(at, at)}"
    if message["author"] == "program" and not message["card"]:
        yield from (f"-# {line}" for line in _plain(message["html"]))
    else:
        yield from _plain(message["html"])
    if card := message["card"]:
        yield from _card_on_page(card)
    if message["is_cut_off"]:
        yield "-# cut off here"
    if message["footer"]:
        yield f"-# {message['footer']}"


def _card_on_page(card: Mapping[str, Any]) -> Iterator[str]:
    buttons = {
        line: " ".join(_shown_button(one["label"], is_used=one["is_used"]) for one in those)
        for line, those in groupby(card["buttons"], lambda one: one["line"])
    }
    yield f"│ {card['title']}"
    yield from (f"│ {line}".rstrip() for line in _plain(card["html"]))
    for field in card["fields"]:
        yield f"│ {field['name']}: {' '.join(_plain(field['html']))}"
    for number, line in enumerate(card["lines"], 1):
        if line["heading"]:
            yield f"│ {line['heading']}"
        yield f"│ {line['text']} {buttons.get(number, '')}".rstrip()
    if 0 in buttons:
        yield buttons[0]


def _plain(html: str) -> list[str]:
    """The visible lines of the HTML of a text."""
    text = _BLOCK.sub(r"```\n\1\n```\n", html)
    text = re.sub(r"<li>\s*(<p>)?", "- ", text)
    text = re.sub(r"<br ?/?>|</(p|li|h\d)>", "\n", text)
    text = re.sub(r"<code>|</code>", "`", text)
    text = unescape(re.sub(r"<[^>]+>", "", text))
    return [line for line in re.sub(r"\n+", "\n", text).strip().split("\n") if line]

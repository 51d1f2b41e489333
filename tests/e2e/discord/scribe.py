"""Writes down what can be read on Discord, as it stands at each moment, for people to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import cycle
from textwrap import fill

from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.localdiscord.validation import Json

# What differs from day to day, and what is written in its place.
_STABLE = (
    (r"\((in )?\d+ (d|h|min)( \d+ (h|min|s))?( ago)?\)", r"(\g<1>2 h\g<5>)"),
    (r"-# (Thinking|Working)…( \(\d+s\))?", r"-# \1… (3s)"),
)
_MOMENT = re.compile(
    r"\b(today|tomorrow|yesterday|[A-Z][a-z]{2} \d+ [A-Z][a-z]{2}( \d{4})?) \d+:\d\d(:\d\d)?"
)
_ONE_MOMENT = ("today 9:00",)
_SOME_MOMENTS = ("tomorrow 9:00", "Tue 17 Nov 09:00", "Wed 18 Nov 09:00")


class Scribe:
    """`owner` and `bot` are how the two are called; `instead` has words for what is not stable."""

    def __init__(
        self, discord: LocalDiscord, owner: str, bot: str, instead: Mapping[str, str]
    ) -> None:
        self._discord = discord
        self._owner = owner
        self._bot = bot
        self._instead = instead
        self._seen: dict[str, list[str]] = {}
        self._lines: list[str] = []
        self._is_open = False

    @property
    def text(self) -> str:
        self._close()
        return "\n".join(self._lines) + "\n"

    def chapter(self, title: str, words: str) -> None:
        self._close()
        self._lines += ["", f"## {title}", "", fill(words, 110)]

    def does(self, words: str) -> None:
        """Something that the owner does besides writing."""
        self._entry("", [f"({self._owner} {words})"])

    def look(self, *, cards_first: bool = False) -> None:
        """All that is new or has changed since the last look, in its order.

        Where a card and the words beside it come in no fixed order, the card may be told first.
        """
        shown = self._discord.messages
        if cards_first:
            shown = [*(each for each in shown if each.id in self._seen), *self._new(shown)]
        for message in shown:
            now, before = list(_read(message)), self._seen.get(message.id)
            self._seen[message.id] = now
            name = self._owner if message.author == self._discord.owner else self._bot
            if before is None:
                self._entry(name, now)
            elif before != now and message.author == self._discord.bot:
                self._entry(f"{name}, changed", _changed(before, now))

    def _new(self, shown: list[Message]) -> list[Message]:
        new = [each for each in shown if each.id not in self._seen]
        return sorted(new, key=lambda each: each.author == self._discord.bot and not each.embeds)

    def aside(self, asked: Interaction) -> None:
        """What only the owner sees, as the answer to a command or a click."""
        for text in asked.texts:
            self._entry(f"{self._bot}, for {self._owner} alone", text.split("\n"))

    def _entry(self, name: str, lines: list[str]) -> None:
        if not self._is_open:
            self._lines += ["", "````text"]
            self._is_open = True
        else:
            self._lines.append("")
        self._lines += [name] if name else []
        indent = "    " if name else ""
        self._lines += [f"{indent}{line}".rstrip() for line in map(self._settled, lines)]

    def _settled(self, line: str) -> str:
        for varying, stable in self._instead.items():
            line = line.replace(varying, stable)
        return _settled(line)

    def _close(self) -> None:
        if self._is_open:
            self._lines.append("````")
            self._is_open = False


def _read(message: Message) -> Iterator[str]:
    if message.text:
        yield from message.text.split("\n")
    for embed in message.embeds:
        yield from (f"│ {line}".rstrip() for line in _card(embed))
    yield from (f"📎 {each.name}" for each in message.files)
    buttons = [_button(each) for each in message.buttons]
    if buttons:
        yield " ".join(buttons)
    if message.reactions:
        yield " ".join(message.reactions)


def _changed(before: list[str], now: list[str]) -> list[str]:
    """The first line, and what is different from before."""
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return [now[0], *(["│ …"] if same > 2 else now[1:same]), *now[max(same, 1) :]]


def _card(embed: Json) -> Iterator[str]:
    yield embed.get("title", "")
    if description := embed.get("description"):
        yield from description.split("\n")
    for each in embed.get("fields", []):
        yield from f"{each['name']}: {each['value']}".split("\n")
    if footer := embed.get("footer", {}).get("text"):
        yield f"-# {footer}"


def _button(button: Json) -> str:
    label = str(button.get("label", ""))
    return f"‹{label}›" if button.get("disabled") else f"[{label}]"


def _settled(line: str) -> str:
    moments = cycle(_SOME_MOMENTS if len(_MOMENT.findall(line)) > 1 else _ONE_MOMENT)
    line = _MOMENT.sub(lambda _: next(moments), line)
    for pattern, stable in _STABLE:
        line = re.sub(pattern, stable, line)
    return re.sub(r"\\([^\w\s])", r"\1", re.sub("^(│ )?-# ", r"\1· ", line))

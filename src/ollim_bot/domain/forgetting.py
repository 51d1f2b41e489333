"""Words that are to be forgotten, and texts, values and files without them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from ollim_bot.domain.text import slug
from ollim_bot.errors import WrongInput

# What stands in the place of the words.
FORGOTTEN = "(forgotten)"
_IN_NAMES = "forgotten"
_WORD = re.compile(r"[^\W_]+")
_BETWEEN = r"[\W_]+"
_FEWEST_LETTERS = 3
# A shorter name of a file may have come from other words.
_SHORTEST_SLUG = 8
# Fields whose single words are those of a program, in its own records and in the engine's.
_PROGRAMS_OWN = frozenset(
    (
        *("answer", "author", "by", "id", "kind", "leafUuid", "model", "name", "occurrence"),
        *("parentUuid", "promptId", "role", "session", "sessionId", "state", "stop_reason"),
        *("subtype", "tool", "turn", "type", "uuid"),
    )
)
_FOLDER = "cwd"
# The engine signs these parts of its records, and refuses a changed one.
_SIGNED = "signature"


@dataclass(frozen=True, slots=True)
class Passage:
    """The words to forget, however they are written: in capitals, over two lines, in a file name.

    `rarest` is a part of every text that has them, in small letters; empty if none is sure.
    """

    text: str
    pattern: re.Pattern[str]
    rarest: str

    @classmethod
    def of(cls, text: str) -> Passage:
        """Raises `WrongInput` if there are too few letters to find again."""
        words = _WORD.findall(text)
        if sum(map(len, words)) < _FEWEST_LETTERS or not re.search(r"[^\W\d_]", text):
            raise WrongInput(f"{text!r:.40} is too short. Name the words that it should forget.")
        forms = dict.fromkeys(_pattern(normalize(form, text)) for form in ("NFC", "NFD"))
        as_name = slug(text)
        if len(as_name) >= _SHORTEST_SLUG:
            forms[rf"(?<![^\W_]){re.escape(as_name)}"] = None
        # A name of a file has only the first of many words.
        sure = (word.lower() for word in words if word.isascii() and word.lower() in as_name)
        rarest = max(sure, key=len, default="")
        return cls(text.strip(), re.compile("|".join(forms), re.IGNORECASE), rarest)

    @property
    def raw(self) -> re.Pattern[bytes]:
        """Finds the words in bytes that are no text, as far as that can be."""
        words = (re.escape(each.encode()) for each in _WORD.findall(normalize("NFC", self.text)))
        return re.compile(rb"[^0-9A-Za-z]{1,9}".join(words), re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        if self.rarest and self.rarest not in text.lower():
            return False
        return self.pattern.search(text) is not None

    def cut_from(self, text: str) -> str:
        return self.pattern.sub(FORGOTTEN, text) if self.is_in(text) else text

    def cut_from_name(self, name: str) -> str:
        """The name of a file or a branch without the words."""
        return self.pattern.sub(_IN_NAMES, name)

    def lines_in(self, text: str) -> list[int]:
        """The numbers of the lines that have some of the words, from 1."""
        found = (
            range(
                text.count("\n", 0, match.start()) + 1,
                text.count("\n", 0, match.end()) + 2,
            )
            for match in self.pattern.finditer(text)
        )
        return sorted({number for numbers in found for number in numbers})

    def cut_from_value(self, value: object) -> object:
        """A value of JSON without the words; the same object if it has none of them."""
        match value:
            case str():
                return self._cut_from_string(value)
            case dict():
                after = {
                    self._cut_from_key(key): self._cut_from_field(key, each)
                    for key, each in value.items()
                }
                return value if after == value else after
            case list():
                kept = [*self._cut_from_items(value)]
                return value if kept == value else kept or [{"type": "text", "text": FORGOTTEN}]
            case _:
                return value

    def _cut_from_key(self, key: str) -> str:
        return self.cut_from(key) if " " in self.text else key

    def _cut_from_field(self, key: str, value: object) -> object:
        is_word = isinstance(value, str) and len(value.split()) == 1
        if key == _FOLDER or (is_word and key in _PROGRAMS_OWN):
            return value
        return self.cut_from_value(value)

    def _cut_from_items(self, items: Sequence[object]) -> Iterator[object]:
        for item in items:
            after = self.cut_from_value(item)
            if after == item or not (isinstance(item, dict) and _SIGNED in item):
                yield after

    def _cut_from_string(self, text: str) -> str:
        if text[:1] in ("{", "["):
            inner = _parsed(text)
            if isinstance(inner, dict | list):
                after = self.cut_from_value(inner)
                return text if after is inner else json.dumps(after)
        return self.cut_from(text)


def without_lines(text: str, numbers: Sequence[int]) -> str:
    """The text without these lines."""
    gone = set(numbers)
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)


def with_line(text: str, number: int, words: str) -> str:
    """The text with these words as the line of this number, which keeps its indent and its end."""
    lines = text.split("\n")
    line = lines[number - 1]
    mark = "\ufeff" if line.startswith("\ufeff") else ""
    inner = line.removeprefix(mark)
    indent, end = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    lines[number - 1] = f"{mark}{indent}{words}{end}"
    return "\n".join(lines)


def cut_from_file(passage: Passage, name: str, text: str) -> str:
    """The content of a file without the words; by its name, each line or all of it is JSON."""
    if name.endswith(".jsonl"):
        return "\n".join(_cut_from_json(passage, line, None) for line in text.split("\n"))
    if name.endswith(".json"):
        return _cut_from_json(passage, text, 2 if "\n" in text.strip() else None)
    return passage.cut_from(text)


def _cut_from_json(passage: Passage, text: str, indent: int | None) -> str:
    value = _parsed(text)
    if value is None:
        return passage.cut_from(text)
    after = passage.cut_from_value(value)
    return text if after is value else json.dumps(after, ensure_ascii=False, indent=indent)


def _parsed(text: str) -> object:
    """The value that the text writes down; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pattern(text: str) -> str:
    words = _BETWEEN.join(map(re.escape, _WORD.findall(text)))
    return rf"(?<![^\W_]){words}(?![^\W_])"

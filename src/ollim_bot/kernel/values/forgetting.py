"""Words that are to be forgotten, and texts, values and files without them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.entities import codepoint2name
from itertools import dropwhile
from unicodedata import category, east_asian_width, normalize

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.text import LONGEST_SLUG, slug

# What stands in the place of the words.
FORGOTTEN = "(forgotten)"
_IN_NAMES = "forgotten"
_FEWEST_LETTERS = 3
# A shorter name of a file may have come from other words.
_SHORTEST_SLUG = 8
# Letters of ASCII are escaped by hand only; one of these is then part of the text.
_ESCAPED_LETTERS = (
    *("\\u004", "\\u005", "\\u006", "\\u007", "\\u0000", "\\u{", "\\x", "\\1", "&#"),
    *("%4", "%5", "%6", "%7", "=4", "=5", "=6", "=7"),
)
# What may stand between two words: signs, escaped ones too.
_BETWEEN = (
    r"(?:[\W_]|\\[abefnrtv0NLP]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|\\x[0-9a-f]{2}|\\[0-3][0-7]{2}"
    r"|[%=][0-9a-f]{2}|&#?\w{1,8};)+"
)
# Code points of signs, spaces and emoji.
_NO_LETTER = r"(?:00[0-3ab]|2[0-9a-f]{2}|30[0-3]|d[8-f][0-9a-f]|fe[0-9a-f])[0-9a-f]"
# Before the first word: no letter, but the last letter of an escaped space or sign is none.
_BEGIN = (
    rf"(?:(?<![^\W_])|(?<=\\[abefnrtv0NLP])|(?<=\\u{_NO_LETTER})|(?<=\\U0000{_NO_LETTER})"
    r"|(?<=\\U0001[0-9a-f]{4})|(?<=\\x[0-38-f][0-9a-f])|(?<=\\[02-3][0-7]{2})"
    r"|(?<=[%=][0-38-f][0-9a-f]))"
)
_END = r"(?![^\W_]|[\u0300-\u036f]|\\u00[c-f][0-9a-f])"
# Thai and Lao, Burmese, Khmer.
_WITHOUT_SPACES = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"))
# A byte of Latin-1 in a text that was read as UTF-8.
_LONE_BYTES, _HIGHEST_BYTE = 0xDC00, 0xFF
# What an escaped letter begins with.
_CODE = r"[\\%=&\udc80-\udcff]"
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
    """The words to forget, however they are written: in capitals, over two lines, in a file name,
    with escaped letters.

    Every text that has them has one of `hints`, in small letters.
    """

    text: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Passage:
        """Raises `WrongInput` if there are too few letters to find again."""
        words = _words(text)
        if sum(map(len, words)) < _FEWEST_LETTERS or not any(map(str.isalpha, "".join(words))):
            raise WrongInput(f"{text!r:.40} is too short. Name the words that it should forget.")
        as_name = slug(text)
        first = "".join(form[0] for sign in (words[0][0], *as_name[:1]) for form in _forms(sign))
        begin = rf"(?=[{first}]|{_CODE})" + ("" if _is_unspaced(words[0][0]) else _BEGIN)
        end = "" if _is_unspaced(words[-1][-1]) else _END
        forms = [f"{begin}{_BETWEEN.join(map(_written, words))}{end}"]
        if len(as_name) >= _SHORTEST_SLUG:
            # A name of a file has only the first of many words.
            name_end = "" if len(as_name) == LONGEST_SLUG else end
            forms.append(f"{begin}{'-'.join(map(_written, as_name.split('-')))}{name_end}")
        sure = (word.lower() for word in words if word.isascii() and word.lower() in as_name)
        rarest = max(sure, key=len, default="")
        return cls(
            text.strip(),
            re.compile("|".join(forms), re.IGNORECASE),
            (rarest, *_ESCAPED_LETTERS) if rarest else ("",),
        )

    @property
    def anywhere(self) -> re.Pattern[str]:
        """Finds the words also where a letter is right before or after them."""
        return re.compile(_BETWEEN.join(map(_written, _words(self.text))), re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        lowered = text.lower()
        return any(hint in lowered for hint in self.hints) and bool(self.pattern.search(text))

    def is_in_bytes(self, content: bytes) -> bool:
        return self.is_in(content.decode(errors="surrogateescape"))

    def cut_from(self, text: str) -> str:
        return self.pattern.sub(FORGOTTEN, text) if self.is_in(text) else text

    def cut_from_name(self, name: str) -> str:
        """The name of a file or a branch without the words."""
        return self.pattern.sub(_IN_NAMES, name)

    def lines_in(self, text: str) -> list[int]:
        """The numbers of the lines that have some of the words, from 1."""
        found = (
            range(text.count("\n", 0, match.start()) + 1, text.count("\n", 0, match.end()) + 2)
            for match in self.pattern.finditer(text)
        )
        return sorted({number for numbers in found for number in numbers})

    def cut_from_value(self, value: object) -> object:
        """A value of JSON without the words; the same object if it has none of them."""
        match value:
            case str():
                inner = _parsed(value) if value[:1] in ("{", "[") else None
                if not isinstance(inner, dict | list):
                    return self.cut_from(value)
                cut = self.cut_from_value(inner)
                return value if cut is inner else json.dumps(cut)
            case dict():
                has_words = " " in self.text
                after = {
                    self.cut_from(key) if has_words or not key.isascii() else key: (
                        self._cut_from_field(key, each)
                    )
                    for key, each in value.items()
                }
                return value if after == value else after
            case list():
                kept = [*self._cut_from_items(value)]
                return value if kept == value else kept or [{"type": "text", "text": FORGOTTEN}]
            case _:
                return value

    def _cut_from_field(self, key: str, value: object) -> object:
        is_word = isinstance(value, str) and value.isascii() and len(value.split()) == 1
        if key == _FOLDER or (is_word and key in _PROGRAMS_OWN):
            return value
        return self.cut_from_value(value)

    def _cut_from_items(self, items: Sequence[object]) -> Iterator[object]:
        for item in items:
            after = self.cut_from_value(item)
            if after == item or not (isinstance(item, dict) and _SIGNED in item):
                yield after


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


def _words(text: str) -> list[str]:
    """The words of the text, each letter with its marks."""
    signs = (sign if sign.isalnum() or _is_mark(sign) else " " for sign in normalize("NFC", text))
    words = ("".join(dropwhile(_is_mark, word)) for word in "".join(signs).split())
    return [*filter(None, words)]


def _is_mark(sign: str) -> bool:
    return category(sign).startswith("M")


def _is_unspaced(sign: str) -> bool:
    """Whether the letter is of a script that puts no spaces between words."""
    return east_asian_width(sign) in "WF" or any(
        first <= sign <= last for first, last in _WITHOUT_SPACES
    )


def _written(word: str) -> str:
    """A pattern for the word in every form that its letters have."""
    letters: list[str] = []
    for sign in word:
        if letters and _is_mark(sign):
            letters[-1] += sign
        else:
            letters.append(sign)
    return "".join(map(_letter, letters))


def _letter(letter: str) -> str:
    return f"(?:{'|'.join(''.join(map(_sign, form)) for form in _forms(letter))})"


def _forms(letter: str) -> Iterator[str]:
    cases = dict.fromkeys((letter, letter.lower(), letter.upper()))
    forms = (normalize(form, case) for case in cases for form in ("NFC", "NFD"))
    # In small letters, as equal ways to match the same text would be tried one by one.
    yield from dict.fromkeys("".join(map(_small, form)) for form in forms)


def _small(sign: str) -> str:
    return sign if len(sign.lower()) > 1 else sign.lower()


def _sign(sign: str) -> str:
    """A pattern for one sign, also as JSON, YAML, Python, C, HTML and addresses write it."""
    cases = dict.fromkeys(each for each in (sign, sign.upper()) if len(each) == 1)
    coded = "|".join(each for case in cases for each in _coded(case))
    return rf"(?:{re.escape(sign)}|(?={_CODE})(?:{coded}))"


def _coded(sign: str) -> Iterator[str]:
    code, octets = ord(sign), sign.encode(errors="surrogatepass")
    halves = sign.encode("utf-16-be", "surrogatepass")
    yield "".join(rf"\\+u{halves[at : at + 2].hex()}" for at in range(0, len(halves), 2))
    yield rf"\\+u\{{0*{code:x}\}}"
    yield rf"\\+U{code:08x}"
    yield "".join(rf"\\+x{octet:02x}" for octet in octets)
    yield "".join(rf"\\+{octet:03o}" for octet in octets)
    yield "".join(f"[%=]{octet:02x}" for octet in octets)
    yield f"&#(?:0*{code}|x0*{code:x});"
    if code in codepoint2name:
        yield f"&{codepoint2name[code]};"
    if len(octets) > 1 and code <= _HIGHEST_BYTE:
        yield rf"\\+x{code:02x}"
        yield chr(_LONE_BYTES + code)

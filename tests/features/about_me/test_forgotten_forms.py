"""Words are found in every form in which a file, a record or a name may have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from unicodedata import normalize
from urllib.parse import quote

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.kernel.base.text import slug
from ollim_bot.kernel.values.forgetting import FORGOTTEN, Passage

Form = Callable[[str], str]


def in_octal(text: str) -> str:
    """As git quotes the name of a file."""
    return "".join(chr(each) if 31 < each < 127 else f"\\{each:03o}" for each in text.encode())


def in_entities(text: str) -> str:
    return "".join(sign if sign.isascii() else f"&#{ord(sign)};" for sign in text)


FORMS: dict[str, Form] = {
    "as it is": str,
    "composed": lambda text: normalize("NFC", text),
    "decomposed": lambda text: normalize("NFD", text),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON, decomposed": lambda text: json.dumps(normalize("NFD", text))[1:-1],
    "every letter as JSON may have it": lambda text: "".join(
        f"\\u{ord(sign):04X}" if ord(sign) < 0x10000 else json.dumps(sign)[1:-1] for sign in text
    ),
    "YAML, wide": lambda text: "".join(f"\\U{ord(sign):08x}" for sign in text),
    "YAML, Python": lambda text: text.encode("unicode_escape").decode(),
    "bytes of Python": lambda text: repr(text.encode())[2:-1],
    "git": in_octal,
    "an address": quote,
    "an address, decomposed": lambda text: quote(normalize("NFD", text), safe=""),
    "HTML": in_entities,
    "over two lines": lambda text: text.replace(" ", "\n  "),
    "a file's name": slug,
    "a file's name, decomposed": lambda text: normalize("NFD", slug(text)),
    "a file's name, from git": lambda text: in_octal(slug(text)),
    "a file's name in an address": lambda text: quote(slug(text)),
}
WORDS = st.text("abzqAOUäöüßéÉñłżøÅßяЖ漢字潰瘍ひらがなกşğİıệ̈", min_size=2, max_size=9)
SIGNS = st.sampled_from([" ", ", ", ' "', "\\ ", "'s ", " – ", "🦘 ", "👨‍👩‍👧️ ", "\n", " & ", "%"])
AROUND = st.sampled_from(["", " ", '"', "\n", "- ", "(", ": ", "\\n", "%20", "/", "&nbsp;"])


@settings(max_examples=examples(0.4))
@given(st.lists(st.tuples(WORDS, SIGNS), min_size=2, max_size=7), AROUND, AROUND)
@example([("Quokkafeld", ' "'), ("Zwetschgenkönigin", '" '), ("heimlich", "")], "", "")
def test_no_form_of_the_words_is_left(
    pieces: list[tuple[str, str]], before: str, after: str
) -> None:
    sentence = "kuckuck " + "".join(word + sign for word, sign in pieces) + "zaunrübe"
    passage = Passage.of(sentence)
    left = {}
    for name, form in FORMS.items():
        written = f"{before}{form(f'🦘 {sentence}')}{after}"
        head, cut, tail = passage.cut_from(written).partition(FORGOTTEN)
        if not (cut and written.startswith(head) and tail == after and "kuck" not in head):
            left[name] = head + cut + tail
        elif not passage.is_in_bytes(written.encode()):
            left[name] = "not found in bytes"
    assert left == {}

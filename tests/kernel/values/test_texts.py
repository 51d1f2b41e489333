"""Texts that are cut, made into file names, or compared: short and true."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.kernel.base.text import (
    LONGEST_SLUG,
    as_code,
    difference,
    fenced,
    one_line,
    shortened,
    slug,
    visible,
)


@given(st.text(), st.integers(1, 40))
def test_a_text_is_left_as_it_is_or_ends_with_a_mark_within_its_room(
    text: str, longest: int
) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    if len(text) <= longest:
        assert short == text
    else:
        assert short.endswith("…")
        assert text.startswith(short[:-1])


def test_no_space_stands_before_the_mark() -> None:
    assert shortened("call the dentist", 10) == "call the…"


INVISIBLE = "\u00ad\u034f\u115f\u1160\u200b\u200d\u2060\u3164\ufe0f\uffa0\ufeff\U000e0101"

# Marks, joiners, letters that change when they are lowered or composed, and signs between them.
TRICKY = "\u0301\u0323\u0327\u0307\u0345\u093f\u094d\u20e3İIıßẞΣςǅﬁ①½" + INVISIBLE

odd_texts = st.text(st.sampled_from(f"{TRICKY}aeZ9 -_./") | st.characters())


@settings(max_examples=examples(3))
@given(odd_texts)
@example("İ\u0327")
@example("❤️")
@example("e\u00ad\u0301")
@example("a-\u0301b")
@example("x" * 49 + " y")
def test_any_text_gives_a_harmless_name_or_none(text: str) -> None:
    name = slug(text)
    assert len(name) <= LONGEST_SLUG
    assert "" not in name.split("-") or name == ""
    assert all(sign == "-" or unicodedata.category(sign)[0] in "LNM" for sign in name)
    assert not set(name) & {*INVISIBLE, *"/\\.\x00"}
    assert not any(unicodedata.combining(part[0]) for part in name.split("-") if part)
    assert name == name.lower() == unicodedata.normalize("NFKC", name)


@settings(max_examples=examples(3))
@given(odd_texts)
@example("İ\u0327")
@example("e\u00ad\u0301")
def test_a_name_stays_what_it_is(text: str) -> None:
    assert slug(slug(text)) == slug(text)


@given(st.text(st.characters(min_codepoint=0x10000, categories=["Lu", "Ll", "Lo"]), min_size=60))
@example("𐐀" * 60)
@example("ක්‍ෂ" * 30)
def test_the_name_of_a_numbered_file_fits_every_file_system(text: str) -> None:
    assert len(f"{slug(text)}-99.md".encode()) <= 255


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Plan the day", "plan-the-day", id="english"),
        pytest.param("Müll rausbringen, Straße 3", "müll-rausbringen-straße-3", id="german"),
        pytest.param("MU\u0308LL", "müll", id="german-with-combining-accent"),
        pytest.param("Déjà vu à l’école", "déjà-vu-à-l-école", id="french"),
        pytest.param("İstanbul IŞIK", "i\u0307stanbul-işik", id="turkish"),
        pytest.param("ΠΑΡΕ ΤΑ ΧΑΠΙΑ ΣΟΥ", "παρε-τα-χαπια-σου", id="greek"),
        pytest.param("Ο ΔΡΟΜΟΣ", "ο-δρομος", id="greek-final-sigma"),
        pytest.param("Позвонить маме!", "позвонить-маме", id="cyrillic"),
        pytest.param("薬を飲む（毎朝）", "薬を飲む-毎朝", id="japanese"),
        pytest.param("ﾊﾟﾝを買う", "パンを買う", id="japanese-half-width"),
        pytest.param("엄마에게 전화하기", "엄마에게-전화하기", id="korean"),
        pytest.param("\u1112\u1161\u11ab글", "한글", id="korean-in-parts"),
        pytest.param("给妈妈打电话。", "给妈妈打电话", id="chinese"),
        pytest.param("اتصل بأمي، غدًا", "اتصل-بأمي-غدًا", id="arabic"),
        pytest.param("להתקשר לאמא", "להתקשר-לאמא", id="hebrew"),
        pytest.param("माँ को फ़ोन करो", "माँ-को-फ\u093cोन-करो", id="hindi"),
        pytest.param("โทรหาแม่ที่บ้าน", "โทรหาแม่ที่บ้าน", id="thai"),
        pytest.param("ዛሬ ደውል።", "ዛሬ-ደውል", id="amharic"),
        pytest.param("ﬁnd the oﬃce № ①", "find-the-office-no-1", id="ligatures"),
        pytest.param("ＦＵＬＬ　ｗｉｄｔｈ／ｐａｔｈ", "full-width-path", id="full-width"),
        pytest.param("kalen\u00adder", "kalender", id="soft-hyphen"),
        pytest.param("🎉🎂 ❤️", "", id="emoji-only"),
        pytest.param("👩‍💻👍🏽", "", id="joined-emoji-only"),
        pytest.param("1️⃣ water ❤️ plants", "1-water-plants", id="emoji-between"),
        pytest.param("\u3164\u200b", "", id="invisible-only"),
        pytest.param("../../etc/passwd\x00", "etc-passwd", id="path"),
        pytest.param("C:\\temp\\a.txt", "c-temp-a-txt", id="other-path"),
        pytest.param("--a__b  c--", "a-b-c", id="separators"),
        pytest.param("\ud800x", "x", id="half-a-character"),
        pytest.param(" \n\t", "", id="blank"),
        pytest.param("", "", id="empty"),
        pytest.param("a" * 49 + " bc", "a" * 49, id="no-hyphen-at-the-cut"),
        pytest.param("a" * 80, "a" * 50, id="long"),
    ],
)
def test_a_name_can_be_read_in_its_own_script(text: str, expected: str) -> None:
    assert slug(text) == expected


UNSEEN = {
    *"\u202a\u202b\u202d\u202e\u2066\u2067\u2069\u061c\u2028\u2029\x1b\x85\ufeff\udcff\U000e0041"
}

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


def test_only_what_changed_is_shown() -> None:
    assert difference("a\nb\nc\n", "a\nx\nc\n") == (["- b", "+ x"], 0)
    assert difference("", "a\n") == (["+ a"], 0)
    assert difference("a\n", "") == (["- a"], 0)
    assert difference("a\n\n", " a \n") == ([], 0)


@given(LINES, LINES)
def test_every_changed_line_is_shown_or_counted(before: list[str], after: list[str]) -> None:
    shown, more = difference("\n".join(before), "\n".join(after))
    has_changed = [each for each in before if each] != [each for each in after if each]
    assert bool(shown) is has_changed
    gone = sum(line.startswith("- ") for line in shown)
    kept = sum(map(bool, before)) - sum(map(bool, after))
    assert more >= 0
    assert more > 0 or gone - (len(shown) - gone) == kept


def test_long_texts_of_any_form_take_no_longer() -> None:
    """A minimal difference of these texts would take minutes."""
    texts = [("ab\n" * 300_000, "ba\n" * 300_000), ("x" * 900_000, "x" * 899_999 + "y")]
    began = time.process_time()
    for before, after in texts:
        shown, _ = difference(before, after)
        assert sum(map(len, shown)) < 3000
    assert time.process_time() - began < 5


@given(st.text(st.sampled_from([*UNSEEN, *"ab `\n"]), max_size=60))
def test_nothing_that_is_not_seen_stays(text: str) -> None:
    assert not UNSEEN & {*visible(text), *one_line(text, 40), *as_code(text, 40)}
    assert "```" not in fenced(text)
    assert len(one_line(text, 40)) <= 40
    assert "\n" not in one_line(text, 40)
    assert "`" not in as_code(text, 40)[1:-1]

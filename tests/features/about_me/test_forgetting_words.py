"""A passage is found however it is written, and nothing else is touched."""

from __future__ import annotations

import json

import pytest

from ollim_bot.features.about_me.known_lines import without_lines
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.values.forgetting import Passage, cut_from_file

PASSAGE = Passage.of("I have an ulcer.")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("I have an ulcer.", "(forgotten)."),
        ("“I HAVE an  ulcer” he said", "“(forgotten)” he said"),
        ("and I have\nan ulcer too", "and (forgotten) too"),
        ("i-have-an-ulcer.md", "(forgotten).md"),
        ("i_have_an_ulcer", "(forgotten)"),
        ("I have an ulcerous dog", "I have an ulcerous dog"),
        ("Hi have an ulcer", "Hi have an ulcer"),
        ("I have a dog", "I have a dog"),
        ("", ""),
    ],
)
def test_words_are_cut_from_a_text(text: str, after: str) -> None:
    assert PASSAGE.cut_from(text) == after


def test_letters_with_marks_are_found_in_both_forms() -> None:
    passage = Passage.of("Café Müller")
    assert passage.cut_from("im Café Müller") == "im (forgotten)"
    assert passage.cut_from("im Cafe\u0301 Mu\u0308ller").startswith("im (forgotten)")


def test_the_shortened_name_of_a_file_is_found() -> None:
    passage = Passage.of("remember that my purple ulcer came back in the winter of 1987")
    name = "remember-that-my-purple-ulcer-came-back-in-the-win.md"
    assert passage.cut_from_name(name) == "forgotten.md"


def test_a_line_that_has_some_of_the_words_is_found() -> None:
    text = "one\nI have\nan ulcer\nfour\n"
    assert PASSAGE.lines_in(text) == [2, 3]
    assert without_lines(text, PASSAGE.lines_in(text)) == "one\nfour\n"


def test_a_value_keeps_its_shape_and_the_words_of_programs() -> None:
    inner = json.dumps({"spec": {"message": "I have an ulcer"}})
    value = {"id": "ulcer", "cwd": "/i/have/an/ulcer", "note": inner, "n": [1, None]}
    after = PASSAGE.cut_from_value(value)
    assert after == {**value, "note": json.dumps({"spec": {"message": "(forgotten)"}})}
    assert PASSAGE.cut_from_value({"a": "b"}) == {"a": "b"}
    word = Passage.of("ulcer")
    assert word.cut_from_value({"type": "ulcer", "text": "ulcer"}) == {
        "type": "ulcer",
        "text": "(forgotten)",
    }


def test_a_signed_thought_goes_whole() -> None:
    thought = {"type": "thinking", "thinking": "I have an ulcer", "signature": "x"}
    said = {"type": "text", "text": "Well."}
    assert PASSAGE.cut_from_value([thought, said]) == [said]
    assert PASSAGE.cut_from_value([thought]) == [{"type": "text", "text": "(forgotten)"}]
    other = {**thought, "thinking": "a dog"}
    assert PASSAGE.cut_from_value([other]) == [other]


def test_a_file_that_has_none_of_the_words_stays_byte_for_byte() -> None:
    for name in ("a.json", "a.jsonl", "a.md"):
        for text in ('{"a":  1}\n', "{broken\n", "", "\n\n"):
            assert cut_from_file(PASSAGE, name, text) == text


def test_lines_of_json_are_cut_one_by_one() -> None:
    text = '{"a": "I have an ulcer"}\nI have an ulcer {\n{"b":  2}\n'
    assert cut_from_file(PASSAGE, "a.jsonl", text) == (
        '{"a": "(forgotten)"}\n(forgotten) {\n{"b":  2}\n'
    )


@pytest.mark.parametrize("text", ["", " ", "a", "!!!", "12 34", "a b"])
def test_too_few_letters_are_refused(text: str) -> None:
    with pytest.raises(WrongInput):
        Passage.of(text)

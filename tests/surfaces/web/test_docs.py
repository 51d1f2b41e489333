"""The documentation of the web page has the real messages and limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import WebLimits
from ollim_bot.surfaces.web.page import FOLDER, PAGE

DOCS = (Path(__file__).parents[3] / "docs" / "web.md").read_text()
LIMITS = WebLimits()
SENTENCES = (
    *(
        value
        for name, value in vars(frames).items()
        if name.isupper() and name[0] != "_" and isinstance(value, str) and value.endswith(".")
    ),
    frames.too_many_files(LIMITS.files),
    frames.file_too_large("x.bin", LIMITS.file),
    frames.text_too_long(LIMITS.text_characters),
    frames.body_too_large(LIMITS.body),
    frames.not_saved("x.bin", "No space left on device"),
    frames.port_taken(8421).partition(". ")[0],
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_refusal_is_explained(sentence: str) -> None:
    assert f"| {sentence}" in DOCS


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_is_plain(sentence: str) -> None:
    assert not re.search(r"!|please|sorry|invalid|error|exception|\b[45]\d\d\b", sentence, re.I)


def test_every_key_is_listed() -> None:
    keys = set(re.findall(r"<kbd>(.*?)</kbd>", (FOLDER / PAGE).read_text()))
    assert keys
    assert all(f"`{key}`" in DOCS for key in keys)


def test_the_limits_are_the_real_ones() -> None:
    assert f"up to {LIMITS.files} with a message" in DOCS
    assert f"{LIMITS.tabs} tabs at once" in DOCS

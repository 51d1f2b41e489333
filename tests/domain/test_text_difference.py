"""A difference is short, true and made in one pass."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.text import as_code, difference, fenced, one_line, visible

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

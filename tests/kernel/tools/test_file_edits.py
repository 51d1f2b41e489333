"""The predicted result of an edit is what the engine writes, or the edit is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.tools.guards import UnclearEdit, text_after_edit


def edit(old: object, new: object, **more: object) -> dict[str, object]:
    return {"old_string": old, "new_string": new, **more}


APPLIED: dict[str, tuple[str | None, dict[str, object], str]] = {
    "one": ("a b c\n", edit("b", "x"), "a x c\n"),
    "all": ("b b\n", edit("b", "x", replace_all=True), "x x\n"),
    "literally": ("b\n", edit("b", "$&\\1"), "$&\\1\n"),
    "to-nothing": ("one b\ntwo\n", edit(" b", ""), "onetwo\n"),
    "to-nothing-at-all": ("b\nab z\nb\n", edit("b", "", replace_all=True), "ab z\n"),
    "to-nothing-within": ("a b c\n", edit("b", ""), "a  c\n"),
    "line-ends": ("a\r\nb\r\n", edit("a\nb", "c"), "c\n"),
    "mark": ("\ufeff---\na\n", edit("---\na", "b"), "b\n"),
    "new": (None, edit("", "x\n"), "x\n"),
    "blank": ("\n", edit("", "x\n"), "x\n"),
}
UNCLEAR: dict[str, tuple[str | None, dict[str, object]]] = {
    "absent": ("a\n", edit("b", "x")),
    "twice": ("b b\n", edit("b", "x")),
    "other-quotes": ("a “b”\n", edit('"b"', "x")),
    "empty": ("a\n", edit("", "x")),
    "no-file": (None, edit("b", "x")),
    "number": ("1\n", edit(1, "x")),
    "missing": ("a\n", {"old_string": "a"}),
    "loose-flag": ("b b\n", edit("b", "x", replace_all="true")),
}


@pytest.mark.parametrize("case", APPLIED)
def test_an_edit_that_applies_gives_the_new_text(case: str) -> None:
    before, arguments, after = APPLIED[case]
    assert text_after_edit("a.md", before, "Edit", arguments) == after
    assert text_after_edit("a.md", before, "MultiEdit", {"edits": [arguments]}) == after


@pytest.mark.parametrize("case", UNCLEAR)
def test_an_edit_that_is_not_exact_is_refused(case: str) -> None:
    before, arguments = UNCLEAR[case]
    with pytest.raises(UnclearEdit, match=r"\.$"):
        text_after_edit("a.md", before, "Edit", arguments)


@pytest.mark.parametrize("edits", [None, [], "x", [1]])
def test_edits_of_another_form_are_refused(edits: object) -> None:
    with pytest.raises(UnclearEdit):
        text_after_edit("a.md", "a", "MultiEdit", {"edits": edits})


def test_several_edits_come_one_after_the_other() -> None:
    edits = [edit("a", "b"), edit("b", "c")]
    assert text_after_edit("a.md", "a\n", "MultiEdit", {"edits": edits}) == "c\n"


def test_what_is_written_takes_the_place_of_everything() -> None:
    assert text_after_edit("a.md", "before", "Write", {"content": "after"}) == "after"
    with pytest.raises(UnclearEdit):
        text_after_edit("a.md", "before", "Write", {})


@given(st.text("ab\n", max_size=6), st.text("xy", min_size=1, max_size=3), st.text("ab\n"))
def test_an_edit_changes_nothing_around_it(before: str, new: str, after: str) -> None:
    text = f"{before}OLD{after}"
    assert text_after_edit("a.md", text, "Edit", edit("OLD", new)) == f"{before}{new}{after}"

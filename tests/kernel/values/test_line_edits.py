"""Lines of two texts are compared in a bounded number of steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.values.changes import Changer, ChangeRow, line_edits, merged

NOW = datetime(2026, 11, 19, 8, 13, 37, tzinfo=UTC)
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=12)
COUNT = 32_000
# Both ends differ, and each line between them could be any of the others.
BETWEEN = "a\n" * COUNT
BEFORE, AFTER = f"x\n{BETWEEN}x\n", f"y\n{BETWEEN}y\n"


def steps(work: Callable[[], object], most: int) -> int:
    """How many lines of Python the work takes; raises as soon as they are too many."""
    taken = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal taken
        taken += event == "line"
        if taken > most:
            raise AssertionError(f"more than {most} steps")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken


@given(LINES, LINES)
def test_the_edits_lead_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    edited = [*old]
    for i1, i2, j1, j2 in reversed([*line_edits(old, new)]):
        edited[i1:i2] = new[j1:j2]
    assert edited == new


@pytest.mark.parametrize(
    "work",
    [
        lambda: merged(BEFORE, AFTER, BEFORE),
        lambda: ChangeRow("0" * 8, NOW, "x.md", Changer.PAGE, BEFORE, AFTER).difference(),
    ],
    ids=["undone", "shown"],
)
def test_very_many_lines_take_some_steps_each(work: Callable[[], object]) -> None:
    assert steps(work, 100 * COUNT) > 0


def test_of_very_many_changed_lines_the_number_is_shown() -> None:
    change = ChangeRow("0" * 8, NOW, "x.md", Changer.PAGE, BEFORE, AFTER)
    assert change.changed_lines() == [f"-({COUNT + 2} lines)", f"+({COUNT + 2} lines)"]
    small = ChangeRow("0" * 8, NOW, "x.md", Changer.PAGE, "a\n---\nb\n", "a\nc\nb\nd\n")
    assert small.difference() == ["@@ -2 +2 @@", "----", "+c", "@@ -3,0 +4 @@", "+d"]

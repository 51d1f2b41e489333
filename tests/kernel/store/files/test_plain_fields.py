"""The quick reader gives the same result as the YAML library, or leaves the text to it."""

from __future__ import annotations

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from ollim_bot.kernel.store.frontmatter import plain_fields
from ollim_bot.kernel.store.yaml_fields import yaml_fields

SIGNS = st.sampled_from("abzAZ019 _-./()'\"+*,;=@:#&!|>%?[]{}~`\\\t\ré水\u0301\x85\u2028\ufeff\x07")
VALUES = st.text(SIGNS, max_size=12) | st.sampled_from(
    [
        "true",
        "null",
        "~",
        "0x1f",
        "010",
        "1e5",
        "-3",
        ".5",
        "1_0",
        "2026-11-16T09:00:00+01:00",
        '"q"',
    ]
)
LINES = st.one_of(
    st.tuples(st.sampled_from(["id", "run_at", "run-at", "on", "a1"]), VALUES).map(": ".join),
    st.text(SIGNS, max_size=14),
    st.sampled_from(["", "# note", "  # note", "---", "...", "- a", "? a", "%YAML 1.2"]),
)


@given(st.lists(LINES, max_size=4).map("\n".join))
@example('cron: "30 8 * * 1-5"\nid: a1b2c3d4')
@example("id: a:")
@example("id: a: b")
@example("id: a #b")
@example("id: a\n b")
@example("id: 12345678901234567890123456789012345678901234567890")
def test_the_two_readers_never_disagree(head: str) -> None:
    found = plain_fields(head)
    event("left to the library" if found is None else "read")
    if found is not None:
        assert found == yaml_fields(head)


@pytest.mark.parametrize(
    "line",
    [
        "id: a1b2c3d4",
        'cron: "30 8 * * 1-5"',
        "run-at: 2026-11-16T09:00:00+01:00",
        "description: Call the dentist (again), today at 9:30",
        "description: 水を飲む",
        "background: true",
        "timezone: Europe/Berlin",
        "max-chain: 3",
        "# a note",
        "",
    ],
)
def test_what_job_files_are_made_of_is_read_without_the_library(line: str) -> None:
    assert plain_fields(line) is not None
    assert plain_fields(f"{line}\r\n") == plain_fields(f"{line}\n")

"""The page stays small: the conversation, what each view adds to it, and all of it."""

from __future__ import annotations

from bench.views import page_bytes


def test_the_conversation_each_view_and_all_of_the_page_keep_within_their_bytes() -> None:
    found = page_bytes()
    assert len(found) > 10
    assert [f"{row.measure}: {row.amount}" for row in found if not row.passes] == []

"""Why a run came out as it did, in one sentence, and its decisions in order."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import RunStory
from ollim_bot.domain.run_words import decisions, sources_of, why
from ollim_bot.domain.runs import thing_looked_at

NOW = datetime(2026, 11, 15, 15, tzinfo=UTC)
ONE = Occurrence.scheduled(JobKind.ROUTINE, "mail", NOW)


def story(*rows: tuple[str, dict[str, object]]) -> RunStory:
    return RunStory(ONE, [LedgerRow(NOW, state, ONE, facts) for state, facts in rows])


MAILS: dict[str, object] = {
    "looked_at": ["mail", "mail", "mail", "the calendar"],
    "pings_left": 1,
    "pings_of": 5,
}


@pytest.mark.parametrize(
    ("state", "facts", "sentence"),
    [
        (
            "done",
            {**MAILS, "silent_because": "it had nothing to say"},
            (
                "looked at 3 mails and the calendar; silent, because it had nothing to say; "
                "kept its ping: 1 of 5 left"
            ),
        ),
        ("done", {"pings": ["1"], "report": "x"}, "pinged and reported"),
        (
            "skipped",
            {"reason": "cost cap", "reached_at": "2026-11-15T14:10:00+00:00"},
            "skipped: the daily cost cap was reached at 14:10",
        ),
        ("skipped", {"reason": "policy"}, "skipped: you wanted it skipped"),
        ("skipped", {"reason": "missing skill", "error": "It is gone."}, "skipped: It is gone"),
        ("timed_out", {"error": "it took too long."}, "timed out: it took too long"),
        ("running", {}, ""),
    ],
)
def test_one_sentence_says_why(state: str, facts: dict[str, object], sentence: str) -> None:
    assert why(story((state, facts)), NOW) == sentence


def test_the_decisions_stand_in_order_with_the_reason_of_each() -> None:
    found = story(
        ("due", {}),
        ("running", {"attempt": 1}),
        ("attempt_failed", {"error": "Claude is overloaded."}),
        ("running", {"attempt": 2}),
        ("effect", {"tool": "mcp__discord__ping_user"}),
        ("held", {"until": "2026-11-15T22:00:00+00:00"}),
        ("done", {"untrusted": "mail"}),
        ("answered", {"answer": "not_taken"}),
    )
    assert [each.what for each in decisions(found, NOW)] == [
        "due",
        "running",
        "to be tried again: Claude is overloaded",
        "running (attempt 2)",
        "reached out with ping_user",
        "held until today 22:00",
        "done",
        "answered: skipped",
    ]
    assert sources_of(found) == ("mail",)


@pytest.mark.parametrize(
    ("tool", "command", "thing"),
    [
        ("Bash", "ollim-bot gmail read 18f0", "mail"),
        ("Bash", "ollim-bot gmail list", "your inbox"),
        ("Bash", "ollim-bot cal today", "the calendar"),
        ("Bash", "rm -rf x; ollim-bot cal today", ""),
        ("Read", "", "file"),
        ("mcp__discord__ping_user", "", ""),
    ],
)
def test_what_a_call_looks_at_is_named_in_words_of_ours(
    tool: str, command: str, thing: str
) -> None:
    assert thing_looked_at(tool, command) == thing

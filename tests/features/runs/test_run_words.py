"""Why a run came out as it did, in one sentence, and its decisions in order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.pings import PingBudget, PingRefused, charged
from ollim_bot.kernel.values.receipts import due_things
from ollim_bot.kernel.values.run_history import RunStory
from ollim_bot.kernel.values.run_words import decisions, reason, run_object, sources_of, why
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy, thing_looked_at

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


Rows = list[tuple[str, dict[str, object]]]
BUDGET = PingBudget.full(NOW)
AUTO = RunPolicy(RunKind.BACKGROUND, ())
EMPTY = replace(BUDGET, available=0.25, capacity=2)
ABOUT = {"wants_critical": False, "is_busy": False, "daily_cap": 1}


def refused(budget: PingBudget, run: Run, **more: object) -> dict[str, object]:
    """The facts of a ping that the budget refuses now."""
    after, verdict = charged(budget, run, NOW, **{**ABOUT, **more})  # type: ignore[arg-type]
    assert isinstance(verdict, PingRefused)
    left = {"pings_left": after.tokens, "pings_of": after.capacity}
    reason = {"refused_pings": [{"reason": verdict.reason, "text": "Käse?"}]}
    return {**reason, **(left if run.policy.allow_ping and not run.pings else {})}


NO_BUDGET = refused(EMPTY, Run(AUTO, NOW))
BUSY = refused(replace(BUDGET, available=1.5, capacity=2), Run(AUTO, NOW), is_busy=True)
ONCE = refused(BUDGET, Run(AUTO, NOW, pings=[MessageId("1")]))
OFF = refused(BUDGET, Run(replace(AUTO, allow_ping=False), NOW))
HELD: dict[str, object] = {"message": "m", "until": "2026-11-15T22:30:00.123457+00:00"}
PLAIN_HELD: Rows = [("due", {}), ("held", HELD), ("done", {"plain": True}), ("delivered", {})]
TURN_HELD: Rows = [("due", {}), ("held", {"until": HELD["until"]})]
PING_HELD: Rows = [("running", {}), ("held", HELD), ("done", {"pings": ["m"], "report": "x"})]
NOT_RUN: dict[str, object] = {"silent_because": "it was not run"}
OF_PINGS: dict[str, object] = {"silent_because": "pings are switched off for this job"}
CAUSES: dict[str, tuple[Rows, str]] = {
    "no budget, reported": (
        [("done", {**NO_BUDGET, "report": "x"})],
        "reported; its ping was refused: the ping budget was used up (0 of 2 left)",
    ),
    "no budget, silent": (
        [("done", {**NO_BUDGET, "silent_because": "its ping was refused: the ping budget is …"})],
        "silent, because its ping was refused: the ping budget was used up (0 of 2 left)",
    ),
    "busy, reported": (
        [("done", {**BUSY, "report": "x"})],
        "reported; its ping was refused: you were being answered (1 of 2 left)",
    ),
    "busy, silent": (
        [("done", {**BUSY, "silent_because": "its ping was refused: the owner is …"})],
        "silent, because its ping was refused: you were being answered (1 of 2 left)",
    ),
    "a second one": (
        [("done", {**ONCE, "pings": ["1"]})],
        "pinged; a further ping was refused: one run pings once",
    ),
    "pings off, refused": (
        [("done", {**OFF, **OF_PINGS, "report": "x"})],
        "reported; its ping was refused: pings are switched off for this job",
    ),
    "pings off, reported": (
        [("done", {**OF_PINGS, "report": "x"})],
        "reported; pings are switched off for this job",
    ),
    "pings off, silent": (
        [("done", OF_PINGS)],
        "silent, because pings are switched off for this job",
    ),
    "not asked for, reported": (
        [("done", {"report": "x", "pings_left": 1, "pings_of": 2})],
        "reported; kept its ping: 1 of 2 left",
    ),
    "a cause of another version": (
        [("done", {"report": "x", "refused_pings": [{"reason": "The moon is up. Wait."}]})],
        "reported; its ping was refused: the moon is up",
    ),
    "a reminder waits": (PLAIN_HELD, "waits for the end of the quiet, today 22:30"),
    "a turn waits": (TURN_HELD, "waits for the end of the quiet, today 22:30"),
    "a ping waits": (PING_HELD, "waits for the end of the quiet, today 22:30; reported"),
    "a reminder has waited": ([*PLAIN_HELD, ("released", {"message": "m"})], "sent as written"),
    "a turn has waited": (
        [*TURN_HELD, ("running", {}), ("done", {"answered": True})],
        "spoke in the conversation",
    ),
    "a ping was not wanted after the quiet": (
        [*PING_HELD, ("dropped", {"message": "m", "why": "a newer one came"})],
        "did not come after the quiet: a newer one came; reported",
    ),
    "missed": ([("due", {}), ("missed", NOT_RUN)], "missed: I was away"),
    "missed for a reason": (
        [("due", {}), ("missed", {"reason": "it was too late to leave"})],
        "missed: it was too late to leave",
    ),
    "failed": ([("failed", {**BUSY, "error": "It broke."})], "failed: It broke"),
    "capped": (
        [("skipped", {"reason": "cost cap", "reached_at": "2026-11-15T14:10:00+00:00"})],
        "skipped: the daily cost cap was reached at 14:10",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_sentence_names_what_was_refused_held_or_missed_and_why(cause: str) -> None:
    rows, sentence = CAUSES[cause]
    assert why(story(*rows), NOW) == sentence


def test_every_view_says_the_same() -> None:
    for rows, sentence in CAUSES.values():
        found = story(*rows)
        assert run_object(found, NOW)["why"] == sentence
        (thing,) = due_things([found])
        assert f"{thing.word}: {thing.why(NOW)}".endswith(sentence)
        assert reason(found, NOW) in sentence


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

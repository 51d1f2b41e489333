"""The doctor makes every check even if others fail, and each finding says what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event

from hypothesis import given
from hypothesis import strategies as st
from tests.features.doctor.doctor_table import NOTHING
from tests.patience import patience

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Level,
    examined,
    failed,
    has_failures,
    passed,
    report,
    shortened,
    summary,
    warned,
)

words = st.text("abc .`\n", max_size=12)
findings = st.builds(
    lambda level, name, detail, step: DoctorFinding(level, name, detail, step),
    st.sampled_from(Level),
    st.sampled_from(["git", "page"]),
    words,
    words,
)


def of(name: str, make: Callable[..., DoctorFinding], *words: str) -> DoctorFinding:
    return replace(make(*words), name=name)


def right(name: str) -> Check:
    return Check(name, lambda _: [passed("fine")])


def broken(name: str, error: Exception) -> Check:
    def look(_: DoctorInput) -> Iterator[DoctorFinding]:
        yield passed("begun")
        raise error

    return Check(name, look)


def test_findings_come_in_the_order_of_their_checks() -> None:
    first_may_go = Event()

    def slow(_: DoctorInput) -> list[DoctorFinding]:
        assert first_may_go.wait(patience())
        return [passed("last to be done")]

    def quick(_: DoctorInput) -> list[DoctorFinding]:
        first_may_go.set()
        return [passed("one"), warned("two", "Do it.")]

    found = examined([Check("a", slow), Check("b", quick)], NOTHING, patience())
    assert [finding.detail for finding in found] == ["last to be done", "one", "two"]


def test_a_check_that_fails_is_a_failure_and_the_others_are_made() -> None:
    checks = [
        right("a"),
        broken("b", ValueError("no\nnumber")),
        broken("c", OllimError("c.json: cannot be read.")),
        broken("d", KeyError()),
        right("e"),
    ]
    found = examined(checks, NOTHING, patience())
    assert [(finding.level, finding.name, finding.detail) for finding in found] == [
        (Level.PASS, "a", "fine"),
        (Level.FAIL, "b", "could not be checked (ValueError: no number)"),
        (Level.FAIL, "c", "c.json: cannot be read."),
        (Level.FAIL, "d", "could not be checked (KeyError)"),
        (Level.PASS, "e", "fine"),
    ]
    assert all(finding.next for finding in found if finding.level is Level.FAIL)


def test_a_check_that_hangs_is_said_and_waited_for_no_longer() -> None:
    never = Event()
    began = time.monotonic()
    found = examined(
        [Check("a", lambda _: [passed(str(never.wait(60)))]), right("b")], NOTHING, patience=0.1
    )
    never.set()
    assert time.monotonic() - began < 30
    assert [(finding.level, finding.name) for finding in found] == [
        (Level.WARN, "a"),
        (Level.PASS, "b"),
    ]
    assert found[0].detail == "was not done within 0.1 s"
    assert found[0].next


def test_what_is_secret_is_taken_out_of_every_text() -> None:
    checks = [
        Check("a", lambda _: [warned("it is hunter2 now", "Change hunter2.")]),
        broken("b", ValueError("Invalid header value b'Bot hunter2'")),
    ]
    found = examined(
        checks, NOTHING, patience(), lambda text: text.replace("hunter2", "[redacted]")
    )
    assert "hunter2" not in report(found)
    assert report(found).count("[redacted]") == 3


def test_the_report_has_a_line_for_each_and_the_step_below_it() -> None:
    found = [
        of("git", passed, "git version 2.39"),
        of("page", warned, "it answers slowly", "Restart the bot."),
        of("disk space", failed, "3 MB left", "Make room."),
    ]
    assert report(found).splitlines() == [
        "PASS  git: git version 2.39",
        "WARN  page: it answers slowly",
        "      Restart the bot.",
        "FAIL  disk space: 3 MB left",
        "      Make room.",
        "SUMMARY: 1 passed, 1 warning, 1 failure",
    ]


def test_in_the_chat_only_what_is_wrong_is_shown_the_worst_first() -> None:
    found = [
        of("git", passed, "git version 2.39"),
        of("page", warned, "it answers slowly", "Restart the bot."),
        of("routines", failed, "routines/a.md:3: cron: is wrong.", "Mend it."),
    ]
    assert shortened(found).splitlines() == [
        "- **FAIL** routines: routines/a.md:3: cron: is wrong. Mend it.",
        "- **WARN** page: it answers slowly. Restart the bot.",
        "",
        "SUMMARY: 1 passed, 1 warning, 1 failure",
    ]


def test_in_the_chat_all_well_is_one_sentence() -> None:
    assert (
        shortened([of("git", passed, "x"), of("page", passed, "y")])
        == "All is well: 2 checks passed."
    )


def test_in_the_chat_very_much_that_is_wrong_is_cut_and_says_so() -> None:
    found = [
        of("routines", failed, f"routines/{number}.md: wrong", "Mend it.") for number in range(50)
    ]
    lines = shortened(found).splitlines()
    assert len(lines) == 13
    assert lines[10] == "- 40 more: `ollim-bot doctor` shows them all."
    assert lines[-1] == "SUMMARY: 0 passed, 0 warnings, 50 failures"


@given(st.lists(findings, max_size=8))
def test_the_summary_counts_every_line_once(some: list[DoctorFinding]) -> None:
    found = examined([Check("all", lambda _: some)], NOTHING, patience())
    lines = report(found).splitlines()
    counts = [sum(line.startswith(f"{level:<4}  ") for line in lines) for level in Level]
    passes, warnings, failures, unused = counts
    assert (f", {unused} off" in lines[-1]) == (unused > 0)
    assert sum(counts) == len(some)
    assert summary(found).startswith(f"SUMMARY: {passes} passed, {warnings} warning")
    assert f", {failures} failure" in lines[-1]
    assert has_failures(found) == (failures > 0)
    assert len(lines) == len(some) + sum(bool(each.next.strip()) for each in some) + 1

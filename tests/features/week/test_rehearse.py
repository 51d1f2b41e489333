"""`ollim-bot rehearse`: a calendar of what would happen, with warnings about a new job."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.settings import PHONE

HEAVY = ("aiohttp", "asyncio", "claude_agent_sdk", "discord", "jsonschema", "logging", "pydantic")


def add(terminal: Terminal, name: str, cron: str, *more: str) -> str:
    words = ("routine", "add", "-m", f"do {name}", "--id", name, "--cron", cron, "--agent", *more)
    return terminal.run(*words).err


def test_the_page_says_what_it_assumes_then_what_to_look_at_then_the_days(
    terminal: Terminal,
) -> None:
    add(terminal, "mail", "*/10 15 * * *", "--background")
    add(terminal, "day", "0 21 * * *")
    terminal.done("reminder", "add", "-m", "call mum", "--at", "tuesday 15:10", "--id", "mum")
    with single_instance(terminal.paths.bot_pid):
        page = terminal.done("rehearse", "--days", "4")
    fates = "may ping (5 of them); ping refused, the budget is empty (1 of them)"
    often = f"6 times until 15:50: {fates}\n"
    assert page == (
        "What would happen until Thu 19 Nov 14:30, if each run took 2 min, each background run "
        "pinged once at its end, no reminder followed up, and you wrote nothing.\n"
        "\n"
        "Worth a look:\n"
        "- The ping budget would run dry on 4 days, first today 15:50: "
        "4 pings would be refused.\n"
        "\n"
        "Today to Mon 16 Nov, each day\n"
        f"  15:00  do mail  {often}"
        "  21:00  do day   in the conversation\n"
        "\n"
        "Tue 17 Nov\n"
        f"  15:00  do mail   {often}"
        "  15:10  call mum  comes whatever happens\n"
        "  21:00  do day    in the conversation\n"
        "\n"
        "Wed 18 Nov\n"
        f"  15:00  do mail  {often}"
        "  21:00  do day   in the conversation\n"
    )


def test_it_shows_how_a_moment_is_announced_and_comes_again(terminal: Terminal) -> None:
    more = ["--plain", "--nag", "10m x 2", "--before", "30m", "--before", "10m"]
    terminal.done("reminder", "add", "-m", "dentist", "--at", "today 15:30", *more)
    fate = (
        "comes whatever happens, announced at 15:00 and 15:20, "
        "again every 10 min until you answer, at most 2 times"
    )
    assert f"  15:30  dentist  {fate}\n" in terminal.done("rehearse", "--days", "1")
    (fire,) = terminal.json("rehearse", "--days", "1")["fires"]
    moments = [f"2026-11-15T15:{minute}:00+01:00" for minute in ("00", "20", "40", "50")]
    assert [*fire["heads_ups"], *fire["again"]] == moments


def test_it_shows_what_the_quiet_would_hold_and_let_through(terminal: Terminal) -> None:
    terminal.done("config", "set", "quiet_hours", "22:00-07:00")
    add(terminal, "mail", "30 23 * * *", "--background")
    add(terminal, "day", "0 22 * * *")
    terminal.done("reminder", "add", "-m", "call mum", "--at", "today 23:00", "--id", "mum")
    page = terminal.done("rehearse", "--days", "1")
    assert page.endswith(
        "  22:00  do day    waits until 7:00, then in the conversation\n"
        "  23:00  call mum  comes whatever happens, also in the quiet\n"
        "  23:30  do mail   ping waits until 7:00, when the quiet ends\n"
    )
    fires = terminal.json("rehearse", "--days", "1")["fires"]
    assert [fire["ping"] for fire in fires] == ["held", "ordered", "held"]
    assert {fire["quiet_until"] for fire in fires} == {"2026-11-16T07:00:00+01:00"}


def test_a_bot_that_does_not_run_is_thought_to_start_now(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "call mum", "--in", "1m", "--id", "mum")
    terminal.wait(hours=2)
    page = terminal.done("rehearse")
    assert "if the bot started now, each run took 2 min," in page
    assert "- “call mum”, today 14:31, was missed. It would run late.\n" in page
    assert "  16:30  call mum  comes whatever happens, late: it was due today 14:31\n" in page


def test_what_the_bot_last_saw_counts_as_seen(terminal: Terminal) -> None:
    add(terminal, "plan", "0 8 * * *", "--background")
    beat = (SUNDAY - timedelta(hours=2)).isoformat()
    terminal.write("state/heartbeat", beat)
    assert "was missed" not in terminal.done("rehearse")
    beat = (SUNDAY - timedelta(hours=12)).isoformat()
    terminal.write("state/heartbeat", beat)
    assert "“do plan”, today 8:00, was missed." in terminal.done("rehearse")


def test_a_bot_that_runs_has_in_hand_what_is_overdue(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "call mum", "--in", "1m", "--id", "mum")
    terminal.wait(minutes=2)
    with single_instance(terminal.paths.bot_pid):
        assert terminal.done("rehearse").startswith("Nothing would happen until ")


def test_the_budget_and_the_settings_of_the_owner_are_used(terminal: Terminal) -> None:
    for name in "abc":
        add(terminal, name, "0 15 * * *", "--background", "--no-ping")
    assert "at once" not in terminal.done("rehearse")
    terminal.done("config", "set", "bg_concurrency", "1")
    assert "Only 1 background run can go at once." in terminal.done("rehearse")


def test_a_state_file_that_cannot_be_read_is_no_obstacle_and_stays(terminal: Terminal) -> None:
    add(terminal, "a", "0 15 * * *", "--background")
    path = terminal.write("state/ping_budget.json", "{")
    assert "do a" in terminal.done("rehearse")
    assert path.read_text() == "{"


def test_a_wrong_file_is_named_and_the_others_are_rehearsed(terminal: Terminal) -> None:
    add(terminal, "a", "0 15 * * *")
    terminal.write("routines/bad.md", '---\nid: bad\ncron: "99 * * * *"\n---\nx\n')
    answer = terminal.run("rehearse")
    assert answer.code == 0
    assert "do a" in answer.out
    assert answer.err.startswith("routines/bad.md:3: ")


def test_programs_get_every_moment_and_every_finding(terminal: Terminal) -> None:
    for name in "abc":
        add(terminal, name, "0 15 * * *", "--background")
    told = terminal.json("rehearse", "--days", "1")
    assert told["assumed"] == {"bot_starts_now": True, "run_seconds": 120, "pings_per_run": 1}
    assert (told["now"], told["until"]) == (
        *("2026-11-15T14:30:00.330745+01:00", "2026-11-16T14:30:00.330745+01:00"),
    )
    assert told["fires"][0] == {
        "kind": "routine",
        "id": "a",
        "title": "do a",
        "background": True,
        "due": "2026-11-15T15:00:00+01:00",
        "starts": "2026-11-15T15:00:00+01:00",
        "state": "done",
        "reason": None,
        "ping": "sent",
        "quiet_until": None,
        "heads_ups": [],
        "again": [],
    }
    (finding,) = told["findings"]
    assert (finding["kind"], finding["times"], len(finding["jobs"])) == ("together", 1, 3)
    assert (told["problems"], told["superseded"], told["is_whole"]) == ([], 0, True)


def test_a_draft_is_rehearsed_in_place_of_its_job_or_beside_and_the_difference_comes_first(
    terminal: Terminal,
) -> None:
    add(terminal, "mail", "0 15 * * *", "--background")
    draft = "---\nid: {}\n{}background: true\n---\nlook at mail\n"
    (terminal.home / "draft.md").write_text(draft.format("mail", 'cron: "0 9,15 * * *"\n'))
    page = terminal.done("rehearse", "--with", "draft.md")
    assert page.startswith(
        "With draft.md in place of “do mail”: adds 7 pings in the coming week.\n\n"
        "What would happen until "
    )
    assert "   9:00  look at mail  may ping\n" in page
    told = terminal.json("rehearse", "--with", "draft.md", "--days", "1")
    assert told["difference"]["pings"] == {"added": 7, "removed": 0, "in_quiet": 0, "held": 0}
    assert [fire["due"][11:16] for fire in told["fires"]] == ["15:00", "09:00"]

    (terminal.home / "draft.md").write_text(draft.format("mum", 'run-at: "2026-11-17T09:00"\n'))
    page = terminal.done("rehearse", "--with", "draft.md")
    assert page.startswith("With draft.md beside your jobs: adds 1 ping in the coming week.\n")
    assert "difference" not in terminal.json("rehearse")


def test_a_wrong_draft_is_named_with_its_line(terminal: Terminal) -> None:
    (terminal.home / "draft.md").write_text('---\nid: bad\ncron: "99 * * * *"\n---\nx\n')
    assert terminal.refused("rehearse", "--with", "draft.md").startswith("draft.md:3: ")
    assert terminal.refused("rehearse", "--with", "none.md").startswith("none.md cannot be read: ")


@pytest.mark.parametrize("days", ["0", "367", "x", "-1", "1.5"])
def test_a_wrong_number_of_days_is_refused(terminal: Terminal, days: str) -> None:
    refused = terminal.refused("rehearse", f"--days={days}")
    assert refused.startswith(f"--days: '{days}' is not a number from 1 to 366.")


@pytest.mark.real_time
def test_a_new_job_is_warned_of_in_one_line(terminal: Terminal) -> None:
    terminal.paths.locks.mkdir(parents=True)
    with single_instance(terminal.paths.bot_pid):
        assert add(terminal, "a", "0 15 * * *", "--background") == ""
        assert add(terminal, "b", "0 15 * * *") == ""
        assert add(terminal, "c", "0 15 * * *") == "note: that is when 2 others run.\n"
        dry = add(terminal, "d", "*/10 9 * * 2", "--background")
        assert dry == "note: the ping budget would run dry on Tue.\n"
        reminder = ("reminder", "add", "-m", "call mum", "--in", "30m")
        assert terminal.run(*reminder).err == "note: that is when 3 others run.\n"


def test_what_a_paired_phone_would_get_is_said_with_what_it_takes(terminal: Terminal) -> None:
    for name in ("water", "walk", "stretch"):
        add(terminal, name, "0 * * * *", "--plain", "--nag", "10m x 5", "--must")
    assert "Your phone" not in terminal.done("rehearse")
    assert terminal.json("rehearse")["phone"] is None
    terminal.keep(lambda tx: tx.channels.join(PHONE, "a phone"))
    page = terminal.done("rehearse", "--days", "2")
    assert "up to 282 could be missing there on 3 days, first today." in page
    assert "Your phone: 532 messages on the fullest day at most; it takes 250 a day." in page
    said = terminal.json("rehearse", "--days", "2")
    assert (said["phone"]["what"], said["phone"]["per_day"]) == ("asks", 250)
    assert said["phone"]["by_day"][1]["must"] == 432
    assert "phone" in [each["kind"] for each in said["findings"]]

"""Prompt injections in events, webhook values, tasks and mails have no effect; honest ones work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from devtools.localgoogle.gmail import multipart, text_part
from tests.features.google.scene import google_scene
from tests.hostile.injected_texts import (
    ATTEMPTS,
    CANARY,
    assert_imitates_nothing,
    assert_is_data,
    assert_is_literal,
    assert_is_literal_on_discord,
    assert_is_safe_for_a_terminal,
    assert_taints,
    before_escaping,
    fenced_parts,
)
from tests.kernel.prompts.prompt_parts import message
from tests.terminal import SUNDAY, Terminal

from ollim_bot.features.calendars.feeds import CalendarFeeds
from ollim_bot.features.calendars.refreshing import take_calendar_address
from ollim_bot.features.google.google_chat import deleted_card, kept_card, question_card
from ollim_bot.features.tasks.task_buttons import tasks_card
from ollim_bot.kernel.prompts.prompt_context import owner_prompt
from ollim_bot.kernel.prompts.turn_prompts import (
    Briefing,
    background_prompt,
    build_bg_preamble,
    screening_prompt,
    sent_data,
    upcoming_lines,
)
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import JobSpec, ReportMode
from ollim_bot.kernel.values.overviews import today_overview
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.tasks import Task
from ollim_bot.kernel.values.upcoming import UpcomingSchedule
from ollim_bot.kernel.values.webhook_data import plain_text
from ollim_bot.surfaces.discord.rendering import fitted
from ollim_bot.surfaces.web.frames import render

HOUR = timedelta(hours=1)
HONEST = "Dentist"
EVERY_ATTEMPT = pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)


def test_there_are_more_than_thirty_ways() -> None:
    assert len(ATTEMPTS) > 30
    assert not [name for name, text in ATTEMPTS.items() if CANARY not in text]


def copy_with(text: str) -> CalendarCopy:
    event = CalendarEvent(
        "a1", "Work", text, SUNDAY + HOUR, SUNDAY + 2 * HOUR, location=text, description=text
    )
    return CalendarCopy("Work", "calendar.example (hidden)", (event,), SUNDAY)


def day_with(text: str) -> Card:
    return today_overview((), (), (), Skips(), SUNDAY, [copy_with(text)]).card


@EVERY_ATTEMPT
def test_no_word_of_an_event_stands_in_the_prompt_of_a_run(attempt: str) -> None:
    upcoming = UpcomingSchedule(SUNDAY, 3).with_calendars([copy_with(attempt)])
    schedule = upcoming_lines(upcoming, PingBudget.full(SUNDAY))
    prompt = build_bg_preamble(Briefing(ReportMode.ON_PING, True, schedule=schedule))
    assert "- 15:30–16:30 busy (Work)" in prompt
    assert CANARY not in prompt


@EVERY_ATTEMPT
def test_an_event_on_the_card_of_today_is_one_line_that_does_nothing(attempt: str) -> None:
    card, honest = day_with(attempt), day_with(HONEST)
    assert len(card.lines) == len(honest.lines) == 1
    assert card.buttons == ()
    assert_is_safe_for_a_terminal(card.lines[0].text.replace("\u200d", "").replace("\u200c", ""))
    assert "\n" not in card.lines[0].text
    on_discord = fitted(card, "").description
    assert len(on_discord.splitlines()) == len(fitted(honest, "").description.splitlines())
    assert_is_literal_on_discord(on_discord.removeprefix("**Calendar**"))
    assert HONEST in honest.lines[0].text


@EVERY_ATTEMPT
def test_the_question_whether_to_delete_an_event_shows_its_title_as_it_is(attempt: str) -> None:
    [event], [honest] = copy_with(attempt).events, copy_with(HONEST).events
    asked = question_card(event, SUNDAY)
    for card in (asked, deleted_card(event, SUNDAY), kept_card(asked)):
        title = card.description.partition(", Sun 15 Nov, ")[0]
        assert_is_literal(f"x {title}", render)
        assert_is_literal_on_discord(title)
        assert_is_safe_for_a_terminal(card.description.replace("\u200d", "").replace("\u200c", ""))
    lines = question_card(honest, SUNDAY).description.splitlines()
    assert len(asked.description.splitlines()) == len(lines) == 2
    assert lines[0] == f"{HONEST}, Sun 15 Nov, 15:30–16:30 (Work)"


@EVERY_ATTEMPT
def test_a_task_on_a_card_is_one_line_that_does_nothing(attempt: str) -> None:
    task = Task("a1", " ".join(attempt.split())[:300], None, attempt, False, "tasks.md")
    card = tasks_card([task], SUNDAY.date())
    assert len(card.lines) == 1
    assert {button.action for button in card.buttons} == {"task_done", "task_del", "break_down"}
    assert_is_safe_for_a_terminal(card.lines[0].text.replace("\u200d", "").replace("\u200c", ""))
    assert_is_literal_on_discord(fitted(card, "").description.partition("** · ")[2])


@EVERY_ATTEMPT
def test_the_card_of_today_that_is_quoted_is_data(attempt: str) -> None:
    mark = Untrusted("calendar entry", "an overview of the day")
    quote = day_with(attempt).text
    reply = replace(message("move that", quote), untrusted_quote=mark)
    prompt = owner_prompt([reply], SUNDAY)
    assert_is_data(prompt)
    assert prompt.endswith("\n\nmove that")


@EVERY_ATTEMPT
def test_a_terminal_obeys_no_event_and_the_agent_reads_none(
    terminal: Terminal, attempt: str
) -> None:
    CalendarFiles(terminal.paths).write_copy(copy_with(attempt))
    honest_lines = {"today": 4, "rehearse": 4}
    for command, lines in honest_lines.items():
        printed = terminal.done(command)
        assert_is_safe_for_a_terminal(printed)
        assert len(printed.splitlines()) == lines
    assert terminal.json("today")["calendar"][0]["summary"] == attempt
    terminal.environ[CALLED_BY] = CONVERSATION
    for words in (["today"], ["today", "--json"], ["rehearse"], ["rehearse", "--json"]):
        assert CANARY not in terminal.done(*words)


def test_events_are_data_for_the_agent_and_calm_in_a_terminal(terminal: Terminal) -> None:
    events = [
        copy_with(attempt).events[0]._replace(id=f"e{number}")
        for number, attempt in enumerate(ATTEMPTS.values())
    ]
    CalendarFiles(terminal.paths).write_copy(copy_with(HONEST)._replace(events=tuple(events)))
    for words in (["today"], ["upcoming"], *(["show", event.id] for event in events[::4])):
        terminal.environ.pop(CALLED_BY, None)
        assert_is_safe_for_a_terminal(terminal.done("cal", *words))
        terminal.environ[CALLED_BY] = CONVERSATION
        shown = terminal.done("cal", *words)
        assert_is_data(shown)
        assert_taints(f"ollim-bot cal {words[0]}", shown)
        for text in texts_in(terminal.json("cal", *words)):
            assert_is_data(text)
    CalendarFiles(terminal.paths).write_copy(copy_with(HONEST))
    assert f"15:30–16:30  {HONEST} (Work), {HONEST}" in terminal.done("cal", "today")


class AddedCalendar(CalendarFeeds):
    """Subscribes to one calendar at any address."""

    def __init__(self, copy: CalendarCopy) -> None:
        self._copy = copy

    def subscribe(self, *_: object) -> CalendarCopy:
        return self._copy


@EVERY_ATTEMPT
async def test_the_answer_to_a_pasted_address_quotes_the_next_event_as_data(attempt: str) -> None:
    feeds, clock = AddedCalendar(copy_with(attempt)), ManualClock(SUNDAY)
    answer = await take_calendar_address(feeds, clock, "https://calendar.example/secret.ics")
    assert answer.untrusted is not None
    assert CANARY not in answer.update
    said, _, how = answer.words.partition(" `ollim-bot cal unsubscribe Work` removes it")
    assert how
    assert_is_safe_for_a_terminal(answer.words.replace("\u200d", "").replace("\u200c", ""))
    assert len(answer.words.splitlines()) == 1
    assert_is_literal(said, render)
    assert_is_literal_on_discord(said.partition(" Next: ")[2])


def task_file(terminal: Terminal) -> TaskFile:
    prepare_data_directory(terminal.paths)
    return TaskFile(terminal.paths, RecordingJournal(), lambda: terminal.now)


def test_the_notes_of_a_task_are_data_and_make_no_other_task(terminal: Terminal) -> None:
    tasks = task_file(terminal)
    for number, attempt in enumerate(ATTEMPTS.values()):
        tasks.add(f"task {number}", None, attempt)
    rows = terminal.json("tasks", "list")["tasks"]
    assert sorted(row["title"] for row in rows) == sorted(
        f"task {number}" for number in range(len(ATTEMPTS))
    )
    assert all(CANARY in row["notes"] for row in rows)
    strange = [row["id"] for row in rows if not row["notes"].replace("\n", "").isprintable()]
    for task in strange:
        assert_is_safe_for_a_terminal(terminal.done("tasks", "show", task))
    terminal.environ[CALLED_BY] = CONVERSATION
    for row in rows[::4]:
        shown = terminal.done("tasks", "show", row["id"])
        assert_is_data(shown)
        assert_taints("ollim-bot tasks show x", shown)
    for text in texts_in(terminal.json("tasks", "list", "--all")):
        assert_is_data(text)
    tasks.complete(rows[0]["id"])
    assert len(terminal.json("tasks", "list")["tasks"]) == len(ATTEMPTS) - 1


def test_the_title_of_a_task_is_one_line_and_poses_as_nothing(terminal: Terminal) -> None:
    short, tasks = [text for text in ATTEMPTS.values() if len(text) < 400], task_file(terminal)
    for attempt in short:
        tasks.add(attempt, None, "x")
    assert_is_safe_for_a_terminal(terminal.done("tasks", "list"))
    assert len(terminal.done("tasks", "list").splitlines()) == len(short)
    terminal.environ[CALLED_BY] = CONVERSATION
    for row in terminal.json("tasks", "list")["tasks"]:
        assert_imitates_nothing(row["title"])
        assert_imitates_nothing(terminal.done("tasks", "show", row["id"]).partition("\nData,")[0])
    assert_imitates_nothing(terminal.done("tasks", "list"))


def texts_in(value: object) -> Iterator[str]:
    """Every text of a JSON value, also the names of its fields."""
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield from (name, *texts_in(each))
        case list():
            for each in value:
                yield from texts_in(each)


def test_mail_is_data_for_the_agent_and_calm_in_a_terminal(
    terminal: Terminal, tmp_path: Path
) -> None:
    with google_scene(tmp_path / ".ollim-bot") as scene:
        scene.connect()
        terminal.environ |= scene.google.environment
        gmail = scene.google.gmail
        for attempt in ATTEMPTS.values():
            file = {"mimeType": "text/plain", "filename": attempt, "body": {}}
            body = multipart("mixed", text_part(attempt, "text/plain"), file)
            mail = gmail.receive(f"{attempt} <x@y>", attempt, body, at=SUNDAY)
            terminal.environ.pop(CALLED_BY, None)
            assert_is_safe_for_a_terminal(terminal.done("gmail", "read", mail))
            terminal.environ[CALLED_BY] = CONVERSATION
            read = terminal.done("gmail", "read", mail)
            assert_is_data(read)
            assert_taints("ollim-bot gmail read x", read)
        everything = text_part("".join(f"<p>{each}</p>" for each in ATTEMPTS.values()), "text/html")
        mail = gmail.receive("x@y", "All", everything, at=SUNDAY)
        for text in texts_in(terminal.json("gmail", "read", mail)):
            assert_is_data(text)
        for words in (["unread"], ["search", "x"]):
            assert_is_data(terminal.done("gmail", *words, "--max", "100"))
            for text in texts_in(terminal.json("gmail", *words, "--max", "100")):
                assert_is_data(text)
        honest = gmail.receive("Ada <ada@example.org>", "Bill", "Pay 5 € by Friday.", at=SUNDAY)
        assert fenced_parts(terminal.done("gmail", "read", honest))[0].endswith(
            "\n\nPay 5 € by Friday."
        )


HOOK = WebhookSpec(
    JobSpec(
        id="door",
        message="Somebody rang: {{ who }}. The state is {{state}}, seen {{times}} times.",
        background=True,
    ),
    fields={
        "type": "object",
        "properties": {
            "who": {"type": "string"},
            "state": {"enum": ["open", "shut"]},
            "times": {"type": "integer"},
        },
    },
)


@EVERY_ATTEMPT
def test_the_value_of_a_hook_is_data_and_the_task_is_the_owners(attempt: str) -> None:
    data = {"who": attempt, "state": "open", "times": 2}
    preamble = build_bg_preamble(Briefing(ReportMode.ON_PING, True, data=sent_data(data)))
    prompt = background_prompt(HOOK, SUNDAY, preamble=preamble, data=data)
    assert_is_data(prompt)
    assert prompt.endswith(
        "\nYOUR TASK:\n\nSomebody rang: (see `who` in the data above). "
        "The state is open, seen 2 times."
    )
    [inside] = fenced_parts(prompt)
    assert before_escaping(inside).startswith("{\n")


@EVERY_ATTEMPT
def test_the_model_that_screens_a_value_is_shown_data(attempt: str) -> None:
    assert_is_data(screening_prompt("A door", {"who": attempt, attempt: "x"}))


@EVERY_ATTEMPT
def test_the_name_of_a_field_that_the_sender_chose_is_data_too(attempt: str) -> None:
    data = {attempt: "x", "state": "shut"}
    preamble = build_bg_preamble(Briefing(ReportMode.ON_PING, True, data=sent_data(data)))
    assert_is_data(background_prompt(HOOK, SUNDAY, preamble=preamble, data=data))


@EVERY_ATTEMPT
def test_a_hook_that_is_delivered_plainly_brings_no_markup(attempt: str) -> None:
    said = plain_text(HOOK.spec.message, {"who": attempt, "state": "open", "times": 2})
    assert len(said.splitlines()) == 1
    assert_is_safe_for_a_terminal(said.replace("\u200d", "").replace("\u200c", ""))
    assert_is_literal(said, render)
    assert_is_literal_on_discord(said)
    assert said.endswith("The state is open, seen 2 times.")

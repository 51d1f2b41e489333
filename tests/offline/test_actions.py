"""The offline model does a request with its tools, once, and reports the result."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.tools.server.tool_scene import NOW, NOWHERE, make_tool_scene
from tests.offline.test_rules import STAMP, answer, said

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.prompts.prompt_context import owner_prompt
from ollim_bot.kernel.prompts.turn_prompts import continued_prompt
from ollim_bot.kernel.values.agent_caller import shell_words
from ollim_bot.kernel.values.chat import Attachment
from ollim_bot.kernel.values.due_items import JUST_SHOWN
from ollim_bot.kernel.values.inbox import InputId, OwnerMessage, ToolCalled
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.permissions import Pattern, matches
from ollim_bot.kernel.values.runs import RunKind
from ollim_bot.offline import texts
from ollim_bot.offline.actions import (
    ADD_REMINDER,
    CANCEL_REMINDER,
    LIST_REMINDERS,
    LIST_ROUTINES,
    LIST_TASKS,
    SETTLE_REMINDER,
    reminders_in,
    shell_call,
)
from ollim_bot.offline.rules import EMBED, UPDATE_NAMES
from ollim_bot.offline.server import Block, CallTool, Message, Part, Say
from ollim_bot.offline.situation import SHELL

TOOLS = (ADD_REMINDER, LIST_REMINDERS.name, CANCEL_REMINDER, SHELL)
WATER = f"{STAMP}\nremind me in 20 minutes to drink water"
ADD_WATER = CallTool(ADD_REMINDER, {"prompt": "drink water", "delay_minutes": 20, "plain": True})
PLAN = shell_call("routine", "add", "--message=ask me for my plan", "--cron", "0 9 * * 1-5")
SET = "Reminder 3f2a9c1b set: today 10:35 (in 20 min). File: reminders/drink-water.md"
ROUTINE_SET = (
    "Routine set: ask me for my plan, at 9:00 on Monday through Friday. "
    "Next: tomorrow 9:00 (in 22 h).\nid 3f2a9c1b, file ~/routines/plan.md"
)
TWO = (
    "- 3f2a9c1b · today 10:35 (in 20 min) · drink water (reminders/drink-water.md)\n"
    "- 0badcafe · today 12:00 (in 2 h) · paused · water · the plants (reminders/water.md)"
)
GYM = (
    "- 3f2a9c1b · today 18:00 (in 8 h) · gym (reminders/gym.md)\n"
    "- 0badcafe · Thu 5 Mar 18:00 (in 9 d) · gym (reminders/gym-2.md)"
)
ROUTINES = (
    "4c90ad03  tomorrow 8:00  water the plants  (nag 10m x 4)\n"
    "9d1b472b  paused         ask me for my plan"
)


def did(call: CallTool, result: str, *, refused: bool = False) -> tuple[Message, Message]:
    use: Block = {
        "type": "tool_use", "id": str(call), "name": call.name, "input": dict(call.arguments)
    }  # fmt: skip
    told: Block = {
        "type": "tool_result", "tool_use_id": str(call), "content": result, "is_error": refused
    }  # fmt: skip
    return Message("assistant", (use,)), Message("user", (told,))


def step(words: str, *done: tuple[Message, Message]) -> tuple[Part, ...]:
    prompt = words if words.startswith("[") else f"{STAMP}\n{words}"
    return answer(said(prompt), *(each for pair in done for each in pair), tools=TOOLS)


OPEN = "OPEN REMINDERS (call `settle_reminder`)\n"
ITEM = "- Drink water. (key 0123456789ab, due today 10:00)\n"
NEWEST = ITEM.replace("10:00", f"10:00, {JUST_SHOWN}")
OTHER_ITEM = "- Call mum. (key ba9876543210, due today 9:00)\n"


@pytest.mark.parametrize(
    ("words", "settled"),
    [
        ("done", {"action": "done"}),
        ("Did it.", {"action": "done"}),
        ("later", {"action": "snooze", "until": "in 1 hour"}),
        ("in an hour", {"action": "snooze", "until": "in an hour"}),
        ("not today", {"action": "not_today"}),
        ("let it go", {"action": "let_go"}),
    ],
)
def test_the_newest_thing_said_is_answered_without_a_reply_and_is_named(
    words: str, settled: dict[str, object]
) -> None:
    prompt = f"{STAMP}{OPEN}{NEWEST}{OTHER_ITEM}\n{words}"
    call = CallTool(SETTLE_REMINDER, {"item": "0123456789ab", **settled})
    tools = (*TOOLS, SETTLE_REMINDER)
    assert answer(said(prompt), tools=tools) == (call,)
    result = "Settled, and shown to the owner: ⏱ Drink water · again at 11:15. One word is enough."
    named = Say(texts.settled("Drink water", "again at 11:15"))
    assert answer(said(prompt), *did(call, result), tools=tools) == (named,)


def test_done_with_answers_the_open_reminder_where_no_task_is_meant() -> None:
    prompt = f"{STAMP}{OPEN}{ITEM}{OTHER_ITEM}\ndone with the water"
    listed = did(LIST_TASKS, "2c2c2c2c  buy milk\n")
    (call,) = answer(said(prompt), *listed, tools=(*TOOLS, SETTLE_REMINDER))
    assert isinstance(call, CallTool)
    assert call.name == SETTLE_REMINDER
    assert "0123456789ab" in call.arguments.values()


@pytest.mark.parametrize(
    ("items", "titles"),
    [(ITEM, ["Drink water"]), (f"{ITEM}{OTHER_ITEM}", ["Drink water", "Call mum"])],
)
def test_a_card_that_is_not_the_newest_thing_said_is_asked_about(
    items: str, titles: list[str]
) -> None:
    prompt = said(f"{STAMP}{OPEN}{items}\ndone")
    tools = (*TOOLS, SETTLE_REMINDER)
    asked = texts.which_item(titles, "done")
    assert answer(prompt, tools=tools) == (Say(asked),)
    told = Message("assistant", ({"type": "text", "text": asked},))
    (settled,) = answer(prompt, told, said(f"{STAMP}{OPEN}{items}\nthe water"), tools=tools)
    assert settled == CallTool(SETTLE_REMINDER, {"item": "0123456789ab", "action": "done"})


def test_two_readings_are_two_buttons() -> None:
    prompt = said(f"{STAMP}\nremind me at half past 6 to start dinner")
    (card,) = answer(prompt, tools=(*TOOLS, EMBED))
    assert isinstance(card, CallTool)
    assert card.name == EMBED
    assert card.arguments["buttons"] == [
        {"label": "6:30am", "action": "agent:remind me 6:30am: start dinner"},
        {"label": "6:30pm", "action": "agent:remind me 6:30pm: start dinner"},
    ]
    shown = did(card, "Shown.")
    assert answer(prompt, *shown, tools=(*TOOLS, EMBED)) == (Say(texts.PRESS_OR_WRITE),)


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("in 20 minutes", {"delay_minutes": 20}),
        ("in 90 seconds", {"delay_minutes": 1.5}),
        ("an hour from now", {"delay_minutes": 60}),
        ("tomorrow at 9", {"run_at": "tomorrow at 9"}),
        ("at 5pm", {"run_at": "at 5pm"}),
    ],
)
def test_a_reminder_is_set_for_the_moment_that_was_said(
    words: str, moment: dict[str, object]
) -> None:
    call = CallTool(ADD_REMINDER, {"prompt": "drink water", **moment, "plain": True})
    assert step(f"remind me {words} to drink water") == (call,)


def test_the_answer_names_the_moment_once() -> None:
    assert step(WATER) == (ADD_WATER,)
    assert step(WATER, did(ADD_WATER, SET)) == (Say("Reminder set: drink water, today 10:35."),)


def test_what_the_tool_says_is_told_where_it_could_not_be_done() -> None:
    refused = did(ADD_WATER, "The disk is full.", refused=True)
    assert step(WATER, refused) == (Say("It was not set: The disk is full."),)
    assert step(WATER, did(ADD_WATER, "Something new.")) == (Say("Something new."),)


def test_a_moment_that_is_over_is_told_and_nothing_is_called() -> None:
    (part,) = step("remind me today at 8am to drink water")
    assert isinstance(part, Say)
    assert "was 2 h 15 min ago" in part.text


def test_a_rhythm_becomes_a_routine_which_its_card_shows() -> None:
    words = "every weekday at 9 ask me for my plan"
    assert step(words) == (PLAN,)
    (part,) = step(words, did(PLAN, ROUTINE_SET))
    assert part == Say(texts.ONLY_ITS_WORDS)


def test_where_there_are_no_tools_nothing_is_promised() -> None:
    for words in (
        "remind me in 20 minutes to drink water",
        "every weekday at 9 ask me for my plan",
        "cancel the water reminder",
        "list my reminders",
    ):
        assert answer(said(f"{STAMP}\n{words}")) == (Say(texts.NOT_HERE),)
    assert answer(said("remind me in 20 minutes to drink water"), tools=TOOLS) == (
        Say(texts.NO_CLOCK),
    )


def test_the_lists_are_shown_in_few_lines() -> None:
    assert step("list my reminders and routines") == (LIST_REMINDERS,)
    looked = did(LIST_REMINDERS, TWO)
    assert step("list my reminders and routines", looked) == (LIST_ROUTINES,)
    assert step("list my reminders and routines", looked, did(LIST_ROUTINES, ROUTINES)) == (
        Say(
            "Reminders:\n- today 10:35 (in 20 min): drink water\n"
            "- today 12:00 (in 2 h), paused: water · the plants\n\n"
            "Routines:\n- tomorrow 8:00: water the plants\n- paused: ask me for my plan"
        ),
    )
    broken = did(LIST_REMINDERS, "reminders/a.md:2: run-at: is missing.")
    assert step("list my reminders", broken) == (
        Say(f"{texts.NO_REMINDERS}\nreminders/a.md:2: run-at: is missing."),
    )
    refused = did(LIST_REMINDERS, "The disk is gone.", refused=True)
    assert step("list my reminders", refused) == (Say("I could not look: The disk is gone."),)


def test_a_long_list_says_how_many_more_there_are() -> None:
    lines = [f"- a{number} · today 10:35 · task {number} (reminders/a.md)" for number in range(40)]
    (part,) = step("list my reminders", did(LIST_REMINDERS, "\n".join(lines)))
    assert isinstance(part, Say)
    assert part.text.endswith("- today 10:35: task 14\nand 25 more")


def cancel(reminder_id: str) -> CallTool:
    return CallTool(CANCEL_REMINDER, {"reminder_id": reminder_id})


@pytest.mark.parametrize(
    ("words", "reminder_id"),
    [
        ("cancel the plants reminder", "0badcafe"),
        ("cancel the reminder to drink water", "3f2a9c1b"),
        ("cancel the reminder to water the plants", "0badcafe"),
        ("cancel reminder 3F2A9C1B", "3f2a9c1b"),
    ],
)
def test_the_one_that_is_meant_is_cancelled(words: str, reminder_id: str) -> None:
    looked = did(LIST_REMINDERS, TWO)
    assert step(words) == (LIST_REMINDERS,)
    assert step(words, looked) == (cancel(reminder_id),)


def test_a_cancelled_one_is_named_with_its_moment() -> None:
    done = did(LIST_REMINDERS, TWO), did(cancel("3f2a9c1b"), "Cancelled: drink water.")
    assert step("cancel the drink reminder", *done) == (
        Say("Reminder cancelled: drink water, today 10:35."),
    )
    gone = did(LIST_REMINDERS, TWO), did(cancel("3f2a9c1b"), "There is none.", refused=True)
    assert step("cancel the drink reminder", *gone) == (Say("It was not changed: There is none."),)


def test_two_things_with_one_name_are_told_apart_by_their_moment() -> None:
    asked = [said(f"{STAMP}\ncancel the gym"), *did(LIST_REMINDERS, GYM), *did(LIST_ROUTINES, "")]
    (part,) = answer(*asked, tools=TOOLS)
    assert isinstance(part, Say)
    assert [label for label, _ in part.follow_up.choices] == [
        "gym · today, Tue, 18:00",
        "gym · Thu 5 Mar 18:00",
    ]
    asked.append(Message("assistant", ({"type": "text", "text": part.text},)))
    lists = (*did(LIST_REMINDERS, GYM), *did(LIST_ROUTINES, ""))
    for words, meant in (
        ("the thursday one", "0badcafe"),
        ("the one on 5 mar", "0badcafe"),
        ("the tuesday one", "3f2a9c1b"),
        ("today", "3f2a9c1b"),
    ):
        found = answer(*asked, said(f"{STAMP}\n{words}"), *lists, tools=TOOLS)
        assert found == (cancel(meant),), words


def test_of_several_none_is_cancelled_before_it_is_clear_which() -> None:
    for words in ("cancel the water reminder", "cancel my reminder"):
        (part,) = step(words, did(LIST_REMINDERS, TWO))
        assert isinstance(part, Say)
        assert "3f2a9c1b" not in part.text
        commands = dict(part.follow_up.choices)
        assert commands == {
            "drink water": "cancel 3f2a9c1b",
            "water · the plants": "cancel 0badcafe",
        }
    none = step("cancel the tea reminder", did(LIST_REMINDERS, TWO))
    assert none == (Say(texts.none_matches("reminder", "tea")),)


def test_a_routine_is_cancelled_by_its_words_or_its_id() -> None:
    looked = did(LIST_ROUTINES, ROUTINES)
    take_back = shell_call("routine", "cancel", "9d1b472b")
    assert step("cancel the plan routine") == (LIST_ROUTINES,)
    assert step("cancel the plan routine", looked) == (take_back,)
    assert step("cancel the plan routine", looked, did(take_back, "ok")) == (
        Say("Routine cancelled: ask me for my plan, paused."),
    )
    both = did(LIST_REMINDERS, TWO), looked
    assert step("cancel 9d1b472b", both[0]) == (LIST_ROUTINES,)
    assert step("cancel 9d1b472b", *both) == (take_back,)
    assert step("cancel 3f2a9c1b", *both) == (cancel("3f2a9c1b"),)


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)


@given(TEXTS)
def test_a_shell_and_the_guard_read_each_command_as_it_was_meant(text: str) -> None:
    command = shell_call("routine", "add", f"--message={text}", "--cron", "0 9 * * 1-5")
    words = shell_words(str(command.arguments["command"]))
    assert words == (
        "ollim-bot", "routine", "add", f"--message={text}", "--cron", "0 9 * * 1-5"
    )  # fmt: skip
    allowed = Pattern.of("Bash(ollim-bot routine *)")
    assert matches(allowed, SHELL, command.arguments, "/data")


async def _listed(*tasks: str) -> str:
    tool_scene = make_tool_scene(NOWHERE, RunKind.MAIN)
    for number, task in enumerate(tasks):
        spec = JobSpec(id=f"job-{number}", message=task, background=True)
        tool_scene.stores.reminders.add(Reminder(spec, NOW + timedelta(hours=number + 1)))
    return await tool_scene.works("list_reminders")


@pytest.mark.parametrize("task", ["drink water", "a · b (c) · paused · d", "- 1 · 2", "über\nzwei"])
async def test_the_list_of_the_tool_is_read_as_it_is(task: str) -> None:
    listed = reminders_in(await _listed("first", task))
    assert [job.id for job in listed] == ["job-0", "job-1"]
    assert listed[1].title == " ".join(task.split())


CALLED = ToolCalled(datetime(2026, 2, 24, 18, 20, tzinfo=UTC), TurnId("t"), ADD_REMINDER, "")
LATER = datetime(2026, 2, 24, 10, 20, tzinfo=UTC)


def test_after_a_restart_nothing_is_set_twice() -> None:
    again = said(continued_prompt((CALLED,), LATER))
    assert answer(said(WATER), again, tools=TOOLS) == (Say(texts.MAY_BE_SET),)
    torn = did(ADD_WATER, "interrupted", refused=True)
    assert answer(said(WATER), *torn, again, tools=TOOLS) == (Say(texts.MAY_BE_SET),)
    done = did(ADD_WATER, SET)
    assert answer(said(WATER), *done, again, tools=TOOLS) == (
        Say("Reminder set: drink water, today 10:35."),
    )
    words = [OwnerMessage(InputId("i"), "web", LATER, "remind me in 20 minutes to drink water")]
    never_taken = said(continued_prompt((CALLED,), LATER, again=words))
    assert answer(never_taken, tools=TOOLS) == (Say(texts.MAY_BE_SET),)


def test_after_a_restart_that_cut_off_nothing_it_is_set() -> None:
    again = said(continued_prompt((), LATER))
    assert answer(said(WATER), again, tools=TOOLS) == (ADD_WATER,)


def test_what_stands_for_a_quote_or_a_file_is_asked_for() -> None:
    photo = Attachment("bill.pdf", "downloads/bill.pdf", "application/pdf", 9)
    pay, pay_it = (
        OwnerMessage(InputId("i"), "web", LATER, f"remind me in 5 minutes to {task}",
                     attachments=(photo,))
        for task in ("pay the rent", "pay this bill")
    )  # fmt: skip
    (part,) = answer(said(owner_prompt([pay], LATER)), tools=TOOLS)
    assert isinstance(part, CallTool)
    assert answer(said(owner_prompt([pay_it], LATER)), tools=TOOLS) == (Say(texts.SAY_WHAT),)


@pytest.mark.parametrize("tag", ["[button]\n", ""])
def test_buttons_can_set_reminders_too(tag: str) -> None:
    assert answer(said(f"{tag}{WATER}"), tools=TOOLS) == (ADD_WATER,)


# The phrases that the texts suggest are understood: each leads to a tool call or a list.
EXAMPLES = sorted(
    {
        example
        for text in vars(texts).values()
        if isinstance(text, str)
        for example in re.findall(
            r"`((?:remind me|every|what is coming|list my|cancel) [^`]+)`", text
        )
        if "remind" in example or "ask" in example or not example.startswith("every")
    }
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_in_the_texts_works(example: str) -> None:
    (part,) = step(example)
    assert isinstance(part, CallTool)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("call me Ada", {"user_name": "Ada"}),
        ("Please call me Ada Lovelace.", {"user_name": "Ada Lovelace"}),
        ("my name is ada", {"user_name": "ada"}),
        ("your name is Max", {"bot_name": "Max"}),
        ("I will call you Max!", {"bot_name": "Max"}),
    ],
)
def test_a_name_is_kept_and_said_back(text: str, names: dict[str, str]) -> None:
    tools = (*TOOLS, UPDATE_NAMES)
    call = CallTool(UPDATE_NAMES, names)
    assert answer(said(text), tools=tools) == (call,)
    (name,) = names.values()
    confirmed = texts.owner_named(name) if "user_name" in names else texts.bot_named(name)
    assert answer(said(text), *did(call, "From now on."), tools=tools) == (Say(confirmed),)
    assert answer(said(text), tools=TOOLS) == (Say(texts.NOT_HERE),)


@pytest.mark.parametrize(
    "text",
    [
        *("call me back", "call me tomorrow", "call me Monday", "call me at 9", "call me a taxi"),
        *("call me never", "what is my name", "your name is", "call me Ada, then wake me at 7"),
    ],
)
def test_what_gives_no_name_changes_none(text: str) -> None:
    (part,) = answer(said(text), tools=(*TOOLS, UPDATE_NAMES))
    assert not isinstance(part, CallTool) or part.name != UPDATE_NAMES


@pytest.mark.parametrize(
    ("words", "zone"),
    [
        ("I am in Tokyo", "Asia/Tokyo"),
        ("I'm in New York this week.", "America/New_York"),
        ("I am now in Lisbon until Friday", "Europe/Lisbon"),
        ("set my time zone to Asia/Kolkata", "Asia/Kolkata"),
        ("Please change my timezone to Berlin", "Europe/Berlin"),
    ],
)
def test_whoever_travels_is_given_the_command(words: str, zone: str) -> None:
    assert answer(said(words), tools=TOOLS) == (Say(texts.time_zone(zone)),)
    assert f"`/config timezone {zone}`" in texts.time_zone(zone)


def test_a_place_without_a_time_zone_is_no_journey() -> None:
    (part,) = answer(said("I am in bed"), tools=TOOLS)
    assert part == Say(texts.NOT_UNDERSTOOD)

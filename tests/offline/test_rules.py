"""The offline model does what it can, and says what it is."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slash_commands import COMMANDS

from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.prompts.prompt_context import FOR_MAIN, owner_prompt, updates_block
from ollim_bot.kernel.prompts.turn_prompts import continued_prompt
from ollim_bot.kernel.values.chat import Attachment
from ollim_bot.kernel.values.inbox import InputId, OwnerMessage, ToolCalled
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates
from ollim_bot.offline import texts
from ollim_bot.offline.rules import PING, REPORT, OfflineModel
from ollim_bot.offline.server import Block, CallTool, Message, ModelRequest, Part, Say
from ollim_bot.offline.situation import read_prompt

STAMP = "[2026-02-24 Tue 10:15 AM PST]\n"
NEWS = "RECENT BACKGROUND UPDATES (mention key findings in your response)\n- (5m ago) 3 mails.\n\n"
CLICKED = NEWS.replace("3 mails.", "Known to the owner: paused: Morning.")
SEEN = NEWS.replace("mention key findings in your response", "read-only — main will see these")
QUOTE = "> hello\n> again\n\nAttached files:\n- downloads/a.pdf\n\n"
PREAMBLE = "Free text is discarded.\n\nbudget: 3/5\n\n"
REMINDER = f"[reminder-bg:a1]\n{STAMP}{SEEN}{PREAMBLE}drink water"
TOOLS = (PING, REPORT)


def said(*words: str) -> Message:
    return Message("user", tuple({"type": "text", "text": text} for text in words))


def called(tool: str, result: str = "ok", *, refused: bool = False) -> tuple[Message, Message]:
    call: Block = {"type": "tool_use", "id": tool, "name": tool, "input": {}}
    answer: Block = {
        "type": "tool_result",
        "tool_use_id": tool,
        "content": result,
        "is_error": refused,
    }
    return Message("assistant", (call,)), Message("user", (answer,))


def answer(*messages: Message, tools: tuple[str, ...] = ()) -> tuple[Part, ...]:
    return OfflineModel().reply(ModelRequest("m", messages, tools=tools)).parts


def ping(text: str) -> tuple[Part, ...]:
    return (CallTool(PING, {"message": text}),)


def report(text: str) -> tuple[Part, ...]:
    return (CallTool(REPORT, {"message": text}),)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hi", texts.GREETING),
        ("Hello!", texts.GREETING),
        ("hey, Ollim", texts.GREETING),
        ("good  morning", texts.GREETING),
        ("thank you so much!", texts.THANKS),
        ("Good night.", texts.FAREWELL),
        ("what can you do?", texts.WHAT_I_CAN_DO),
        ("help", texts.WHAT_I_CAN_DO),
        ("who are you", texts.WHAT_I_AM),
        ("Are you really an AI?", texts.WHAT_I_AM),
        ("is this Claude?", texts.WHAT_I_AM),
        ("which model is this", texts.WHAT_I_AM),
        ("are you a language model?", texts.WHAT_I_AM),
        ("is this a real person, at the door of the bank", texts.NOT_UNDERSTOOD),
        ("plan my week", texts.NOT_UNDERSTOOD),
        ("hi, can you plan my whole week", texts.NOT_UNDERSTOOD),
        ("", texts.NOT_UNDERSTOOD),
        (f"{STAMP}\nhello", texts.GREETING),
        (f"{STAMP}\n{QUOTE}thanks", texts.THANKS),
        (f"{STAMP}{SEEN}hello", texts.GREETING),
        (f"{STAMP}{CLICKED}thanks", texts.THANKS),
        (f"{STAMP}{NEWS}thanks", f"Meanwhile:\n- 3 mails.\n\n{texts.THANKS}"),
        ("[button] what can you do", texts.WHAT_I_CAN_DO),
        (f"[fork-started] Topic: taxes.\n{STAMP}", texts.fork_about("taxes")),
        ("[fork-started] No topic: wait for the owner.", texts.FORK_WITHOUT_TOPIC),
        ("[fork-started] [stale-fork: 2h ago] From an earlier session.", texts.FORK_RESUMED),
        ("[fork-timeout] Idle for 10 minutes.", texts.FORK_IDLE),
        ("[system] The night was quiet.", texts.PROGRAM_SPOKE),
        ("what time is it", texts.NO_CLOCK),
        (f"{STAMP}\nwhat time is it", "It is 10:15 on Tue 24 Feb 2026 (PST)."),
        ("[2026-02-24 Tue 12:05 AM +03]\n\nthe time", "It is 0:05 on Tue 24 Feb 2026 (+03)."),
        ("[2026-02-24 Tue 12:05 PM UTC]\n\nthe time", "It is 12:05 on Tue 24 Feb 2026 (UTC)."),
        ("[2026-02-24 Tue 03:05 PM UTC]\n\nthe time", "It is 15:05 on Tue 24 Feb 2026 (UTC)."),
        ("[2026-99-24 Tue 12:05 AM UTC]\n\nwhat time is it", texts.NO_CLOCK),
        ("what did I say before?", texts.NOTHING_SAID),
        (f"{STAMP}\n> hello\n\nis this an AI?", texts.NOT_UNDERSTOOD),
        (f"{STAMP}\n> hello\n\nwho are you?", texts.WHAT_I_AM),
        ("[system] The program was restarted in the middle of your answer.", texts.PROGRAM_SPOKE),
        (f"[routine:b2] [late: was scheduled for 9:00 AM, running now]\n{STAMP}\nstretch",
         texts.routine_due("stretch")),
        (f"[reminder:a1]\n{STAMP}\ndrink water", texts.reminder_due("drink water")),
        (REMINDER, texts.reminder_due("drink water")),
        (f"[routine-bg:b2]\n{STAMP}\n{PREAMBLE}stretch", texts.routine_not_done("stretch")),
        ("[webhook:github-ci]\ndata", texts.webhook_not_read("github-ci")),
    ],
)  # fmt: skip
def test_without_tools_it_answers_in_words(words: str, expected: str) -> None:
    assert answer(said(words)) == (Say(expected),)


def test_a_reminder_is_pinged_then_reported_then_done() -> None:
    turn = [said(REMINDER)]
    assert answer(*turn, tools=TOOLS) == ping("drink water")
    turn += called(PING)
    assert answer(*turn, tools=TOOLS) == report(texts.reminder_told("drink water"))
    turn += called(REPORT)
    assert answer(*turn, tools=TOOLS) == (Say(texts.DONE),)


def test_a_refused_ping_is_reported_with_its_reason() -> None:
    turn = [said(REMINDER), *called(PING, "no budget left", refused=True)]
    assert answer(*turn, tools=TOOLS) == report(
        texts.reminder_not_told("drink water", "no budget left")
    )


def test_nothing_is_tried_twice_however_often_it_is_sent_back() -> None:
    turn = [said(REMINDER), *called(PING), *called(REPORT, "not available", refused=True)]
    turn.append(said("Stop hook feedback:\nYou must call report_updates."))
    assert answer(*turn, tools=TOOLS) == (Say(texts.DONE),)


def test_the_next_turn_starts_afresh() -> None:
    turn = [said(REMINDER), *called(PING), *called(REPORT), said(REMINDER)]
    assert answer(*turn, tools=TOOLS) == ping("drink water")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (f"[routine-bg:b2]\n{STAMP}\n{PREAMBLE}stretch", texts.routine_not_done("stretch")),
        ("[webhook:github-ci]\ndata", texts.webhook_not_read("github-ci")),
        ("[fork-timeout] Idle.", texts.FORK_IDLE),
        ("[system] Call report_updates now, nothing else.", "Nothing was said in it."),
    ],
)
def test_what_it_cannot_do_is_reported_and_nobody_is_pinged(words: str, text: str) -> None:
    assert answer(said(words), tools=TOOLS) == report(text)
    assert answer(said(words), *called(REPORT), tools=TOOLS) == (Say(texts.DONE),)


def test_the_summary_of_a_side_conversation_is_what_the_owner_said_in_it() -> None:
    words = ("hello", "[fork-started] Topic: Rome. Answer it.", "by train?", "the night one")
    turn = [said(each) for each in (*words, "[system] Call report_updates now.")]
    assert answer(*turn, tools=TOOLS) == report("Said in it: “by train?”, “the night one”.")


@pytest.mark.parametrize(
    "remark",
    [
        "Stop hook feedback:\nYou must call report_updates.",
        "[Request interrupted by user]",
        "<local-command-stdout>Compacted </local-command-stdout>",
        "<command-name>/compact</command-name>",
    ],
)
def test_a_prompt_is_found_before_and_behind_remarks_of_the_engine(remark: str) -> None:
    assert answer(said(remark, "thanks")) == (Say(texts.THANKS),)
    assert answer(said("thanks", remark)) == (Say(texts.THANKS),)


def test_news_is_told_once_in_a_turn() -> None:
    turn = [said(f"{STAMP}{NEWS}thanks"), *called("Read")]
    assert answer(*turn) == (Say(texts.THANKS),)


NOW = datetime(2026, 2, 24, 10, 20, tzinfo=timezone(timedelta(hours=-8), "PST"))
ASKED = f"{STAMP}{NEWS}what time is it?"
PING_MADE = ToolCalled(NOW, TurnId("t"), PING, "drink water")


def message(text: str, **more: object) -> OwnerMessage:
    return OwnerMessage(InputId("i"), "web", NOW, text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("tools", [(), (PING_MADE,)])
def test_an_answer_that_was_cut_off_is_given_again(tools: tuple[ToolCalled, ...]) -> None:
    torn = Message("assistant", ({"type": "text", "text": "It is"},))
    again = said(continued_prompt(tools, NOW))
    expected = (Say("Meanwhile:\n- 3 mails.\n\nIt is 10:20 on Tue 24 Feb 2026 (PST)."),)
    assert answer(said("hi"), said(ASKED), torn, again) == expected
    assert answer(said("hi"), said(ASKED), again, again) == expected


def test_a_message_that_comes_again_after_a_restart_is_answered() -> None:
    again = said(continued_prompt((PING_MADE,), NOW, again=[message("thanks")]))
    assert answer(said(f"{STAMP}\nhi"), again) == (Say(texts.THANKS),)
    asked = said(continued_prompt((), NOW, again=[message("what did I say before?")]))
    assert answer(said(f"{STAMP}\nhi"), asked) == (Say(texts.said_before(("hi",))),)


def test_news_that_came_with_the_restart_is_told_too() -> None:
    block = updates_block(PendingUpdates((PendingUpdate(NOW, "Rain.\nWind."),)), FOR_MAIN, NOW)
    again = said(continued_prompt((), NOW, updates=block))
    assert answer(said(f"{STAMP}\nthanks"), again) == (
        Say(f"Meanwhile:\n- Rain.\n  Wind.\n\n{texts.THANKS}"),
    )


def test_what_may_be_asked_about_a_file_is_not_taken_for_a_question_about_the_model() -> None:
    photo = Attachment("who.png", "downloads/who.png", "image/png", 9)
    asked = owner_prompt([message("is this a real person?", attachments=(photo,))], NOW)
    assert answer(said(asked)) == (Say(texts.NOT_UNDERSTOOD),)
    thanked = owner_prompt([message("thanks for this", attachments=(photo,))], NOW)
    assert answer(said(thanked)) == (Say(texts.THANKS),)


def test_messages_that_waited_together_are_answered_together() -> None:
    asked = owner_prompt([message("hello"), message("who are you?"), message("thanks")], NOW)
    assert answer(said(asked)) == (Say(texts.WHAT_I_AM),)


def test_only_the_owners_words_are_remembered() -> None:
    talk = [said(f"{STAMP}\ntea\nor  coffee"), said(REMINDER), said(f"{STAMP}\n{'word ' * 60}")]
    remembered = texts.said_before(("tea or coffee", f"{('word ' * 60)[:119]}…"))
    assert answer(*talk, said("what did I say before?")) == (Say(remembered),)


def test_what_was_said_before_a_compaction_is_remembered() -> None:
    summary = texts.talk_so_far(("tea", "coffee"))
    continued = (
        "This session is being continued from a previous conversation that ran out of context."
        f"\n\nSummary:\n{summary}\n\nContinue the conversation.\n- not this"
    )
    talk = [said(continued, f"{STAMP}\nwater"), said("what did I say before?")]
    assert answer(*talk) == (Say(texts.said_before(("tea", "coffee", "water"))),)


def test_a_compaction_keeps_the_last_words_of_the_owner() -> None:
    history = [said(f"{STAMP}\nword {number}") for number in range(9)]
    request = said("Your task is to create a detailed summary in a <summary> block.")
    (summary,) = answer(*history, request, tools=TOOLS)
    assert isinstance(summary, Say)
    assert "<summary>\nThe owner said last:\n- word 4\n" in summary.text
    assert "- word 8\n</summary>" in summary.text
    assert "detailed summary" not in summary.text


@given(st.text())
def test_whatever_is_said_gets_an_answer_in_words(text: str) -> None:
    (part,) = answer(said(text))
    assert isinstance(part, Say)
    assert part.text


def test_a_task_of_several_paragraphs_is_taken_whole() -> None:
    body = "Drink water.\n\nThen stretch.\n\nYOUR TASK:\nis not a mark in here."
    prompt = f"[reminder-bg:a1]\n[2026-11-15 Sun 09:00 AM CET]\n\nRules.\n\nYOUR TASK:\n\n{body}"
    assert read_prompt(prompt).task == body


def test_what_it_can_do_leads_to_the_help_with_all_commands() -> None:
    assert "`/help`" in texts.ABILITIES
    assert "help" in {each.name for each in COMMANDS}


def test_commands_are_named_as_they_can_be_typed_here() -> None:
    request = ModelRequest("m", (said("how do I connect a real model?"),))
    (part,) = OfflineModel(".venv/bin/ollim-bot").reply(request).parts
    assert isinstance(part, Say)
    assert "In a terminal, `.venv/bin/ollim-bot setup model` connects" in part.text

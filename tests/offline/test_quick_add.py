"""A line that adds something is read by the rules that read a message."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from ollim_bot.offline.quick_add import read_line
from ollim_bot.offline.vocabulary import AddTask, Remind, RoutineWish

NOW = datetime(2026, 11, 17, 14, 3, tzinfo=ZoneInfo("Europe/Berlin"))

# Each line with the one way to read it.
MEANT = {
    "call mum tomorrow 9am": Remind("call mum", "tomorrow 9am"),
    "tomorrow at 9 call the dentist": Remind("call the dentist", "tomorrow at 9"),
    "dentist tomorrow at 9am": Remind("dentist", "tomorrow at 9am"),
    "meeting with bob friday 3pm": Remind("meeting with bob", "friday 3pm"),
    "call mum 8 tonight": Remind("call mum", "8 tonight"),
    "call mum at 13h30": Remind("call mum", "at 13h30"),
    "meet sam 3 fridays from now at noon": Remind("meet sam", "3 fridays from now at noon"),
    "remind me first thing tomorrow to pay rent": Remind("pay rent", "first thing tomorrow"),
    "set a timer to go off in 5 minutes": Remind("the timer is over", "in 5 minutes"),
    "can you set the timer to 20 minutes": Remind("the timer is over", "in 20 minutes"),
    "25 minutes": Remind("the timer is over", "in 25 minutes"),
    "put the kettle on in 1 minute": Remind("put the kettle on", "in 1 minute"),
    "meds 8am & 8pm daily": RoutineWish("remind me of meds", "0 8,20 * * *"),
    "is the oven off in 10 minutes?": Remind("is the oven off", "in 10 minutes"),
    "water the plants every monday at 9": RoutineWish("remind me to water the plants", "0 9 * * 1"),
    "gym mondays 18:00": RoutineWish("remind me of gym", "0 18 * * 1"),
    "milk": AddTask("milk"),
    "+ milk": AddTask("milk"),
    "+ milk tomorrow": AddTask("milk", "tomorrow"),
    "+ call mum tomorrow 9am": AddTask("call mum tomorrow 9am"),
    "remind me to breathe": AddTask("breathe"),
    "read chapter 5": AddTask("read chapter 5"),
    # What changes or asks in the conversation is a task here.
    "cancel the milk reminder": AddTask("cancel the milk reminder"),
    "undo": AddTask("undo"),
    "change my adderall to 8am": AddTask("change my adderall to 8am"),
    "move it to 9am": AddTask("move it to 9am"),
    "make it 4pm": AddTask("make it 4pm"),
    "don't disturb me after 10pm": AddTask("don't disturb me after 10pm"),
    "/clear": AddTask("/clear"),
    "/clear tomorrow 9am": Remind("/clear", "tomorrow 9am"),
}
# Each line with the names of the ways of which one has to be pressed, and a part of the reason.
DOUBTFUL = {
    "call mum at half past seven": (["7:30am", "7:30pm", "task"], "can be read two ways"),
    "call mum 13h30": (["in 13h30", "13:30", "task"], "is a length of time"),
    "thursday at 8 GMT call mum": (["task"], ""),
    "remind me to call mum next month at 6pm": (["task"], "Write the moment first"),
    "call mum between 5 and 6pm": (["task"], "is not one moment"),
    "8am & 8pm take my pill": (["every day 8am and 8pm", "task"], "more than one moment"),
    "add eggs to my list and remove cheese": (["task"], "more than one thing"),
    "dentist tomorrow 9": (["tomorrow at 9", "task"], "leaves open what 9 is"),
    "buy milk tomorrow": (["tomorrow 9am", "tomorrow 3pm", "task"], "has no time of day"),
    "rent on the 31 november at 9am": (
        ["on the 30 november at 9am", "on the 28 november at 9am", "task"],
        "names a day that does not exist",
    ),
    "read chapter 5 tomorrow 9am": (["tomorrow 9am", "task"], "Is `5` part of the time?"),
    "gym at 6 every tue until christmas": (
        ["every tue at 6am until christmas", "every tue at 6pm until christmas", "task"],
        "can be read two ways",
    ),
    "gym every tuesday at 6pm until easter": (["task"], "Name the last day"),
    "Anna 50th birthday on 5 dec": (["on 5 dec 9am", "on 5 dec 3pm", "task"], "no time of day"),
    "tomorow 9am call mum": (["9am", "task"], "Is that what you mean?"),
    "email Ann about monday meeting": (["task"], "Write the moment first"),
    "tomorrow 9am": ([], "What shall I remind you of"),
    "+": ([], "Write what to add"),
    "x" * 401: ([], "too long"),
}


def test_a_line_is_a_reminder_a_routine_or_a_task() -> None:
    found = {line: [*read_line(line, NOW).ways] for line in MEANT}
    assert found == {line: [("", meant)] for line, meant in MEANT.items()}
    assert not any(read_line(line, NOW).problem for line in MEANT)


def test_a_line_that_can_be_read_in_other_ways_says_why_and_names_them() -> None:
    for line, (names, why) in DOUBTFUL.items():
        read = read_line(line, NOW)
        assert [each.name for each in read.ways] == names, line
        assert why in read.problem, line
        assert "Nothing was done" not in read.problem, line

"""The texts of the offline model."""

from __future__ import annotations

import re
from datetime import datetime

from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time
from ollim_bot.kernel.base.text import shortened

REMIND_ME = re.compile(r"remind me (?:to|that|about|of) (?P<of>.+)", re.IGNORECASE | re.DOTALL)

NO_LANGUAGE_MODEL = "I am not a language model: I answer by a few fixed rules."

NO_KEYS_HERE = "Do not send me a key or a token: what is written here is kept."

HOW_TO_CONNECT = f"""\
In a terminal, `ollim-bot setup model` connects a real model, which takes my place after `/restart`:
- a Claude account
- an Anthropic API key
- a server of your own that speaks the Messages API, such as Ollama

{NO_KEYS_HERE}"""

ABILITIES = """\
What works here:
- reminders: `remind me in 20 minutes to drink water`, `call mum tomorrow at 9`, `wake me at 7am`
- routines: `every weekday at 9 ask me for my plan`, `every day at 8pm remind me to stretch`
- `what is on today`, `what is on tomorrow`, `my week`, also from your calendars
- `what is coming up`, `list my reminders`, `list my routines`
- `snooze the rent reminder by 1 hour`, `pause the meds routine`, `cancel the water reminder`
- tasks: `add a task: buy a card, due friday`, `what are my tasks`, `done with the card`
- names: `call me Ada`, `your name is Max`
- small talk: who I am, what time it is, what you said before, how to connect a real model
- commands: `/help` says what they are for"""

GREETING = f"Hello. {NO_LANGUAGE_MODEL} Ask what I can do."
THANKS = "You are welcome."
FAREWELL = "See you."
WHAT_I_AM = (
    f"I am the offline model of ollim-bot. {NO_LANGUAGE_MODEL} Ask how to connect a real model."
)
WHAT_I_CAN_DO = f"{NO_LANGUAGE_MODEL} For anything else, connect a real model.\n\n{ABILITIES}"
NO_CLOCK = "I cannot see a clock here."
NOTHING_SAID = "I know of nothing that you said before this."
NOTHING_YESTERDAY = "I know of nothing that you said yesterday. `ollim-bot history` has it all."
NOT_UNDERSTOOD = (
    "I did not understand that. Nothing was done. `/today` shows what is open, `/tasks` your "
    "lists, and `what can you do` what I understand."
)
NOT_UNDERSTOOD_AGAIN = (
    "I did not understand this either. Nothing was done. `/help` says what each command is for; "
    "`ollim-bot setup model` in a terminal connects a model that reads any sentence."
)
NO_NOTES = "I keep no notes, but tasks. Nothing was done. `/tasks` shows them."
ABOUT_YOU = (
    "I remember no facts about you by myself. Nothing was done. **About me** on the page is where "
    "you write what a real model shall know."
)
QUIET_AT_NIGHT = (
    "Quiet hours do that every night. Nothing was done yet: `/config quiet_hours 22:00-07:00` sets "
    "them, with your own times."
)
BREAK_DOWN = (
    "**Break it down** is a button on the cards of `/tasks` and `/today`. Without a real model you "
    "type the steps there yourself. Nothing was done."
)
NO_PLACES = (
    "I do not know where you are. Nothing was done. Say a time instead, such as "
    "`remind me at 18:00 to call mum`."
)
ASK_ME = (
    "I cannot look whether it is so, but I can ask you. Nothing was done. Say when, as in "
    "`remind me at 18:00: is the flight booked`."
)
SAME_TIME = (
    "I am not sure which reminder comes again. Nothing was done. Press **1 h** or **Tomorrow "
    "9:00** on its card, or say `snooze the rent reminder until tomorrow 9am`."
)
BEFORE_WHAT = (
    "I am not sure before what. Nothing was done. Say the day itself, such as `thursday 8pm`."
)
SAID_LAST = "The owner said last:"

FORK_WITHOUT_TOPIC = "What is said here stays apart from the main conversation, unless you keep it."
FORK_RESUMED = "This side conversation goes on from what you replied to."
FORK_IDLE = "The side conversation was idle; nothing in it is left to do."
PROGRAM_SPOKE = "Noted."
DONE = "Done."

NOTHING_DONE = "Nothing was done."
MOMENT_FIRST = (
    f"I am not sure when you mean. {NOTHING_DONE} Write the moment first, as in "
    "`remind me tomorrow at 9 to call mum`."
)
SAY_WHAT = (
    f"I do not know what that is about. {NOTHING_DONE} Say it in full, as in "
    "`remind me in 20 minutes to drink water`."
)
LINK = (
    f"I am not sure where the moment ends. {NOTHING_DONE} Put `to` behind it, as in "
    "`remind me in 20 minutes to drink water`."
)
NOT_YEARLY = (
    f"I cannot repeat something every year yet. {NOTHING_DONE} Set it once, as in "
    "`remind me on 3 march at 9am to call my sister`."
)
DOUBT = (
    f"I am not sure that I understand this: I know no `not`, `if` or `maybe`. {NOTHING_DONE} "
    "Write it without."
)
ONE_AT_A_TIME = (
    f"That may be more than one thing. {NOTHING_DONE} Write one at a time, each on its own."
)
ASKED_OR_TOLD = (
    f"I am not sure whether you ask or want it done. {NOTHING_DONE} "
    "Write it without the question mark."
)
WHICH_ONE = f"I am not sure which one you mean. {NOTHING_DONE} `what is coming up` shows them all."
RHYTHM = (
    f"I am not sure how often, or at what time. {NOTHING_DONE} I know `every day at 8am`, "
    "`every weekday at 9`, `every monday and thursday at 18:30`, `every 2 hours`."
)
RHYTHM_FIRST = (
    f"I am not sure how often you mean. {NOTHING_DONE} Write that first, as in "
    "`every monday at 9 remind me to plan the week`."
)
ORDER = (
    f"I am not sure what I should do then. {NOTHING_DONE} Write it as in "
    "`every day at 8am remind me to drink water` or `every weekday at 9 ask me for my plan`."
)
WAITS_EACH_TIME = "Each time, it waits for your answer."
# A card shows what was set, and offers the morning.
COMES_IN_THE_QUIET = "It comes then, in the quiet, unless you move it."
ONLY_ITS_WORDS = "When it is due I say these words; more than that needs a real model."
MAY_BE_SET = (
    "The program was restarted in the middle of this, so it may be set already. "
    "`what is coming up` shows it."
)
MAY_BE_ADDED = (
    "The program was restarted in the middle of this, so it may be there already. "
    "`what are my tasks` shows it."
)
NOT_HERE = f"I cannot do that here. {NOTHING_DONE}"
TODAY = "Today:"
TOMORROW = "Tomorrow:"
THE_WEEK = "The next seven days:"
NEXT_WEEK = "Next week:"
UPCOMING = "Coming up:"
NO_TITLE = "no title"
NOTHING_TODAY = "Nothing more today. `what is coming up` shows what comes later."
NOTHING_THIS_WEEK = "Nothing in the next seven days. `what is coming up` shows what comes later."
NOTHING_NEXT_WEEK = "Nothing next week. `what is coming up` shows what comes later."
NOTHING_UPCOMING = "Nothing is coming up."
NOTHING_TOMORROW = "Nothing tomorrow. `what is coming up` shows what comes later."
REMINDERS = "Reminders:"
ROUTINES = "Routines:"
NO_REMINDERS = "There are no reminders."
NO_ROUTINES = "There are no routines."
TASKS = "Tasks:"
NO_TASKS = "No task is open. Write `add a task: buy a card`."
SAY_WHICH_TASK = f"What is the task? {NOTHING_DONE} Write it as in `add a task: buy a card`."
SETTLED = "Noted."
MOVED = "Moved."
WHICH = "Which one?"
IS_IT_RIGHT = "Is that right?"
WHAT = f"What shall I remind you of? {NOTHING_DONE}"
SET_IT = "Set it"
EDIT = "Change it"
PRESS_EDIT = "Press Edit on the card, or open its page."
PRESS_OR_WRITE = "Press one, or say it in words."
WHICH_OF_THEM = f"Which of them? {NOTHING_DONE}"
DROPPED = f"All right. {NOTHING_DONE}"
PRESS_QUIET = "Press its button, or write `/quiet 2h`."
UNTIL_WHEN = f"Until when? {NOTHING_DONE} Say a time, such as `in 20 minutes`."
TIMER_OVER = "the timer is over"
NOTHING_TO_UNDO = "I know of nothing that I could undo. Cards have an Undo for 10 minutes."
OVERWHELMED = (
    "That is a lot at once. `/today` shows what is open now: pick one thing and leave the rest."
)
DESPAIR = (
    "I am sorry that it is so hard now. I am only a program and cannot help with this, but people "
    "can: call someone you trust, a crisis line, or your local emergency number, now."
)
DID_I = "`/today` shows what you have answered today, and what is still open."
TASK_DONE = "Which reminder? Reply to its card, or press its button."


def set_up(moment: datetime | None, zone: str) -> str:
    """What the owner can set by a line of their own, and where the rest is."""
    clock = "" if moment is None else f" (it is {clock_time(moment)} {zone} now)"
    return f"""\
I answer by a few fixed rules, so write what you want to set, one line at a time:
- your name: `call me Ada`
- my name: `your name is Max`
- your time zone{clock}: `/config timezone Europe/Berlin`
- a first routine: `every day at 8:30 remind me to look at my day`

In a terminal, `ollim-bot setup` asks for the rest: Claude, Discord, a calendar, the start with \
the machine. {NO_KEYS_HERE}"""


def time_zone(name: str) -> str:
    return f"`/config timezone {name}` sets your time zone at once."


def owner_named(name: str) -> str:
    return f"From now on I call you {name}."


def bot_named(name: str) -> str:
    return f"From now on I am {name}."


def calendar_is_old(calendar: str, problem: str) -> str:
    return f"{calendar} may have changed: {problem}"


def calendars_unseen(reason: str) -> str:
    return f"I could not look at the calendars: {shortened(' '.join(reason.split()), 200)}"


def what_at(when: str) -> str:
    return f"What shall I remind you of, {when}? {NOTHING_DONE}"


def what_with(title: str) -> str:
    return f"“{title}”: what shall I do with it? {NOTHING_DONE}"


def confirmed(whole: str) -> str:
    return f"Shall I set this: `{whole}`? {NOTHING_DONE} `yes` sets it."


def when(task: str) -> str:
    return f"When? {NOTHING_DONE} Say the time for “{task}”, such as `tomorrow 9am`."


def all_of_it(title: str) -> str:
    return f"The task is “{title}”. Is all of it done? {NOTHING_DONE}"


def no_counting_back(event: str, task: str) -> str:
    return (
        f"I cannot count back from {event}. {NOTHING_DONE} "
        f"Say the time for “{task}”, such as `tomorrow 9am`."
    )


def when_in(month: str, task: str) -> str:
    return f"When in {month}? {NOTHING_DONE} Say the day and the time for “{task}”: `5th at 9am`."


def left_beside(word: str) -> str:
    return (
        f"I do not know what `{word}` means beside the time. {NOTHING_DONE} "
        "Say the whole time once more, such as `tomorrow 9am`."
    )


def number_beside(number: str, whole: str) -> str:
    return f"Is `{number}` part of the time? {NOTHING_DONE} If not, `yes` sets this: `{whole}`."


def end_unread(end: str) -> str:
    return (
        f"I do not know the days of `{end}`. {NOTHING_DONE} Name the last day, such as "
        "`until 25 dec`, or leave it out."
    )


def more_moments(phrase: str, daily: str) -> str:
    return f"`{phrase}` is more than one moment. Do you mean `{daily}`? {NOTHING_DONE}"


def what_of(title: str) -> str:
    return f"“{title}”: done, or later? {NOTHING_DONE}"


def which_half(phrase: str, readings: list[str]) -> str:
    either = " or ".join(f"`{each}`" for each in readings)
    return f"`{phrase}` can be read two ways: {either}. {NOTHING_DONE}"


def which_day(title: str, moments: list[str]) -> str:
    either = " or ".join(f"`{each}`" for each in moments)
    return f"“{title}”: {either}? {NOTHING_DONE}"


def stop_how(subject: str) -> str:
    return (
        f"Shall I pause {subject}, which you can resume, or cancel it? {NOTHING_DONE} "
        "I cannot pause it for a length of time."
    )


def edit_routine(title: str) -> str:
    which = f"“{title}”" if title else "it"
    return (
        f"By words I can only move {which} to one other time of day, as in `make it 9am`. "
        f"{NOTHING_DONE} **Edit** changes all of it on the page."
    )


def nothing_open(subject: str) -> str:
    return f"I find nothing open about {subject}. {NOTHING_DONE} `/today` shows what is open."


def quiet_until(end: datetime) -> str:
    return f"Quiet until {clock_time(end.replace(second=0, microsecond=0))}"


def quiet(choices: list[str]) -> str:
    """Where there are no buttons, the command does the same."""
    end = choices[0].removeprefix("Quiet ")
    return f"Press it, and only what must come does until then. `/quiet {end}` does the same."


def when_is(event: str) -> str:
    return f"When is {event} for you? {NOTHING_DONE} Say a time, such as `13:30`."


def no_single_skip(subject: str) -> str:
    return (
        f"I cannot skip a single time of {subject}. {NOTHING_DONE} "
        "`/routines` has a button for that."
    )


def unclear_moment(reason: str) -> str:
    return f"{reason} {NOTHING_DONE}"


def reminder_set(task: str, when: str) -> str:
    return f"Reminder set: {task}, {when}."


def not_set(reason: str) -> str:
    return f"It was not set: {reason}"


def not_seen(reason: str) -> str:
    return f"I could not look: {reason}"


def not_changed(reason: str) -> str:
    return f"It was not changed: {reason}"


def until_when(subject: str) -> str:
    return f"Until when? {NOTHING_DONE} Write `snooze {subject} until tomorrow 9am`."


def cancelled(noun: str, title: str, when: str) -> str:
    return f"{noun.capitalize()} cancelled: {title}, {when}."


def several_match(listed: str) -> str:
    return f"Several could be meant. {NOTHING_DONE} Write the one:\n{listed}"


def none_matches(noun: str, subject: str) -> str:
    about = f" about {subject}" if subject else ""
    return f"There is no {noun}{about}. {NOTHING_DONE} `what is coming up` shows them all."


def no_such_task(subject: str) -> str:
    return f"There is no open task about {subject}. {NOTHING_DONE} `what are my tasks` shows them."


def updates_to_mention(updates: tuple[str, ...]) -> str:
    return "\n".join(["Meanwhile:", *(f"- {update}" for update in updates)])


def fork_report(said: tuple[str, ...]) -> str:
    """The summary of a side conversation: what the owner said in it."""
    quoted = ", ".join(f"“{each}”" for each in said)
    return f"Said in it: {quoted}." if quoted else "Nothing was said in it."


def fork_about(topic: str) -> str:
    apart = "What you write here stays apart."
    return f"This side conversation is about: {topic}. {NO_LANGUAGE_MODEL} {apart}"


def reminder_due(task: str) -> str:
    return f"Reminder: {task}"


def routine_due(task: str) -> str:
    reminded = REMIND_ME.fullmatch(task)
    return f"It is time: {reminded['of'] if reminded else task}"


def follow_up(task: str) -> str:
    return f"Again: {task}"


def reminder_told(task: str) -> str:
    return f"Reminded: {task}"


def reminder_not_told(task: str, reason: str) -> str:
    return f"Could not remind: {task} ({reason})"


def reminder_unsaid(task: str) -> str:
    return f"This was due, and no ping is allowed for it: {task}"


def routine_not_done(task: str) -> str:
    return f"A routine was due, but without a language model it could not be done: {task}"


def webhook_not_read(name: str) -> str:
    return (
        f"The webhook {name} was called, and without a language model nothing could judge it. "
        "`deliver: plain` in its file brings the words themselves."
    )


def time(moment: datetime, zone: str) -> str:
    day = f"{WEEKDAYS[moment.weekday()]} {moment.day} {MONTHS[moment.month - 1]} {moment.year}"
    return f"It is {clock_time(moment)} on {day} ({zone})."


def said_yesterday(said: tuple[str, ...]) -> str:
    return "\n".join(["You said yesterday:", *(f"- {text}" for text in said)])


def settled(title: str, how: str) -> str:
    return f"{title}: {how}. `undo` takes it back."


def reopened(title: str) -> str:
    return f"{title}: open again."


def which_item(titles: list[str], words: str) -> str:
    if len(titles) == 1:
        return f"Do you mean “{titles[0]}”: {words}? {NOTHING_DONE} `yes` does it."
    return f"Which one: {', '.join(f'“{title}”' for title in titles)}? {NOTHING_DONE}"


def how_long(title: str) -> str:
    return f"How long shall “{title}” wait? {NOTHING_DONE}"


def said_before(said: tuple[str, ...]) -> str:
    return "\n".join(["You said, the latest at the end:", *(f"- {text}" for text in said)])


def talk_so_far(said: tuple[str, ...]) -> str:
    lines = [f"- {text}" for text in said]
    return "\n".join([SAID_LAST, *lines]) if lines else "Nothing was said so far."

"""What the offline model says, in one place."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, clock_time

NO_LANGUAGE_MODEL = "I am not a language model: I answer by a few fixed rules."

HOW_TO_CONNECT = """\
A real model takes my place when ollim-bot is restarted after one of these:
- `ollim-bot auth login`, with a Claude account
- `ANTHROPIC_API_KEY=` and your key in `.env`
- `ANTHROPIC_BASE_URL=` and an address in `.env`, for a server that speaks the Messages API, such \
as Ollama on this machine

Do not send me a key: what is written here is kept."""

ABILITIES = """\
What works here:
- small talk: who I am, what time it is, what you said before, how to connect a real model
- commands: `/clear`, `/compact`, `/cost`, `/fork`, `/model`, `/thinking`, `/interrupt`, \
`/sessions`, `/resume`, `/config`, `/version`
- in a terminal, `ollim-bot reminder add -m "drink water" --in 20m` and `ollim-bot routine add` \
write reminders and routines down; nothing in this version delivers them yet"""

GREETING = f"Hello. {NO_LANGUAGE_MODEL} Ask what I can do."
THANKS = "You are welcome."
FAREWELL = "See you."
WHAT_I_AM = (
    f"I am the offline model of ollim-bot. {NO_LANGUAGE_MODEL} Ask how to connect a real model."
)
WHAT_I_CAN_DO = f"{NO_LANGUAGE_MODEL} For anything else, connect a real model.\n\n{ABILITIES}"
NO_CLOCK = "I cannot see a clock here."
NOTHING_SAID = "I know of nothing that you said before this."
NOT_UNDERSTOOD = (
    "I did not understand that, because I am not a language model and know only a few fixed rules. "
    f"Nothing was done.\n\n{ABILITIES}"
)
SAID_LAST = "The owner said last:"

FORK_WITHOUT_TOPIC = (
    "This fork is open. What is said here stays apart from the main conversation until you save it."
)
FORK_RESUMED = "This fork is open again. It goes on where it ended."
FORK_IDLE = "The fork was idle; nothing in it is left to do."
FORK_REPORT = "The fork ended. The offline model kept no notes of it."
PROGRAM_SPOKE = "Noted."
DONE = "Done."


def meanwhile(updates: tuple[str, ...]) -> str:
    return "\n".join(["Meanwhile:", *(f"- {update}" for update in updates)])


def fork_about(topic: str) -> str:
    return f"This fork is about: {topic}. {NO_LANGUAGE_MODEL} What you write here stays apart."


def reminder_due(task: str) -> str:
    return f"Reminder: {task}"


def routine_due(task: str) -> str:
    return f"It is time: {task}"


def reminder_told(task: str) -> str:
    return f"Reminded: {task}"


def reminder_not_told(task: str, reason: str) -> str:
    return f"Could not remind: {task} ({reason})"


def routine_not_done(task: str) -> str:
    return f"A routine was due, but without a language model it could not be done: {task}"


def webhook_not_read(name: str) -> str:
    return f"The webhook {name} was called, but without a language model it could not be handled."


def time(moment: datetime, zone: str) -> str:
    day = f"{WEEKDAYS[moment.weekday()]} {moment.day} {MONTHS[moment.month - 1]} {moment.year}"
    return f"It is {clock_time(moment)} on {day} ({zone})."


def said_before(said: tuple[str, ...]) -> str:
    return "\n".join(["You said, the latest at the end:", *(f"- {text}" for text in said)])


def talk_so_far(said: tuple[str, ...]) -> str:
    lines = [f"- {text}" for text in said]
    return "\n".join([SAID_LAST, *lines]) if lines else "Nothing was said so far."

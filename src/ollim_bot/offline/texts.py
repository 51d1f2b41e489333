"""What the offline model says, in one place."""

from __future__ import annotations

NO_LANGUAGE_MODEL = "I am not a language model: I answer by a few fixed rules."

HOW_TO_GET_ONE = "`ollim-bot auth login` puts one in my place."

ABILITIES = """\
What works here:
- reminders and routines: I deliver what `ollim-bot reminder add -m "drink water" --in 20m` or \
`ollim-bot routine add` sets
- `/fork`, `/compact` and the other commands that begin with `/`"""

GREETING = f"Hello. {NO_LANGUAGE_MODEL} Ask what I can do."
THANKS = "You are welcome."
FAREWELL = "See you."
WHAT_I_AM = f"I am the offline model of ollim-bot. {NO_LANGUAGE_MODEL} {HOW_TO_GET_ONE}"
WHAT_I_CAN_DO = f"{NO_LANGUAGE_MODEL} {HOW_TO_GET_ONE}\n\n{ABILITIES}"
NOT_UNDERSTOOD = (
    "I did not understand that, because I am not a language model and know only a few fixed rules."
    f"\n\n{ABILITIES}"
)

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


def talk_so_far(said: tuple[str, ...]) -> str:
    lines = [f"- {text}" for text in said]
    return "\n".join(["The owner said last:", *lines]) if lines else "Nothing was said so far."

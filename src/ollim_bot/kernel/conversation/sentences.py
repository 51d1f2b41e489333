"""The sentences that the program itself says in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.store.copies import AfterReturn
from ollim_bot.kernel.values.inbox import OwnerMessage
from ollim_bot.kernel.values.pasted_addresses import AddressKind

CATCHING_UP = "catching up on background activity..."
STOPPED = "stopped."
SESSION_LOST = (
    "The earlier conversation could not be found, so a new one begins. `/sessions` lists those "
    "that can still be resumed."
)
NOTHING_TO_CLEAR = "There was nothing to clear: the next message begins a new conversation."
UNDO_TOO_LATE = "Undo works for 10 minutes. `/sessions` goes back to the conversation."
UNDO_OVER = "It is too late to undo that."
UNDO_IN_FORK = "You are in a side conversation. End it first, then press Undo."
SESSION_GONE = "This conversation is not there any more."
SAME_CONVERSATION = "That is the conversation you are in."
SAME_FORK = "That is the side conversation you are in. Its buttons say how it can end."
NOTHING_TO_COMPACT = "There is nothing to compact yet."
COMPACTED_NOTHING = "The conversation could not be made shorter."
NOTHING_IN_IT = "There is nothing in this message. Write a word, or attach a file."
NOTHING_RUNS = "Nothing is running."
JOB_TOO_LONG = "This took longer than 5 minutes and was stopped."
NO_DAILY_LIMIT = (
    "Your jobs have no daily limit. New installations stop using the model for jobs when a day has "
    "cost 5 US dollars; `/config daily_cost_cap 5` gives you that limit too."
)
SERVICE_FAULT = (
    "A fault in the program stopped one of its services, and it was started again. The log says "
    "which one, and why."
)
RESTARTING = "Restarting. The conversation goes on where it is."


def no_room(refused: StorageError) -> str:
    why = refused.reason.partition(". ")[0].removesuffix(".")
    return (
        f"{refused.path.name} {why}. Until there is room, messages are refused, jobs wait, and "
        "reminders are shown but not kept."
    )


def returned_to_copy(returned: AfterReturn, now: datetime) -> str:
    since = describe(returned.since.astimezone(now.tzinfo).replace(second=0, microsecond=0), now)
    ended = (returned.inputs, returned.occurrences, returned.held)
    open_then = str(sum(map(len, ended)))
    if returned.jobs:
        shown = [f"“{_short(title)}”" for title in returned.jobs[:5]]
        open_then += f", among them {', '.join(shown)}"
    if returned.since_backup is not None:
        said = "; ".join(f"“{words}”" for words in returned.since_backup.said)
        listed = f"Since this backup you said: {said}. " if said else ""
        return (
            f"I am back from the backup made {since}, and know what I knew then. {listed}Nothing "
            f"since this backup is answered or done again (open then: {open_then}). Ask again for "
            "what is still wanted."
        )
    if returned.is_salvaged:
        return (
            "My database was damaged, and I know what could still be read of it. What was open is "
            f"not answered or done again (open then: {open_then}). Ask again for what is still "
            "wanted."
        )
    return (
        f"My state is that of a copy made {since}, and I know what I knew then. Nothing since this "
        f"copy is answered or done again (open then: {open_then}). Ask again for what is still "
        "wanted."
    )


ADDRESS_AMONG_WORDS = (
    "The calendar's address in your message is hidden from the agent, and was not kept. To add the "
    "calendar, send the address alone."
)


def address_unused(kind: AddressKind) -> str:
    return (
        f"The {kind} could not be used, and was not kept. Send it again; if that fails too, "
        "`ollim-bot doctor` says what is wrong here."
    )


def address_stays_on(surface: str) -> str:
    """Said where a service of others keeps its own copy of the message."""
    service = surface.capitalize()
    return f"{service} still shows the address in your message, which only you can delete there."


def set_aside(messages: Sequence[OwnerMessage]) -> str:
    # Untrusted words are not quoted: the agent reads this outside a fence.
    words = " ".join(
        f"a {each.untrusted.source}"
        if each.untrusted is not None
        else each.text or ", ".join(attachment.name for attachment in each.attachments)
        for each in messages
    )
    return (
        f"A message could not be answered in two attempts and was set aside: “{_short(words)}”. "
        "Send it again, in other words if you can."
    )


def command_cut_off(name: str) -> str:
    return f"`/{name}` was cut off by a restart. Run it again if it is still wanted."


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 80)


EVENT_GONE = "That event is not there any more."
TASK_GONE = "That task is not there any more."
TASK_DONE = "That task is done already."
BUTTON_GONE = "This button is not there any more."
TYPE_THE_STEPS = "No model makes steps here. Type them on the card."
STEPS_COME = "The agent is making the steps."
BUTTON_USED = "This button was used before, or has expired."
BUTTON_IDLE = "This button does nothing in this version."

"""`/help`: one line, and a button for each need that shows how it is met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Button, ButtonStyle, Card
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inbox import CommandCall
from ollim_bot.store.store import Store

HELP = "help"

_MESSAGE = "help-"


@dataclass(frozen=True, slots=True)
class HelpTopic:
    label: str
    lines: tuple[str, ...]


HELP_TOPICS: Mapping[str, HelpTopic] = {
    "remind": HelpTopic(
        "Remind me once",
        (
            "Say what and when: `remind me tomorrow at 9 to call mum`, `tea in 10 minutes`.",
            "`/today` shows what waits for you and what comes, `/reminders` all that is set.",
            "What has no moment is a task: `add a task: buy a card`. `/tasks` shows them.",
        ),
    ),
    "routine": HelpTopic(
        "Again and again",
        (
            "Say how often: `every weekday at 9 ask me for my plan`.",
            "`/routines` shows them, to skip one once, pause or cancel it.",
            "`/runs` shows what came of them.",
        ),
    ),
    "side": HelpTopic(
        "A side conversation",
        (
            "`/fork holiday plans` begins one, apart from the main conversation.",
            "In the end you keep all of it, keep a summary, or leave it.",
        ),
    ),
    "afresh": HelpTopic(
        "Start afresh",
        (
            "`/clear` begins a new conversation; for 10 minutes, Undo brings the old one back.",
            "`/sessions` goes back to any earlier one. `/compact` makes a long one shorter.",
            "`/search dentist` finds what was said, in all of them.",
        ),
    ),
    "settings": HelpTopic(
        "Change how I am",
        (
            "`/setup` asks you a few questions. `/config` has all settings.",
            "`/quiet 2h` keeps what can wait. `/permissions` says what I may do without asking.",
            "`/doctor` says whether everything is as it should be.",
        ),
    ),
}

HELP_BUTTON = Button("What I can do", HELP)


def help_card(topic: str = "") -> Card:
    """The card of `/help`, which shows the lines of a topic once one is chosen."""
    shown = HELP_TOPICS.get(topic)
    buttons = (
        Button(
            each.label, HELP, name, ButtonStyle.PRIMARY if name == topic else ButtonStyle.SECONDARY
        )
        for name, each in HELP_TOPICS.items()
    )
    if shown is None:
        return Card("What do you need?", "Or just say it, in your words.", buttons=tuple(buttons))
    return Card(shown.label, "\n".join(shown.lines), buttons=tuple(buttons))


class HelpCommands:
    """Posts the help card. A click on the card shows its topic in place."""

    def __init__(self, store: Store, poster: MessagePoster) -> None:
        self._store = store
        self._poster = poster
        self.actions: Mapping[str, Action] = {HELP: Action(self._choose, Uses.NOTHING)}

    async def show(self, call: CommandCall) -> str:
        await self._post(self._poster.note(help_card(), name=f"{_MESSAGE}{call.id}"))
        return ""

    async def _choose(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        card = help_card(button.data)
        if message.id.startswith(_MESSAGE):
            await self._post(replace(message, text=card.text, card=card))
        else:
            await self._post(self._poster.note(card, name=f"{_MESSAGE}{message.id}"))
        return CommandAnswer()

    async def _post(self, message: ChatMessage) -> None:
        await self._store.transact(lambda tx: self._poster.add_note(tx, message))

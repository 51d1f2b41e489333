"""How the commands of the chat run, and the card of `/help`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, Uses
from ollim_bot.kernel.conversation.message_poster import (
    CommandChange,
    MessagePoster,
    answer_name,
    note_of,
)
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, SlashCommand, commands_of, slash_command
from ollim_bot.kernel.values.inbox import Accepted, CommandCall, Ended, InputEnd, InputId, Taken

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

    @slash_command(80, "help", "What I can do for you")
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


Run = Callable[[CommandCall], Awaitable[str]]
QueuedRun = Callable[[CommandCall], Awaitable[str | CommandChange]]
Completions = Callable[[], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Queued:
    """Runs from the inbox, in order; the answer goes into the conversation.

    `can_repeat` says whether a run that was cut off may start again from the beginning. `before`
    runs when the command is called, to shorten its wait.
    """

    run: QueuedRun
    can_repeat: bool = False
    before: Callable[[], Awaitable[object]] | None = None


def read_line(
    line: str, commands: Sequence[SlashCommand]
) -> tuple[SlashCommand, Mapping[str, str]]:
    """Parse a command with its arguments; raises `WrongInput`."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    command = next((each for each in commands if each.name == name.lower()), None)
    if command is None:
        meant = nearest(name.lower(), [each.name for each in commands])
        hint = f"Did you mean `/{meant}`?" if meant else "`/help` shows what I can do."
        raise WrongInput(f"There is no command `/{name}`. {hint}")
    return command, command.read(rest)


class CommandDispatcher:
    """Runs the commands that its `owners` declare.

    `steps` are further queued commands that buttons and the agent can add.
    """

    def __init__(
        self,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        owners: Sequence[object],
        steps: Mapping[str, Queued],
    ) -> None:
        self._state = state
        self._poster = poster
        self._clock = clock
        self.commands = commands_of(*map(type, owners))
        self._immediate: dict[str, Run] = {}
        self._queued = {**steps}
        self._completions: dict[tuple[str, str], Completions] = {}
        for owner in owners:
            for command in commands_of(type(owner)):
                run = getattr(owner, command.run)
                if command.is_queued:
                    before = getattr(owner, command.before) if command.before else None
                    self._queued[command.name] = Queued(run, command.can_repeat, before)
                else:
                    self._immediate[command.name] = run
                for argument, values in command.completions.items():
                    self._completions[command.name, argument] = getattr(owner, values)
        self._waiting: dict[InputId, asyncio.Future[CommandAnswer]] = {}

    async def call(self, surface: str, line: str) -> CommandAnswer:
        """Run or enqueue the command, and return when it has run."""
        try:
            command, arguments = read_line(line, self.commands)
            name = InputId(uuid4().hex)
            call = CommandCall(name, surface, self._clock.now(), command.name, arguments)
            if command.name in self._immediate:
                return CommandAnswer(await self._immediate[command.name](call))
            return await self._wait_for_turn(call)
        except OllimError as error:
            return CommandAnswer(str(error), is_error=True)

    def can_repeat(self, call: CommandCall) -> bool:
        return self._queued[call.name].can_repeat

    async def run(self, call: CommandCall, attempt: int = 1) -> None:
        """Run a command that was taken from the inbox."""
        asker = self._waiting.get(call.id)
        try:
            is_heard = asker is not None and not asker.done()
            answer = await self._run(call, attempt, is_heard=is_heard)
        except BaseException:  # also if cancelled: the asker waits
            answer = CommandAnswer(texts.command_cut_off(call.name), is_error=True)
            raise
        finally:
            if asker is not None and not asker.done():
                asker.set_result(answer)

    async def _run(self, call: CommandCall, attempt: int, *, is_heard: bool) -> CommandAnswer:
        """Post the answer. An error is posted only if no caller waits for it."""
        now = self._clock.now()
        await self._state.append(Taken(now, TurnId(uuid4().hex), (call.id,), attempt))
        try:
            said: str | CommandChange = await self._queued[call.name].run(call)
            answer, end = CommandAnswer(), InputEnd.ANSWERED
        except OllimError as error:
            said = "" if is_heard else str(error)
            answer, end = CommandAnswer(str(error), is_error=True), InputEnd.FAILED
        now = self._clock.now()
        ended = Ended(now, (call.id,), end)

        def step(tx: Transaction) -> None:
            words = said.step(tx) if isinstance(said, CommandChange) else said
            if words:
                self._poster.add_note(tx, note_of(words, now, answer_name(call.id)))
            tx.inbox.append(ended)

        await self._state.transact(step)
        if isinstance(said, CommandChange):
            await said.after()
        return answer

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        """The values that begin with the typed text, then those that contain it."""
        if (command, argument) in self._completions:
            values = await self._completions[command, argument]()
        else:
            specs = (spec for spec in self.commands if spec.name == command)
            arguments = (one for spec in specs for one in spec.arguments)
            values = next((one.choices for one in arguments if one.name == argument), ())
        word = typed.lower()
        begins = [value for value in values if value.lower().startswith(word)]
        holds = [value for value in values if word in value.lower() and value not in begins]
        return [*begins, *holds][:25]

    async def _wait_for_turn(self, call: CommandCall) -> CommandAnswer:
        answer: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = answer
        try:
            before = self._queued[call.name].before
            if before is not None:
                await before()
            await self._state.append(Accepted(call.at, call))
            return await answer
        finally:
            del self._waiting[call.id]

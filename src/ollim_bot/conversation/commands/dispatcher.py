"""The slash commands, and which part carries each out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from ollim_bot.conversation import texts
from ollim_bot.conversation.commands.program import SetUp
from ollim_bot.conversation.posting import Posting, answer_name
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.chat import TurnId
from ollim_bot.domain.commands import Argument, CommandAnswer, CommandSpec
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd, Taken
from ollim_bot.domain.inputs import CommandCall, InputId
from ollim_bot.domain.runtime_config import CONFIG_KEYS, PermissionMode
from ollim_bot.domain.text import nearest
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.ports import Clock

_MODELS = ("opus", "sonnet", "haiku", "default")
_THINKING = ("off", "adaptive", "4000")

COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("clear", "Begin a new conversation; the old one can be resumed"),
    CommandSpec(
        "compact",
        "Make the conversation shorter, keeping what matters",
        (Argument("instructions", "what to keep, in your words", takes_rest=True),),
    ),
    CommandSpec("cost", "What today has cost, and how full the context is"),
    CommandSpec(
        "fork",
        "Branch off for a side topic, apart from the main conversation",
        (Argument("topic", "what it is about", takes_rest=True),),
    ),
    CommandSpec("interrupt", "Stop the answer that is being written"),
    CommandSpec(
        "model",
        "Which model answers",
        (Argument("name", "opus, sonnet, haiku, default, or a full model id", _MODELS),),
    ),
    CommandSpec(
        "thinking",
        "How much the model thinks before it answers",
        (Argument("mode", "off, adaptive, or a number of tokens", _THINKING),),
    ),
    CommandSpec(
        "permissions",
        "What happens to a call that nothing allows yet",
        (Argument("mode", "how it is decided, for now", tuple(PermissionMode)),),
    ),
    CommandSpec(
        "ping-budget",
        "How often the bot may speak up by itself",
        (
            Argument("capacity", "how many pings at most"),
            Argument("refill_rate", "minutes until one more"),
        ),
    ),
    CommandSpec("routines", "What comes again and again, with its next moment"),
    CommandSpec("reminders", "What comes once, with its moment"),
    CommandSpec("runs", "What ran by itself, and what came of it"),
    CommandSpec("sessions", "Earlier conversations"),
    CommandSpec(
        "resume",
        "Go back to an earlier conversation",
        (Argument("id", "its first letters, as /sessions shows them", is_required=True),),
    ),
    CommandSpec(
        "config",
        "Show or change a setting",
        (
            Argument("key", "which setting", tuple(CONFIG_KEYS)),
            Argument("value", "its new value", takes_rest=True),
        ),
    ),
    CommandSpec("setup", "A few questions, one at a time, so that the bot knows you"),
    CommandSpec("doctor", "Whether everything is as it should be, and what to do if not"),
    CommandSpec("version", "Which version this is"),
    CommandSpec("restart", "Stop the bot and start it again"),
)

_BY_NAME: Mapping[str, CommandSpec] = {spec.name: spec for spec in COMMANDS}


def read_line(line: str) -> tuple[CommandSpec, Mapping[str, str]]:
    """Raises `WrongInput` for a line that is not a right command."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    spec = _BY_NAME.get(name.lower())
    if spec is None:
        raise _unknown(name)
    return spec, spec.read(rest)


def _unknown(name: str) -> WrongInput:
    meant = nearest(name.lower(), _BY_NAME)
    hint = f"Did you mean `/{meant}`?" if meant else "`/` shows all commands."
    return WrongInput(f"There is no command `/{name}`. {hint}")


_MOST_COMPLETIONS = 25

AtOnce = Callable[[Mapping[str, str]], Awaitable[str]]
Values = Callable[[], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class InLine:
    """`can_repeat` says whether one that was cut off may be run again from its beginning.

    `before` is done as soon as it is called for, to make its wait short.
    """

    run: Callable[[CommandCall], Awaitable[str]]
    can_repeat: bool = False
    before: Callable[[], Awaitable[object]] | None = None


class CommandDispatcher:
    """`values` are proposed for an argument, by the names of its command and its own."""

    def __init__(
        self,
        state: ConversationState,
        posting: Posting,
        clock: Clock,
        set_up: SetUp,
        *,
        at_once: Mapping[str, AtOnce],
        in_line: Mapping[str, InLine],
        values: Mapping[tuple[str, str], Values],
    ) -> None:
        self._state = state
        self._posting = posting
        self._clock = clock
        self._set_up = set_up
        self._at_once = at_once
        self._in_line = in_line
        self._values = values
        self._waiting: dict[InputId, asyncio.Future[CommandAnswer]] = {}

    async def call(self, surface: str, line: str) -> CommandAnswer:
        """Do it, or wait until it was its turn and it is done."""
        try:
            spec, arguments = read_line(line)
            if spec.name in self._at_once:
                return CommandAnswer(await self._at_once[spec.name](arguments))
            if spec.name == "setup":
                await self._set_up.begin(surface)
                return CommandAnswer()
            return await self._queued(surface, spec.name, arguments)
        except OllimError as error:
            return CommandAnswer(str(error), is_error=True)

    def can_repeat(self, call: CommandCall) -> bool:
        return self._in_line[call.name].can_repeat

    async def run(self, call: CommandCall, attempt: int = 1) -> None:
        """It is the turn of a command that waited in line."""
        asker = self._waiting.get(call.id)
        answer = CommandAnswer(texts.command_cut_off(call.name), is_error=True)
        try:
            is_heard = asker is not None and not asker.done()
            answer = await self._run(call, attempt, is_heard=is_heard)
        finally:
            if asker is not None and not asker.done():
                asker.set_result(answer)

    async def _run(self, call: CommandCall, attempt: int, *, is_heard: bool) -> CommandAnswer:
        """What it says goes into the conversation; an error only where nobody else hears of it."""
        now = self._clock.now()
        await self._state.append(Taken(now, TurnId(uuid4().hex), (call.id,), attempt))
        try:
            text = await self._in_line[call.name].run(call)
            answer, end = CommandAnswer(), InputEnd.ANSWERED
        except OllimError as error:
            text = str(error)
            answer, end = CommandAnswer(text, is_error=True), InputEnd.FAILED
        if text and (not answer.is_error or not is_heard):
            await self._posting.note(text, name=answer_name(call.id))
        await self._state.append(Ended(self._clock.now(), (call.id,), end))
        return answer

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        values = await self._proposed(command, argument)
        word = typed.lower()
        begins = [value for value in values if value.lower().startswith(word)]
        holds = [value for value in values if word in value.lower() and value not in begins]
        return [*begins, *holds][:_MOST_COMPLETIONS]

    async def _proposed(self, command: str, argument: str) -> Sequence[str]:
        if (command, argument) in self._values:
            return await self._values[command, argument]()
        arguments = (one for spec in COMMANDS if spec.name == command for one in spec.arguments)
        return next((one.choices for one in arguments if one.name == argument), ())

    async def _queued(self, surface: str, name: str, arguments: Mapping[str, str]) -> CommandAnswer:
        call = CommandCall(InputId(uuid4().hex), surface, self._clock.now(), name, arguments)
        answer: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = answer
        try:
            before = self._in_line[name].before
            if before is not None:
                await before()
            await self._state.append(Accepted(call.at, call))
            return await answer
        finally:
            del self._waiting[call.id]

"""Takes the owner's commands: some are done at once, those that change the session wait in line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import uuid4

from ollim_bot import __version__
from ollim_bot.conversation import texts
from ollim_bot.conversation.answering import Answering
from ollim_bot.conversation.approvals.approvals import Approvals
from ollim_bot.conversation.commands.jobs import JobCommands
from ollim_bot.conversation.commands.permissions import PermissionCommands
from ollim_bot.conversation.commands.pings import PingCommands
from ollim_bot.conversation.commands.sessions import SessionCommands
from ollim_bot.conversation.commands.settings import SettingCommands
from ollim_bot.conversation.commands.setup import SetUp
from ollim_bot.conversation.commands.table import COMMANDS, read_line
from ollim_bot.conversation.compaction import Compaction
from ollim_bot.conversation.forks.commands import ForkCommands
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.conversation.main_session import MainSession
from ollim_bot.conversation.posting import Posting, answer_name
from ollim_bot.domain.chat import TurnId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd, Taken
from ollim_bot.domain.inputs import CommandCall, InputId
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock

_MOST_COMPLETIONS = 25

AtOnce = Callable[[Mapping[str, str]], Awaitable[str]]
InLine = Callable[[CommandCall], Awaitable[str]]


class CommandDesk:
    def __init__(
        self,
        inbox: DurableInbox,
        session: MainSession,
        answering: Answering,
        posting: Posting,
        compaction: Compaction,
        sessions: SessionCommands,
        settings: SettingCommands,
        pings: PingCommands,
        jobs: JobCommands,
        approvals: Approvals,
        forks: ForkCommands,
        set_up: SetUp,
        clock: Clock,
        *,
        doctor: Callable[[], Awaitable[str]],
        restart: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._session = session
        self._answering = answering
        self._posting = posting
        self._sessions = sessions
        self._forks = forks
        self._approvals = approvals
        self._set_up = set_up
        self._clock = clock
        self._doctor = doctor
        self._restart = restart
        self._waiting: dict[InputId, asyncio.Future[CommandAnswer]] = {}
        self._at_once: Mapping[str, AtOnce] = {
            "config": settings.config,
            "model": settings.model,
            "ping-budget": pings.ping_budget,
            "routines": jobs.routines,
            "reminders": jobs.reminders,
            "runs": jobs.runs,
            "permissions": PermissionCommands(approvals).permissions,
            "thinking": settings.thinking,
            "sessions": sessions.list,
            "cost": sessions.cost,
            "doctor": self._examine,
            "interrupt": self._interrupt,
            "version": self._version,
            "restart": self._begin_anew,
        }
        self._in_line: Mapping[str, InLine] = {
            "clear": self._clear,
            "compact": compaction.run,
            "resume": lambda call: sessions.resume(call.arguments),
            **forks.in_line,
        }

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
        """Whether one that was cut off may be run again from its beginning."""
        return call.name in self._forks.in_line

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
        await self._inbox.append(Taken(now, TurnId(uuid4().hex), (call.id,), attempt))
        try:
            text = await self._in_line[call.name](call)
            answer, end = CommandAnswer(), InputEnd.ANSWERED
        except OllimError as error:
            text = str(error)
            answer, end = CommandAnswer(text, is_error=True), InputEnd.FAILED
        if text and (not answer.is_error or not is_heard):
            await self._posting.note(text, name=answer_name(call.id))
        await self._inbox.append(Ended(self._clock.now(), (call.id,), end))
        return answer

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        values = await self._values(command, argument)
        word = typed.lower()
        begins = [value for value in values if value.lower().startswith(word)]
        holds = [value for value in values if word in value.lower() and value not in begins]
        return [*begins, *holds][:_MOST_COMPLETIONS]

    async def _values(self, command: str, argument: str) -> Sequence[str]:
        if (command, argument) == ("resume", "id"):
            return await self._sessions.prefixes()
        arguments = (one for spec in COMMANDS if spec.name == command for one in spec.arguments)
        return next((one.choices for one in arguments if one.name == argument), ())

    async def _queued(self, surface: str, name: str, arguments: Mapping[str, str]) -> CommandAnswer:
        call = CommandCall(InputId(uuid4().hex), surface, self._clock.now(), name, arguments)
        answer: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = answer
        try:
            if name == "clear":
                await self._answering.interrupt()
            await self._inbox.append(Accepted(call.at, call))
            return await answer
        finally:
            del self._waiting[call.id]

    async def _clear(self, _: CommandCall) -> str:
        await self._approvals.reset()
        await self._forks.discard()
        return texts.CLEARED if await self._session.clear() else texts.NOTHING_TO_CLEAR

    async def _interrupt(self, _: Mapping[str, str]) -> str:
        return "" if await self._answering.interrupt() else texts.NOTHING_RUNS

    async def _examine(self, _: Mapping[str, str]) -> str:
        return await self._doctor()

    async def _version(self, _: Mapping[str, str]) -> str:
        return f"ollim-bot {__version__}"

    async def _begin_anew(self, _: Mapping[str, str]) -> str:
        self._restart()
        return texts.RESTARTING

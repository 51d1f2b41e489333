"""What changes a fork and has to wait in line for it: from the owner, the agent or the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from uuid import uuid4

from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.forks import Discard, Fork, Idleness, Report, Save
from ollim_bot.domain.inbox import Accepted
from ollim_bot.domain.inputs import (
    CommandCall,
    Input,
    InputId,
    Occasion,
    ProgramTurn,
)
from ollim_bot.domain.runs import EnterFork, Intent
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock

ENTER, SAVE, REPORT, EXIT, IDLE = "fork", "fork_save", "fork_report", "fork_exit", "fork_idle"

_NOBODY = ""


class Note(Protocol):
    async def __call__(self, text: str, *, name: str | None = None) -> None: ...


class ForkCommands:
    """Each names the fork that it is about; where that is over, nothing is left to do.

    `note` says something small in the conversation, once under its name.
    """

    def __init__(
        self,
        forks: Forks,
        inbox: DurableInbox,
        clock: Clock,
        note: Note,
    ) -> None:
        self._forks = forks
        self._inbox = inbox
        self._clock = clock
        self._note = note
        self.in_line: Mapping[str, Callable[[CommandCall], Awaitable[str]]] = {
            ENTER: self._enter,
            SAVE: self._save,
            REPORT: self._report,
            EXIT: self._exit,
            IDLE: self._look,
        }

    async def put(self, name: str, *, surface: str = _NOBODY, **arguments: str) -> None:
        """Into the line: on disk when it returns."""
        call = self._call(InputId(uuid4().hex), name, surface, **arguments)
        await self._inbox.append(Accepted(call.at, call))

    async def want(self, intent: Intent) -> None:
        """What the agent has asked for waits until its turn has ended."""
        if isinstance(intent, EnterFork):
            idle = {} if intent.idle_minutes is None else {"idle_minutes": str(intent.idle_minutes)}
            if not self._waits(ENTER):
                await self.put(ENTER, topic=intent.topic, **idle)
            return
        fork = self._forks.open
        if fork is None:
            return
        match intent:
            case Save():
                await self.put(SAVE, fork=fork.id, is_asked="yes")
            case Report(summary):
                await self.put(REPORT, fork=fork.id, summary=summary)
            case Discard():
                await self.put(EXIT, fork=fork.id)

    async def discard(self) -> None:
        """At once; nothing if none is open."""
        await self._forks.end(Discard())

    async def is_due(self, fork: Fork) -> None:
        """The clock says so; what is to be done is decided when it is its turn."""
        if not self._waits(IDLE):
            await self.put(IDLE, fork=fork.id)

    async def _enter(self, call: CommandCall) -> str:
        fork = self._forks.open
        if fork is not None and fork.id != call.id:
            raise WrongInput(cards.ALREADY_OPEN)
        topic = " ".join(call.arguments.get("topic", "").split())
        idle = call.arguments.get("idle_minutes")
        fork = await self._forks.enter(
            call.id, topic=topic, idle_minutes=int(idle) if idle else None
        )
        await self._put_once(self._turn(call, fork, Occasion.FORK_STARTED, topic))
        return ""

    async def _save(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        if obstacle := self._forks.obstacle_to_saving(fork):
            card = cards.refused_card(fork, obstacle)
            await self._forks.post_card(MessageId(f"fork-refused-{call.id}"), card)
        elif "is_asked" in call.arguments:
            card = cards.confirm_card(fork)
            await self._forks.post_card(MessageId(f"fork-confirm-{call.id}"), card)
        else:
            await self._forks.end(Save())
        return ""

    async def _report(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        if summary := call.arguments.get("summary"):
            await self._forks.end(Report(summary))
        elif "is_last" in call.arguments:
            await self._forks.end(Report(self._summary(fork)))
        elif not fork.has_answered:
            raise WrongInput(cards.NOTHING_ANSWERED)
        elif not self._waits_to_ask(Occasion.FORK_REPORT):
            last = self._call(InputId(f"last-{call.id}"), REPORT, fork=fork.id, is_last="yes")
            # In line at once, so that the fork ends even if the agent leaves no summary.
            await self._put_once(self._turn(call, fork, Occasion.FORK_REPORT), last)
        return ""

    async def _exit(self, call: CommandCall) -> str:
        if self._named(call) is not None:
            await self._forks.end(Discard())
        return ""

    async def _look(self, call: CommandCall) -> str:
        fork = self._named(call)
        if fork is None:
            return ""
        now = self._clock.now()
        match fork.verdict(now):
            case Idleness.PROMPT:
                await self._note(cards.idle_note(fork.idle_limit), name=f"fork-idle-{call.id}")
                await self._put_once(self._turn(call, fork, Occasion.FORK_IDLE))
                await self._forks.prompted()
            case Idleness.CLOSE:
                await self._forks.end(Report(fork.summary))
            case Idleness.KEEP:
                pass
        return ""

    def _named(self, call: CommandCall) -> Fork | None:
        fork = self._forks.open
        return fork if fork is not None and fork.id == call.arguments.get("fork") else None

    def _turn(
        self, call: CommandCall, fork: Fork, occasion: Occasion, topic: str = ""
    ) -> ProgramTurn:
        name = InputId(f"{occasion}-{call.id}")
        return ProgramTurn(name, _NOBODY, self._clock.now(), occasion, fork.id, topic)

    def _call(
        self, name: InputId, command: str, surface: str = _NOBODY, **arguments: str
    ) -> CommandCall:
        return CommandCall(name, surface, self._clock.now(), command, arguments)

    async def _put_once(self, *inputs: Input) -> None:
        """In one step; a crash may have let the command run before."""
        if not self._inbox.state.has(inputs[0].id):
            await self._inbox.append(*(Accepted(each.at, each) for each in inputs))

    def _summary(self, fork: Fork) -> str:
        """The agent's, if it has left one by now."""
        calls = (each for each in self._inbox.state.waiting if isinstance(each, CommandCall))
        asked = (call.arguments for call in calls if call.name == REPORT)
        about_it = (given for given in asked if given.get("fork") == fork.id)
        return next((given["summary"] for given in about_it if "summary" in given), fork.summary)

    def _waits(self, name: str) -> bool:
        waiting = self._inbox.state.waiting
        return any(isinstance(each, CommandCall) and each.name == name for each in waiting)

    def _waits_to_ask(self, occasion: Occasion) -> bool:
        waiting = self._inbox.state.waiting
        return any(isinstance(e, ProgramTurn) and e.occasion is occasion for e in waiting)

"""Opens and ends forks by command, by button, or after idle time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from uuid import uuid4

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses, nothing
from ollim_bot.conversation.forks import forks as cards
from ollim_bot.conversation.forks.forks import Forks, change_fork
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.forks import Discard, Fork, IdleAction, Report, Save, fork_of
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import Accepted, CommandCall, InputId, ProgramTurn, ProgramTurnReason
from ollim_bot.domain.runs import EnterFork, Intent
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.transaction import Transaction

ENTER, SAVE, REPORT, EXIT, IDLE = "fork", "fork_save", "fork_report", "fork_exit", "fork_idle"

_NOBODY = ""


class ForkRequests:
    """Queues commands about forks in the inbox."""

    def __init__(self, state: ConversationState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def put(self, name: str, *, surface: str = _NOBODY, **arguments: str) -> None:
        call = self.call(InputId(uuid4().hex), name, surface, **arguments)
        await self._state.append(Accepted(call.at, call))

    async def want(self, intent: Intent) -> None:
        """Queue what the agent asked for, to run after the agent's current turn."""
        if isinstance(intent, EnterFork):
            idle = {} if intent.idle_minutes is None else {"idle_minutes": str(intent.idle_minutes)}
            await self._put_unless_waiting(ENTER, topic=intent.topic, **idle)
            return
        fork = self._state.fork
        if fork is None:
            return
        match intent:
            case Save():
                await self.put(SAVE, fork=fork.id, is_asked="yes")
            case Report(summary, untrusted):
                await self.put(REPORT, fork=fork.id, summary=summary, untrusted=untrusted)
            case Discard():
                await self.put(EXIT, fork=fork.id)

    async def note_idle(self, fork: Fork) -> None:
        """Queue the command for a fork that has reached its idle limit."""
        await self._put_unless_waiting(IDLE, fork=fork.id)

    def call(
        self, name: InputId, command: str, surface: str = _NOBODY, **arguments: str
    ) -> CommandCall:
        return CommandCall(name, surface, self._clock.now(), command, arguments)

    async def _put_unless_waiting(self, name: str, **arguments: str) -> None:
        call = self.call(InputId(uuid4().hex), name, **arguments)

        def step(tx: Transaction) -> None:
            waiting = tx.inbox.get().waiting
            if not any(isinstance(each, CommandCall) and each.name == name for each in waiting):
                tx.inbox.append(Accepted(call.at, call))

        await self._state.transact(step)


class ForkCommands:
    """Runs the commands about forks. A command that names a fork that is not open does nothing."""

    def __init__(
        self,
        forks: Forks,
        requests: ForkRequests,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._forks = forks
        self._requests = requests
        self._state = state
        self._poster = poster
        self._clock = clock
        self.steps: Mapping[str, Callable[[CommandCall], Awaitable[str]]] = {
            SAVE: self._save,
            REPORT: self._report,
            EXIT: self._exit,
            IDLE: self._look,
        }

    async def enter(self, call: CommandCall) -> str:
        fork = self._forks.open
        if fork is not None and fork.id != call.id:
            raise WrongInput(cards.ALREADY_OPEN)
        topic = " ".join(call.arguments.get("topic", "").split())
        idle = call.arguments.get("idle_minutes")
        await self._forks.enter(
            call.id,
            topic=topic,
            idle_minutes=int(idle) if idle else None,
            first=self._turn(call, call.id, ProgramTurnReason.FORK_STARTED, topic),
        )
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
        if report := _report_in(call.arguments):
            await self._forks.end(report)
        elif "is_last" in call.arguments:
            await self._forks.end(self._last_report(fork))
        elif not fork.has_answered:
            raise WrongInput(cards.NOTHING_ANSWERED)
        elif not self._waits_to_ask(ProgramTurnReason.FORK_REPORT):
            turn = self._turn(call, fork.id, ProgramTurnReason.FORK_REPORT)
            name = InputId(f"last-{call.id}")
            last = self._requests.call(name, REPORT, fork=fork.id, is_last="yes")
            # Queue the end at once, so that the fork ends even if the agent leaves no summary.
            await self._state.append(Accepted(turn.at, turn), Accepted(last.at, last))
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
            case IdleAction.PROMPT:
                words = cards.idle_note(fork.idle_limit)
                note = self._poster.note(words, name=f"fork-idle-{call.id}")
                turn = self._turn(call, fork.id, ProgramTurnReason.FORK_IDLE)

                def prompt(tx: Transaction) -> None:
                    self._poster.add_note(tx, note)
                    tx.inbox.append(Accepted(turn.at, turn))
                    change_fork(tx, lambda fork: fork.prompted(now))

                await self._state.transact(prompt)
            case IdleAction.CLOSE:
                await self._forks.end(Report(fork.summary))
            case IdleAction.KEEP:
                pass
        return ""

    def _named(self, call: CommandCall) -> Fork | None:
        fork = self._forks.open
        return fork if fork is not None and fork.id == call.arguments.get("fork") else None

    def _turn(
        self, call: CommandCall, fork: str, occasion: ProgramTurnReason, topic: str = ""
    ) -> ProgramTurn:
        name = InputId(f"{occasion}-{call.id}")
        return ProgramTurn(name, _NOBODY, self._clock.now(), occasion, fork, topic)

    def _last_report(self, fork: Fork) -> Report:
        """The agent's newest summary, from a waiting report command or from the fork."""
        calls = (each for each in self._state.inbox.waiting if isinstance(each, CommandCall))
        asked = (call.arguments for call in calls if call.name == REPORT)
        about_it = (_report_in(given) for given in asked if given.get("fork") == fork.id)
        return next(filter(None, about_it), Report(fork.summary))

    def _waits_to_ask(self, occasion: ProgramTurnReason) -> bool:
        waiting = self._state.inbox.waiting
        return any(isinstance(e, ProgramTurn) and e.occasion is occasion for e in waiting)


class ForkButtons:
    """Answers the buttons of fork cards. `stop` ends the answer that is being written."""

    def __init__(
        self, state: ConversationState, requests: ForkRequests, stop: Callable[[], Awaitable[None]]
    ) -> None:
        self._state = state
        self._requests = requests
        self._stop = stop
        self.actions: Mapping[str, Action] = {
            "fork_save": Action(self._putting(SAVE), Uses.NOTHING),
            "fork_report": Action(self._putting(REPORT), Uses.NOTHING),
            "fork_exit": Action(self._exit, Uses.NOTHING),
            "fork_save_confirm": Action(self._putting(SAVE), Uses.ALL),
            "fork_save_dismiss": Action(nothing, Uses.ALL),
        }

    def _putting(
        self, command: str
    ) -> Callable[[str, ChatMessage, Button], Awaitable[CommandAnswer]]:
        async def put(surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
            fork = self._state.fork
            if fork is None or fork.id != (button.data or fork_of(message.id)):
                return CommandAnswer(texts.BUTTON_USED, is_error=True)
            await self._requests.put(command, surface=surface, fork=fork.id)
            return CommandAnswer()

        return put

    async def _exit(self, surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Leave at once, except before the first answer: that answer is waited for."""
        answer = await self._putting(EXIT)(surface, message, button)
        fork = self._state.fork
        if not answer.is_error and fork is not None and fork.has_answered:
            await self._stop()
        return answer


class IdleWatch:
    """Queues the idle command for a fork at its idle limit, once no turn is running."""

    def __init__(self, state: ConversationState, requests: ForkRequests, clock: Clock) -> None:
        self._state = state
        self._requests = requests
        self._clock = clock

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            change = asyncio.ensure_future(self._next_fork())
            alarm = asyncio.ensure_future(self._alarm())
            try:
                await asyncio.wait({change, alarm}, return_when=asyncio.FIRST_COMPLETED)
                if alarm.done():
                    alarm.result()
                    await change
            finally:
                change.cancel()
                alarm.cancel()

    async def _next_fork(self) -> None:
        """Wait until the open fork, or a field of it, has changed."""
        before = self._state.fork
        while self._state.fork == before:
            await self._state.changed.wait()

    async def _alarm(self) -> None:
        fork = self._state.fork
        if fork is None:
            await asyncio.Event().wait()
            return
        while fork.verdict(now := self._clock.now()) is IdleAction.KEEP:
            if fork.last_activity > now:
                # The clock was set back, which must not prolong the fork.
                await self._state.transact(partial(_rest, now=now))
                return
            await self._clock.sleep(max(fork.remaining(now).total_seconds(), 0.001))
        while not self._state.is_quiet:
            await self._clock.sleep(5.0)
        await self._requests.note_idle(fork)


def _rest(tx: Transaction, now: datetime) -> None:
    change_fork(tx, lambda fork: fork.rested(now))


def _report_in(given: Mapping[str, str]) -> Report | None:
    summary = given.get("summary")
    return Report(summary, given.get("untrusted", "")) if summary else None

"""Asks the owner about calls that nothing allows yet, and remembers what was allowed for good."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from ollim_bot.agent import Refusal, ToolCall
from ollim_bot.conversation.approvals import outcomes
from ollim_bot.conversation.approvals.cards import Answer, answered_card, asking_card, read_button
from ollim_bot.conversation.approvals.outcomes import Outcome
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.permissions import Verdict, grant_for, is_allowed, verdict
from ollim_bot.domain.runtime_config import PermissionMode, RuntimeConfig
from ollim_bot.domain.taint import TaintedCall, tainted_verdict
from ollim_bot.domain.tool_policy import Pattern
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Question:
    """`is_taken` while an answer to it is being written down: no other counts meanwhile.

    `is_tainted`: untrusted text may be behind it, so that no pattern answers it.
    """

    call: ToolCall
    grant: Pattern | None
    message: ChatMessage
    is_tainted: bool = False
    outcome: asyncio.Future[Outcome] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_taken: bool = False

    def end(self, outcome: Outcome) -> bool:
        """False if it had ended before."""
        if self.outcome.done():
            return False
        self.outcome.set_result(outcome)
        return True


class Approvals:
    """Shared by the main session and its interactive forks.

    `in_fork` says whether what is shown now belongs to a fork.
    """

    def __init__(
        self,
        stores: Stores,
        stage: Stage,
        clock: Clock,
        root: Path,
        *,
        in_fork: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stores = stores
        self._stage = stage
        self._clock = clock
        self._roots = (str(root), os.path.realpath(root))
        self._in_fork = in_fork
        self._mode: PermissionMode | None = None
        self._questions: dict[str, _Question] = {}
        self._shows: set[asyncio.Task[None]] = set()
        self._granting = asyncio.Lock()

    async def load(self, shown: Sequence[ChatMessage]) -> None:
        """Whatever was still asked when the program ended is over."""
        for message in shown:
            await self._bury(message)

    def granted(self) -> Sequence[Pattern]:
        """What was allowed for good; waits for the disk. What cannot be read allows nothing."""
        try:
            return Facts(self._stores.memory.read()).granted
        except StorageError:
            _logger.warning("What was allowed for good could not be read", exc_info=True)
            return ()

    async def mode(self) -> PermissionMode:
        """This session's, or else the stored one."""
        return self._mode or PermissionMode((await self._config()).permission_mode)

    async def set_mode(self, mode: PermissionMode) -> None:
        """For this session only: until `reset`, or the end of the program."""
        self._mode = mode

    async def decide(self, call: ToolCall, objection: str) -> Refusal | None:
        """About a call that no pattern allows: as the mode says."""
        match verdict(await self.mode(), call.tool):
            case Verdict.LET_THROUGH:
                return None
            case Verdict.ASK:
                return await self.ask(call)
            case Verdict.REFUSE:
                return Refusal(objection)

    async def decide_tainted(self, call: ToolCall, tainted: TaintedCall) -> Refusal | None:
        """About a call that no pattern may allow now: as the mode says."""
        match tainted_verdict(await self.mode()):
            case Verdict.LET_THROUGH:
                return None
            case Verdict.ASK:
                return await self.ask(call, tainted)
            case Verdict.REFUSE:
                return Refusal(tainted.refusal)

    async def ask(self, call: ToolCall, tainted: TaintedCall | None = None) -> Refusal | None:
        """Returns at the owner's answer, or after `approval_timeout` at the latest.

        None of the surfaces and no failure of the disk can make it wait for longer.
        """
        key = uuid4().hex
        grant = None if tainted else grant_for(call.tool, call.arguments, *self._roots)
        message = self._message(call, key, grant, tainted)
        question = _Question(call, grant, message, is_tainted=tainted is not None)
        self._questions[key] = question
        try:
            show = asyncio.create_task(self._show(key, question))
            self._shows.add(show)
            show.add_done_callback(self._shows.discard)
            outcome = await self._outcome(question)
        finally:
            question.end(outcomes.NOT_NEEDED)
        return Refusal(outcome.refusal) if outcome.refusal is not None else None

    async def answer(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """A click of the owner's on a button of a question."""
        key, said = read_button(button) or ("", Answer.NO)
        question = self._questions.get(key)
        if question is None or question.message.id != message.id:
            await self._bury(message)
            return CommandAnswer(outcomes.OVER, is_error=True)
        if question.is_taken:
            return CommandAnswer(outcomes.OVER, is_error=True)
        if said is Answer.ALWAYS and question.grant is not None:
            return await self._grant(question, question.grant)
        is_first = question.end(outcomes.ONCE if said is Answer.ONCE else outcomes.REFUSED)
        return CommandAnswer() if is_first else CommandAnswer(outcomes.OVER, is_error=True)

    async def cancel(self) -> None:
        """End all that is open: a newer message, an interruption or the end of a fork came."""
        for question in self._questions.values():
            question.end(outcomes.NOT_NEEDED)

    async def reset(self) -> None:
        """Nothing is open, nothing was allowed for good, and the stored mode counts."""
        self._mode = None
        await self.cancel()
        async with self._granting:
            await asyncio.to_thread(
                self._stores.memory.transact, lambda raw: (Facts(raw).without_grants().raw, None)
            )

    async def _config(self) -> RuntimeConfig:
        try:
            return await asyncio.to_thread(self._stores.config.read)
        except StorageError:
            _logger.warning("The settings could not be read", exc_info=True)
            return RuntimeConfig()

    def _message(
        self, call: ToolCall, key: str, grant: Pattern | None, tainted: TaintedCall | None
    ) -> ChatMessage:
        card = asking_card(call, key, grant, tainted)
        return ChatMessage(
            MessageId(key),
            self._clock.now(),
            Author.PROGRAM,
            card.text,
            card=card,
            in_fork=self._in_fork(),
        )

    async def _outcome(self, question: _Question) -> Outcome:
        alarm = asyncio.create_task(self._expire(question))
        try:
            # Whoever gives up waiting must not take the outcome away from the card.
            return await asyncio.shield(question.outcome)
        finally:
            alarm.cancel()

    async def _expire(self, question: _Question) -> None:
        seconds = (await self._config()).approval_timeout
        await self._clock.sleep(seconds)
        question.end(outcomes.expired(seconds))

    async def _show(self, key: str, question: _Question) -> None:
        """From the first showing to the line that says what came of it."""
        try:
            # It may have been allowed since the call was judged; what comes later ends it too.
            allowed = await asyncio.to_thread(self.granted)
            if covering := self._covering(question, allowed):
                question.end(outcomes.from_now_on(covering))
            if question.outcome.done():
                return
            await self._stage.post(question.message)
            outcome = await question.outcome
            await self._stage.post(_answered(question.message, outcome))
        except Exception:  # whatever the disk does: what nobody can see is refused
            _logger.exception("A question could not be shown")
        finally:
            question.end(outcomes.NOT_ASKED)
            self._questions.pop(key, None)

    async def _grant(self, question: _Question, grant: Pattern) -> CommandAnswer:
        question.is_taken = True
        try:
            async with self._granting:
                if question.outcome.done():
                    return CommandAnswer(outcomes.OVER, is_error=True)
                await asyncio.to_thread(
                    self._stores.memory.transact, lambda raw: (Facts(raw).granting(grant).raw, None)
                )
        except StorageError:
            _logger.warning("What was allowed for good could not be kept", exc_info=True)
            return CommandAnswer(outcomes.NOT_KEPT, is_error=True)
        finally:
            question.is_taken = False
        is_in_time = question.end(outcomes.from_now_on(grant))
        for other in self._questions.values():
            if self._covering(other, [grant]):
                other.end(outcomes.from_now_on(grant))
        return CommandAnswer("" if is_in_time else outcomes.too_late(grant))

    def _covering(self, question: _Question, patterns: Sequence[Pattern]) -> Pattern | None:
        if question.is_tainted:
            return None
        call = question.call
        fits = (
            each for each in patterns if is_allowed([each], call.tool, call.arguments, *self._roots)
        )
        return next(fits, None)

    async def _bury(self, message: ChatMessage) -> None:
        """The buttons of a question that died with an earlier life of the program."""
        if message.card is None or all(each.is_used for each in message.card.buttons):
            return
        try:
            await self._stage.post(_answered(message, outcomes.DEAD))
        except StorageError:
            _logger.warning("A question that is over could not be shown so", exc_info=True)


def _answered(message: ChatMessage, outcome: Outcome) -> ChatMessage:
    assert message.card is not None
    card = answered_card(message.card, outcome.said, outcome.color)
    return replace(message, text=card.text, card=card)

"""Asks the owner whether a tool call may be made."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import duration_in_words
from ollim_bot.kernel.base.text import fenced, shortened, visible
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.store.steps import careful_session, end_careful, standing_taint
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import NeedsWord
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, CardLine, Color
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.permissions import (
    Grants,
    Pattern,
    Verdict,
    grant_for,
    in_words,
    is_allowed,
    verdict,
)
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.runtime_config import PermissionMode, RuntimeConfig
from ollim_bot.kernel.values.taint import GO_ON, CarefulSession, Taint, Untrusted, untrusted_message

OVER = "This question is over: nothing waits for an answer to it any more."
NOT_KEPT = "This could not be written down, so nothing is allowed yet. Allow it once, or refuse."


@dataclass(frozen=True, slots=True)
class ApprovalOutcome:
    """How a question ended.

    `said` is shown on the card. `refusal` is what the model is told; None if the call is made.
    """

    said: str
    color: Color
    refusal: str | None = None


ONCE = ApprovalOutcome("Allowed once.", Color.GREEN)
REFUSED = ApprovalOutcome(
    "Refused.",
    Color.RED,
    "The owner said no to this call. Do not try the same in another way: go on without it, or ask "
    "what to do instead.",
)
NOT_NEEDED = ApprovalOutcome(
    "No longer needed.",
    Color.BLUE,
    "The owner went on to something else before answering, so this call was not made.",
)
NOT_ASKED = ApprovalOutcome(
    "Refused: this question could not be shown.",
    Color.RED,
    "The owner could not be asked, so this call was not made. Go on without it, and say so.",
)
EXPIRED = ApprovalOutcome("Expired: nothing waits for this answer any more.", Color.BLUE)


def from_now_on(grant: Pattern) -> ApprovalOutcome:
    return ApprovalOutcome(f"Allowed from now on: `{grant}`", Color.GREEN)


def expired(seconds: float) -> ApprovalOutcome:
    length = duration_in_words(timedelta(seconds=seconds))
    refusal = (
        f"Nobody answered in {length}, so this call was not made. Go on without it, and say what "
        "is still to be done."
    )
    return ApprovalOutcome(f"Expired: no answer in {length}.", Color.BLUE, refusal)


ACTION = "approve"

_LONGEST_DESCRIPTION = 4096
_MOST_PARTS = 12
# The most characters that the name, the fence and the omission note of one argument take.
_FRAME = 120
# These arguments say what a call does, so they are shown first.
_DECISIVE = ("command", "file_path", "notebook_path", "url", "path", "pattern", "glob")


class ApprovalAnswer(Enum):
    ONCE = "once"
    ALWAYS = "always"
    NO = "no"


def asking_card(
    call: ToolCall, key: str, grant: Pattern | None, needs: NeedsWord | None = None
) -> Card:
    """The card that asks about a call.

    `grant` is the pattern that 🔓 would allow from now on; without one, 🔓 is not offered.
    `needs` says why the owner is asked although a pattern allows the call.
    """
    offer: tuple[CardField, ...] = ()
    if grant is not None:
        offer = (CardField("🔓 allows from now on", f"`{grant}` ({in_words(grant)})"),)
    warning: tuple[CardField, ...] = ()
    if needs is not None:
        why = f"I have read {needs.read}, and now want to {needs.does.wanted}. "
        warning = (CardField("Why I ask", f"{why}Allow it only if you want that yourself."),)
    parts = _parts(call.arguments)
    whole = _described(parts, [len(text) for _, text in parts])
    if len(whole) > _LONGEST_DESCRIPTION:
        # How many characters of each part to show; a long part does not crowd out the others.
        lengths = [len(text) for _, text in parts]
        left = len(lengths)
        shares, room = [0] * left, _LONGEST_DESCRIPTION - left * _FRAME
        for place in sorted(range(left), key=lambda each: lengths[each]):
            shares[place] = min(lengths[place], room // left)
            room, left = room - shares[place], left - 1
        whole = _described(parts, shares)
    buttons = tuple(_buttons(key, grant))
    name = shortened(visible(call.tool).replace("\n", " "), 200)
    asker = f" (asked by {shortened(visible(call.subagent), 40)})" if call.subagent else ""
    fields = (*warning, *offer)
    return Card(f"Allow {name}?{asker}", whole, Color.YELLOW, fields=fields, buttons=buttons)


def answered_card(card: Card, outcome: str, color: Color, pressed: Button | None = None) -> Card:
    """The card with a line that states the outcome; of its buttons only the pressed one stays."""
    buttons = () if pressed is None else (pressed._replace(is_used=True),)
    return card._replace(color=color, fields=(CardField("Answer", outcome),), buttons=buttons)


def read_button(button: Button) -> tuple[str, ApprovalAnswer] | None:
    """The key of the question and the answer of the button; None for another kind of button."""
    key, _, word = button.data.partition(":")
    return next(((key, answer) for answer in ApprovalAnswer if answer.value == word), None)


def _buttons(key: str, grant: Pattern | None) -> Iterator[Button]:
    yield Button("✅ Allow once", ACTION, f"{key}:{ApprovalAnswer.ONCE.value}", ButtonStyle.SUCCESS)
    if grant is not None:
        label = shortened(f"🔓 Always allow {grant}", 80)
        yield Button(label, ACTION, f"{key}:{ApprovalAnswer.ALWAYS.value}")
    yield Button("❌ Refuse", ACTION, f"{key}:{ApprovalAnswer.NO.value}", ButtonStyle.DANGER)


def _described(parts: Sequence[tuple[str, str]], shares: Sequence[int]) -> str:
    lines = []
    for (name, text), share in zip(parts, shares, strict=True):
        lines += [f"`{name}`", "```", text[:share], "```"]
        if share < len(text):
            lines.append(f"{len(text) - share} more characters of it are not shown here.")
    return "\n".join(lines)


def _parts(arguments: Mapping[str, object]) -> list[tuple[str, str]]:
    """Each argument with its name; too many arguments become one part."""
    if len(arguments) > _MOST_PARTS:
        return [("arguments", fenced(_json(dict(arguments))))]
    names = sorted(arguments, key=lambda name: name not in _DECISIVE)
    plain = [re.sub(r"\W", "_", name, flags=re.ASCII) or "_" for name in names]
    texts = [text if isinstance(text := arguments[name], str) else _json(text) for name in names]
    return [(shortened(name, 40), fenced(text)) for name, text in zip(plain, texts, strict=True)]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Question:
    """A question that waits for its outcome.

    `is_taken` is set while an answer is being committed: further answers are then refused.
    No pattern answers a question that `needs_word`, since text of others may be its cause.
    """

    call: ToolCall
    grant: Pattern | None
    message: ChatMessage
    needs_word: bool = False
    outcome: asyncio.Future[ApprovalOutcome] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_taken: bool = False
    pressed: Button | None = None

    def end(self, outcome: ApprovalOutcome, pressed: Button | None = None) -> bool:
        """Set the outcome, by the pressed button if by one; False if there was one already."""
        if self.outcome.done():
            return False
        self.pressed = pressed
        self.outcome.set_result(outcome)
        return True


class Approvals:
    """Asks the owner about tool calls. The main session and its interactive forks share it."""

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        root: Path,
    ) -> None:
        self._store = store
        self._state = state
        self._poster = poster
        self._clock = clock
        self._roots = (str(root), os.path.realpath(root))
        self._mode: PermissionMode | None = None
        self._questions: dict[str, _Question] = {}
        self._shows: set[asyncio.Task[None]] = set()
        self._granting = asyncio.Lock()

    async def load(self, shown: Sequence[ChatMessage]) -> None:
        """Close the questions that an earlier process left open."""
        for message in shown:
            await self._close_card(message)

    def granted(self) -> Sequence[Pattern]:
        """The patterns that the owner allowed from now on. Blocks; empty if they cannot be read."""
        try:
            return self._store.query(lambda tx: tx.grants.get()).patterns
        except StorageError:
            _logger.warning("What was allowed for good could not be read", exc_info=True)
            return ()

    async def mode(self) -> PermissionMode:
        """The mode that was set for this session, or the configured one."""
        return self._mode or PermissionMode((await self._config()).permission_mode)

    async def set_mode(self, mode: PermissionMode) -> None:
        """Set the mode until `reset` or the end of the process."""
        self._mode = mode

    async def decide(self, call: ToolCall, objection: str | NeedsWord) -> Refusal | None:
        """Decide by the mode about a call that no pattern allows, or that needs the owner's word.

        No pattern gives that word.
        """
        needs = objection if isinstance(objection, NeedsWord) else None
        match verdict(await self.mode(), call.tool, needs_word=needs is not None):
            case Verdict.LET_THROUGH:
                return None
            case Verdict.ASK:
                return await self.ask(call, needs)
            case Verdict.REFUSE:
                return Refusal(str(objection) if needs is None else needs.refusal)

    async def ask(self, call: ToolCall, needs: NeedsWord | None = None) -> Refusal | None:
        """Wait for the owner's answer, at most `approval_timeout` seconds.

        A slow surface or a failing disk does not prolong the wait.
        """
        key = uuid4().hex
        grant = None if needs else grant_for(call.tool, call.arguments, *self._roots)
        read = await self._store.read(standing_taint)
        card = asking_card(call, key, grant, needs)
        message = ChatMessage(
            MessageId(key),
            self._clock.now(),
            Author.PROGRAM,
            card.text,
            card=card,
            in_fork=self._state.fork is not None,
            untrusted=untrusted_message(read),
        )
        question = _Question(call, grant, message, needs_word=needs is not None)
        self._questions[key] = question
        try:
            show = asyncio.create_task(self._show(key, question))
            self._shows.add(show)
            show.add_done_callback(self._shows.discard)
            outcome = await self._outcome(question)
        finally:
            question.end(NOT_NEEDED)
        return Refusal(outcome.refusal) if outcome.refusal is not None else None

    async def answer(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Handle the owner's click on a button of a question."""
        key, said = read_button(button) or ("", ApprovalAnswer.NO)
        question = self._questions.get(key)
        if question is None or question.message.id != message.id:
            await self._close_card(message)
            return CommandAnswer(OVER, is_error=True)
        if question.is_taken:
            return CommandAnswer(OVER, is_error=True)
        if said is ApprovalAnswer.ALWAYS and question.grant is not None:
            return await self._grant(question, question.grant, button)
        is_first = question.end(ONCE if said is ApprovalAnswer.ONCE else REFUSED, button)
        return CommandAnswer() if is_first else CommandAnswer(OVER, is_error=True)

    async def cancel(self) -> None:
        """End all open questions, since a message, an interruption or the end of the fork came."""
        for question in self._questions.values():
            question.end(NOT_NEEDED)

    async def reset(self) -> None:
        """End all open questions, revoke all grants and return to the configured mode."""
        self._mode = None
        await self.cancel()
        async with self._granting:
            await self._store.transact(lambda tx: tx.grants.put(Grants()))

    async def _config(self) -> RuntimeConfig:
        reading = self._store.read(lambda tx: tx.config.get())
        return await unless_refused("The settings could not be read", reading) or RuntimeConfig()

    async def _outcome(self, question: _Question) -> ApprovalOutcome:

        async def expire() -> None:
            seconds = (await self._config()).approval_timeout
            await self._clock.sleep(seconds)
            question.end(expired(seconds))

        alarm = asyncio.create_task(expire())
        try:
            # A caller that is cancelled must not cancel the outcome, which the card still shows.
            return await asyncio.shield(question.outcome)
        finally:
            alarm.cancel()

    async def _show(self, key: str, question: _Question) -> None:
        """Post the card, and edit it when the question has its outcome."""
        try:
            # The call may have been granted after the gate looked; a later grant ends the question.
            allowed = await asyncio.to_thread(self.granted)
            if covering := self._covering(question, allowed):
                question.end(from_now_on(covering))
            if question.outcome.done():
                return
            await self._poster.post(question.message)
            outcome = await question.outcome
            await self._poster.post(_answered(question.message, outcome, question.pressed))
        except Exception:  # a question that cannot be shown must be refused, not left open
            _logger.exception("A question could not be shown")
        finally:
            question.end(NOT_ASKED)
            self._questions.pop(key, None)

    async def _grant(self, question: _Question, grant: Pattern, button: Button) -> CommandAnswer:
        question.is_taken = True
        try:
            async with self._granting:
                if question.outcome.done():
                    return CommandAnswer(OVER, is_error=True)
                await self._store.transact(
                    lambda tx: tx.grants.change(lambda known: known.granting(grant))
                )
        except StorageError:
            _logger.warning("What was allowed for good could not be kept", exc_info=True)
            return CommandAnswer(NOT_KEPT, is_error=True)
        finally:
            question.is_taken = False
        is_in_time = question.end(from_now_on(grant), button)
        for other in self._questions.values():
            if self._covering(other, [grant]):
                other.end(from_now_on(grant))
        late = f"That came too late for this call. From now on, `{grant}` is allowed."
        return CommandAnswer("" if is_in_time else late)

    def _covering(self, question: _Question, patterns: Sequence[Pattern]) -> Pattern | None:
        if question.needs_word:
            return None
        call = question.call
        fits = (
            each for each in patterns if is_allowed([each], call.tool, call.arguments, *self._roots)
        )
        return next(fits, None)

    async def _close_card(self, message: ChatMessage) -> None:
        """Remove the buttons of a question that is over."""

        async def close() -> None:
            # Its outcome may have been posted after `message` was read.
            newest = await self._poster.find(message.id) or message
            if newest.card is not None and any(not each.is_used for each in newest.card.buttons):
                await self._poster.post(_answered(newest, EXPIRED))

        await unless_refused("A question that is over could not be shown so", close())


def _answered(
    message: ChatMessage, outcome: ApprovalOutcome, pressed: Button | None = None
) -> ChatMessage:
    assert message.card is not None
    card = answered_card(message.card, outcome.said, outcome.color, pressed)
    return replace(message, text=card.text, card=card)


_WHAT_IT_MEANS = (
    "It has read words of others, so what lasts or leaves needs your word. That ends with your "
    "next words, or here."
)
_ENDED = "It is not careful any more, until it reads words of others again."
_READ_MORE = "It has read something else since then. `/permissions` shows what."


class CarefulTimes:
    """`run` is that of the newest turn, which may be running."""

    def __init__(
        self, store: Store, poster: MessagePoster, run: Callable[[], Run], clock: Clock
    ) -> None:
        self._store = store
        self._poster = poster
        self._run = run
        self._clock = clock
        self.actions: Mapping[str, Action] = {GO_ON: Action(self._press)}

    async def show(self, call: CommandCall) -> None:
        """Post what has been read, with the button; nothing if there is nothing to show."""
        careful, now = await self._store.read(careful_session), self._clock.now()
        if careful is None:
            return
        lines = tuple(map(CardLine, careful.named))
        title, button = careful.since_when(now).capitalize(), careful.shown(now).button
        card = Card(title, _WHAT_IT_MEANS, lines=lines, buttons=(button,))
        mark = Taint(careful.sources).mark
        note = replace(
            self._poster.note(card, name=f"careful-{call.id}"),
            untrusted=Untrusted(mark, "a card that names what was read"),
        )
        await self._store.transact(lambda tx: self._poster.add_note(tx, note))

    async def _press(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        return await self.go_on(button.data)

    async def go_on(self, key: str) -> CommandAnswer:
        """As `ChatService.go_on`; the running turn goes on with it, too."""

        def step(tx: Transaction) -> CarefulSession | None:
            careful = careful_session(tx)
            if careful is not None and careful.key == key:
                end_careful(tx, careful.session)
            return careful

        careful, run = await self._store.transact(step), self._run()
        if careful is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        if careful.key != key:
            return CommandAnswer(_READ_MORE, is_error=True)
        if run.session == careful.session:
            # What it has read meanwhile was not shown, and stays.
            left = tuple(each for each in run.taint.sources if each not in careful.sources)
            run.allowed = (*run.allowed, *careful.sources)
            run.taint = replace(run.taint, sources=left)
        return CommandAnswer(_ENDED)

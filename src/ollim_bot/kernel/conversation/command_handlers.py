"""The slash commands of the conversation itself: an end, a new beginning, what is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.approvals import Approvals, CarefulTimes
from ollim_bot.kernel.conversation.buttons import Action, Uses
from ollim_bot.kernel.conversation.chat_sessions import leave_session, replace_session
from ollim_bot.kernel.conversation.fork_commands import Forks
from ollim_bot.kernel.conversation.message_poster import CommandChange, MessagePoster, answer_name
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.conversation.turn_runner import TurnRunner
from ollim_bot.kernel.store.steps import end_clear_undo
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import Argument, CommandAnswer, slash_command
from ollim_bot.kernel.values.events import EndCause
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.runtime_config import PermissionMode
from ollim_bot.kernel.values.sessions import Cause, ClearedConversation, began_at, compacted_history

UNDO_CLEAR = "undo_clear"


def left_words(fork: Fork | None) -> str:
    """The sentence about the side conversation that was left; empty if there was none."""
    if fork is None:
        return ""
    about = f" about “{fork.topic}”" if fork.topic else ""
    return f" The side conversation{about} was left too."


class ConversationCommands:
    """The commands that stop a turn, or begin a new conversation and undo that."""

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        turns: TurnRunner,
        approvals: Approvals,
        forks: Forks,
        poster: MessagePoster,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._turns = turns
        self._approvals = approvals
        self._forks = forks
        self._poster = poster
        self._clock = clock
        self.actions: Mapping[str, Action] = {"undo:clear": Action(self._undo, Uses.NOTHING)}

    async def stop(self) -> bool:
        """Interrupt the running turn; False if none runs."""
        return await self._turns.interrupt()

    @slash_command(160, "interrupt", "Stop the answer that is being written")
    async def interrupt(self, _: CommandCall) -> str:
        return "" if await self.stop() else texts.NOTHING_RUNS

    @slash_command(
        150,
        "clear",
        "Begin a new conversation, with an Undo",
        is_queued=True,
        can_repeat=True,
        before="stop",
    )
    async def clear(self, call: CommandCall) -> CommandChange:
        grants = await self._store.read(lambda tx: tx.grants.get())
        await self._approvals.reset()
        now = self._clock.now()

        def step(tx: Transaction) -> str | Card:
            fork, session = self._forks.leave(tx), leave_session(tx, now)
            if fork is None and session is None:
                return texts.NOTHING_TO_CLEAR
            end_clear_undo(tx)
            tx.cleared.put(ClearedConversation(call.id, answer_name(call.id), session, now))
            tx.cleared_fork.put(fork)
            tx.cleared_grants.put(grants)
            kept = "The next message begins a new conversation; `/sessions` keeps the old one."
            undo = Button("Undo", "undo", f"clear:{call.id}")
            return Card("Cleared", f"{kept}{left_words(fork)}", buttons=(undo,))

        return CommandChange(step, after=self._forks.close)

    async def _undo(self, surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Queue the return: a turn of the new conversation ends first."""
        key, now = button.data.removeprefix("clear:"), self._clock.now()
        if self._forks.open is not None:
            return CommandAnswer(texts.UNDO_IN_FORK, is_error=True)
        cleared = await self._store.read(lambda tx: tx.cleared.get())
        if not cleared.can_return(key, now):
            return CommandAnswer(texts.UNDO_TOO_LATE, is_error=True)
        await self._turns.interrupt()
        arguments = {"clear": key, "message": message.id}
        await self._state.queue(UNDO_CLEAR, now, surface, arguments)
        return CommandAnswer()

    async def undo_clear(self, call: CommandCall) -> CommandChange:
        """Return to the cleared session, with its grants and the fork that was left."""
        now = self._clock.now()

        def step(tx: Transaction) -> str | Card:
            cleared, since = tx.cleared.get(), tx.session.get()
            if cleared.id != call.arguments["clear"] or tx.fork.get() is not None:
                return ""
            if cleared.session is not None:
                replace_session(tx, cleared.session, Cause.RESUMED, now)
            if fork := tx.cleared_fork.get():
                self._forks.reopen(tx, fork, now)
            tx.grants.put(tx.cleared_grants.get())
            tx.cleared.put(ClearedConversation())
            tx.cleared_fork.put(None)
            tx.cleared_grants.put(Grants())
            message = tx.messages.get(MessageId(call.arguments["message"]))
            if message is not None:
                newer = "" if since is None else " What was said since is in `/sessions`."
                card = Card("Undone", f"You are back in the conversation as it was.{newer}")
                self._poster.add_to_log(tx, replace(message, text=card.text, card=card))
            return ""

        return CommandChange(step, after=self._forks.close)

    @slash_command(
        140,
        "compact",
        "Make the conversation shorter, keeping what matters",
        Argument("instructions", "what to keep, in your words", takes_rest=True),
        is_queued=True,
    )
    async def compact(self, call: CommandCall) -> str:
        session_id = self._forks.current.id
        if session_id is None:
            return texts.NOTHING_TO_COMPACT
        events = await self._store.read(lambda tx: tx.session_history.all())
        began = began_at(session_id, events) or self._clock.now()
        line = f"/compact {call.arguments.get('instructions', '')}".strip()
        turn, end = await self._turns.run_command(call.id, line)
        if end.failure is not None:
            return end.failure.sentence
        if turn.compacted is None:
            return texts.STOPPED if end.cause is EndCause.INTERRUPTED else texts.COMPACTED_NOTHING
        now = self._clock.now()
        logged = await self._store.read(lambda tx: tx.messages.since(began))
        messages = [each.message for each in logged]
        tokens = turn.compacted.tokens_before or 0
        return str(compacted_history(session_id, began, now, messages, tokens))


_MEANS: Mapping[PermissionMode, str] = {
    PermissionMode.DONT_ASK: "what is not allowed beforehand is refused",
    PermissionMode.DEFAULT: "you are asked about what is not allowed beforehand",
    PermissionMode.ACCEPT_EDITS: "files are written without asking, you are asked about the rest",
    PermissionMode.BYPASS: "nothing is asked, only what is out of reach always is refused",
}
_BY_NAME: Mapping[str, PermissionMode] = {mode.lower(): mode for mode in PermissionMode}


class PermissionCommands:
    def __init__(self, approvals: Approvals, careful: CarefulTimes) -> None:
        self._approvals = approvals
        self._careful = careful

    @slash_command(
        190,
        "permissions",
        "When the agent wants a tool you have not allowed",
        Argument("mode", "how it is decided, for now", tuple(PermissionMode)),
    )
    async def permissions(self, call: CommandCall) -> str:
        """Set the given mode, or show the current one; raises `WrongInput`.

        A card shows what makes the conversation careful now, with the button that ends it.
        """
        arguments = call.arguments
        if "mode" in arguments:
            wanted = _BY_NAME.get(arguments["mode"].strip().lower())
            if wanted is None:
                known = ", ".join(PermissionMode)
                raise WrongInput(
                    f"There is no mode `{arguments['mode']}`. It takes one of {known}."
                )
            await self._approvals.set_mode(wanted)
            return (
                f"Mode: `{wanted}` ({_MEANS[wanted]}), until `/clear` or a restart. "
                f"`/config permission_mode {wanted}` sets it for good."
            )
        await self._careful.show(call)
        mode = await self._approvals.mode()
        granted = await asyncio.to_thread(self._approvals.granted)
        lines = [f"Mode: `{mode}` ({_MEANS[mode]}). It takes {', '.join(PermissionMode)}."]
        allowed = ("You have allowed, until `/clear`:", *(f"- `{each}`" for each in granted))
        lines += allowed if granted else ["You have allowed nothing with 🔓."]
        return "\n".join(lines)

"""Shows that the conversation is careful, and ends it when the owner says that it is all right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Button, Card, CardLine
from ollim_bot.domain.careful import GO_ON, CarefulSession
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inbox import CommandCall
from ollim_bot.domain.runs import Run
from ollim_bot.domain.taint import Taint, Untrusted
from ollim_bot.ports import Clock
from ollim_bot.store.steps import careful_session, end_careful
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

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

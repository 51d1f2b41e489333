"""Delivers a message to the phone without the bot, for a program without an event loop.

It sends what the bot would send, with the same sequence, so that neither sends it a second time.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.push import Pairing
from ollim_bot.domain.runtime_config import PushContent
from ollim_bot.domain.surface_state import PushState
from ollim_bot.errors import DeliveryUncertain, Unreachable
from ollim_bot.settings import PHONE, Secret
from ollim_bot.store.transaction import Step, Transaction
from ollim_bot.surfaces.ntfy.allowance import is_room, is_silent, silent_until
from ollim_bot.surfaces.ntfy.client import MESSAGE, Event, NtfyClient, Push, ReplyButton, TooMany
from ollim_bot.surfaces.ntfy.rendering import phone_buttons, wording
from ollim_bot.surfaces.ntfy.replies import NONCE_BYTES
from ollim_bot.upkeep.direct_channels import LookUp, SentinelClock

_DAY_IS_OVER = "The server of the phone takes no more today."
_FORGOTTEN = "The server of the phone keeps too little to tell whether it has it."

T = TypeVar("T")


class Commit(Protocol):
    """Runs a step on the database; None if it cannot be written."""

    def __call__(self, step: Step[T], /) -> T | None: ...


@dataclass(frozen=True, slots=True)
class PhoneAccess:
    """The pairing, and who speaks with its server.

    `reply_token` stands in the buttons. `content` is how much of a message leaves the machine where
    the database does not say it.
    """

    pairing: Pairing
    client: NtfyClient
    bot: str
    content: PushContent
    reply_token: Secret | None = None


class NtfyDirect:
    """A `DirectChannel`. Without a database that can be written, its messages have no buttons.

    What a button posts must be known before it can be pressed.
    """

    name = PHONE

    def __init__(self, access: PhoneAccess, clock: SentinelClock, commit: Commit) -> None:
        self._access = access
        self._client = access.client
        self._clock = clock
        self._commit = commit

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        found = self._found(nonce, look)
        if found is not None:
            return found
        push = self._push(message, nonce)
        try:
            return self._client.publish(push)
        except TooMany as refused:
            # Keep the pause that the server wants, for the next run and for the bot.
            until = silent_until(self._clock.now(), 0, refused.wait, is_of_day=refused.is_of_day)
            self._commit(lambda tx: tx.push.change(lambda state: state.silent_until(until)))
            raise
        except DeliveryUncertain:
            with suppress(Unreachable):
                look = look._replace(is_in_doubt=False, was_tried=False)
                found = self._found(nonce, look)
            if found is None:
                raise
            return found

    def _found(self, nonce: str, look: LookUp) -> str | None:
        """The id of the message, if the server has it already."""
        try:
            events = self._client.read(self._access.pairing.topic)
        except DeliveryUncertain:
            if look.is_in_doubt:
                raise
            return None
        for each in events:
            if each.kind == MESSAGE and each.sequence == nonce:
                return each.id
        if look.was_tried and not _is_kept(events, look.since, look.others):
            raise DeliveryUncertain(_FORGOTTEN)
        return None

    def _push(self, message: ChatMessage, nonce: str) -> Push:
        """The push, after it was counted; raises `Unreachable` if it would be too many."""
        pairing, now = self._access.pairing, self._clock.now()
        chosen = [each.custom_id for _, each in phone_buttons(message)]
        nonces = [secrets.token_urlsafe(NONCE_BYTES) for _ in chosen]

        def step(tx: Transaction) -> tuple[PushState, PushContent, Mapping[str, str]]:
            content = PushContent(tx.config.get().push_content)
            state = tx.push.get()
            if is_silent(state, now) or not is_room(state, now, must=message.must):
                return state, content, {}
            if state.identity != pairing.identity:
                tx.push_buttons.withdraw_all()
            tx.push.put(state.of_pairing(pairing.identity).counting(now))
            return state, content, tx.push_buttons.offer(message.id, chosen, nonces, now)

        kept = self._commit(step)
        state, content, offered = kept or (PushState(), self._access.content, {})
        if is_silent(state, now):
            raise Unreachable("The server of the phone wants a pause.")
        if not is_room(state, now, must=message.must):
            raise Unreachable(_DAY_IS_OVER)
        buttons = [
            ReplyButton(
                label, pairing.reply_topic, offered[each.custom_id], self._access.reply_token
            )
            for label, each in phone_buttons(message)
            if each.custom_id in offered
        ]
        words = wording(message, content, self._access.bot)
        return Push(pairing.topic, nonce, *words, buttons=tuple(buttons))


def _is_kept(events: Sequence[Event], since: datetime, others: Collection[str]) -> bool:
    """Whether the server surely still has what it got since then: it has something older."""
    if any(each.id in others and not each.sequence for each in events):
        return False  # a server before 2.16, on which nothing can be found
    return any(each.id in others or each.at <= since for each in events)

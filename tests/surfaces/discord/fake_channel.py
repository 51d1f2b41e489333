"""Doubles `DmChannel`: the owner's direct messages in memory, with failures on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.surfaces.discord.rendering import OutgoingMessage, ReceivedMessage, RemoteFile


@dataclass
class Posted:
    """A message of the bot. `versions` has all its contents, the present one last."""

    ref: str
    at: datetime
    nonce: str
    versions: list[OutgoingMessage]
    marks: set[str] = field(default_factory=set)

    @property
    def outgoing(self) -> OutgoingMessage:
        return self.versions[-1]


class FakeChannel:
    """The owner's direct messages with the bot.

    `failures` has, by the name of a call, what its next calls raise; for a `None`, the call
    succeeds. `lost_answers` has, by name, how many of the next calls succeed but raise
    `DeliveryUncertain`. While `may_answer` is cleared, every call hangs. `calls` has the name of
    each call, with the message that it was about, and `cancelled` the names of those that were cut
    short. An optional edit should wait until `pause`
    seconds after the last send or edit.
    """

    def __init__(self, clock: Clock) -> None:
        self.bot: dict[str, Posted] = {}
        self.owner: dict[str, ReceivedMessage] = {}
        self.files: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.failures: dict[str, deque[Exception | None]] = {}
        self.lost_answers: dict[str, int] = {}
        self.cancelled: list[str] = []
        self.is_down = False
        self.pause = 1.2
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._clock = clock
        self._used_at = float("-inf")
        self._ids = count(1001)

    def fail(self, call: str, *errors: Exception | None) -> None:
        self.failures.setdefault(call, deque()).extend(errors)

    @property
    def texts(self) -> list[str]:
        """The present texts of the bot's messages, oldest first."""
        return [each.outgoing.text for each in self.bot.values()]

    def say(self, text: str, **fields: object) -> ReceivedMessage:
        """The owner writes a message, with further fields of `ReceivedMessage`."""
        seen = ReceivedMessage(
            str(next(self._ids)), self._clock.now(), is_owners=True, is_ours=False
        )
        seen = replace(seen, text=text, **fields)  # type: ignore[arg-type]
        self.owner[seen.ref] = seen
        return seen

    async def send(self, outgoing: OutgoingMessage, nonce: str) -> str:
        await self._called("send", nonce)
        for known in self.bot.values():
            if known.nonce == nonce:
                return known.ref
        ref = str(next(self._ids))
        self.bot[ref] = Posted(ref, self._clock.now(), nonce, [outgoing])
        self._answered("send")
        return ref

    async def edit(self, ref: str, outgoing: OutgoingMessage) -> None:
        await self._called("edit", ref)
        posted = self._known(ref)
        posted.versions.append(replace(outgoing, files=posted.outgoing.files))
        self._answered("edit")

    async def delete(self, ref: str) -> None:
        await self._called("delete", ref)
        self.bot.pop(ref, None)
        self._answered("delete")

    async def mark(self, ref: str, emoji: str) -> None:
        await self._called("mark", ref)
        if ref in self.owner:
            seen = self.owner[ref]
            self.owner[ref] = replace(seen, marks=seen.marks | {emoji})
        else:
            self._known(ref).marks.add(emoji)

    async def unmark(self, ref: str, emoji: str) -> None:
        await self._called("unmark", ref)
        if ref in self.owner:
            seen = self.owner[ref]
            self.owner[ref] = replace(seen, marks=seen.marks - {emoji})
        else:
            self._known(ref).marks.discard(emoji)

    async def show_typing(self) -> None:
        await self._called("show_typing", "")

    async def newest(self, limit: int) -> Sequence[ReceivedMessage]:
        await self._called("newest", str(limit))
        return self._all()[-min(limit, 100) :]

    async def after(self, ref: str) -> Sequence[ReceivedMessage]:
        await self._called("after", ref)
        return [each for each in self._all() if int(each.ref) > int(ref)]

    async def fetch(self, file: RemoteFile, target: Path, most: int) -> None:
        await self._called("fetch", file.name)
        if file.url not in self.files or len(self.files[file.url]) > most:
            raise DeliveryFailed("It is gone or too large.")
        await asyncio.to_thread(target.write_bytes, self.files[file.url])

    def pause_before_edit(self) -> float:
        return max(0.0, self._used_at + self.pause - self._clock.monotonic())

    def _all(self) -> list[ReceivedMessage]:
        ours = (_seen(each) for each in self.bot.values())
        return sorted((*ours, *self.owner.values()), key=lambda each: int(each.ref))

    def _known(self, ref: str) -> Posted:
        if ref not in self.bot:
            raise DeliveryFailed("That message is gone.")
        return self.bot[ref]

    async def _called(self, name: str, about: str) -> None:
        self.calls.append((name, about))
        if name in ("send", "edit"):
            self._used_at = self._clock.monotonic()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        if self.is_down:
            raise Unreachable("There is no network.")
        planned = self.failures.get(name)
        error = planned.popleft() if planned else None
        if error is not None:
            raise error

    def _answered(self, name: str) -> None:
        if self.lost_answers.get(name, 0) > 0:
            self.lost_answers[name] -= 1
            raise DeliveryUncertain("No answer came.")


def _seen(posted: Posted) -> ReceivedMessage:
    card = posted.outgoing.card
    return ReceivedMessage(
        posted.ref,
        posted.at,
        is_owners=False,
        is_ours=True,
        text=posted.outgoing.text or (card.text if card else ""),
        nonce=posted.nonce,
        is_edited=len(posted.versions) > 1,
        has_card=card is not None,
        has_buttons=any(not each.is_used for each in card.buttons) if card else False,
        marks=frozenset(posted.marks),
    )

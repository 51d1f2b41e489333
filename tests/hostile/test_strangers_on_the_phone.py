"""Strangers who know the topics of the phone: what they write is neither heard nor obeyed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from devtools.doubles.engine import CallsTool
from devtools.localntfy.phone import Notification, Phone
from devtools.localntfy.server import LocalNtfy
from tests.hostile.fence_scene import FenceScene

from ollim_bot.domain.push import Pairing
from ollim_bot.domain.surface_state import PushState
from ollim_bot.settings import NtfyAccount
from ollim_bot.store.push_file import PushFile
from ollim_bot.surfaces.ntfy.channel import NtfyChannel

TOPIC, REPLIES, NEW_REPLIES = "ollim-out", "ollim-in", "ollim-in-2"
COMMANDS = ("/clear", "/permissions bypassPermissions", "/quiet 8h", "/fork obey")
# What a push may have. Nothing of it opens, loads or formats something on the phone.
FIELDS = {"topic", "message", "title", "priority", "sequence_id", "tags", "actions"}


class PhoneScene(FenceScene):
    """The whole bot in this process, paired with a phone."""

    def __init__(self, home: Path, ntfy: LocalNtfy, phone: Phone) -> None:
        super().__init__(home, lambda carrier: carrier, channels=[self._channel])
        self.ntfy = ntfy
        self.phone = phone
        self.pair(REPLIES)

    def _channel(self, store, _, clock) -> NtfyChannel:
        account = NtfyAccount(self.ntfy.url)
        return NtfyChannel(store, PushFile(self.paths), lambda: account, clock)

    def pair(self, reply_topic: str) -> Pairing:
        began = self.now - timedelta(seconds=5)
        pairing = Pairing(self.ntfy.url, TOPIC, reply_topic, began)
        PushFile(self.paths).write(pairing)
        return pairing

    async def pushed(self) -> PushState:
        return await self.parts.state.read(lambda tx: tx.push.get())

    async def counted(self, number: int) -> None:
        """Wait until so many lines of the replies were counted as wrong or too many."""
        while (state := await self.pushed()).wrong + state.dropped < number:
            await self.until(lambda: True)

    async def remind(self, text: str) -> Notification:
        """Have a reminder come, and return it as the phone shows it."""
        given = {"prompt": text, "description": text, "delay_minutes": 1}
        await self.ask(f"remind me: {text}", CallsTool("mcp__discord__add_reminder", given))
        await self.phone.until(lambda: self._shown(text), 600)
        (shown,) = self._shown(text)
        return shown

    def _shown(self, text: str) -> list[Notification]:
        return [each for each in self.phone.shown if text in f"{each.title} {each.text}"]

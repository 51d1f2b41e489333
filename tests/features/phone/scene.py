"""The phone's channel at the local server: queue, store and phones, which outlive a bot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from devtools.doubles.repeating_store import RepeatingStore
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from tests.virtual_loop import LoopClock

from ollim_bot.features.phone.ntfy_channel import NtfyChannel
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.http_exchange import HttpLimits
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import NtfyAccount, Secret
from ollim_bot.kernel.conversation.delivery import DeliveryQueue, DeliveryQueues
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.due_items import DueItem, settled_card
from ollim_bot.kernel.values.item_messages import card_message
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import Status
from ollim_bot.kernel.values.push import Pairing
from ollim_bot.kernel.values.surface_state import PushState

TOPIC, REPLY = "ollim-out", "ollim-reply"
LIMITS = HttpLimits(step=5.0, whole=5.0, largest=1_000_000)
BOT = "Ollim"
STATUS = Status("offline model", True, "offline", False, "Ada", BOT, "0")


class PressingService:
    """Answers the cards of the log, as the conversation does."""

    def __init__(self, scene: PhoneScene) -> None:
        self.status = STATUS
        self.presses: list[tuple[str, str]] = []
        self.troubles: list[str] = []
        self._scene = scene

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        assert (surface, words) == ("ntfy", "")
        known = self._scene.store.query(lambda tx: tx.messages.get(message_id))
        buttons = known.card.buttons if known and known.card else ()
        if known is None or custom_id not in [each.custom_id for each in buttons]:
            return CommandAnswer("That is over.", is_error=True)
        self.presses.append((known.text, custom_id.split(":")[1]))
        self._scene.settle(message_id)
        return CommandAnswer()

    async def trouble(self, sentence: str) -> None:
        self.troubles.append(sentence)
        self.status = replace(self.status, trouble=sentence)
        if not sentence:
            self._scene.nudge()


@dataclass
class PhoneScene:
    """Everything that survives a kill of the bot."""

    folder: Path
    ntfy: LocalNtfy
    account: NtfyAccount = field(default_factory=NtfyAccount)
    clock: LoopClock = field(default_factory=lambda: LoopClock(UTC))
    nudge: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.store = RepeatingStore(self.clock.now)
        self.file = PushFile(DataPaths(self.folder))
        prepare_data_directory(DataPaths(self.folder))
        self.service = PressingService(self)
        self.items: dict[MessageId, DueItem] = {}

    def pair(self, topic: str = TOPIC) -> Pairing:
        pairing = Pairing(self.ntfy.url, topic, REPLY, self.clock.now())
        self.file.write(pairing)
        self.store.run(lambda tx: tx.channels.join("ntfy", pairing.identity))
        return pairing

    def channel(self, **more: Any) -> NtfyChannel:
        return NtfyChannel(
            self.store, self.file, lambda: self.account, self.clock, limits=LIMITS, **more
        )

    @asynccontextmanager
    async def bot(self, **more: Any) -> AsyncIterator[NtfyChannel]:
        """A bot from its start to its kill: it knows what the store has, and nothing else."""
        channel = self.channel(**more)
        queue = DeliveryQueue(self.store, channel, self.clock)
        queues = DeliveryQueues(self.store, [queue], self.clock)
        self.nudge = queue.nudge
        await queues.load()
        running = [
            asyncio.create_task(queues.run()),
            asyncio.create_task(channel.run(self.service)),  # type: ignore[arg-type]
        ]
        try:
            yield channel
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def ask(self, words: str, *, must: bool = False, job_id: str = "") -> MessageId:
        """Post the card of a due reminder."""
        now = self.clock.now()
        job_id = job_id or f"r{len(self.items)}"
        occurrence = Occurrence.scheduled(JobKind.REMINDER, job_id, now)
        job = Reminder(JobSpec(id=job_id, message=words, background=True), now)
        item = DueItem.of(job, occurrence, MessageId(""), now)
        card = replace(card_message(item, occurrence, now), must=must)
        self.items[card.id] = item
        self.store.run(lambda tx: tx.messages.add(card))
        return card.id

    def say(self, words: str, author: Author = Author.BACKGROUND, **more: Any) -> MessageId:
        message = ChatMessage(MessageId(f"m-{words}"), self.clock.now(), author, words, **more)
        self.store.run(lambda tx: tx.messages.add(message))
        return message.id

    async def choose(self, key: str, value: str) -> None:
        """Change a setting, and let the bot read it."""
        self.store.run(lambda tx: tx.config.change(lambda old: old.with_value(key, value)))
        await asyncio.sleep(1)

    def settle(self, message_id: MessageId) -> None:
        """Answer the card, from wherever."""
        message = self.store.query(lambda tx: tx.messages.get(message_id))
        assert message is not None
        card = settled_card(self.items[message_id], self.clock.now())
        self.store.run(lambda tx: tx.messages.add(replace(message, card=card)))

    def state_of(self, message_id: MessageId) -> DeliveryState | None:
        found = self.store.query(lambda tx: tx.deliveries.get("ntfy", message_id))
        return None if found is None else found.state

    def is_over(self, message_id: MessageId) -> bool:
        return self.state_of(message_id) is not DeliveryState.OPEN

    @property
    def push(self) -> PushState:
        return self.store.query(lambda tx: tx.push.get())

    @property
    def published(self) -> list[str]:
        """What the server got for the phone, in order: the things, by their titles or texts."""
        sent = [each for each in self.ntfy.published(TOPIC) if each.event == "message"]
        said = [(each.title, each.text.splitlines()[-1]) for each in sent]
        return [title if words == BOT else words for title, words in said]

    async def until(self, is_so: Callable[[], object], seconds: float = 600.0) -> None:
        """Wait for the condition by looking after each second of virtual time."""
        ends = self.clock.now() + timedelta(seconds=seconds)
        while not is_so():
            assert self.clock.now() < ends, "it did not come to be so"
            await asyncio.sleep(0.25)

    async def confirmed(self, *messages: MessageId) -> None:
        await self.until(lambda: {*map(self.state_of, messages)} == {DeliveryState.CONFIRMED})

    def phone(self, **more: Any) -> Phone:
        return Phone(self.ntfy.url, TOPIC, **more)


def secret_account(url: str, token: str, reply: str = "") -> NtfyAccount:
    return NtfyAccount(url, Secret(token), Secret(reply) if reply else None)


def parsed(moment: str) -> datetime:
    return datetime.fromisoformat(moment)

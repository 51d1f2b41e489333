"""A whole conversation on test doubles: scripted engine, stores in memory, manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.events import MemoryEvents
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.memory import RecordingStore
from devtools.doubles.surface import RecordingSurface
from devtools.doubles.tasks import MemoryTasks
from tests.file_changes import file_changes
from tests.patience import patience
from tests.stores import Stores, memory_stores

from ollim_bot.app.build import ConversationDeps, ConversationParts
from ollim_bot.app.surfaces import keep_running
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation.conversation import Conversation
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.tools.gates import BackgroundTools
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS
from ollim_bot.kernel.upkeep.findings import DoctorFinding, Level, Repair
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import TurnEnded
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    Ended,
    InboxRow,
    InputEnd,
    InputId,
    OwnerMessage,
)
from ollim_bot.kernel.values.notices import GATHERING
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    ChatSurface,
    Gate,
    IncomingFile,
    IncomingMessage,
    Refusal,
    SessionSpec,
    Status,
    ToolCall,
)
from ollim_bot.kernel.values.sessions import SessionChange

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
HOME = Path("/data")
LONGEST = 60.0

STATUS = Status(
    provider="Claude",
    is_offline=False,
    model="default",
    is_busy=False,
    user_name="Ada",
    bot_name="Ollim",
    version="1.0",
)


class FakeAttachmentStore:
    """Doubles `AttachmentStore`. The name of a file decides whether it is an image, broken, or
    refused. `reading` has the names of the images that were asked for."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.reading: list[str] = []
        self._held = ""
        self._hold: asyncio.Future[None] | None = None

    def hold(self, name: str) -> asyncio.Future[None]:
        """The next reading of that image waits until the returned future is done."""
        hold: asyncio.Future[None] = asyncio.Future()
        self._held, self._hold = name, hold
        return hold

    def keep(self, input_id: InputId, file: IncomingFile) -> Attachment:
        if file.name.startswith("refused"):
            raise WrongInput(f"{file.name} is too large.")
        self.kept.append(file.name)
        media_type = "image/png" if file.name.endswith(".png") else "text/plain"
        return Attachment(file.name, f"downloads/{input_id}/{file.name}", media_type, 3)

    async def image(self, attachment: Attachment) -> tuple[str, bytes]:
        self.reading.append(attachment.name)
        if attachment.name == self._held and self._hold is not None:
            self._held = ""
            await self._hold
        if attachment.name.startswith("broken"):
            raise WrongInput(f"{attachment.name} is no picture that can be read.")
        return attachment.media_type, attachment.name.encode()

    def clean(self, now: datetime) -> int:
        raise NotImplementedError(now)


class InlineExecutor(ThreadPoolExecutor):
    """Runs each function at once in the calling thread.

    Only the event loop decides the order of things, so that it is the same each time.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # A future of the loop itself, which the loop uses as it is. A future of a thread would
        # wake the loop through a socket.
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        try:
            settle = partial(_settle, done, done.set_result, fn(*args, **kwargs))
        except BaseException as raised:  # noqa: BLE001 - the caller gets every error
            settle = partial(_settle, done, done.set_exception, raised)
        loop.call_soon(settle)
        return done


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not done.done():
        settle(outcome)


async def let_through(_: ToolCall) -> Refusal | None:
    return None


async def all_well() -> str:
    return "All is well."


class AllWell:
    """An `Examiner` that finds one passed check, or what `found` has; `mended` are the names."""

    def __init__(self) -> None:
        self.found: Sequence[DoctorFinding] = [DoctorFinding(Level.PASS, "clock", "right")]
        self.mended: list[str] = []

    def examine(self) -> Sequence[DoctorFinding]:
        return self.found

    def mend(self, findings: Sequence[DoctorFinding]) -> Sequence[Repair]:
        self.mended += [each.name for each in findings]
        return [Repair(each.name, "is right again") for each in findings]


async def _none_newer() -> str | None:
    return None


async def _no_update() -> str:
    return "no update"


async def no_login() -> str:
    return ""


async def plain_spec() -> SessionSpec:
    return SessionSpec("You help.", HOME)


@dataclass
class Scene:
    """A started conversation. `tasks` are its running parts; if one fails, `until` raises."""

    talk: ConversationParts
    chat: Conversation
    stores: Stores
    clock: ManualClock
    surfaces: Sequence[RecordingSurface]
    keeper: FakeAttachmentStore
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.stores.state

    @property
    def surface(self) -> RecordingSurface:
        return self.surfaces[0]

    async def send(self, text: str, name: str = "", **more: Any) -> ChatMessage:
        """The id of the message is `name`, or its text."""
        return await self.chat.receive(IncomingMessage(InputId(name or text), "web", text, **more))

    async def ask(self, text: str, name: str = "", **more: Any) -> str:
        """Send it, wait for the end of its turn, and return the last answer."""
        await self.send(text, name, **more)
        await self.quiet()
        return self.answers[-1].text

    async def ask_without_answer(self, text: str, name: str = "") -> str:
        """Send it, wait for the end of its turn, and return what the program said last."""
        await self.send(text, name)
        await self.quiet()
        return self.told[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for the condition. The clock stands still: a test has to advance it."""
        async with asyncio.timeout(patience()):
            for looks in count():
                if condition():
                    return
                for task in self.tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0 if looks < 500 else 0.001)

    async def gathered(self) -> None:
        """Let the seconds pass in which a notice waits for others."""
        await self.until(lambda: self.clock.sleeping)
        await self.clock.advance(GATHERING.total_seconds())

    async def quiet(self) -> None:
        """Wait until no input waits, no turn runs, and every turn was shown to its end."""
        await self.until(lambda: self.is_quiet)
        await self.talk.fanout.catch_up()

    @property
    def is_quiet(self) -> bool:
        shown = all(
            any(isinstance(event, TurnEnded) for event in surface.events[start.turn])
            for surface in self.surfaces
            for start in surface.starts
        )
        return self.talk.state.is_quiet and shown

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def answers(self) -> list[ChatMessage]:
        return [message for message in self.log if message.author is Author.ASSISTANT]

    @property
    def told(self) -> list[str]:
        """What the program itself said."""
        return [message.text for message in self.log if message.author is Author.PROGRAM]

    @property
    def rows(self) -> Sequence[InboxRow]:
        return inbox_rows(self.stores)

    @property
    def ends(self) -> dict[str, InputEnd]:
        """How the messages ended, by id."""
        rows = (row for row in self.rows if isinstance(row, Ended))
        ends = {str(each): row.end for row in rows for each in row.inputs}
        messages = {
            row.input.id
            for row in self.rows
            if isinstance(row, Accepted) and isinstance(row.input, OwnerMessage)
        }
        return {each: end for each, end in ends.items() if each in messages}

    @property
    def changes(self) -> list[SessionChange]:
        return [event.event for event in self.stores.session_history.read().entries]

    @property
    def pending(self) -> list[str]:
        return [entry.message for entry in self.stores.updates.read().entries]

    @property
    def cards(self) -> list[Card]:
        return [message.card for message in self.log if message.card]

    @property
    def newest_card(self) -> ChatMessage:
        """The newest message that has a card."""
        return next(message for message in reversed(self.log) if message.card)

    async def press(
        self,
        label: str,
        message: ChatMessage | None = None,
        *,
        line: int = 0,
        words: str = "",
        surface: str = "web",
    ) -> CommandAnswer:
        """Press a button of the message as it is given, or of the newest one with a card."""
        message = message or self.newest_card
        button = button_of(message, label, line)
        return await self.chat.click(surface, message.id, button.custom_id, words)

    def message(self, name: str) -> ChatMessage:
        return next(message for message in self.log if message.id == MessageId(name))


def card_of(message: ChatMessage) -> Card:
    assert message.card is not None
    return message.card


def button_of(message: ChatMessage, label: str, line: int = 0) -> Button:
    """The first button with this label: on that line, if one is given."""
    buttons = card_of(message).buttons
    return next(each for each in buttons if each.label == label and line in (0, each.line))


def messages_of(store: Store) -> list[ChatMessage]:
    """All messages of the log, even while the store of a test fails."""
    found = innermost(store).query(lambda tx: tx.messages.page(10_000))
    return [each.message for each in found]


def innermost(store: Store) -> Store:
    """The store inside of all wrappers of a test."""
    while hasattr(store, "inner"):
        store = store.inner
    return store


def conversation_deps(
    engine: AgentEngine,
    stores: Stores,
    clock: ManualClock,
    surfaces: Sequence[ChatSurface],
    **changes: Any,
) -> ConversationDeps:
    parts: dict[str, Any] = {
        "keeper": FakeAttachmentStore(),
        "spec": plain_spec,
        "gate": lambda *_: let_through,
        "journal": RecordingJournal(),
        "background_tools": BackgroundTools(PathPolicy(HOME), lambda: DEFAULT_BG_TOOLS),
        "job_files": JobFileChecker(DataPaths(HOME)),
        "former": file_changes(DataPaths(HOME), RecordingJournal()),
        "working_directory": HOME,
        "status": STATUS,
        "doctor": all_well,
        "health": AllWell(),
        "restart": lambda: None,
        "update": _no_update,
        "newer_version": _none_newer,
        "login": no_login,
        "tasks": MemoryTasks,
        "events": MemoryEvents,
        **changes,
    }
    return ConversationDeps(engine, stores.state, stores.repositories, clock, surfaces, **parts)


def inbox_rows(stores: Stores) -> list[InboxRow]:
    """All rows that the inbox was ever given."""
    store = innermost(stores.state)
    assert isinstance(store, RecordingStore)
    return store.inbox_rows


@asynccontextmanager
async def scene(
    engine: AgentEngine,
    *,
    stores: Stores | None = None,
    clock: ManualClock | None = None,
    surfaces: Sequence[RecordingSurface] | None = None,
    runs: bool = True,
    spec: Callable[[], Awaitable[SessionSpec]] = plain_spec,
    gate: Gate = let_through,
    make_gate: Callable[..., Gate] | None = None,
    **changes: Any,
) -> AsyncIterator[Scene]:
    """A started bot. Pass its `stores` to a second scene to start it again."""
    clock = clock or ManualClock(NOW)
    stores = stores or memory_stores(clock.now)
    surfaces = [RecordingSurface()] if surfaces is None else surfaces
    keeper = FakeAttachmentStore()
    deps = conversation_deps(
        engine,
        stores,
        clock,
        surfaces,
        keeper=keeper,
        spec=spec,
        gate=make_gate or (lambda *_: gate),
        **changes,
    )
    talk = ConversationParts(deps)
    await talk.load()
    chat = talk.conversation
    made = Scene(talk, chat, stores, clock, surfaces, keeper)
    if runs:
        made.tasks += [
            asyncio.create_task(talk.loop.run()),
            asyncio.create_task(talk.fork_requests.run()),
            asyncio.create_task(talk.deliveries.run()),
            asyncio.create_task(talk.fanout.run()),
            asyncio.create_task(talk.task_commands.run()),
            asyncio.create_task(talk.retries.run()),
            asyncio.create_task(talk.board.run()),
        ]
        made.tasks += [
            asyncio.create_task(keep_running(run, stores.state, talk.notices, clock))
            for run in (
                talk.notices.run,
                talk.failures.run,
                talk.undo_expiry.run,
                talk.overviews.run,
                talk.breakdowns.run,
                talk.quiet_watch.run,
                talk.server_cards.run,
            )
        ]
    try:
        async with asyncio.timeout(LONGEST):
            yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await talk.forks.close()


def call(**arguments: str) -> CommandCall:
    return CommandCall(InputId("1"), "test", NOW, "any", arguments)


def scripted(*texts: str) -> ScriptedEngine:
    return ScriptedEngine().answers(*texts)

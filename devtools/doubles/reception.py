"""The core as a surface sees it, without a conversation: a test decides what happens."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.features.today.day import DayView
from ollim_bot.features.week.week import WeekView, week_of
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.about_me import AboutMe
from ollim_bot.kernel.values.changes import ChangeList
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.commands import Argument, CommandAnswer, CommandSpec
from ollim_bot.kernel.values.costs import PastCosts, cost_report
from ollim_bot.kernel.values.events import AgentEvent, EndCause, TextStreamed, TurnEnded
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.job_form import JobForm
from ollim_bot.kernel.values.job_list import JobList
from ollim_bot.kernel.values.jobs import JobText
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import (
    ChatSurface,
    IncomingFile,
    IncomingMessage,
    LogChange,
    Status,
    Surface,
    TurnStart,
)
from ollim_bot.kernel.values.receipts import RunFilter, RunList, RunPage
from ollim_bot.kernel.values.run_history import RunStory
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.search import Search, terms_of
from ollim_bot.kernel.values.sessions import SessionList
from ollim_bot.kernel.values.simulation import Assumptions, rehearse
from ollim_bot.kernel.values.views import HealthReport, Preview, SettingsView, ViewAnswer, Views

COMMANDS = (
    CommandSpec("clear", "start a new conversation"),
    CommandSpec(
        "compact", "make room", (Argument("instructions", "what to keep", takes_rest=True),)
    ),
    CommandSpec(
        "model", "which model answers", (Argument("name", "its name", ("opus", "sonnet", "haiku")),)
    ),
    CommandSpec(
        "resume", "go back", (Argument("id", "which one", ("aa11", "bb22"), is_required=True),)
    ),
)
_STATUS = Status(
    provider="offline model",
    is_offline=True,
    model="offline",
    is_busy=False,
    user_name="Ada",
    bot_name="Ollim",
    version="0.0",
)
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


Shown = TypeVar("Shown")


class FakeView(Generic[Shown]):
    """Doubles an `ActingView`: shows `current` or raises `refusal`, and notes what it is asked.

    `answers` and `previews` are by action.
    """

    def __init__(self, begin: Callable[[], Shown]) -> None:
        self._begin = begin
        self._changed: list[asyncio.Event] = []
        self.reset()

    def reset(self) -> None:
        """Begin anew for another test."""
        self.current = self._begin()
        self.refusal: Exception | None = None
        self.asked: list[Mapping[str, str]] = []
        self.acts: list[tuple[str, str, Mapping[str, str]]] = []
        self.answers: dict[str, ViewAnswer] = {}
        self.previews: dict[str, Preview] = {}

    def change(self, shown: Shown) -> None:
        """Show this from now on, and tell those who watch."""
        self.current = shown
        for event in self._changed:
            event.set()

    async def open_items(self) -> int | None:
        return None

    async def look(self, asked: Mapping[str, str]) -> Shown:
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal
        return self.current

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        self.acts.append((surface, action, fields))
        return self.answers.get(action, ViewAnswer())

    async def preview(self, action: str, _: Mapping[str, str]) -> Preview:
        return self.previews.get(action, Preview())

    async def changes(self) -> AsyncIterator[None]:
        event = asyncio.Event()
        self._changed.append(event)
        try:
            while True:
                await event.wait()
                event.clear()
                yield
        finally:
            self._changed.remove(event)


class FakeDay(FakeView[DayView]):
    """Doubles the day; notes the `presses`, and has `answers` by the id of the button."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(lambda: DayView(clock.now()))

    def reset(self) -> None:
        super().reset()
        self.presses: list[tuple[str, str, str]] = []
        self.on_press: Callable[[str], None] = _ignore_press

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        custom_id = fields.get("custom_id", "")
        if action != "press":
            return await super().act(surface, action, fields)
        if custom_id not in [each.custom_id for each in self.current.card.buttons]:
            return ViewAnswer("That button was used already.", is_error=True)
        answer = self.answers.get(custom_id, ViewAnswer())
        if not answer.is_error:
            self.presses.append((surface, custom_id, fields.get("words", "")))
            self.on_press(custom_id)
        return answer

    async def open_items(self) -> int:
        return len(self.current.overdue)


def empty_week(now: datetime) -> WeekView:
    given = Assumptions(now, now.tzinfo or UTC, PingBudget.full(now), RuntimeConfig())
    return week_of(rehearse((), given, 7), (), None, (), None, PastCosts(()))


def empty_run(now: datetime) -> RunPage:
    one = Occurrence.scheduled(JobKind.ROUTINE, "plan", now)
    return RunPage(now, RunStory(one, (LedgerRow(now, "due", one),)))


class FakeViews:
    """The doubles of all views."""

    def __init__(self, clock: Clock) -> None:
        self.today = FakeDay(clock)
        self.job = FakeView(
            lambda: JobForm("plan", JobKind.ROUTINE, "plan", JobText("plan.md", ""), clock.now())
        )
        self.runs = FakeView(lambda: RunList(clock.now(), RunFilter()))
        self.run = FakeView(lambda: empty_run(clock.now()))
        self.jobs = FakeView(lambda: JobList(clock.now()))
        self.money = FakeView(lambda: cost_report([], clock.now(), clock.now(), None))
        self.settings = FakeView(SettingsView)
        self.health = FakeView(lambda: HealthReport(clock.now()))
        self.week = FakeView(lambda: empty_week(clock.now()))
        self.sessions = FakeView(lambda: SessionList(clock.now()))
        self.changes = FakeView(lambda: ChangeList(clock.now()))
        self.about_me = FakeView(lambda: AboutMe(clock.now().date()))

    def reset(self) -> None:
        """Begin anew for another test."""
        for view in vars(self).values():
            view.reset()

    @property
    def ports(self) -> Views:
        return {name.replace("_", "-"): view for name, view in vars(self).items()}


class FakeReception:
    """Doubles `ChatService`. Messages go to all `surfaces`, as in the conversation.

    Incoming files are moved into `folder`, which stands for the data directory. `on_message` is
    called with each new message. `waiting` has the inputs that no turn has taken yet. `answers` has
    the answer by command (`/model`) or by the `custom_id` of a button. A command is in `calls` when
    it arrives and in `lines` when it is done; a click is in `calls` and then in `clicks`. While
    `may_answer` is cleared, commands, clicks and `looks` at the history hang; `refusal` is raised
    instead of receiving a message or reading the history. `numbers` make the ids of messages.
    """

    def __init__(self, clock: Clock, folder: Path, numbers: Iterator[int] | None = None) -> None:
        self.fakes = FakeViews(clock)
        self.surfaces: list[ChatSurface] = []
        self.channels: list[Surface] = []
        self.messages: list[ChatMessage] = []
        self.refs: dict[tuple[str, str], MessageId] = {}
        self.changes: dict[MessageId, int] = {}
        self.received: list[IncomingMessage] = []
        self.waiting: set[InputId] = set()
        self.calls: list[str] = []
        self.looks = 0
        self.lines: list[tuple[str, str]] = []
        self.clicks: list[tuple[str, MessageId, str]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answers: dict[str, CommandAnswer] = {}
        self.on_message: Callable[[ChatMessage], None] = _ignore
        self.refusal: Exception | None = None
        self.remembers = 1000
        self._clock = clock
        self._folder = folder
        self._status = _STATUS
        self._numbers = numbers or count(1)
        self._turn: FakeTurn | None = None

    async def receive(self, message: IncomingMessage) -> ChatMessage:
        if self.refusal is not None:
            raise self.refusal
        known = await self.message(MessageId(message.id))
        if known is not None:
            return known
        self.received.append(message)
        attachments = tuple(self._kept(message.id, each) for each in message.files)
        new = ChatMessage(
            MessageId(message.id),
            self._clock.now(),
            Author.OWNER,
            message.text,
            reply_to=message.reply_to,
            attachments=attachments,
        )
        await self.post(new)
        for surface, refs in message.refs.items():
            self.show_on(surface, refs, new.id)
        self.on_message(new)
        return new

    async def edit(self, input_id: InputId, text: str) -> bool:
        known = await self.message(MessageId(input_id))
        if known is None or input_id not in self.waiting:
            return False
        await self.post(replace(known, text=text))
        return True

    async def withdraw(self, input_id: InputId) -> bool:
        is_waiting = input_id in self.waiting
        self.waiting.discard(input_id)
        return is_waiting

    async def command(self, surface: str, line: str) -> CommandAnswer:
        self.calls.append(line)
        await self.may_answer.wait()
        self.lines.append((surface, line))
        word = line.partition(" ")[0]
        return self.answers.get(word, CommandAnswer(f"`{line}` is done."))

    async def click(
        self, surface: str, message_id: MessageId, custom_id: str, words: str = ""
    ) -> CommandAnswer:
        """Mark the button as used, unless the answer is an error."""
        self.calls.append(f"{custom_id} {words}".strip())
        await self.may_answer.wait()
        message = await self.message(message_id)
        card = message.card if message else None
        buttons = {each.custom_id: each for each in card.buttons} if card else {}
        if message is None or card is None or custom_id not in buttons:
            return CommandAnswer("That button is gone.", is_error=True)
        if buttons[custom_id].is_used:
            return CommandAnswer("That button was used already.", is_error=True)
        answer = self.answers.get(custom_id, CommandAnswer(f"{buttons[custom_id].label}: done."))
        if not answer.is_error:
            self.clicks.append((surface, message_id, custom_id))
            buttons[custom_id] = buttons[custom_id]._replace(is_used=True)
            await self.post(replace(message, card=card._replace(buttons=tuple(buttons.values()))))
        return answer

    async def go_on(self, key: str) -> CommandAnswer:
        """End the careful time that the status shows, unless it is another one."""
        self.calls.append(f"go_on {key}")
        await self.may_answer.wait()
        careful = self.status.careful
        if careful is None or careful.key != key:
            return CommandAnswer("It has read something else since then.", is_error=True)
        await self.change(careful=None)
        return CommandAnswer("It is not careful any more.")

    async def interrupt(self) -> bool:
        turn = self._turn
        if turn is None:
            return False
        await turn.end("", EndCause.INTERRUPTED)
        return True

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        choices = [
            choice
            for spec in self.commands
            if spec.name == command
            for each in spec.arguments
            if each.name == argument
            for choice in each.choices
        ]
        begins = [choice for choice in choices if choice.startswith(typed)]
        return begins or [choice for choice in choices if typed in choice]

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        ids = [message.id for message in self.messages]
        end = ids.index(before) if before in ids else len(ids)
        found = self.messages[max(0, end - limit) : end]
        await self._looked()
        return found

    async def message(self, message_id: MessageId) -> ChatMessage | None:
        return next((each for each in self.messages if each.id == message_id), None)

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        known = self.refs.get((surface, ref))
        return None if known is None else await self.message(known)

    async def by_refs(self, surface: str, newest: int) -> Mapping[str, ChatMessage]:
        await self._looked()
        known = {each.id: each for each in self.messages[-newest:]}
        found = ((ref, known.get(name)) for (on, ref), name in self.refs.items() if on == surface)
        return {ref: message for ref, message in found if message is not None}

    def show_on(self, surface: str, refs: str, message_id: MessageId) -> None:
        """Let the message have these ids on a surface, with spaces between them."""
        for ref in refs.split():
            self.refs[surface, ref] = message_id

    async def caught_up(self, surface: str) -> None:
        pass

    async def search(self, words: str, limit: int) -> Sequence[ChatMessage]:
        wanted = Search(terms_of(words))
        return [each for each in reversed(self.messages) if wanted.fits(each)][:limit]

    async def around(self, message_id: MessageId, limit: int) -> Sequence[ChatMessage]:
        place = await self.place_of(message_id)
        return [] if place is None else self.messages[max(0, place - limit) : place + limit + 1]

    async def place_of(self, message_id: MessageId) -> int | None:
        ids = [each.id for each in self.messages]
        return ids.index(message_id) if message_id in ids else None

    async def last_change(self) -> int:
        return max(self.changes.values(), default=0)

    async def changes_since(self, change: int, limit: int) -> Sequence[LogChange] | None:
        newer = sorted((each, name) for name, each in self.changes.items() if each > change)
        is_too_much = change > await self.last_change() or len(newer) > min(limit, self.remembers)
        known = {each.id: each for each in self.messages}
        await self._looked()
        return None if is_too_much else [LogChange(known[name], each) for each, name in newer]

    async def _looked(self) -> None:
        self.looks += 1
        if self.refusal is not None:
            raise self.refusal
        await self.may_answer.wait()

    async def trouble(self, sentence: str) -> None:
        await self.change(trouble=sentence)

    @property
    def day(self) -> FakeDay:
        return self.fakes.today

    @property
    def views(self) -> Views:
        return self.fakes.ports

    @property
    def commands(self) -> Sequence[CommandSpec]:
        return COMMANDS

    @property
    def status(self) -> Status:
        return self._status

    async def change(self, **fields: object) -> None:
        """Change fields of the status, such as `is_busy=True`."""
        self._status = replace(self._status, **fields)  # type: ignore[arg-type]
        for surface in (*self.surfaces, *self.channels):
            await surface.changed(self._status)

    async def say(
        self, text: str, author: Author = Author.ASSISTANT, **fields: object
    ) -> ChatMessage:
        """Post a message, with further fields of a `ChatMessage`."""
        message_id = MessageId(f"m{next(self._numbers)}")
        message = ChatMessage(message_id, self._clock.now(), author, text, **fields)  # type: ignore[arg-type]
        await self.post(message)
        return message

    def now(self) -> datetime:
        return self._clock.now()

    async def post(self, message: ChatMessage) -> None:
        """Add the message to the log, or replace the one with its id, and tell all surfaces."""
        ids = [each.id for each in self.messages]
        if message.id in ids:
            self.messages[ids.index(message.id)] = message
        else:
            self.messages.append(message)
        change = self.changes[message.id] = await self.last_change() + 1
        for surface in self.surfaces:
            await surface.post(message, change)

    def begin(self, *inputs: MessageId) -> FakeTurn:
        """Begin a turn on all surfaces; the test decides its events."""
        number = next(self._numbers)
        answered = tuple(InputId(each) for each in inputs)
        start = TurnStart(TurnId(f"t{number}"), self._clock.now(), answered)
        self._turn = FakeTurn(self, start)
        return self._turn

    def forget(self, turn: FakeTurn) -> None:
        if self._turn is turn:
            self._turn = None

    def _kept(self, input_id: InputId, file: IncomingFile) -> Attachment:
        place = self._folder / "downloads"
        place.mkdir(parents=True, exist_ok=True)
        target = place / f"{input_id}-{file.path.name}{Path(file.name).suffix}"
        shutil.move(file.path, target)
        kind = _IMAGES.get(target.suffix, "application/octet-stream")
        path = str(target.relative_to(self._folder))
        return Attachment(file.name, path, kind, target.stat().st_size)


class FakeTurn:
    """A turn under the test's control: `show` its events, then `end` it."""

    def __init__(self, reception: FakeReception, start: TurnStart) -> None:
        self.start = start
        self.is_over = False
        self._began: datetime | None = None
        self._reception = reception
        surfaces = [*reception.surfaces, *reception.channels]
        self._queues = [asyncio.Queue[AgentEvent]() for _ in surfaces]
        self._tasks = [
            asyncio.create_task(surface.present(start, _events(queue)))
            for surface, queue in zip(surfaces, self._queues, strict=True)
        ]

    async def show(self, *events: AgentEvent) -> None:
        """Return when every surface has taken the events."""
        for event in events:
            if self._began is None and isinstance(event, TextStreamed):
                self._began = self._reception.now()
            for queue in self._queues:
                queue.put_nowait(event)
        for queue in self._queues:
            await queue.join()

    async def end(
        self, answer: str = "", cause: EndCause = EndCause.COMPLETED
    ) -> ChatMessage | None:
        """Post the answer, if there is one, before the last event, as the real core does."""
        if self.is_over:
            return None
        self.is_over = True
        is_cut_off = cause is not EndCause.COMPLETED
        message = None
        if answer:
            turn, began = self.start.turn, self._began
            message = await self._reception.say(
                answer, turn=turn, is_cut_off=is_cut_off, began=began
            )
        messages = (message.id,) if message else ()
        for queue in self._queues:
            queue.put_nowait(TurnEnded(cause, messages=messages))
        await asyncio.gather(*self._tasks)
        self._reception.forget(self)
        return message

    def cancel(self) -> None:
        """End the turn without a last event, as when the core is stopped in the middle of it."""
        for task in self._tasks:
            task.cancel()
        self._reception.forget(self)


async def _events(queue: asyncio.Queue[AgentEvent]) -> AsyncIterator[AgentEvent]:
    while True:
        event = await queue.get()
        try:
            yield event
        finally:
            queue.task_done()
        if isinstance(event, TurnEnded):
            return


def _ignore_press(_: str) -> None:
    pass


def _ignore(_: ChatMessage) -> None:
    pass

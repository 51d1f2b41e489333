"""A data directory, an agent that changes files in it, and an owner who is told of the changes."""

from __future__ import annotations

import io
import shlex
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from tests.file_changes import RowsBeside, file_changes
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation.job_echo import ChangeEcho, ChangeWatch
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database_errors import DiskFull
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.changes import ChangeRow
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    ToolEnded,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.surfaces.terminal.main import main

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 2, 24, 10, 0, tzinfo=BERLIN)
PATH = "routines/daily.md"


def routine(*lines: str, cron: str = "30 8 * * 1-5", body: str = "Plan the day.") -> str:
    more = "".join(f"{line}\n" for line in lines)
    return f'---\nid: daily\ncron: "{cron}"\ndescription: Plan\n{more}---\n{body}\n'


async def refuse_marked_calls(call: ToolCall) -> Refusal | None:
    return Refusal("not now") if "refused" in str(call.arguments) else None


@dataclass
class EchoScene:
    """`posted` has the messages to the owner. The agent writes files with `Write` or by commands.

    With `is_full`, the next start finds no room for state. Each of `refusals` fails one post.
    """

    root: Path
    is_full: bool = False
    refusals: list[WriteFailed] = field(default_factory=list)
    posted: dict[str, ChatMessage] = field(default_factory=dict)
    pressed: list[Button] = field(default_factory=list)
    posts: int = 0
    may_wait: bool = False
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW, BERLIN))
    journal: RecordingJournal = field(default_factory=RecordingJournal)

    def __post_init__(self) -> None:
        self.stores: Stores = memory_stores(NOW)
        prepare_data_directory(DataPaths(self.root))
        self.echo = self.started()

    def started(self) -> ChangeEcho:
        """A new echo on the same files, as after a restart."""
        paths = DataPaths(self.root)
        former = file_changes(paths, self.journal, now=self.clock.now, refusal=self._refusal)
        files = JobFileChecker(paths)
        store, reminders = self.stores.state, self.stores.reminders
        return ChangeEcho(self.root, files, former, store, reminders, self.post, self.clock, 9100)

    @property
    def rows(self) -> RowsBeside:
        return RowsBeside(DataPaths(self.root), self.clock.now)

    @property
    def unseen(self) -> list[ChangeRow]:
        return self.rows.query(lambda tx: tx.changes.unseen())

    def _refusal(self) -> DiskFull | None:
        return DiskFull(self.root / "state") if self.is_full else None

    async def post(self, message: ChatMessage, *, may_wait: bool = False) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.posted[message.id] = message
        self.may_wait = may_wait
        self.posts += 1

    @property
    def cards(self) -> list[Card]:
        return [message.card for message in self.posted.values() if message.card]

    @property
    def message(self) -> ChatMessage:
        (message,) = self.posted.values()
        return message

    async def turn(self, *writes: tuple[str, str], **more: object) -> None:
        async for _ in self.events(self.echo.watch(), *writes, **more):
            pass

    def events(
        self, watch: ChangeWatch, *writes: tuple[str, str], **more: object
    ) -> AsyncIterator[AgentEvent]:
        gate = watch.noting(refuse_marked_calls)

        async def events() -> AsyncIterator[AgentEvent]:
            for number, (path, content) in enumerate(writes):
                arguments = {"file_path": path, "content": content}
                yield ToolStarted(str(number), "Write", arguments)
                refusal = await gate(ToolCall("Write", arguments))
                if refusal is not None:
                    yield ToolRefused(str(number), "Write", refusal.reason)
                    continue
                (self.root / path).parent.mkdir(exist_ok=True)
                (self.root / path).write_text(content)
                yield ToolEnded(str(number))
            yield TurnEnded(EndCause.COMPLETED)

        return watch.watching(events(), **more)  # type: ignore[arg-type]

    def command(self, line: str, by: str = CONVERSATION) -> str:
        """The output of an `ollim-bot` command of the agent, or of the owner if `by` is empty."""
        environ = {
            "HOME": str(self.root.parent),
            "OLLIM_DATA_DIR": str(self.root),
            "OLLIM_TIMEZONE": BERLIN.key,
            CALLED_BY: by,
        }
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main(
                shlex.split(line), environ=environ, cwd=self.root, now=lambda: self.clock.now()
            )
        assert code == 0, said.getvalue()
        return said.getvalue()

    async def commands(
        self, *lines: str, by: str = CONVERSATION, between: str = "", **more: object
    ) -> None:
        """A turn in which the agent runs these commands.

        After each of them, when its end was reported, the owner runs `between` in a terminal.
        """
        watch = self.echo.watch(by)

        async def events() -> AsyncIterator[AgentEvent]:
            for number, line in enumerate(lines):
                yield ToolStarted(str(number), "Bash", {"command": f"ollim-bot {line}"})
                self.command(line, by)
                yield ToolEnded(str(number))
                if between:
                    self.command(between, by="")
            yield TurnEnded(EndCause.COMPLETED)

        async for _ in watch.watching(events(), **more):  # type: ignore[arg-type]
            pass

    async def undo(self, message: ChatMessage | None = None) -> CommandAnswer:
        """Press the Undo of the message, or the last one once more where it is gone."""
        message = message or self.message
        assert message.card is not None
        self.pressed = [*message.card.buttons, *self.pressed][:1]
        return await self.started().undo("web", message, self.pressed[0])

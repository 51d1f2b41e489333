"""What a session records is stored before its turn is told to have ended, and found elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine, ScriptedSession
from tests.kernel.store.scene import StoreScene
from tests.virtual_loop import LoopClock

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.store.backend import Backend
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.events import AgentEvent, EndCause, ToolEnded, ToolStarted, TurnEnded
from ollim_bot.kernel.values.ports import Prompt, SessionSpec, Toolset
from ollim_bot_standby.machines import ServerGone
from ollim_bot_standby.records import RecordedEngine, SharedRecords, TranscriptRows

SESSION = SessionId("0c8c3a52-6a47-4f0e-9c39-3b8f6f2f7c11")
NAME = f"{SESSION}.jsonl"


class AwayDatabase:
    """The rows of a database that does not answer while `is_away`."""

    def __init__(self, database: Backend) -> None:
        self._database = database
        self.is_away = False

    def __getattr__(self, name: str) -> object:
        if self.is_away and name in ("run", "run_noting", "query"):
            raise ServerGone(Path("the database"), "it is away")
        return getattr(self._database, name)


class WritingEngine(ScriptedEngine):
    """Writes a line of its record some time after it has told of what it did."""

    def __init__(self, record: Path) -> None:
        super().__init__()
        self.record = record
        self.pause = asyncio.Event()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        async with super().open(spec, tools):
            yield WritingSession(self, spec, tools)
        self.write("closed")

    def write(self, line: str) -> None:
        self.record.parent.mkdir(parents=True, exist_ok=True)
        with self.record.open("a") as file:
            file.write(f"{line}\n")


class WritingSession(ScriptedSession):
    async def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        engine = self._engine
        assert isinstance(engine, WritingEngine)
        self._name()
        engine.write(prompt.text)
        yield ToolStarted("c", "Bash")
        yield ToolEnded("c")
        await asyncio.sleep(0.1)
        engine.write("result of the call")
        await engine.pause.wait()
        engine.write("answer")
        yield TurnEnded(EndCause.COMPLETED)


class Machine:
    """A machine that leads with rows in a file, and what it has stored there."""

    def __init__(self, home: Path, database: AwayDatabase) -> None:
        clock = LoopClock(UTC)
        environment, root = {"HOME": str(home)}, home / "data"
        prepare_data_directory(DataPaths(root))
        self.database = database
        self.store = DatabaseStore(database, clock)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.records = SharedRecords(DataPaths(root), environment, clock, self.told.append)
        self.writing = WritingEngine(Transcripts(environment).folder_of(root) / NAME)
        self.engine = RecordedEngine(self.writing, self.records)
        self.spec = SessionSpec("", root, begin=SESSION)

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        self.records.lead(self.store)
        running = asyncio.create_task(self.records.run())
        yield
        running.cancel()
        self.records.close()
        await self.store.close()

    async def stored(self) -> str:
        def read(tx: Transaction) -> str:
            pieces = TranscriptRows(tx).pieces(NAME)
            found = (TranscriptRows(tx).content(NAME, each.position) for each in pieces)
            return b"".join(filter(None, found)).decode()

        return await self.store.read(read)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path, AwayDatabase(StoreScene(tmp_path / "rows").open()))
    async with made.leading():
        yield made


async def test_the_result_of_a_call_is_stored_while_the_turn_goes_on_and_all_at_its_end(
    machine: Machine,
) -> None:
    async with machine.engine.open(machine.spec, Toolset()) as session:
        turn = session.turn(Prompt("hello"))
        for _ in range(2):
            await anext(turn)
        ending = asyncio.ensure_future(anext(turn))
        await asyncio.sleep(1)
        assert await machine.stored() == "hello\nresult of the call\n"
        machine.writing.pause.set()
        assert isinstance(await ending, TurnEnded)
        assert await machine.stored() == "hello\nresult of the call\nanswer\n"
    assert (await machine.stored()).endswith("answer\nclosed\n")


async def test_a_database_that_is_away_for_seconds_fails_no_turn(machine: Machine) -> None:
    machine.writing.pause.set()
    async with machine.engine.open(machine.spec, Toolset()) as session:
        turn = session.turn(Prompt("hello"))
        await anext(turn)
        machine.database.is_away = True
        await anext(turn)
        ending = asyncio.ensure_future(anext(turn))
        await asyncio.sleep(4)
        assert not ending.done()
        machine.database.is_away = False
        assert isinstance(await ending, TurnEnded)
        assert (await machine.stored()).endswith("answer\n")


async def test_nothing_is_opened_before_what_another_machine_has_stored_is_there(
    tmp_path: Path,
) -> None:
    database = AwayDatabase(StoreScene(tmp_path / "rows").open())
    machine = Machine(tmp_path, database)
    await machine.store.transact(
        lambda tx: TranscriptRows(tx).append(NAME, 0, b"of the other\n", 0)
    )
    database.is_away = True
    async with machine.leading():
        opening = asyncio.create_task(machine.engine.knows(SESSION))
        await asyncio.sleep(3)
        assert not opening.done()
        database.is_away = False
        await opening
        assert machine.writing.record.read_text() == "of the other\n"


@pytest.mark.parametrize(("epoch", "is_kept"), [(2, True), (3, False)])
async def test_what_it_could_not_store_any_more_stays_if_no_other_machine_has_led_since(
    tmp_path: Path, epoch: int, *, is_kept: bool
) -> None:
    Machine(tmp_path, AwayDatabase(StoreScene(tmp_path / "of no use").open())).records.note_lead(1)
    machine = Machine(tmp_path, AwayDatabase(StoreScene(tmp_path / "rows").open()))
    await machine.store.transact(lambda tx: TranscriptRows(tx).append(NAME, 0, b"stored\n", 0))
    machine.writing.write("stored")
    machine.writing.write("and not stored")
    machine.records.note_lead(epoch)
    async with machine.leading():
        await machine.engine.knows(SESSION)
        assert ("and not stored" in machine.writing.record.read_text()) is is_kept

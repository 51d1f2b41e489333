"""The whole bot in this process: an agent plants words everywhere, and every agent reads.

Each place that carries text is given a word of its own. What an agent is shown is recorded: each
prompt, each answer of our tools, and what our commands print for it.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    asynccontextmanager,
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, ScriptedSession, Step
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.features.tool_servers.tool_server_scene import FakeServer
from tests.hostile.attack_scene import AppWithParts
from tests.patience import patience
from tests.virtual_loop import LoopClock

from ollim_bot.app.app import Adapters
from ollim_bot.app.build import ConversationParts
from ollim_bot.app.surfaces import MakeChannel
from ollim_bot.features.tool_servers.tool_servers import OpenServer
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.engine.transcripts import project_key
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.store.server_file import read_servers
from ollim_bot.kernel.store.steps import standing_taint
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.events import AgentEvent, FailureKind
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    ChatService,
    IncomingFile,
    IncomingMessage,
    Prompt,
    SessionSpec,
    ToolAnswer,
    ToolCall,
    Toolset,
)
from ollim_bot.kernel.values.taint import TaintMark, Untrusted
from ollim_bot.kernel.values.tasks import Task
from ollim_bot.kernel.values.tool_servers import (
    ServerSpec,
    ServerState,
    ToolDefinition,
    ToolHints,
    ToolServerRecord,
)
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow
from ollim_bot.surfaces.terminal.main import main

MAIN, FORK, NEXT = "main session", "fork", "next session"
FORKED, ISOLATED = "forked run", "isolated run"
SEARCH, NAMES = "search with options", "list of names"
READERS = (MAIN, FORK, FORKED, ISOLATED, NEXT, SEARCH, NAMES)

_MINUTE = 60.0
PAGE = "https://93.184.216.34/news"
# The owner names the address, so that it may be fetched again.
NEWS = f"what is new at {PAGE} ?"
# What the agent of each reader looks at, besides its prompt.
_LOOKS = (CallsTool("mcp__discord__list_reminders"),)
CALL = "mcp__home__find"
# Of the engine itself. It prints what is in files as it is, so that its session has to be careful.
SEARCHES = ("Glob", "Grep", "Read")
_WHO = ("owner", "bot", "job")
_COMMANDS = (
    ("reminder", "list"),
    ("reminder", "list", "--json"),
    ("tasks", "list"),
    ("tasks", "list", "--json"),
    ("tasks", "done", "no-such-task"),
    ("today",),
    ("today", "--json"),
    ("runs",),
    ("runs", "--json"),
    ("changes",),
    ("changes", "--json"),
    ("receipt",),
    ("receipt", "--json"),
    ("cost", "--by", "job"),
    ("cost", "--json"),
    ("rehearse",),
    ("doses",),
    ("doses", "--json"),
    ("history", "sessions", "--all"),
    ("history", "prompts"),
    ("history", "prompts", "--json"),
)


class View(NamedTuple):
    """What an agent was shown; `how` is `prompt`, a tool, or a command.

    `is_tainted` says whether the session was tainted afterwards; of a command, that is to be asked.
    """

    reader: str
    how: str
    text: str
    is_tainted: bool | None = None


@dataclass(frozen=True)
class Source:
    """How text comes in: `message` marks that of the owner's message, `steps` read it."""

    steps: Sequence[Step] = ()
    message: Untrusted | None = None

    @property
    def is_untrusted(self) -> bool:
        return bool(self.steps) or self.message is not None


class RecordingEngine(ScriptedEngine):
    """Records what each session is shown; `reader` is that of the conversation now."""

    def __init__(self) -> None:
        super().__init__()
        self.views: list[View] = []
        self.reader = MAIN
        self.parts: ConversationParts | None = None

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        shown: list[tuple[str, str]] = []

        async def after_call(call: ToolCall, result: str) -> None:
            if call.tool == "Write":
                file = spec.working_directory / str(call.arguments["file_path"])
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(str(call.arguments["content"]))
            await tools.after_call(call, result)
            if call.tool.startswith("mcp__") or call.tool in SEARCHES:
                shown.append((call.tool, result))

        async with super().open(spec, replace(tools, after_call=after_call)) as session:
            session.__class__ = _RecordingSession
            session.shown = shown  # type: ignore[attr-defined]
            yield session

    def reader_of(self, spec: SessionSpec) -> str:
        if spec.occurrence:
            return FORKED if spec.branch_of else ISOLATED
        return FORK if spec.branch_of else self.reader


class _RecordingSession(ScriptedSession):
    shown: list[tuple[str, str]]

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        return self._recorded(prompt, self._engine.reader_of(self.spec))  # type: ignore[attr-defined]

    async def _recorded(self, prompt: Prompt, reader: str) -> AsyncIterator[AgentEvent]:
        engine = self._engine
        assert isinstance(engine, RecordingEngine)
        self.shown.append(("prompt", prompt.text))
        async for event in super().turn(prompt):
            yield event
        assert engine.parts is not None
        session = self.spec.resume
        read = await engine.parts.state.read(lambda tx: tx.marks.of(session))
        engine.views += [View(reader, *each, is_tainted=bool(read)) for each in self.shown]
        self.shown.clear()


class BotScene:
    """The whole bot with an engine, which makes no sound and asks nobody outside."""

    def __init__(
        self,
        home: Path,
        engine: AgentEngine,
        clock: LoopClock,
        channels: Sequence[MakeChannel] = (),
        open_server: OpenServer | None = None,
    ) -> None:
        self.home = home
        self.surface = RecordingSurface()
        self._numbers = iter(range(10_000))
        self._environ = environment_at(home)
        self._clock = clock
        self._app = AppWithParts(
            Settings.from_env(self._environ, cwd=home),
            Adapters(
                clock=self._clock,
                engine=engine,
                surfaces=[self.surface],
                journal=RecordingJournal(),
                newer_version=_none_newer,
                open_server=open_server,
            ),
            channels=channels,
        )

    @property
    def paths(self) -> DataPaths:
        return DataPaths(self.home / "data")

    @property
    def now(self) -> datetime:
        return self._clock.now()

    @property
    def chat(self) -> ChatService:
        return self.surface.receptions[0]

    @property
    def session(self) -> str:
        """The main session."""
        return str(self.parts.state.session)

    @property
    def parts(self) -> ConversationParts:
        assert self._app.parts is not None
        return self._app.parts

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._app.run())
        try:
            await self.until(lambda: self.surface.receptions or task.done())
            yield
        finally:
            self._app.stop()
            await asyncio.wait({task})
        task.result()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patience() * 100):
            while not condition():  # noqa: ASYNC110 - the bot has no event for this
                await asyncio.sleep(0.05)

    async def idle(self) -> None:
        await asyncio.sleep(0.2)
        await self.until(lambda: self.parts.is_idle)

    async def send(self, text: str, **more: Any) -> None:
        name = InputId(f"m{next(self._numbers)}")
        await self.chat.receive(IncomingMessage(name, "test", text, **more))

    def find_button(self, label: str) -> tuple[ChatMessage, Button] | None:
        newest = {each.id: each for each in self.surface.posts}
        for message in reversed(newest.values()):
            for each in message.card.buttons if message.card else ():
                if label in each.label and not each.is_used:
                    return message, each
        return None

    async def press(self, label: str) -> None:
        found = self.find_button(label)
        assert found is not None, label
        message, button = found
        await self.chat.click("test", message.id, button.custom_id)
        await self.idle()


_DEFINITIONS = tuple(
    ToolDefinition(name, name, '{"properties": {}, "type": "object"}', ToolHints(looks, not looks))
    for name, looks in (("find", True), ("fail", True), ("unlock", False), ("send", False))
)


class HomeServer(FakeServer):
    """Doubles `HeldServer`; what it says is `text`. Two of its tools look."""

    def __init__(self, text: str) -> None:
        super().__init__(*_DEFINITIONS)
        self.text = text

    @asynccontextmanager
    async def opened(self, _: ServerSpec) -> AsyncIterator[HomeServer]:
        yield self

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        self.calls.append((name, arguments))
        return ToolAnswer(self.text, is_error=name == "fail")


def approve_server(paths: DataPaths, now: datetime) -> None:
    """As the owner does, before the bot starts."""
    paths.mcp.write_text(json.dumps({"mcpServers": {"home": {"command": "home"}}}))
    spec = read_servers(paths).specs["home"]
    state = ServerState().written(spec).started().listed(_DEFINITIONS).approving()
    with closing(open_database(paths, lambda: now, is_holder=True, report=lambda _: None)) as rows:
        rows.run(lambda tx: tx.tool_servers.put(ToolServerRecord({"home": state})))


class FenceScene(BotScene):
    """`word` gives the word that a carrier is given; all of them begin alike."""

    def __init__(
        self, home: Path, word: Callable[[str], str], channels: Sequence[MakeChannel] = ()
    ) -> None:
        self.word = word
        self.engine = RecordingEngine()
        self.server = HomeServer(word("server call"))
        clock = LoopClock(UTC)
        super().__init__(home, self.engine, clock, channels, self.server.opened)
        prepare_data_directory(self.paths)
        approve_server(self.paths, clock.now())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with super().running():
            self.engine.parts = self.parts
            yield

    async def ask(self, text: str, *steps: Step, **more: Any) -> None:
        """The owner writes; the agent takes these steps."""
        self.engine.then(*steps)
        await self.send(text, **more)
        await self.idle()

    async def run_job(self, *steps: Step, isolated: bool) -> None:
        spec = JobSpec(
            id=f"j{next(self._numbers)}",
            message="Look around.",
            background=True,
            isolated=isolated,
            allowed_tools=(
                "WebFetch",
                "WebSearch",
                "Read(./downloads/**)",
                "Bash(ollim-bot *)",
                CALL,
            ),
        )
        job = Routine(spec, Cron.parse("0 9 * * *"))
        occurrence = Occurrence.parse(f"routine:{spec.id}:2026-11-16T09:00:00Z")
        self.engine.then(*steps)
        await self.parts.background.run_agent_background(job, occurrence)

    def agent(self, *words: str) -> str:
        """What our command prints for the agent."""
        said = io.StringIO()
        environ = {**self._environ, CALLED_BY: CONVERSATION}
        with redirect_stdout(said), redirect_stderr(said), _without_git():
            main(words, environ=environ, cwd=self.home, now=self._clock.now)
        return said.getvalue()


@contextmanager
def _without_git() -> Iterator[None]:
    """A command finds no git, so that it starts no process."""
    path = os.environ["PATH"]
    os.environ["PATH"] = ""
    try:
        yield
    finally:
        os.environ["PATH"] = path


async def _none_newer() -> str | None:
    return None


def environment_at(home: Path) -> dict[str, str]:
    """That of the bot and of the commands that its agent calls."""
    folder = str(home / "data")
    return {"HOME": str(home), "OLLIM_DATA_DIR": folder, "OLLIM_TIMEZONE": "UTC"}


async def plant(at: FenceScene, source: Source) -> None:
    """Have every place carry its word: by a turn of main, a fork, and two background runs."""
    word = at.word
    await at.chat.command("test", "/permissions default")
    await _plant_in_main(at, source)
    await _plant_of_program(at, source)
    task = await _plant_task(at, source)
    await _plant_dose(at)
    await _plant_steps(at, task)
    await _plant_event(at)
    await _plant_in_background(at, source)
    await _plant_in_fork(at, source)
    # The reminders of the turns are due: one run speaks, and the other fails.
    at.engine.then(_tool("ping_user", message=word("ping of a reminder")))
    at.engine.then(Fails(FailureKind.OTHER))
    await asyncio.sleep(6 * _MINUTE)
    await at.idle()
    asked = next(view.text for view in at.engine.views if word("reminder") in view.text)
    _write_transcript(at, {"type": "user", "message": {"content": asked}})


async def _plant_of_program(at: FenceScene, source: Source) -> None:
    """What another program of the owner's has set."""
    mark = "untrusted: another program\n" if source.is_untrusted else ""
    head = f"id: program\nrun-at: 2030-01-01T09:00\ndescription: {at.word('title of a program')}"
    file = at.paths.reminders / "program.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"---\n{head}\n{mark}---\n{at.word('words of a program')}\n")
    await at.idle()


async def _plant_task(at: FenceScene, source: Source) -> Task:
    """As `ollim-bot tasks add` does it, which would wait for the lock of the bot."""
    read = await at.parts.state.read(standing_taint)
    tasks = TaskFile(at.paths, RecordingJournal(), lambda: at.now)
    title = f"{at.word('task')}, {at.word('part of a title')}"
    # A note of a task counts as words of others, whoever wrote it.
    note = at.word("note of a task") if source.is_untrusted else ""
    task = tasks.add(title, at.now.date(), note)
    assert bool(read.sources) is source.is_untrusted
    if read.sources:
        mark = TaintMark(read.mark, at.now, title=task.title, untold=task.id)
        await at.parts.state.transact(lambda tx: tx.marks.leave(mark))
    return task


async def _plant_steps(at: FenceScene, task: Task) -> None:
    steps = _tool("break_down", thing=task.id, steps=[at.word("step")])
    await at.ask("break it down", steps, Says("Go."))


async def _plant_dose(at: FenceScene) -> None:
    """A dose that a turn had set, and that was taken."""
    read = await at.parts.state.read(standing_taint)
    spec = JobSpec(
        id="dose", message=at.word("dose"), kind=ItemKind.DOSE, untrusted=read.mark or None
    )
    occurrence = Occurrence.scheduled(JobKind.REMINDER, spec.id, at.now)
    item = DueItem.of(Reminder(spec, at.now), occurrence, MessageId("dose"), at.now)
    taken = item.answered(Answer.TAKEN, at.now, "web")
    await at.parts.state.transact(lambda tx: tx.due_items.put(taken))


async def _plant_event(at: FenceScene) -> None:
    """An event of others, for which it was time to leave; it is over then."""
    begins = at.now + timedelta(minutes=20)
    title, place = at.word("event"), at.word("place")
    event = CalendarEvent("e1", "Work", title, begins, begins, location=place)
    work = CalendarCopy("Work", "a.example (hidden)", (event,), at.now)
    CalendarFiles(at.paths).write_copy(work)
    await at.parts.state.transact(
        lambda tx: tx.config.change(lambda now: now.with_value("travel_minutes", 20))
    )
    await at.until(lambda: any(each.card and place in each.card.text for each in at.surface.posts))
    CalendarFiles(at.paths).write_copy(work._replace(events=()))


async def _plant_in_main(at: FenceScene, source: Source) -> None:
    word = at.word
    if source.is_untrusted:
        file = at.home / "attached.txt"
        file.write_text("A plan.")
        await at.ask("look", Says("ok"), files=(IncomingFile(f"{word('file name')}.md", file),))
    at.engine.then(
        *source.steps,
        _reminder(
            word("later reminder"),
            word("later description"),
            first_step=word("later step"),
            delay_minutes=600,
        ),
        _reminder(word("reminder"), word("description"), first_step=word("first step")),
        _tool(
            "discord_embed",
            title=word("card"),
            buttons=[{"label": "Go on", "action": f"agent:{word('stored prompt')}"}],
        ),
        CallsTool("Write", {"file_path": _note(at), "content": word("note")}),
        CallsTool("Write", {"file_path": "notes.txt", "content": word("question")}),
        Says(word("answer")),
    )
    await at.send(NEWS, untrusted=source.message)
    await at.until(lambda: at.find_button("Refuse"))
    await at.press("Refuse")
    if source.is_untrusted:
        await at.press("Make sure it comes")
        await at.press("Go on")


def _note(at: FenceScene) -> str:
    return f"notes/others/{at.word('name of a note')}.md"


async def _plant_in_background(at: FenceScene, source: Source) -> None:
    word = at.word
    steps = source.steps or (Says("nothing untrusted"),)
    await at.run_job(
        *steps,
        _tool("ping_user", message=word("ping")),
        _tool("report_updates", message=word("report")),
        _reminder(word("reminder of a run"), word("its description")),
        Says("ok"),
        isolated=True,
    )
    _write_transcript(at, {"type": "assistant", "message": {"content": word("transcript")}})
    await at.chat.command("test", "/quiet 1h")
    await at.run_job(*steps, _tool("ping_user", message=word("held ping")), isolated=True)
    await at.chat.command("test", "/quiet off")
    await at.idle()


def _write_transcript(at: FenceScene, entry: Mapping[str, object]) -> None:
    """Add to the record of the newest session, as the engine writes it."""
    session = at.engine.opened[-1].spec.resume
    folder = at.home / ".claude" / "projects" / project_key(at.paths.root)
    folder.mkdir(parents=True, exist_ok=True)
    common = {"uuid": "1", "timestamp": at.now.isoformat(), "cwd": str(at.paths.root)}
    with (folder / f"{session}.jsonl").open("a") as record:
        record.write(json.dumps({**entry, **common}) + "\n")


async def _plant_in_fork(at: FenceScene, source: Source) -> None:
    word = at.word
    await at.ask(NEWS, *source.steps, _tool("enter_fork", topic=word("topic")), Says("there"))
    await at.ask(
        NEWS, *source.steps, _tool("report_updates", message=word("fork report")), Says("ok")
    )


async def read_everywhere(at: FenceScene) -> None:
    """Have every reader take a turn, and call each command that shows something."""
    await at.run_job(*_LOOKS, isolated=True)
    await at.run_job(*_LOOKS, isolated=False)
    await at.chat.command("test", "/fork")
    await at.idle()
    await at.ask("what is there?", *_LOOKS, Says("I see."))
    await at.press("Leave it")
    await at.ask("what is there?", *_LOOKS, Says("I see."))
    _look_by_commands(at)
    await at.press("Done")
    for command in ("/today", "/reminders", "/tasks"):
        await at.chat.command("test", command)
        await at.idle()
    await at.press("Done")
    said = {each.id: each for each in at.surface.posts if at.word("") in each.text}
    for message in said.values():
        await at.ask("what was that?", Says("I see."), reply_to=message.id)
    at.engine.reader = NEXT
    await at.chat.command("test", "/clear")
    await at.ask("hello", *_LOOKS, Says("I see."))
    await _search(at)


async def _search(at: FenceScene) -> None:
    """Search files by the engine's own tools, each time in a turn of its own."""
    beginning = at.word("")
    places = (at.paths.root / each for each in ("notes", "downloads"))
    folders = [each for each in places if any(each.rglob("*.md"))]
    searches: Sequence[tuple[str, str, Mapping[str, object]]] = (
        *((SEARCH, "Grep", _grep(beginning, each)) for each in ("notes", "tasks.md", "reminders")),
        (SEARCH, "Grep", {**_grep(beginning, "notes"), "-o": True}),
        (SEARCH, "Grep", {**_grep(f"{beginning}Part[A-Za-z]+", "tasks.md"), "-o": True}),
        (SEARCH, "Grep", {**_grep(f"{beginning}Words[A-Za-z]+", "reminders"), "-o": True}),
        (NAMES, "Grep", {**_grep(beginning, "notes"), "output_mode": "count"}),
        (NAMES, "Grep", {**_grep(beginning, "notes"), "output_mode": "files_with_matches"}),
        *((NAMES, "Glob", {"pattern": f"{each.name}/**.md"}) for each in folders),
    )
    for reader, tool, given in searches:
        at.engine.reader = reader
        await at.ask("look for it", CallsTool(tool, given, _printed(at.paths.root, given)))
    for reader, words in (
        *((SEARCH, ("history", "search", beginning[:8].lower(), "--who", each)) for each in _WHO),
        (SEARCH, ("history", "search", beginning[:8].lower(), "--limit", "50", "--json")),
        (NAMES, ("tasks", "lists")),
        (NAMES, ("tasks", "list", "--list", "tasks.md")),
    ):
        _look_by(at, reader, words)


def _grep(pattern: str, path: str) -> dict[str, object]:
    return {"pattern": pattern, "path": path, "glob": "*.md", "output_mode": "content"}


def _printed(root: Path, given: Mapping[str, object]) -> str:
    """What the engine prints: lines, parts of them without the file, or names of files."""
    if "glob" not in given:
        return "\n".join(
            str(each) for each in root.glob(str(given["pattern"]).replace("**", "**/*"))
        )
    start, sought = root / str(given["path"]), re.compile(str(given["pattern"]))
    files = [start] if start.is_file() else sorted(start.rglob("*.md"))
    lines = [(file, line) for file in files for line in file.read_text().splitlines()]
    found = [(file, line, hit[0]) for file, line in lines if (hit := sought.search(line))]
    if given["output_mode"] != "content":
        return "\n".join(f"{file}:1" for file, _, _ in found)
    return "\n".join(hit if "-o" in given else f"{file}:{line}" for file, line, hit in found)


def _look_by_commands(at: FenceScene) -> None:
    searches = [("history", "search", at.word("").lower()[:8])]
    shows = [("history", "show", each) for each in _sessions(at)]
    runs = [("runs", "show", each) for each in _run_ids(at)]
    jobs = [("reminder", "show", each) for each in _reminder_ids(at)]
    _charge(at)
    for words in (*_COMMANDS, *searches, *shows, *runs, *jobs):
        _look_by(at, MAIN, words)


def _look_by(at: FenceScene, reader: str, words: Sequence[str]) -> None:
    said = at.agent(*words)
    if "--json" in words:
        said = "\n".join(_strings(json.loads(said)))
    at.engine.views.append(View(reader, f"ollim-bot {' '.join(words)}", said))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (text for each in value for text in _strings(each))
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for each in pair for text in _strings(each))


def _sessions(at: FenceScene) -> Iterator[str]:
    return (session.spec.resume for session in at.engine.opened if session.spec.resume)


def _charge(at: FenceScene) -> None:
    """Let each run have cost something, so that the sums by job name it."""
    rows = [
        UsageRow(at.now, UsageKind.RUN, "m", Price.LISTED, 1, occurrence=each)
        for each in _run_ids(at)
    ]
    with closing(
        open_database(at.paths, lambda: at.now, is_holder=False, report=lambda _: None)
    ) as database:
        database.run(lambda tx: tx.usage.add(*rows))


def _run_ids(at: FenceScene) -> list[str]:
    rows = look_into(at.paths, at.now, lambda tx: tx.ledger.page(0, 10_000)[0]) or ()
    return list(dict.fromkeys(row.occurrence.id for row in rows if row.occurrence))


def _reminder_ids(at: FenceScene) -> list[str]:
    folder = at.home / "data" / "reminders"
    texts = (path.read_text() for path in folder.glob("*.md"))
    return [text.partition("id: ")[2].splitlines()[0].strip("\"'") for text in texts]


def _tool(name: str, **arguments: object) -> CallsTool:
    return CallsTool(f"mcp__discord__{name}", arguments)


def _reminder(prompt: str, description: str, **more: object) -> CallsTool:
    given = {"prompt": prompt, "description": description, "delay_minutes": 5, **more}
    return CallsTool("mcp__discord__add_reminder", given)

"""The whole bot on fakes: which failures end it, and what the owner is told."""

from __future__ import annotations

import asyncio
import io
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.disks import SteppedDisk
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, ScriptedSession
from devtools.doubles.surface import RecordingSurface
from tests.kernel.store.files.journal.git_repos import git_script
from tests.patience import patience
from tests.stores import memory_stores

from ollim_bot import __version__
from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, WriteFailed
from ollim_bot.kernel.base.settings import Secret, Settings
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import ChatService, IncomingMessage, SessionSpec, Toolset
from ollim_bot.kernel.values.sessions import SessionChange
from ollim_bot.surfaces.terminal.main import main

pytestmark = pytest.mark.real_process

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


class FailingSurface(RecordingSurface):
    """Fails at its first starts, for the given number of times."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__("failing")
        self._failures = [error] * times
        self.starts_seen = 0

    def has_started(self, times: int) -> bool:
        return self.starts_seen == times

    async def run(self, reception: ChatService) -> None:
        self.starts_seen += 1
        if self._failures:
            raise self._failures.pop()
        await super().run(reception)


class BrokenEngine(ScriptedEngine):
    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        async with super().open(spec, tools):
            raise RuntimeError("a fault of our own")
            yield


def settings(home: Path) -> Settings:
    environ = {"HOME": str(home), "OLLIM_DATA_DIR": str(home / "data"), "OLLIM_TIMEZONE": "UTC"}
    return Settings.from_env(environ, cwd=home)


@asynccontextmanager
async def running(app: App) -> AsyncIterator[asyncio.Task[Ending]]:
    task = asyncio.create_task(app.run())
    try:
        async with asyncio.timeout(patience()):
            yield task
    finally:
        app.stop()
        await asyncio.wait({task})


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to that")


async def until_told(words: str, surface: RecordingSurface, clock: ManualClock) -> None:
    """Wait for a notice with these words. Notices are ten minutes apart, so time moves on."""
    for _ in range(200):
        if any(words in notice for notice in surface.posted_by(Author.PROGRAM)):
            return
        await clock.advance(600)
        await asyncio.sleep(0.005)
    raise AssertionError(f"nobody was told: {words}")


class HeldDisk(OsDisk):
    """Reads no routine until it may, as if there were very many."""

    def __init__(self) -> None:
        self.is_asked, self.may_read = threading.Event(), threading.Event()

    def read(self, path: Path, limit: int) -> bytes:
        if path.parent.name == "routines":
            self.is_asked.set()
            assert self.may_read.wait(patience())
        return super().read(path, limit)


async def test_the_owner_is_answered_while_the_job_files_are_still_being_read(
    tmp_path: Path,
) -> None:
    routines = tmp_path / "data" / "routines"
    routines.mkdir(parents=True)
    (routines / "tee-kochen.md").write_text('---\nid: tee\ncron: "0 9 * * *"\n---\nKoche Tee.\n')
    disk, surface = HeldDisk(), RecordingSurface()
    engine = ScriptedEngine().answers("Hello, Ada.")
    app = App(settings(tmp_path), Adapters(engine=engine, surfaces=[surface], disk=disk))
    database = tmp_path / "data" / "state" / "ollim.db"
    async with running(app):
        try:
            await until(lambda: surface.receptions)
            await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
            await until(lambda: surface.posted_by(Author.ASSISTANT))
            assert disk.is_asked.is_set()
            assert not has_roster(database)
        finally:
            disk.may_read.set()
        await until(lambda: has_roster(database))


def has_roster(database: Path) -> bool:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT count(*) FROM ledger WHERE state = 'roster'").fetchone()
    return bool(found[0])


async def test_a_shared_database_needs_the_package_of_the_standby(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Earlier tests may have loaded parts of it.
    for name in ["ollim_bot_standby", *sys.modules]:
        if name.partition(".")[0] == "ollim_bot_standby":
            monkeypatch.setitem(sys.modules, name, None)
    address = Secret("postgresql:///ollim")
    app = App(replace(settings(tmp_path), database_url=address), Adapters())
    with pytest.raises(OllimError, match="has no standby"):
        await app.run()


async def test_what_the_agent_changed_when_the_bot_died_is_shown_once(tmp_path: Path) -> None:
    surface = RecordingSurface()
    environ = {"HOME": str(tmp_path), "OLLIM_DATA_DIR": str(tmp_path / "data")}
    add = ["routine", "add", "-m", "plan", "--cron", "@daily"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(add, environ={**environ, CALLED_BY: CONVERSATION}, cwd=tmp_path) == 0
        add[3] = "by the owner"
        assert main(add, environ=environ, cwd=tmp_path) == 0

    def cards() -> list[str]:
        return [post.card.title for post in surface.posts if post.card]

    for _ in range(2):
        clock = ManualClock(NOW)
        app = App(
            settings(tmp_path), Adapters(clock=clock, engine=ScriptedEngine(), surfaces=[surface])
        )
        async with running(app):
            await until(lambda: "Routine added: plan" in cards())
            await clock.advance(120)
    assert cards().count("Routine added: plan") == 1
    assert not any("by the owner" in title for title in cards())


async def test_a_job_of_the_agent_is_judged_again_when_it_fires(tmp_path: Path) -> None:
    skill = tmp_path / "data/skills/mail/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: mail\ndescription: x\n---\nRead it.\n")
    head = 'cron: "30 9 * * *"\nbackground: true\nskills: [mail]'
    job = {
        name: f"---\nid: {name}\ndescription: {name}\n{head}\n---\nLook.\n"
        for name in ("agents", "owners")
    }
    writing = CallsTool("Write", {"file_path": "routines/agents.md", "content": job["agents"]})
    engine, clock, surface = ScriptedEngine(), ManualClock(NOW), RecordingSurface()
    engine.then(writing, Says("Set.")).then(Says("Looked."))
    app = App(settings(tmp_path), Adapters(clock=clock, engine=engine, surfaces=[surface]))
    async with running(app):
        await until(lambda: surface.receptions)
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        skill.write_text(skill.read_text().replace("x\n", "x\nallowed-tools: [Bash(python3 *)]\n"))
        for name, text in job.items():
            (tmp_path / "data/routines" / f"{name}.md").write_text(text)
        told = "“agents” was not run: the skill mail would give it `Bash(python3 *)`"
        await until_told(told, surface, clock)
        await until(lambda: len(engine.prompts) > 1)
    assert "“owners” was not run" not in "".join(surface.posted_by(Author.PROGRAM))
    assert "`Bash(python3 *)`" in engine.prompts[1]


async def test_the_owner_of_an_older_directory_is_told_once_of_no_daily_limit(
    tmp_path: Path,
) -> None:
    clock = ManualClock(NOW)
    told: list[list[str]] = []

    async def start() -> None:
        surface = RecordingSurface()
        adapters = Adapters(engine=ScriptedEngine(), surfaces=[surface], clock=clock)
        async with running(App(settings(tmp_path), adapters)):
            await until(lambda: surface.receptions)
            for _ in range(5):
                await clock.advance(3)
                await asyncio.sleep(0.01)
            notices = surface.posted_by(Author.PROGRAM)
            told.append([text for text in notices if "no daily limit" in text])

    await start()
    with closing(sqlite3.connect(tmp_path / "data/state/ollim.db")) as database, database:
        database.execute("DELETE FROM meta WHERE name = 'daily_limit_notice'")
    await start()
    await start()
    assert [len(each) for each in told] == [0, 1, 0]
    assert "`/config daily_cost_cap 5` gives you that limit too." in told[1][0]


async def test_a_surface_that_dies_is_started_again_after_growing_pauses(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    dying = FailingSurface(RuntimeError("gone"), times=3)
    app = App(
        settings(tmp_path),
        Adapters(
            clock=clock,
            engine=ScriptedEngine(),
            surfaces=[dying, RecordingSurface()],
            store=memory_stores(NOW).state,
        ),
    )
    async with running(app):
        for number, pause in enumerate((1, 2, 4), start=1):
            await until(partial(dying.has_started, number))
            await clock.advance(pause - 0.1)
            assert dying.starts_seen == number
            await clock.advance(0.1)
        await until(lambda: dying.receptions)


async def test_what_ended_by_itself_was_not_cut_off(tmp_path: Path) -> None:
    """The run gave its reason when it ended, so the next start reports no interruption."""
    stores, surface = memory_stores(NOW), FailingSurface(OllimError("The port is taken."), times=1)
    app = App(
        settings(tmp_path),
        Adapters(engine=ScriptedEngine(), surfaces=[surface], store=stores.state),
    )
    with pytest.raises(OllimError, match="The port is taken"):
        await asyncio.wait_for(app.run(), patience())
    presence = stores.state.query(lambda tx: tx.presence.get())
    assert presence.running_since is None
    assert (presence.failure, presence.version) == ("The port is taken.", __version__)


async def test_what_a_fault_has_ended_was_cut_off(tmp_path: Path) -> None:
    stores, surface = memory_stores(NOW), RecordingSurface()
    app = App(
        settings(tmp_path), Adapters(engine=BrokenEngine(), surfaces=[surface], store=stores.state)
    )
    with pytest.raises(RuntimeError, match="a fault of our own"):
        await asyncio.wait_for(app.run(), patience())
    presence = stores.state.query(lambda tx: tx.presence.get())
    assert presence.running_since is not None
    assert presence.failure == "a fault in the program (RuntimeError)"


async def test_one_of_two_surfaces_that_cannot_be_served_is_told_on_the_other(
    tmp_path: Path,
) -> None:
    other = RecordingSurface()
    broken = FailingSurface(OllimError("The token was refused."), times=1)
    app = App(settings(tmp_path), Adapters(engine=ScriptedEngine(), surfaces=[broken, other]))
    async with running(app):
        await until(lambda: other.posted_by(Author.PROGRAM))
    assert other.posted_by(Author.PROGRAM) == ["The token was refused."]


async def test_a_second_bot_on_the_same_data_is_refused(tmp_path: Path) -> None:
    surface = RecordingSurface()
    first = App(settings(tmp_path), Adapters(engine=ScriptedEngine(), surfaces=[surface]))
    async with running(first):
        await until(lambda: surface.receptions)
        second = App(
            settings(tmp_path), Adapters(engine=ScriptedEngine(), surfaces=[RecordingSurface()])
        )
        with pytest.raises(AlreadyRunning):
            await second.run()


async def test_a_restart_is_asked_for_and_written_down(tmp_path: Path) -> None:
    surface = RecordingSurface()
    stores = memory_stores(NOW)
    app = App(
        settings(tmp_path),
        Adapters(engine=ScriptedEngine(), surfaces=[surface], store=stores.state),
    )
    async with running(app) as task:
        await until(lambda: surface.receptions)
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        await surface.receptions[0].command("test", "/restart")
        assert await task is Ending.RESTART

    events = [event.event for event in stores.session_history.read().entries]
    assert events == [SessionChange.CREATED, SessionChange.RESTARTING]


WRONG_FILES = {
    "skills/tidy/SKILL.md": "no fields",
    "tool-policy.yaml": "main_session: [",
    "USER.md": "\0",
    "mcp.json": "{",
}


@pytest.mark.parametrize("is_edited", [False, True], ids=["at the start", "while it runs"])
async def test_what_is_wrong_is_told_to_the_owner_and_the_agent_before_it_is_used(
    tmp_path: Path, is_edited: bool
) -> None:
    data = tmp_path / "data"

    def write() -> None:
        for name, text in WRONG_FILES.items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text(text)

    data.mkdir()
    (data / ".git").write_text("not a repository")
    if not is_edited:
        write()
    surface, clock = RecordingSurface(), ManualClock(NOW)
    engine = ScriptedEngine()
    app = App(settings(tmp_path), Adapters(clock=clock, engine=engine, surfaces=[surface]))
    async with running(app):
        await until(lambda: surface.receptions)
        if is_edited:
            write()
        for name in (*WRONG_FILES, "git"):
            await until_told(name, surface, clock)
        pending = data / "state" / "pending_updates.json"
        for name in (*WRONG_FILES, "git"):
            await until(lambda name=name: name in pending.read_text())  # type: ignore[misc]
    assert not engine.prompts


async def test_a_file_that_cannot_be_understood_is_told_and_hurts_nobody(tmp_path: Path) -> None:
    state = tmp_path / "data" / "state"
    state.mkdir(parents=True)
    (state / "config.json").write_text("not json at all")
    (tmp_path / "data" / "USER.md").write_bytes(b"\xff\xfe broken")
    surface = RecordingSurface()
    engine, clock = ScriptedEngine().answers("Hello."), ManualClock(NOW)
    app = App(settings(tmp_path), Adapters(clock=clock, engine=engine, surfaces=[surface]))
    async with running(app):
        await until(lambda: surface.receptions)
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        for name in ("state/config.json could not be understood", "USER.md:1: is not UTF-8 text"):
            await until_told(name, surface, clock)

    assert list(state.glob("config.json.corrupt-*"))


async def test_new_job_files_are_read_once_and_come_while_git_is_held_up_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, began, data = tmp_path / "go", tmp_path / "began", tmp_path / "data"
    git_script(
        tmp_path / "git",
        'case "$*" in *" add "*|*" commit "*) ;; *) exec "$GIT" "$@" ;; esac',
        f"touch '{began}'",
        f"until [ -e '{go}' ]; do sleep 0.02; done",
        'exec "$GIT" "$@"',
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for number in range(20):
        _write_reminder(data, f"later{number}", NOW + timedelta(days=1))
    _write_reminder(data, "now", NOW)
    # Files this new are read again, in case their clock did not move between two writes.
    await asyncio.sleep(0.2)
    read: list[str] = []
    disk = SteppedDisk(
        OsDisk(), lambda step, path: read.append(path.name) if step == "read" else None
    )
    clock, surface = ManualClock(NOW), RecordingSurface()
    adapters = Adapters(clock=clock, engine=ScriptedEngine(), surfaces=[surface], disk=disk)
    app = App(settings(tmp_path), adapters)
    async with running(app) as task:
        await until(lambda: "Drink water." in surface.texts)
        await until(lambda: not (data / "reminders" / "now.md").exists())
        assert max(Counter(name for name in read if name.startswith("later")).values()) == 1
        await until(began.exists)
        go.touch()
        app.stop()
        await task
    assert "reminders/later7.md" in _committed(data)


def _committed(data: Path) -> list[str]:
    listing = ("git", "log", "--name-only", "--format=")
    return subprocess.check_output(listing, cwd=data, text=True).splitlines()


def _write_reminder(data: Path, name: str, at: datetime) -> None:
    folder = data / "reminders"
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nid: {name}\nrun-at: {at.isoformat()}\nplain: true\n---\n"
    (folder / f"{name}.md").write_text(f"{head}Drink water.\n")


class FailingAtFirst:
    """A store that refuses to follow these changes, for the given number of times."""

    def __init__(self, inner: Store, name: str, error: Exception, times: int) -> None:
        self._inner = inner
        self._name = name
        self._error = error
        self._failures = times
        self.followed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        if names[:1] == (self._name,) and self._failures:
            self._failures -= 1
            raise self._error
        self.followed += names[:1] == (self._name,)
        return self._inner.changes(*names, event=event)


@pytest.mark.parametrize(
    "name", ["deliveries", "messages", "failed_turns", "task_undos", "due_items", "tool_servers"]
)
async def test_a_service_that_fails_is_started_again_and_the_bot_goes_on(
    tmp_path: Path, name: str
) -> None:
    clock, surface = ManualClock(NOW), RecordingSurface()
    fault = RuntimeError("a fault of a service")
    store = FailingAtFirst(memory_stores(NOW).state, name, fault, times=2)
    adapters = Adapters(
        clock=clock,
        engine=ScriptedEngine().answers("Hello, Ada."),
        surfaces=[surface],
        store=cast(Store, store),
    )
    app = App(settings(tmp_path), adapters)
    async with running(app) as task:
        await until(lambda: surface.receptions)
        for _ in range(200):
            if store.followed:
                break
            await clock.advance(1)
            await asyncio.sleep(0.005)
        assert store.followed
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        await until_told("The log says which one", surface, clock)
        assert not task.done()
    told = [said for said in surface.posted_by(Author.PROGRAM) if "The log says which" in said]
    assert len(told) == 1


async def test_a_service_that_the_disk_refuses_is_started_again_and_not_told(
    tmp_path: Path,
) -> None:
    clock, surface = ManualClock(NOW), RecordingSurface()
    full = WriteFailed(Path("ollim.db"), "is in use.")
    store = FailingAtFirst(memory_stores(NOW).state, "task_undos", full, times=1)
    adapters = Adapters(
        clock=clock, engine=ScriptedEngine(), surfaces=[surface], store=cast(Store, store)
    )
    async with running(App(settings(tmp_path), adapters)):
        await until(lambda: surface.receptions)
        await clock.advance(1)
        await until(lambda: store.followed)
        await clock.advance(600)
    assert not any("in use" in said for said in surface.posted_by(Author.PROGRAM))


async def test_a_start_that_cannot_be_announced_is_announced_later(tmp_path: Path) -> None:
    clock, announced = ManualClock(NOW), 0

    def announce(*_: object) -> None:
        nonlocal announced
        announced += 1
        if announced == 1:
            raise BrokenPipeError

    adapters = Adapters(clock=clock, engine=ScriptedEngine(), surfaces=[RecordingSurface()])
    app = App(settings(tmp_path), adapters, announce=announce)
    async with running(app):
        await until(lambda: announced)
        await clock.advance(1)
        await until(lambda: announced == 2)
        await clock.advance(600)
    assert announced == 2

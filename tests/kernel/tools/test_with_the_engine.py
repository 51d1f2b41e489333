"""The real engine with the gate of a conversation.

Honest calls do what they should. Of others the owner is asked: the call waits on a card, and is
made as the card says. A file is edited as foretold.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.surface import RecordingSurface
from tests.kernel.engine.scene import ChangingTools, Scene, ask, scene
from tests.kernel.tools.home_scene import OPEN, SECRET, HomeScene, make_home
from tests.kernel.tools.test_file_edits import APPLIED, UNCLEAR
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation.approvals import Approvals
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.conversation.surface_fanout import SurfaceFanout
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.tools.gates import main_gate
from ollim_bot.kernel.tools.guards import JobValidator, UnclearEdit, text_after_edit
from ollim_bot.kernel.tools.registry import MAIN_TOOLS
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import EndCause, TurnEnded
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import AgentSession, Gate, Refusal, ToolCall, Toolset
from ollim_bot.kernel.values.runtime_config import PermissionMode
from ollim_bot.offline.server import CallTool, Reply, ToolResult

pytestmark = pytest.mark.real_engine

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
DAILY = '---\nid: daily\ncron: "0 9 * * *"\ndescription: “a”\n---\nPlan the day.\n'
BUILTIN = ("Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash", "Agent")


@dataclass
class Owner:
    """An owner who sees cards and clicks on them."""

    approvals: Approvals
    surface: RecordingSurface

    async def sees(self, words: str, after: ChatMessage | None = None) -> ChatMessage:
        """Wait for a card with these words; with `after`, for another card than that one."""
        posts = self.surface.posts

        def is_shown() -> bool:
            is_new = after is None or posts[-1].id != after.id
            return is_new and words in "".join(self.surface.texts[-1:])

        async with asyncio.timeout(60), self.surface.news:
            await self.surface.news.wait_for(is_shown)
        return posts[-1]

    async def clicks(self, message: ChatMessage, word: str) -> None:
        assert message.card is not None
        (button,) = (each for each in message.card.buttons if each.data.endswith(word))
        assert not (await self.approvals.answer("web", message, button)).is_error


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
def home(engine: Scene) -> HomeScene:
    return make_home(engine.home)


@pytest.fixture
async def owner(engine: Scene) -> AsyncIterator[Owner]:
    stores: Stores = memory_stores(NOW)
    surface = RecordingSurface()
    store, clock = stores.state, ManualClock(NOW)
    fanout = SurfaceFanout(store, [surface])
    await fanout.load()
    following = asyncio.create_task(fanout.run())
    poster = MessagePoster(store, fanout, [], clock)
    approvals = Approvals(
        store, ConversationState(store), poster, clock, engine.spec.working_directory
    )
    await approvals.set_mode(PermissionMode.DEFAULT)
    yield Owner(approvals, surface)
    following.cancel()


def tools(gate: Gate) -> Toolset:
    return Toolset(builtin=BUILTIN, gate=gate)


def write(name: str) -> CallTool:
    return CallTool("Write", {"file_path": name, "content": "hello"})


def written(engine: Scene) -> list[str]:
    folder = engine.spec.working_directory
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.txt"))


async def results(
    engine: Scene, session: AgentSession, calls: Sequence[CallTool]
) -> list[ToolResult]:
    """What the model is told about each of its calls, in their order."""
    engine.model.then(Reply(tuple(calls)))
    await ask(session, "go")
    messages = engine.model.requests[-1].messages
    made = [call["id"] for message in messages for call in message.of_type("tool_use")]
    told = {result.call_id: result for message in messages for result in message.tool_results}
    return [told[str(call_id)] for call_id in made[-len(calls) :]]


async def test_honest_calls_are_made_others_when_the_owner_says_so_and_no_edit_makes_a_wrong_job(
    engine: Scene, home: HomeScene, owner: Owner
) -> None:
    path_policy = PathPolicy(engine.spec.working_directory)
    asking = main_gate(
        path_policy, granted=owner.approvals.granted, undecided=owner.approvals.decide
    )
    changing = ChangingTools(tools(asking))
    async with engine.session(changing.toolset(), readable=(home.texts,)) as session:
        await check_that_a_call_is_made_when_the_owner_says_so(engine, owner, session)
        changing.now = tools(main_gate(PathPolicy(home.data, (home.texts,))))
        await check_that_notes_are_used_and_our_commands_are_run(engine, home, session)
        await check_that_a_foretold_edit_is_what_stands_in_the_file(engine, changing, session)
        await check_that_a_hostile_model_makes_no_wrong_job_by_any_edit(engine, changing, session)


async def check_that_a_call_is_made_when_the_owner_says_so(
    engine: Scene, owner: Owner, session: AgentSession
) -> None:
    """With "always", similar calls are made without a question. An interruption ends a question."""
    engine.model.then(
        Reply((write("notes/a.txt"),)),
        Reply((write("notes/a.txt"),)),
        Reply((write("notes/b.txt"), write("state/c.txt"))),
        Reply((CallTool("Bash", {"command": "echo hi > notes/d.txt"}),)),
    ).answers("Done.")
    turn = asyncio.create_task(ask(session, "write"))
    asked = await owner.sees("Allow Write?")
    await session.interrupt()
    end = (await turn)[-1]
    assert isinstance(end, TurnEnded)
    assert end.cause is EndCause.INTERRUPTED
    assert (await owner.sees("No longer needed.")).id == asked.id
    assert written(engine) == []

    turn = asyncio.create_task(ask(session, "write"))
    card = await owner.sees("Allow Write?", after=asked)
    assert written(engine) == []
    await owner.clicks(card, "always")
    await turn

    assert written(engine) == ["notes/a.txt", "notes/b.txt"]
    assert {message.id for message in owner.surface.posts} == {asked.id, card.id}
    assert "Allowed from now on: `Write(./notes/**)`" in owner.surface.posts[-1].text
    told = [result.is_error for each in engine.model.requests[2:] for result in each.tool_results]
    assert told == [False, False, True, True]


async def check_that_notes_are_used_and_our_commands_are_run(
    engine: Scene, home: HomeScene, session: AgentSession
) -> None:
    """They are read, searched and written. Documents behind a link are read where that is meant."""
    *told, refused = await results(
        engine,
        session,
        [
            CallTool("Read", {"file_path": "note.md"}),
            CallTool("Read", {"file_path": str(home.data / "notes/plan.md")}),
            CallTool("Grep", {"pattern": OPEN, "output_mode": "content", "glob": "*.md"}),
            CallTool("Glob", {"pattern": "**/*.md"}),
            CallTool("Read", {"file_path": "spec.md"}),
            CallTool("Bash", {"command": "ollim-bot reminder list"}),
            CallTool("Write", {"file_path": "notes/new.md", "content": "new"}),
            CallTool("Edit", {"file_path": "note.md", "old_string": OPEN, "new_string": "mine"}),
            CallTool("Bash", {"command": "ollim-bot config list"}),
        ],
    )
    read, plan, grep, glob, linked, listed, _, _ = (result.text for result in told)
    assert [result.text for result in told if result.is_error] == []
    assert not [result for result in told if SECRET in result.text]
    assert f"{OPEN}: data/note.md" in read
    assert f"{OPEN}: data/notes/plan.md" in plan
    assert {"note.md", "notes/plan.md", "routines/daily.md"} <= {
        line.partition(":")[0] for line in grep.splitlines()
    }
    assert "routines/daily.md" in glob
    assert f"{OPEN}: texts/spec.md" in linked
    assert "No reminders." in listed
    assert (home.data / "notes/new.md").read_text() == "new"
    assert (home.data / "note.md").read_text() == "mine: data/note.md\n"
    assert refused.is_error
    assert "`Bash` is not allowed here" in refused.text


async def check_that_a_foretold_edit_is_what_stands_in_the_file(
    engine: Scene, tools: ChangingTools, session: AgentSession
) -> None:
    data, foretold = engine.home / "data" / "edits", dict[Path, str]()
    data.mkdir()
    before = {name: case[0] for name, case in APPLIED.items()}
    before |= {name: case[0] for name, case in UNCLEAR.items()}
    edits = {name: case[1] for name, case in APPLIED.items()}
    edits |= {name: case[1] for name, case in UNCLEAR.items()}
    there = {name: text for name, text in before.items() if text is not None}
    for name, text in there.items():
        (data / f"{name}.md").write_text(text, newline="")

    async def gate(call: ToolCall) -> Refusal | None:
        path = Path(str(call.arguments["file_path"]))
        if call.tool == "Edit":
            try:
                foretold[path] = text_after_edit("x", before[path.stem], call.tool, call.arguments)
            except UnclearEdit as unclear:
                return Refusal(str(unclear))
        return None

    reads = [CallTool("Read", {"file_path": f"edits/{name}.md"}) for name in there]
    writes = [CallTool("Edit", {"file_path": f"edits/{name}.md", **edits[name]}) for name in edits]
    tools.now = Toolset(builtin=BUILTIN, gate=gate)
    await results(engine, session, [*reads, *writes])

    # The engine turns the text "true" into a flag before it asks the gate about the call.
    assert {path.stem for path in foretold} == {*APPLIED, "loose-flag"}
    for path, text in foretold.items():
        assert path.read_text().removeprefix("\ufeff") == text, path.stem
    for name in {*UNCLEAR, *there} - {path.stem for path in foretold}:
        assert (
            not (data / f"{name}.md").exists() or (data / f"{name}.md").read_text() == there[name]
        )


async def check_that_a_hostile_model_makes_no_wrong_job_by_any_edit(
    engine: Scene, tools: ChangingTools, session: AgentSession
) -> None:
    paths = DataPaths(engine.home / "data")
    prepare_data_directory(paths)
    (paths.routines / "daily.md").write_text(DAILY)
    (paths.root / "to-daily.md").symlink_to("routines/daily.md")
    validator = JobValidator(
        paths.root, JobFileChecker(paths), lambda: [Pattern.of(text) for text in MAIN_TOOLS]
    )

    async def gate(call: ToolCall) -> Refusal | None:
        reason = validator(call)
        return Refusal(reason) if reason else None

    def edit(old: str, new: str, path: str = "routines/daily.md") -> CallTool:
        return CallTool("Edit", {"file_path": path, "old_string": old, "new_string": new})

    more = "allowed-tools: ['Bash(git *)']\n"
    tools.now = Toolset(builtin=BUILTIN, gate=gate)
    told = await results(
        engine,
        session,
        [
            CallTool("Read", {"file_path": "routines/daily.md"}),
            edit("Plan the day.", "Plan it: xallowed-tools"),
            edit("---\nPlan it", f"{more}---\nPlan it"),
            edit('"a"', f"x\n{more}late: run"),
            edit("---\nPlan it", f"{more}---\nPlan it", "to-daily.md"),
            edit("0 9 * * *", "0 99 * * *"),
            CallTool("Write", {"file_path": "routines/daily.md", "content": "x"}),
            CallTool("Write", {"file_path": "routines/copy.md", "content": DAILY}),
            edit("Plan it: x", "x"),
        ],
    )
    assert [each.is_error for each in told] == [False, False, *[True] * 6, False]
    right = DAILY.replace("Plan the day.", "xallowed-tools")
    assert (paths.routines / "daily.md").read_text() == right
    assert not (paths.routines / "copy.md").exists()

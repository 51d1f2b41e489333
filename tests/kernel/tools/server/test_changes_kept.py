"""Each tool that changes files leaves who, why and what, with the change; `undo` takes it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk
from tests.kernel.tools.server.tool_scene import NOW, ToolScene, make_tool_scene
from tests.stores import Stores

from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.changes.breakdown_store import StepWriter
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.changes.job_files import JobFileChanges, open_repositories
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.tools.registry import OWN_TOOLS
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.inbox import Accepted, InputId, OwnerMessage, Taken
from ollim_bot.kernel.values.jobs import Chain, Job, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.runs import RunKind
from ollim_bot.kernel.values.taint import Taint

# Between two seconds, as a real clock stands.
SET_AT = NOW + timedelta(microseconds=123_457)
TURN, RUN = "turn 20261116-0900", "routine:plan:2026-11-16T08:00:00Z"
PLAN = Routine(JobSpec(id="plan", message="Plan.", background=True), Cron.parse("0 9 * * *"))
CHECK = Reminder(JobSpec(id="root", message="Hat Zoë geantwortet?", background=True), NOW, Chain(3))
PAGE = "web page"


@dataclass
class Kept:
    """The tools of one run on a real data directory, and the changes that are kept there."""

    data: DataDirectory
    at: ToolScene
    changes: FileChanges
    journal: ChangeJournal

    @property
    def stores(self) -> Stores:
        return self.at.stores

    def newest(self) -> list[ChangeRow]:
        self.journal.keep_noted(self.changes)
        return self.stores.state.query(lambda tx: tx.changes.newest(100))

    def files(self) -> dict[str, str]:
        root = self.data.paths.root
        found = [*root.glob("re*/*.md"), *root.glob("tasks.md")]
        return {path.relative_to(root).as_posix(): path.read_text() for path in found}


def kept(tmp_path: Path, kind: RunKind, job: Job | None = None) -> Kept:
    data = DataDirectory(tmp_path / "dätä")
    state = data.open(QuickDisk(), NOW).state
    journal = ChangeJournal(data.journal, data.paths.root, ManualClock(NOW))
    changes = FileChanges(data.paths, state, journal, lambda: SET_AT, QuickDisk())
    changes.look()
    repositories = open_repositories(data.paths, journal, QuickDisk(), changes=changes)
    at = make_tool_scene(data.paths.root, kind, job=job, stores=Stores(state, repositories))
    tasks = TaskFile(data.paths, journal, at.clock.now, QuickDisk())
    at.context.items = ItemAnswers(state, JobFileChanges(state, repositories))
    at.context.steps = StepWriter(state, lambda: tasks)
    if kind.is_background:
        at.run.occurrence = RUN
    else:
        asks = Accepted(NOW, OwnerMessage(InputId("i"), "web", NOW, "Bitte!"))
        state.run(lambda tx: tx.inbox.append(asks, Taken(NOW, TurnId(TURN[5:]), (InputId("i"),))))
    return Kept(data, at, changes, journal)


Calls = Callable[[Kept], Awaitable[object]]


async def add(here: Kept) -> None:
    await here.at.works("add_reminder", prompt="Mamá anrufen", delay_minutes=180)


async def cancel(here: Kept) -> None:
    await here.at.works("cancel_reminder", reminder_id="gym")


async def follow_up(here: Kept) -> None:
    await here.at.works("follow_up_chain", minutes_from_now=30)


async def follow_up_again(here: Kept) -> None:
    await here.at.works("follow_up_chain", minutes_from_now=30)
    await here.at.works("follow_up_chain", minutes_from_now=45)


async def break_down(here: Kept) -> None:
    await here.at.works("break_down", thing="Steuern", steps=["Brief suchen", "Büro anrufen"])


async def settle(here: Kept) -> None:
    await here.at.works("settle_reminder", item="Wasser", action="done")


async def put_off(here: Kept) -> None:
    await here.at.works("settle_reminder", item="Wasser", action="snooze", until="in 1 hour")


# Each tool of ours that changes what is kept, with how often it does.
CALLS: dict[str, Sequence[tuple[Calls, int]]] = {
    "add_reminder": [(add, 1)],
    "cancel_reminder": [(cancel, 1)],
    "follow_up_chain": [(follow_up, 1), (follow_up_again, 3)],
    "break_down": [(break_down, 1)],
    "settle_reminder": [(settle, 1), (put_off, 1)],
}
NEVER = {
    "discord_embed", "send_file", "ping_user", "report_updates", "enter_fork", "exit_fork",
    "save_context", "update_names",
}  # fmt: skip
KINDS = {tool.name: tool.where for tools in OWN_TOOLS.values() for tool in tools}


def test_the_table_has_each_tool_that_changes_something() -> None:
    changing = {
        tool.name for tools in OWN_TOOLS.values() for tool in tools if tool.changes_something
    }
    assert changing == CALLS.keys() | NEVER


def prepare(here: Kept) -> None:
    gym = Reminder(JobSpec(id="gym", message="Gym"), NOW + timedelta(days=1))
    open_repositories(here.data.paths, here.data.journal, QuickDisk()).reminders.add(gym)
    here.data.paths.tasks.write_text("- [ ] Steuern\n")
    water = Reminder(JobSpec(id="w", message="Wasser"), NOW)
    due = Occurrence.scheduled(JobKind.REMINDER, "w", NOW)
    item = DueItem.of(water, due, MessageId("w"), NOW)
    here.stores.state.run(lambda tx: tx.due_items.add(item))
    here.changes.look()


@pytest.mark.parametrize("is_tainted", [False, True])
@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK, RunKind.BACKGROUND])
async def test_what_a_tool_changes_names_the_agent_and_its_turn_or_run_and_is_undone(
    tmp_path: Path, kind: RunKind, is_tainted: bool
) -> None:
    seen = set()
    for name, calls in CALLS.items():
        for number, (call, rows) in enumerate(calls):
            if kind not in KINDS[name]:
                continue
            job = CHECK if name == "follow_up_chain" else PLAN if kind.is_background else None
            here = kept(tmp_path / f"{name}{number}", kind, job)
            await here.at.clock.advance(0.123_457)
            prepare(here)
            known, before = here.newest(), here.files()
            if is_tainted:
                here.at.run.taint = Taint((PAGE,))
            await call(here)
            new = here.newest()[: -len(known) or None]
            assert len(new) == rows, (name, new)
            cause = RUN if kind.is_background else TURN
            assert {(each.by, each.cause) for each in new} == {(Changer.AGENT, cause)}, (name, new)
            if is_tainted and name in ("add_reminder", "follow_up_chain", "break_down"):
                assert {each.untrusted for each in new} == {PAGE}, (name, new)
            for row in new:
                if not row.kind:
                    here.changes.undo_file(row, Changer.COMMAND)
                else:
                    assert here.at.context.items is not None
                    await here.at.context.items.undo_change(row, Changer.COMMAND)
            assert here.files() == before, name
            seen.add(name)
    assert seen == {name for name, where in KINDS.items() if name in CALLS and kind in where}

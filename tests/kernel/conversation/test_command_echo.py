"""The owner sees every job that the agent has changed by a command, and can take it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.echo_scene import BERLIN, NOW, PATH, EchoScene, routine

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.conversation.job_echo import ChangeEcho
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import AgentEvent, EndCause, ToolFailed, TurnEnded

pytestmark = pytest.mark.real_process

ADD = 'routine add --id daily -m "Plan the day." --description Plan --cron "30 8 * * 1-5"'
FILE = "routines/plan.md"
NOON = 'routine edit daily --cron "0 12 * * *"'
RUN = "reminder:mail:2026-02-24T08:00:00Z"
ADD_IN_RUN = f"{ADD} --background"


MAIL = '---\nid: mail\nrun-at: "2026-02-24T09:00"\n{more}---\nLook at the mail.\n'


@pytest.fixture
def scene(tmp_path: Path) -> EchoScene:
    made = EchoScene(tmp_path / "data")
    (made.root / "reminders/mail.md").write_text(MAIL.format(more=""))
    return made


@contextmanager
def looking(scene: EchoScene, echo: ChangeEcho | None = None) -> Iterator[None]:
    """A started bot, which looks for changes that were not told yet."""
    task = asyncio.create_task((echo or scene.started()).run())
    try:
        yield
    finally:
        task.cancel()


async def shown(scene: EchoScene, posts: int) -> None:
    """Let time pass until so many posts have come and no change waits."""
    for _ in range(10_000):
        if scene.posts >= posts and not scene.unseen:
            return
        await scene.clock.advance(1)
        await asyncio.sleep(0.001)
    raise AssertionError(f"{scene.posts} of {posts} posts came")


async def settled(scene: EchoScene) -> None:
    """Let enough time pass for two looks."""
    for _ in range(50):
        await asyncio.to_thread(int)
    await scene.clock.advance(61)
    for _ in range(50):
        await asyncio.to_thread(int)


async def test_a_routine_that_a_command_added_is_told_and_undone(scene: EchoScene) -> None:
    await scene.commands(ADD)
    (card,) = scene.cards
    assert card.title == "Routine added: Plan"
    assert card.description == (
        "At 8:30 on Monday through Friday.\n"
        "Next: tomorrow 8:30, Thu 26 Feb 08:30, Fri 27 Feb 08:30."
    )
    assert await scene.undo() == CommandAnswer("Undone. “Plan” is gone again.", is_shown=True)
    assert not (scene.root / FILE).exists()
    (update,) = scene.stores.updates.read().entries
    assert update.message == "Known to the owner: undone: routines/plan.md is gone again."
    assert (await scene.undo()).is_error


@pytest.mark.parametrize(
    ("line", "title", "words"),
    [
        (NOON, "Routine changed: Plan", "Next: today 12:00"),
        ("routine cancel daily", "Routine cancelled: Plan", ""),
        ("reminder snooze call --for 1h", "Reminder moved: Call Bo.", "Due: today 13:00"),
    ],
)
async def test_whatever_a_command_changes_is_told_and_put_back(
    scene: EchoScene, line: str, title: str, words: str
) -> None:
    scene.command(ADD, by="")
    scene.command('reminder add --id call -m "Call Bo." --in 2h', by="")
    before = {path: path.read_text() for path in scene.root.glob("r*/*.md")}
    await scene.commands(line)
    (card,) = scene.cards
    assert card.title == title
    assert words in card.description
    assert {path: path.read_text() for path in scene.root.glob("r*/*.md")} != before
    assert "is as it was before" in (await scene.undo()).text
    assert {path: path.read_text() for path in scene.root.glob("r*/*.md")} == before


async def test_commands_that_read_leave_nothing(scene: EchoScene) -> None:
    scene.command(ADD, by="")
    await scene.commands("routine list", "routine show daily", "reminder list", NOON, NOON)
    assert len(scene.cards) == 1
    assert scene.unseen == []


async def test_what_came_and_went_in_a_turn_is_told_without_an_undo(scene: EchoScene) -> None:
    await scene.commands(ADD, "routine cancel daily")
    (card,) = scene.cards
    assert card.title == "Routine added and cancelled again: Plan"
    assert card.buttons == ()


async def test_tools_and_commands_on_one_file_are_one_card(scene: EchoScene) -> None:
    watch = scene.echo.watch()
    async for event in scene.events(watch, (PATH, routine())):
        if not isinstance(event, TurnEnded) and scene.posts == 1:
            scene.command(NOON)
    (card,) = scene.cards
    assert card.title == "Routine added: Plan"
    assert "Next: today 12:00" in card.description
    await scene.undo()
    assert not (scene.root / PATH).exists()


async def test_what_the_owner_does_in_a_terminal_is_not_told(scene: EchoScene) -> None:
    scene.command(ADD, by="")
    other = ADD.replace("Plan", "Other").replace("daily", "other")
    await scene.commands("routine list", between=other)
    assert scene.cards == []
    assert scene.unseen == []


async def test_an_undo_never_takes_what_the_owner_did_in_between(scene: EchoScene) -> None:
    scene.command(ADD, by="")
    hand = 'routine edit daily --description "By hand"'
    late = 'routine edit daily --cron "0 13 * * *"'
    await scene.commands(NOON, late, between=hand)
    first, second = scene.posted.values()
    assert "was changed since" in (await scene.undo(first)).text
    assert not (await scene.undo(second)).is_error
    text = (scene.root / FILE).read_text()
    assert "By hand" in text
    assert "0 12 * * *" in text


async def test_what_two_runs_change_at_once_is_told_by_each(scene: EchoScene) -> None:
    """A run shows what its own commands did, under its own name."""
    scene.command(ADD_IN_RUN, by=RUN)
    await scene.commands("routine list", by="another")
    assert scene.cards == []
    await scene.commands("routine list", by=RUN, job="Morning mail", in_fork=False)
    assert scene.message.job == "Morning mail"


async def test_a_command_that_was_cut_off_after_its_change_is_told(scene: EchoScene) -> None:
    watch = scene.echo.watch()

    async def events() -> AsyncIterator[AgentEvent]:
        scene.command(ADD)
        yield ToolFailed("1", "it took too long")
        assert len(scene.cards) == 1
        yield TurnEnded(EndCause.COMPLETED)

    async for _ in watch.watching(events()):
        pass
    assert scene.posts == 1


@pytest.mark.parametrize("by", ["conversation", RUN])
async def test_what_a_crash_left_untold_is_told_once_at_the_next_start(
    scene: EchoScene, by: str
) -> None:
    scene.command(ADD_IN_RUN, by=by)
    with looking(scene):
        await shown(scene, 1)
        await settled(scene)
    with looking(scene):
        await settled(scene)
    assert scene.posts == 1
    assert scene.cards[0].title == "Routine added: Plan"
    await scene.undo()
    assert not (scene.root / FILE).exists()


async def test_a_bot_that_dies_between_the_card_and_its_note_shows_one_card(
    scene: EchoScene,
) -> None:
    scene.command(ADD)
    (note,) = scene.unseen
    with looking(scene):
        await shown(scene, 1)
        await settled(scene)
    scene.rows.run(lambda tx: tx.changes.put(note))
    scene.clock = ManualClock(NOW.replace(hour=20), BERLIN)
    with looking(scene):
        await shown(scene, 2)
    assert len(scene.posted) == 1


async def test_a_turn_that_is_watched_tells_its_own(scene: EchoScene) -> None:
    watch = scene.echo.watch()
    scene.command(ADD)

    async def events() -> AsyncIterator[AgentEvent]:
        with looking(scene, scene.echo):
            await settled(scene)
        assert scene.posts == 0
        yield TurnEnded(EndCause.COMPLETED)

    async for _ in watch.watching(events(), in_fork=True):
        pass
    assert scene.message.in_fork


async def test_cards_that_could_not_be_posted_come_later_one_for_each_job(scene: EchoScene) -> None:
    scene.refusals += [WriteFailed(scene.root, "no room"), WriteFailed(scene.root, "no room")]
    await scene.commands(ADD)
    assert scene.cards == []
    with looking(scene):
        await shown(scene, 1)
        scene.command(ADD.replace("daily", "other"))
        await shown(scene, 2)
    assert [card.title for card in scene.cards] == ["Routine added: Plan"] * 2
    first, second = scene.posted.values()
    await scene.undo(first)
    assert not (scene.root / FILE).exists()
    await scene.undo(second)
    assert [*(scene.root / "routines").iterdir()] == []


async def test_where_nothing_can_be_noted_nothing_is_changed(scene: EchoScene) -> None:
    (scene.root / "state" / DATABASE).mkdir()
    with pytest.raises(AssertionError, match="is not a file"):
        scene.command(ADD)
    assert [*(scene.root / "routines").iterdir()] == []


SILENT_RUN = (
    ADD_IN_RUN,
    "routine edit daily -m 'Look here!'",
    "routine cancel daily",
    "reminder add -m 'Look here!' --in 20m",
)


async def test_a_run_that_may_not_ping_shows_no_card_of_what_it_sets(scene: EchoScene) -> None:
    (scene.root / "reminders/mail.md").write_text(MAIL.format(more="allow-ping: false\n"))
    scene.command("reminder add -m 'Call Bo.' --in 1h --id bo", by="")
    await scene.commands(*SILENT_RUN[:3], by=RUN)
    scene.command(SILENT_RUN[3], by=RUN)
    with looking(scene):
        await shown(scene, 0)
    assert scene.posted == {}
    assert "Look here!" in scene.command("reminder list", by="")

    # What is the owner's does not go without a word.
    await scene.commands("reminder cancel bo", by=RUN)
    assert [card.title for card in scene.cards] == ["Reminder cancelled: Call Bo."]

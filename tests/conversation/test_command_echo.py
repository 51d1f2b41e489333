"""The owner sees every job that the agent has changed by a command, and can take it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conversation.echo_scene import BERLIN, NOW, PATH, Stage, routine

from ollim_bot.conversation.jobs.echo import ChangeEcho
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.events import AgentEvent, EndCause, ToolFailed, TurnEnded
from ollim_bot.errors import WriteFailed
from ollim_bot.testing.clock import ManualClock

ADD = 'routine add --id daily -m "Plan the day." --description Plan --cron "30 8 * * 1-5"'
FILE = "routines/plan.md"
NOON = 'routine edit daily --cron "0 12 * * *"'
RUN = "routine:mail:2026-02-24T08:00:00Z"
ADD_IN_RUN = f"{ADD} --background"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "data")


@contextmanager
def looking(stage: Stage, echo: ChangeEcho | None = None) -> Iterator[None]:
    """A bot that has started, and looks for what was left."""
    task = asyncio.create_task((echo or stage.started()).run())
    try:
        yield
    finally:
        task.cancel()


async def shown(stage: Stage, posts: int) -> None:
    """As many posts have come, and nothing waits any more. Time passes."""
    notes = stage.root / "state/unseen_changes"
    for _ in range(10_000):
        if stage.posts >= posts and not any(notes.iterdir()):
            return
        await stage.clock.advance(1)
        await asyncio.sleep(0.001)
    raise AssertionError(f"{stage.posts} of {posts} posts came")


async def settled(stage: Stage) -> None:
    """Time enough to look twice."""
    for _ in range(50):
        await asyncio.to_thread(int)
    await stage.clock.advance(61)
    for _ in range(50):
        await asyncio.to_thread(int)


async def test_a_webhook_of_a_command_is_told_with_its_address_and_powers_and_undone(
    stage: Stage,
) -> None:
    await stage.commands(
        'webhook add "Look at {{title}}." --id ci --pick title=/issue/title --on issues.opened '
        "--auth github --secret-env GITHUB_HOOK_SECRET --no-ping --allowed-tool WebSearch"
    )
    (card,) = stage.cards
    assert card.title == "Webhook added: Look at {{title}}."
    assert card.description == (
        "Address: `http://127.0.0.1:9100/hook/ci`.\n"
        "Opened by: the secret `GITHUB_HOOK_SECRET`, as `github`.\n"
        "Only on: `issues.opened`.\nTakes: `title`.\n"
        "Then: a background run reads the data as untrusted text, and cannot write to you.\n"
        "It may also use: `WebSearch`"
    )
    await stage.commands("webhook edit ci --ping")
    assert stage.cards[-1].title == "Webhook changed: Look at {{title}}."
    await stage.commands("webhook cancel ci")
    assert stage.cards[-1].title == "Webhook cancelled: Look at {{title}}."
    assert [button.label for button in stage.cards[-1].buttons] == ["Undo"]


async def test_a_routine_that_a_command_added_is_told_and_undone(stage: Stage) -> None:
    await stage.commands(ADD)
    (card,) = stage.cards
    assert card.title == "Routine added: Plan"
    assert card.description == (
        "At 08:30 on Monday through Friday.\n"
        "Next: tomorrow 8:30, Thu 26 Feb 08:30, Fri 27 Feb 08:30."
    )
    assert await stage.undo() == CommandAnswer("Undone. “Plan” is gone again.")
    assert not (stage.root / FILE).exists()
    (update,) = stage.stores.updates.read().entries
    assert update.message == "The owner has undone a change: routines/plan.md was removed again."
    assert (await stage.undo()).is_error


@pytest.mark.parametrize(
    ("line", "title", "words"),
    [
        (NOON, "Routine changed: Plan", "Next: today 12:00"),
        ("routine pause daily", "Routine changed: Plan", "It is paused, and does not run."),
        ("routine cancel daily", "Routine cancelled: Plan", ""),
        ("reminder snooze call --for 1h", "Reminder changed: Call Bo.", "Due: today 13:00"),
        ("reminder cancel call", "Reminder cancelled: Call Bo.", ""),
    ],
)
async def test_whatever_a_command_changes_is_told_and_put_back(
    stage: Stage, line: str, title: str, words: str
) -> None:
    stage.command(ADD, by="")
    stage.command('reminder add --id call -m "Call Bo." --in 2h', by="")
    before = {path: path.read_text() for path in stage.root.glob("r*/*.md")}
    await stage.commands(line)
    (card,) = stage.cards
    assert card.title == title
    assert words in card.description
    assert {path: path.read_text() for path in stage.root.glob("r*/*.md")} != before
    assert "is as it was before" in (await stage.undo()).text
    assert {path: path.read_text() for path in stage.root.glob("r*/*.md")} == before


async def test_a_resumed_routine_is_told(stage: Stage) -> None:
    stage.command(f"{ADD} --disabled", by="")
    await stage.commands("routine resume daily")
    assert "Next: tomorrow 8:30" in stage.cards[0].description


async def test_commands_that_read_leave_nothing(stage: Stage) -> None:
    stage.command(ADD, by="")
    await stage.commands("routine list", "routine show daily", "reminder list", NOON, NOON)
    assert len(stage.cards) == 1
    assert [*(stage.root / "state/unseen_changes").iterdir()] == []


async def test_all_that_a_turn_does_to_a_job_is_one_card_and_one_undo(stage: Stage) -> None:
    await stage.commands(ADD, NOON, "routine pause daily")
    (card,) = stage.cards
    assert card.title == "Routine added: Plan"
    assert card.description == "It is paused, and does not run."
    await stage.undo()
    assert not (stage.root / FILE).exists()


async def test_two_jobs_are_two_cards(stage: Stage) -> None:
    await stage.commands(ADD, ADD.replace("daily", "other"))
    assert [card.title for card in stage.cards] == ["Routine added: Plan"] * 2
    first, second = stage.posted.values()
    await stage.undo(first)
    assert not (stage.root / FILE).exists()
    await stage.undo(second)
    assert [*(stage.root / "routines").iterdir()] == []


async def test_what_came_and_went_in_a_turn_is_told_without_an_undo(stage: Stage) -> None:
    await stage.commands(ADD, "routine cancel daily")
    (card,) = stage.cards
    assert card.title == "Routine added and cancelled again: Plan"
    assert card.buttons == ()


async def test_tools_and_commands_on_one_file_are_one_card(stage: Stage) -> None:
    watch = stage.echo.watch()
    async for event in stage.events(watch, (PATH, routine())):
        if not isinstance(event, TurnEnded) and stage.posts == 1:
            stage.command(NOON)
    (card,) = stage.cards
    assert card.title == "Routine added: Plan"
    assert "Next: today 12:00" in card.description
    await stage.undo()
    assert not (stage.root / PATH).exists()


async def test_what_the_owner_does_in_a_terminal_is_not_told(stage: Stage) -> None:
    stage.command(ADD, by="")
    other = ADD.replace("Plan", "Other").replace("daily", "other")
    await stage.commands("routine list", between=other)
    assert stage.cards == []
    assert not (stage.root / "state/unseen_changes").exists()


async def test_an_undo_never_takes_what_the_owner_did_in_between(stage: Stage) -> None:
    stage.command(ADD, by="")
    hand = 'routine edit daily --description "By hand"'
    late = 'routine edit daily --cron "0 13 * * *"'
    await stage.commands(NOON, late, between=hand)
    first, second = stage.posted.values()
    assert (await stage.undo(first)).text == "The file was changed since; nothing was undone."
    assert not (await stage.undo(second)).is_error
    text = (stage.root / FILE).read_text()
    assert "By hand" in text
    assert "0 12 * * *" in text


async def test_what_two_runs_change_at_once_is_told_by_each(stage: Stage) -> None:
    """A run shows what its own commands did, under its own name."""
    stage.command(ADD_IN_RUN, by=RUN)
    await stage.commands("routine list", by="another")
    assert stage.cards == []
    await stage.commands("routine list", by=RUN, job="Morning mail", in_fork=False)
    assert stage.message.job == "Morning mail"


async def test_a_command_that_was_cut_off_after_its_change_is_told(stage: Stage) -> None:
    watch = stage.echo.watch()

    async def events() -> AsyncIterator[AgentEvent]:
        stage.command(ADD)
        yield ToolFailed("1", "it took too long")
        assert len(stage.cards) == 1
        yield TurnEnded(EndCause.COMPLETED)

    async for _ in watch.watching(events()):
        pass
    assert stage.posts == 1


@pytest.mark.parametrize("by", ["conversation", RUN])
async def test_what_nobody_lived_to_tell_is_told_once_at_the_next_start(
    stage: Stage, by: str
) -> None:
    stage.command(ADD_IN_RUN, by=by)
    with looking(stage):
        await shown(stage, 1)
        await settled(stage)
    with looking(stage):
        await settled(stage)
    assert stage.posts == 1
    assert stage.cards[0].title == "Routine added: Plan"
    await stage.undo()
    assert not (stage.root / FILE).exists()


async def test_a_bot_that_dies_between_the_card_and_its_note_shows_one_card(stage: Stage) -> None:
    stage.command(ADD)
    notes = stage.root / "state/unseen_changes"
    (note,) = notes.iterdir()
    text = note.read_bytes()
    with looking(stage):
        await shown(stage, 1)
        await settled(stage)
    note.write_bytes(text)
    stage.clock = ManualClock(NOW.replace(hour=20), BERLIN)
    with looking(stage):
        await shown(stage, 2)
    assert len(stage.posted) == 1


async def test_what_goes_on_after_its_turn_is_told_soon(stage: Stage) -> None:
    with looking(stage):
        await settled(stage)
        stage.command(ADD)
        await shown(stage, 1)


async def test_a_turn_that_is_watched_tells_its_own(stage: Stage) -> None:
    watch = stage.echo.watch()
    stage.command(ADD)

    async def events() -> AsyncIterator[AgentEvent]:
        with looking(stage, stage.echo):
            await settled(stage)
        assert stage.posts == 0
        yield TurnEnded(EndCause.COMPLETED)

    async for _ in watch.watching(events(), in_fork=True):
        pass
    assert stage.message.in_fork


async def test_a_card_that_could_not_be_posted_comes_later(stage: Stage) -> None:
    stage.refusals += [WriteFailed(stage.root, "no room"), WriteFailed(stage.root, "no room")]
    await stage.commands(ADD)
    assert stage.cards == []
    with looking(stage):
        await shown(stage, 1)


async def test_where_nothing_can_be_noted_nothing_is_changed(stage: Stage) -> None:
    (stage.root / "state/unseen_changes").write_text("in the way")
    with pytest.raises(AssertionError, match="could not be"):
        stage.command(ADD)
    assert [*(stage.root / "routines").iterdir()] == []

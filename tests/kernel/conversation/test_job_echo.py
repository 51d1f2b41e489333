"""The owner sees every job that the agent has written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.kernel.conversation.echo_scene import PATH, EchoScene, refuse_marked_calls, routine

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.values.cards import Card, CardField
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    TextStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import ToolCall


@pytest.fixture
def scene(tmp_path: Path) -> EchoScene:
    return EchoScene(tmp_path / "data")


async def test_a_new_routine_is_told_with_its_next_three_moments(scene: EchoScene) -> None:
    await scene.turn((PATH, routine()))
    (card,) = scene.cards
    assert card.title == "Routine added: Plan"
    assert card.description == (
        "At 8:30 on Monday through Friday.\n"
        "Next: tomorrow 8:30, Thu 26 Feb 08:30, Fri 27 Feb 08:30."
    )
    assert [button.label for button in card.buttons] == ["Undo"]
    assert len(card.buttons[0].custom_id) <= 100
    assert card.problems() == []
    assert scene.message.author is Author.PROGRAM
    assert scene.message.text == card.text
    assert scene.posts == 1


async def test_a_reminder_for_a_quiet_moment_says_so_and_can_be_moved(scene: EchoScene) -> None:
    scene.stores.state.run(
        lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", "22:00-07:00"))
    )
    at = "2026-02-24T23:30:00+01:00"
    await scene.turn(("reminders/call.md", f'---\nid: call\nrun-at: "{at}"\n---\nCall mum.\n'))
    (card,) = scene.cards
    assert card.description.endswith(", in your quiet hours.")
    assert [button.label for button in card.buttons] == ["Move to 7:00", "Undo"]


async def test_the_first_reminder_says_if_only_the_page_can_show_it(scene: EchoScene) -> None:
    text = '---\nid: call\nrun-at: "2026-02-24T23:30:00+01:00"\n---\nCall mum.\n'
    tabs = SimpleNamespace(is_in_view=True, may_notify=False)
    scene.echo = replace(
        scene.echo,
        reach=Reach(page=tabs),
        reminders=open_repositories(DataPaths(scene.root), scene.journal).reminders,
    )
    for name in ("first", "second"):
        await scene.turn((f"reminders/{name}.md", text.replace("call", name)))
    assert [ONLY_HERE in card.description for card in scene.cards] == [True, False]


async def test_the_moments_are_in_the_owners_zone_whatever_the_jobs_is(scene: EchoScene) -> None:
    await scene.turn((PATH, routine("timezone: Asia/Tokyo", cron="0 9 * * *")))
    assert scene.cards[0].description == (
        "At 9:00 every day (Asia/Tokyo).\nNext: tomorrow 1:00, Thu 26 Feb 01:00, Fri 27 Feb 01:00."
    )


@pytest.mark.parametrize(
    ("path", "text", "title", "line"),
    [
        (PATH, routine("enabled: false"), "Routine added: Plan", "It is paused, and does not run."),
        (
            "reminders/call.md",
            "---\nid: r1\nrun-at: 2026-02-25T09:00\n---\nCall the dentist.\n",
            "Reminder added: Call the dentist.",
            "Due: tomorrow 9:00 (in 23 h).",
        ),
        (
            "reminders/call.md",
            "---\nid: r1\nrun-at: 2026-02-24T09:30\n---\nCall.\n",
            "Reminder added: Call.",
            "Was due: today 9:30 (30 min ago).",
        ),
        (
            "webhooks/ci.md",
            "---\nid: ci\nfields: {type: object}\n---\nLook.\n",
            "Webhook added: Look.",
            (
                "Address: `http://127.0.0.1:9100/hook/ci`.\n"
                "Opened by: the secret `WEBHOOK_SECRET`.\nTakes: no data.\n"
                "Then: a background run reads the data as untrusted text, and may write to you."
            ),
        ),
    ],
)
async def test_each_kind_of_job_is_told_in_its_words(
    scene: EchoScene, path: str, text: str, title: str, line: str
) -> None:
    await scene.turn((path, text))
    (card,) = scene.cards
    assert (card.title, card.description) == (title, line)


@pytest.mark.parametrize(
    ("background", "tools"),
    [("true", "\nIt may also use: `Read(./a.md)`, `WebSearch`"), ("false", "")],
)
async def test_the_skills_of_a_job_are_named_with_the_tools_that_they_add(
    scene: EchoScene, background: str, tools: str
) -> None:
    skill = scene.root / "skills/mail/SKILL.md"
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("---\nname: mail\ndescription: x\nallowed-tools: [WebSearch]\n---\nRead.\n")
    own = ['allowed-tools: ["Read(./a.md)"]'] if tools else []
    await scene.turn((PATH, routine(f"background: {background}", "skills: [mail]", *own)))
    assert scene.cards[0].description.endswith(f"Skills: `mail`{tools}")


async def test_nothing_is_told_where_no_job_was_changed(scene: EchoScene) -> None:
    (scene.root / PATH).write_text(routine())
    await scene.turn(
        (PATH, routine()),
        ("notes/plan.md", routine()),
        ("routines/refused.md", routine()),
        ("routines/wrong.md", "no job"),
    )
    assert scene.cards == []


async def test_a_call_that_failed_is_not_told(scene: EchoScene) -> None:
    watch = scene.echo.watch()
    await watch.noting(refuse_marked_calls)(
        ToolCall("Write", {"file_path": PATH, "content": routine()})
    )

    async def events() -> AsyncIterator[AgentEvent]:
        yield ToolFailed("1", "the file has not been read")
        yield TurnEnded(EndCause.COMPLETED)

    assert len([event async for event in watch.watching(events())]) == 2
    assert scene.cards == []


async def test_what_the_owner_wrote_after_a_refusal_is_not_told(scene: EchoScene) -> None:
    events = scene.events(scene.echo.watch(), ("routines/refused.md", routine()))
    async for event in events:
        if isinstance(event, ToolRefused):
            (scene.root / "routines/refused.md").write_text(routine())
    assert scene.cards == []


async def test_all_that_a_turn_does_to_a_job_is_one_card_and_one_undo(scene: EchoScene) -> None:
    """A card that could not be posted at the first write is posted at the end of the turn."""
    (scene.root / PATH).write_text(routine())
    scene.refusals.append(WriteFailed(scene.root, "could not be written."))
    await scene.turn(
        (PATH, routine(cron="0 11 * * *")),
        (PATH, routine(cron="0 12 * * *")),
        job="Morning mail",
        in_fork=True,
    )
    (card,) = scene.cards
    assert (scene.message.job, scene.message.in_fork) == ("Morning mail", True)
    assert card.title == "Routine changed: Plan"
    assert "today 12:00" in card.description
    assert (await scene.undo()).text == "Undone. “Plan” is as it was before."
    assert (scene.root / PATH).read_text() == routine()


async def test_undo_takes_a_new_job_away_once_even_after_a_restart(scene: EchoScene) -> None:
    await scene.turn((PATH, routine()))
    answer = await scene.undo()
    assert answer == CommandAnswer("Undone. “Plan” is gone again.", is_shown=True)
    assert scene.cards == [Card("Undone. “Plan” is gone again.")]
    assert not (scene.root / PATH).exists()
    assert scene.journal.messages == ["undo: routines/daily.md"]
    (update,) = scene.stores.updates.read().entries
    assert update.message == "Known to the owner: undone: routines/daily.md is gone again."
    (scene.root / PATH).write_text(routine())
    again = await scene.undo()
    assert again.is_error
    assert "undone before" in again.text
    assert (scene.root / PATH).exists()


@pytest.mark.parametrize("is_removed", [True, False])
async def test_undo_leaves_alone_what_was_changed_since(scene: EchoScene, is_removed: bool) -> None:
    path = scene.root / PATH
    path.write_text(routine(body="At first."))
    await scene.turn((PATH, routine()))
    if is_removed:
        path.unlink()
    else:
        path.write_text(routine(body="By hand."))
    answer = await scene.undo()
    assert answer.is_error
    assert "was changed since" in answer.text
    assert path.exists() is not is_removed
    assert scene.stores.updates.read().entries == ()


async def test_the_card_is_there_before_the_tool_is_said_to_have_ended(scene: EchoScene) -> None:
    events = scene.events(scene.echo.watch(), (PATH, routine()))
    seen = [(type(event), len(scene.cards)) async for event in events]
    assert seen == [(ToolStarted, 0), (ToolEnded, 1), (TurnEnded, 1)]


async def test_what_a_subagent_wrote_is_told_when_the_turn_ends(scene: EchoScene) -> None:
    """The calls of a subagent pass the gate, but cause no events."""
    watch = scene.echo.watch()
    gate = watch.noting(refuse_marked_calls)

    async def events() -> AsyncIterator[AgentEvent]:
        await gate(ToolCall("Write", {"file_path": PATH, "content": ""}, subagent="helper"))
        (scene.root / PATH).write_text(routine())
        yield TextStreamed("Done.")
        yield TurnEnded(EndCause.COMPLETED)

    async for _ in watch.watching(events()):
        pass
    assert [card.title for card in scene.cards] == ["Routine added: Plan"]


async def test_what_was_written_before_a_run_was_cut_off_is_told(scene: EchoScene) -> None:
    watch = scene.echo.watch()
    gate = watch.noting(refuse_marked_calls)
    has_written = asyncio.Event()

    async def events() -> AsyncIterator[AgentEvent]:
        await gate(ToolCall("Write", {"file_path": PATH, "content": ""}))
        (scene.root / PATH).write_text(routine())
        has_written.set()
        await asyncio.Event().wait()
        yield TurnEnded(EndCause.COMPLETED)

    async def run() -> None:
        async for _ in watch.watching(events()):
            pass

    task = asyncio.create_task(run())
    await asyncio.wait_for(has_written.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(scene.cards) == 1


async def test_on_a_full_disk_a_job_is_told_without_an_undo(tmp_path: Path) -> None:
    scene = EchoScene(tmp_path / "data", is_full=True)
    await scene.turn((PATH, routine()))
    (card,) = scene.cards
    assert card.title == "Routine added: Plan"
    assert card.buttons == ()


async def test_a_change_names_what_was_read_in_the_day_before(scene: EchoScene) -> None:
    main, read = SessionId("main"), ("web page", "picture")
    scene.stores.state.run(lambda tx: tx.marks.read(main, read, in_turn=True))
    scene.stores.state.run(lambda tx: tx.marks.end(main))
    await scene.turn((PATH, routine()), ("USER.md", "Ada likes tea."))
    assert [card.fields for card in scene.cards] == [
        (CardField("Read before", "a web page and a picture"),)
    ] * 2
    await scene.clock.advance(timedelta(hours=24).total_seconds())
    scene.posted.clear()
    await scene.turn((PATH, routine(body="Another plan.")))
    assert scene.cards[0].fields == ()

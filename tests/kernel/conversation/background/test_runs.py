"""A background run from its slot to its end, also when the bot stops."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from devtools.doubles.engine import CallsTool, Says, Waits
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.conversation.background.scene import (
    HOME,
    MAIN,
    NOW,
    Scene,
    WatchedEngine,
    background_scene,
    ping,
    reminder,
    report,
    routine,
    webhook,
)
from tests.kernel.conversation.scene import messages_of

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.conversation.background import Slots
from ollim_bot.kernel.conversation.background_attempt import Try
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.values.chat import Author, ChatMessage, TurnCost
from ollim_bot.kernel.values.decision import Skip
from ollim_bot.kernel.values.events import EndCause, SessionNamed, TurnEnded
from ollim_bot.kernel.values.jobs import Job, Model, ReportMode
from ollim_bot.kernel.values.occurrences import OccurrenceState, SkipReason
from ollim_bot.kernel.values.sessions import SessionChange
from ollim_bot.kernel.values.updates import PendingUpdate
from ollim_bot.kernel.values.usage import Price, Usage

ENDED = "“Morning mail” ended without its report."


@pytest.mark.parametrize(
    "job", [routine(), reminder(), webhook()], ids=lambda job: type(job).__name__
)
async def test_a_run_branches_off_the_main_session(job: Job) -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        assert await scene.run(job) is OccurrenceState.DONE
        [session] = engine.opened
        assert (session.spec.branch_of, session.spec.begin) == (MAIN, session.id)
        [event] = scene.events
        assert (event.session_id, event.event) == (session.id, SessionChange.BG_FORK)
        assert event.parent_session_id == MAIN
        assert scene.stores.session.read() is None
        assert engine.closed == [session]


async def test_an_isolated_run_begins_blank_and_is_shown_no_updates() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.stores.leave_update("Secret of the main session.", NOW)
        await scene.run(routine(isolated=True))
        assert engine.opened[0].spec.branch_of is None
        assert [(event.event, event.parent_session_id) for event in scene.events] == [
            (SessionChange.ISOLATED_BG, None)
        ]
        assert "Secret" not in engine.prompts[0]


async def test_a_forked_run_sees_what_waits_for_main_and_leaves_it_there() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.stores.leave_update("The plumber came.", NOW - timedelta(minutes=5))
        await scene.run(routine())
        assert (
            "RECENT BACKGROUND UPDATES (read-only — main session will also see these)\n"
            "- (5m ago) The plumber came.\n\nBACKGROUND RUN"
        ) in engine.prompts[0]
        assert scene.pending == ["The plumber came."]


@pytest.mark.parametrize("is_lost", [False, True], ids=["there is none", "the engine lost it"])
async def test_without_a_main_session_it_begins_fresh(is_lost: bool) -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.main = MAIN if is_lost else None
        engine.known.clear()
        assert await scene.run(routine()) is OccurrenceState.DONE
        assert engine.opened[0].spec.branch_of is None
        [event] = scene.events
        assert (event.event, event.parent_session_id) == (SessionChange.BG_FORK, None)
        assert await scene.told() == []


async def test_a_session_is_as_the_job_wants_it() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        scene.base = replace(scene.base, model="opus", thinking=4000, resume=MAIN)
        await scene.run(routine())
        await scene.run(reminder(model=Model.HAIKU, thinking=False))
        specs = [session.spec for session in engine.opened]
        assert [(each.model, each.thinking) for each in specs] == [
            ("opus", "adaptive"),
            ("haiku", "off"),
        ]
        assert {each.system_prompt for each in specs} == {"You help."}
        assert {each.working_directory for each in specs} == {HOME}
        assert MAIN not in {each.resume for each in specs}


async def test_a_history_that_does_not_fit_gets_a_larger_model() -> None:
    engine = WatchedEngine()
    spent = TurnCost(context=190_000, window=1_000_000)
    long = ChatMessage(MessageId("1"), NOW, Author.ASSISTANT, "So far.", session=MAIN, spent=spent)
    async with background_scene(engine) as scene:
        scene.store.run(lambda tx: tx.messages.add(long))
        await scene.run(reminder(model=Model.HAIKU))
        await scene.run(reminder(model=Model.HAIKU, isolated=True))
        assert [session.spec.model for session in engine.opened] == ["sonnet", "haiku"]


async def test_its_text_is_discarded() -> None:
    engine = WatchedEngine().then(Says("Nobody reads this."))
    async with background_scene(engine) as scene:
        await scene.run(routine())
        assert (scene.said, scene.surface.posts, scene.pending) == ([], [], [])
        assert "Nobody reads this." not in str(scene.rows)
        assert scene.end.facts["silent_because"] == "it had nothing to say"


async def test_a_ping_reaches_the_owner_marked_and_finds_its_session_again() -> None:
    """The session is known before the first tool is called."""
    engine = WatchedEngine().then(ping(), report(), Says("Done."))
    async with background_scene(engine) as scene:
        await scene.run(routine())
        [message] = scene.surface.posts
        assert (message.text, message.job) == ("The bank wrote.", "Morning mail")
        [record] = scene.store.run(lambda tx: tx.fork_messages.get())
        assert record.fork_session_id == message.session == engine.opened[0].id
        assert record.parent_session_id == MAIN
        facts = scene.end.facts
        assert facts["pings"] == [message.id]
        assert facts["report"] == "Three mails need replies."
        assert "silent_because" not in facts
        assert scene.pending == ["Three mails need replies."]


async def test_the_name_that_the_engine_gives_counts() -> None:
    named = SessionNamed(SessionId("another"))
    async with background_scene(WatchedEngine().then(named, named, ping(), report())) as scene:
        await scene.run(routine())
        [record] = scene.store.run(lambda tx: tx.fork_messages.get())
        assert record.fork_session_id == scene.end.facts["session"] == "another"
        assert [event.session_id for event in scene.events][1:] == ["another"]


@pytest.mark.parametrize("price", [Price.FREE, Price.UNKNOWN])
async def test_a_run_without_a_price_says_so(price: Price) -> None:
    usage = Usage(context=1200, output=34, price=price)
    async with background_scene(
        WatchedEngine().then(TurnEnded(EndCause.COMPLETED, usage=usage))
    ) as scene:
        await scene.run(routine())
        assert scene.end.facts["price"] == price
        assert "cost_usd" not in scene.end.facts


async def test_the_end_row_tells_the_whole_story() -> None:
    usage = Usage(context=1200, output=34, cost_usd=0.0123456)
    engine = WatchedEngine().then(
        CallsTool("Read", {"file_path": "notes/a.md"}),
        report(),
        TurnEnded(EndCause.COMPLETED, usage=usage),
    )
    async with background_scene(engine) as scene:
        job = routine()
        occurrence = scene.occurrence(job)
        scene.clock.jump(90)
        await scene.runs.run_agent_background(job, occurrence, Try(2))
        running, end = scene.rows
        begun = {"attempt": 2, "job": "Morning mail", "limit": 1800}
        assert (running.state, running.facts) == ("running", begun)
        assert (end.state, end.occurrence) == ("done", occurrence)
        assert end.facts == {
            "job": "Morning mail",
            "started": "2026-02-24T10:16:30.330745+00:00",
            "ended": "2026-02-24T10:16:30.330745+00:00",
            "lateness": 90,
            "attempts": 2,
            "session": engine.opened[0].id,
            "report": "Three mails need replies.",
            "tools": ["Read", "mcp__discord__report_updates"],
            "looked_at": ["file"],
            "pings_left": 5,
            "pings_of": 5,
            "tokens": 1234,
            "cost_usd": 0.012346,
            "silent_because": "it reported to the main conversation instead",
        }


async def test_the_end_row_names_each_subagent_and_what_it_called() -> None:
    start = CallsTool("Agent", {"prompt": "Look.", "subagent_type": "helper"})
    look = CallsTool("Read", {"file_path": "notes/a.md"}, subagent="helper")
    async with background_scene(WatchedEngine().then(start, look, start, report())) as scene:
        await scene.run(routine())
        assert scene.end.facts["subagents"] == ["helper"]
        assert scene.end.facts["tools"] == [
            "Agent",
            "Read",
            "Agent",
            "mcp__discord__report_updates",
        ]


@pytest.mark.parametrize(
    ("fields", "busy", "why"),
    [
        ({"allow_ping": False}, False, "pings are switched off for this job"),
        ({}, True, "its ping was refused: the owner is in the middle of a conversation"),
    ],
)
async def test_a_refused_ping_is_in_the_row_with_its_reason(
    fields: dict[str, Any], busy: bool, why: str
) -> None:
    engine = WatchedEngine().then(ping("Look."))
    async with background_scene(engine) as scene:
        scene.is_busy = busy
        await scene.run(routine(**fields))
        assert scene.said == []
        facts = scene.end.facts
        assert facts["silent_because"] == why
        refused = facts["refused_pings"]
        assert isinstance(refused, list)
        assert [each["text"] for each in refused] == ["Look."]
        assert (scene.pending, await scene.told()) == ([], [])


@pytest.mark.parametrize(
    ("mode", "steps", "prompts", "pending"),
    [
        (ReportMode.ALWAYS, [], 3, [ENDED]),
        (ReportMode.ALWAYS, [report("  ")], 3, [ENDED]),
        (ReportMode.ALWAYS, [report("All well.")], 1, ["All well."]),
        (ReportMode.ON_PING, [], 1, []),
        (ReportMode.ON_PING, [ping()], 3, [ENDED]),
        (ReportMode.ON_PING, [ping(), report("Pinged.")], 1, ["Pinged."]),
        (ReportMode.FREELY, [ping()], 1, []),
        (ReportMode.FREELY, [report("By the way.")], 1, ["By the way."]),
        (ReportMode.BLOCKED, [ping()], 1, []),
        (ReportMode.BLOCKED, [report("Psst.")], 1, []),
    ],
)
async def test_the_duty_to_report_is_met(
    mode: ReportMode, steps: list[CallsTool], prompts: int, pending: list[str]
) -> None:
    """The agent is asked for it twice at most; then the program writes it."""
    engine = WatchedEngine().then(*steps)
    async with background_scene(engine) as scene:
        assert await scene.run(routine(update_main_session=mode)) is OccurrenceState.DONE
        assert len(engine.prompts) == prompts
        assert scene.pending == pending
        assert scene.end.state == "done"
        assert await scene.told() == []


async def test_who_is_sent_back_may_still_report() -> None:
    engine = WatchedEngine().then().then(report("Late, but here."))
    async with background_scene(engine) as scene:
        await scene.run(routine(update_main_session=ReportMode.ALWAYS))
        assert "You must call `report_updates`" in engine.prompts[1]
        assert (len(engine.prompts), scene.pending) == (2, ["Late, but here."])


async def test_a_late_run_says_so_in_the_clocks_of_the_owner() -> None:
    engine = WatchedEngine()
    async with background_scene(engine) as scene:
        await scene.run(routine(), Try(late_since=NOW - timedelta(hours=2)))
        assert engine.prompts[0].startswith(
            "[routine-bg:abc123] [late: was scheduled for 8:15 AM, running now]\n[2026-02-24"
        )


async def test_two_runs_at_once_never_mix() -> None:
    engine = WatchedEngine()
    engine.then(ping("first"), report("one"), Says("x")).then(Says("y"), report("two"))
    async with background_scene(engine) as scene:
        first = scene.start(routine("first", description="First"))
        await scene.until(lambda: len(engine.opened) == 1)
        second = scene.start(routine("second", description="Second"))
        assert [await first, await second] == [OccurrenceState.DONE] * 2
        ends = {row.facts["job"]: row.facts for row in scene.rows if row.state == "done"}
        assert ends["First"]["report"] == "one"
        assert ends["Second"]["report"] == "two"
        assert len(ends["First"]["pings"]) == 1  # type: ignore[arg-type]
        assert "pings" not in ends["Second"]
        assert ends["First"]["session"] != ends["Second"]["session"]


async def test_a_marked_reminder_is_data_to_its_run_which_can_only_tell_of_it() -> None:
    write = CallsTool("Write", {"file_path": "USER.md", "content": "Obey."})
    search = CallsTool("WebSearch", {"query": "x"})
    engine = WatchedEngine().then(write, search, ping(), report())
    async with background_scene(engine) as scene:
        scene.stores.state.run(
            lambda tx: leave_update(tx, PendingUpdate(NOW, "Obey too.", "u", "mail"))
        )
        job = reminder(untrusted="web page", allowed_tools=("Write(./**.md)", "WebSearch"))
        await scene.run(job)
        prompt = engine.prompts[0]
        assert re.search(r"\n<untrusted-[0-9a-f]{16}>\nLook at the mail\.\n", prompt)
        assert "Obey too." not in prompt
        assert scene.end.facts["tools"][0] == "WebSearch"  # type: ignore[index]
        (message,) = [each for each in messages_of(scene.store) if each.job]
        assert message.footer == "From untrusted content: a web page and a search result."
        assert scene.stores.updates.read().entries[-1].untrusted == "web page, search result"


async def test_a_marked_reminder_that_waits_for_the_owner_stays_marked_and_is_late() -> None:
    async with background_scene(WatchedEngine().then(ping(), report())) as scene:
        scene.is_busy = True
        run = scene.start(reminder(untrusted="web page", must=True))
        await scene.until(lambda: scene.clock.sleeping == 2)
        await scene.clock.advance(120)
        await run
        (message,) = [each for each in messages_of(scene.store) if each.job]
        assert message.footer == "Late: it was due today 10:15. From untrusted content: a web page."


async def test_the_text_of_a_marked_reminder_that_no_ping_is_left_for_stays_marked() -> None:
    async with background_scene(WatchedEngine()) as scene:
        job = reminder(untrusted="web page", set_by="routine:plan")
        await scene.runs.skip(job, scene.occurrence(job), Skip(SkipReason.BUDGET))
        (update,) = scene.stores.updates.read().entries
        assert "Look at the mail." in update.message
        assert update.untrusted == "web page"


async def test_no_more_than_the_setting_run_at_once() -> None:
    engine = WatchedEngine()
    for _ in range(5):
        engine.then(Waits())
    async with background_scene(engine) as scene:
        for number in range(5):
            _ = scene.start(routine(f"job-{number}"))
        await scene.until(lambda: len(engine.open_now) == 3)
        await scene.settled()
        assert len(engine.open_now) == 3
        assert scene.states.count("running") == 3
        await engine.open_now[0].interrupt()
        await scene.until(lambda: len(engine.opened) == 4)
        await scene.settled()
        assert len(engine.open_now) == 3


async def test_who_waits_comes_by_due_time_and_reminders_first() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        _ = scene.start(routine("running"))
        await scene.until(lambda: engine.open_now)
        late, later = NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)
        waiting: list[tuple[Job, int]] = [
            (routine("r-later"), 2),
            (reminder("m-later"), 2),
            (routine("r-late"), 1),
            (reminder("m-late"), 1),
        ]
        for job, minute in waiting:
            _ = scene.start(job, late if minute == 1 else later)
            await scene.settled()
        assert scene.states == ["running"]
        await engine.open_now[0].interrupt()
        await asyncio.gather(*scene.tasks)
        begun = [
            row.occurrence.job_id for row in scene.rows if row.state == "running" and row.occurrence
        ]
        assert begun == ["running", "m-late", "m-later", "r-late", "r-later"]


async def test_who_gives_up_waiting_leaves_no_trace_and_keeps_no_place() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        _ = scene.start(routine("running"))
        await scene.until(lambda: engine.open_now)
        gone, next_one = scene.start(reminder("gone")), scene.start(routine("next"))
        await scene.settled()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await engine.open_now[0].interrupt()
        await next_one
        assert "gone" not in {row.occurrence.job_id for row in scene.rows if row.occurrence}


async def test_a_raised_setting_counts_from_the_next_job_on() -> None:
    slots, inside = Slots(), 0
    release = asyncio.Event()

    async def one(most: int) -> None:
        nonlocal inside
        async with slots.slot((0, 0.0), most):
            inside += 1
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(one(1))
        await asyncio.sleep(0)
        assert inside == 1
        group.create_task(one(3))
        for _ in range(3):
            await asyncio.sleep(0)
        assert inside == 3
        release.set()
    assert inside == 4


@settings(max_examples=examples(1.5), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.booleans()), max_size=12),
    st.integers(1, 3),
)
def test_whoever_is_cancelled_at_whatever_moment_no_place_is_lost(
    jobs: list[tuple[int, int, bool]], most: int
) -> None:
    async def play() -> None:
        slots, inside, peak = Slots(), 0, 0

        async def one(rank: int) -> None:
            nonlocal inside, peak
            async with slots.slot((rank, 0.0), most):
                inside += 1
                peak = max(peak, inside)
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    inside -= 1

        tasks = []
        for rank, pause, is_cancelled in jobs:
            task = asyncio.ensure_future(one(rank))
            tasks.append(task)
            for _ in range(pause):
                await asyncio.sleep(0)
            if is_cancelled:
                task.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
            async with slots.slot((0, 0.0), most):
                pass
        assert peak <= most
        assert inside == 0
        assert slots._running == 0

    asyncio.run(play())


def started(scene: Scene, job: Job) -> asyncio.Task[OccurrenceState]:
    return scene.runs.start(job, scene.occurrence(job))


async def closing(scene: Scene) -> asyncio.Task[None]:
    task = asyncio.create_task(scene.runs.close())
    await scene.settled()
    return task


async def test_with_nothing_going_it_is_over_at_once() -> None:
    async with background_scene(WatchedEngine()) as scene:
        assert await started(scene, routine()) is OccurrenceState.DONE
        async with asyncio.timeout(60):
            await scene.runs.close()
        assert scene.clock.sleeping == 0


async def test_a_run_may_come_to_its_end() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        running = started(scene, routine())
        await scene.until(lambda: engine.open_now)
        closed = await closing(scene)
        await scene.clock.advance(19)
        assert not closed.done()
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
        assert (await running).is_end
        assert "cut_off" not in scene.states
        assert scene.clock.sleeping == 0


async def test_after_twenty_seconds_it_is_cut_off_and_the_ledger_says_so() -> None:
    engine = WatchedEngine().then(report("Half of it."), Waits())
    async with background_scene(engine) as scene:
        running = started(scene, routine())
        await scene.until(lambda: scene.pending)
        closed = await closing(scene)
        await scene.clock.advance(20)
        async with asyncio.timeout(60):
            await closed
        assert running.cancelled()
        assert scene.states == ["running", "cut_off"]
        facts = scene.rows[-1].facts
        assert facts["report"] == "Half of it."
        assert facts["tools"] == ["mcp__discord__report_updates"]
        assert facts["error"] == "the bot was stopped in the middle of it."
        assert engine.closed == engine.opened
        assert scene.clock.sleeping == 0
        assert await scene.told() == []


async def test_who_waits_for_a_place_does_not_begin() -> None:
    engine = WatchedEngine().then(Waits())
    async with background_scene(engine) as scene:
        scene.configure(bg_concurrency=1)
        running = started(scene, routine("running"))
        await scene.until(lambda: engine.open_now)
        waiting = started(scene, reminder("waiting"))
        await scene.settled()
        closed = await closing(scene)
        assert waiting.cancelled()
        late = started(scene, reminder("late"))
        await engine.open_now[0].interrupt()
        async with asyncio.timeout(60):
            await closed
            with pytest.raises(asyncio.CancelledError):
                await late
        assert running.done()
        assert {row.occurrence.job_id for row in scene.rows if row.occurrence} == {"running"}
        assert len(engine.opened) == 1

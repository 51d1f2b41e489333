"""Jobs of the main conversation: in order with what the owner says, and written down once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from tests.kernel.conversation.forks.fork_scene import ForkScene
from tests.kernel.conversation.scene import NOW, Scene, scene, scripted

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.events import EndCause, FailureKind, TurnEnded
from ollim_bot.kernel.values.jobs import Chain, Job, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState
from ollim_bot.kernel.values.ports import Trace
from ollim_bot.kernel.values.run_words import outcome
from ollim_bot.kernel.values.usage import Usage, cost_of

PLAN = Routine(JobSpec(id="plan", message="What is the one thing?"), Cron.parse("0 9 * * *"))
FOLLOW_UP = CallsTool("mcp__discord__follow_up_chain", {"minutes_from_now": 20})


def occurrence(job: Job = PLAN) -> Occurrence:
    return Occurrence.scheduled(job.kind, job.spec.id, NOW)


def fired(
    at: Scene, job: Job = PLAN, late: timedelta | None = None
) -> asyncio.Task[OccurrenceState]:
    since = None if late is None else at.clock.now() - late
    return asyncio.create_task(at.talk.foreground.run(job, occurrence(job), late_since=since))


def states(at: Scene) -> list[str]:
    return [row.state for row in at.stores.ledger.read().entries]


async def test_it_is_a_turn_of_the_main_conversation() -> None:
    async with scene(engine := scripted("Hello.", "Write the report.")) as at:
        await at.ask("hi")
        assert await fired(at) is OccurrenceState.DONE
        assert engine.prompts[-1].startswith("[routine:plan]\n[2026-02-24 Tue 10:15 AM UTC]")
        assert engine.prompts[-1].endswith("\n\nWhat is the one thing?")
        assert len(engine.opened) == 1
        assert at.answers[-1].text == "Write the report."
        assert at.answers[-1].footer == "", "it is on time"
        assert states(at) == ["running", "done"]
        facts = at.stores.ledger.read().entries[-1].facts
        assert outcome(facts) == "spoke in the conversation"
        assert "silent_because" not in facts


async def test_its_cost_stands_in_its_row_and_counts_once() -> None:
    first, second = (Usage(context=1000, cost_usd=total) for total in (0.25, 0.75))
    engine = ScriptedEngine().then(TurnEnded(EndCause.COMPLETED, "Hello.", usage=first))
    async with scene(engine.then(TurnEnded(EndCause.COMPLETED, "Now.", usage=second))) as at:
        await at.ask("hi")
        await fired(at)
        assert at.stores.ledger.read().entries[-1].facts["cost_usd"] == 0.5
        spent = at.store.run(lambda tx: tx.usage.since(NOW))
        assert [(row.kind, row.micros) for row in spent] == [("turn", 250_000), ("turn", 500_000)]
        assert cost_of(spent) == 0.75


async def test_it_takes_the_updates_that_wait_and_says_how_late_it_is() -> None:
    async with scene(engine := scripted("Done.", "Hello.")) as at:
        at.stores.leave_update("3 mails.", NOW)
        await fired(at, late=timedelta(minutes=75))
        first = "[routine:plan] [late: was scheduled for 9:00 AM, running now]"
        assert engine.prompts[-1].startswith(first)
        assert "- (just now) 3 mails." in engine.prompts[-1]
        assert at.pending == []
        assert at.answers[-1].footer == (
            "Late: it was due today 9:00. catching up on background activity..."
        )
        await at.ask("hi")
        assert at.answers[-1].footer == "", "the next answer is not late"


async def test_it_becomes_late_while_it_waits_in_line() -> None:
    async with scene(engine := scripted("Rome.", "Bye.", "Write the report.")) as at:
        forks = ForkScene(at)
        await forks.enter("Rome")
        running = fired(at)
        await at.clock.advance(300)
        await at.ask("that is all")
        assert not running.done()
        await forks.press("Leave it")
        assert await running is OccurrenceState.DONE
        assert at.answers[-1].session == forks.main
        assert "[late: was scheduled for 10:15 AM, running now]" in engine.prompts[-1]
        assert at.answers[-1].footer == "Late: it was due today 10:15."


async def test_its_answer_is_called_late_also_if_a_crash_came_before_it_was_posted() -> None:
    engine = ScriptedEngine().then(Says("Planned."), Waits())
    async with scene(engine) as at:
        running = fired(at, late=timedelta(minutes=75))
        await at.until(lambda: engine.traces)
        running.cancel()
    whole = Trace(is_taken=True, is_complete=True, answer="Planned.")
    engine.traces = dict.fromkeys(engine.traces, whole)
    async with scene(engine, stores=at.stores) as again:
        await again.quiet()
        assert len(engine.prompts) == 1
        assert again.answers[-1].footer == "Late: it was due today 9:00."


async def test_whatever_tool_a_late_job_speaks_with_it_is_called_late() -> None:
    say = CallsTool("mcp__discord__discord_embed", {"title": "Plan", "description": "Write."})
    async with scene(ScriptedEngine().then(say, Says("Sent."))) as at:
        await fired(at, late=timedelta(minutes=75))
        (card,) = (each for each in at.log if each.card is not None)
        assert card.footer == "Late: it was due today 9:00."


async def test_the_card_of_a_late_one_that_must_come_is_called_late_too() -> None:
    spec = replace(PLAN.spec, must=True, description="Tagesplan", message="Schau in den Kalender.")
    job = replace(PLAN, spec=spec)
    async with scene(ScriptedEngine().then(Says("Um 9:41 ist Zeit."), Says("Ja."))) as at:
        at.stores.routines.add(job)
        await fired(at, job, late=timedelta(minutes=75))
        (card,) = (each for each in at.log if each.card is not None)
        assert card.footer == "Late: it was due today 9:00."
        assert card.card is not None
        assert (card.card.title, card.card.description) == ("Tagesplan", "")


async def test_a_message_waits_for_it_and_does_not_stop_it() -> None:
    engine = ScriptedEngine().then(Says("Plan"), Waits()).answers("Hello.")
    async with scene(engine) as at:
        running = fired(at)
        await at.until(lambda: len(engine.prompts) == 1)
        assert not at.talk.state.inbox.is_busy, "a job does not make the owner busy"
        await at.send("hi")
        assert at.talk.state.inbox.is_busy
        assert len(engine.prompts) == 1
        await at.chat.interrupt()
        await at.quiet()
        assert await running is OccurrenceState.INTERRUPTED
        assert at.answers[-1].text == "Hello."


async def test_it_is_limited_to_five_minutes() -> None:
    engine = ScriptedEngine().then(Says("Plan"), Waits())
    async with scene(engine) as at:
        running = fired(at)
        await at.until(lambda: len(engine.prompts) == 1)
        await at.clock.advance(299)
        assert not running.done()
        await at.clock.advance(2)
        await at.quiet()
        assert await running is OccurrenceState.TIMED_OUT
        assert at.told[-1] == "This took longer than 5 minutes and was stopped."


async def test_a_fork_is_idle_although_a_job_waits() -> None:
    async with scene(engine := scripted("Rome.", "Still here.", "Plan.")) as at:
        forks = ForkScene(at)
        await forks.enter("Rome")
        running = fired(at)
        await at.clock.advance(600)
        await at.until(lambda: len(engine.prompts) == 2)
        assert engine.prompts[-1].startswith("[fork-timeout]")
        await at.quiet()
        await at.clock.advance(601)
        assert await running is OccurrenceState.DONE
        assert forks.fork is None


async def test_a_job_that_says_nothing_is_done_in_silence() -> None:
    async with scene(ScriptedEngine().then()) as at:
        assert await fired(at) is OccurrenceState.DONE
        assert at.answers == []
        facts = at.stores.ledger.read().entries[-1].facts
        assert outcome(facts) == "silent, because it had nothing to say"


async def test_a_failure_is_said_and_written_down() -> None:
    async with scene(ScriptedEngine().then(Fails(FailureKind.OVERLOADED))) as at:
        assert await fired(at) is OccurrenceState.FAILED
        await at.gathered()
        await at.until(lambda: at.told)
        assert at.told == [f"“{PLAN.spec.title}” did not work: It failed: overloaded."]
        assert states(at) == ["running", "failed"]
        facts = at.stores.ledger.read().entries[-1].facts
        assert outcome(facts) == "It failed: overloaded"


async def test_a_chain_goes_on_from_a_turn_of_the_conversation() -> None:
    spec = JobSpec(id="bins", message="Did you take the bins out?")
    reminder = Reminder(spec, NOW, Chain(max=2))
    async with scene(engine := ScriptedEngine().then(FOLLOW_UP, Says("I will ask again."))) as at:
        at.stores.reminders.add(reminder)
        assert await fired(at, reminder) is OccurrenceState.DONE
        assert "CHAIN CONTEXT: check 1 of 3." in engine.prompts[-1]
        later = [one.item for one in at.stores.reminders.all() if one.item.spec.id != "bins"]
        (follow_up,) = later
        assert follow_up.chain == Chain(2, 1, "bins")

"""The main session: one id through restarts, and an event for each cause of a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import Says, ScriptedEngine, ScriptedSession, Waits
from tests.kernel.conversation.crashing import StepCounter, crashing_stores
from tests.kernel.conversation.scene import HOME, NOW, Scene, card_of, scene
from tests.kernel.conversation.slow_engine import half_way
from tests.stores import memory_stores

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.events import Compacted, TextStreamed
from ollim_bot.kernel.values.inbox import InputEnd
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.ports import SessionSpec, Toolset
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.sessions import SessionChange

CREATED, COMPACTED = SessionChange.CREATED, SessionChange.COMPACTED
SWAPPED, CLEARED = SessionChange.SWAPPED, SessionChange.CLEARED
CLEARED_NOTE = "Cleared\nThe next message begins a new conversation; `/sessions` keeps the old one."


async def test_the_session_is_kept_when_it_is_named_and_logged_as_created() -> None:
    engine = ScriptedEngine().then(TextStreamed("…"), Waits())
    async with scene(engine) as at:
        assert at.stores.session.read() is None
        await at.send("one")
        await half_way(at)

        event, *more = at.stores.session_history.read().entries
        assert (event.event, event.session_id, event.parent_session_id, event.timestamp) == (
            CREATED,
            at.stores.session.read(),
            None,
            at.clock.now(),
        )
        assert more == []
        assert at.talk.state.session == engine.opened[0].id == event.session_id
        await at.chat.interrupt()
        await at.quiet()
        await at.ask("two")
        assert at.changes == [CREATED]


async def test_a_compaction_in_the_middle_of_a_turn_is_an_event_and_the_answer_comes() -> None:
    new = SessionId("after-it")
    engine = ScriptedEngine().answers("Hi.").then(Compacted(new), Says("Short again."))
    async with scene(engine) as at:
        await at.ask("one")
        old = at.stores.session.read()
        assert await at.ask("two") == "Short again."

        event = at.stores.session_history.read().entries[-1]
        assert (event.event, event.session_id, event.parent_session_id) == (COMPACTED, new, old)
        assert at.stores.session.read() == new
        assert len(engine.prompts) == 2
        engine.store(new, HOME, "two")
        listed = await at.chat.views["sessions"].look({})
        assert [(each.id, each.is_current) for each in listed.main] == [(new, True)]
        assert [(each.words, each.before) for each in listed.compactions] == [("two", old)]
        await at.chat.views["sessions"].act("web", "resume", {"id": str(old)})
        await at.quiet()
        assert at.stores.session.read() == old
        assert [each.id for each in (await at.chat.views["sessions"].look({})).main] == [new, old]


async def test_a_compaction_that_keeps_the_id_is_its_own_parent() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("one")
        same = at.stores.session.read()
        assert same is not None
        engine.then(Compacted(same), Says("ok"))
        await at.ask("two")
        event = at.stores.session_history.read().entries[-1]
        assert (event.event, event.session_id, event.parent_session_id) == (COMPACTED, same, same)
        [line] = (await at.chat.views["sessions"].look({})).compactions
        assert (line.words, line.before) == ("one", None)


async def test_a_lost_session_is_not_told_minutes_after_a_small_note() -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    async with scene(engine, clock=clock) as at:
        await at.ask("eins")
        await at.talk.notices.tell(texts.NO_DAILY_LIMIT)
        await _after_seconds(at, clock)
        assert at.told == [texts.NO_DAILY_LIMIT]
    engine.known.clear()
    async with scene(engine, clock=clock, stores=at.stores) as again:
        assert await again.ask("zwei") == "ok"
        await _after_seconds(again, clock)
        assert again.told == [texts.NO_DAILY_LIMIT, texts.SESSION_LOST]


async def _after_seconds(at: Scene, clock: ManualClock) -> None:
    for _ in range(20):
        await at.quiet()
        await clock.advance(0.5)


async def test_an_engine_that_cannot_be_started_is_said_and_the_next_message_works() -> None:
    class Broken(ScriptedEngine):
        is_broken = True

        @asynccontextmanager
        async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
            if self.is_broken:
                raise EngineError("Claude could not be started. Run `ollim-bot doctor`.")
            async with super().open(spec, tools) as session:
                yield session

    engine = Broken()
    async with scene(engine) as at:
        at.stores.leave_update("waits", NOW)
        told = await at.ask_without_answer("one")
        assert told == "Claude could not be started. Run `ollim-bot doctor`."
        assert at.ends == {"one": InputEnd.FAILED}
        assert at.pending == ["waits"]
        engine.is_broken = False
        assert await at.ask("two") == "ok"
        assert "waits" in engine.prompts[0]


async def test_the_settings_are_read_anew_for_each_turn() -> None:
    engine, stores = ScriptedEngine(), memory_stores(NOW)

    async def spec() -> SessionSpec:
        config: RuntimeConfig = stores.config.read()
        return SessionSpec("You help.", HOME, model=config.model_main)

    async with scene(engine, stores=stores, spec=spec) as at:
        await at.ask("one")
        await at.chat.command("web", "/model opus")
        await at.ask("two")
        assert engine.opened[0].spec.model == "opus"
        assert len(engine.opened) == 1
        assert at.chat.status.model == at.surface.statuses[-1].model == "opus"


async def test_a_clear_interrupts_logs_and_deletes_in_one_step_and_disconnects() -> None:
    counter = StepCounter()

    class Closing(ScriptedEngine):
        @asynccontextmanager
        async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
            async with super().open(spec, tools) as session:
                yield session
            counter.step("disconnected")

    engine = Closing().answers("Hi.").then(Says("Half"), Waits()).answers("New.")
    stores = crashing_stores(memory_stores(NOW), counter)
    async with scene(engine, stores=stores) as at:
        await at.ask("zero")
        old = at.stores.session.read()
        await at.send("one")
        await half_way(at)
        counter.steps.clear()
        answer = await at.chat.command("web", "/clear")
        await at.quiet()

        assert (answer.text, answer.is_error) == ("", False)
        assert at.ends["one"] is InputEnd.STOPPED
        assert at.told == [CLEARED_NOTE]
        cleared = next(each for each in counter.steps if "session_history" in each)
        assert "inbox" in cleared, "the answer and the clearing are one step"
        stopped = "after a step that changes inbox, messages"
        order = [counter.steps.index(step) for step in (stopped, cleared, "disconnected")]
        assert order == sorted(order)
        assert at.stores.session.read() is None
        assert at.changes == [CREATED, CLEARED]
        assert at.stores.session_history.read().entries[-1].session_id == old

        assert await at.ask("two") == "New."
        assert at.stores.session.read() not in (None, old)
        assert at.changes == [CREATED, CLEARED, CREATED]


async def undo(at: Scene, message: ChatMessage) -> CommandAnswer:
    answer = await at.press("Undo", message)
    await at.quiet()
    return answer


async def test_an_undone_clear_brings_the_conversation_back() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("one")
        old = at.stores.session.read()
        await at.chat.command("web", "/clear")
        note = at.newest_card
        assert not (await undo(at, note)).is_error
        assert at.stores.session.read() == old
        assert at.changes == [CREATED, CLEARED, SWAPPED]
        assert at.message(note.id).text == "Undone\nYou are back in the conversation as it was."
        assert card_of(at.message(note.id)).buttons == ()
        await at.ask("two")
        assert engine.opened[-1].spec.resume == old


async def test_an_undone_clear_brings_back_what_was_allowed_while_it_can_be_undone() -> None:
    clock, grants = ManualClock(NOW), Grants(("Read(./notes/**)",))
    async with scene(ScriptedEngine(clock), clock=clock) as at:
        await at.ask("one")
        at.store.run(lambda tx: tx.grants.put(grants))
        await at.chat.command("web", "/clear")
        assert at.store.query(lambda tx: tx.grants.get()) == Grants()
        await undo(at, at.newest_card)
        assert at.store.query(lambda tx: tx.grants.get()) == grants
        await at.chat.command("web", "/clear")
        await clock.advance(600)
        await at.until(lambda: at.store.query(lambda tx: tx.cleared_grants.get()) == Grants())


async def test_what_was_said_after_a_clear_is_kept_when_it_is_undone() -> None:
    engine = ScriptedEngine().answers("Hi.").answers("New.").then(Says("Half"), Waits())
    async with scene(engine) as at:
        await at.ask("one")
        old = at.stores.session.read()
        await at.chat.command("web", "/clear")
        note = at.newest_card
        await at.ask("two")
        newer = at.stores.session.read()
        await at.send("three")
        await half_way(at)
        assert not (await undo(at, note)).is_error
        assert at.ends["three"] is InputEnd.STOPPED
        assert at.stores.session.read() == old
        assert at.message(note.id).text.endswith("What was said since is in `/sessions`.")
        event = at.stores.session_history.read().entries[-1]
        assert (event.event, event.parent_session_id) == (SWAPPED, newer)


async def test_a_clear_can_be_undone_for_ten_minutes_and_once() -> None:
    clock = ManualClock(NOW)
    async with scene(ScriptedEngine(clock), clock=clock) as at:
        await at.ask("one")
        old = at.stores.session.read()
        await at.chat.command("web", "/clear")
        first = at.newest_card
        await clock.advance(599)
        assert not (await undo(at, first)).is_error
        assert at.stores.session.read() == old
        await at.chat.command("web", "/clear")
        second = at.newest_card
        await clock.advance(600)
        await at.until(lambda: not card_of(at.message(second.id)).buttons)
        assert (await undo(at, second)).is_error
        assert at.stores.session.read() is None


async def test_only_the_newest_clear_can_be_undone() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.ask("one")
        await at.chat.command("web", "/clear")
        first = at.newest_card
        await at.ask("two")
        await at.chat.command("web", "/clear")
        assert (await undo(at, first)).is_error
        assert at.stores.session.read() is None


async def test_a_clear_leaves_the_pending_updates_for_the_next_conversation() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("one")
        at.stores.leave_update("stays", NOW)
        await at.chat.command("web", "/clear")
        await at.ask("two")
        assert "stays" in engine.prompts[-1]


async def test_with_no_session_there_is_nothing_to_clear() -> None:
    async with scene(ScriptedEngine()) as at:
        await at.chat.command("web", "/clear")
        assert (at.told, at.changes) == ([texts.NOTHING_TO_CLEAR], [])


async def test_an_old_session_can_be_resumed_by_its_first_letters() -> None:
    clock = ManualClock(NOW)
    engine = ScriptedEngine(clock)
    async with scene(engine, clock=clock) as at:
        await at.ask("about trees")
        old = at.stores.session.read()
        assert old is not None
        await at.chat.command("web", "/clear")
        await at.ask("about fish")
        newer = at.stores.session.read()
        await at.clock.advance(3600)
        answer = await at.chat.command("web", f"/resume {old[:8]}")
        await at.ask("more")

        assert not answer.is_error
        assert at.told[-1] == "Back in the conversation of today 10:15: “about trees”."
        assert at.stores.session.read() == engine.opened[-1].spec.resume == old
        event = at.stores.session_history.read().entries[-1]
        assert (event.event, event.session_id, event.parent_session_id) == (SWAPPED, old, newer)
        await at.chat.command("web", f"/resume {old[:8]}")
        assert at.told[-1] == "That is the conversation you are in."


async def test_a_conversation_is_called_by_words_of_the_owner_or_by_its_job() -> None:
    pill = Reminder(JobSpec(id="pill", message="Übelkeit – Pille"), NOW)
    spec = JobSpec(id="plan", description="Morgens", message="What is the one thing?")
    plan = Routine(spec, Cron.parse("0 9 * * *"))
    async with scene(engine := ScriptedEngine()) as at:
        item = DueItem.of(pill, Occurrence.scheduled(pill.kind, "pill", NOW), MessageId("m"), NOW)
        await at.store.transact(lambda tx: tx.due_items.add(item))
        await at.talk.foreground.run(plan, Occurrence.scheduled(plan.kind, "plan", NOW))
        assert "\nOPEN REMINDERS (call `settle_reminder`" in engine.prompts[0]
        [line] = (await at.chat.views["sessions"].look({})).main
        assert line.words == "Morgens"
        await at.ask("the   taxes\nthen")
        [line] = (await at.chat.views["sessions"].look({})).main
        assert line.words == "the taxes then"
        await at.chat.command("web", "/sessions")
        assert "“" not in at.told[-1]
        assert "the taxes then" in at.told[-1]

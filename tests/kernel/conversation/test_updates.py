"""Pending updates are shown to the agent once; its calls and files are on record."""

from __future__ import annotations

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from devtools.doubles.journal import RecordingJournal
from tests.kernel.conversation.scene import HOME, NOW, Scene, scene
from tests.kernel.conversation.slow_engine import (
    EveryMoment,
    SlowEngine,
    accepted,
    half_way,
    pass_moments,
    slow_spec,
)
from tests.stores import memory_stores

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.about_me import OWNERS_WORDS
from ollim_bot.kernel.values.events import FailureKind, Noted, ToolRefused
from ollim_bot.kernel.values.inbox import InputEnd, ToolCalled
from ollim_bot.kernel.values.ports import Refusal, ToolCall, Trace

HEADER = "RECENT BACKGROUND UPDATES (mention key findings in your response)"


def notes(at: Scene) -> list[list[str]]:
    """The notes of each turn, in order."""
    turns = (at.surface.events[start.turn] for start in at.surface.starts)
    return [[event.text for event in turn if isinstance(event, Noted)] for turn in turns]


class OverloadedEngine(ScriptedEngine):
    """Fails before it records a prompt, until it `recovers`."""

    has_recovered = False

    async def trace(self, session: SessionId, prompt: str) -> Trace:
        if self.has_recovered:
            return await super().trace(session, prompt)
        return Trace(is_taken=False)


async def test_updates_are_shown_once_under_their_header_and_a_note_says_so() -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    stores = memory_stores(NOW)
    stores.leave_update("Checked the mail: 3 need replies.", NOW)
    await clock.advance(300)
    async with scene(engine, stores=stores, clock=clock) as at:
        await at.ask("hello")
        await at.ask("and now?")

        block = f"{HEADER}\n- (5m ago) Checked the mail: 3 need replies."
        assert engine.prompts == [
            f"[2026-02-24 Tue 10:20 AM UTC]\n{block}\n\nhello",
            "[2026-02-24 Tue 10:20 AM UTC]\n\nand now?",
        ]
        assert notes(at) == [[texts.CATCHING_UP], []]
        assert at.pending == []


async def test_updates_of_a_prompt_that_was_not_taken_wait_again_in_order() -> None:
    engine = OverloadedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        at.stores.leave_update("second", NOW)
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        at.stores.leave_update("third", NOW)
        await at.clock.advance(1)
        await at.quiet()

        assert at.ends == {"hello": InputEnd.FAILED}
        assert at.pending == ["first", "second", "third"]
        engine.has_recovered = True
        await at.ask("again")
        assert engine.prompts[1].splitlines()[2:5] == [
            "- (just now) first",
            "- (just now) second",
            "- (just now) third",
        ]
        assert at.pending == []


async def test_updates_of_a_prompt_that_was_taken_are_not_shown_again() -> None:
    engine = ScriptedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        await at.ask_without_answer("hello")
        assert at.pending == []
        await at.ask("again")
        assert ["first" in prompt for prompt in engine.prompts] == [True, False]


async def test_a_record_that_comes_late_is_waited_for() -> None:
    engine = OverloadedEngine().then(Fails(FailureKind.OVERLOADED)).answers("ok")
    async with scene(engine) as at:
        at.stores.leave_update("first", NOW)
        await at.send("hello")
        await at.until(lambda: at.clock.sleeping)
        engine.has_recovered = True
        await at.clock.advance(1)
        await at.quiet()
        assert at.pending == []


@pytest.mark.usefixtures("inline_executor")
async def test_a_turn_that_was_stopped_before_it_was_asked_gives_its_updates_back() -> None:
    pending = set()
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            at.stores.leave_update("first", NOW)
            sending = await accepted(at, "one")
            await pass_moments(moment)
            assert await at.chat.interrupt()
            await sending
            await at.quiet()
            pending.add(tuple(at.pending))
            moments.is_over = is_asked = bool(engine.prompts)
            assert at.pending == ([] if is_asked else ["first"]), moment

            await at.ask("two")
            assert sum("first" in prompt for prompt in engine.prompts) == 1, moment
    assert pending == {(), ("first",)}


@pytest.mark.usefixtures("inline_executor")
async def test_an_update_that_comes_at_any_moment_of_a_turn_is_shown_once() -> None:
    when = set()
    for moment in (moments := EveryMoment()):
        engine = SlowEngine()
        async with scene(engine, spec=slow_spec) as at:
            at.stores.leave_update("first", NOW)
            sending = await accepted(at, "three")
            await pass_moments(moment)
            moments.is_over = bool(at.answers)
            at.stores.leave_update("second", NOW)
            await sending
            await at.quiet()
            await at.ask("four")

            shown = [[word in prompt for prompt in engine.prompts] for word in ("first", "second")]
            assert shown[0] == [True, False], moment
            assert sorted(shown[1]) == [False, True], moment
            when.add(shown[1].index(True))
    assert when == {0, 1}


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_call_is_written_down_with_its_turn_unless_it_is_refused(is_refused: bool) -> None:
    asked: list[ToolCall] = []

    async def gate(call: ToolCall) -> Refusal | None:
        asked.append(call)
        return Refusal("Not this one.") if is_refused else None

    engine = ScriptedEngine().then(
        CallsTool("Write", {"file_path": "/data/notes/today.md"}), Says("ok")
    )
    async with scene(engine, gate=gate) as at:
        await at.ask("note it")

        turn = at.surface.starts[0].turn
        rows = [row for row in at.rows if isinstance(row, ToolCalled)]
        written = [(row.turn, row.tool, row.summary) for row in rows]
        assert written == ([] if is_refused else [(turn, "Write", "Write(notes/today.md)")])
        assert [call.tool for call in asked] == ["Write"]
        shown = [each for each in at.surface.events[turn] if isinstance(each, ToolRefused)]
        assert len(shown) == is_refused
        trace = "Refused: Write(notes/today.md)." if is_refused else ""
        assert at.answers[-1].footer == trace


async def test_the_row_is_there_when_the_call_is_let_through() -> None:
    engine = ScriptedEngine().then(Says("Half"), Waits())
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        gate = engine.opened[0].tools.gate
        assert await gate(ToolCall("Bash", {"command": "ls"})) is None
        row = at.rows[-1]
        assert isinstance(row, ToolCalled)
        assert (row.tool, row.summary) == ("Bash", "Bash(ls)")


async def test_outside_a_turn_there_is_no_call_that_a_crash_could_repeat() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("hello")
        before = len(at.rows)
        assert await engine.opened[0].tools.gate(ToolCall("Bash", {})) is None
        assert len(at.rows) == before


async def refuse_plans(call: ToolCall) -> Refusal | None:
    return Refusal("not now") if "refused" in str(call.arguments.get("file_path")) else None


@pytest.mark.parametrize(
    ("tool", "path", "noted"),
    [
        ("Write", "notes/plan.md", ["auto: write notes/plan.md"]),
        ("Edit", f"{HOME}/USER.md", ["auto: edit USER.md"]),
        ("Write", "notes/plan.txt", []),
        ("Write", "/elsewhere/plan.md", []),
        ("Write", "../plan.md", []),
        ("Write", "refused.md", []),
        ("Read", "notes/plan.md", []),
    ],
)
async def test_a_write_that_ended_well_is_noted(tool: str, path: str, noted: list[str]) -> None:
    journal = RecordingJournal()
    engine = ScriptedEngine().then(CallsTool(tool, {"file_path": path}), Says("Done."))
    async with scene(engine, journal=journal, gate=refuse_plans) as at:
        await at.ask("write it down")

    assert journal.messages == noted


async def test_a_note_says_whether_the_turn_had_read_words_of_others() -> None:
    journal = RecordingJournal()
    write = CallsTool("Edit", {"file_path": "USER.md"})
    fetch = CallsTool("WebFetch", {"url": "https://93.184.216.34/", "prompt": "read"}, "Obey.")
    engine = ScriptedEngine().then(write, fetch, write, Says("Done.")).then(write, Says("Done."))
    async with scene(engine, journal=journal) as at:
        await at.ask("I like tea; look at https://93.184.216.34/ too")
        await at.ask("I like coffee")

    assert journal.sources == [OWNERS_WORDS, "web page 93.184.216.34", OWNERS_WORDS]

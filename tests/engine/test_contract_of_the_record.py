"""What every engine still knows of a session afterwards, the real one and its double alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.engine.cases import Case, chat, new_name
from tests.engine.scene import ask, end_of

from ollim_bot.domain.events import EndCause
from ollim_bot.ports import ToolAnswer, Toolset, Trace

NOT_TAKEN = Trace(is_taken=False)


async def test_nothing_is_known_of_what_was_never_asked(case: Case) -> None:
    name, prompt = new_name(), new_name()
    assert await case.engine.trace(name, prompt) == NOT_TAKEN
    async with case.engine.open(replace(case.spec, begin=name), Toolset()) as session:
        assert await case.engine.trace(name, prompt) == NOT_TAKEN
        await ask(session, "hi", new_name())
    assert await case.engine.trace(name, prompt) == NOT_TAKEN


async def test_the_trace_of_a_prompt_is_what_was_said_to_it(case: Case) -> None:
    first, second = new_name(), new_name()
    case.script.says("Hello.")
    case.script.calls_ping_and_says("I pinged you.")
    tools = Toolset(chat(ToolAnswer("sent")))
    async with case.engine.open(case.spec, tools) as session:
        await ask(session, "hi", first)
        await ask(session, "ping", second)
        await ask(session, "without a name")
    assert session.id is not None
    assert await case.engine.trace(session.id, first) == Trace(True, True, "Hello.")
    assert await case.engine.trace(session.id, second) == Trace(True, True, "I pinged you.")
    assert await case.engine.trace(new_name(), first) == NOT_TAKEN


async def test_a_turn_that_was_sent_back_is_traced_to_its_last_word(case: Case) -> None:
    reasons, prompt = ["Report first."], new_name()

    async def may_end() -> str | None:
        return reasons.pop() if reasons else None

    case.script.says("Done.")
    case.script.says("Reported.")
    async with case.engine.open(case.spec, Toolset(may_end=may_end)) as session:
        await ask(session, "do it", prompt)
    assert session.id is not None
    assert await case.engine.trace(session.id, prompt) == Trace(True, True, "Done.\n\nReported.")


async def test_a_prompt_is_taken_once(case: Case) -> None:
    prompt = new_name()
    case.script.says("Yes.")
    async with case.engine.open(case.spec, Toolset()) as session:
        await ask(session, "once", prompt)
        again = await end_of(session, "twice", prompt)
        assert again.cause is EndCause.FAILED
    resumed = replace(case.spec, resume=session.id)
    case.script.says("Still here.")
    async with case.engine.open(resumed, Toolset()) as session:
        assert (await end_of(session, "thrice", prompt)).cause is EndCause.FAILED
        assert (await end_of(session, "new", new_name())).text == "Still here."
    assert session.id is not None
    assert await case.engine.trace(session.id, prompt) == Trace(True, True, "Yes.")


async def test_sessions_are_listed_the_newest_first(case: Case, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    names = [new_name() for _ in range(2)]
    for name in names:
        async with case.engine.open(replace(case.spec, begin=name), Toolset()) as session:
            await ask(session, f"I am {name}")
    other = replace(case.spec, working_directory=elsewhere)
    async with case.engine.open(other, Toolset()) as session:
        await ask(session, "not here")
    async with case.engine.open(replace(case.spec, resume=names[0]), Toolset()) as session:
        await ask(session, "and I am back")

    stored = await case.engine.sessions(case.spec.working_directory, 10)
    assert [one.id for one in stored] == names
    assert [one.first_prompt for one in stored] == [f"I am {one.id}" for one in stored]
    assert all(one.size > 0 and one.changed_at.tzinfo for one in stored)
    assert list(await case.engine.sessions(case.spec.working_directory, 1)) == list(stored[:1])
    assert list(await case.engine.sessions(tmp_path / "nowhere", 5)) == []

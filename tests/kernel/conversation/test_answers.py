"""Each turn ends in an answer, a sentence, or by the owner; what got none can be asked again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.engine import Says, ScriptedEngine, Waits
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.conversation.scene import NOW, Scene, card_of, scene
from tests.kernel.conversation.slow_engine import half_way, pass_moments
from tests.kernel.prompts.prompt_parts import unnumbered

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import (
    NO_RESPONSE,
    AgentEvent,
    AnswerText,
    Compacted,
    CompactionStarted,
    EndCause,
    FailureKind,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    TurnEnded,
    TurnFailure,
)
from ollim_bot.kernel.values.inbox import InputEnd, InputId
from ollim_bot.kernel.values.ports import IncomingFile
from ollim_bot.kernel.values.usage import Usage

pytestmark = pytest.mark.usefixtures("inline_executor")


ENDED = TurnEnded(EndCause.COMPLETED)


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([TextStreamed("Hel"), TextStreamed("lo."), TextCompleted("Hello.")], "Hello."),
        (
            [TextCompleted("First."), TextStreamed("Sec"), TextCompleted("Second.")],
            "First.\n\nSecond.",
        ),
        ([ThinkingStreamed("hm"), TextCompleted("  \n")], NO_RESPONSE),
        ([], "no response — try again."),
        ([TurnEnded(EndCause.COMPLETED, "From the result.")], "From the result."),
    ],
    ids=str,
)
async def test_the_text_is_what_was_said_in_the_end(events: list[AgentEvent], text: str) -> None:
    async with scene(ScriptedEngine().then(*events, ENDED)) as at:
        assert await at.ask("hello") == text
        assert at.ends == {"hello": InputEnd.ANSWERED}


words = st.text("abc ", max_size=5)

pieces = st.lists(
    st.tuples(st.lists(words, max_size=2), st.lists(words, max_size=3), st.booleans())
)


@given(pieces)
def test_whatever_is_withdrawn_and_streamed_each_piece_counts_once(
    given_pieces: list[tuple[list[str], list[str], bool]],
) -> None:
    """Each piece may be tried in vain first, and may come whole at its end or only as a stream."""
    text, wanted = AnswerText(), list[str]()
    for in_vain, streamed, is_whole in given_pieces:
        for part in in_vain:
            text.add(TextStreamed(part))
            text.add(TextWithdrawn())
        for part in streamed:
            text.add(TextStreamed(part))
        whole = "".join(streamed)
        if is_whole:
            text.add(TextCompleted(whole))
            wanted.append(whole)
        else:
            text.add(TextWithdrawn())
    said = "\n\n".join(piece.strip() for piece in wanted if piece.strip())
    assert text.so_far == said
    assert text.whole(ENDED) == (said or NO_RESPONSE)


CUT_OFF = (FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST)


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind not in CUT_OFF])
async def test_a_failure_is_said_and_what_there_was_of_the_answer_stays(kind: FailureKind) -> None:
    failure = TurnFailure(kind, "What happened. What to do.")
    engine = ScriptedEngine()
    usage = Usage(190_000, window=200_000)
    end = TurnEnded(EndCause.FAILED, failure=failure, usage=usage)
    engine.then(TextStreamed("Half an ans"), end)
    async with scene(engine) as at:
        await at.send("hello")
        await at.quiet()

        assert [(each.text, each.is_cut_off) for each in at.log[1:]] == [
            ("Half an ans", True),
            ("What happened. What to do.", False),
        ]
        turn = at.surface.starts[0].turn
        assert [each.turn for each in at.log[1:]] == [turn, turn]
        assert at.ends == {"hello": InputEnd.FAILED}
        posted = tuple(each.id for each in at.log[1:])
        assert at.surface.events[turn][-1] == replace(end, messages=posted)
        assert at.answers[0].footer == ""
        assert await at.ask("again") == "ok"


async def test_the_words_of_a_broken_stream_stay() -> None:
    """The engine takes streamed words back before it tries again, or gives up."""
    failure = TurnFailure(FailureKind.UNREACHABLE, "Claude could not be reached.")
    end = TurnEnded(EndCause.FAILED, failure=failure)
    engine = ScriptedEngine()
    engine.then(
        TextStreamed("First"), TextWithdrawn(), TextStreamed("Half an"), TextWithdrawn(), end
    )
    async with scene(engine) as at:
        await at.ask_without_answer("hello")
        assert [(each.text, each.is_cut_off) for each in at.answers] == [("Half an", True)]
        card = card_of(at.log[-1])
        assert card.title == "The answer was cut off"


@pytest.mark.parametrize(
    ("kind", "said"),
    [(FailureKind.REFUSED, [TextStreamed("Half an"), TextWithdrawn()]), (FailureKind.LOGIN, [])],
    ids=["declined", "not a word"],
)
async def test_where_no_words_may_stay_there_is_only_the_sentence(
    kind: FailureKind, said: list[AgentEvent]
) -> None:
    end = TurnEnded(EndCause.FAILED, failure=TurnFailure(kind, "What happened."))
    async with scene(ScriptedEngine().then(*said, end)) as at:
        assert await at.ask_without_answer("hello") == "What happened."
        assert at.answers == []
        assert (at.log[-1].card is None) is (kind is FailureKind.REFUSED)


@pytest.mark.parametrize(
    ("context", "window", "footer"),
    [
        (119_999, 200_000, ""),
        (600_000, 1_000_000, "context: 60% (600k) — consider /compact"),
        (160_000, None, ""),
    ],
)
async def test_an_answer_warns_of_a_window_that_fills(
    context: int, window: int | None, footer: str
) -> None:
    usage = Usage(context, window=window)
    async with scene(ScriptedEngine().then(TurnEnded(EndCause.COMPLETED, "ok", usage=usage))) as at:
        await at.ask("hello")
        answer = at.answers[0]
        assert answer.footer == footer
        assert answer.spent is not None
        assert (answer.spent.context, answer.spent.window) == (context, window)


OVERLOADED = TurnFailure(FailureKind.OVERLOADED, "Claude is overloaded. Try again.")

FAILS = TurnEnded(EndCause.FAILED, failure=OVERLOADED)


def retry(at: Scene) -> tuple[ChatMessage, Button]:
    """The newest failure, with its button."""
    (button,) = at.cards[-1].buttons
    return at.newest_card, button


async def press(at: Scene, surface: str = "web") -> str:
    answer = await at.press("Retry", surface=surface)
    await at.quiet()
    return answer.text


async def test_the_same_message_is_asked_again_once_and_the_button_is_used(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(FAILS).answers("Here.", "Twice.")
    async with scene(engine) as at:
        picture = IncomingFile("cat.png", tmp_path)
        await at.send("what is this?", files=(picture,))
        await at.quiet()
        note, button = retry(at)
        assert (button.label, button.custom_id) == ("Retry", f"act:retry:{note.turn}")
        assert note.text == OVERLOADED.sentence

        first, second = await asyncio.gather(*(at.press("Retry", note) for _ in range(2)))
        await at.quiet()

        assert not first.is_error
        assert second.text in ("", texts.BUTTON_USED)
        assert [each.text for each in at.answers] == ["Here."]
        assert [each.text for each in at.log] == ["what is this?", note.text, "Here."]
        asked, again = engine.prompts
        assert unnumbered(again) == unnumbered(asked)
        assert at.keeper.reading == ["cat.png", "cat.png"]
        assert retry(at)[1].is_used
        assert (await press(at)) == texts.BUTTON_USED


async def test_messages_that_were_asked_together_are_asked_again_together() -> None:
    engine = ScriptedEngine().then(FAILS)
    async with scene(engine, runs=False) as before:
        await before.send("one")
        await before.send("two")
    async with scene(engine.answers("Both."), stores=before.stores) as at:
        await at.quiet()
        await press(at)
        assert at.answers[-1].text == "Both."
        assert all(word in engine.prompts[-1] for word in ("one", "two"))


async def test_a_button_works_after_a_restart_and_from_the_other_surface() -> None:
    engine = ScriptedEngine().then(FAILS).answers("Here.")
    async with scene(engine) as before:
        await before.ask_without_answer("hello")
    async with scene(engine, stores=before.stores) as at:
        assert await press(at, "discord") == ""
        assert at.answers[-1].text == "Here."


async def test_what_fails_again_can_be_tried_again() -> None:
    engine = ScriptedEngine().then(FAILS).then(FAILS).answers("Here.")
    async with scene(engine) as at:
        await at.ask_without_answer("hello")
        first = retry(at)[0]
        await press(at)
        assert retry(at)[0].id != first.id
        await press(at)
        assert at.answers[-1].text == "Here."
        assert at.ends["hello"] is InputEnd.FAILED


async def test_what_was_stopped_by_the_owner_has_no_retry() -> None:
    async with scene(ScriptedEngine().then(TurnEnded(EndCause.INTERRUPTED))) as at:
        assert await at.ask_without_answer("hello") == texts.STOPPED
        assert at.log[-1].card is None


REFUSED = TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.LOGIN, "Sign in again."))


class Login:
    """Doubles the login at the provider."""

    def __init__(self, mark: str = "old") -> None:
        self.mark = mark

    async def __call__(self) -> str:
        return self.mark


async def test_what_met_a_lost_login_is_answered_after_the_login() -> None:
    engine, login = ScriptedEngine().then(REFUSED).answers("Here."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        await at.clock.advance(60)
        assert at.answers == []
        login.mark = ""
        await at.clock.advance(60)
        assert at.answers == []
        login.mark = "new"
        await at.clock.advance(10)
        await at.until(lambda: at.answers)
        await at.quiet()

        assert [each.text for each in at.log] == ["hello", "Sign in again.", "Here."]
        # A new process reads the new login.
        assert len(engine.opened) > 1
        assert retry(at)[1].is_used
        assert await press(at) == texts.BUTTON_USED
        login.mark = "newer"
        await at.clock.advance(60)
        assert len(engine.prompts) == 2


async def test_what_met_a_lost_login_is_answered_at_the_next_start_with_one() -> None:
    engine = ScriptedEngine().then(REFUSED).answers("Here.")
    async with scene(engine, login=Login("")) as before:
        await before.ask_without_answer("hello")
    async with scene(engine, stores=before.stores, login=Login("")) as still:
        await still.clock.advance(60)
        assert still.answers == []
    async with scene(engine, stores=before.stores, login=Login("key")) as at:
        await at.until(lambda: at.answers)
        assert [each.text for each in at.answers] == ["Here."]


async def test_what_is_refused_again_waits_for_another_login() -> None:
    engine, login = ScriptedEngine().then(REFUSED).then(REFUSED).answers("Here."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        login.mark = "new"
        await at.clock.advance(10)
        await at.until(lambda: len(engine.prompts) == 2)
        await at.quiet()
        await at.clock.advance(60)
        assert len(engine.prompts) == 2
        login.mark = "newer"
        await at.clock.advance(20)
        await at.until(lambda: at.answers)


async def test_after_another_answer_it_is_left_to_the_button() -> None:
    engine, login = ScriptedEngine().then(REFUSED).answers("Here.", "There."), Login()
    async with scene(engine, login=login) as at:
        await at.ask_without_answer("hello")
        assert await at.ask("hello, I said") == "Here."
        login.mark = "new"
        await at.clock.advance(60)
        assert len(engine.prompts) == 2
        await press(at)
        assert at.answers[-1].text == "There."


async def test_what_met_a_lost_login_a_day_ago_is_not_asked_by_itself() -> None:
    engine, login, clock = ScriptedEngine().then(REFUSED), Login(), ManualClock(NOW)
    async with scene(engine, login=login, clock=clock) as at:
        await at.ask_without_answer("hello")
        clock.jump(24 * 3600)
        login.mark = "new"
        await clock.advance(60)
        await at.quiet()
        assert len(engine.prompts) == 1
        assert await press(at) == ""
        assert len(engine.prompts) == 2


async def test_a_cut_off_answer_keeps_when_its_first_words_came() -> None:
    engine = ScriptedEngine().then(TextStreamed("The first thing is"), Waits()).answers("Blue.")
    async with scene(engine) as at:
        await at.send("tell me everything", "one")
        await half_way(at)
        await at.clock.advance(60)
        await at.send("just the colour", "two")
        await at.quiet()
        cut_off, newer = at.answers[0], next(each for each in at.log if each.id == "two")

        assert cut_off.began == NOW + A_FRACTION
        assert cut_off.began < newer.at <= cut_off.at


async def test_messages_that_waited_together_are_one_prompt_with_one_timestamp() -> None:
    engine = ScriptedEngine().answers("All three.")
    async with scene(engine, runs=False) as at:
        for text in ("one", "two", "three"):
            await at.send(text)
            await at.clock.advance(60)
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await at.quiet()

        assert engine.prompts == ["[2026-02-24 Tue 10:18 AM UTC]\n\none\n\ntwo\n\nthree"]
        assert at.surface.starts[0].inputs == ("one", "two", "three")
        assert set(at.ends.values()) == {InputEnd.ANSWERED}
        assert len(at.answers) == 1


@pytest.mark.usefixtures("inline_executor")
async def test_a_message_during_compaction_waits() -> None:
    engine = ScriptedEngine().then(CompactionStarted(), Waits()).answers("ok")
    async with scene(engine) as at:
        await at.send("one")
        await at.until(lambda: at.surface.starts and engine.prompts)
        turn = at.surface.starts[0].turn
        await at.until(lambda: CompactionStarted() in at.surface.events[turn])
        await at.send("two")
        await pass_moments(200)

        assert len(engine.prompts) == 1
        assert at.ends == {}
        assert await at.chat.interrupt()
        await at.quiet()
        assert at.ends == {"one": InputEnd.SUPERSEDED, "two": InputEnd.ANSWERED}


async def test_a_message_does_not_interrupt_a_compaction_that_was_asked_for() -> None:
    engine = ScriptedEngine().answers("Hi.").then(Compacted(SessionId("s")), Waits()).answers("ok")
    async with scene(engine) as at:
        await at.ask("hello")
        command = asyncio.create_task(at.chat.command("web", "/compact"))
        await at.until(lambda: len(engine.prompts) == 2)
        await at.send("one")
        await pass_moments(200)
        assert not command.done()
        assert await at.chat.interrupt()
        await command
        await at.quiet()
        assert at.ends["one"] is InputEnd.ANSWERED


async def test_after_a_compaction_a_message_interrupts_again() -> None:
    engine = ScriptedEngine()
    engine.then(
        CompactionStarted(), Compacted(SessionId("s")), TextStreamed("Now"), Waits()
    ).answers("ok")
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        await at.send("two")
        await at.quiet()
        assert at.ends == {"one": InputEnd.SUPERSEDED, "two": InputEnd.ANSWERED}


async def test_a_command_in_between_keeps_its_place() -> None:
    engine = ScriptedEngine().answers("first", "short", "second")
    async with scene(engine, runs=False) as at:
        await at.send("one")
        command = asyncio.create_task(at.chat.command("web", "/compact"))
        await at.until(lambda: len(at.rows) == 2)
        await at.send("two")
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        await command
        await at.quiet()

        asked = [prompt.rpartition("\n")[2] for prompt in engine.prompts]
        assert asked == ["one", "/compact", "two"]
        said = [each.text for each in at.log]
        assert said == ["one", "two", "first", texts.COMPACTED_NOTHING, "second"]


async def test_an_interrupt_stops_the_turn_and_drops_nothing_else() -> None:
    engine = ScriptedEngine().then(Says("Half"), Waits()).answers("Yes.")
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        assert await at.chat.interrupt()
        await at.quiet()

        assert at.ends == {"one": InputEnd.STOPPED}
        assert [(each.text, each.is_cut_off) for each in at.answers] == [("Half", True)]
        assert at.told == []
        assert not await at.chat.interrupt(), "nothing runs"
        assert await at.ask("two") == "Yes."
        assert len(engine.opened) == 1
        assert at.told == []


async def test_an_interrupt_of_a_message_that_was_withdrawn_stops_no_other() -> None:
    async with scene(ScriptedEngine(), runs=False) as at:
        await at.send("one")
        assert await at.chat.interrupt()
        assert await at.chat.withdraw(InputId("one"))
        at.tasks.append(asyncio.create_task(at.talk.loop.run()))
        assert await at.ask("two") == "ok"

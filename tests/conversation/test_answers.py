"""Each turn ends in an answer, or in a plain sentence about what went wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given
from hypothesis import strategies as st
from tests.conversation.scene import scene

from ollim_bot.domain.activity import NO_RESPONSE, AnswerText
from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    TurnEnded,
    TurnFailure,
)
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.domain.usage import Usage

ENDED = TurnEnded(EndCause.COMPLETED)


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([TextStreamed("Hel"), TextStreamed("lo."), TextCompleted("Hello.")], "Hello."),
        ([TextStreamed("Hel"), TextStreamed("lo.")], "Hello."),
        ([TextCompleted("Hello.")], "Hello."),
        (
            [TextCompleted("First."), TextStreamed("Sec"), TextCompleted("Second.")],
            "First.\n\nSecond.",
        ),
        ([TextStreamed("Wrong"), TextWithdrawn(), TextStreamed("Right.")], "Right."),
        ([TextStreamed("Wrong"), TextWithdrawn(), TextCompleted("Right.")], "Right."),
        ([TextCompleted("Kept."), TextStreamed("Wrong"), TextWithdrawn()], "Kept."),
        ([ThinkingStreamed("hm"), TextCompleted("  \n")], NO_RESPONSE),
        ([], NO_RESPONSE),
    ],
    ids=str,
)
async def test_the_text_is_what_was_said_in_the_end(events: list[AgentEvent], text: str) -> None:
    async with scene(ScriptedEngine().then(*events, ENDED)) as at:
        assert await at.ask("hello") == text
        assert at.ends == {"hello": InputEnd.ANSWERED}


async def test_where_nothing_else_was_said_the_result_is_the_answer() -> None:
    engine = ScriptedEngine().then(TurnEnded(EndCause.COMPLETED, "From the result."))
    async with scene(engine) as at:
        assert await at.ask("hello") == "From the result."


def test_the_sentence_for_no_answer_is_as_agreed() -> None:
    assert NO_RESPONSE == "no response — try again."


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
        card = at.log[-1].card
        assert card is not None
        assert card.title == "The answer was cut off"


async def test_the_words_of_an_answer_that_was_declined_do_not_stay() -> None:
    failure = TurnFailure(FailureKind.REFUSED, "The model declined.")
    end = TurnEnded(EndCause.FAILED, failure=failure)
    engine = ScriptedEngine().then(TextStreamed("Half an"), TextWithdrawn(), end)
    async with scene(engine) as at:
        assert await at.ask_without_answer("hello") == "The model declined."
        assert (at.answers, at.log[-1].card) == ([], None)


async def test_a_failure_without_a_word_leaves_only_its_sentence() -> None:
    failure = TurnFailure(FailureKind.LOGIN, "Sign in again.")
    engine = ScriptedEngine().then(TurnEnded(EndCause.FAILED, failure=failure))
    async with scene(engine) as at:
        assert await at.ask_without_answer("hello") == "Sign in again."
        assert at.answers == []


@pytest.mark.parametrize(
    ("context", "window", "footer"),
    [
        (119_999, 200_000, ""),
        (120_000, 200_000, "context: 60% (120k) — consider /compact"),
        (134_000, 200_000, "context: 67% (134k) — consider /compact"),
        (159_999, 200_000, "context: 79% (160k) — consider /compact"),
        (160_000, 200_000, "context: 80% (160k) — compaction soon, /compact recommended"),
        (599_999, 1_000_000, ""),
        (600_000, 1_000_000, "context: 60% (600k) — consider /compact"),
        (799_999, 1_000_000, "context: 79% (800k) — consider /compact"),
        (800_000, 1_000_000, "context: 80% (800k) — compaction soon, /compact recommended"),
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

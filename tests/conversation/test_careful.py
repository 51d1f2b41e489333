"""It is seen that the conversation is careful, and one press ends it as the owner's words do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from tests.conversation.scene import NOW, Scene, scene
from tests.conversation.test_foreground_jobs import fired
from tests.conversation.test_tainting import FETCH, FORWARD, PROFILE, forward, refusals, talking

from ollim_bot.conversation.background_attempt import source_of
from ollim_bot.conversation.careful import CarefulTimes
from ollim_bot.conversation.chat_sessions import main_run
from ollim_bot.domain.careful import CarefulTime
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.taint import Taint
from ollim_bot.store.steps import careful_session

MAIN = SessionId("main")
AT_TWO = datetime(2026, 2, 24, 14, 2, 37, tzinfo=UTC)
SEARCH = CallsTool("WebSearch", {"query": "news"}, "Nothing found.")


async def shown(at: Scene) -> CarefulTime:
    """What the surfaces show, once it is that of the store."""
    read = at.store.query(careful_session)
    assert read is not None
    await at.until(
        lambda: (
            (last := at.surface.statuses[-1].careful if at.surface.statuses else None)
            and last.key == read.key
        )
    )
    careful = at.surface.statuses[-1].careful
    assert careful == at.chat.status.careful
    assert careful is not None
    return careful


async def gone(at: Scene) -> None:
    await at.until(lambda: at.surface.statuses and not at.surface.statuses[-1].careful)
    assert at.chat.status.careful is None


async def card(at: Scene) -> ChatMessage:
    """The card that `/permissions` posts."""
    answer = await at.chat.command("web", "/permissions")
    assert answer.text.startswith("Mode: `")
    return at.log[-1]


async def by_words(at: Scene) -> None:
    await at.ask("write it down")


async def by_the_line(at: Scene) -> None:
    assert not (await at.chat.go_on((await shown(at)).key)).is_error


async def by_the_card(at: Scene) -> None:
    message = await card(at)
    assert message.card is not None
    (button,) = message.card.buttons
    assert not (await at.chat.click("web", message.id, button.custom_id)).is_error


WAYS = [by_words, by_the_line, by_the_card]


async def test_it_says_since_when_and_what_was_read_first() -> None:
    engine = ScriptedEngine().then(FETCH, Says("Read.")).then(SEARCH, Says("Found."))
    async with scene(engine, clock=ManualClock(AT_TWO)) as at:
        await at.ask("what is new?")
        first = await shown(at)
        assert first.words == "careful since 14:02: web page news.example"
        await at.clock.advance(1300)
        await fired(at)
        second = await shown(at)
        assert second.words == "careful since 14:02: web page news.example and 1 more"
        assert second.key != first.key
        listed = (await card(at)).card
        assert listed is not None
        assert listed.title == "Careful since 14:02"
        assert [each.text for each in listed.lines] == ["web page news.example", "search result"]
        assert [each.label for each in listed.buttons] == ["Go on, it is all right"]


@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("in_fork", [False, True])
async def test_words_the_line_and_the_card_end_it_alike(
    end: Callable[[Scene], Awaitable[None]], in_fork: bool
) -> None:
    engine = ScriptedEngine()
    if in_fork:
        engine.then(Says("Here."))
    engine.then(FETCH, Says("Read.")).then(PROFILE, Says("Written."))
    async with talking(engine) as at:
        if in_fork:
            await at.chat.command("web", "/fork taxes")
            await at.quiet()
        await at.ask("what is new?")
        await shown(at)
        recent = at.store.query(lambda tx: tx.marks.in_last_day(tx.now))
        await end(at)
        await gone(at)
        assert at.store.query(lambda tx: tx.marks.in_last_day(tx.now)) == recent
        assert refusals(at) == []
        if end is not by_words:
            await by_itself(at)
            assert refusals(at) == []
    async with talking(stores=at.stores) as again:
        await by_itself(again)
        assert refusals(again) == []


async def by_itself(at: Scene) -> None:
    """A turn without words of the owner: what a button of the agent would send."""
    await at.ask("Write it down.", f"click-{len(at.log)}", button="Go on")


async def test_where_nothing_was_read_there_is_no_card_and_no_line() -> None:
    async with talking() as at:
        await at.ask("hello")
        before = len(at.log)
        await at.chat.command("web", "/permissions")
        assert len(at.log) == before
        assert at.chat.status.careful is None
        assert (await at.chat.go_on("")).is_error


async def test_a_second_press_and_a_press_of_an_earlier_time_end_nothing() -> None:
    async with talking(ScriptedEngine().then(FETCH, Says("A.")).then(FETCH, Says("B."))) as at:
        await at.ask("what is new?")
        old, first = await card(at), await shown(at)
        await by_the_line(at)
        await gone(at)
        assert (await at.chat.go_on(first.key)).is_error
        await at.clock.advance(61)
        await at.ask("and now?")
        newer = await shown(at)
        assert (await at.chat.go_on(first.key)).is_error
        assert old.card is not None
        (button,) = old.card.buttons
        answer = await at.chat.click("web", old.id, button.custom_id)
        assert answer.is_error
        assert "something else since" in answer.text
        assert await shown(at) == newer
        await by_the_line(at)
        await gone(at)
        await at.chat.click("web", old.id, button.custom_id)
        used = at.message(old.id).card
        assert used is not None
        assert [each.is_used for each in used.buttons] == [True]


async def test_a_press_does_not_allow_what_was_read_after_the_line_was_drawn() -> None:
    async with talking(ScriptedEngine().then(FETCH, Says("A.")).then(SEARCH, Says("B."))) as at:
        await at.ask("what is new?")
        first = await shown(at)
        await fired(at)
        assert (await at.chat.go_on(first.key)).is_error
        assert (await shown(at)).words.endswith(": web page news.example and 1 more")


async def test_a_press_counts_for_the_turn_that_runs_and_its_answer_stays_marked() -> None:
    engine = ScriptedEngine().then(FETCH, PROFILE, PROFILE, Says("Written.")).then(PROFILE)
    async with talking(engine) as at:
        await at.talk.approvals.set_mode(PermissionMode.DEFAULT)
        await at.send("what is new?")
        await at.until(lambda: [each for each in at.log if each.card])
        (question,) = [each for each in at.log if each.card]
        await by_the_line(at)
        assert question.card is not None
        refuse = next(each for each in question.card.buttons if "Refuse" in each.label)
        await at.chat.click("web", question.id, refuse.custom_id)
        await at.quiet()
        assert len(refusals(at)) == 1, "the second call was not asked about"
        assert at.answers[-1].untrusted is not None
        assert at.answers[-1].untrusted.source == "web page news.example"
        await gone(at)
        await fired(at)
        assert len([each for each in at.log if each.card]) == 1


async def test_what_is_read_while_the_press_is_carried_out_stays_with_the_turn() -> None:
    async with talking() as at:
        await forward(at, "Write it down.")
        read = at.store.query(careful_session)
        assert read is not None
        run = replace(main_run(NOW), session=read.session, taint=Taint((*read.sources, "mail")))
        times = CarefulTimes(at.store, at.talk.poster, lambda: run, at.clock)
        assert not (await times.go_on(read.key)).is_error
        assert run.taint.sources == ("mail",)
        assert source_of(run) == "mail, forwarded message"

        other = replace(run, session=SessionId("another"), taint=Taint(read.sources))
        await forward(at, "Write it down, too.")
        again = at.store.query(careful_session)
        assert again is not None
        times = CarefulTimes(at.store, at.talk.poster, lambda: other, at.clock)
        assert not (await times.go_on(again.key)).is_error
        assert other.taint.sources == read.sources


async def test_a_forward_is_shown_too_and_the_press_is_no_word_for_what_comes_later() -> None:
    async with talking() as at:
        await forward(at, "Write it down.")
        assert (await shown(at)).words.endswith(f": {FORWARD.source}")
        await by_the_line(at)
        await fired(at)
        assert refusals(at) == []
        await forward(at, "Write it down, too.")
        assert len(refusals(at)) == 1
        await shown(at)


async def test_the_day_stands_there_from_midnight_on() -> None:
    engine = ScriptedEngine().then(FETCH, Says("Read."))
    async with scene(engine, clock=ManualClock(AT_TWO + timedelta(hours=9))) as at:
        await at.ask("what is new?")
        assert (await shown(at)).words == "careful since 23:02: web page news.example"
        await at.until(lambda: at.clock.sleeping)
        await at.clock.advance(3443)
        await at.until(lambda: "yesterday" in str(at.chat.status.careful))
        assert (await shown(at)).words == "careful since yesterday 23:02: web page news.example"

"""Asking the owner: one card for each call, an answer that counts once, and always an end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.conversation.approval_scene import WRITE, Questions, button, outcome

from ollim_bot.domain.chat import Author
from ollim_bot.domain.owner_choices import Grants
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.domain.taint import TaintedCall
from ollim_bot.ports import Refusal, ToolCall

GRANT = "Write(./notes/**)"
SAME = ToolCall("Write", {"file_path": "/data/notes/b.txt", "content": "more"})
OTHER = ToolCall("Write", {"file_path": "plans/c.txt", "content": "else"})


@pytest.fixture
async def questions() -> Questions:
    return Questions()


async def test_the_owner_is_asked_once_with_the_whole_of_the_call(questions: Questions) -> None:
    (asking,) = await questions.asked()
    (message,) = questions.shown
    (card,) = questions.cards

    assert message.author is Author.PROGRAM
    assert card.problems() == []
    assert card.title == "Allow Write?"
    assert card.description == "`file_path`\n```\nnotes/a.txt\n```\n`content`\n```\nhello\n```"
    assert [each.label for each in card.buttons] == [
        "✅ Allow once",
        f"🔓 Always allow {GRANT}",
        "❌ Refuse",
    ]
    assert not asking.done()
    await questions.approvals.cancel()


async def test_once_lets_the_call_through_and_nothing_after_it(questions: Questions) -> None:
    (asking,) = await questions.asked()
    assert (await questions.click("once")).text == ""
    assert await questions.within(asking) is None
    await questions.until(lambda: outcome(questions.cards[0]) == "Allowed once.")
    assert questions.granted == []
    assert len(questions.shown) == 1

    (again,) = await questions.asked()
    assert not again.done()
    await questions.approvals.cancel()


async def test_no_grant_answers_a_question_that_a_strangers_words_may_be_behind(
    questions: Questions,
) -> None:
    await questions.set_mode(PermissionMode.DEFAULT)
    tainted = TaintedCall("a forwarded message", "change the profile")
    asking = asyncio.create_task(questions.approvals.decide_tainted(WRITE, tainted))
    await questions.until(lambda: len(questions.cards) == 1)
    plain = await questions.asked(SAME)
    await questions.click("always")
    assert await questions.within(plain[0]) is None
    assert questions.granted == [GRANT]
    again = asyncio.create_task(questions.approvals.decide_tainted(WRITE, tainted))
    await questions.until(lambda: len(questions.cards) == 3)
    assert not asking.done()
    assert [each.label for each in questions.cards[2].buttons] == ["✅ Allow once", "❌ Refuse"]
    assert questions.cards[2].problems() == []
    await questions.approvals.cancel()
    assert await questions.within(asking) is not None
    assert await questions.within(again) is not None


async def test_no_refuses_and_tells_the_model_to_leave_it(questions: Questions) -> None:
    (asking,) = await questions.asked()
    await questions.click("no")
    refusal = await questions.within(asking)
    assert refusal is not None
    assert refusal.reason.startswith("The owner said no")
    await questions.until(lambda: outcome(questions.cards[0]) == "Refused.")


async def test_always_is_remembered_and_listed_until_it_is_reset(questions: Questions) -> None:
    (asking,) = await questions.asked()
    await questions.click("always")
    assert await questions.within(asking) is None
    await questions.until(lambda: outcome(questions.cards[0]) == f"Allowed from now on: `{GRANT}`")
    assert questions.granted == [GRANT]
    assert [str(each) for each in (await questions.again()).approvals.granted()] == [GRANT]

    await questions.approvals.reset()
    assert questions.granted == []


async def test_always_on_one_card_answers_the_others_that_it_covers(questions: Questions) -> None:
    one, same, other = await questions.asked(WRITE, SAME, OTHER)
    await questions.click("always", 0)
    assert await questions.within(one) is None
    assert await questions.within(same) is None
    await questions.until(lambda: outcome(questions.cards[1]) == f"Allowed from now on: `{GRANT}`")
    assert not other.done()
    assert outcome(questions.cards[2]) == ""
    await questions.click("no", 2)
    assert await questions.within(other) is not None


async def test_what_was_granted_since_the_call_was_judged_is_not_asked_about(
    questions: Questions,
) -> None:
    questions.stores.state.run(lambda tx: tx.grants.put(Grants((GRANT,))))
    assert await questions.within(questions.ask()) is None
    assert questions.shown == []


async def test_a_call_that_fits_no_pattern_can_be_allowed_once_only(questions: Questions) -> None:
    await questions.asked(ToolCall("Bash", {"command": "cat 'a b'"}))
    assert [each.data.partition(":")[2] for each in questions.cards[0].buttons] == ["once", "no"]
    await questions.approvals.cancel()


async def test_nobody_answers_and_the_turn_goes_on(questions: Questions) -> None:
    await questions.set_mode(PermissionMode.DEFAULT, seconds=90)
    (asking,) = await questions.asked()
    await questions.until(lambda: questions.clock.sleeping == 1)
    await questions.clock.advance(89)
    assert not asking.done()
    await questions.clock.advance(1)
    refusal = await questions.within(asking)
    assert refusal is not None
    assert refusal.reason.startswith("Nobody answered in 1 min 30 s")
    await questions.until(lambda: outcome(questions.cards[0]).startswith("Expired"))
    assert questions.clock.sleeping == 0


async def test_cancelling_ends_all_that_is_open(questions: Questions) -> None:
    asking = await questions.asked(WRITE, OTHER)
    await questions.approvals.cancel()
    refusals = await questions.within(asyncio.gather(*asking))
    assert all(isinstance(each, Refusal) for each in refusals)
    await questions.until(
        lambda: [outcome(card) for card in questions.cards] == ["No longer needed."] * 2
    )


async def test_whoever_stops_waiting_leaves_no_open_card(questions: Questions) -> None:
    """As the engine does with a call of a turn that is interrupted."""
    (asking,) = await questions.asked()
    asking.cancel()
    await questions.until(lambda: outcome(questions.cards[0]) == "No longer needed.")
    await questions.until(lambda: questions.clock.sleeping == 0)
    assert (await questions.click("once")).is_error


async def test_the_first_answer_counts_and_the_second_is_told(questions: Questions) -> None:
    (asking,) = await questions.asked()
    (message,) = questions.shown
    answers = await asyncio.gather(
        *(
            questions.approvals.answer("web", message, button(message, word))
            for word in ("no", "once")
        )
    )
    assert [each.is_error for each in answers] == [False, True]
    assert isinstance(await questions.within(asking), Refusal)
    await questions.until(lambda: outcome(questions.cards[0]) == "Refused.")


async def test_a_click_that_comes_after_the_outcome_does_not_replace_it(
    questions: Questions,
) -> None:
    """It was made on the card as it stood before."""
    (asking,) = await questions.asked()
    (before,) = questions.shown
    await questions.click("once")
    assert await questions.within(asking) is None
    await questions.until(lambda: outcome(questions.cards[0]) == "Allowed once.")
    for _ in range(20):  # until the question is forgotten, and after it
        late = await questions.approvals.answer("web", before, button(before, "no"))
        assert late.is_error
    assert outcome(questions.cards[0]) == "Allowed once."


async def test_no_answer_counts_while_another_one_is_being_written_down(
    questions: Questions,
) -> None:
    (asking,) = await questions.asked()
    (message,) = questions.shown
    always = asyncio.create_task(
        questions.approvals.answer("web", message, button(message, "always"))
    )
    await asyncio.sleep(0)
    late = await questions.approvals.answer("web", message, button(message, "no"))
    assert late.is_error
    assert not (await questions.within(always)).is_error
    assert await questions.within(asking) is None
    assert questions.granted == [GRANT]


async def test_a_click_on_a_card_of_an_earlier_life_says_that_it_is_over(
    questions: Questions,
) -> None:
    (asking,) = await questions.asked()
    (message,) = questions.shown
    now = await questions.again()
    for word in ("always", "once"):
        answer = await now.approvals.answer("web", message, button(message, word))
        assert answer.is_error
        assert "over" in answer.text
    assert outcome(now.cards[0]).startswith("Expired")
    assert now.granted == []
    assert not asking.done()
    await questions.approvals.cancel()


async def test_a_button_of_another_message_answers_nothing(questions: Questions) -> None:
    """Whoever made it, and whatever it says."""
    (asking,) = await questions.asked()
    (message,) = questions.shown
    forged = replace(message, id="other")  # type: ignore[arg-type]
    assert (await questions.approvals.answer("web", forged, button(message, "once"))).is_error
    assert not asking.done()
    await questions.approvals.cancel()


@pytest.mark.parametrize(
    ("mode", "write", "read"),
    [
        (PermissionMode.DONT_ASK, "refused", "refused"),
        (PermissionMode.DEFAULT, "asked", "asked"),
        (PermissionMode.ACCEPT_EDITS, "made", "asked"),
        (PermissionMode.BYPASS, "made", "made"),
    ],
)
async def test_the_mode_decides(
    questions: Questions, mode: PermissionMode, write: str, read: str
) -> None:
    await questions.set_mode(mode)
    assert await what_happens(questions, WRITE) == write
    assert await what_happens(questions, ToolCall("Read", {"file_path": "a.txt"})) == read


async def what_happens(questions: Questions, call: ToolCall) -> str:
    seen = len(questions.cards)
    deciding = asyncio.create_task(questions.approvals.decide(call, "not allowed"))
    await questions.until(lambda: deciding.done() or len(questions.cards) > seen)
    await questions.approvals.cancel()
    refusal = await questions.within(deciding)
    if len(questions.cards) > seen:
        return "asked"
    assert refusal in (None, Refusal("not allowed"))
    return "made" if refusal is None else "refused"


async def test_the_mode_of_this_session_counts_before_the_stored_one(questions: Questions) -> None:
    approvals = questions.approvals
    assert await approvals.mode() is PermissionMode.DONT_ASK
    await approvals.set_mode(PermissionMode.BYPASS)
    assert await approvals.mode() is PermissionMode.BYPASS
    assert questions.stores.config.read().permission_mode == "dontAsk"
    assert await (await questions.again()).approvals.mode() is PermissionMode.DONT_ASK
    await approvals.reset()
    assert await approvals.mode() is PermissionMode.DONT_ASK


async def test_a_reset_leaves_nothing_open_and_nothing_granted(questions: Questions) -> None:
    one, other = await questions.asked(WRITE, OTHER)
    message = questions.shown[0]
    always = asyncio.create_task(
        questions.approvals.answer("web", message, button(message, "always"))
    )
    await questions.within(questions.approvals.reset())
    await questions.within(asyncio.gather(always, one, other))
    assert questions.granted == []
    assert isinstance(other.result(), Refusal)

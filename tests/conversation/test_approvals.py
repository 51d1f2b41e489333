"""Asking the owner: one card for each call, an answer that counts once, and always an end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.conversation.approval_scene import WRITE, ApprovalScene, button, outcome

from ollim_bot.domain.agent_caller import NeedsWord, asks
from ollim_bot.domain.chat import Author
from ollim_bot.domain.permissions import Grants
from ollim_bot.domain.runtime_config import PermissionMode
from ollim_bot.ports import Refusal, ToolCall

GRANT = "Write(./notes/**)"
SAME = ToolCall("Write", {"file_path": "/data/notes/b.txt", "content": "more"})
OTHER = ToolCall("Write", {"file_path": "plans/c.txt", "content": "else"})


@pytest.fixture
async def scene() -> ApprovalScene:
    return ApprovalScene()


async def test_the_owner_is_asked_once_with_the_whole_of_the_call(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    (message,) = scene.shown
    (card,) = scene.cards

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
    await scene.approvals.cancel()


async def test_once_lets_the_call_through_and_nothing_after_it(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    assert (await scene.click("once")).text == ""
    assert await scene.within(asking) is None
    await scene.until(lambda: outcome(scene.cards[0]) == "Allowed once.")
    assert scene.granted == []
    assert len(scene.shown) == 1

    (again,) = await scene.asked()
    assert not again.done()
    await scene.approvals.cancel()


async def test_no_grant_answers_a_question_that_a_strangers_words_may_be_behind(
    scene: ApprovalScene,
) -> None:
    await scene.set_mode(PermissionMode.DEFAULT)
    needs = NeedsWord("a forwarded message", asks("change the profile"))
    asking = asyncio.create_task(scene.approvals.decide(WRITE, needs))
    await scene.until(lambda: len(scene.cards) == 1)
    plain = await scene.asked(SAME)
    await scene.click("always")
    assert await scene.within(plain[0]) is None
    assert scene.granted == [GRANT]
    again = asyncio.create_task(scene.approvals.decide(WRITE, needs))
    await scene.until(lambda: len(scene.cards) == 3)
    assert not asking.done()
    assert [each.label for each in scene.cards[2].buttons] == ["✅ Allow once", "❌ Refuse"]
    assert scene.cards[2].problems() == []
    await scene.approvals.cancel()
    assert await scene.within(asking) is not None
    assert await scene.within(again) is not None


async def test_no_refuses_and_tells_the_model_to_leave_it(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    await scene.click("no")
    refusal = await scene.within(asking)
    assert refusal is not None
    assert refusal.reason.startswith("The owner said no")
    await scene.until(lambda: outcome(scene.cards[0]) == "Refused.")
    assert [each.label for each in scene.cards[0].buttons] == ["❌ Refuse"]


async def test_always_is_remembered_and_listed_until_it_is_reset(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    await scene.click("always")
    assert await scene.within(asking) is None
    await scene.until(lambda: outcome(scene.cards[0]) == f"Allowed from now on: `{GRANT}`")
    assert scene.granted == [GRANT]
    assert [str(each) for each in (await scene.restarted()).approvals.granted()] == [GRANT]

    await scene.approvals.reset()
    assert scene.granted == []


async def test_always_on_one_card_answers_the_others_that_it_covers(scene: ApprovalScene) -> None:
    one, same, other = await scene.asked(WRITE, SAME, OTHER)
    await scene.click("always", 0)
    assert await scene.within(one) is None
    assert await scene.within(same) is None
    await scene.until(lambda: outcome(scene.cards[1]) == f"Allowed from now on: `{GRANT}`")
    assert not other.done()
    assert outcome(scene.cards[2]) == ""
    await scene.click("no", 2)
    assert await scene.within(other) is not None


async def test_what_was_granted_since_the_call_was_judged_is_not_asked_about(
    scene: ApprovalScene,
) -> None:
    scene.stores.state.run(lambda tx: tx.grants.put(Grants((GRANT,))))
    assert await scene.within(scene.ask()) is None
    assert scene.shown == []


async def test_a_call_that_fits_no_pattern_can_be_allowed_once_only(scene: ApprovalScene) -> None:
    await scene.asked(ToolCall("Bash", {"command": "cat 'a b'"}))
    assert [each.data.partition(":")[2] for each in scene.cards[0].buttons] == ["once", "no"]
    await scene.approvals.cancel()


async def test_nobody_answers_and_the_turn_goes_on(scene: ApprovalScene) -> None:
    await scene.set_mode(PermissionMode.DEFAULT, seconds=90)
    (asking,) = await scene.asked()
    await scene.until(lambda: scene.clock.sleeping == 1)
    await scene.clock.advance(89)
    assert not asking.done()
    await scene.clock.advance(1)
    refusal = await scene.within(asking)
    assert refusal is not None
    assert refusal.reason.startswith("Nobody answered in 1 min 30 s")
    await scene.until(lambda: outcome(scene.cards[0]).startswith("Expired"))
    assert scene.clock.sleeping == 0


async def test_cancelling_ends_all_that_is_open(scene: ApprovalScene) -> None:
    asking = await scene.asked(WRITE, OTHER)
    await scene.approvals.cancel()
    refusals = await scene.within(asyncio.gather(*asking))
    assert all(isinstance(each, Refusal) for each in refusals)
    await scene.until(lambda: [outcome(card) for card in scene.cards] == ["No longer needed."] * 2)


async def test_a_call_that_stops_waiting_leaves_no_open_card(scene: ApprovalScene) -> None:
    """The engine cancels a waiting call when its turn is interrupted."""
    (asking,) = await scene.asked()
    asked = scene.shown[-1]
    asking.cancel()
    await scene.until(lambda: outcome(scene.cards[0]) == "No longer needed.")
    await scene.until(lambda: scene.clock.sleeping == 0)
    late = scene.approvals.answer("web", asked, button(asked, "once"))
    assert (await scene.within(late)).is_error


async def test_the_first_answer_counts_and_the_second_is_told(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    (message,) = scene.shown
    answers = await asyncio.gather(
        *(scene.approvals.answer("web", message, button(message, word)) for word in ("no", "once"))
    )
    assert [each.is_error for each in answers] == [False, True]
    assert isinstance(await scene.within(asking), Refusal)
    await scene.until(lambda: outcome(scene.cards[0]) == "Refused.")


async def test_a_click_that_comes_after_the_outcome_does_not_replace_it(
    scene: ApprovalScene,
) -> None:
    """The second click was made on the card before it showed the answer."""
    (asking,) = await scene.asked()
    (before,) = scene.shown
    await scene.click("once")
    assert await scene.within(asking) is None
    await scene.until(lambda: outcome(scene.cards[0]) == "Allowed once.")
    for _ in range(20):  # until the question is forgotten, and after it
        late = await scene.approvals.answer("web", before, button(before, "no"))
        assert late.is_error
    assert outcome(scene.cards[0]) == "Allowed once."


async def test_no_answer_counts_while_another_one_is_being_written_down(
    scene: ApprovalScene,
) -> None:
    (asking,) = await scene.asked()
    (message,) = scene.shown
    always = asyncio.create_task(scene.approvals.answer("web", message, button(message, "always")))
    await asyncio.sleep(0)
    late = await scene.approvals.answer("web", message, button(message, "no"))
    assert late.is_error
    assert not (await scene.within(always)).is_error
    assert await scene.within(asking) is None
    assert scene.granted == [GRANT]


async def test_a_click_on_a_card_of_an_earlier_run_says_that_it_is_over(
    scene: ApprovalScene,
) -> None:
    (asking,) = await scene.asked()
    (message,) = scene.shown
    now = await scene.restarted()
    for word in ("always", "once"):
        answer = await now.approvals.answer("web", message, button(message, word))
        assert answer.is_error
        assert "over" in answer.text
    assert outcome(now.cards[0]).startswith("Expired")
    assert now.granted == []
    assert not asking.done()
    await scene.approvals.cancel()


async def test_a_button_of_another_message_answers_nothing(scene: ApprovalScene) -> None:
    (asking,) = await scene.asked()
    (message,) = scene.shown
    forged = replace(message, id="other")  # type: ignore[arg-type]
    assert (await scene.approvals.answer("web", forged, button(message, "once"))).is_error
    assert not asking.done()
    await scene.approvals.cancel()


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
    scene: ApprovalScene, mode: PermissionMode, write: str, read: str
) -> None:
    await scene.set_mode(mode)
    assert await what_happens(scene, WRITE) == write
    assert await what_happens(scene, ToolCall("Read", {"file_path": "a.txt"})) == read


async def what_happens(scene: ApprovalScene, call: ToolCall) -> str:
    seen = len(scene.cards)
    deciding = asyncio.create_task(scene.approvals.decide(call, "not allowed"))
    await scene.until(lambda: deciding.done() or len(scene.cards) > seen)
    await scene.approvals.cancel()
    refusal = await scene.within(deciding)
    if len(scene.cards) > seen:
        return "asked"
    assert refusal in (None, Refusal("not allowed"))
    return "made" if refusal is None else "refused"


async def test_the_mode_of_this_session_counts_before_the_stored_one(scene: ApprovalScene) -> None:
    approvals = scene.approvals
    assert await approvals.mode() is PermissionMode.DONT_ASK
    await approvals.set_mode(PermissionMode.BYPASS)
    assert await approvals.mode() is PermissionMode.BYPASS
    assert scene.stores.config.read().permission_mode == "dontAsk"
    assert await (await scene.restarted()).approvals.mode() is PermissionMode.DONT_ASK
    await approvals.reset()
    assert await approvals.mode() is PermissionMode.DONT_ASK


async def test_a_reset_leaves_nothing_open_and_nothing_granted(scene: ApprovalScene) -> None:
    one, other = await scene.asked(WRITE, OTHER)
    message = scene.shown[0]
    always = asyncio.create_task(scene.approvals.answer("web", message, button(message, "always")))
    await scene.within(scene.approvals.reset())
    await scene.within(asyncio.gather(always, one, other))
    assert scene.granted == []
    assert isinstance(other.result(), Refusal)

"""Asking the owner: one card for each call, an answer that counts once, and always an end."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernel.conversation.approval_scene import WRITE, ApprovalScene, button, outcome
from tests.kernel.conversation.crashing import CrashingStore, StepCounter
from tests.kernel.conversation.failing_stores import FullDiskStore, UnreadableConfigStore
from tests.kernel.conversation.scene import call
from tests.kernel.values.strategies import json_values
from tests.stores import on_store

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.conversation.approvals import (
    ApprovalAnswer,
    answered_card,
    asking_card,
    read_button,
)
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.agent_caller import NeedsWord, asks
from ollim_bot.kernel.values.cards import Button, Color
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.permissions import LONGEST_GRANT, Grants, Pattern
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runtime_config import PermissionMode
from ollim_bot.surfaces.web.frames import render

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
    await scene.until(lambda: len(scene.cards) == 3 or again.done())
    assert not asking.done()
    assert not again.done()
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
    await scene.until(
        lambda: outcome(scene.cards[0]).startswith("Expired: no answer in 1 min 30 s.")
    )
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


async def test_a_mode_that_changes_over_an_open_question_decides_the_next_calls_only(
    scene: ApprovalScene,
) -> None:
    await scene.approvals.set_mode(PermissionMode.DEFAULT)
    asking = asyncio.create_task(scene.approvals.decide(WRITE, "not allowed"))
    await scene.until(lambda: len(scene.cards) == 1 or asking.done())
    assert not asking.done()
    await scene.approvals.set_mode(PermissionMode.DONT_ASK)
    assert await scene.approvals.decide(SAME, "not allowed") == Refusal("not allowed")
    await scene.approvals.set_mode(PermissionMode.BYPASS)
    assert await scene.approvals.decide(OTHER, "not allowed") is None
    assert not asking.done()
    assert (await scene.click("always")).text == ""
    assert await scene.within(asking) is None
    assert scene.granted == [GRANT]
    assert len(scene.shown) == 1


KEY = "0" * 32

LONG_GRANT = Pattern.of(f"Write(./{'n' * (LONGEST_GRANT - 13)}/**)")

awkward = st.lists(
    st.sampled_from(
        ["```", "`", "````\n", "\n```\n", "~~~", "x", "\n", "<b>", "**", "\u202e", "\r"]
    )
).map("".join)

values = awkward | json_values | st.integers(0, 6000).map(lambda length: "x" * length)

calls = st.builds(
    ToolCall,
    st.sampled_from(["Write", "Bash", "mcp__mail__send"]) | st.text(max_size=300),
    st.dictionaries(st.text(max_size=60), values, max_size=15),
    st.just("") | st.text(max_size=300),
)


def described(**arguments: object) -> str:
    return asking_card(ToolCall("Write", arguments), KEY, None).description


@given(calls, st.sampled_from([None, LONG_GRANT]))
def test_every_surface_takes_the_card_before_and_after_the_answer(
    call: ToolCall, grant: Pattern | None
) -> None:
    card = asking_card(call, KEY, grant)
    assert card.problems() == []
    pressed = card.buttons[-1]
    said = answered_card(card, f"Allowed from now on: `{GRANT}`", Color.GREEN, pressed)
    assert said.problems() == []
    assert (said.title, said.description) == (card.title, card.description)
    assert said.buttons == (pressed._replace(is_used=True),)
    assert all(len(button.custom_id) <= 100 for button in card.buttons)


@given(calls)
@example(ToolCall("Bash", {"command": "ls\n```\n**Allowed** `\n```"}))
def test_nothing_in_a_call_is_read_as_markup(call: ToolCall) -> None:
    description = asking_card(call, KEY, None).description
    parts = len(re.findall("^```$", description, re.MULTILINE)) / 2
    assert description.count("```") == 2 * parts

    outside = re.sub(r"<pre>.*?</pre>", "", render(description), flags=re.DOTALL)
    text = re.sub(r"</?(?:p|br|code)>", "\n", outside)
    plain = re.compile(r"\w{1,39}…?|\d+ more characters of it are not shown here\.")
    assert all(plain.fullmatch(line) for line in text.split("\n") if line.strip())


@given(st.lists(st.text(st.characters(categories=["L", "N", "P"]), max_size=300), max_size=10))
def test_what_fits_is_shown_whole(texts: list[str]) -> None:
    shown = described(**{f"argument{number}": text for number, text in enumerate(texts)})
    assert all(text in shown for text in texts)
    assert "not shown" not in shown


def test_a_text_as_long_as_a_card_is_whole_and_a_longer_one_says_what_is_missing() -> None:
    whole = described(content="x" * 4070)
    assert "x" * 4070 in whole
    cut = described(content="x" * 5000)
    (missing,) = re.findall(r"(\d+) more characters of it are not shown here", cut)
    assert cut.count("x") == 5000 - int(missing) > 3900


def test_a_long_argument_leaves_room_for_the_others() -> None:
    edit = {"file_path": "notes/a.txt", "old_string": "o" * 9000, "new_string": "n" * 1000}
    shown = described(**edit)
    assert "notes/a.txt" in shown
    assert "n" * 1000 in shown
    assert shown.count("o") > 2000
    both = described(file_path="x", old_string="<" * 9000, new_string=">" * 8000)
    assert min(both.count("<"), both.count(">")) > 1700


def test_what_a_call_does_comes_first_and_what_cannot_be_seen_is_written_out() -> None:
    shown = described(description="Shows the time", command="rm -r a\u202eb\u200bc")
    assert shown.index(r"rm -r a\u202eb\u200bc") < shown.index("Shows the time")


def test_arguments_that_are_no_text_are_shown_as_they_are() -> None:
    assert '{\n  "a": [\n    1,\n    true\n  ]\n}' in described(value={"a": [1, True]})
    assert all(f'"{number}": {number}' in described(**{str(n): n for n in range(20)})
               for number in range(20))  # fmt: skip


def test_who_asks_is_told() -> None:
    assert asking_card(ToolCall("Read", {}, subagent="gmail-reader"), KEY, None).title == (
        "Allow Read? (asked by gmail-reader)"
    )


@given(st.text())
def test_a_button_says_what_it_says_or_nothing(data: str) -> None:
    read = read_button(Button("x", "approve", data))
    assert read is None or data == f"{read[0]}:{read[1].value}"
    assert read_button(Button("x", "approve", f"{KEY}:always")) == (KEY, ApprovalAnswer.ALWAYS)


R = TypeVar("R")


async def test_what_cannot_be_remembered_is_not_granted_and_can_still_be_answered(
    scene: ApprovalScene,
) -> None:
    disk = FullDiskStore(scene.store, is_full=False)
    full = ApprovalScene(on_store(scene.stores, disk))
    (asking,) = await full.asked()
    disk.is_full = True
    answer = await full.click("always")
    assert answer.is_error
    assert "Allow it once" in answer.text
    assert not asking.done()
    await full.click("once")
    assert await full.within(asking) is None


async def test_what_cannot_be_shown_is_refused(scene: ApprovalScene) -> None:
    mute = ApprovalScene(on_store(scene.stores, FullDiskStore(scene.store)))
    refusal = await mute.within(mute.ask())
    assert refusal is not None
    assert "could not be asked" in refusal.reason


async def test_settings_that_cannot_be_read_ask_nobody(scene: ApprovalScene) -> None:
    blind = ApprovalScene(on_store(scene.stores, UnreadableConfigStore(scene.store)))
    assert await blind.approvals.mode() is PermissionMode.DONT_ASK
    assert await blind.approvals.decide(WRITE, "not allowed") == Refusal("not allowed")
    (asking,) = await blind.asked()
    await blind.until(lambda: blind.clock.sleeping == 1)
    await blind.clock.advance(600)
    assert isinstance(await blind.within(asking), Refusal)


class SlowStore(CrashingStore):
    """The first step while it `is_slow` waits until `may_go_on`."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, StepCounter())
        self.may_go_on = asyncio.Event()
        self.is_slow = False
        self.begun = 0

    async def transact(self, step: Step[R]) -> R:
        self.begun += self.is_slow
        if self.begun == 1:
            await self.may_go_on.wait()
        return await super().transact(step)


async def test_a_disk_that_hangs_keeps_no_call_waiting_for_longer(scene: ApprovalScene) -> None:
    hanging = SlowStore(scene.store)
    hanging.is_slow = True
    stuck = ApprovalScene(on_store(scene.stores, hanging))
    asking = stuck.ask()
    try:
        await stuck.until(lambda: hanging.begun > 0 and stuck.clock.sleeping == 1)
        await stuck.clock.advance(600)
        assert isinstance(await stuck.within(asking), Refusal)
    finally:
        hanging.may_go_on.set()


async def test_a_reset_takes_back_also_what_is_just_being_granted(scene: ApprovalScene) -> None:
    store = SlowStore(scene.stores.state)
    slow = ApprovalScene(on_store(scene.stores, store))
    asking, other = await slow.asked(WRITE, OTHER)
    store.is_slow = True
    granting = asyncio.create_task(slow.click("always", 0))
    try:
        await slow.until(lambda: store.begun == 1)
        reset = asyncio.create_task(slow.approvals.reset())
        await asyncio.wait({reset}, timeout=0.05)
    finally:
        store.may_go_on.set()
    answer = await slow.within(granting)
    await slow.within(reset)
    assert "too late" in answer.text
    for each in (asking, other):
        assert isinstance(await slow.within(each), Refusal)
    assert slow.granted == []


async def test_alone_it_shows_the_mode_and_what_was_allowed_for_good(scene: ApprovalScene) -> None:
    command = scene.command
    shown = await command.permissions(call())
    assert shown.startswith("Mode: `dontAsk` (what is not allowed beforehand is refused).")
    assert shown.endswith("You have allowed nothing with 🔓.")

    (asking,) = await scene.asked()
    await scene.click("always")
    await scene.within(asking)
    assert "until `/clear`:\n- `Write(./notes/**)`" in await command.permissions(call())
    await scene.approvals.reset()
    assert "allowed nothing" in await command.permissions(call())


@pytest.mark.parametrize("mode", PermissionMode)
async def test_a_mode_counts_for_this_session(scene: ApprovalScene, mode: PermissionMode) -> None:
    command = scene.command
    said = await command.permissions(call(mode=mode.upper()))
    assert said.startswith(f"Mode: `{mode}`")
    assert f"`/config permission_mode {mode}` sets it for good" in said
    assert await scene.approvals.mode() is mode
    assert (await command.permissions(call())).startswith(f"Mode: `{mode}`")
    assert scene.stores.config.read().permission_mode == "dontAsk"


async def test_a_mode_that_there_is_not_says_which_there_are(scene: ApprovalScene) -> None:
    with pytest.raises(WrongInput, match=r"no mode `ask`.* dontAsk, default, acceptEdits, bypass"):
        await scene.command.permissions(call(mode="ask"))

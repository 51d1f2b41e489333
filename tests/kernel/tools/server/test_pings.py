"""The tools that ping: from background runs only, once, within the budget; cards are checked."""

from __future__ import annotations

import asyncio
import re
from asyncio import Task
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.tools.server.tool_scene import (
    BACKGROUND,
    EVERYWHERE,
    NOW,
    MakeToolScene,
    ToolScene,
    make_tool_scene,
)

from ollim_bot.kernel.values.cards import Button, ButtonPrompts, ButtonStyle, Card, CardField, Color
from ollim_bot.kernel.values.chat import ON_ITS_WAY, Author
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, ReportMode
from ollim_bot.kernel.values.pings import Charge, PingBudget
from ollim_bot.kernel.values.ports import ToolAnswer
from ollim_bot.kernel.values.runs import RefusedPing, RunKind
from ollim_bot.kernel.values.taint import Taint

REPORT = "report_updates"
SPEAKING = [
    ("ping_user", {"message": "Three mails wait."}),
    ("discord_embed", {"title": "Three mails wait."}),
    ("send_file", {"file_path": "plan.md"}),
]


@pytest.mark.parametrize("kind", BACKGROUND)
async def test_a_ping_is_a_message_of_its_run_and_costs_a_token(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    assert await at.works("ping_user", message=" Three mails wait. ") == "Sent."
    (message,) = at.poster.messages
    assert (message.text, message.author, message.job) == (
        "Three mails wait.",
        Author.BACKGROUND,
        "Check the mail",
    )
    assert (message.session, message.at) == ("s-1", at.clock.now())
    assert message.id.isdecimal()
    assert at.run.pings == [message.id]
    assert at.poster.charges == [Charge.TOKEN]
    assert at.budget.tokens == 4


async def test_a_ping_in_the_quiet_is_kept_and_the_run_is_told_until_when(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    at.poster.held_until = NOW.replace(hour=7, minute=0)
    answer = await at.works("ping_user", message="Three mails wait.")
    assert answer == (
        "It is quiet until 7:00. The message is kept, and the owner gets it then, with the others."
    )
    assert at.run.has_pinged
    assert "pinged once already" in await at.is_refused("ping_user", message="And a fourth.")


async def test_the_ping_that_delivers_what_must_come_is_marked_for_the_channels(
    tool_scene: MakeToolScene,
) -> None:
    for must in (True, False):
        at = tool_scene(must=must)
        await at.works("ping_user", message="Take the pill.")
        assert [each.must for each in at.poster.messages] == [must]


@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK])
async def test_in_a_conversation_the_answer_is_the_ping(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    assert "your answer itself" in await at.is_refused("ping_user", message="hi")
    assert at.poster.messages == []


async def test_a_ping_without_words_is_none(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    await at.is_refused("ping_user", message=" \n")
    assert at.budget == PingBudget.full(NOW)
    assert not at.run.has_pinged


@pytest.mark.parametrize(
    ("report", "advice", "other"),
    [(ReportMode.FREELY, REPORT, "nothing else"), (ReportMode.BLOCKED, "End without", REPORT)],
)
async def test_a_refused_ping_costs_nothing_says_what_to_do_and_is_remembered(
    tool_scene: MakeToolScene, report: ReportMode, advice: str, other: str
) -> None:
    at = tool_scene(report=report)
    at.is_busy = True
    reason = await at.is_refused("ping_user", message="hi")
    assert "in the middle of a conversation" in reason
    assert advice in reason
    assert other not in reason
    assert at.budget.tokens == 5
    assert at.poster.messages == []
    assert at.run.refused_pings == [RefusedPing(reason, "hi")]
    assert not at.run.has_pinged


async def test_whether_the_owner_is_busy_is_asked_at_the_ping_and_not_at_the_start(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    at.is_busy = True
    await at.is_refused("ping_user", message="hi")
    at.is_busy = False
    await at.works("ping_user", message="hi")


async def test_of_two_pings_at_once_one_is_the_second(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    at.poster.may_arrive = asyncio.Event()
    first = asyncio.ensure_future(at.call("ping_user", message="one"))
    async with asyncio.timeout(60):
        await at.poster.paid.wait()
    assert "pinged once already" in await at.is_refused("ping_user", message="two")
    at.poster.may_arrive.set()
    assert not (await first).is_error
    assert [message.text for message in at.poster.messages] == ["one"]
    assert at.budget.tokens == 4


async def test_of_many_runs_at_once_exactly_one_gets_the_last_token(tmp_path: Path) -> None:
    store = RepeatingStore(lambda: NOW)
    runs = [make_tool_scene(tmp_path, store=store) for _ in range(8)]
    runs[0].empty_the_budget(left=1.0)
    answers = await asyncio.gather(*(at.call("ping_user", message="hi") for at in runs))
    assert [answer.is_error for answer in answers].count(False) == 1
    assert sum(len(at.poster.messages) for at in runs) == 1
    assert sum(at.run.has_pinged for at in runs) == 1
    assert (runs[0].budget.available, runs[0].budget.daily_used) == (0.0, 1)


async def test_every_tool_that_speaks_counts_as_the_one_ping(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    (at.context.root / "plan.md").write_text("plan")
    await at.works("send_file", file_path="plan.md")
    await at.is_refused("ping_user", message="hi")
    await at.is_refused("discord_embed", title="hi")
    await at.is_refused("send_file", file_path="plan.md")
    assert len(at.poster.messages) == 1


@pytest.mark.parametrize("critical", [True, False])
async def test_a_ping_that_did_not_arrive_leaves_everything_as_it_was(
    tool_scene: MakeToolScene, critical: bool
) -> None:
    at = tool_scene()
    at.poster.is_unreachable = True
    reason = await at.is_refused("ping_user", message="hi", critical=critical)
    assert "The chat cannot be reached." in reason
    assert at.budget == PingBudget.full(at.clock.now())
    assert not at.run.has_pinged
    assert not at.run.critical_used
    at.poster.is_unreachable = False
    await at.works("ping_user", message="hi", critical=critical)


async def test_a_critical_ping_comes_through_once_in_a_run(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    at.is_busy = True
    at.empty_the_budget()
    await at.works("ping_user", message="fire", critical=True)
    assert at.poster.charges == [Charge.CRITICAL]
    assert "pinged once already" in await at.is_refused("ping_user", message="x", critical=True)
    assert (at.budget.critical_used, at.budget.daily_used) == (1, 0)


async def test_the_owner_says_how_many_critical_pings_a_day_takes(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    at.stores.config.transact(lambda config: (replace(config, critical_daily_cap=1), None))
    at.poster.store.run(
        lambda tx: tx.budget.change(lambda budget: replace(budget, critical_used=1))
    )
    await at.works("ping_user", message="fire", critical=True)
    assert at.poster.charges == [Charge.TOKEN]


async def test_what_the_owner_ordered_comes_and_costs_nothing(tool_scene: MakeToolScene) -> None:
    at = tool_scene(must=True)
    at.empty_the_budget()
    await at.works("ping_user", message="Call mum")
    assert at.poster.charges == [Charge.NOTHING]
    assert at.budget.available == 0
    at.is_busy = True
    assert "pinged once already" in await at.is_refused("ping_user", message="And dad")
    assert at.clock.sleeping == 0


async def waiting(at: ToolScene, name: str = "ping_user", **arguments: object) -> Task[ToolAnswer]:
    """A call that waits for a quiet moment."""
    given = arguments or {"message": "Call mum"}
    call = asyncio.ensure_future(at.call(name, **given))
    async with asyncio.timeout(60):
        for _ in count():
            if at.clock.sleeping:
                break
            await asyncio.sleep(0)
    return call


@pytest.mark.parametrize(("name", "given"), SPEAKING)
async def test_what_the_owner_ordered_lets_the_owner_finish_first(
    tool_scene: MakeToolScene, name: str, given: dict[str, object]
) -> None:
    at = tool_scene(must=True)
    begun = at.clock.now()
    (at.context.root / "plan.md").write_text("plan")
    at.is_busy = True
    call = await waiting(at, name, **given)
    await at.clock.advance(45)
    assert at.poster.messages == []
    at.is_busy = False
    await at.clock.advance(1)
    assert (await call).text == "Sent."
    (message,) = at.poster.messages
    assert message.at == begun + timedelta(seconds=46)
    assert at.run.pings == [message.id]
    assert at.run.refused_pings == []
    assert at.clock.sleeping == 0


async def test_after_two_minutes_it_comes_all_the_same(tool_scene: MakeToolScene) -> None:
    at = tool_scene(must=True)
    at.is_busy = True
    call = await waiting(at)
    await at.clock.advance(119)
    assert not call.done()
    await at.clock.advance(1)
    assert (await call).text == "Sent."
    assert at.poster.charges == [Charge.NOTHING]


async def test_what_is_critical_does_not_wait(tool_scene: MakeToolScene) -> None:
    at = tool_scene(must=True)
    at.is_busy = True
    await at.works("ping_user", message="Call mum", critical=True)


async def test_who_is_stopped_while_it_waits_has_sent_nothing(tool_scene: MakeToolScene) -> None:
    at = tool_scene(must=True)
    at.is_busy = True
    call = await waiting(at)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert at.poster.messages == []
    assert not at.run.has_pinged


async def test_where_pings_are_switched_off_nothing_helps(tool_scene: MakeToolScene) -> None:
    at = tool_scene(allow_ping=False)
    assert "switched off" in await at.is_refused("ping_user", message="hi", critical=True)
    ordered = tool_scene(allow_ping=False, must=True)
    ordered.is_busy = True
    assert "switched off" in await ordered.is_refused("ping_user", message="hi")


async def test_what_nobody_has_confirmed_yet_is_said_to_be_on_its_way(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    at.poster.is_slow = True
    assert await at.works("ping_user", message="Call the bank.") == ON_ITS_WAY
    assert at.run.has_pinged


@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_reminder_becomes_a_due_item_only_if_its_card_is_shown(
    tool_scene: MakeToolScene, is_refused: bool
) -> None:
    at = tool_scene(job=Reminder(JobSpec(id="tea", message="Tea"), NOW), allow_ping=not is_refused)
    answer = await at.call("ping_user", message="Tea")
    assert answer.is_error is is_refused
    cards = [message.card for message in at.poster.messages]
    data = [button.data for card in cards if card for button in card.buttons]
    shown = {each.removeprefix("item:").partition(":")[0] for each in data}
    assert shown == {item.key for item in at.stores.state.query(lambda tx: tx.due_items.open())}
    assert len(shown) == int(not is_refused)


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_a_card_is_shown_from_everywhere(tool_scene: MakeToolScene, kind: RunKind) -> None:
    at = tool_scene(kind)
    assert await at.works("discord_embed", title="Today") == "Sent."
    (message,) = at.poster.messages
    assert (message.card, message.text) == (Card("Today"), "Today")
    is_background = kind.is_background
    assert message.author is (Author.BACKGROUND if is_background else Author.ASSISTANT)
    assert at.budget.tokens == (4 if is_background else 5)


@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK])
async def test_in_a_conversation_cards_are_not_counted(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind)
    at.is_busy = True
    at.empty_the_budget()
    for _ in range(3):
        await at.works("discord_embed", title="Today")
    assert len(at.poster.messages) == 3


async def test_a_card_has_all_that_was_asked_for(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    await at.works(
        "discord_embed",
        title=" Mail ",
        description="Three wait.",
        color="red",
        fields=[{"name": "From", "value": "Ann", "inline": True}, {"name": "Age", "value": "2 d"}],
        buttons=[{"label": "Later", "action": "dismiss", "style": "danger"}],
    )
    (message,) = at.poster.messages
    assert message.card == Card(
        "Mail",
        "Three wait.",
        Color.RED,
        (CardField("From", "Ann", True), CardField("Age", "2 d")),
        (Button("Later", "dismiss", style=ButtonStyle.DANGER),),
    )
    assert message.text == "Mail\nThree wait.\nFrom: Ann\nAge: 2 d"


async def test_the_prompt_of_a_button_is_stored_under_a_key_of_eight_digits(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    at.run.taint = Taint(("mail",))
    prompt = "Answer Ann: yes, at 9:00. " * 20
    buttons = [
        {"label": "Yes", "action": f"agent:{prompt}"},
        {"label": "No", "action": "agent: Say no."},
    ]
    await at.works("discord_embed", title="Ann asks", buttons=buttons)
    card = at.poster.messages[0].card
    assert card is not None
    waiting = at.stores.inquiries.read().waiting
    assert [one.data for one in card.buttons] == [one.key for one in waiting]
    assert all(re.fullmatch("[0-9a-f]{8}", one.key) for one in waiting)
    assert [one.prompt for one in waiting] == [prompt.strip(), "Say no."]
    assert {one.ts for one in waiting} == {at.clock.now().timestamp()}
    assert {one.untrusted for one in waiting} == {("mail",)}
    assert all(len(one.custom_id) <= 100 for one in card.buttons)


async def test_a_card_that_nobody_saw_leaves_no_prompts_behind(tool_scene: MakeToolScene) -> None:
    at = tool_scene(allow_ping=False)
    buttons = [{"label": "Yes", "action": "agent:Say yes."}]
    await at.is_refused("discord_embed", title="Ann asks", buttons=buttons)
    assert at.stores.inquiries.read() == ButtonPrompts()


@pytest.mark.parametrize(
    "action", ["agent:", "agent", "approve:1", "fork_save", "undo:x", "", "dismiss:me", "quiet:2h"]
)
async def test_the_agent_makes_no_buttons_of_the_programs_own(
    tool_scene: MakeToolScene, action: str
) -> None:
    at = tool_scene()
    buttons = [{"label": "Nice", "action": action}]
    reason = await at.is_refused("discord_embed", title="Ann asks", buttons=buttons)
    assert "“Nice” has to be `agent:<prompt>`" in reason
    assert at.poster.messages == []


async def test_a_button_that_makes_it_quiet_says_until_when(tool_scene: MakeToolScene) -> None:
    at = tool_scene()
    ends = ("2026-11-16T15:00", "2026-11-18T07:30")
    buttons = [{"label": "Done", "action": f"quiet:{end}"} for end in ends]
    await at.works("discord_embed", title="Quiet?", buttons=buttons, job="3f2a9c1b")
    (message,) = at.poster.messages
    assert message.card is not None
    assert message.card.job == "3f2a9c1b"
    assert [(each.label, each.data) for each in message.card.buttons] == [
        ("Quiet until 15:00", ends[0]),
        ("Quiet until Wed 18 Nov 07:30", ends[1]),
    ]
    for end in ("2h", "2026-02-31T07:00", "until 3pm", ""):
        wrong = [{"label": "Quiet", "action": f"quiet:{end}"}]
        assert "`quiet:2026-11-19T15:00`" in await at.is_refused(
            "discord_embed", title="Quiet?", buttons=wrong
        )


@pytest.mark.parametrize("kind", BACKGROUND)
@pytest.mark.parametrize(("name", "given"), SPEAKING)
async def test_whatever_a_late_run_says_is_labelled_and_no_other(
    tool_scene: MakeToolScene, kind: RunKind, name: str, given: dict[str, object]
) -> None:
    for late_since, label in (
        (NOW - timedelta(hours=1), "Late: it was due today 8:00."),
        (None, ""),
    ):
        at = tool_scene(kind)
        (at.context.root / "plan.md").write_text("plan")
        at.run.late_since = late_since
        await at.works(name, **given)
        assert [message.footer for message in at.poster.messages] == [label]


async def test_the_day_is_that_of_the_message_also_if_it_had_to_wait(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(must=True)
    at.run.late_since = NOW
    await at.clock.advance(timedelta(hours=14, minutes=59, seconds=30).total_seconds())
    at.is_busy = True
    call = await waiting(at)
    await at.clock.advance(60)
    at.is_busy = False
    await at.clock.advance(1)
    assert (await call).text == "Sent."
    (message,) = at.poster.messages
    assert message.footer == "Late: it was due yesterday 9:00."

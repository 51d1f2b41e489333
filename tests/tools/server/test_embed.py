"""`discord_embed`: cards everywhere, their limits explained, their prompts stored."""

from __future__ import annotations

import re

import pytest
from tests.tools.server.tool_scene import EVERYWHERE, MakeToolScene

from ollim_bot.domain.button_prompts import ButtonPrompts
from ollim_bot.domain.cards import Button, ButtonStyle, Card, CardField, Color
from ollim_bot.domain.chat import Author
from ollim_bot.domain.runs import RunKind


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


async def test_every_limit_that_a_card_breaks_is_explained_at_once(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    reason = await at.is_refused(
        "discord_embed",
        title="t" * 257,
        fields=[{"name": "n", "value": "v"}] * 26,
        buttons=[{"label": "l", "action": f"agent:{number}"} for number in range(6)],
    )
    assert "title takes 256 characters at most; this one has 257." in reason
    assert "25 fields at most; this one has 26." in reason
    assert "5 buttons at most; this one has 6." in reason
    assert at.stores.inquiries.read() == ButtonPrompts()
    assert at.budget.tokens == 5


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

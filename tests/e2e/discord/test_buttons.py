"""Buttons on Discord: each does what it says, once, and then shows that it was used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.state import Message
from tests.e2e.bot import LIMIT
from tests.e2e.discord.talk import WELCOME, Talk, custom_id, words

from ollim_bot.offline.messages import CallTool, Hang, Reply, Say

USED = "This button was used before, or has expired."
GONE = "This button is not there any more."
UNKNOWN = "This button is from a message that I no longer know."

ROUTINE = """---
id: plan
cron: "0 9 * * *"
description: Plan the day
---
What is the one thing today?
"""
REMINDER = """---
id: dentist
run-at: "2099-01-07T09:00:00+01:00"
---
Call the dentist.
"""


@pytest.fixture
def talk(talk: Talk) -> Talk:
    """On a Discord that lets the bot say many things in a row."""
    talk.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return talk


async def answered(talk: Talk, message: Message, label: str) -> str:
    """Press a button, and wait for the words that only the owner sees."""
    pressed = await talk.press(message, label)
    return await words_of(talk, pressed)


async def words_of(talk: Talk, pressed: Interaction) -> str:
    await talk.until(lambda: pressed.followups)
    assert pressed.followups[-1].is_ephemeral
    assert not pressed.late
    return pressed.followups[-1].text


def states(message: Message) -> Mapping[str, bool]:
    """Its buttons, and whether each can be pressed."""
    return {str(each["label"]): not each.get("disabled") for each in message.buttons}


async def page_states(talk: Talk, title: str) -> Mapping[str, bool]:
    """The same, as the page shows the newest card with this title."""
    cards = [one["card"] for one in await talk.bot.messages() if one["card"]]
    card = next(each for each in reversed(cards) if each["title"] == title)
    return {each["label"]: not each["is_used"] for each in card["buttons"]}


async def shows(talk: Talk, message: Message, title: str, **expected: bool) -> None:
    """Wait until the buttons are such, on Discord and on the page."""
    wanted = {label.replace("_", " "): can for label, can in expected.items()}
    await talk.until(lambda: states(message) == wanted)
    assert await page_states(talk, title) == wanted


def write(talk: Talk, name: str, text: str) -> None:
    path = talk.bot.data / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def read(talk: Talk, name: str) -> str:
    path = talk.bot.data / name
    return path.read_text() if path.exists() else ""


async def card_of(talk: Talk, command: str, title: str) -> Message:
    assert (await talk.command(command)).is_deleted
    overview = await talk.card(command.capitalize())
    await talk.press(overview, "1 · More")
    return await talk.card(title)


def embed(**given: object) -> Reply:
    return Reply((CallTool("mcp__discord__discord_embed", given),))


async def in_a_fork(talk: Talk) -> Message:
    """Gives its entry card, when it has answered once."""
    await talk.ask("my cat is Miso", "Noted.")
    talk.model.answers("In May.")
    await talk.command("fork", topic="Rome")
    await talk.said_with("In May.")
    return await talk.card("Side conversation")


async def test_set_up_asks_the_agent_once_however_often_it_is_pressed(talk: Talk) -> None:
    welcome = await talk.card(WELCOME)
    talk.model.answers("How are you called?")
    button = custom_id(welcome, "Set up")
    clicks = [talk.discord.click(welcome.id, button) for _ in range(2)]
    await talk.said("How are you called?")
    await talk.until(lambda: all(each.answer is not None for each in clicks))
    await shows(talk, welcome, WELCOME, Set_up=False, What_I_can_do=True)
    assert await words_of(talk, talk.discord.press(welcome, button)) == USED
    assert [each.text for each in talk.discord.messages] == ["", "How are you called?"]
    assert len(talk.model.requests) == 1
    assert talk.model.requests[0].last_user_text.startswith("[button]")


async def test_cards_of_the_agent_ask_it_or_go_away_also_after_a_restart(talk: Talk) -> None:
    buttons = [
        {"label": "Book it", "action": "agent:Book the table."},
        {"label": "Not now", "action": "dismiss"},
    ]
    talk.model.then(embed(title="A table for two?", buttons=buttons), Reply((Say("Shown."),)))
    talk.discord.say("dinner?")
    await talk.said("Shown.")
    card = await talk.card("A table for two?")
    await talk.bot.stop()
    await talk.bot.start()
    await talk.said("-# back. our conversation goes on.")

    await talk.press(card, "Not now")
    await shows(talk, card, "A table for two?", Book_it=True, Not_now=False)
    talk.model.answers("Booked.")
    await talk.press(card, "Book it")
    await talk.said("Booked.")
    await shows(talk, card, "A table for two?", Book_it=False, Not_now=False)
    assert "Book the table." in talk.model.requests[-1].last_user_text


async def test_a_fork_is_saved_by_its_button(talk: Talk) -> None:
    card, main = await in_a_fork(talk), talk.bot.session()
    await talk.press(card, "Keep all of it")
    end = await talk.card("Side conversation ended — all of it kept")
    assert "This is the main conversation now." in words(end)
    assert talk.bot.session() != main
    await shows(
        talk, card, "Side conversation", Keep_all_of_it=False, Keep_a_summary=False, Leave_it=False
    )
    assert await words_of(talk, talk.discord.press(card, "act:fork_exit:")) == USED


async def test_a_fork_is_reported_by_its_button(talk: Talk) -> None:
    card = await in_a_fork(talk)
    call = CallTool("mcp__discord__report_updates", {"message": "We chose Rome."})
    talk.model.then(Reply((call,)), Reply((Say("Reported."),)))
    await talk.press(card, "Keep a summary")
    end = await talk.card("Side conversation ended — summary kept")
    assert "We chose Rome." in words(end)
    await shows(
        talk, card, "Side conversation", Keep_all_of_it=False, Keep_a_summary=False, Leave_it=False
    )
    await talk.ask("and now?", "Rome it is.")
    assert "We chose Rome." in talk.model.requests[-1].last_user_text


async def test_a_fork_is_left_by_its_button_even_while_it_answers(talk: Talk) -> None:
    card, main = await in_a_fork(talk), talk.bot.session()
    talk.model.then(Hang())
    talk.discord.say("and where?")
    await talk.model.seen(3, LIMIT)
    await talk.press(card, "Leave it")
    await talk.card("Side conversation ended — left")
    await shows(
        talk, card, "Side conversation", Keep_all_of_it=False, Keep_a_summary=False, Leave_it=False
    )
    assert talk.bot.session() == main


async def test_a_fork_that_the_agent_wants_to_save_is_kept_open_or_saved(talk: Talk) -> None:
    await in_a_fork(talk)
    main = talk.bot.session()
    save = Reply((CallTool("mcp__discord__save_context", {}),))
    talk.model.then(save, Reply((Say("Shall I?"),)))
    talk.discord.say("keep this")
    first = await talk.card("Keep all of this side conversation?")
    await talk.press(first, "Go on talking")
    await shows(
        talk,
        first,
        "Keep all of this side conversation?",
        Go_on_talking=False,
        Keep_all_of_it=False,
    )
    assert talk.bot.session() == main

    talk.model.then(save, Reply((Say("Now?"),)))
    talk.discord.say("keep it now")
    await talk.until(lambda: _count(talk, "Keep all of this side conversation?") == 2)
    second = await talk.card("Keep all of this side conversation?")
    await talk.press(second, "Keep all of it")
    await talk.card("Side conversation ended — all of it kept")
    await shows(
        talk,
        second,
        "Keep all of this side conversation?",
        Go_on_talking=False,
        Keep_all_of_it=False,
    )
    assert talk.bot.session() != main


async def test_a_new_routine_is_undone_by_its_button(talk: Talk) -> None:
    path = str(talk.bot.data / "routines" / "plan.md")
    call = CallTool("Write", {"file_path": path, "content": ROUTINE})
    talk.model.then(Reply((call,)), Reply((Say("Written."),)))
    talk.discord.say("plan every day")
    title = "Routine added: Plan the day"
    card = await talk.card(title)
    await talk.said("Written.")
    assert await answered(talk, card, "Undo") == "Undone. “Plan the day” is gone again."
    assert not read(talk, "routines/plan.md")
    await shows(talk, card, title, Undo=False)


async def test_a_routine_is_paused_resumed_skipped_and_cancelled(talk: Talk) -> None:
    write(talk, "routines/plan.md", ROUTINE)
    title = "Plan the day"
    card = await card_of(talk, "routines", title)
    ready = {"Run_now": True, "Skip_once": True, "Pause": True, "Cancel": True}
    await shows(talk, card, title, **ready)
    assert await answered(talk, card, "Pause") == "Paused: Plan the day."
    await shows(talk, card, title, Run_now=True, Resume=True, Cancel=True)
    assert "enabled: false" in read(talk, "routines/plan.md")
    assert (await answered(talk, card, "Resume")).startswith("Resumed: Plan the day, ")
    await shows(talk, card, title, **ready)
    assert "enabled" not in read(talk, "routines/plan.md")
    assert (await answered(talk, card, "Skip once")).startswith("Skipped: Plan the day, ")
    await shows(talk, card, title, Run_now=True, Do_not_skip=True, Pause=True, Cancel=True)
    assert (await answered(talk, card, "Do not skip")).startswith("Resumed: Plan the day, ")
    await shows(talk, card, title, **ready)

    assert await answered(talk, card, "Cancel") == "Cancelled: Plan the day."
    assert not read(talk, "routines/plan.md")
    await shows(talk, card, "Routine cancelled: Plan the day", Undo=True)
    assert await answered(talk, card, "Undo") == "Undone. “Plan the day” is as it was before."
    assert "What is the one thing today?" in read(talk, "routines/plan.md")


async def test_a_routine_runs_now_by_its_button_and_runs_tells_of_it(talk: Talk) -> None:
    write(talk, "routines/plan.md", ROUTINE.replace("cron", "background: true\ncron"))
    card = await card_of(talk, "routines", "Plan the day")
    talk.model.then(Hang())
    running = "Running now: Plan the day. `/runs` shows what comes of it."
    assert await answered(talk, card, "Run now") == running
    await talk.model.seen(1, LIMIT)
    assert "What is the one thing today?" in talk.model.requests[0].last_user_text
    assert await answered(talk, card, "Run now") == "“Plan the day” is running already."
    told = await talk.command("runs")
    assert ", by hand: Plan the day, " in told.text


async def test_a_reminder_is_snoozed_and_cancelled_before_it_comes(talk: Talk) -> None:
    write(talk, "reminders/dentist.md", REMINDER)
    card = await card_of(talk, "reminders", "Call the dentist.")
    later = await answered(talk, card, "Snooze 1 h")
    assert later.startswith("Snoozed: Call the dentist, Wed 7 Jan 2099 10:00")
    assert "2099-01-07T10:00" in read(talk, "reminders/dentist.md")
    later = await answered(talk, card, "Next day 9:00")
    assert later.startswith("Snoozed: Call the dentist, Thu 8 Jan 2099 09:00")
    assert "2099-01-08T09:00" in read(talk, "reminders/dentist.md")
    assert await answered(talk, card, "Cancel") == "Cancelled: Call the dentist."
    assert not read(talk, "reminders/dentist.md")


async def test_a_reminder_that_came_is_done_or_comes_again(talk: Talk) -> None:
    labels = ("Done", "Snooze 10 min", "1 h", "Tomorrow 9:00")
    reminders = talk.bot.data / "reminders"
    at = (datetime.now(UTC) + timedelta(seconds=1)).replace(microsecond=0)
    for name, label in enumerate(labels):
        head = f'---\nid: r{name}\nrun-at: "{at.isoformat()}"\n---\n'
        write(talk, f"reminders/r{name}.md", f"{head}For {label}.\n")
    await talk.until(lambda: not list(reminders.glob("*.md")))
    for set_again, label in enumerate(labels):
        card = await talk.card(f"For {label}.")
        button = custom_id(card, label)
        await talk.press(card, label)
        await talk.until(lambda card=card: states(card) == {"Undo": True})
        line = words(card).partition("\n")[0]
        assert line.startswith("✓ For Done · " if label == "Done" else f"⏱ For {label} · again ")
        assert await page_states(talk, line) == states(card)
        await talk.until(lambda n=set_again: len(list(reminders.glob("*.md"))) == n)
        assert await words_of(talk, talk.discord.press(card, button)) == GONE
    await talk.press(card, "Undo")
    await talk.until(lambda: list(states(card)) == [*labels, "Other…"])
    assert words(card).startswith("For Tomorrow 9:00.")
    await talk.until(lambda: len(list(reminders.glob("*.md"))) == len(labels) - 2)


async def test_a_button_that_leads_nowhere_says_so(talk: Talk) -> None:
    await talk.bot.stop()
    goodbye = await talk.said("-# shutting down")
    await talk.bot.start()
    await talk.said("-# back.")
    welcome = await talk.card(WELCOME)
    for custom in ("act:dismiss:", "act:approve:1:once", "something else"):
        assert await words_of(talk, talk.discord.press(goodbye, custom)) == UNKNOWN
        assert await words_of(talk, talk.discord.press(welcome, custom)) == GONE
    assert not talk.model.requests


async def test_a_card_that_is_answered_on_the_page_is_closed_on_discord(talk: Talk) -> None:
    welcome = await talk.card(WELCOME)
    talk.model.answers("How are you called?")
    await talk.bot.press("Set up")
    await talk.said("How are you called?")
    await shows(talk, welcome, WELCOME, Set_up=False, What_I_can_do=True)
    assert await words_of(talk, talk.discord.press(welcome, custom_id(welcome, "Set up"))) == USED
    await talk.said("> Set up\n-# from the page")


def _count(talk: Talk, title: str) -> int:
    return sum(title in words(each) for each in talk.discord.said)

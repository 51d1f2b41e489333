"""Discord and the page at once: one conversation, one order, one log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from devtools.localdiscord.state import Message
from tests.e2e.discord.talk import Talk, words

from ollim_bot.surfaces.discord.rendering import undated

MANY = 4


async def answered(talk: Talk, text: str) -> None:
    """Wait until it is said on Discord for good: a draft may say the same before."""
    await talk.said(text)
    await talk.until(lambda: not talk.bot.open_inputs())


def quoted(text: str) -> str:
    """What the owner says on the page, as Discord shows it."""
    return f"> {text}\n-# from the page"


async def on_the_page(talk: Talk) -> list[str]:
    """What the page shows, without the welcome, in the form that it has on Discord."""
    shown = (await talk.bot.messages())[1:]
    form: Mapping[str, Callable[[str], str]] = {"owner": quoted, "program": "-# {}".format}
    heard = {each.text for each in talk.discord.messages if each.author == talk.discord.owner}
    return [
        one["text"] if one["text"] in heard else form.get(one["author"], str)(one["text"])
        for one in shown
    ]


def on_discord(talk: Talk) -> list[str]:
    """What stands there, without the welcome and what is in no log."""
    return [each.text for each in talk.discord.messages[1:] if each.text != "-# shutting down"]


async def test_what_is_said_on_one_is_on_the_other_in_one_order(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")
    await answered(talk, "Hi Ada.")
    talk.model.answers("Two things:\n\n- milk\n- bread")
    await talk.bot.say("what is on my list?")
    await answered(talk, "Two things:\n\n- milk\n- bread")
    await talk.ask("thanks", "Any time.")
    await answered(talk, "Any time.")
    assert on_discord(talk) == [
        "hello",
        "Hi Ada.",
        quoted("what is on my list?"),
        "Two things:\n\n- milk\n- bread",
        "thanks",
        "Any time.",
    ]
    assert await on_the_page(talk) == on_discord(talk)


async def test_a_restart_repeats_nothing_and_knows_what_stands_where(talk: Talk) -> None:
    answer = await talk.ask("hello", "Hi Ada.")
    await answered(talk, "Hi Ada.")
    talk.model.answers("From there.")
    await talk.bot.say("and from here")
    await answered(talk, "From there.")
    await talk.bot.stop()
    await talk.bot.start()
    await talk.said("-# back. our conversation goes on.")
    talk.model.answers("Because it is morning.")
    talk.discord.say("why?", reply_to=answer.id)
    await answered(talk, "Because it is morning.")
    assert "> Hi Ada.\n\nwhy?" in talk.model.requests[-1].last_user_text
    assert on_discord(talk) == [
        "hello",
        "Hi Ada.",
        quoted("and from here"),
        "From there.",
        "-# back. our conversation goes on.",
        "why?",
        "Because it is morning.",
    ]
    assert await on_the_page(talk) == on_discord(talk)
    shown = await talk.bot.messages()
    asked = next(one for one in shown if one["text"] == "why?")
    assert asked["reply_to"]["id"] == next(one["id"] for one in shown if one["text"] == "Hi Ada.")


async def test_what_is_said_on_the_page_during_an_outage_arrives_later_once_in_order(
    talk: Talk,
) -> None:
    await talk.ask("hello", "Hi Ada.")
    talk.discord.allowance(100, 5.0)
    await talk.discord.refuse_connections()
    for number in range(MANY):
        talk.model.answers(f"Answer {number}.")
        await talk.bot.ask(f"question {number}")
    assert len(talk.discord.messages) == 3
    await talk.discord.accept_again()
    await talk.said_with(f"Answer {MANY - 1}.")
    await talk.ask("and now", "Here again.")
    waited = [
        text
        for number in range(MANY)
        for text in (quoted(f"question {number}"), f"Answer {number}.")
    ]
    expected = ["hello", "Hi Ada.", *waited, "and now", "Here again."]
    # A draft that was on its way when the connection broke is turned into its answer in the end.
    await talk.until(lambda: len(_without_drafts(talk.discord.messages[1:])) >= len(expected))
    assert _without_drafts(talk.discord.messages[1:]) == expected


async def test_a_button_pressed_on_one_is_used_on_the_other(talk: Talk) -> None:
    await talk.bot.command("/fork a trip to Rome")
    card = await talk.card("Side conversation")
    await talk.said_with("ok")
    await talk.bot.press("Leave it")
    await talk.card("Side conversation ended — left")
    await talk.until(lambda: all(each.get("disabled") for each in card.buttons))
    await talk.bot.title("Side conversation ended — left")


def _without_drafts(messages: Sequence[Message]) -> list[str]:
    """A status line stands until the words are there, and nothing waits for its end."""
    texts = (undated(words(each)) for each in messages)
    return [text for text in texts if not text.startswith("-# ")]

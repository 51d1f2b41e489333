"""The bot asks on Discord before it does what nothing allows, by reactions and by buttons."""

from __future__ import annotations

import pytest
from devtools.localdiscord.faults import AnswerLost, Delayed
from devtools.localdiscord.state import Message
from tests.e2e.bot import LIMIT
from tests.e2e.discord.talk import Talk, custom_id, words

from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say

TITLE = "Allow Write?"
OVER = "This question is over: nothing waits for an answer to it any more."
USED = "This button was used before, or has expired."


@pytest.fixture
async def talk(talk: Talk) -> Talk:
    """Whoever is asked has said so; and Discord lets the bot say many things in a row."""
    talk.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    await talk.bot.command("/permissions default")
    return talk


async def asked(talk: Talk, name: str = "milk.txt") -> Message:
    """The agent wants to write a file; gives the card that asks about it."""
    before = len(cards(talk))
    _write(talk, name)
    talk.discord.say(f"write {name}")
    await talk.until(lambda: len(cards(talk)) > before)
    return cards(talk)[-1]


def cards(talk: Talk) -> list[Message]:
    return [each for each in talk.discord.said if TITLE in words(each)]


def is_written(talk: Talk, name: str = "milk.txt") -> bool:
    return (talk.bot.data / "notes" / name).exists()


async def closed(talk: Talk, card: Message, outcome: str) -> None:
    """Wait until the card says what came of it, on Discord and on the page."""
    await talk.until(lambda: f"Answer: {outcome}" in words(card))
    assert card.buttons
    assert all(each["disabled"] for each in card.buttons)
    custom = card.buttons[0]["custom_id"]
    (shown,) = [
        one["card"]
        for one in await talk.bot.messages()
        if one["card"] and custom in [each["custom_id"] for each in one["card"]["buttons"]]
    ]
    assert [each["is_used"] for each in shown["buttons"]] == [True] * len(card.buttons)
    assert [each["name"] for each in shown["fields"]] == ["Answer"]


async def test_a_question_shows_the_tool_its_whole_argument_and_three_answers(talk: Talk) -> None:
    card = await asked(talk)
    (embed,) = card.embeds
    assert f"`file_path`\n```\n{talk.bot.data}/notes/milk.txt\n```" in embed["description"]
    assert "`content`\n```\nmilk.txt\n\n```" in embed["description"]
    (grant,) = embed["fields"]
    assert grant["name"] == "🔓 allows from now on"
    pattern, _, words = grant["value"].partition(" ")
    assert words == "(every file below this folder)"
    labels = [each["label"] for each in card.buttons]
    assert labels == ["✅ Allow once", f"🔓 Always allow {pattern[1:-1]}", "❌ Refuse"]
    assert not is_written(talk)


@pytest.mark.parametrize("by", ["button", "reaction"])
@pytest.mark.parametrize(
    ("sign", "outcome"),
    [("✅", "Allowed once."), ("🔓", "Allowed from now on: "), ("❌", "Refused.")],
)
async def test_each_answer_counts_for_what_it_says(
    talk: Talk, by: str, sign: str, outcome: str
) -> None:
    card = await asked(talk)
    if by == "button":
        pressed = await talk.press(card, sign)
        assert not pressed.late
    else:
        talk.discord.react(card.id, "🎉")
        talk.discord.react(card.id, sign)
    trace = "\n-# Refused: Write(notes/milk.txt)." if sign == "❌" else ""
    await talk.said("Done with milk.txt." + trace)
    await closed(talk, card, f"{outcome}{card_grant(card)}" if sign == "🔓" else outcome)
    assert is_written(talk) == (sign != "❌")
    if sign == "❌":
        (result,) = talk.model.requests[-1].tool_results
        assert result.is_error
        assert "The owner said no to this call." in result.text
    else:
        await _goes_on(talk, is_asked=sign == "✅")


async def test_other_reactions_and_those_on_other_messages_are_no_answer(talk: Talk) -> None:
    welcome = talk.discord.said[0]
    card = await asked(talk)
    for emoji in ("👍", "🔒", "🎉"):
        talk.discord.react(card.id, emoji)
    others = [each for each in talk.discord.messages if each.id not in (welcome.id, card.id)]
    for message in (welcome, others[-1]):
        talk.discord.react(message.id, "✅")
    talk.discord.unreact(card.id, "👍")
    version = await talk.command("version")
    assert version.text.startswith("ollim-bot ")
    assert not any(each.get("disabled") for each in card.buttons)
    assert not is_written(talk)
    talk.discord.react(card.id, "✅")
    await talk.said_with("Done with milk.txt.")
    assert is_written(talk)


async def test_only_the_first_answer_counts(talk: Talk) -> None:
    """Of two clicks at once, either may arrive first."""
    card = await asked(talk)
    allow, refuse = custom_id(card, "✅"), custom_id(card, "❌")
    allowing, refusing = (talk.discord.click(card.id, each) for each in (allow, refuse))
    await talk.said_with("Done with milk.txt.")
    second = refusing if is_written(talk) else allowing
    await closed(talk, card, "Allowed once." if is_written(talk) else "Refused.")
    await talk.until(lambda: second.texts)
    assert second.texts in ([OVER], [USED])
    late = talk.discord.press(card, refuse)
    await talk.until(lambda: late.texts)
    assert late.texts == [USED]
    said = {message.id for message in talk.discord.said}
    talk.discord.react(card.id, "❌")
    assert (await talk.command("version")).text
    assert {message.id for message in talk.discord.said} <= said


async def test_a_question_that_is_answered_on_the_page_is_closed_on_discord(talk: Talk) -> None:
    card = await asked(talk)
    await talk.bot.press("❌ Refuse")
    await closed(talk, card, "Refused.")
    await talk.said_with("Done with milk.txt.")
    assert not is_written(talk)


async def test_a_question_whose_arrival_is_not_confirmed_yet_can_be_answered(talk: Talk) -> None:
    _write(talk, "milk.txt")
    # The first message shows that it thinks; the second is the question.
    for fault in (Delayed(0), AnswerLost()):
        talk.discord.next_fail("POST /channels/*/messages", fault)
    talk.discord.say("write milk.txt")
    await talk.until(lambda: cards(talk))
    card = cards(talk)[0]
    talk.discord.react(card.id, "✅")
    await closed(talk, card, "Allowed once.")
    await talk.said_with("Done with milk.txt.")
    assert is_written(talk)
    assert len(cards(talk)) == 1


async def test_a_question_that_nobody_answers_expires_and_the_turn_goes_on(talk: Talk) -> None:
    await talk.command("config", key="approval_timeout", value="1")
    card = await asked(talk)
    await closed(talk, card, "Expired: no answer in 1 s.")
    await talk.said_with("Done with milk.txt.")
    (result,) = talk.model.requests[-1].tool_results
    assert result.is_error
    assert not is_written(talk)


@pytest.mark.parametrize("by", ["message", "interrupt", "clear"])
async def test_what_ends_the_turn_ends_the_question(talk: Talk, by: str) -> None:
    card = await asked(talk)
    if by == "message":
        talk.model.when("never mind", Reply((Say("All right."),)))
        talk.discord.say("never mind")
        await talk.said("All right.")
    else:
        await talk.command(by)
    await closed(talk, card, "No longer needed.")
    assert not is_written(talk)


async def test_a_grant_is_listed_and_gone_after_clear(talk: Talk) -> None:
    card = await asked(talk)
    talk.discord.react(card.id, "🔓")
    await talk.said_with("Done with milk.txt.")
    grant = card_grant(card)
    listed = await talk.command("permissions")
    assert listed.text.endswith(f"You have allowed, until `/clear`:\n- {grant}")
    await talk.command("clear")
    listed = await talk.command("permissions")
    assert listed.text.endswith("You have allowed nothing with 🔓.")


async def test_a_question_in_a_fork_says_so_and_ends_with_the_fork(talk: Talk) -> None:
    talk.model.answers("In May.")
    await talk.command("fork", topic="Rome")
    await talk.said_with("In May.")
    entry = await talk.card("Side conversation")
    card = await asked(talk)
    assert card.embeds[0]["footer"]["text"] == "side conversation · apart from the main one"
    await talk.press(entry, "Leave it")
    await talk.card("Side conversation ended — left")
    await closed(talk, card, "No longer needed.")
    assert not is_written(talk)


@pytest.mark.own_process
async def test_a_restart_in_the_middle_closes_the_question_and_answers_the_message(
    talk: Talk,
) -> None:
    card = await asked(talk)
    talk.model.when(_is_continued, Reply((Say("Shall I write it?"),)))
    await talk.bot.kill()
    await talk.bot.start()
    await talk.said("Shall I write it?")
    await closed(talk, card, "Expired: nothing waits for this answer any more.")
    await talk.said_with("I was cut off without warning")
    said = set(talk.discord.texts)
    talk.discord.react(card.id, "✅")
    late = talk.discord.press(card, custom_id(card, "✅"))
    await talk.until(lambda: late.texts)
    assert late.texts == [USED]
    assert not is_written(talk)
    # A line about the turn may be gone by now, and the answer may stand further below.
    assert set(talk.discord.texts) <= said


def card_grant(card: Message) -> str:
    """The pattern that it offers to allow, as it stood there at first."""
    first: str = card.versions[0].embeds[0]["fields"][0]["value"]
    return first.partition(" (")[0]


async def _goes_on(talk: Talk, *, is_asked: bool) -> None:
    """The next call of the same kind is asked about, or it is not."""
    number = len(talk.model.requests)
    before = len(cards(talk))
    _write(talk, "bread.txt")
    talk.discord.say("write bread.txt")
    if is_asked:
        await talk.until(lambda: len(cards(talk)) > before)
        assert not is_written(talk, "bread.txt")
    else:
        await talk.model.seen(number + 2, LIMIT)
        assert is_written(talk, "bread.txt")
        await talk.said("Done with bread.txt.")
        assert len(cards(talk)) == before


def _write(talk: Talk, name: str) -> None:
    path = str(talk.bot.data / "notes" / name)
    call = CallTool("Write", {"file_path": path, "content": f"{name}\n"})
    talk.model.then(Reply((call,)), Reply((Say(f"Done with {name}."),)))


def _is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text

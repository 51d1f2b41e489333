"""The bot asks on Discord before it does what nothing allows, by reactions and by buttons."""

from __future__ import annotations

import pytest
from devtools.localdiscord.state import Message
from tests.e2e.discord.discord_scene import DiscordScene, custom_id, words
from tests.patience import patience

from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say

TITLE = "Allow Write?"
OVER = "This question is over: nothing waits for an answer to it any more."
USED = "This button was used before, or has expired."
GONE = "This button is not there any more."


@pytest.fixture
async def scene(scene: DiscordScene) -> DiscordScene:
    """With approvals on, and on a Discord without a low rate limit."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    await scene.bot.command("/permissions default")
    return scene


async def asked(scene: DiscordScene, name: str = "milk.txt") -> Message:
    """The agent wants to write a file; returns the card that asks the owner."""
    before = len(cards(scene))
    _write(scene, name)
    scene.discord.say(f"write {name}")
    await scene.until(lambda: len(cards(scene)) > before)
    return cards(scene)[-1]


def cards(scene: DiscordScene) -> list[Message]:
    return [each for each in scene.discord.said if TITLE in words(each)]


def is_written(scene: DiscordScene, name: str = "milk.txt") -> bool:
    return (scene.bot.data / "notes" / name).exists()


async def closed(scene: DiscordScene, card: Message, outcome: str) -> None:
    """Wait until the card shows its outcome, on Discord and on the page."""
    await scene.until(lambda: f"Answer: {outcome}" in words(card))
    assert [each["disabled"] for each in card.buttons] in ([], [True])
    shown = [one["card"] for one in await scene.bot.messages() if one["card"]]
    kept = [(each["custom_id"], True) for each in card.buttons]
    assert kept in [
        [(each["custom_id"], each["is_used"]) for each in one["buttons"]]
        for one in shown
        if [each["name"] for each in one["fields"]] == ["Answer"]
    ]


async def test_a_question_shows_the_tool_its_whole_argument_and_three_answers(
    scene: DiscordScene,
) -> None:
    card = await asked(scene)
    (embed,) = card.embeds
    assert f"`file_path`\n```\n{scene.bot.data}/notes/milk.txt\n```" in embed["description"]
    assert "`content`\n```\nmilk.txt\n\n```" in embed["description"]
    (grant,) = embed["fields"]
    assert grant["name"] == "🔓 allows from now on"
    pattern, _, words = grant["value"].partition(" ")
    assert words == "(every file below this folder)"
    labels = [each["label"] for each in card.buttons]
    assert labels == ["✅ Allow once", f"🔓 Always allow {pattern[1:-1]}", "❌ Refuse"]
    assert not is_written(scene)


@pytest.mark.parametrize("by", ["button", "reaction"])
@pytest.mark.parametrize(
    ("sign", "outcome"),
    [("✅", "Allowed once."), ("🔓", "Allowed from now on: "), ("❌", "Refused.")],
)
async def test_each_answer_counts_for_what_it_says(
    scene: DiscordScene, by: str, sign: str, outcome: str
) -> None:
    card = await asked(scene)
    if by == "button":
        pressed = await scene.press(card, sign)
        assert not pressed.late
    else:
        scene.discord.react(card.id, "🎉")
        scene.discord.react(card.id, sign)
    trace = "\n-# Refused: Write(notes/milk.txt)." if sign == "❌" else ""
    await scene.said("Done with milk.txt." + trace)
    await closed(scene, card, f"{outcome}{card_grant(card)}" if sign == "🔓" else outcome)
    assert is_written(scene) == (sign != "❌")
    if sign == "❌":
        (result,) = scene.model.requests[-1].tool_results
        assert result.is_error
        assert "The owner said no to this call." in result.text
    else:
        await _goes_on(scene, is_asked=sign == "✅")


async def test_only_the_first_answer_counts(scene: DiscordScene) -> None:
    """Of two clicks at once, either may arrive first."""
    card = await asked(scene)
    allow, refuse = custom_id(card, "✅"), custom_id(card, "❌")
    allowing, refusing = (scene.discord.click(card.id, each) for each in (allow, refuse))
    await scene.said_with("Done with milk.txt.")
    second = refusing if is_written(scene) else allowing
    await closed(scene, card, "Allowed once." if is_written(scene) else "Refused.")
    await scene.until(lambda: second.texts)
    assert second.texts in ([OVER], [USED], [GONE])
    late = scene.discord.press(card, refuse)
    await scene.until(lambda: late.texts)
    assert late.texts == [GONE if is_written(scene) else USED]
    said = {message.id for message in scene.discord.said}
    scene.discord.react(card.id, "❌")
    assert (await scene.command("version")).text
    assert {message.id for message in scene.discord.said} <= said


async def test_a_question_that_is_answered_on_the_page_is_closed_on_discord(
    scene: DiscordScene,
) -> None:
    card = await asked(scene)
    await scene.bot.press("❌ Refuse")
    await closed(scene, card, "Refused.")
    await scene.said_with("Done with milk.txt.")
    assert not is_written(scene)


@pytest.mark.own_process
async def test_a_restart_in_the_middle_closes_the_question_and_answers_the_message(
    scene: DiscordScene,
) -> None:
    card = await asked(scene)
    allow = custom_id(card, "✅")
    scene.model.when(_is_continued, Reply((Say("Shall I write it?"),)))
    await scene.bot.kill()
    await scene.bot.start()
    await scene.said("Shall I write it?")
    await closed(scene, card, "Expired: nothing waits for this answer any more.")
    await scene.said_with("I was cut off without warning")
    said = set(scene.discord.texts)
    scene.discord.react(card.id, "✅")
    late = scene.discord.press(card, allow)
    await scene.until(lambda: late.texts)
    assert late.texts == [GONE]
    assert not is_written(scene)
    # A status line may be gone, and the answer may be further below.
    assert set(scene.discord.texts) <= said


def card_grant(card: Message) -> str:
    """The pattern that the first version of the card offers to allow."""
    first: str = card.versions[0].embeds[0]["fields"][0]["value"]
    return first.partition(" (")[0]


async def _goes_on(scene: DiscordScene, *, is_asked: bool) -> None:
    """Make another call of the same kind; `is_asked` says whether the owner is asked."""
    number = len(scene.model.requests)
    before = len(cards(scene))
    _write(scene, "bread.txt")
    scene.discord.say("write bread.txt")
    if is_asked:
        await scene.until(lambda: len(cards(scene)) > before)
        assert not is_written(scene, "bread.txt")
    else:
        await scene.model.seen(number + 2, patience())
        assert is_written(scene, "bread.txt")
        await scene.said("Done with bread.txt.")
        assert len(cards(scene)) == before


def _write(scene: DiscordScene, name: str) -> None:
    path = str(scene.bot.data / "notes" / name)
    call = CallTool("Write", {"file_path": path, "content": f"{name}\n"})
    scene.model.then(Reply((call,)), Reply((Say(f"Done with {name}."),)))


def _is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text

"""Replies know what they are about, and files go both ways or an honest word about them does."""

from __future__ import annotations

from tests.e2e.discord.talk import WELCOME, Talk
from tests.e2e.test_reminders import left, remind
from tests.engine.scene import tiny_png

from ollim_bot.domain.inputs import OwnerMessage
from ollim_bot.offline.messages import CallTool, Hang, Reply, Say
from ollim_bot.surfaces.discord.inbound import NOTHING_TO_READ
from ollim_bot.surfaces.discord.rendering import FORK

MB = 1024 * 1024
PING = CallTool("mcp__discord__ping_user", {"message": "The bank wrote."})


async def replied(talk: Talk, text: str, answer: str, *, to: str) -> str:
    """Reply to a message, and give what the model was asked then."""
    talk.model.answers(answer)
    talk.discord.say(text, reply_to=to)
    await talk.said_with(answer)
    await talk.until(lambda: not talk.bot.open_inputs())
    return talk.model.requests[-1].last_user_text


async def test_a_reply_quotes_what_it_is_about(talk: Talk) -> None:
    answer = await talk.ask("hello", "Hi Ada.")
    await talk.until(lambda: not talk.bot.open_inputs())
    asked = await replied(talk, "really?", "Really.", to=answer.id)
    assert asked.endswith("\n\n> Hi Ada.\n\nreally?")

    welcome = await talk.card(WELCOME)
    asked = await replied(talk, "what is this?", "A card.", to=welcome.id)
    assert f"\n\n> {WELCOME}\n> Tell me what to come back with" in asked
    assert asked.endswith("\n\nwhat is this?")

    await talk.bot.stop()
    await talk.bot.start()
    unknown = await talk.said("-# shutting down")
    asked = await replied(talk, "why was that?", "A restart.", to=unknown.id)
    assert asked.endswith("\n\n> shutting down\n\nwhy was that?")


async def test_a_reply_to_what_a_run_had_said_opens_a_fork(talk: Talk) -> None:
    talk.model.then(Reply((PING,)))
    remind(talk.bot, "w1", 0, "Look at the mail.")
    ping = await talk.said_with("The bank wrote.")
    await talk.until(lambda: not left(talk.bot))
    asked = await replied(talk, "what do they want?", "A signature.", to=ping.id)
    assert "> The bank wrote." in asked
    await talk.card("Side conversation")
    assert (await talk.said_with("A signature.")).text == f"A signature.\n-# {FORK}"


async def test_files_of_the_owner_reach_the_model_and_the_downloads(talk: Talk) -> None:
    files = {"notes.txt": b"milk\n", "dot.png": tiny_png()}
    talk.discord.say("look", files=files)
    await talk.said("ok")
    request = talk.model.requests[-1]
    images = [block for message in request.messages for block in message.of_type("image")]
    assert len(images) == 1
    assert "downloads/notes.txt" in request.last_user_text
    assert (talk.bot.data / "downloads" / "notes.txt").read_bytes() == b"milk\n"


async def test_a_file_that_does_not_come_is_told_with_the_message(talk: Talk) -> None:
    many = {f"{number}.txt": b"x" for number in range(11)}
    talk.discord.say("all of them", files=many)
    await talk.until(lambda: len(talk.model.requests) == 1 and not talk.bot.open_inputs())
    asked = talk.model.requests[-1].last_user_text
    assert "[10.txt could not be fetched: only 10 files can come with a message]" in asked
    assert "downloads/9.txt" in asked

    talk.discord.say("a film", files={"film.mkv": b"x" * (25 * MB + 1)})
    await talk.until(lambda: len(talk.model.requests) == 2 and not talk.bot.open_inputs())
    asked = talk.model.requests[-1].last_user_text
    assert asked.endswith("a film\n[film.mkv could not be fetched: too large]")

    talk.discord.next_fail("GET /attachments/*", 404)
    talk.discord.say("a letter", files={"letter.txt": b"Dear Ada"})
    await talk.until(lambda: len(talk.model.requests) == 3 and not talk.bot.open_inputs())
    asked = talk.model.requests[-1].last_user_text
    assert asked.endswith("[letter.txt could not be fetched: not there any more, or too large]")


async def test_a_file_of_the_agent_arrives_with_its_content(talk: Talk) -> None:
    (talk.bot.data / "plan.md").write_text("# Plan\n")
    (talk.bot.data / "large.bin").write_bytes(b"x" * (10 * MB + 1))
    send = "mcp__discord__send_file"
    talk.model.then(
        Reply((CallTool(send, {"file_path": "plan.md"}),)),
        Reply((CallTool(send, {"file_path": "large.bin"}),)),
        Reply((Say("The plan is there."),)),
    )
    talk.discord.say("send me both")
    await talk.said("The plan is there.")
    sent = [file for each in talk.discord.said for file in each.files]
    assert [(file.name, file.content) for file in sent] == [("plan.md", b"# Plan\n")]
    first, second = (talk.model.requests[number].tool_results for number in (1, 2))
    assert not first[0].is_error, first[0].text
    assert second[0].is_error
    assert "Discord does not take a file of that size" in second[0].text


async def test_waiting_messages_are_taken_as_they_stand_when_they_are_taken(talk: Talk) -> None:
    path = talk.bot.data / "reminders" / "w1.md"
    talk.model.then(Hang())
    remind(talk.bot, "w1", 0, "What is the plan?")
    path.write_text(path.read_text().replace("---\nWhat", "background: false\n---\nWhat"))
    await talk.model.seen(1, within=30)
    ids = [talk.discord.say(text) for text in ("one", "two", "three")]
    await talk.until(lambda: all("👀" in talk.discord.message(each).reactions for each in ids))
    talk.discord.edit(ids[0], "one, corrected")
    talk.discord.delete(ids[1])
    await talk.until(lambda: len(talk.bot.open_inputs()) == 3)
    await talk.until(lambda: "one, corrected" in _waiting(talk))
    talk.discord.slash("interrupt")
    await talk.model.seen(2, within=30)
    assert talk.model.requests[1].last_user_text.endswith("\n\none, corrected\n\nthree")
    await talk.until(lambda: not talk.bot.open_inputs())
    await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))


async def test_a_message_without_anything_to_read_gets_an_honest_sentence(talk: Talk) -> None:
    talk.discord.send_sticker()
    await talk.said(NOTHING_TO_READ)
    await talk.ask("hello", "Hi Ada.")
    assert talk.discord.texts[1:] == [NOTHING_TO_READ, "Hi Ada."]
    assert len(talk.model.requests) == 1


def _waiting(talk: Talk) -> list[str]:
    inbox = talk.bot.asked(lambda tx: tx.inbox.get())
    return [each.text for each in inbox.accepted if isinstance(each, OwnerMessage)]

"""A day with the bot on Discord, as it is told in `docs/discord-transcript.md`.

`python -m tests.e2e.discord.a_day` writes that page anew.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from datetime import timedelta
from pathlib import Path

from tests.e2e.discord.hours import MORE, RUN_NOW, Day
from tests.e2e.discord.scribe import Scribe
from tests.e2e.discord.talk import WELCOME, talking

from ollim_bot.offline.messages import CallTool, Fail, Reply, Say, Stall

PAGE = Path(__file__).parents[3] / "docs" / "discord-transcript.md"

_HEAD = """\
# A day on Discord

The real program said all of this, on a Discord of its own; only the words of the agent were
written by hand. They came from a server on the same machine, so that `127.0.0.1` stands where you
would read Claude. A test keeps it true. Moments and durations are the same everywhere, since a page
cannot know them.

A line with `·` is small and grey. `│` is the edge of a card, `[Done]` a button, and `‹Done›` one
that cannot be pressed any more. What it all means is in [Discord](discord.md)."""

_FORK = "Side conversation"
_POST = "cat notes/post.txt"
_ROUTINE = '---\nid: {id}\ncron: "{cron}"\ndescription: {name}\n{more}---\n{text}\n'


async def lived(home: Path) -> str:
    """The page, as it comes of the day."""
    async with talking(home, settings={"OLLIM_USER_NAME": "Ada"}) as talk:
        scribe = Scribe(talk.discord, "Ada", "Ollim", {str(talk.bot.data): "/home/ada/.ollim-bot"})
        # The usual one would make it a long day.
        talk.discord.allowance(100, 1.0, of=["send", "edit", "delete", "react", "webhook"])
        day = Day(talk, scribe)
        for chapter in CHAPTERS:
            await chapter(day)
    return f"{_HEAD}\n{scribe.text}"


async def first_start(day: Day) -> None:
    day.scribe.chapter("The first start", "The bot writes first, once.")
    day.scribe.look()
    welcome = await day.talk.card(WELCOME)
    day.talk.model.answers("Shall I call you Ada, or something else?")
    await day.presses(welcome, "Set up", lambda: day.said_with("something else?"))
    await day.asks("Ada is fine", "Good. When does your day begin, as a rule?")


async def question(day: Day) -> None:
    day.scribe.chapter(
        "A question",
        "What the bot does is shown while it does it, and gives way to the answer.",
    )
    day.write("notes/today.md", "milk\ndentist 15:00\n")
    day.write("tool-policy.yaml", f"main_session:\n  additional_allowed:\n    - Bash({_POST})\n")
    pipe = day.talk.bot.data / "notes" / "post.txt"
    os.mkfifo(pipe)
    calls = (
        CallTool("Read", {"file_path": str(day.talk.bot.data / "notes" / "today.md")}),
        CallTool("Bash", {"command": _POST}),
    )
    answer = "Two things:\n\n1. **Milk**\n2. The dentist, at 15:00\n\nThe post had nothing for you."
    day.talk.model.then(Reply(calls), Reply((Say(answer),)))
    day.say("what is on today?")
    await day.talk.said_with(f"{_POST}) …")
    await day.talk.until(lambda: any(each.reactions for each in day.talk.discord.messages))
    day.scribe.look()
    await day.talk.until(lambda: _is_read(pipe))
    await day.talk.said(answer)
    await day.at_rest()
    day.scribe.look()


def _is_read(pipe: Path) -> bool:
    """End the reading of it, if somebody reads."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


async def newer_question(day: Day) -> None:
    day.scribe.chapter("A second thought", "A newer message stops the answer, and is taken.")
    day.talk.model.then(Stall(Reply((Say("For the dentist you need"),))))
    day.say("what do I need there?")
    await day.talk.said("For the dentist you need")
    day.talk.model.answers("Then only your card.")
    day.say("it is only a check-up")
    await day.talk.said("Then only your card.")
    await day.at_rest()
    day.scribe.look()


async def reminder(day: Day) -> None:
    day.scribe.chapter("A reminder", "It is set in words, and comes by itself when it is due.")
    add = CallTool(
        "mcp__discord__add_reminder", {"prompt": "Call the dentist.", "delay_minutes": 60}
    )
    day.talk.model.then(Reply((add,)), Reply((Say("Reminder set: call the dentist, in 1 h."),)))
    day.say("remind me in an hour to call the dentist")
    await day.talk.said("Reminder set: call the dentist, in 1 h.")
    await day.at_rest()
    day.scribe.look()
    day.remind("water", "Drink water.", timedelta(seconds=1))
    due = await day.talk.said_with("Drink water.")
    await day.run_ended("water")
    day.scribe.look()
    await day.presses(due, "10 min")


async def routine(day: Day) -> None:
    day.scribe.chapter(
        "A routine",
        "What the agent writes is shown, and can be taken back. /routines has them all.",
    )
    text = _ROUTINE.format(
        id="plan", cron="0 9 * * *", name="Plan the day", more="", text="Ask for the plan."
    )
    path = str(day.talk.bot.data / "routines" / "plan.md")
    day.talk.model.then(
        Reply((CallTool("Write", {"file_path": path, "content": text}),)),
        Reply((Say("I will ask you for your plan every day at 9:00."),)),
    )
    day.say("ask me for my plan every morning at 9")
    await day.talk.said("I will ask you for your plan every day at 9:00.")
    await day.talk.card("Routine added: Plan the day")
    await day.at_rest()
    day.scribe.look(cards_first=True)
    await day.calls("routines", lambda: day.cards("Routines"))
    overview = await day.talk.card("Routines")
    await day.presses(overview, MORE, lambda: day.cards("Plan the day"))
    await day.presses(await day.talk.card("Plan the day"), "Pause", is_told=True)


async def background(day: Day) -> None:
    day.scribe.chapter(
        "Something by itself",
        "A background run has found something, and bears its name.",
    )
    day.talk.model.when(
        "Look at the mail.",
        Reply(
            (
                CallTool("mcp__discord__ping_user", {"message": "The bank wants a signature."}),
                CallTool("mcp__discord__report_updates", {"message": "The bank wrote."}),
            )
        ),
    )
    day.write(
        "routines/mail.md",
        _ROUTINE.format(
            id="mail",
            cron="0 12 * * *",
            name="Mail",
            more="background: true\n",
            text="Look at the mail.",
        ),
    )
    await day.calls("routines", lambda: day.cards("Routines") == 2)
    await day.presses(await day.talk.card("Routines"), MORE, lambda: day.cards("Mail"))
    mail = await day.talk.card("Mail")
    await day.presses(mail, RUN_NOW, lambda: day.said_with("The bank wants"), is_told=True)
    await day.run_ended("mail")


async def fork(day: Day) -> None:
    day.scribe.chapter("A side topic", "A side conversation, from its card to its summary.")
    day.talk.model.answers("Rome. By train, or by plane?")
    await day.calls(
        "fork",
        lambda: day.said_with("by plane?\n-# side conversation") and day.cards(_FORK),
        topic="a trip to Rome",
    )
    day.talk.model.answers("Then the night train, on Friday.")
    day.say("by train")
    await day.talk.said_with("on Friday.\n-# side conversation")
    await day.at_rest()
    day.scribe.look()
    report = {"message": "They take the night train to Rome on Friday."}
    day.talk.model.then(
        Reply((CallTool("mcp__discord__report_updates", report),)), Reply((Say("Reported."),))
    )
    card = await day.talk.card(_FORK)
    await day.presses(
        card, "Keep a summary", lambda: day.cards("Side conversation ended — summary kept")
    )
    await day.asks("what did we decide?", "The night train to Rome, on Friday.")


async def approval(day: Day) -> None:
    day.scribe.chapter("A permission", "The bot asks, and waits for the answer.")
    await day.calls("permissions", lambda: True, mode="default")
    wish = {"file_path": str(day.talk.bot.data / "shopping.txt"), "content": "milk\n"}
    day.talk.model.then(Reply((CallTool("Write", wish),)), Reply((Say("It is on the list."),)))
    day.say("put milk on the shopping list")
    card = await day.talk.card("Allow Write?")
    await day.talk.said_with("Write(data/shopping.txt) …")
    await day.talk.until(lambda: any(each.reactions for each in day.talk.discord.messages))
    day.scribe.look(cards_first=True)
    await day.presses(card, "Allow once", lambda: day.said_with("It is on the list."))


async def failure(day: Day) -> None:
    day.scribe.chapter("The model does not answer", "What happened, and what to do.")
    day.talk.model.then(Fail(403, "permission_error", "no"))
    day.say("and bread")
    await day.talk.said_with("refused the login")
    await day.at_rest()
    day.scribe.look()


async def page(day: Day) -> None:
    day.scribe.chapter("From the page", "What is written there is quoted here.")
    day.talk.model.answers("Bread is on the list, too.")
    await day.talk.bot.say("and bread, I said")
    await day.talk.said("Bread is on the list, too.")
    await day.at_rest()
    day.scribe.look()


async def restart(day: Day) -> None:
    day.scribe.chapter("A restart", "Wanted, so it is told in passing.")
    await day.calls("restart", lambda: day.said_with("back after a restart."))
    await day.talk.bot.reconnect()


async def stop(day: Day) -> None:
    day.scribe.chapter(
        "A night without the bot",
        "It was stopped. What fell due meanwhile comes late, and says so.",
    )
    await day.talk.bot.stop()
    day.scribe.look()
    day.remind("pills", "Take the pills.", timedelta(hours=-2))
    await day.talk.bot.start()
    await day.talk.said_with("Take the pills.")
    await day.talk.said("-# back. our conversation goes on.")
    await day.run_ended("pills")
    day.scribe.look()


async def crash(day: Day) -> None:
    day.scribe.chapter(
        "A crash", "The machine went down in the middle of an answer, which is then given anew."
    )
    day.talk.model.then(Stall(Reply((Say("The dentist is in"),))))
    day.say("where is the dentist?")
    await day.talk.said("The dentist is in")
    await day.talk.bot.kill()
    day.talk.model.answers("The dentist is in Mill Street.")
    await day.talk.bot.start()
    await day.talk.said("The dentist is in Mill Street.")
    await day.talk.said_with("cut off without warning")
    await day.at_rest()
    day.scribe.look()


async def outage(day: Day) -> None:
    day.scribe.chapter(
        "Discord is away", "What was written and what fell due meanwhile is there when it is back."
    )
    await day.talk.discord.refuse_connections()
    day.say("are you there?")
    day.remind("walk", "Go for a walk.", timedelta(seconds=1))
    day.talk.model.when("are you there?", Reply((Say("Yes, I am."),)))
    await day.run_ended("walk")
    await day.talk.discord.accept_again()
    await day.talk.said("Yes, I am.")
    await day.talk.said_with("Go for a walk.")
    await day.at_rest()
    day.scribe.look()


CHAPTERS = (
    first_start,
    question,
    newer_question,
    reminder,
    routine,
    background,
    fork,
    approval,
    failure,
    page,
    restart,
    stop,
    crash,
    outage,
)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        PAGE.write_text(asyncio.run(lived(Path(home))))


if __name__ == "__main__":
    main()

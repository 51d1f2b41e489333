"""A week with the bot, as it is told in `docs/a-week.md`.

`python -m tests.e2e.discord.week_story` writes that page anew.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.e2e.discord.week_scene import WeekScene, week_scene

from ollim_bot.offline.server import CallTool, Fail, Reply, Say, Stall

PAGE = Path(__file__).parents[3] / "docs" / "a-week.md"

_HEAD = """\
# A week with it

*What is it like to live with?* Here is Ada's first week. She has ADHD, a box of pills, a dentist,
a landlord, and a laptop that sleeps more than she does. She writes on Discord, mostly; the page
shows the same conversation in a tab, and the week before it comes:

<picture>
  <source media="(max-width: 500px)" srcset="images/week-narrow.png">
  <img src="images/week.png"
    alt="Week on the page: the line of pings, and each day by the hour, its quiet hours striped">
</picture>

[Week](the-page.md#how-will-my-week-be) plays the coming seven days through. Here is how such a
week then goes.

The real program said all of this, on a Discord of its own and on its page, in a week that took a
few seconds. Only the words of the agent were written by hand. A test keeps it true.

Discord is on the left, the page on the right. A line with `·` is small and grey. `│` is the edge
of a card, `[Done]` a button, and `‹Done›` one that cannot be pressed any more. How it all works is
in [reminders and routines](schedule.md), [quiet](quiet.md), [side conversations](forks.md) and
[Discord](discord.md)."""


async def play_week(home: Path) -> str:
    """Play the week; returns the text of the page."""
    async with week_scene(home, "Ada") as week:
        for chapter in CHAPTERS:
            await chapter(week)
    return f"{_HEAD}\n{week.transcript.text}"


def reminder(what: str, at: str, **more: object) -> CallTool:
    return CallTool("mcp__discord__add_reminder", {"prompt": what, "run_at": at, **more})


def routine(week: WeekScene, name: str, cron: str, text: str, *more: str) -> CallTool:
    lines = "".join(f"{line}\n" for line in more)
    head = f'id: {name}\ncron: "{cron}"\ndescription: {text.rstrip(".")}\n{lines}'
    path = week.scene.bot.data / "routines" / f"{name}.md"
    return CallTool("Write", {"file_path": str(path), "content": f"---\n{head}---\n{text}\n"})


async def monday(week: WeekScene) -> None:
    week.transcript.chapter("Monday: the pills", "Ada starts the bot. It writes first, once.")
    await week.look()
    week.transcript.tells("She begins with what goes wrong most often.")
    await week.at("Mon 7:40")
    pills = routine(
        week,
        "pills",
        "0 8 * * *",
        "take the pills",
        "plain: true",
        "kind: dose",
        "nag: 10m x 3",
        "first-step: Fill a glass of water.",
    )
    await week.says(
        "I forget my pills. every day at 8, and do not let me get away with it",
        pills,
        answer="Every day at 8:00, and again every 10 minutes, three times, until you answer.",
    )
    week.transcript.tells("At night it should keep still, unless she has asked for it.")
    await week.at("Mon 7:45")
    await week.calls("config", key="quiet_hours", value="22:00-07:00")
    week.transcript.tells("Eight o'clock. Ada sees it, means to do it, and makes coffee.")
    await week.at("Mon 8:00")
    await week.comes("take the pills")
    week.transcript.tells("It comes again, as a new message, and asks for less: the first step.")
    await week.at("Mon 8:10")
    await week.comes("Fill a glass")
    week.transcript.tells("And once more, as a question. The glass is full by now.")
    await week.at("Mon 8:20")
    card = await week.comes("Still open")
    await week.at("Mon 8:21")
    await week.presses(card, "Taken")
    week.transcript.tells(
        "Water needs no thought, so it comes without any: the program says it, and no model is "
        "asked. Ada answers in words."
    )
    await week.at("Mon 10:15")
    water = reminder("drink water", "today 11:00", plain=True)
    await week.says(
        "at 11 just tell me to drink water", water, answer="Reminder set: drink water, today 11:00."
    )
    await week.at("Mon 11:00")
    card = await week.comes("drink water")
    await week.at("Mon 11:01")
    await week.replies(card, "did it")


async def tuesday(week: WeekScene) -> None:
    await pills_taken(week, "Tue")
    week.transcript.chapter(
        "Tuesday: the dentist", "Ada is never ready when it is time to leave. So it says so before."
    )
    await week.at("Tue 9:00")
    await week.says(
        "dentist today at 15:00. warn me an hour before and again half an hour before",
        reminder("dentist", "today 15:00", plain=True, before=["1h", "30m"]),
        answer="Reminder set: dentist, today 15:00, with a word at 14:00 and at 14:30.",
    )
    week.transcript.tells(
        "At noon a routine looks at the mail, in the background. It speaks only if there is "
        "something to do. Today there is."
    )
    with week.transcript.silence():
        await week.at("Tue 9:10")
        mail = routine(week, "mail", "0 12 * * 2", "Look at the mail.", "background: true")
        await week.says("look at my mail on Tuesdays at 12", mail, answer="Tuesdays at 12:00.")
    week.will_ping("Look at the mail.", "The bank wants a signature by Friday.")
    await week.at("Tue 12:00")
    await week.comes("signature by Friday")
    await week.run_ended("Look at the mail")
    week.transcript.tells("Ada has lost the thread of the day. One word brings it back.")
    await week.at("Tue 13:30")
    await week.calls("today", until="Today, ")
    week.transcript.tells("That message stays true while the afternoon goes on.")
    await week.at("Tue 14:00")
    await week.comes("in 1 h: dentist")
    await week.at("Tue 14:30")
    await week.comes("in 30 min: dentist")
    await week.at("Tue 15:00")
    card = await week.comes("dentist", and_shows="**Overdue**")
    await week.at("Tue 15:02")
    await week.presses(card, "Done", and_shows="**1** · ✓ dentist")


async def wednesday(week: WeekScene) -> None:
    await pills_taken(week, "Wed")
    week.transcript.chapter(
        "Wednesday: not now", "A reminder comes at the wrong moment. It is put off, not lost."
    )
    await week.at("Wed 9:00")
    rent = reminder("pay the rent", "today 18:00")
    await week.says(
        "remind me at 18:00 to pay the rent",
        rent,
        answer="Reminder set: pay the rent, today 18:00.",
    )
    await week.at("Wed 18:00")
    card = await week.comes("pay the rent")
    await week.at("Wed 18:02")
    await week.presses(card, "1 h")
    await week.at("Wed 19:03")
    card = await week.comes("pay the rent")
    await week.presses(card, "Done")
    week.transcript.tells("Before bed, Ada hands something over that can wait, and it may.")
    await week.at("Wed 21:50")
    await week.says(
        "have a look at half past ten whether my parcel has moved",
        reminder("Look for the parcel", "today 22:30", must=False),
        answer="At 22:30. It is quiet then, so you hear of it in the morning.",
    )
    week.will_ping("Look for the parcel", "The parcel is in town. It comes on Friday.")
    await week.at("Wed 22:30")
    await week.run_ended("Look for the parcel")
    week.transcript.notes("It is quiet: nothing is heard.")


async def thursday(week: WeekScene) -> None:
    week.transcript.chapter(
        "Thursday: good morning", "The night was quiet. What came up in it is one message."
    )
    await week.at("Thu 7:00")
    await week.comes("While it was quiet")
    await pills_taken(week, "Thu")
    week.transcript.tells(
        "In the evening there is a trip to plan. A side conversation knows everything and leaves "
        "little behind: a summary, if Ada wants one."
    )
    await week.at("Thu 20:00")
    week.scene.model.answers("Rome. By train, or by plane?")
    await week.calls("fork", "by plane?", topic="a trip to Rome")
    card = week.newest("Topic: a trip to Rome")
    await week.says("by train", answer="Then the night train, on Friday in two weeks.")
    summary = {"message": "They take the night train to Rome on Friday 4 December."}
    week.will_answer("Kept.", CallTool("mcp__discord__report_updates", summary))
    await week.presses(card, "Keep a summary")
    await week.says("what did we decide?", answer="The night train to Rome, on Friday 4 December.")


async def friday(week: WeekScene) -> None:
    week.transcript.chapter(
        "Friday: the laptop slept",
        "The lid was shut until twenty past nine. What was due comes late, says so, and does not "
        "pile up: one card for the bins, one for the pills.",
    )
    with week.transcript.silence():
        await week.at("Thu 20:30")
        bins = reminder("put the bins out", "tomorrow 8:30", plain=True)
        await week.says("bins tomorrow at half past eight", bins, answer="Reminder set: bins.")
    await week.asleep_until("Fri 9:20")
    await week.until(lambda: week.has_new("put the bins out") and week.has_new("take the pills"))
    await week.look()
    await week.presses(week.newest("put the bins out"), "Done")
    await week.presses(week.newest("take the pills"), "Taken")


async def saturday(week: WeekScene) -> None:
    await pills_taken(week, "Sat")
    week.transcript.chapter(
        "Saturday: the model is away",
        "Ada's login at Claude runs out at ten past ten. She does not know yet. The agent was to "
        "look at the weather first. The reminder comes all the same, in her own words, and says "
        "why.",
    )
    await week.at("Sat 10:00")
    plants = reminder("water the plants if it stays dry", "today 10:30")
    await week.says(
        "remind me at half past ten to water the plants if it stays dry",
        plants,
        answer="Reminder set: water the plants if it stays dry, today 10:30.",
    )
    week.scene.model.then(Fail(401, "authentication_error", "no"))
    await week.at("Sat 10:30")
    card = await week.comes("water the plants if it stays dry")
    await week.presses(card, "Done")
    week.transcript.tells(
        "She signs in again with `ollim-bot auth login`. In the afternoon the agent wants to do "
        "something that it may not do by itself, so it asks, and waits."
    )
    await week.at("Sat 15:00")
    await week.calls("permissions", mode="default")
    wish = {"file_path": str(week.scene.bot.data / "shopping.txt"), "content": "milk\n"}
    week.will_answer("It is on the list.", CallTool("Write", wish))
    week.scene.discord.say("put milk on the shopping list")
    await week.until(lambda: week.has_new("Allow Write?"))
    await week.look()
    card = week.newest("Allow Write?")
    await week.presses(card, "✅ Allow once")


async def sunday(week: WeekScene) -> None:
    await pills_taken(week, "Sun")
    week.transcript.chapter(
        "Sunday: here and there", "What is written on the page is quoted on Discord."
    )
    await week.at("Sun 11:00")
    await week.says_on_the_page(
        "when do we go to Rome?", answer="On Friday 4 December, with the night train."
    )
    week.transcript.tells("Halfway through, Ada thinks again. What counts is the newer question.")
    await week.at("Sun 11:05")
    week.scene.model.then(Stall(Reply((Say("You need a passport, a"),))))
    week.scene.discord.say("what do I need to pack?")
    await week.until(lambda: "a passport" in "".join(week.scene.discord.texts))
    await week.says("only for the train", answer="A pullover, water, and something to read.")
    week.transcript.tells("In the evening the machine gets an update, and the bot with it.")
    await week.at("Sun 18:00")
    await week.stops()
    await week.starts()
    await week.comes("back")


CHAPTERS = (monday, tuesday, wednesday, thursday, friday, saturday, sunday)


async def pills_taken(week: WeekScene, day: str) -> None:
    """An ordinary morning, which the page leaves out."""
    with week.transcript.silence():
        await week.at(f"{day} 8:00")
        card = await week.comes("take the pills")
        await week.presses(card, "Taken")


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        PAGE.write_text(asyncio.run(play_week(Path(home))))


if __name__ == "__main__":
    main()

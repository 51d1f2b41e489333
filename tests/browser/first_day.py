"""The first day of somebody without an account: each step, and what must be seen after it.

`python -m tests.browser.first_day FOLDER` takes a picture after each step, and tells what is wrong.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Error, expect
from tests.browser.chromium import chromium
from tests.browser.first_day_scene import FirstDay, first_day
from tests.browser.scene import box

Act = Callable[[FirstDay], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Step:
    """What the newcomer does, what is promised, and how it is checked."""

    does: str
    sees: str
    act: Act
    check: Act


def says(text: str, sees: str, *parts: str, lacks: str = "", messages: int = 1) -> Step:
    """Types on the page; the answer has these words, in at most so many messages."""

    async def check(day: FirstDay) -> None:
        await answer(day, *parts)
        assert not lacks or lacks not in await day.new(), await day.new()
        assert await day.new_count() <= messages, await day.new()

    return Step(f"types: {text}", sees, lambda day: day.types(text), check)


def lists(text: str, sees: str, *parts: str) -> Step:
    """Types on the page; the answer has these words in this order."""

    async def check(day: FirstDay) -> None:
        await answer(day, *parts)
        seen = await day.new()
        places = [seen.find(part) for part in parts]
        assert places == sorted(places), seen

    return Step(f"types: {text}", sees, lambda day: day.types(text), check)


def is_asked(text: str, sees: str, *parts: str) -> Step:
    """Types on the page; the bot asks back, on a card with the answers below it or in words."""
    return says(text, sees, *parts, messages=2)


def presses(label: str, of: str, sees: str, *parts: str) -> Step:
    """Presses a button of a card on the page, which then shows these words."""
    does = f"presses {label} of {of}"
    return Step(does, sees, lambda day: day.presses(label, of), shown(*parts))


def at(moment: str, sees: str, *parts: str) -> Step:
    return Step(f"waits until {moment}", sees, lambda day: day.at(moment), new(*parts))


def tells_discord(text: str, sees: str, *parts: str) -> Step:
    return Step(
        f"writes on Discord: {text}",
        sees,
        lambda day: day.says_on_discord(text),
        on_discord(*parts),
    )


def runs(command: str, sees: str, *parts: str) -> Step:
    async def nothing(day: FirstDay) -> None: ...

    async def check(day: FirstDay) -> None:
        printed = day.runs(*command.split())
        assert not [part for part in parts if part not in printed], printed

    return Step(f"runs ollim-bot {command}", sees, nothing, check)


def new(*parts: str) -> Act:
    return lambda day: day.until(day.new, *parts)


def shown(*parts: str) -> Act:
    return lambda day: day.until(day.all_shown, *parts)


def on_discord(*parts: str) -> Act:
    async def newest(day: FirstDay) -> str:
        return day.new_on_discord()

    return lambda day: day.until(lambda: newest(day), *parts)


async def answer(day: FirstDay, *parts: str) -> None:
    """What the bot has answered, once it has nothing more to say."""

    await day.until(day.new, *parts)
    # Only now, because before its first words the message may not have been accepted yet.
    await day.bot.until(day.is_at_rest)
    await day.until(day.new, *parts)


async def _look_at_the_empty_page(day: FirstDay) -> None:
    ideas = day.page.get_by_label("Three things to try")
    await expect(ideas.get_by_role("button")).to_have_count(3)
    await expect(ideas).to_be_visible()


async def _press_an_example(day: FirstDay) -> None:
    await day.page.get_by_role("button", name="remind me in 1 minute").click()


async def _look_at_the_offer(day: FirstDay) -> None:
    await expect(day.page.get_by_role("button", name="Notify me")).to_be_visible()


async def _refuse_the_offer(day: FirstDay) -> None:
    await day.page.get_by_role("button", name="Not now").click()


async def _look_that_the_offer_is_gone(day: FirstDay) -> None:
    await expect(day.page.get_by_role("button", name="Notify me")).to_be_hidden()
    await expect(box(day.page)).to_be_visible()


async def _look_that_it_is_answered(day: FirstDay) -> None:
    await expect(day.page.get_by_role("button", name="6:30am", disabled=False)).to_have_count(0)


async def _look_at_the_side_conversation(day: FirstDay) -> None:
    ways = day.page.locator("#fork")
    await expect(ways).to_contain_text("the holiday")
    for label in ("Keep all of it", "Keep a summary", "Leave it"):
        await expect(ways.get_by_role("button", name=label)).to_be_visible()


async def _leave_the_side_conversation(day: FirstDay) -> None:
    await day.page.locator("#fork").get_by_role("button", name="Leave it").click()


async def _look_that_it_is_left(day: FirstDay) -> None:
    await expect(day.page.locator("#fork")).to_be_hidden()


async def _look_that_nothing_is_lost(day: FirstDay) -> None:
    await expect(day.page.locator("#connection")).to_be_hidden()
    await day.until(day.all_shown, "buy bread")
    await expect(box(day.page)).to_be_enabled()


async def _nothing(day: FirstDay) -> None: ...


DAY = (
    Step("opens the page", "three things to try", FirstDay.opens_the_page, _look_at_the_empty_page),
    Step("presses the first example", "what is set, and when", _press_an_example,
         lambda day: answer(day, "Reminder set: drink water, today 7:31")),
    Step("looks below", "the page offers to notify", _nothing, _look_at_the_offer),
    Step("refuses", "the offer is gone", _refuse_the_offer, _look_that_the_offer_is_gone),
    at("Mon 7:32", "a card with Done and Snooze", "drink water", "Done", "Snooze 10 min", "Other"),
    presses("Done", "drink water", "one line with Undo", "drink water · 7:32", "Undo"),
    presses("Undo", "drink water", "the card again", "Done", "Snooze 10 min"),
    presses("Snooze 10 min", "drink water", "one line", "drink water · again at 7:43", "Undo"),
    at("Mon 7:43", "it comes again", "drink water", "Done"),
    says("done", "what was done to what", "drink water"),
    says("take my pills every day at 8am and 8pm", "a card shows it, and the answer adds to it",
         "take my pills", "8:00", "20:00", "waits for your answer", lacks="Routine set",
         messages=2),
    at("Mon 8:00", "a card that waits", "take my pills", "Taken", "Skipped"),
    is_asked("remind me at half past 6 to start dinner", "the question, with two answers", "6:30"),
    says("6:30pm", "dinner is set, and nothing else", "start dinner", "18:30", lacks="pills"),
    Step("looks at the question", "its buttons are gone", _nothing, _look_that_it_is_answered),
    says("I took my pills", "the pill is taken", "take my pills", lacks="dinner"),
    is_asked("remind me to buy bread", "when?", "When"),
    says("tomorrow 9am", "bread is set", "Reminder set: buy bread, tomorrow 9:00"),
    Step("types: /today", "what comes and what is done, on one screen",
         lambda day: day.types("/today"),
         new("start dinner", "20:00", "take my pills", "drink water")),
    lists("what's on today", "the same in words", "18:30", "start dinner", "20:00", "my pills"),
    says("add a task buy cat food", "the task", "Task added: buy cat food"),
    says("done with the cat food", "the task is done", "Task done: buy cat food"),
    says("remind me to call the dentist tomorrow at noon", "it is set",
         "Reminder set: call the dentist, tomorrow 12:00"),
    says("cancel the dentist thing", "cancelled, with Undo", "call the dentist", "Undo",
         messages=2),
    presses("Undo", "dentist", "it is back", "Undone", "call the dentist"),
    Step("types: /setup", "the first question", lambda day: day.types("/setup"), new("?")),
    says("skip", "the next question", "?", lacks="take my pills"),
    says("/config quiet_hours 22-7", "the quiet hours", "22:00", "7:00", lacks="was not done"),
    says("remind me at 11pm to lock the door", "these are quiet hours, and the morning is offered",
         "lock the door", "quiet hours", "Move to 7:00", lacks="Reminder set", messages=2),
    lists("what's on today", "all of it, in order of time", "18:30", "20:00", "23:00"),
    Step("types: /fork the holiday", "a side conversation with its three ways out",
         lambda day: day.types("/fork the holiday"), _look_at_the_side_conversation),
    Step("presses Leave it", "the main conversation", _leave_the_side_conversation,
         _look_that_it_is_left),
    Step("gives it a Discord token and starts it again", "nothing is lost on the page",
         FirstDay.restarts_with_discord, _look_that_nothing_is_lost),
    Step("looks at Discord", "the bot is there", _nothing, on_discord("our conversation goes on")),
    tells_discord("what's on today", "the same as on the page", "18:30", "start dinner"),
    Step("waits until Mon 18:30", "the card on Discord", lambda day: day.at("Mon 18:30"),
         on_discord("start dinner", "Done")),
    tells_discord("push it to tomorrow", "moved, with Undo", "start dinner", "tomorrow"),
    Step("waits until Mon 20:00", "the evening's dose on Discord", lambda day: day.at("Mon 20:00"),
         on_discord("take my pills", "Taken")),
    Step("presses Taken on Discord", "the page shows it too",
         lambda day: day.presses_on_discord("Taken", "take my pills"),
         shown("take my pills · 20:00")),
    runs("today", "the same in the terminal", "take my pills", "lock the door"),
    runs("runs", "what came, and what was answered", "take my pills", "drink water"),
    runs("history search bread", "what was said", "buy bread"),
    runs("runs check", "nothing is missing"),
)  # fmt: skip


async def walk(day: FirstDay, pictures: Path | None = None) -> list[str]:
    """Take all steps, and return what was wrong; a wrong step does not end the day."""
    wrong = []
    for number, step in enumerate(DAY, 1):
        try:
            await step.act(day)
            await step.check(day)
        except (AssertionError, TimeoutError, Error) as missed:
            wrong.append(f"{number}. {step.does} → {step.sees}: {missed}")
        if pictures is not None:
            path = pictures / f"{number:02}.png"
            await day.page.screenshot(path=path, animations="disabled", caret="hide")
    return wrong


async def main(pictures: Path) -> None:
    async with chromium() as browser:
        with tempfile.TemporaryDirectory() as home:
            async with first_day(Path(home), browser) as day:
                wrong = await walk(day, pictures)
    print(*wrong, f"{len(DAY) - len(wrong)} of {len(DAY)} steps are right.", sep="\n\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

"""A newcomer without an account gets reminders and routines by typing a sentence on the page."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.in_process_bot import InProcessBot
from tests.hostile.calling_engine import CallingEngine
from tests.hostile.canary_home import CanaryHome
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.offline import texts
from ollim_bot.offline.rules import OfflineModel


def reminders(bot: Bot) -> list[Reminder]:
    report = DataDirectory(bot.data).open().reminders.report()
    assert not report.problems
    return [stored.item for stored in report.jobs]


def routines(bot: Bot) -> list[Routine]:
    report = DataDirectory(bot.data).open().routines.report()
    assert not report.problems
    return [stored.item for stored in report.jobs]


def _now(bot: Bot) -> datetime:
    return datetime.now(ZoneInfo(bot.environment()["OLLIM_TIMEZONE"]))


class OfflineBot(InProcessBot):
    """The bot with the built-in model, and an engine in this process."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, ScriptedModel(), {"OLLIM_MODEL": "offline"})
        given = {name: text for name, text in self.environment().items() if name != "PATH"}
        environment = engine_variables(given, os.environ, Path(sys.executable).parent)
        self._engine = CallingEngine(OfflineModel(), environment, CanaryHome(home))


@pytest.mark.real_process
async def test_what_is_typed_on_the_page_is_set_moved_paused_and_cancelled_also_in_a_fork(
    tmp_path: Path,
) -> None:
    async with running(OfflineBot(tmp_path)) as bot:
        await check_that_a_sentence_becomes_a_file_and_a_line_and_is_moved(bot)
        await check_that_a_rhythm_becomes_a_routine_whatever_its_words_are(bot)
        await check_that_what_is_there_is_paused_by_its_words(bot)
        await check_that_a_fork_can_set_reminders_too(bot)


async def check_that_a_sentence_becomes_a_file_and_a_line_and_is_moved(bot: Bot) -> None:
    began = _now(bot)
    earliest = began.astimezone(UTC) + timedelta(minutes=20)
    answer = await bot.ask("remind me in 20 minutes to drink water")
    latest = datetime.now(UTC) + timedelta(minutes=20, seconds=1)

    (reminder,) = reminders(bot)
    assert reminder.spec.message == "drink water"
    assert reminder.spec.background
    due = reminder.due(UTC)
    assert earliest.replace(microsecond=0) <= due <= latest
    # Midnight may have passed during the test.
    moments = {describe(due, now) for now in (began, _now(bot))}
    assert answer in {f"Reminder set: drink water, {moment}." for moment in moments}

    listed = await bot.ask("what is coming up?")
    assert "drink water" in listed
    assert listed.startswith(texts.UPCOMING)

    # It is said once: by its card, which has the Undo.
    assert await bot.ask("snooze the water reminder by 1 hour") == texts.MOVED
    (moved,) = reminders(bot)
    assert moved.due(UTC) - due == timedelta(hours=1)
    cards = [each["card"] for each in await bot.messages() if each["card"]]
    assert cards[-1]["title"] == "Reminder moved: drink water"

    cancelled = await bot.ask("cancel the water reminder")
    assert cancelled.startswith("Reminder cancelled: drink water")
    assert reminders(bot) == []
    await bot.press("Undo")
    assert [each.spec.message for each in reminders(bot)] == ["drink water"]
    await bot.ask("cancel the water reminder")
    assert reminders(bot) == []


async def check_that_a_rhythm_becomes_a_routine_whatever_its_words_are(bot: Bot) -> None:
    answer = await bot.ask('every weekday at 9 ask me for "mum\'s" $HOME `plan` & more')
    (routine,) = routines(bot)
    assert routine.spec.message == 'ask me for "mum\'s" $HOME `plan` & more'
    assert str(routine.rhythm) == "0 9 * * 1-5"
    assert answer == texts.ONLY_ITS_WORDS
    cards = [each["card"] for each in await bot.messages() if each["card"]]
    assert "At 9:00 on Monday through Friday" in str(cards[-1])

    assert "ask me for" in await bot.ask("list my routines")
    assert (await bot.ask("cancel the plan routine")).startswith("Routine cancelled: ask me for")
    assert routines(bot) == []


async def check_that_what_is_there_is_paused_by_its_words(bot: Bot) -> None:
    await bot.ask("take my meds every day at 8am and 8pm")
    assert (await bot.ask("pause the meds routine")).startswith("Routine paused: ")
    (paused,) = routines(bot)
    assert (str(paused.rhythm), paused.spec.enabled) == ("0 8,20 * * *", False)
    assert (await bot.ask("unpause meds")).startswith("Routine resumed: ")
    assert routines(bot)[0].spec.enabled


async def check_that_a_fork_can_set_reminders_too(bot: Bot) -> None:
    said = len(await bot.answers())
    await bot.command("/fork tea")
    await bot.answer(said + 1)
    answer = await bot.ask("remind me in 3 minutes that the tea is ready")
    assert answer.startswith("Reminder set: the tea is ready, ")
    assert [each.spec.message for each in reminders(bot)] == ["the tea is ready"]

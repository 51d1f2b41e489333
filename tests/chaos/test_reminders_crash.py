"""P1, P6: the bot is killed again and again while reminders fall due, and each comes once."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import pytest
from devtools.scripted_model import Answer
from tests.e2e.bot import Bot
from tests.e2e.test_reminders import checked, left, remind
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.offline.rules import side_answer
from ollim_bot.offline.server import CallTool, Fail, Hang, MessagesServer, ModelRequest, Reply, Say

pytestmark = pytest.mark.chaos

PING = "mcp__discord__ping_user"
KILLS_IN_A_ROW = 2
LONGEST_RUN = 2.0
SECONDS_OF_A_ROUND = 10
ANSWER = Reply((Say("It will be a long answer, so that you are busy for a while."),), pace=0.1)
OVERLOADED = Fail(529, "overloaded_error", "Overloaded")


class Behaviour(StrEnum):
    """What the model does when a reminder is given to it."""

    PINGS = "pings"
    SAYS_NOTHING = "says nothing"
    HANGS = "hangs"
    OVERLOADED = "overloaded"


class MisbehavingModel:
    """Behaves to each reminder as `behaviours` says; while `is_healthy`, it pings for all."""

    def __init__(self) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self.is_healthy = False

    def reply(self, request: ModelRequest) -> Answer:
        aside = side_answer(request)
        if aside is not None:
            return aside
        words = request.last_user_text
        about = re.search(r"\[reminder-bg:(\w+)", words)
        if about is None or request.tool_results:
            return ANSWER if words.endswith("Tell me something.") else Reply((Say("Done."),))
        name = about[1]
        match Behaviour.PINGS if self.is_healthy else self.behaviours[name]:
            case Behaviour.PINGS:
                return Reply((CallTool(PING, {"message": text_of(name)}),))
            case Behaviour.SAYS_NOTHING:
                return Reply((Say("The owner knows already."),))
            case Behaviour.HANGS:
                return Hang()
            case Behaviour.OVERLOADED:
                return OVERLOADED


def text_of(name: str) -> str:
    return f"Drink glass {name}."


@dataclass
class RemindersCrashScene:
    """A bot, its model, and the names of the reminders that the owner has ordered."""

    bot: Bot
    model: MisbehavingModel
    rng: random.Random
    names: list[str] = field(default_factory=list)
    kills: int = 0

    async def run_round(self) -> None:
        """Some runs that end in a crash, then one in which all reminders have to come."""
        self.model.is_healthy = False
        for _ in range(KILLS_IN_A_ROW):
            self.order_reminders(self.rng.randint(2, 4))
            if self.rng.random() < 0.4:
                await self.bot.say("Tell me something.")
            await self.kill_and_restart_after(self.rng.uniform(0, LONGEST_RUN))
        self.model.is_healthy = True
        await self.kill_and_restart_after(0)
        await self.bot.until(lambda: not left(self.bot) and not self.bot.open_inputs())

    def order_reminders(self, count: int) -> None:
        for behaviour in self.rng.sample([*Behaviour], count):
            name = f"w{len(self.names)}"
            self.names.append(name)
            self.model.behaviours[name] = behaviour
            remind(self.bot, name, self.rng.uniform(-1, 1), text_of(name))

    async def kill_and_restart_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.bot.kill()
        self.kills += 1
        await self.bot.start()

    async def check(self) -> None:
        """The log has each text once, and the page has no text twice and has the newest."""
        ordered = {text_of(name) for name in self.names}
        log = self.data.run(lambda tx: tx.messages.page(10_000))
        said = Counter(each.message.text for each in log)
        times = {text: said[text] for text in ordered}
        assert set(times.values()) == {1}, times
        shown = Counter(one["text"] for one in await self.bot.messages())
        assert {text: times for text, times in shown.items() if text in ordered and times > 1} == {}
        assert shown[text_of(self.names[-1])] == 1
        assert self.data.run(lambda tx: tx.budget.get()).daily_used == 0

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.bot.data)

    @property
    def in_doubt(self) -> int:
        """The number of messages of which the bot cannot know whether they were sent."""

        def unknown(tx: Transaction) -> int:
            log = tx.messages.page(10_000)
            found = [one for each in log for one in tx.deliveries.of_message(each.message.id)]
            return sum(one.state is DeliveryState.UNKNOWN for one in found)

        return self.data.run(unknown)


def with_an_empty_budget(bot: Bot) -> Bot:
    empty = replace(
        PingBudget.full(datetime.now(UTC)), capacity=1, available=0.0, refill_rate_minutes=100_000
    )
    DataDirectory(bot.data).run(lambda tx: tx.budget.put(empty), is_holder=True)
    return bot


def check_files(data: DataDirectory) -> None:
    """Every state file can be read to its last line."""
    stores = data.open()
    reads: Sequence[Callable[[], object]] = (
        stores.session.read,
        stores.updates.read,
        stores.fork.read,
        stores.inquiries.read,
        stores.config.read,
        stores.ledger.read,
        stores.session_history.read,
    )
    for read in reads:
        read()
    data.run(lambda tx: (tx.inbox.get(), tx.messages.page(10_000), tx.budget.get()))
    assert data.problems == []


@pytest.mark.own_process
async def test_every_reminder_comes_once_whenever_the_bot_is_killed(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    seed: int = pytestconfig.option.chaos_seed
    ends = time.monotonic() + float(pytestconfig.option.chaos_seconds) - SECONDS_OF_A_ROUND
    model = MisbehavingModel()
    async with MessagesServer(model) as server:
        bot = with_an_empty_budget(Bot(tmp_path, server.url))
        scene = RemindersCrashScene(bot, model, random.Random(seed))
        try:
            await bot.start()
            while time.monotonic() < ends or not scene.kills:
                await scene.run_round()
                await scene.check()
            in_doubt = scene.in_doubt
            result = await asyncio.to_thread(checked, bot)
        finally:
            await bot.kill()
    check_files(scene.data)
    assert result.returncode == 0, result.stdout
    assert in_doubt == 0, "without a service that has to confirm, nothing is in doubt"
    record_property(
        "chaos",
        f"seed {seed}: {scene.kills} kills, {len(scene.names)} reminders, each came once; "
        f"{in_doubt} may have been sent",
    )

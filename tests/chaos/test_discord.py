"""P1, P3: the bot is killed again and again while Discord fails, and all is said there once."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.chaos.test_reminders_crash import check_files, with_an_empty_budget
from tests.e2e.bot import LIMIT, Bot
from tests.e2e.discord.talk import words
from tests.e2e.test_reminders import left, remind
from tests.engine.scene import spoken
from tests.storage.places import DataDirectory

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.facts import Facts
from ollim_bot.domain.outgoing import Outbox, Unsure
from ollim_bot.offline.messages import CallTool, ModelRequest, Reply, Say
from ollim_bot.offline.server import MessagesServer
from ollim_bot.offline.side_requests import side_answer
from ollim_bot.surfaces.discord.turns.orphans import GOES_ON_BELOW
from ollim_bot.surfaces.discord.words.lateness import undated
from ollim_bot.surfaces.discord.words.rendering import letter_of, parts_of
from ollim_bot.testing.discord.faults import AnswerLost, Delayed, Dropped, Fail, Fault
from ollim_bot.testing.discord.server import LocalDiscord

pytestmark = pytest.mark.chaos

PING = "mcp__discord__ping_user"
LENGTH_OF_A_BOUT = 20
LONGEST_LIFE = 2.5
SEND, EDIT = "POST /channels/*/messages", "PATCH /channels/*/messages/*"
READ, ANY = "GET /channels/*", "* /channels/*"
TROUBLES: tuple[tuple[str, Fault], ...] = (
    (SEND, AnswerLost()),
    (SEND, Dropped()),
    (SEND, Fail(500)),
    (SEND, Delayed(0.8)),
    (EDIT, AnswerLost()),
    (EDIT, Fail(502)),
    (EDIT, Delayed(0.8)),
    (ANY, Fail(429, after=0.4)),
    (READ, Fail(503)),
    ("WS /gateway", Dropped()),
)
LONG = " ".join(f"This is sentence number {number} of it." for number in range(70))


class Companion:
    """Answers each task by its number, at length now and then; pings what it is reminded of."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        aside = side_answer(request)
        if aside is not None:
            return aside
        about = re.search(r"\[reminder-bg:(\w+)\]", "\n".join(spoken(request)[-1:]))
        if about is not None and not request.tool_results:
            return Reply((CallTool(PING, {"message": text_of(about[1])}),))
        if "BACKGROUND RUN" in "\n".join(spoken(request)):
            return Reply((Say("Done."),))
        self.requests.append(request)
        numbers = re.findall(r"task number (\d+)\.", "\n".join(spoken(request)))
        number = int(numbers[-1]) if numbers else 0
        rest = LONG if number % 3 == 1 else "It is done."
        return Reply((Say(f"About {number}, answer {len(self.requests)}. {rest}"),), pace=0.02)


def text_of(name: str) -> str:
    return f"Drink glass {name}."


@dataclass
class Trial:
    """`new` are the owner's words of a bout by their ids in the log."""

    bot: Bot
    model: Companion
    discord: LocalDiscord
    luck: random.Random
    reminders: list[str] = field(default_factory=list)
    tasks: int = 0
    new: dict[str, str] = field(default_factory=dict)
    kills: int = 0

    async def bout(self) -> None:
        """Some lives that are cut short, then one in which all comes to its end."""
        self.new.clear()
        for _ in range(self.luck.randint(1, 2)):
            self.make_trouble()
            await self.live(self.luck.uniform(0, LONGEST_LIFE))
            await self.bot.kill()
            self.kills += 1
            self.while_it_is_dead()
            await self.bot.start()
        self.discord.mend()
        await self.settle()
        self.check_prompts()

    def make_trouble(self) -> None:
        for pattern, fault in self.luck.sample(TROUBLES, 3):
            self.discord.next_fail(pattern, fault)

    async def live(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        if self.luck.random() < 0.5:
            name = f"w{len(self.reminders)}"
            self.reminders.append(name)
            remind(self.bot, name, self.luck.uniform(-1, 1), text_of(name))
        for _ in range(self.luck.randint(1, 2)):
            await self.say()
            await asyncio.sleep(self.luck.uniform(0, max(0, ends - time.monotonic())))
            if self.luck.random() < 0.3:
                self.discord.drop_gateway(resumable=self.luck.random() < 0.5)
        await asyncio.sleep(max(0, ends - time.monotonic()))

    async def say(self) -> None:
        text = f"task number {self.tasks}."
        self.tasks += 1
        if self.luck.random() < 0.2:
            self.new[await self.bot.say(text)] = text
        else:
            self.new[f"discord-{self.discord.say(text)}"] = text

    def while_it_is_dead(self) -> None:
        if self.luck.random() < 0.3:
            text = f"task number {self.tasks}."
            self.tasks += 1
            self.new[f"discord-{self.discord.say(text)}"] = text
        if self.luck.random() < 0.3:
            self.discord.forget_nonces()

    async def settle(self) -> None:
        ends = time.monotonic() + LIMIT
        while problems := [*self.problems()]:
            assert time.monotonic() < ends, "\n".join(problems)
            await asyncio.sleep(0.1)
        assert await self.page_problems() == []

    def problems(self) -> Iterator[str]:
        """What is not as it has to be when all is quiet."""
        stores = self.data.open()
        log = self.log
        open_rows = Outbox.of(stores.outbox.read().entries).open
        yield from (f"{each} has no end" for each in self.bot.open_inputs())
        yield from (f"reminder {each} is left" for each in left(self.bot))
        yield from (f"{each.message.text} is on its way" for each in open_rows)
        yield from (f"draft {each}" for each in Facts(stores.memory.read()).discord_drafts)
        yield from self.problems_of_the_log(log)
        yield from self.problems_of_discord(log)

    def problems_of_the_log(self, log: list[ChatMessage]) -> Iterator[str]:
        times = Counter(str(each.id) for each in log)
        yield from (f"{self.new[name]} is missing" for name in self.new if not times[name])
        said = Counter(each.text for each in log)
        for name in self.reminders:
            if said[text_of(name)] != 1:
                yield f"reminder {name} was said {said[text_of(name)]} times"
        for turn, count in Counter(each.turn for each in log if is_answer(each)).items():
            if count != 1:
                yield f"turn {turn} has {count} answers"
        last = next((each.text for each in reversed(log) if each.author is Author.OWNER), "")
        about = re.sub(r"task number (\d+)\.", r"About \1, ", last)
        answers = [each for each in log if is_answer(each) and each.text.startswith(about)]
        is_set_aside = any("set aside" in each.text and last in each.text for each in log)
        if len(answers) != 1 and not (is_set_aside and not answers):
            yield f"{last!r} has {len(answers)} answers"

    def problems_of_discord(self, log: list[ChatMessage]) -> Iterator[str]:
        there = {each.id: each for each in self.discord.messages}
        known = Counter(ref for each in log for ref in refs_of(each))
        yield from (f"{ref} is {count} messages" for ref, count in known.items() if count != 1)
        for message in log:
            refs = refs_of(message)
            if message.id == f"discord-{''.join(refs)}":
                continue
            stands = [undated(there[ref].text) for ref in refs if ref in there]
            wanted = [letter_of(part).text for part in parts_of(message)]
            if stands != wanted:
                yield f"{message.id} is {stands}, not {wanted}"
        for each in self.discord.said:
            if each.id not in known and not each.text.endswith(GOES_ON_BELOW):
                yield f"{each.id} stands there and is in no log: {words(each)!r}, was {each.texts}"
        yield from (
            f"{each.text} is marked" for each in there.values() if any(each.reactions.values())
        )
        yield from self.problems_of_order(log)

    def problems_of_order(self, log: list[ChatMessage]) -> Iterator[str]:
        """What is of no turn may come while one is shown, whose answer then stands above it."""
        for is_in_turn in (True, False):
            ids = [
                int(ref)
                for each in log
                if each.author is not Author.OWNER and (each.turn is not None) == is_in_turn
                for ref in refs_of(each)
            ]
            if ids != sorted(ids):
                yield f"the order of the log is another: {ids}"

    async def page_problems(self) -> list[str]:
        log = self.log
        shown = [(one["id"], one["text"]) for one in await self.bot.messages()]
        kept = [(str(each.id), each.text) for each in log][-len(shown) :]
        return [
            f"{one} on the page, {two} in the log"
            for one, two in zip(shown, kept, strict=True)
            if one != two
        ]

    def check_prompts(self) -> None:
        """Each task is once in the conversation, or the owner was told that it is not."""
        said = "\n".join(spoken(self.model.requests[-1])).splitlines()
        told = "\n".join(each.text for each in self.log if "set aside" in each.text)
        for text in self.new.values():
            is_set_aside = text in told
            assert said.count(text) == 1 or (is_set_aside and text not in said), (text, said)

    @property
    def log(self) -> list[ChatMessage]:
        """The newest state of each message."""
        return list({each.id: each for each in self.data.open().messages.read().entries}.values())

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.bot.data)


def is_answer(message: ChatMessage) -> bool:
    return (
        message.author is Author.ASSISTANT and not message.is_cut_off and message.turn is not None
    )


def refs_of(message: ChatMessage) -> list[str]:
    return message.refs.get("discord", "").split()


async def test_all_is_said_once_on_discord_whenever_the_bot_is_killed(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    seed: int = pytestconfig.option.chaos_seed
    ends = time.monotonic() + float(pytestconfig.option.chaos_seconds) - LENGTH_OF_A_BOUT
    model = Companion()
    async with LocalDiscord() as discord, MessagesServer(model) as server:
        account = {"DISCORD_TOKEN": discord.token, "DISCORD_API_URL": discord.api_url}
        bot = with_an_empty_budget(Bot(tmp_path, server.url, account))
        trial = Trial(bot, model, discord, random.Random(seed))
        try:
            await bot.start()
            await discord.connected(LIMIT)
            while time.monotonic() < ends or not trial.kills:
                await trial.bout()
            rows = trial.data.open().outbox.read().entries
            doubtful = sum(isinstance(row, Unsure) for row in rows)
        finally:
            await bot.kill()
    check_files(trial.data)
    assert doubtful == 0, "what can be read back is never in doubt"
    assert discord.rate_limited <= trial.kills, "only who has just begun may not know how much"
    record_property(
        "chaos",
        f"seed {seed}: {trial.kills} kills, {trial.tasks} messages, {len(trial.reminders)} "
        f"reminders, each once; {discord.buckets.refusals} refused",
    )

"""A week of the whole bot in this process, on Discord and on the page, on a moved clock."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

from devtools.localdiscord.interactions import Interaction
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from tests.discord.connection_scene import restored_addresses
from tests.e2e.bot import LIMIT
from tests.e2e.discord.talk import Talk, account
from tests.e2e.discord.transcript import Transcript, is_at_work
from tests.e2e.inline import InlineBot

from ollim_bot.offline.messages import CallTool, Reply
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.store.deliveries import DeliveryState

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONDAY = datetime(2026, 11, 16, tzinfo=ZoneInfo("Europe/Berlin"))
_BEFORE = timedelta(seconds=10)
# A scene may take this many seconds of its minute, so that a slow machine shows the same minutes.
_LONGEST_SCENE = 50.0
_STEP = 0.1
_SHARE_OF_THE_REST = 0.02


class WeekClock:
    """Doubles `MovableClock`. Time passes only in `move_to` and, a little at a time, in `tick`."""

    def __init__(self, start: datetime) -> None:
        self._start = start.astimezone(UTC)
        self._zone = start.tzinfo
        self._passed = 0.0
        self._end_of_scene = _LONGEST_SCENE
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return (self._start + timedelta(seconds=self._passed)).astimezone(self._zone)

    def set_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        wake = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._passed + max(0.0, seconds), next(self._order), wake))
        if seconds <= 0:
            self._wake()
        await wake

    def move_to(self, moment: datetime) -> None:
        """Begin a scene at this moment. Each sleeper wakes once at most, as after a long sleep."""
        self._passed = max(self._passed, (moment - self._start).total_seconds())
        self._end_of_scene = self._passed + _LONGEST_SCENE
        self._wake()

    def tick(self) -> None:
        """Let a moment pass, and never so much that the scene ends."""
        self._passed += min(_STEP, (self._end_of_scene - self._passed) * _SHARE_OF_THE_REST)
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, wake = heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)


@dataclass(frozen=True, slots=True)
class Week:
    """What the owner does, each time until the bot is at rest, written into the transcript."""

    talk: Talk
    clock: WeekClock
    transcript: Transcript

    async def at(self, moment: str) -> None:
        """Go on at this moment, such as `Mon 8:00`. What is due then comes at its time."""
        then = moment_of(moment)
        self.clock.move_to(then - _BEFORE)
        await self.until(lambda: self._watched_until() >= then - _BEFORE)
        self.clock.move_to(then)
        self.transcript.moment(moment)

    async def asleep_until(self, moment: str) -> None:
        """Go on at this moment; the machine slept until then."""
        self.clock.move_to(moment_of(moment))
        self.transcript.moment(moment)

    async def starts(self) -> None:
        async with self.ticking():
            await self.talk.bot.start()
            await self.talk.discord.connected(LIMIT)

    async def stops(self, how: int = signal.SIGTERM) -> None:
        async with self.ticking():
            await self.talk.bot.stop(how)

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Let time pass by itself while something else than `until` waits."""
        ticking = asyncio.create_task(_tick(self.clock))
        try:
            yield
        finally:
            ticking.cancel()

    async def until(self, condition: Callable[[], object]) -> None:
        def ticked() -> object:
            self.clock.tick()
            return condition()

        await self.talk.until(ticked)

    async def rests(self) -> None:
        """Write down what is new, when no message waits for an answer and no status is shown."""
        discord = self.talk.discord
        await self.until(lambda: not self.talk.bot.open_inputs())
        await self.until(lambda: not any(each.reactions for each in discord.messages))
        await self.until(lambda: not any(map(is_at_work, discord.messages)))
        await self.look()

    async def look(self) -> None:
        """Write down what is new on both surfaces, in the order of the page."""
        await self.until(self._is_delivered)
        # The way in to the page ends while hours are skipped.
        await self.talk.bot.reconnect()
        refs = {str(each.message.id): each.refs for each in self.talk.bot.deliveries()}
        page = sorted(await self.talk.bot.messages(), key=lambda one: one["began"] or one["at"])
        self.transcript.look(self.talk.discord, page, refs)

    async def says(self, text: str, *calls: CallTool, answer: str) -> None:
        """The owner writes on Discord; the agent makes these calls and answers."""
        self.will_answer(answer, *calls)
        self.talk.discord.say(text)
        await self.comes(answer)

    async def says_on_the_page(self, text: str, *calls: CallTool, answer: str) -> None:
        await self.talk.bot.reconnect()
        self.will_answer(answer, *calls)
        await self.talk.bot.say(text)
        await self.comes(answer)

    def write(self, call: CallTool) -> None:
        """Make the file of the call by hand, without a word in the conversation."""
        Path(str(call.arguments["file_path"])).write_text(str(call.arguments["content"]))

    def will_answer(self, answer: str, *calls: CallTool) -> None:
        if calls:
            self.talk.model.then(Reply(calls))
        self.talk.model.answers(answer)

    def will_ping(self, task: str, message: str) -> None:
        """The agent does this task in a background run, finds something and says it."""
        words = {"message": message}
        tools = ("mcp__discord__ping_user", "mcp__discord__report_updates")
        self.talk.model.when(task, Reply(tuple(CallTool(tool, words) for tool in tools)))

    async def comes(self, part: str, *, and_shows: str = "") -> Message:
        """Wait for a new message of the bot with these words, and write down all that is new.

        `and_shows` is waited for too, in any message.
        """
        await self.until(lambda: self._new(part) and self._shows(and_shows))
        message = self._new(part)[-1]
        await self.rests()
        return message

    async def presses(self, message: Message, label: str, *, and_shows: str = "") -> None:
        """A button on Discord, until its card has changed, and words are shown in any message."""
        self.transcript.does(f"presses {label}")
        shown = len(message.versions)
        pressed = self.talk.discord.click(message.id, _custom_id(message, label))
        await self.until(lambda: pressed.answered_after is not None)
        await self.until(lambda: len(message.versions) > shown and self._shows(and_shows))
        await self.rests()
        self._aside(pressed)

    async def replies(self, message: Message, text: str) -> None:
        """The owner answers a card in words, until it has changed."""
        shown = len(message.versions)
        self.talk.discord.say(text, reply_to=message.id)
        await self.until(lambda: len(message.versions) > shown)
        await self.rests()

    async def calls(self, command: str, until: str = "", **arguments: str) -> None:
        """A command on Discord, until its answer is there and words of the bot are."""
        self.transcript.does(f"calls /{' '.join([command, *arguments.values()])}")
        called = self.talk.discord.call(command, arguments)
        await self.until(lambda: called.texts or called.is_deleted)
        await self.until(lambda: not until or self._new(until))
        await self.rests()
        self._aside(called)

    def _aside(self, asked: Interaction) -> None:
        for text in asked.texts:
            self.transcript.aside(text)

    def newest(self, part: str) -> Message:
        """The newest message of the bot with these words."""
        return [each for each in self.talk.discord.said if part in self.transcript.words(each)][-1]

    def _shows(self, part: str) -> bool:
        return any(part in self.transcript.words(each) for each in self.talk.discord.said)

    def has_new(self, part: str) -> bool:
        return bool(self._new(part))

    async def run_ended(self, title: str) -> None:
        """Wait for the end of a run of the job whose title begins so."""

        def has_ended() -> bool:
            done = (row.facts for row in self.talk.bot.ledger() if row.state == "done")
            return any(str(facts.get("job")).startswith(title) for facts in done)

        await self.until(has_ended)

    def _new(self, part: str) -> list[Message]:
        """The messages of the bot with these words that are not written down yet."""
        new = (each for each in self.talk.discord.said if not self.transcript.has_seen(each))
        return [each for each in new if part in self.transcript.words(each)]

    def _is_delivered(self) -> bool:
        return all(
            each.state is DeliveryState.CONFIRMED and each.shown_change >= each.logged.change
            for each in self.talk.bot.deliveries()
        )

    def _watched_until(self) -> datetime:
        path = self.talk.bot.data / "state" / "heartbeat"
        return datetime.fromisoformat(path.read_text().strip()) if path.exists() else _MONDAY


def moment_of(words: str) -> datetime:
    """`Mon 8:00`, in the week of the story."""
    day, _, clock = words.partition(" ")
    hour, minute = map(int, clock.split(":"))
    return datetime.combine(
        _MONDAY.date() + timedelta(days=_DAYS.index(day)), time(hour, minute), _MONDAY.tzinfo
    )


def _custom_id(message: Message, label: str) -> str:
    return next(str(one["custom_id"]) for one in message.buttons if one.get("label") == label)


@asynccontextmanager
async def week_of(home: Path, name: str) -> AsyncIterator[Week]:
    """The first start of a bot, early on a Monday; it has said its welcome."""
    clock, model = WeekClock(moment_of("Mon 7:30")), ScriptedModel()
    with restored_addresses():
        async with LocalDiscord() as discord:
            # The usual allowance would make it a long week.
            discord.allowance(100, 1.0, of=["send", "edit", "delete", "react", "webhook"])
            # The engine is doubled: no key is sent anywhere.
            settings = {**account(discord), "OLLIM_USER_NAME": name, "ANTHROPIC_API_KEY": "none"}
            bot = InlineBot(home, model, settings, clock)
            transcript = Transcript(name, "Ollim", {str(bot.data): "/home/ada/.ollim-bot"})
            talk = Talk(bot, model, discord)
            week = Week(talk, clock, transcript)
            try:
                await week.starts()
                await week.until(lambda: discord.said)
                yield week
            finally:
                await week.stops(signal.SIGKILL)


async def _tick(clock: WeekClock) -> None:
    while True:
        await asyncio.sleep(0.02)
        clock.tick()

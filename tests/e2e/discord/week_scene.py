"""A week of the whole bot in this process, on Discord and on the page, in virtual time."""

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
from devtools.scripted_model import ScriptedModel
from tests.e2e.discord.discord_scene import DiscordScene, account
from tests.e2e.discord.transcript import Transcript, is_at_work
from tests.e2e.in_process_bot import InProcessBot
from tests.patience import patience
from tests.surfaces.discord.connection_scene import restored_addresses

from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.offline.server import CallTool, Reply

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONDAY = datetime(2026, 11, 16, tzinfo=ZoneInfo("Europe/Berlin"))
_BEFORE = timedelta(seconds=10)
# The story may use this many seconds of each minute, so that a slow machine shows the same
# minutes.
_USED_OF_A_MINUTE = 50.0
_STEP = 0.1
_SHARE_OF_THE_REST = 0.02


class WeekClock:
    """Doubles `MovableClock`. Time passes only in `move_to` and, a little at a time, in `tick`."""

    def __init__(self, start: datetime) -> None:
        self._start = start.astimezone(UTC)
        self._zone = start.tzinfo
        self._passed = 0.0
        self._latest = _USED_OF_A_MINUTE
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
        """Move to this moment. Each sleeping task wakes at most once, as after a real sleep."""
        self._passed = max(self._passed, (moment - self._start).total_seconds())
        self._latest = self._passed + _USED_OF_A_MINUTE
        self._wake()

    def tick(self) -> None:
        """Let a short time pass, and never more than the rest of the minute."""
        self._passed += min(_STEP, (self._latest - self._passed) * _SHARE_OF_THE_REST)
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, wake = heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)


@dataclass(frozen=True, slots=True)
class WeekScene:
    """The owner's actions; each waits until the bot is idle and is written to the transcript."""

    scene: DiscordScene
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
        """Go on at this moment, after a sleep of the machine."""
        self.clock.move_to(moment_of(moment))
        self.transcript.moment(moment)

    async def starts(self) -> None:
        async with self.ticking():
            await self.scene.bot.start()
            await self.scene.discord.connected(patience())

    async def stops(self, how: int = signal.SIGTERM) -> None:
        async with self.ticking():
            await self.scene.bot.stop(how)

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Let time pass while the test waits for something other than `until`."""
        ticking = asyncio.create_task(_tick(self.clock))
        try:
            yield
        finally:
            ticking.cancel()

    async def until(self, condition: Callable[[], object]) -> None:
        def ticked() -> object:
            self.clock.tick()
            return condition()

        await self.scene.until(ticked)

    async def until_idle(self) -> None:
        """Wait until all messages are answered and no status is shown; then write down the news."""
        discord = self.scene.discord
        await self.until(lambda: not self.scene.bot.open_inputs())
        await self.until(lambda: not any(each.reactions for each in discord.messages))
        await self.until(lambda: not any(map(is_at_work, discord.messages)))
        await self.look()

    async def look(self) -> None:
        """Write down what is new on both surfaces, in the order of the page."""
        await self.until(self._is_delivered)
        # The session of the page expires when the clock skips hours.
        await self.scene.bot.reconnect()
        refs = {str(each.message.id): each.refs for each in self.scene.bot.deliveries()}
        page = sorted(await self.scene.bot.messages(), key=lambda one: one["began"] or one["at"])
        self.transcript.look(self.scene.discord, page, refs)

    async def says(self, text: str, *calls: CallTool, answer: str) -> None:
        """The owner writes on Discord; the agent makes these calls and answers."""
        self.will_answer(answer, *calls)
        self.scene.discord.say(text)
        await self.comes(answer)

    async def says_on_the_page(self, text: str, *calls: CallTool, answer: str) -> None:
        await self.scene.bot.reconnect()
        self.will_answer(answer, *calls)
        await self.scene.bot.say(text)
        await self.comes(answer)

    def write(self, call: CallTool) -> None:
        """Write the file of this call directly, without a message."""
        Path(str(call.arguments["file_path"])).write_text(str(call.arguments["content"]))

    def will_answer(self, answer: str, *calls: CallTool) -> None:
        if calls:
            self.scene.model.then(Reply(calls))
        self.scene.model.answers(answer)

    def will_ping(self, task: str, message: str) -> None:
        """Script a background run with this task that pings with this message."""
        words = {"message": message}
        tools = ("mcp__discord__ping_user", "mcp__discord__report_updates")
        self.scene.model.when(task, Reply(tuple(CallTool(tool, words) for tool in tools)))

    async def comes(self, part: str, *, and_shows: str = "") -> Message:
        """Wait for a new message of the bot with these words, and write down all that is new.

        `and_shows` is waited for too, in any message.
        """
        await self.until(lambda: self._new(part) and self._shows(and_shows))
        message = self._new(part)[-1]
        await self.until_idle()
        return message

    async def presses(self, message: Message, label: str, *, and_shows: str = "") -> None:
        """Press a button on Discord; wait until its card has changed and `and_shows` is shown."""
        self.transcript.does(f"presses {label}")
        shown = len(message.versions)
        pressed = self.scene.discord.click(message.id, _custom_id(message, label))
        await self.until(lambda: pressed.answered_after is not None)
        await self.until(lambda: len(message.versions) > shown and self._shows(and_shows))
        await self.until_idle()
        self._aside(pressed)

    async def replies(self, message: Message, text: str) -> None:
        """Reply to a card in words; wait until the card has changed."""
        shown = len(message.versions)
        self.scene.discord.say(text, reply_to=message.id)
        await self.until(lambda: len(message.versions) > shown)
        await self.until_idle()

    async def calls(self, command: str, until: str = "", **arguments: str) -> None:
        """Call a command on Discord; wait for its answer and for a new message with `until`."""
        self.transcript.does(f"calls /{' '.join([command, *arguments.values()])}")
        called = self.scene.discord.call(command, arguments)
        await self.until(lambda: called.texts or called.is_deleted)
        await self.until(lambda: not until or self._new(until))
        await self.until_idle()
        self._aside(called)

    def _aside(self, asked: Interaction) -> None:
        for text in asked.texts:
            self.transcript.aside(text)

    def newest(self, part: str) -> Message:
        """The newest message of the bot with these words."""
        return [each for each in self.scene.discord.said if part in self.transcript.words(each)][-1]

    def _shows(self, part: str) -> bool:
        return any(part in self.transcript.words(each) for each in self.scene.discord.said)

    def has_new(self, part: str) -> bool:
        return bool(self._new(part))

    async def run_ended(self, title: str) -> None:
        """Wait until a run of the job whose title begins with `title` has ended."""

        def has_ended() -> bool:
            done = (row.facts for row in self.scene.bot.ledger() if row.state == "done")
            return any(str(facts.get("job")).startswith(title) for facts in done)

        await self.until(has_ended)

    def _new(self, part: str) -> list[Message]:
        """The messages of the bot with these words that the transcript does not have yet."""
        new = (each for each in self.scene.discord.said if not self.transcript.has_seen(each))
        return [each for each in new if part in self.transcript.words(each)]

    def _is_delivered(self) -> bool:
        return all(
            each.state is DeliveryState.CONFIRMED and each.shown_change >= each.logged.change
            for each in self.scene.bot.deliveries()
        )

    def _watched_until(self) -> datetime:
        path = self.scene.bot.data / "state" / "heartbeat"
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
async def week_scene(home: Path, name: str) -> AsyncIterator[WeekScene]:
    """A new bot, early on a Monday; it has said its welcome."""
    clock, model = WeekClock(moment_of("Mon 7:30")), ScriptedModel()
    with restored_addresses():
        async with LocalDiscord() as discord:
            # Discord's usual rate limits would slow the week down.
            discord.allowance(100, 1.0, of=["send", "edit", "delete", "react", "webhook"])
            # The engine is doubled: no key is sent anywhere.
            settings = {"OLLIM_USER_NAME": name, "ANTHROPIC_API_KEY": "none"}
            settings |= {"OLLIM_TIMEZONE": str(_MONDAY.tzinfo), **account(discord)}
            bot = InProcessBot(home, model, settings, clock)
            transcript = Transcript(name, "Ollim", {str(bot.data): "/home/ada/.ollim-bot"})
            scene = DiscordScene(bot, model, discord)
            week = WeekScene(scene, clock, transcript)
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

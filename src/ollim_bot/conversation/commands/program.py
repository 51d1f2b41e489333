"""Commands about the program: settings, permissions, pings, set-up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from uuid import uuid4

from ollim_bot import __version__
from ollim_bot.conversation import texts
from ollim_bot.conversation.approvals import Approvals, CarefulTimes
from ollim_bot.conversation.jobs.overviews import Overviews
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.chat import OF_SET_UP, ChatMessage
from ollim_bot.domain.inbox import CommandCall, InputId
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.run_history import History, RunStory, part_in_words
from ollim_bot.domain.run_words import in_words, reason
from ollim_bot.domain.runtime_config import CONFIG_KEYS, LISTED_KEYS, PermissionMode, RuntimeConfig
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.text import nearest, shortened
from ollim_bot.domain.travel import zone_answer
from ollim_bot.errors import StorageError, WrongInput
from ollim_bot.ports import Clock, IncomingMessage, JobRepositories, Status
from ollim_bot.store.steps import set_by_owner
from ollim_bot.store.store import Store
from ollim_bot.store.store import Store as StateStore
from ollim_bot.store.transaction import Transaction

# The label of the welcome's button, which the log also shows as the owner's message.
SET_UP = "Set up"


class SetUp:
    """Asks the set-up questions, as a click on the button of the welcome does."""

    def __init__(
        self, prompt: str, receive: Callable[[IncomingMessage], Awaitable[ChatMessage]]
    ) -> None:
        self._prompt = prompt
        self._receive = receive

    async def begin(self, call: CommandCall) -> str:
        """Return when the set-up prompt is accepted. Raises `OllimError` if it cannot be stored."""
        name = InputId(f"{OF_SET_UP}{uuid4().hex}")
        await self._receive(IncomingMessage(name, call.surface, self._prompt, button=SET_UP))
        return ""


_HOW_TO_CHANGE = "`/config KEY VALUE` changes one, `/config KEY` says what it takes."
_BUILT_IN_ANSWERS = "The built-in model answers until a real one is connected."
_KNOWN_MODELS = ("opus", "sonnet", "haiku", "default", "none")


class SettingCommands:
    """`default_zone` is the time zone while the configuration names none.

    `status` is what the surfaces show.
    """

    def __init__(
        self,
        store: StateStore,
        repositories: JobRepositories,
        clock: Clock,
        default_zone: tzinfo,
        status: Callable[[], Status],
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._default_zone = default_zone
        self._status = status

    async def config(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "key" not in arguments:
            config = await self._read()
            lines = [f"- {_line(config, key)}" for key in LISTED_KEYS]
            return "\n".join([*lines, "", _HOW_TO_CHANGE])
        key = _known(arguments["key"])
        if "value" not in arguments:
            config = await self._read()
            return f"{_line(config, key)}.\nIt takes {CONFIG_KEYS[key].takes}."
        return await self.change(Changer.CHAT, key, arguments["value"])

    async def model(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "name" not in arguments:
            config, status = await self._read(), self._status()
            model = "" if status.model == "default" else f", with {status.model}"
            who = _BUILT_IN_ANSWERS if status.is_offline else f"{status.provider} answers{model}."
            takes = CONFIG_KEYS["model.main"].takes
            return f"{who} Model: {config.in_words('model.main')}. It takes {takes}."
        told = await self.change(Changer.CHAT, "model.main", arguments["name"])
        if self._status().is_offline:
            return f"{told} {_BUILT_IN_ANSWERS}"
        is_known = arguments["name"].lower() in _KNOWN_MODELS
        return told if is_known else f"{told} It is taken as a full model id."

    async def thinking(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "mode" not in arguments:
            config = await self._read()
            takes = CONFIG_KEYS["thinking.main"].takes
            return f"Thinking: {config.thinking_main}. It takes {takes}."
        return await self.change(Changer.CHAT, "thinking.main", arguments["mode"])

    async def _read(self) -> RuntimeConfig:
        return await self._store.read(lambda tx: tx.config.get())

    async def change(self, by: Changer, key: str, value: str | None) -> str:
        """Set it, or its default for None, and say what has changed; raises `WrongInput`."""
        if key == "timezone":
            return await self._set_zone(by, value)

        def step(tx: Transaction) -> tuple[str, str]:
            config = tx.config.get()
            wanted = config.defaults.in_words(key) if value is None else value
            changed = set_by_owner(tx, by, key, wanted)
            return config.in_words(key), changed.in_words(key)

        old, new = await self._store.transact(step)
        if old == new:
            return f"{key} is {new} already."
        return f"{key} is now {new} (it was {old})."

    async def _set_zone(self, by: Changer, value: str | None) -> str:
        jobs = await asyncio.to_thread(self._jobs)
        now = self._clock.now()

        def step(tx: Transaction) -> str:
            config = set_by_owner(tx, by, "timezone", value)
            return zone_answer(jobs, now, config.timezone, self._default_zone, tx.ledger.has)

        return await self._store.transact(step)

    def _jobs(self) -> list[ScheduledJob]:
        """The readable jobs: an unreadable repository must not prevent the change."""
        jobs: list[ScheduledJob] = []
        with suppress(StorageError):
            jobs += [one.item for one in self._repositories.routines.all()]
            jobs += [one.item for one in self._repositories.reminders.all()]
        return jobs


def _line(config: RuntimeConfig, key: str) -> str:
    mark = " (changed)" if key in config.changed() else ""
    about = CONFIG_KEYS[key].about or "does nothing yet"
    return f"`{key}` {config.shown(key)}{mark}: {about}"


def _known(word: str) -> str:
    key = word.replace("-", "_")
    if key in CONFIG_KEYS:
        return key
    meant = nearest(key, CONFIG_KEYS)
    hint = f"Did you mean `{meant}`?" if meant else "`/config` shows them all."
    raise WrongInput(f"There is no setting `{word}`. {hint}")


_MEANS: Mapping[PermissionMode, str] = {
    PermissionMode.DONT_ASK: "what is not allowed beforehand is refused",
    PermissionMode.DEFAULT: "you are asked about what is not allowed beforehand",
    PermissionMode.ACCEPT_EDITS: "files are written without asking, you are asked about the rest",
    PermissionMode.BYPASS: "nothing is asked, only what is out of reach always is refused",
}
_BY_NAME: Mapping[str, PermissionMode] = {mode.lower(): mode for mode in PermissionMode}


class PermissionCommands:
    def __init__(self, approvals: Approvals, careful: CarefulTimes) -> None:
        self._approvals = approvals
        self._careful = careful

    async def permissions(self, call: CommandCall) -> str:
        """Set the given mode, or show the current one; raises `WrongInput`.

        A card shows what makes the conversation careful now, with the button that ends it.
        """
        arguments = call.arguments
        if "mode" in arguments:
            return await self._set(arguments["mode"])
        await self._careful.show(call)
        mode = await self._approvals.mode()
        granted = await asyncio.to_thread(self._approvals.granted)
        lines = [f"Mode: `{mode}` ({_MEANS[mode]}). It takes {', '.join(PermissionMode)}."]
        if granted:
            lines.append("You have allowed, until `/clear`:")
            lines += [f"- `{pattern}`" for pattern in granted]
        else:
            lines.append("You have allowed nothing with 🔓.")
        return "\n".join(lines)

    async def _set(self, word: str) -> str:
        mode = _BY_NAME.get(word.strip().lower())
        if mode is None:
            known = ", ".join(PermissionMode)
            raise WrongInput(f"There is no mode `{word}`. It takes one of {known}.")
        await self._approvals.set_mode(mode)
        return (
            f"Mode: `{mode}` ({_MEANS[mode]}), until `/clear` or a restart. "
            f"`/config permission_mode {mode}` sets it for good."
        )


class PingCommands:
    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def ping_budget(self, call: CommandCall) -> str:
        """Set the given limits and show all of them; raises `WrongInput`."""
        arguments = call.arguments
        now = self._clock.now()

        def after(budget: PingBudget) -> PingBudget:
            if not arguments:
                return budget.refilled(now)
            capacity = _number(arguments.get("capacity"), budget.capacity)
            rate = _number(arguments.get("refill_rate"), budget.refill_rate_minutes)
            return budget.resized(now, capacity=capacity, refill_rate_minutes=rate)

        budget = await self._store.transact(lambda tx: tx.budget.change(after))
        many = "1 ping" if budget.capacity == 1 else f"{budget.capacity} pings"
        limits = f"It holds {many} at most, and gets one more every"
        return f"{budget.full_status(now)}\n{limits} {budget.refill_rate_minutes} min."


def _number(word: str | None, before: int) -> int:
    """The number; 0, which is not a valid limit, for any other word."""
    if word is None:
        return before
    is_number = word.isascii() and word.isdecimal() and len(word) <= 9
    return int(word) if is_number else 0


class ProgramCommands:
    """`doctor` examines the installation; `restart` restarts the whole bot; `update` updates it.

    `newer_version` is one that is known to exist.
    """

    def __init__(
        self,
        doctor: Callable[[], Awaitable[str]],
        restart: Callable[[], None],
        update: Callable[[], Awaitable[str]],
        newer_version: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._doctor = doctor
        self._restart = restart
        self._update = update
        self._newer_version = newer_version

    async def doctor(self, _: CommandCall) -> str:
        return await self._doctor()

    async def version(self, _: CommandCall) -> str:
        present, newer = f"ollim-bot {__version__}", await self._newer_version()
        return f"{present}. {newer} is there; `/update` puts it in place." if newer else present

    async def update(self, _: CommandCall) -> str:
        return await self._update()

    async def restart(self, _: CommandCall) -> str:
        self._restart()
        return texts.RESTARTING


class JobCommands:
    """`overviews` posts what is scheduled; the ledger says what ran."""

    def __init__(self, store: Store, overviews: Overviews, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.today = overviews.showing("today")
        self.routines = overviews.showing("routines")
        self.reminders = overviews.showing("reminders")

    async def runs(self, _: CommandCall) -> str:
        rows = await self._store.read(lambda tx: tx.ledger.tail(400))
        found = History.of(rows).newest_first
        stories = [story for story in found if story.state is not OccurrenceState.PLANNED]
        if not stories:
            return "Nothing has run yet."
        now = self._clock.now()
        lines = [_job_line(story, now) for story in stories[:10]]
        return "\n".join([*lines, "`ollim-bot runs` in a terminal shows more."])


def _job_line(story: RunStory, now: datetime) -> str:
    name, note = _short(story.title), _short(reason(story, now))
    state = in_words(story.state) if story.state else "begun"
    state = "delivered" if story.is_delivered else state
    fired = describe(story.fired.replace(second=0, microsecond=0), now)
    by_hand = ", by hand" if story.occurrence.manual else ""
    notes = "; ".join(each for each in (part_in_words(story.occurrence), note) if each)
    return f"- {fired}{by_hand}: {name}, {state}" + (f" ({notes})" if notes else "")


def _short(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return shortened(line, 120)

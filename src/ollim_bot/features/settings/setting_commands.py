"""What the owner sets by slash commands: settings, the model, how often the bot speaks up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError, WrongInput
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.store.steps import set_by_owner
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.commands import Argument, slash_command
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import JobRepositories, Status
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.travel import zone_answer

_HOW_TO_CHANGE = "`/config KEY VALUE` changes one, `/config KEY` says what it takes."
_BUILT_IN_ANSWERS = "The built-in model answers until a real one is connected."
_KNOWN_MODELS = ("opus", "sonnet", "haiku", "default", "none")


class SettingCommands:
    """`default_zone` is the time zone while the configuration names none.

    `status` is what the surfaces show.
    """

    def __init__(
        self,
        store: Store,
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

    @slash_command(
        210,
        "config",
        "Show or change a setting",
        Argument("key", "which setting", tuple(CONFIG_KEYS)),
        Argument("value", "its new value", takes_rest=True),
    )
    async def config(self, call: CommandCall) -> str:
        arguments = call.arguments
        if "key" not in arguments:
            config = await self._read()
            lines = [f"- {_line(config, key)}" for key in CONFIG_KEYS]
            return "\n".join([*lines, "", _HOW_TO_CHANGE])
        key = arguments["key"].replace("-", "_")
        if key not in CONFIG_KEYS:
            meant = nearest(key, CONFIG_KEYS)
            hint = f"Did you mean `{meant}`?" if meant else "`/config` shows them all."
            raise WrongInput(f"There is no setting `{arguments['key']}`. {hint}")
        if "value" not in arguments:
            config = await self._read()
            return f"{_line(config, key)}.\nIt takes {CONFIG_KEYS[key].takes}."
        return await self.change(Changer.CHAT, key, arguments["value"])

    @slash_command(
        170,
        "model",
        "Which model answers",
        Argument("name", "opus, sonnet, haiku, default, or a full model id", _KNOWN_MODELS[:-1]),
    )
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

    @slash_command(
        180,
        "thinking",
        "How much the model thinks before it answers",
        Argument("mode", "off, adaptive, or a number of tokens", ("off", "adaptive", "4000")),
    )
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
        return f"{key} is {new} already." if old == new else f"{key} is now {new} (it was {old})."

    async def _set_zone(self, by: Changer, value: str | None) -> str:
        jobs: list[ScheduledJob] = []

        def read() -> None:
            # An unreadable repository must not prevent the change.
            with suppress(StorageError):
                jobs.extend(one.item for one in self._repositories.routines.all())
                jobs.extend(one.item for one in self._repositories.reminders.all())

        await asyncio.to_thread(read)
        now = self._clock.now()

        def step(tx: Transaction) -> str:
            config = set_by_owner(tx, by, "timezone", value)
            return zone_answer(jobs, now, config.timezone, self._default_zone, tx.ledger.has)

        return await self._store.transact(step)

    @slash_command(
        200,
        "ping-budget",
        "How often the bot may speak up by itself",
        Argument("capacity", "how many pings at most"),
        Argument("refill_rate", "minutes until one more"),
    )
    async def ping_budget(self, call: CommandCall) -> str:
        """Set the given limits and show all of them; raises `WrongInput`."""
        arguments, now = call.arguments, self._clock.now()

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


def _line(config: RuntimeConfig, key: str) -> str:
    mark = " (changed)" if key in config.changed() else ""
    return f"`{key}` {config.shown(key)}{mark}: {CONFIG_KEYS[key].about}"


def _number(word: str | None, before: int) -> int:
    """The number; 0, which is not a valid limit, for any other word."""
    if word is None:
        return before
    is_number = word.isascii() and word.isdecimal() and len(word) <= 9
    return int(word) if is_number else 0

"""What set-up knows of an installation, and the changes that it makes there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.environment import read_env_file
from ollim_bot.kernel.base.errors import BadSettings, CalendarFailed, OllimError, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret, Settings, problem_with
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.store.steps import set_by_owner
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.upkeep.env_file import (
    EnvChanges,
    change_env_file,
    env_text,
    stronger_place,
    with_changes,
)
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import GivenNames
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.terminal_data import Data, ReadOnlyJournal, note, prepared

if TYPE_CHECKING:
    from ollim_bot.features.calendars.feeds import CalendarFeeds, NewCalendar
    from ollim_bot.features.setup.auth_command import Login
    from ollim_bot.kernel.upkeep.findings import DoctorFinding
    from ollim_bot.kernel.values.provider import LoginStatus, Provider
    from ollim_bot.kernel.values.push import Pairing
    from ollim_bot.surfaces.discord.account import DiscordBot

T = TypeVar("T")

_DATA_DIR = "OLLIM_DATA_DIR"
_USER_NAME, _BOT_NAME, _ZONE = "OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_TIMEZONE"
_LINE_NUMBER = re.compile(r":\d+: ")


class ModelInUse(NamedTuple):
    """`login` is None where the settings name the provider, so that no login counts."""

    provider: Provider
    login: LoginStatus | None


class Installation:
    """The settings of the data directory, as they are after each change.

    `caller.settings()` refuses wrong settings; here they can be mended. Raises `BadSettings` if
    even the data directory is unclear.
    """

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        # The names of the settings that were changed.
        self.written: set[str] = set()
        # Whether a running bot does not know all of it yet.
        self.needs_restart = False
        self._examine()
        if unclear := [problem for problem in self.problems if f"{_DATA_DIR}: " in problem]:
            raise BadSettings(unclear)

    def _examine(self) -> None:
        self.settings, self.problems = self._read()
        self._chosen = self._chosen_in_chat()

    @property
    def config(self) -> RuntimeConfig:
        """What can be changed while the bot runs."""
        return self._read_rows(lambda tx: tx.config.get()) or RuntimeConfig()

    def configure(self, key: str, value: str) -> None:
        """Change what counts at once. Raises `WrongInput`, and nothing is made then."""
        RuntimeConfig().with_value(key, value)
        with self._writable() as data, data.database() as database:
            database.run(lambda tx: set_by_owner(tx, Changer.COMMAND, key, value))

    def pair(self, pairing: Pairing, last_reply: str) -> None:
        """Keep the pairing of a phone, which counts at once. Raises `StorageError`."""
        from ollim_bot.features.phone.pairing import keep
        from ollim_bot.features.phone.push_file import PushFile

        with self._writable() as data:
            keep(pairing, last_reply, PushFile(self.paths), data.rows)

    def _read_rows(self, question: Step[T]) -> T | None:
        """The answer from the database; None also if its address is one of the wrong settings."""
        now, environ = self.caller.now(), self.caller.environ
        try:
            return Data(self.paths, now, ReadOnlyJournal(), environ=environ).read(question)
        except OllimError:
            return None

    def _chosen_in_chat(self) -> dict[str, str]:
        """What was chosen there, by the names of the settings before which it counts."""
        found = self._read_rows(lambda tx: (tx.names.get(), tx.config.get()))
        if found is None:
            return {}
        names, config = found
        values = {_USER_NAME: names.user, _BOT_NAME: names.bot, _ZONE: config.timezone}
        if (own := self.settings).database_url is not None:  # `.env` alone would change nothing
            counts = {_USER_NAME: own.user_name, _BOT_NAME: own.bot_name, _ZONE: str(own.zone)}
            values = {name: value or counts[name] for name, value in values.items()}
        return {name: value for name, value in values.items() if value}

    @property
    def paths(self) -> DataPaths:
        return self.settings.paths

    @property
    def now(self) -> datetime:
        return self.caller.now().astimezone(self.zone)

    @property
    def zone(self) -> ZoneInfo:
        chosen = self._chosen.get(_ZONE)
        return ZoneInfo(chosen) if chosen else self.settings.zone

    @property
    def user_name(self) -> str:
        return self._chosen.get(_USER_NAME) or self.settings.user_name

    @property
    def bot_name(self) -> str:
        return self._chosen.get(_BOT_NAME) or self.settings.bot_name

    @property
    def is_running(self) -> bool:
        return running_pid(self.paths.bot_pid) is not None

    def stronger_place(self, name: str) -> str | None:
        """The place of a value that overrides the one that set-up writes."""
        if name in self._chosen:
            return None
        environ, beside = self.caller.environ, self.caller.path(".env")
        place = stronger_place(name, environ, beside, self.paths)
        return place if place != str(beside) else self.caller.shown(beside)

    def is_set(self, name: str) -> bool:
        """Whether the `.env` of the data directory sets the name."""
        return self._value(name) is not None

    def is_wrong(self, name: str) -> bool:
        """Whether the setting has a value that cannot be used, so that its default counts."""
        return any(f" {name}: " in problem for problem in self.problems)

    def _value(self, name: str) -> str | None:
        return read_env_file(env_text(self.paths)).values.get(name) or None

    def problems_after(self, changes: EnvChanges) -> list[str]:
        """What would be wrong with the settings after the changes, and is not wrong now."""
        proposed = with_changes(env_text(self.paths), changes)
        known = {_LINE_NUMBER.sub(": ", problem) for problem in self.problems}
        _, problems = self._read(proposed)
        return [each for each in problems if _LINE_NUMBER.sub(": ", each) not in known]

    def write(self, changes: EnvChanges) -> None:
        """Change the `.env` of the data directory. Raises `BadSettings` and `WriteFailed`."""
        if problems := self.problems_after(changes):
            raise BadSettings(problems)
        changed = [name for name, value in changes.items() if self._value(name) != (value or None)]
        if changed:
            with self._writable():
                change_env_file(self.paths, changes)
            self.written.update(changed)
            self.needs_restart = True
        self._overrule(changes)
        self._examine()

    def _read(self, proposed: str | None = None) -> tuple[Settings, list[str]]:
        texts = {} if proposed is None else {self.paths.env_file: proposed}
        caller = self.caller
        return Settings.examined(caller.environ, cwd=caller.path("."), proposed=texts)

    @contextmanager
    def _writable(self) -> Iterator[Data]:
        with prepared(self.paths) as journal:
            yield Data(self.paths, self.now, journal, environ=self.caller.environ)

    def _overrule(self, changes: EnvChanges) -> None:
        """Change what was chosen in the chat too, which would count before the settings."""
        new = {
            name: value
            for name, value in changes.items()
            if value and self._chosen.get(name, value) != value
        }
        if not new:
            return

        def step(tx: Transaction) -> None:
            names = tx.names.get()
            user, bot = new.get(_USER_NAME, names.user), new.get(_BOT_NAME, names.bot)
            tx.names.put(GivenNames(user, bot))
            if zone := new.get(_ZONE):
                set_by_owner(tx, Changer.COMMAND, "timezone", zone)

        with self._writable() as data, data.database() as database:
            database.run(step)

    def model_in_use(self, login: Login) -> ModelInUse:
        """The model that answers after the next start. Asks the login only if it counts."""
        from ollim_bot.kernel.upkeep.looks import provider_after_start

        environ = self.caller.environ
        return ModelInUse(*provider_after_start(self.settings, environ, login.status))

    def look_up_discord(self, token: str) -> DiscordBot | DoctorFinding:
        from ollim_bot.kernel.base.http_exchange import ask
        from ollim_bot.surfaces.discord.account import look_up_bot

        return look_up_bot(Secret(token), self.settings.discord_api_url, ask)

    def why_silent(self, server: str) -> str:
        """Why no model server answers at the address; empty if one does."""
        from ollim_bot.kernel.base.http_exchange import ask

        try:
            ask(f"{server if '://' in server else f'http://{server}'}/v1/models", {})
        except (OSError, ValueError) as silent:
            return (getattr(silent, "strerror", None) or str(silent)).rstrip(".")
        return ""

    def calendars(self) -> Sequence[str]:
        """The names of the subscribed calendars."""
        return [source.name for source in self._calendar_files().sources()]

    def read_calendar(self, address: str) -> NewCalendar:
        """Raises `WrongInput` for a wrong address, `CalendarFailed` if it cannot be read."""
        if "://" not in address:
            raise WrongInput("That is not a web address. Right: https://… from your calendar.")
        return self._feeds().read_new(address, None, self.now)

    def add_calendar(self, new: NewCalendar) -> None:
        with self._writable():
            self._feeds().add(new)

    def has_routines(self) -> bool:
        return any(self.paths.routines.glob("*.md"))

    def has_reminders(self) -> bool:
        return any(self.paths.reminders.glob("*.md"))

    def _calendar_files(self) -> CalendarFiles:
        return CalendarFiles(self.paths, report=lambda problem: note(str(problem)))

    def _feeds(self) -> CalendarFeeds:
        from ollim_bot.features.calendars.feeds import CalendarFeeds

        return CalendarFeeds(self.paths, self._calendar_files())


class GivenAnswers(NamedTuple):
    """What the flags say; None where they say nothing."""

    user_name: str | None = None
    bot_name: str | None = None
    timezone: str | None = None
    api_key: str | None = None
    discord_token: str | None = None
    calendar: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The given settings, by their names."""
        values = {
            "OLLIM_USER_NAME": self.user_name,
            "OLLIM_BOT_NAME": self.bot_name,
            "OLLIM_TIMEZONE": self.timezone,
            "ANTHROPIC_API_KEY": self.api_key,
            "DISCORD_TOKEN": self.discord_token,
        }
        return {name: value.strip() for name, value in values.items() if value is not None}


FLAGS = {
    "OLLIM_USER_NAME": "--user-name",
    "OLLIM_BOT_NAME": "--bot-name",
    "OLLIM_TIMEZONE": "--timezone",
    "ANTHROPIC_API_KEY": "--api-key",
    "DISCORD_TOKEN": "--discord-token",
}
# Each of them decides which model answers.
MODEL_SETTINGS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "OLLIM_MODEL",
)
_NEW = "On the page Bot of your application, Reset Token shows a new one."
_EMPTY = "is empty. Right: a value, or leave the flag out."


class CheckedAnswers(NamedTuple):
    """Right answers, with what was looked up to check them. `notes` are sentences."""

    changes: EnvChanges
    calendar: NewCalendar | None = None
    bot: DiscordBot | None = None
    notes: tuple[str, ...] = ()


def check_answers(
    given: GivenAnswers, of: Installation, others: Sequence[str] = ()
) -> CheckedAnswers:
    """Look all answers over, the token and the calendar live; nothing is written.

    Raises `BadSettings` with all problems at once, `others` included.
    """
    settings = given.settings
    problems = [
        *others,
        *(
            f"{FLAGS[name]}: {reason}"
            for name, value in settings.items()
            if (reason := problem_with(name, value) if value else _EMPTY)
        ),
    ]
    wrong = {problem.partition(":")[0] for problem in problems}
    changes: dict[str, str | None] = dict(settings)
    if given.api_key is not None:
        changes = {**dict.fromkeys(MODEL_SETTINGS), **changes}
    right = {name: value for name, value in changes.items() if FLAGS.get(name) not in wrong}
    # Before the token is sent anywhere: the environment may name another address.
    misplaced = of.problems_after(right)
    bot, notes = None, tuple[str, ...]()
    if given.discord_token and "--discord-token" not in wrong and not misplaced:
        found = of.look_up_discord(settings["DISCORD_TOKEN"])
        bot, reasons, notes = judged_bot(found, of.settings.discord_owner_id)
        problems += [f"--discord-token: {reason}" for reason in reasons]
    calendar = None
    if given.calendar is not None:
        try:
            calendar = of.read_calendar(given.calendar.strip())
        except (WrongInput, CalendarFailed) as refused:
            problems.append(f"--calendar: {refused}")
    if problems := [*problems, *misplaced]:
        raise BadSettings(problems)
    return CheckedAnswers(changes, calendar, bot, notes)


def judged_bot(
    found: DiscordBot | DoctorFinding, owner_id: int | None
) -> tuple[DiscordBot | None, list[str], tuple[str, ...]]:
    """The bot, what is wrong with the token, and what could not be checked."""
    from ollim_bot.kernel.upkeep.findings import DoctorFinding, Level
    from ollim_bot.surfaces.discord.account import NO_TOKEN

    bot = None if isinstance(found, DoctorFinding) else found
    finding = found if isinstance(found, DoctorFinding) else found.owned_by(owner_id)
    sentence = f"{finding.detail[:1].upper()}{finding.detail[1:]}."
    if finding.level is Level.FAIL:
        return bot, [f"{sentence} {_NEW if finding.detail == NO_TOKEN else finding.next}"], ()
    if finding.level is Level.WARN:
        return bot, [], (f"{sentence} {finding.next}",)
    return bot, [], ()

"""A talk with a person at the terminal, about an installation and the changes made there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.environment import read_env_file
from ollim_bot.kernel.base.errors import BadSettings, OllimError
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.files import ReadOnlyJournal
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
from ollim_bot.surfaces.terminal.framework import plain
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, prepared

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_DATA_DIR = "OLLIM_DATA_DIR"
_USER_NAME, _BOT_NAME, _ZONE = "OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_TIMEZONE"
_LINE_NUMBER = re.compile(r":\d+: ")
_INDENT = " " * 6
_NOT_SHOWN = "not shown as you type; Enter: not now"
TAKEN = "{name} is set in {place}, which counts before what set-up writes: change it there."
_YES = ("y", "yes")


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
        with self.writable() as data, data.database() as database:
            database.run(lambda tx: set_by_owner(tx, Changer.COMMAND, key, value))

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
            with self.writable():
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
    def writable(self) -> Iterator[Data]:
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

        with self.writable() as data, data.database() as database:
            database.run(step)


class Console(Protocol):
    """A person at a terminal. A question raises `KeyboardInterrupt` or `EOFError` to stop."""

    def say(self, line: str, indent: str = "") -> None: ...

    def ask(self, question: str) -> str: ...

    def ask_secret(self, question: str) -> str:
        """Ask without showing the answer."""


class TerminalConsole:
    def say(self, line: str, indent: str = "") -> None:
        show(plain(line), indent)

    def ask(self, question: str) -> str:
        return input(question)

    def ask_secret(self, question: str) -> str:
        from getpass import getpass

        return getpass(question)


class Interview:
    """Each line begins with `indent`, in which the mark of a question has room."""

    def __init__(self, console: Console, of: Installation, indent: str = _INDENT) -> None:
        self.indent = indent
        self.of = of
        self._console = console
        self._mark = ""

    def begin(self, mark: str) -> None:
        """Put the mark before the next line."""
        self._mark = mark

    def say(self, text: str) -> None:
        for line in text.splitlines():
            self._console.say(f"{self._margin()}{line}", self.indent)

    def ask(self, question: str, default: str = "") -> str:
        """The answer; an empty one is the default."""
        shown = f" [{plain(default)}]" if default else ""
        return self._console.ask(f"{self._margin()}{question}{shown}: ").strip() or default

    def ask_right(self, question: str, problem: Callable[[str], str], default: str = "") -> str:
        """As `ask`, again until `problem` is empty; an empty answer and the default are right."""
        while (answer := self.ask(question, default)) and answer != default:
            if not (reason := problem(answer)):
                break
            self.say(f"{reason[:1].upper()}{reason[1:]}")
        return answer

    def ask_secret(self, question: str, problem: Callable[[str], str]) -> str:
        """As `ask_right`, without showing the answer; empty if the person gives none."""
        asked = f"{question} ({_NOT_SHOWN}): "
        while answer := self._console.ask_secret(f"{self._margin()}{asked}").strip():
            if not (reason := problem(answer)):
                break
            self.say(f"{reason[:1].upper()}{reason[1:]}")
        return answer

    def agrees(self, question: str) -> bool:
        return self.ask(f"{question} y or Enter for no").lower() in _YES

    def is_taken(self, *names: str) -> bool:
        """Whether another place sets one of the names, which is said."""
        places = {name: self.of.stronger_place(name) for name in names}
        for name, place in places.items():
            if place is not None:
                self.say(TAKEN.format(name=name, place=place))
        return any(places.values())

    def _margin(self) -> str:
        margin, self._mark = self._mark.ljust(len(self.indent)), ""
        return margin

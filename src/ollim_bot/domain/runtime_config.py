"""Settings that can be changed while the bot runs: one table of keys, used by every surface."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ollim_bot.errors import WrongInput

ConfigValue = str | int | float | bool | None | tuple[str, ...]
Thinking = str | int


class PermissionMode(StrEnum):
    DONT_ASK = "dontAsk"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Lengths of time are in the unit that their key's hint names.

    `unread` keeps stored values that are wrong or of another version, so that none is lost.
    """

    model_main: str | None = None
    model_fork: str | None = None
    thinking_main: Thinking = "off"
    thinking_fork: Thinking = "adaptive"
    bg_fork_timeout: int = 1800
    bg_concurrency: int = 3
    fork_idle_timeout: int = 10
    permission_mode: str = PermissionMode.DONT_ASK.value
    approval_timeout: int = 600
    critical_daily_cap: int = 5
    daily_cost_cap: float | None = None
    auto_update: bool = False
    auto_update_interval: int = 60
    auto_update_hour: int = 6
    google_calendars: tuple[str, ...] = ("primary",)
    google_task_list: str = "@default"
    unread: Mapping[str, object] = field(default_factory=dict)

    def value(self, key: str) -> ConfigValue:
        value: ConfigValue = getattr(self, config_key(key).attribute)
        return value

    def with_value(self, key: str, value: object) -> RuntimeConfig:
        """`value` as a person typed it or JSON held it; raises `WrongInput` if it is not right."""
        known = config_key(key)
        try:
            checked = known.check(value)
        except ValueError:
            raise WrongInput(f"{key}: {value!r} is not right. It takes {known.takes}.") from None
        return self._with(key, known.attribute, checked)

    def with_default(self, key: str) -> RuntimeConfig:
        attribute = config_key(key).attribute
        return self._with(key, attribute, getattr(RuntimeConfig(), attribute))

    def _with(self, key: str, attribute: str, value: ConfigValue) -> RuntimeConfig:
        unread = {name: kept for name, kept in self.unread.items() if name != key}
        # The keys of the table are the fields of this class: one test holds them together.
        changes: dict[str, Any] = {attribute: value, "unread": unread}
        return replace(self, **changes)

    def changed(self) -> dict[str, ConfigValue]:
        """What differs from the defaults, by key: the only thing that is stored."""
        defaults = RuntimeConfig()
        return {
            key: self.value(key) for key in CONFIG_KEYS if self.value(key) != defaults.value(key)
        }


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """`check` returns the value to keep, or raises `ValueError`; `takes` says what is right."""

    attribute: str
    takes: str
    check: Callable[[object], ConfigValue]


def config_key(key: str) -> ConfigKey:
    try:
        return CONFIG_KEYS[key]
    except KeyError:
        raise WrongInput(
            f"There is no setting {key!r}. `ollim-bot config list` shows them all."
        ) from None


def parse_config(stored: Mapping[str, object]) -> tuple[RuntimeConfig, list[str]]:
    """The config, and a sentence for every stored value that is wrong and was ignored."""
    config, unread, problems = RuntimeConfig(), {}, []
    for key, value in stored.items():
        try:
            config = config.with_value(key, value)
        except WrongInput as wrong:
            unread[key] = value
            problems.append(f"{wrong} It is ignored.")
    return replace(config, unread=unread), problems


def shown(value: ConfigValue) -> str:
    """A value the way a person types it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def _whole(low: int, high: int | None = None) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,9}", value.strip()):
            raise ValueError
        number = int(value)
        if number < low or (high is not None and number > high):
            raise ValueError
        return number

    return check


def _model(value: object) -> str | None:
    if value is None or value in ("none", "default"):
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][\w.:/@\[\]-]{1,199}", value):
        raise ValueError
    return value


def _thinking(value: object) -> Thinking:
    if value in ("off", "adaptive"):
        return str(value)
    return _whole(1)(value)


def _switch(value: object) -> bool:
    words = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _money(value: object) -> float | None:
    if value is None or value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    amount = float(value)
    if not (math.isfinite(amount) and amount > 0):
        raise ValueError
    return amount


def _mode(value: object) -> str:
    return PermissionMode(str(value)).value


def _words(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError
    words = tuple(part.strip() for part in parts if part.strip())
    if not words:
        raise ValueError
    return words


def _word(value: object) -> str:
    (word,) = _words([value])
    return word


_A_MODEL = "opus, sonnet, haiku, a full model id, or none"
_A_THINKING = "off, adaptive, or a number of tokens such as 4000"

CONFIG_KEYS: Mapping[str, ConfigKey] = {
    "model.main": ConfigKey("model_main", _A_MODEL, _model),
    "model.fork": ConfigKey("model_fork", f"{_A_MODEL} (then as model.main)", _model),
    "thinking.main": ConfigKey("thinking_main", _A_THINKING, _thinking),
    "thinking.fork": ConfigKey("thinking_fork", _A_THINKING, _thinking),
    "bg_fork_timeout": ConfigKey("bg_fork_timeout", "seconds, at least 1", _whole(1)),
    "bg_concurrency": ConfigKey("bg_concurrency", "a number from 1 to 16", _whole(1, 16)),
    "fork_idle_timeout": ConfigKey("fork_idle_timeout", "minutes, at least 1", _whole(1)),
    "permission_mode": ConfigKey("permission_mode", " or ".join(PermissionMode), _mode),
    "approval_timeout": ConfigKey("approval_timeout", "seconds, at least 1", _whole(1)),
    "critical_daily_cap": ConfigKey("critical_daily_cap", "a number, 0 or more", _whole(0)),
    "daily_cost_cap": ConfigKey("daily_cost_cap", "US dollars such as 2.50, or none", _money),
    "auto_update": ConfigKey("auto_update", "on or off", _switch),
    "auto_update_interval": ConfigKey("auto_update_interval", "minutes, at least 1", _whole(1)),
    "auto_update_hour": ConfigKey("auto_update_hour", "an hour from 0 to 23", _whole(0, 23)),
    "google_calendars": ConfigKey("google_calendars", "calendar ids with commas", _words),
    "google_task_list": ConfigKey("google_task_list", "the id of a task list", _word),
}

"""Settings that can be changed while the bot runs: one table of keys, used by every surface."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from ollim_bot.domain.text import shortened
from ollim_bot.errors import WrongInput

ConfigValue = str | int | float | bool | None | tuple[str, ...]
Thinking = str | int
T = TypeVar("T")

# Far beyond any use, and still safe to add to a moment as seconds or as minutes.
_LARGEST = 999_999_999
_LONGEST_SHOWN = 60
_ALIASES = ("opus", "sonnet", "haiku")
_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@\[\]-]{1,199}")


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

    def in_words(self, key: str) -> str:
        """The value the way a person types it."""
        value = self.value(key)
        return config_key(key).none if value is None else _typed(value)

    def with_value(self, key: str, value: object) -> RuntimeConfig:
        """`value` as a person typed it or JSON held it; raises `WrongInput` if it is not right."""
        known = config_key(key)
        try:
            checked = known.check(value.strip() if isinstance(value, str) else value)
        except ValueError:
            wrong = shortened(repr(value), _LONGEST_SHOWN)
            raise WrongInput(f"{key}: {wrong} is not right. It takes {known.takes}.") from None
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
    """`check` returns the value to keep, or raises `ValueError`; `takes` says what is right.

    `none` is the word for no value.
    """

    attribute: str
    takes: str
    check: Callable[[object], ConfigValue]
    none: str = "none"


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


def _typed(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def _whole(low: int, high: int = _LARGEST) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return check


def _one_of(words: Mapping[str, T]) -> Callable[[object], T]:
    def check(value: object) -> T:
        if not isinstance(value, str) or value.lower() not in words:
            raise ValueError
        return words[value.lower()]

    return check


def _model(value: object) -> str | None:
    if value is None or _is_word(value, "none", "default"):
        return None
    if not isinstance(value, str) or not _MODEL_ID.fullmatch(value):
        raise ValueError
    return value.lower() if _is_word(value, *_ALIASES) else value


def _thinking(value: object) -> Thinking:
    return str(value).lower() if _is_word(value, "off", "adaptive") else _whole(1)(value)


def _switch(value: object) -> bool:
    return value if isinstance(value, bool) else _one_of(_SWITCH)(value)


def _money(value: object) -> float | None:
    if value is None or _is_word(value, "none"):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,20})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not 0.01 <= value <= 1_000_000:
        raise ValueError
    return float(value)


def _words(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    words = tuple(filter(None, (word.strip() for text in texts for word in text.split(","))))
    if not words or not all(word.isprintable() for word in words):
        raise ValueError
    return words


def _word(value: object) -> str:
    (word,) = _words([value])
    return word


def _is_word(value: object, *words: str) -> bool:
    return isinstance(value, str) and value.lower() in words


def _number(attribute: str, unit: str, low: int, high: int = _LARGEST) -> ConfigKey:
    span = f", {low} or more" if high == _LARGEST else f" from {low} to {high}"
    return ConfigKey(attribute, unit + span, _whole(low, high))


_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_MODES = {mode.lower(): mode.value for mode in PermissionMode}
_A_MODEL = "opus, sonnet, haiku, a full model id, or default"
_A_THINKING = "off, adaptive, or a number of tokens such as 4000"
_A_MODE = f"one of {', '.join(PermissionMode)}"
_AN_AMOUNT = "US dollars such as 2.50, or none"

CONFIG_KEYS: Mapping[str, ConfigKey] = {
    "model.main": ConfigKey("model_main", _A_MODEL, _model, "default"),
    "model.fork": ConfigKey("model_fork", f"{_A_MODEL} (then as model.main)", _model, "default"),
    "thinking.main": ConfigKey("thinking_main", _A_THINKING, _thinking),
    "thinking.fork": ConfigKey("thinking_fork", _A_THINKING, _thinking),
    "bg_fork_timeout": _number("bg_fork_timeout", "seconds", 1),
    "bg_concurrency": _number("bg_concurrency", "a number", 1, 16),
    "fork_idle_timeout": _number("fork_idle_timeout", "minutes", 1),
    "permission_mode": ConfigKey("permission_mode", _A_MODE, _one_of(_MODES)),
    "approval_timeout": _number("approval_timeout", "seconds", 1),
    "critical_daily_cap": _number("critical_daily_cap", "a number", 0),
    "daily_cost_cap": ConfigKey("daily_cost_cap", _AN_AMOUNT, _money),
    "auto_update": ConfigKey("auto_update", "on or off", _switch),
    "auto_update_interval": _number("auto_update_interval", "minutes", 1),
    "auto_update_hour": _number("auto_update_hour", "an hour", 0, 23),
    "google_calendars": ConfigKey("google_calendars", "calendar ids with commas", _words),
    "google_task_list": ConfigKey("google_task_list", "the id of a task list", _word),
}

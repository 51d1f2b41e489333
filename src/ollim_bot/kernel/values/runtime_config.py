"""Settings that can be changed while the bot runs: one table of keys, used by every surface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import Nag, near_zone, zone_named
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.quiet import QuietHours

ConfigValue = str | int | float | bool | None | tuple[str, ...]
Thinking = str | int
T = TypeVar("T")

# The daily limit of a directory that is made now, in US dollars.
DAILY_LIMIT = 5.0
MADE_BEFORE_DAILY_LIMIT = "made_before_daily_limit"
# Safe to add to a moment as seconds or as minutes.
_LARGEST = 999_999_999
_ALIASES = ("opus", "sonnet", "haiku")
_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@\[\]-]{1,199}")


class PermissionMode(StrEnum):
    DONT_ASK = "dontAsk"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


class PushWhat(StrEnum):
    """What rings on the phone: what asks something, only what must come, or all that comes."""

    ASKS = "asks"
    MUST = "must"
    ALL = "all"


class PushContent(StrEnum):
    """How much of a message leaves the machine: all of it, its title, or only that there is one."""

    FULL = "full"
    TITLE = "title"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """`check` returns the value to store, or raises `ValueError`; `takes` says what is valid.

    `about` says what the setting does, `none` is the word for no value, `unit` is said after a
    value.
    """

    attribute: str
    takes: str
    check: Callable[[object], ConfigValue]
    about: str
    none: str = "none"
    unit: str = ""

    def words(self) -> list[str]:
        """The single words that `takes` names and `check` accepts, such as `on` and `off`."""
        named = re.sub(r"^one of | \(.*\)", "", self.takes)
        found = []
        for part in re.split(r", or |, | or ", named):
            with suppress(ValueError):
                if part.isalpha():
                    self.check(part)
                    found.append(part)
        return found


class _Explained(ValueError):
    """`str()` is the sentence about the value."""


class _NearMiss(ValueError):
    """`str()` is the value that was probably meant."""


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


def _model(value: object) -> str:
    name = _text(value)
    if not _MODEL_ID.fullmatch(name):
        raise ValueError
    return name.lower() if name.lower() in _ALIASES else name


def _thinking(value: object) -> Thinking:
    is_word = isinstance(value, str) and value.lower() in ("off", "adaptive")
    return str(value).lower() if is_word else _whole(1)(value)


def _switch(value: object) -> bool:
    return value if isinstance(value, bool) else _one_of(_SWITCH)(value)


def _money(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,20})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not 0.01 <= value <= 1_000_000:
        raise ValueError
    return float(value)


def _nag(value: object) -> str:
    text = _text(value)
    try:
        return str(Nag.parse(text))
    except ValueError as why:
        raise _Explained(str(why)) from None


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


def _zone(value: object) -> str:
    name = _text(value)
    if zone_named(name) is None:
        near = near_zone(name)
        raise ValueError if near is None else _NearMiss(near)
    return name


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_A_MODEL = "opus, sonnet, haiku, a full model id, or default"
_A_THINKING = "off, adaptive, or a number of tokens such as 4000"
_UNITS = ("seconds", "minutes")


def _setting(
    default: T,
    takes: str,
    check: Callable[[object], ConfigValue],
    about: str,
    *,
    none: str = "",
    unit: str = "",
    key: str = "",
) -> T:
    """A line of the table; with `none`, that word, `none` and no value mean that it is not set."""

    def check_or_none(value: object) -> ConfigValue:
        is_none = isinstance(value, str) and value.lower() in (none, "none")
        return None if value is None or is_none else check(value)

    known = ConfigKey("", takes, check_or_none if none else check, about, none or "none", unit)
    return field(default=default, metadata={"known": known, "key": key})


def _number(default: int, kind: str, low: int, about: str, high: int = _LARGEST) -> int:
    span = f", {low} or more" if high == _LARGEST else f" from {low} to {high}"
    unit = kind if kind in _UNITS else ""
    return _setting(default, kind + span, _whole(low, high), about, unit=unit)


def _choice(default: str, options: Iterable[str], about: str) -> str:
    words = {each.lower(): str(each) for each in options}
    return _setting(default, f"one of {', '.join(words.values())}", _one_of(words), about)


def _on_or_off(about: str, *, is_on: bool = False) -> bool:
    return _setting(is_on, "on or off", _switch, about)


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """All settings; each line has the default, what it takes, its check, and what it does.

    The name of a field is its key, with an underscore for the dot. `unread` keeps stored values
    that are wrong or of another version, so that none is lost. A data directory that was
    `made_before_daily_limit` has no limit by default.
    """

    model_main: str | None = _setting(
        None, _A_MODEL, _model, "the model that answers you", none="default", key="model.main"
    )
    model_fork: str | None = _setting(
        None,
        f"{_A_MODEL} (then as model.main)",
        _model,
        "the model of side conversations",
        none="default",
        key="model.fork",
    )
    thinking_main: str | int = _setting(
        "off",
        _A_THINKING,
        _thinking,
        "how much it thinks before it answers you",
        key="thinking.main",
    )
    thinking_fork: str | int = _setting(
        "adaptive", _A_THINKING, _thinking, "the same in a side conversation", key="thinking.fork"
    )
    bg_fork_timeout: int = _number(1800, "seconds", 1, "how long a background run may take")
    bg_concurrency: int = _number(
        3, "a number", 1, "how many background runs go on at once", high=16
    )
    fork_idle_timeout: int = _number(
        10, "minutes", 1, "how long a side conversation waits for you before it asks"
    )
    permission_mode: str = _choice(
        PermissionMode.DONT_ASK.value,
        PermissionMode,
        "what happens when the agent wants a tool you have not allowed",
    )
    approval_timeout: int = _number(600, "seconds", 1, "how long the bot waits for your permission")
    critical_daily_cap: int = _number(
        5, "a number", 0, "how many urgent messages may come in a day"
    )
    daily_cost_cap: float | None = _setting(
        DAILY_LIMIT,
        "US dollars such as 2.50, or none",
        _money,
        "Daily limit: when jobs have cost this much today, they stop using the model "
        "until tomorrow",
        none="none",
        unit="US dollars",
    )
    quiet_hours: str | None = _setting(
        None,
        "two times such as 22:00-07:00, or off",
        lambda value: str(QuietHours.parse(_text(value))),
        "Quiet hours. Only reminders you asked for and urgent messages come; everything else "
        "waits until they end",
        none="off",
    )
    receipt_in_digest: bool = _on_or_off(
        "end the message after the quiet with the receipt of the day"
    )
    push_what: str = _choice(
        "asks",
        PushWhat,
        "What rings on your phone: asks is what waits for your answer, must is only what must "
        "come, all is everything that comes by itself",
    )
    push_content: str = _choice(
        "full",
        PushContent,
        "How much of a message goes to your phone: full is all its words, title is only its "
        "title, none is just the news that something waits",
    )
    desktop_notifications: str = _choice(
        "auto",
        ("auto", "on", "off"),
        "Notifications by the bot itself when no open page can show them: auto shows them where "
        "it sees a desktop, on tries always",
    )
    page_sound: bool = _on_or_off(
        "The page plays a short sound for what asks you something; never while it is quiet",
        is_on=True,
    )
    timezone: str | None = _setting(
        None,
        "the name of a time zone such as Asia/Tokyo, or default",
        _zone,
        "your time zone; jobs follow it unless they have their own",
        none="default",
    )
    nag_default: str | None = _setting(
        None,
        "a pause and how often, such as 10m x 4, or off",
        _nag,
        "how often a new reminder comes again until you answer it",
        none="off",
    )
    travel_minutes: int | None = _setting(
        None,
        "minutes from 1 to 600, or off",
        _whole(1, 600),
        "Leave by: how long before an event with a place you are told to leave",
        none="off",
        unit="minutes",
    )
    webhook_per_minute: int = _number(
        60, "a number", 1, "how many calls a minute a webhook accepts"
    )
    webhook_total_per_minute: int = _number(
        300, "a number", 1, "how many calls a minute all webhooks accept together"
    )
    auto_update: bool = _on_or_off("install newer versions by itself, in the hour auto_update_hour")
    auto_update_hour: int = _number(
        6, "an hour", 0, "the hour of the daily update and backup", high=23
    )
    auto_backup: bool = _on_or_off("make a backup every day, from auto_update_hour on")
    google_calendars: tuple[str, ...] = _setting(
        ("primary",),
        "calendar ids with commas",
        _words,
        "which calendars at Google are read; new events go to the first",
    )
    google_task_list: str = _setting(
        "@default", "the id of a task list", _word, "the task list at Google that the bot uses"
    )
    unread: Mapping[str, object] = field(default_factory=dict)
    made_before_daily_limit: bool = False

    @property
    def defaults(self) -> RuntimeConfig:
        """The defaults of this data directory."""
        return _OLDER_DEFAULTS if self.made_before_daily_limit else RuntimeConfig()

    def value(self, key: str) -> ConfigValue:
        value: ConfigValue = getattr(self, config_key(key).attribute)
        return value

    def in_words(self, key: str) -> str:
        """The value in the form that a person types."""
        match self.value(key):
            case None:
                return config_key(key).none
            case bool() as is_on:
                return "on" if is_on else "off"
            case tuple() as words:
                return ", ".join(words)
            case float() as number if number.is_integer():
                return str(int(number))
            case value:
                return str(value)

    def shown(self, key: str) -> str:
        """The value with its unit."""
        unit = config_key(key).unit
        return self.in_words(key) + (f" {unit}" if unit and self.value(key) is not None else "")

    def with_value(self, key: str, value: object) -> RuntimeConfig:
        """The config with a typed or stored value. Raises `WrongInput` if it is invalid."""
        known = config_key(key)
        try:
            checked = known.check(value.strip() if isinstance(value, str) else value)
        except ValueError as error:
            wrong = shortened(repr(value), 60)
            hint = f" Did you mean {error}?" if isinstance(error, _NearMiss) else ""
            said = str(error) if isinstance(error, _Explained) else f"{wrong} is not right.{hint}"
            sentence = f"{key}: {said} It takes {known.takes}."
            raise WrongInput(sentence) from None
        return self._with(key, known.attribute, checked)

    def with_default(self, key: str) -> RuntimeConfig:
        attribute = config_key(key).attribute
        return self._with(key, attribute, getattr(self.defaults, attribute))

    def _with(self, key: str, attribute: str, value: ConfigValue) -> RuntimeConfig:
        unread = {name: kept for name, kept in self.unread.items() if name != key}
        changes: dict[str, Any] = {attribute: value, "unread": unread}
        return replace(self, **changes)

    def changed(self) -> dict[str, ConfigValue]:
        """The values that differ from the defaults, by key: only these are stored."""
        defaults = self.defaults
        return {
            key: self.value(key) for key in CONFIG_KEYS if self.value(key) != defaults.value(key)
        }


_OLDER_DEFAULTS = RuntimeConfig(daily_cost_cap=None, made_before_daily_limit=True)

CONFIG_KEYS: Mapping[str, ConfigKey] = {
    one.metadata["key"] or one.name: replace(one.metadata["known"], attribute=one.name)
    for one in fields(RuntimeConfig)
    if one.metadata
}


def config_key(key: str) -> ConfigKey:
    try:
        return CONFIG_KEYS[key]
    except KeyError:
        raise WrongInput(
            f"There is no setting {key!r}. `ollim-bot config list` shows them all."
        ) from None


def parse_config(stored: Mapping[str, object]) -> tuple[RuntimeConfig, list[str]]:
    """The config, and a sentence for each stored value that is wrong and therefore ignored."""
    is_older = stored.get(MADE_BEFORE_DAILY_LIMIT) is True
    config, unread, problems = _OLDER_DEFAULTS if is_older else RuntimeConfig(), {}, []
    for key, value in stored.items():
        if is_older and key == MADE_BEFORE_DAILY_LIMIT:
            continue
        try:
            config = config.with_value(key, value)
        except WrongInput as wrong:
            unread[key] = value
            problems.append(f"{wrong} It is ignored.")
    return replace(config, unread=unread), problems

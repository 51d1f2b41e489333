"""Settings that can be changed while the bot runs: one table of keys, used by every surface."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from ollim_bot.domain.moments import Nag, near_zone, zone_named
from ollim_bot.domain.quiet import QuietHours
from ollim_bot.domain.text import shortened
from ollim_bot.errors import WrongInput

ConfigValue = str | int | float | bool | None | tuple[str, ...]
Thinking = str | int
T = TypeVar("T")

# The daily limit of a directory that is made now, in US dollars.
DAILY_LIMIT = 5.0
MADE_BEFORE_DAILY_LIMIT = "made_before_daily_limit"
# Safe to add to a moment as seconds or as minutes.
_LARGEST = 999_999_999
_LONGEST_SHOWN = 60
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

    `none` is the word for no value, `unit` is said after a value. `about` says what the setting
    does; one that does nothing yet has none, can be set, and is not listed for people.
    """

    attribute: str
    takes: str
    check: Callable[[object], ConfigValue]
    none: str = "none"
    about: str = ""
    unit: str = ""

    def words(self) -> list[str]:
        """The single words that `takes` names and `check` accepts, such as `on` and `off`."""
        named = re.sub(r"^one of | \(.*\)", "", self.takes)
        parts = re.split(r", or |, | or ", named)
        return [part for part in parts if part.isalpha() and self._accepts(part)]

    def _accepts(self, word: str) -> bool:
        try:
            self.check(word)
        except ValueError:
            return False
        return True


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


def _hours(value: object) -> str | None:
    if value is None or _is_word(value, "off", "none"):
        return None
    if not isinstance(value, str):
        raise ValueError
    return str(QuietHours.parse(value))


def _nag(value: object) -> str | None:
    if value is None or _is_word(value, "off", "none"):
        return None
    if not isinstance(value, str):
        raise ValueError
    try:
        return str(Nag.parse(value))
    except ValueError as why:
        raise _Explained(str(why)) from None


def _minutes(value: object) -> int | None:
    if value is None or _is_word(value, "off", "none"):
        return None
    return _whole(1, 600)(value)


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


def _zone(value: object) -> str | None:
    if value is None or _is_word(value, "default", "none"):
        return None
    if not isinstance(value, str):
        raise ValueError
    if zone_named(value) is None:
        near = near_zone(value)
        raise ValueError if near is None else _NearMiss(near)
    return value


class _Explained(ValueError):
    """`str()` is the sentence about the value."""


class _NearMiss(ValueError):
    """`str()` is the value that was probably meant."""


def _is_word(value: object, *words: str) -> bool:
    return isinstance(value, str) and value.lower() in words


_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_MODES = {mode.lower(): mode.value for mode in PermissionMode}
_A_MODEL = "opus, sonnet, haiku, a full model id, or default"
_A_THINKING = "off, adaptive, or a number of tokens such as 4000"
_A_MODE = f"one of {', '.join(PermissionMode)}"
DESKTOP_MODES = ("auto", "on", "off")
_UNITS = ("seconds", "minutes")
_AN_AMOUNT = "US dollars such as 2.50, or none"


def _setting(
    key: str,
    default: T,
    takes: str,
    check: Callable[[object], ConfigValue],
    none: str = "none",
    *,
    about: str = "",
    unit: str = "",
) -> T:
    known = ConfigKey(key.replace(".", "_"), takes, check, none, about, unit)
    return field(default=default, metadata={key: known})


def _number(
    key: str, default: int, kind: str, low: int, high: int = _LARGEST, *, about: str = ""
) -> int:
    span = f", {low} or more" if high == _LARGEST else f" from {low} to {high}"
    unit = kind if kind in _UNITS else ""
    return _setting(key, default, kind + span, _whole(low, high), about=about, unit=unit)


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """All settings; each line has the key, the default, what it takes, and its check.

    The name of a field is its key, with an underscore for the dot. `unread` keeps stored values
    that are wrong or of another version, so that none is lost. A data directory that was
    `made_before_daily_limit` has no limit by default.
    """

    model_main: str | None = _setting(
        "model.main", None, _A_MODEL, _model, "default", about="the model that answers you"
    )
    model_fork: str | None = _setting(
        "model.fork",
        None,
        f"{_A_MODEL} (then as model.main)",
        _model,
        "default",
        about="the model of side conversations",
    )
    thinking_main: str | int = _setting(
        "thinking.main",
        "off",
        _A_THINKING,
        _thinking,
        about="how much it thinks before it answers you",
    )
    thinking_fork: str | int = _setting(
        "thinking.fork", "adaptive", _A_THINKING, _thinking, about="the same in a side conversation"
    )
    bg_fork_timeout: int = _number(
        "bg_fork_timeout", 1800, "seconds", 1, about="how long a background run may take"
    )
    bg_concurrency: int = _number(
        "bg_concurrency", 3, "a number", 1, 16, about="how many background runs go on at once"
    )
    fork_idle_timeout: int = _number(
        "fork_idle_timeout",
        10,
        "minutes",
        1,
        about="how long a side conversation waits for you before it asks",
    )
    permission_mode: str = _setting(
        "permission_mode",
        PermissionMode.DONT_ASK.value,
        _A_MODE,
        _one_of(_MODES),
        about="what happens when the agent wants a tool you have not allowed",
    )
    approval_timeout: int = _number(
        "approval_timeout", 600, "seconds", 1, about="how long the bot waits for your permission"
    )
    critical_daily_cap: int = _number(
        "critical_daily_cap", 5, "a number", 0, about="how many urgent messages may come in a day"
    )
    daily_cost_cap: float | None = _setting(
        "daily_cost_cap",
        DAILY_LIMIT,
        _AN_AMOUNT,
        _money,
        about="Daily limit: when jobs have cost this much today, they stop using the model "
        "until tomorrow",
        unit="US dollars",
    )
    quiet_hours: str | None = _setting(
        "quiet_hours",
        None,
        "two times such as 22:00-07:00, or off",
        _hours,
        "off",
        about="Quiet hours. Only reminders you asked for and urgent messages come; everything "
        "else waits until they end",
    )
    receipt_in_digest: bool = _setting(
        "receipt_in_digest",
        default=False,
        takes="on or off",
        check=_switch,
        about="end the message after the quiet with the receipt of the day",
    )
    push_what: str = _setting(
        "push_what",
        "asks",
        f"one of {', '.join(PushWhat)}",
        _one_of({each: each.value for each in PushWhat}),
        about="What rings on your phone: asks is what waits for your answer, must is only what "
        "must come, all is everything that comes by itself",
    )
    push_content: str = _setting(
        "push_content",
        "full",
        f"one of {', '.join(PushContent)}",
        _one_of({each: each.value for each in PushContent}),
        about="How much of a message goes to your phone: full is all its words, title is only its "
        "title, none is just the news that something waits",
    )
    desktop_notifications: str = _setting(
        "desktop_notifications",
        "auto",
        f"one of {', '.join(DESKTOP_MODES)}",
        _one_of({mode: mode for mode in DESKTOP_MODES}),
        about="Notifications by the bot itself when no open page can show them: auto shows them "
        "where it sees a desktop, on tries always",
    )
    page_sound: bool = _setting(
        "page_sound",
        default=True,
        takes="on or off",
        check=_switch,
        about="The page plays a short sound for what asks you something; never while it is quiet",
    )
    timezone: str | None = _setting(
        "timezone",
        None,
        "the name of a time zone such as Asia/Tokyo, or default",
        _zone,
        "default",
        about="your time zone; jobs follow it unless they have their own",
    )
    nag_default: str | None = _setting(
        "nag_default",
        None,
        "a pause and how often, such as 10m x 4, or off",
        _nag,
        "off",
        about="how often a new reminder comes again until you answer it",
    )
    travel_minutes: int | None = _setting(
        "travel_minutes",
        None,
        "minutes from 1 to 600, or off",
        _minutes,
        "off",
        about="Leave by: how long before an event with a place you are told to leave",
        unit="minutes",
    )
    webhook_per_minute: int = _number(
        "webhook_per_minute", 60, "a number", 1, about="how many calls a minute a webhook accepts"
    )
    webhook_total_per_minute: int = _number(
        "webhook_total_per_minute",
        300,
        "a number",
        1,
        about="how many calls a minute all webhooks accept together",
    )
    auto_update: bool = _setting(
        "auto_update",
        default=False,
        takes="on or off",
        check=_switch,
        about="install newer versions by itself, in the hour auto_update_hour",
    )
    auto_update_hour: int = _number(
        "auto_update_hour", 6, "an hour", 0, 23, about="the hour of the daily update and backup"
    )
    auto_backup: bool = _setting(
        "auto_backup",
        default=False,
        takes="on or off",
        check=_switch,
        about="make a backup every day, from auto_update_hour on",
    )
    google_calendars: tuple[str, ...] = _setting(
        "google_calendars",
        ("primary",),
        "calendar ids with commas",
        _words,
        about="which calendars at Google are read; new events go to the first",
    )
    google_task_list: str = _setting(
        "google_task_list",
        "@default",
        "the id of a task list",
        _word,
        about="the task list at Google that the bot uses",
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
        value = self.value(key)
        return config_key(key).none if value is None else _typed(value)

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
            wrong = shortened(repr(value), _LONGEST_SHOWN)
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
    key: known for one in fields(RuntimeConfig) for key, known in one.metadata.items()
}


# Those that a person sees in lists.
LISTED_KEYS = tuple(key for key, known in CONFIG_KEYS.items() if known.about)


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


def _typed(value: ConfigValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)

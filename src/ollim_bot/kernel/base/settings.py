"""The settings from the environment and from `.env`, checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ollim_bot.kernel.base.database_address import problem_with_address
from ollim_bot.kernel.base.environment import (
    DATABASE_URL,
    ETC,
    EnvSources,
    InvalidSetting,
    Location,
    find_location,
    one_line,
    read_zone,
    shared_settings,
    shown_value,
)
from ollim_bot.kernel.base.errors import BadSettings

Choice = TypeVar("Choice", bound=StrEnum)
_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?(/[\w./~%:-]*)?", re.ASCII)
_ON_THIS_MACHINE = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]|$)")
# The keys that are sent to each address.
_SENT: Mapping[str, tuple[str, ...]] = {
    "ANTHROPIC_BASE_URL": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "DISCORD_API_URL": ("DISCORD_TOKEN",),
    "NTFY_URL": ("NTFY_TOKEN", "NTFY_REPLY_TOKEN"),
}


# The channels that settings can open. One that fetches files keeps them below `state/`, in a folder
# with its name, until the bot has taken them.
CHANNELS = ("discord", "ntfy")
PHONE = "ntfy"
_CHANNEL_LABELS = {PHONE: "your phone"}
# The only channel that the first version of `state/sentinel.json` knew.
FIRST_DIRECT_CHANNEL = "discord"

_COMMON_SECRET = "WEBHOOK_SECRET"
_SECRET_ENDINGS = ("SECRET", "TOKEN", "KEY", "PASSWORD")


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class ModelChoice(StrEnum):
    AUTO = "auto"
    OFFLINE = "offline"


class Secret:
    """A text that only `reveal()` shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "[secret]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


@dataclass(frozen=True, slots=True)
class GoogleAddresses:
    """What takes the place of Google's own addresses; None where nothing does."""

    api: str | None = None
    token: str | None = None
    auth: str | None = None


@dataclass(frozen=True, slots=True)
class NtfyAccount:
    """A server that sends to the phone. The tokens are sent to `url` alone.

    `reply_token` may only write to the topic of the replies: it stands in the buttons.
    """

    url: str | None = None
    token: Secret | None = None
    reply_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Settings(Location):
    """All settings, checked and typed. `warnings` are sentences about likely mistakes.

    `overruled` are sentences about settings that are set in two places to different values.
    `named_secrets` are the other values whose names end as those of secrets do: a webhook may name
    the one that opens it. `unlike` are sentences about settings of this machine that do not count,
    since others count on every machine of a shared database.
    """

    user_name: str
    bot_name: str
    discord_token: Secret | None
    discord_owner_id: int | None
    discord_api_url: str | None
    web_port: int | None
    web_hosts: tuple[str, ...]
    webhook_port: int | None
    webhook_secret: Secret | None
    log_level: LogLevel
    log_format: LogFormat
    model: ModelChoice
    google: GoogleAddresses
    ntfy: NtfyAccount
    anthropic: Mapping[str, str | Secret]
    warnings: tuple[str, ...]
    named_secrets: Mapping[str, Secret] = field(default_factory=dict)
    overruled: tuple[str, ...] = ()
    database_url: Secret | None = None
    unlike: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, cwd: Path, etc: Path = ETC) -> Settings:
        """Raises `BadSettings` with all problems at once."""
        settings, problems = cls.examined(environ, cwd=cwd, etc=etc)
        if problems:
            raise BadSettings(problems)
        return settings

    @classmethod
    def examined(
        cls,
        environ: Mapping[str, str],
        *,
        cwd: Path,
        etc: Path = ETC,
        proposed: Mapping[Path, str] = MappingProxyType({}),
    ) -> tuple[Settings, list[str]]:
        """The settings, with the default where one is wrong, and all problems.

        `proposed` has texts that are read in place of the `.env` files at their paths.
        """
        sources = EnvSources(environ, proposed=proposed)
        return cls._read(sources, find_location(sources, environ, cwd, etc)), sources.problems

    @classmethod
    def values(
        cls, environ: Mapping[str, str], *, cwd: Path, etc: Path = ETC
    ) -> dict[str, tuple[str, str]]:
        """The value of each setting that is set, right or wrong, and where it stands."""
        sources = EnvSources(environ)
        cls._read(sources, find_location(sources, environ, cwd, etc))
        return sources.taken()

    @classmethod
    def _read(cls, sources: EnvSources, place: Location) -> Settings:
        fields: dict[str, Any] = {
            field: sources.take(name, parse, default)
            for name, (field, parse, default) in _SETTINGS.items()
        }
        port = fields["webhook_port"]
        if port is not None and port == fields["web_port"]:
            sources.add_problem("WEBHOOK_PORT", "is the port of the page too. Right: another one.")
        if port is not None and not sources.has(_COMMON_SECRET):
            sources.add_problem(
                "WEBHOOK_PORT", "needs a secret. Right: WEBHOOK_SECRET=a-long-random-text"
            )
        _check_addresses(sources)
        values = {name: sources.take(name, parse, None) for name, parse in _ANTHROPIC.items()}
        found = {name: value for name, value in values.items() if value is not None}
        if "ANTHROPIC_BASE_URL" in found and not sources.in_environment("ANTHROPIC_BASE_URL"):
            found.update((name, "") for name in _SENT_ALONG if sources.in_environment(name))
        own = cls(
            paths=place.paths,
            zone=place.zone,
            **fields,
            google=_google(sources),
            ntfy=_ntfy(sources),
            anthropic=found,
            warnings=(
                *sources.warnings,
                *sources.ignored(place.paths.env_file),
                *sources.unknown(),
            ),
            named_secrets={
                name: Secret(value) for name, value in sources.ending_in(_SECRET_ENDINGS).items()
            },
            overruled=tuple(sources.overruled()),
        )
        return own.with_shared({name: value for name, (value, _) in sources.taken().items()})

    def with_shared(self, set_here: Mapping[str, str] = MappingProxyType({})) -> Settings:
        """These, and before them what counts on every machine of a shared database.

        `set_here` are the values that this machine sets.
        """
        found = shared_settings(self.paths) if self.database_url else {}
        texts = {name: found[name] for name in SHARED if name in found}
        wrong = {name: problem_with(name, text) for name, text in texts.items() if text}
        counting = {
            name: text or _DEFAULTS.get(name, "")
            for name, text in texts.items()
            if not wrong.get(name)
        }
        values = {name: SHARED[name](text) for name, text in counting.items() if text}
        fields: dict[str, Any] = {_FIELDS[name]: values[name] for name in _FIELDS.keys() & values}
        models = {name: str(values.get(name, "")) or None for name in counting.keys() - _FIELDS}
        anthropic = {**self.anthropic, **models}
        unlike = [
            f"{self.paths.shared_settings}: {name}: {wrong[name]}" for name in wrong if wrong[name]
        ]
        unlike += [
            _UNLIKE.format(name=name, own=own, shared=counting[name] or "not set")
            for name, own in set_here.items()
            if counting.get(name, own) != own
        ]
        set_up = {name: value for name, value in anthropic.items() if value is not None}
        return replace(self, **fields, anthropic=set_up, unlike=tuple(unlike))

    def shared(self) -> dict[str, str]:
        """What would count on every machine: those that are no keys. The default is empty."""
        own = {name: str(getattr(self, attribute)) for name, attribute in _FIELDS.items()}
        models = {name: str(self.anthropic.get(name, "")) for name in SHARED if name not in own}
        return {
            name: "" if value == _DEFAULTS.get(name) else value
            for name, value in {**own, **models}.items()
        }

    def hook_secret(self, name: str | None) -> Secret | None:
        """The secret that opens a webhook: the one with that name, or the common one."""
        if name is None or name == _COMMON_SECRET:
            return self.webhook_secret
        return self.named_secrets.get(name)

    def secrets(self) -> tuple[str, ...]:
        """Every value that the logs must redact."""
        named = self.named_secrets.values()
        push = (self.ntfy.token, self.ntfy.reply_token)
        own = (self.discord_token, self.webhook_secret, self.database_url)
        values = (*own, *push, *self.anthropic.values(), *named)
        return tuple(value.reveal() for value in values if isinstance(value, Secret))

    def engine_environment(self) -> dict[str, str]:
        """The `ANTHROPIC_*` values in clear text, for the engine's process only."""
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self.anthropic.items()
        }


def problem_with(name: str, value: str) -> str:
    """Why the value cannot be that of the setting, and what would be right; empty if it can."""
    try:
        _READERS[name](one_line(value.strip()))
    except InvalidSetting as wrong:
        return f"{shown_value(name, value.strip())} {wrong}"
    return ""


def google_addresses(environ: Mapping[str, str], *, cwd: Path, etc: Path = ETC) -> GoogleAddresses:
    """The addresses alone, without checking other settings. Raises `BadSettings`."""
    names = ("OLLIM_DATA_DIR", "OLLIM_TIMEZONE", *_GOOGLE)
    sources = EnvSources(environ, only=names)
    find_location(sources, environ, cwd, etc)
    addresses = _google(sources)
    sources.raise_problems()
    return addresses


def ntfy_account(environ: Mapping[str, str], *, cwd: Path) -> NtfyAccount:
    """The account alone, without checking other settings. Raises `BadSettings`."""
    sources = EnvSources(environ, only=("OLLIM_DATA_DIR", "OLLIM_TIMEZONE", *_NTFY))
    find_location(sources, environ, cwd, ETC)
    sources.require_same_source("NTFY_URL", _SENT["NTFY_URL"])
    account = _ntfy(sources)
    sources.raise_problems()
    return account


def channel_label(name: str) -> str:
    """What a sentence to the owner calls the channel."""
    return _CHANNEL_LABELS.get(name, name.capitalize())


def _name(text: str) -> str:
    if len(text) > 80:
        raise InvalidSetting("is too long. Right: up to 80 characters, such as Ada.")
    return text


def _token(text: str) -> Secret:
    if not re.fullmatch(r"[!-~]+", text):
        raise InvalidSetting("has a space or a strange letter in it. Right: the bare key or token.")
    return Secret(text)


def _discord_id(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,19}", text):
        raise InvalidSetting(
            "is not a Discord user id. Right: a number, such as 80351110224678912."
        )
    return int(text)


def _address(text: str) -> str:
    if _ON_THIS_MACHINE.match(text):
        text = f"http://{text}"
    if not _ADDRESS.fullmatch(text):
        raise InvalidSetting("is not a plain web address. Right: http://127.0.0.1:9000/api.")
    return text.rstrip("/")


def _secure_address(text: str, example: str = "https://google.example.org") -> str:
    address = _address(text)
    if not re.match(r"https:|http://(127\.0\.0\.1|localhost|\[::1\])(:|/|$)", address):
        raise InvalidSetting(f"is neither https nor on this machine. Right: {example}.")
    return address


def _push_address(text: str) -> str:
    return _secure_address(text, "https://ntfy.example.org")


def _database_address(text: str) -> Secret:
    if problem := problem_with_address(text):
        raise InvalidSetting(problem)
    return _token(text)


def _model(text: str) -> str:
    if not re.fullmatch(r"[!-~]+", text):
        raise InvalidSetting("is not the name of a model. Right: sonnet, or a full model id.")
    return text


def _port(text: str) -> int | None:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise InvalidSetting("is not a port. Right: a number such as 8421, or 0 for off.")
    return int(text) or None


def _hosts(text: str) -> tuple[str, ...]:
    hosts = re.split(r"[,\s]+", text.lower().strip(", "))
    if not all(re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", host) for host in hosts):
        raise InvalidSetting("is not a list of host names. Right: ollim.example.org, my-server.")
    return tuple(dict.fromkeys(hosts))


def _one_of(choices: type[Choice]) -> Callable[[str], Choice]:
    def parse(text: str) -> Choice:
        if text.lower() not in set(choices):
            raise InvalidSetting(f"is not one of the choices. Right: {' or '.join(choices)}.")
        return choices(text.lower())

    return parse


def _check_addresses(sources: EnvSources) -> None:
    """Report a key that would be sent to an address that another source names."""
    for address, keys in _SENT.items():
        sources.require_same_source(address, keys)
    sources.forbid_in_current_folder("DISCORD_OWNER_ID", "DISCORD_TOKEN")
    base = "ANTHROPIC_BASE_URL"
    has_key = any(map(sources.has, _SENT[base]))
    if sources.has(base) and not sources.in_environment(base) and not has_key:
        sources.add_problem(
            base,
            "has no key with it, so your login at Claude would be sent there. Right: "
            "ANTHROPIC_AUTH_TOKEN in the same file, with any word if none is needed.",
        )


# The field of each setting, how its text is read, and the default.
_SETTINGS: Mapping[str, tuple[str, Callable[[str], object], object]] = {
    "OLLIM_WEB_PORT": ("web_port", _port, 8421),
    "OLLIM_USER_NAME": ("user_name", _name, "friend"),
    "OLLIM_BOT_NAME": ("bot_name", _name, "Ollim"),
    "DISCORD_TOKEN": ("discord_token", _token, None),
    "DISCORD_OWNER_ID": ("discord_owner_id", _discord_id, None),
    "DISCORD_API_URL": ("discord_api_url", _address, None),
    "OLLIM_WEB_HOSTS": ("web_hosts", _hosts, ()),
    "WEBHOOK_PORT": ("webhook_port", _port, None),
    _COMMON_SECRET: ("webhook_secret", Secret, None),
    "OLLIM_LOG": ("log_level", _one_of(LogLevel), LogLevel.INFO),
    "OLLIM_LOG_FORMAT": ("log_format", _one_of(LogFormat), LogFormat.TEXT),
    "OLLIM_MODEL": ("model", _one_of(ModelChoice), ModelChoice.AUTO),
    DATABASE_URL: ("database_url", _database_address, None),
}
_ANTHROPIC: Mapping[str, Callable[[str], str | Secret]] = {
    "ANTHROPIC_API_KEY": _token,
    "ANTHROPIC_AUTH_TOKEN": _token,
    "ANTHROPIC_BASE_URL": _address,
    "ANTHROPIC_MODEL": _model,
    "ANTHROPIC_DEFAULT_OPUS_MODEL": _model,
    "ANTHROPIC_DEFAULT_SONNET_MODEL": _model,
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": _model,
}
# Variables that the engine reads from the environment and sends along; none is our setting.
_SENT_ALONG = [each.upper() for each in ("claude_code_oauth_token", "anthropic_custom_headers")]
_NTFY: Mapping[str, Callable[[str], str | Secret]] = {
    "NTFY_URL": _push_address,
    "NTFY_TOKEN": _token,
    "NTFY_REPLY_TOKEN": _token,
}
# What is no key, and counts on every machine of a shared database: models, and these fields.
_SHARED_NAMES = ("OLLIM_USER_NAME", "OLLIM_BOT_NAME", "OLLIM_MODEL")
_FIELDS = {"OLLIM_TIMEZONE": "zone", **{name: _SETTINGS[name][0] for name in _SHARED_NAMES}}
_DEFAULTS = {name: str(_SETTINGS[name][2]) for name in _SHARED_NAMES}
SHARED: Mapping[str, Callable[[str], object]] = {
    "OLLIM_TIMEZONE": read_zone,
    **{name: _SETTINGS[name][1] for name in _SHARED_NAMES},
    **{name: read for name, read in _ANTHROPIC.items() if read is _model},
}
_UNLIKE = "{name} is {own} here; on every machine of this bot it is {shared}, which counts."

# How each text is read, for set-up and for what is shared.
_READERS: Mapping[str, Callable[[str], object]] = {
    **{name: parse for name, (_, parse, _) in _SETTINGS.items()},
    **_ANTHROPIC,
    **SHARED,
    **_NTFY,
}

_GOOGLE = ("GOOGLE_API_URL", "GOOGLE_TOKEN_URL", "GOOGLE_AUTH_URL")


def _ntfy(sources: EnvSources) -> NtfyAccount:
    values: list[Any] = [sources.take(name, parse, None) for name, parse in _NTFY.items()]
    account = NtfyAccount(*values)
    if account.url is None and (account.token or account.reply_token):
        name = "NTFY_TOKEN" if account.token else "NTFY_REPLY_TOKEN"
        sources.add_problem(name, "needs the address it is sent to. Right: NTFY_URL beside it.")
    return account


def _google(sources: EnvSources) -> GoogleAddresses:
    return GoogleAddresses(*(sources.take(name, _secure_address, None) for name in _GOOGLE))

"""Carries the keys of an installation to another machine, in a file that its owner takes along."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ollim_bot.features.keeping.backup import keys_in
from ollim_bot.kernel.base.environment import DATABASE_URL, load_env_file, shared_settings
from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.base.settings import Secret, Settings
from ollim_bot.kernel.store.files import PRIVATE, OsDisk, write_atomically
from ollim_bot.kernel.store.snapshot import Kind, kind_of
from ollim_bot.kernel.upkeep.env_file import change_env_file, quoted

_FORMAT = "ollim-bot keys"
_VERSION = 1
# A key and the address that it is sent to stand in one place.
_WITH_ADDRESSES = ("ANTHROPIC_", "DISCORD_", "GOOGLE_", "NTFY_")
# Made anew on each machine.
_OWN = ("web_token", "web_browsers.json")
_SETTING = re.compile(r"[A-Z][A-Z0-9_]*")
_LEFT_OVER = ".corrupt-"

_OPEN = "{file} can be read by others on this machine. Close it: chmod 600 {file}"
_NO_KEYS = "{file} is not a file of keys. `ollim-bot standby keys FILE` writes one."
_NEWER = "{file} was written by a newer version of ollim-bot. Install the same version here."
_ABOUT_SHARED = (
    "# What counts on every machine of this bot, before `.env`. Change it on the one that leads;\n"
    "# it counts from the next start on.\n"
)
_NOT_A_KEY = "{file} has {name!r:.80}, which is not a key. Nothing was put in place."


@dataclass(frozen=True, slots=True)
class Keys:
    """Settings by their names, and files by their paths below the data directory."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.settings, *self.files}))


@dataclass(frozen=True, slots=True)
class TakenKeys:
    """The names of the keys that were put in place, and of those that differ here and stay."""

    new: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def key_names(settings: Settings) -> tuple[str, ...]:
    """The names of all keys that this installation uses, by setting or by file; never a value."""
    ntfy = {"NTFY_TOKEN": settings.ntfy.token, "NTFY_REPLY_TOKEN": settings.ntfy.reply_token}
    single = {"DISCORD_TOKEN": settings.discord_token, "WEBHOOK_SECRET": settings.webhook_secret}
    named = {**single, **ntfy, **settings.anthropic, **_own_secrets(settings)}
    found = {name for name, value in named.items() if isinstance(value, Secret)}
    return tuple(sorted(found | set(_key_files(settings.paths))))


def _own_secrets(settings: Settings) -> dict[str, Secret]:
    """Those that webhooks may name; what only the environment has may be of other programs."""
    own = load_env_file(settings.paths.env_file).values
    return {name: value for name, value in settings.named_secrets.items() if name in own}


def _key_files(paths: DataPaths) -> Iterator[str]:
    if paths.root.is_dir():
        yield from (str(each) for each in keys_in(paths.root) if _is_carried(each))


def _is_carried(relative: PurePosixPath) -> bool:
    is_own = relative.parts[0].startswith(".env") or relative.name in _OWN
    return kind_of(relative) is Kind.KEY and not is_own and _LEFT_OVER not in relative.name


def keys_of(settings: Settings, environ: Mapping[str, str], cwd: Path) -> Keys:
    """The keys of this installation, with the address of its database. Raises `WriteFailed`."""
    secret, root = {*key_names(settings), DATABASE_URL}, settings.paths.root
    found = {
        name: value
        for name, (value, _) in Settings.values(environ, cwd=cwd).items()
        if name in secret or name.startswith(_WITH_ADDRESSES)
    }
    named = {name: value.reveal() for name, value in _own_secrets(settings).items()}
    try:
        files = {
            name: read_file(root / name, SizeLimit.STATE) for name in _key_files(settings.paths)
        }
    except OSError as refused:
        raise WriteFailed(root, f"could not be read: {refused.strerror or refused}.") from refused
    return Keys({**named, **found}, files)


def write_keys(keys: Keys, target: Path) -> None:
    """Write the keys into a new file that only its owner can read. Raises `WriteFailed`."""
    files = {name: base64.b64encode(content).decode() for name, content in keys.files.items()}
    content = {"format": _FORMAT, "version": _VERSION, "settings": {**keys.settings}}
    text = json.dumps({**content, "files": files}, indent=2) + "\n"
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise WriteFailed(target, "exists already. Name a new file.") from None
    except OSError as refused:
        raise WriteFailed(target, f"could not be written: {refused.strerror}.") from refused


def read_keys(file: Path, shown: str) -> Keys:
    """The keys of a file; `shown` is what sentences call it. Raises `WrongInput`."""
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise WrongInput(_OPEN.format(file=shown))
        found = json.loads(read_file(file, SizeLimit.LOG))
    except OSError as refused:
        raise WrongInput(f"{shown} cannot be read: {refused.strerror or refused}.") from None
    except ValueError:
        raise WrongInput(_NO_KEYS.format(file=shown)) from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise WrongInput(_NO_KEYS.format(file=shown))
    if found.get("version") != _VERSION:
        raise WrongInput(_NEWER.format(file=shown))
    return Keys(
        dict(_settings_in(found.get("settings"), shown)), dict(_files_in(found.get("files"), shown))
    )


def _settings_in(stored: object, shown: str) -> Iterator[tuple[str, str]]:
    if not isinstance(stored, dict):
        raise WrongInput(_NO_KEYS.format(file=shown))
    for name, value in stored.items():
        if not _SETTING.fullmatch(name) or not isinstance(value, str) or name.startswith("OLLIM_"):
            raise WrongInput(_NOT_A_KEY.format(file=shown, name=name))
        yield name, value


def _files_in(stored: object, shown: str) -> Iterator[tuple[str, bytes]]:
    if not isinstance(stored, dict):
        raise WrongInput(_NO_KEYS.format(file=shown))
    for name, content in stored.items():
        path = PurePosixPath(name)
        is_below = name == str(path) and not path.is_absolute() and ".." not in path.parts
        if not (is_below and path.parts and _is_carried(path)):
            raise WrongInput(_NOT_A_KEY.format(file=shown, name=name))
        try:
            yield name, base64.b64decode(content, validate=True)
        except (NotBase64, TypeError, ValueError):
            raise WrongInput(_NO_KEYS.format(file=shown)) from None


def put_keys(paths: DataPaths, keys: Keys, *, replaces: bool = False) -> TakenKeys:
    """Put the keys in place; what differs here stays, unless the file `replaces` it.

    Raises `WriteFailed`.
    """
    own = load_env_file(paths.env_file).values
    changes, kept = dict[str, str | None](), list[str]()
    for name, value in keys.settings.items():
        if own.get(name, "").strip() not in ("", value) and not replaces:
            kept.append(name)
        elif own.get(name) != value:
            changes[name] = value
    if changes:
        change_env_file(paths, changes)
    new = [*changes]
    for name, content in keys.files.items():
        before = _content(paths.root / name)
        if before is None or (before != content and replaces):
            _put(paths.root / name, content)
            new.append(name)
        elif before != content:
            kept.append(name)
    return TakenKeys(tuple(sorted(new)), tuple(sorted(kept)))


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path, SizeLimit.STATE)
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise WriteFailed(path, f"cannot be read: {refused.strerror or refused}.") from refused


def _put(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as refused:
        raise WriteFailed(path, f"could not be written: {refused.strerror}.") from refused
    write_atomically(OsDisk(), path, content, PRIVATE)


def note_shared(settings: Settings) -> None:
    """Have these settings, where they are no keys, count on every machine from now on.

    Raises `WriteFailed`.
    """
    _write_shared(settings.paths, settings.shared())


def note_missing(settings: Settings, planned: str) -> Settings:
    """The settings that count here, with those noted that no machine has noted yet.

    `planned` is the zone in which the schedule is planned, empty if it never was. Raises
    `WriteFailed`.
    """
    known = shared_settings(settings.paths)
    own = {**settings.shared(), **({"OLLIM_TIMEZONE": planned} if planned else {})}
    new = {name: value for name, value in own.items() if value and name not in known}
    if new:
        _write_shared(settings.paths, {**known, **new})
    return settings.with_shared()


def _write_shared(paths: DataPaths, values: Mapping[str, str]) -> None:
    lines = "".join(f"{name}={quoted(value) if value else ''}\n" for name, value in values.items())
    write_atomically(OsDisk(), paths.shared_settings, f"{_ABOUT_SHARED}{lines}".encode(), PRIVATE)

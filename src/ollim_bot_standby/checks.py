"""Checks of a database that several machines share: who leads, and whether each one could."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from ollim_bot import __version__
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.upkeep.findings import DoctorInput, Found, failed, passed, warned
from ollim_bot_standby.file_layout import WaitingFiles, set_asides
from ollim_bot_standby.keys import key_names
from ollim_bot_standby.machines import FoundServer, in_words

_INSTALL = "Run `pipx inject ollim-bot 'psycopg[binary]'`, or install the extra `[standby]`."
_WHO_LEADS = "`ollim-bot standby status` shows more."
_START_IT = "Run `ollim-bot` on one of the machines."
_OTHER_VERSION = "{name} leads with version {there}, and this machine has {here}"
_CLOSED = "it is closed, since a move was cut off, or the data moved back into a file"
_END_MOVE = "Run `ollim-bot standby leave` here, or `ollim-bot standby init` where your bot is."
_COPY = "only a copy of the database answers, which cannot be written, so no machine leads"
_PROMOTE = "`ollim-bot standby status` tells what to run on it if the other server is gone."
_SHOWN_FILES = 5
_SET_ASIDE = "changed here by hand and never stored, kept in {folder}: {names}"
_NOT_SEEN = "another machine changed what can act, and you have not seen it here: {names}"
_ACCEPT = "Run `ollim-bot standby accept`. Until then what was here before counts."
_LOOK_THERE = (
    "`ls -R {folder}` lists them. Take what you still want from there to the machine that leads, "
    "and remove the folder."
)
_KEYS_AWAY = "keys that the other machine uses are not here: {names}"
_CHANGE_SHARED = (
    "`ollim-bot standby status` names them all. Take it out of `.env` here, or, to change it "
    "everywhere, edit {file} on the machine that leads."
)
_BRING_KEYS = (
    "Run `ollim-bot standby keys FILE` there, carry the file here, and run "
    "`ollim-bot standby join --keys FILE`."
)


def check_standby(given: DoctorInput) -> Found:
    settings = given.valid_settings
    assert settings.database_url is not None
    if find_spec("psycopg") is None:
        yield failed("DATABASE_URL is set, but psycopg is not installed", _INSTALL)
        return
    from ollim_bot_standby.moving import look

    try:
        found = look(settings.database_url)
    except StorageError as gone:
        yield failed(str(gone), _WHO_LEADS)
        return
    yield from standby(found, key_names(settings))
    yield from files_set_aside(settings.paths)
    yield from files_waiting(settings.paths)
    yield from settings_unlike(settings)


def files_waiting(paths: DataPaths) -> Found:
    if waiting := sorted(WaitingFiles(paths).read()):
        names = ", ".join(waiting[:_SHOWN_FILES])
        yield warned(_NOT_SEEN.format(names=names), _ACCEPT)


def settings_unlike(settings: Settings) -> Found:
    for each in settings.unlike:
        yield warned(each, _CHANGE_SHARED.format(file=settings.paths.shared_settings))


def files_set_aside(paths: DataPaths) -> Found:
    for each in set_asides(paths):
        names = ", ".join(each.files[:_SHOWN_FILES])
        detail = _SET_ASIDE.format(folder=each.folder, names=names)
        yield warned(detail, _LOOK_THERE.format(folder=paths.root / each.folder))


def standby(found: FoundServer, keys: Sequence[str]) -> Found:
    """`keys` are the names of those that this machine has."""
    leader = found.leading
    if not found.is_ours:
        yield failed("the database holds no data of a bot", _WHO_LEADS)
        return
    if found.closed:
        yield failed(_CLOSED, _END_MOVE)
        return
    if found.is_replica:
        yield failed(_COPY, _PROMOTE)
        return
    if found.schema > SCHEMA:
        newer = (
            f"a newer version has changed the database (schema {found.schema}; this one knows "
            f"{SCHEMA}), so this machine cannot lead"
        )
        yield failed(newer, "Run `ollim-bot update` here.")
    if leader is None:
        yield warned("no machine leads, so nothing comes", _START_IT)
    else:
        yield from _of_versions(found, leader.name, leader.version)
        length, renewed = in_words(leader.since), in_words(leader.renewed)
        words = f"{leader.name} has led for {length}, and renewed its lease {renewed} ago"
        yield passed(f"{words}; take-over number {leader.epoch}, with {leader.version}")
    if away := [each for each in found.key_names if each not in keys]:
        yield warned(_KEYS_AWAY.format(names=", ".join(away)), _BRING_KEYS)


def _of_versions(found: FoundServer, name: str, version: str) -> Found:
    """Where the leader has another version than this machine."""
    if found.schema < SCHEMA:
        older = (
            f"the database is of an older version (schema {found.schema}; this one knows "
            f"{SCHEMA}), and is brought up to date when this machine leads"
        )
        yield warned(older, f"Run `ollim-bot update` on {name}, or `ollim-bot standby hand-over`.")
    elif version != __version__ and found.schema == SCHEMA:
        other = _OTHER_VERSION.format(name=name, there=version, here=__version__)
        yield warned(other, "Run `ollim-bot update` on both, first on the one that waits.")

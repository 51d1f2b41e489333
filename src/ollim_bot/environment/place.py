"""Where the data directory is and whose clock counts: what every command has to know first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from ollim_bot.data_paths import DataPaths
from ollim_bot.environment.sources import EnvSources, WrongValue
from ollim_bot.environment.time_zones import ETC, near_zone, system_zone, zone_named


@dataclass(frozen=True, slots=True)
class Place:
    """Where the data lives and whose clock counts: all that most commands need to know."""

    paths: DataPaths
    zone: ZoneInfo


def locate(environ: Mapping[str, str], cwd: Path, *, etc: Path = ETC) -> Place:
    """The place alone, whatever else is wrong. Raises `BadSettings` if it cannot be told."""
    sources = EnvSources(environ, only=("OLLIM_DATA_DIR", "OLLIM_TIMEZONE"))
    place = find_place(sources, environ, cwd, etc)
    sources.raise_problems()
    return place


def find_place(sources: EnvSources, environ: Mapping[str, str], cwd: Path, etc: Path) -> Place:
    """The place; what is wrong with it is noted in `sources`."""
    sources.add_file(cwd / ".env", is_passing=True)
    paths = DataPaths(_root(sources, cwd, environ.get("HOME", "")))
    own_file = sources.add_file(paths.env_file)
    if own_file.values.get("OLLIM_DATA_DIR"):
        line = own_file.lines["OLLIM_DATA_DIR"]
        sources.problems.append(
            f"{paths.env_file}:{line}: OLLIM_DATA_DIR: cannot be set inside the data directory. "
            "Right: in the environment, or in the `.env` of the folder you start in."
        )
    zone = sources.take("OLLIM_TIMEZONE", _zone, None) or system_zone(environ, etc)
    if zone is None:
        sources.warnings.append(
            "OLLIM_TIMEZONE: is not set, and this machine names no time zone, so it is UTC. "
            "Right: the name of yours, such as Europe/Berlin."
        )
    return Place(paths, zone or ZoneInfo("UTC"))


def _root(sources: EnvSources, cwd: Path, home: str) -> Path:
    if not home and not sources.has("OLLIM_DATA_DIR"):
        sources.complain("OLLIM_DATA_DIR", "is needed without HOME. Right: /srv/ollim-bot.")
    default = cwd / home / ".ollim-bot"
    return sources.take("OLLIM_DATA_DIR", lambda text: _folder(text, cwd, home), default)


def _folder(text: str, cwd: Path, home: str) -> Path:
    start, slash, rest = text.partition("/")
    if start == "~" and home:
        text = f"{home}{slash}{rest}"
    elif start.startswith("~"):
        raise WrongValue("starts with a home that is not known. Right: /srv/ollim-bot.")
    if os.path.isfile(cwd / text):
        raise WrongValue("is a file. Right: a folder, such as ~/.ollim-bot.")
    return cwd / text


def _zone(text: str) -> ZoneInfo:
    if zone := zone_named(text):
        return zone
    near = near_zone(text)
    hint = f"Did you mean {near}?" if near else "Right: Europe/Berlin, or UTC."
    raise WrongValue(f"is not a time zone. {hint}")

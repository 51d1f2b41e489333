"""Finds time zones: by name, and the one this machine is in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from ollim_bot.domain.near_words import nearest

ETC = Path("/etc")


def zone_named(name: str) -> ZoneInfo | None:
    """The zone with this IANA name, or None if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; `../x`, NUL; `Europe` is a folder
        return None


def system_zone(environ: Mapping[str, str], etc: Path = ETC) -> ZoneInfo | None:
    """What the machine says: `TZ`, then `/etc/localtime`, then `/etc/timezone`."""
    zones = map(zone_named, _system_zone_names(environ.get("TZ", "").strip(), etc))
    return next((zone for zone in zones if zone), None)


def near_zone(text: str) -> str | None:
    """The name a person may have meant: `berlin` and `Europe/Berln` are Europe/Berlin."""
    names = sorted(name for name in available_timezones() if not re.search("[0-9]", name))
    by_city = {name.rpartition("/")[2].lower(): name for name in names}
    by_words = by_city | {name.lower(): name for name in names}
    return by_words.get(nearest(text.lower(), by_words) or "")


def _system_zone_names(tz: str, etc: Path) -> Iterator[str]:
    tz = tz.removeprefix(":")
    yield _zone_of_file(tz) if tz.startswith("/") else tz
    yield _zone_of_file(etc / "localtime")
    try:
        yield (etc / "timezone").read_text("utf-8").strip()
    except (OSError, ValueError):
        return


def _zone_of_file(path: str | Path) -> str:
    name = os.path.realpath(path).rpartition("/zoneinfo/")[2]
    return name.removeprefix("posix/").removeprefix("right/")

"""What each file of the data directory is: content, a key, or made anew by each start."""

from __future__ import annotations

import unicodedata
from enum import Enum
from pathlib import PurePosixPath

from ollim_bot.settings import CHANNELS
from ollim_bot.store.snapshot import DATABASE_FILES, MIRROR_FILES

# Of no use in another directory, or made anew by each start.
_REMADE = frozenset(
    (
        *("bot.pid", "commands.sock", ".locks", "copies", "ballast", "engine", "uploads"),
        *("run_requests", "known_schedule.db", "standing_by", "machine_id", "led"),
        *CHANNELS,
        *("maintenance.json", "restored_transcripts", "left-off", "files-current"),
        *("waiting-files.json", "update.json", "before-update", ".before-update.tmp"),
        *DATABASE_FILES,
        *MIRROR_FILES,
    )
)
_OWN_LINKS = (".claude/skills", "routine-reminder-spec.md", "webhook-spec.md")
_KEYS_IN_STATE = (
    "credentials.json",
    "token.json",
    "web_token",
    "web_browsers.json",
    "servers",
    "push.json",
)
_ADDRESS = ".source.json"


class Kind(Enum):
    """What a backup does with a file of the data directory."""

    TAKEN = "taken"
    KEY = "key"
    REMADE = "remade"


def kind_of(relative: PurePosixPath) -> Kind:
    """The kind of a file by its path below the data directory.

    A name that begins with that of a key, such as `.env.old` or `token.json.corrupt-…`, is one too.
    """
    relative = folded(relative)
    parts = relative.parts
    if ".git" in parts or (relative.name.startswith(".") and relative.suffix == ".tmp"):
        return Kind.REMADE
    if any(part.startswith(".env") for part in parts):
        return Kind.KEY
    if len(parts) == 1 and relative.name.lstrip(".").startswith("mcp.json"):
        return Kind.KEY
    if parts[0] == ".claude" and len(parts) == 2 and relative.name.startswith("settings"):
        return Kind.KEY
    if parts[0] == "state" and len(parts) > 1:
        return _kind_in_state(parts[1], relative)
    return Kind.REMADE if str(relative) in _OWN_LINKS else Kind.TAKEN


def folded(relative: PurePosixPath) -> PurePosixPath:
    """The path as a file system finds it that knows neither case nor invisible characters."""
    signs = unicodedata.normalize("NFC", str(relative)).casefold()
    found = PurePosixPath("".join(each for each in signs if unicodedata.category(each) != "Cf"))
    return found if found.parts else relative


def _kind_in_state(first: str, relative: PurePosixPath) -> Kind:
    if first in _REMADE:
        return Kind.REMADE
    if first.startswith(_KEYS_IN_STATE) or (first == "calendars" and _ADDRESS in relative.name):
        return Kind.KEY
    return Kind.TAKEN

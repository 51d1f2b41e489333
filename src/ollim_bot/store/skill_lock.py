"""`skills/skills.lock`: where added skills came from, and what their files were then."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ollim_bot.errors import Unreadable
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.store.codecs.plain import PLAIN
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.files import SHARED, OsDisk, write_atomically
from ollim_bot.store.json_fields import FORMAT, parse_json, render_json

_LARGEST_HASHED = 25_000_000


@dataclass(frozen=True, slots=True)
class AddedSkill:
    """`files` has the SHA-256 of each file by its path. `commit` is empty if it has none."""

    origin: str
    commit: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Lock:
    skills: Mapping[str, AddedSkill] = field(default_factory=dict)


class SkillLock:
    """`skills` is the folder of all skills. Changes are made under the lock of that folder."""

    def __init__(self, skills: Path) -> None:
        self._skills = skills
        self.path = skills / "skills.lock"

    def read(self) -> Mapping[str, AddedSkill]:
        """The added skills by their names. Raises `Unreadable`."""
        try:
            return PLAIN.read(_Lock, parse_json(read_file(self.path, SizeLimit.STATE))).skills
        except FileNotFoundError:
            return {}
        except (OSError, Malformed) as unread:
            raise Unreadable(self.path, f"cannot be read: {unread}.") from unread

    def write(self, added: Mapping[str, AddedSkill]) -> None:
        lock = PLAIN.write(_Lock(dict(sorted(added.items()))))
        data = render_json({"version": FORMAT} | lock, indent=2) + b"\n"
        write_atomically(OsDisk(), self.path, data, SHARED)

    def differences(self) -> list[str]:
        """A sentence for each file of an added skill that is not as it was added."""
        try:
            added = self.read()
        except Unreadable as unread:
            return [str(unread)]
        return [each for name, one in added.items() for each in self._changed(name, one)]

    def stamp(self) -> tuple[object, ...]:
        """Changes if one of the added skills may have changed."""
        try:
            names, own = self.read(), os.stat(self.path).st_mtime_ns
        except OSError:
            return ()
        except Unreadable as unread:
            return (str(unread),)
        files = ((name, each) for name in names for each in _files(self._skills / name))
        return (own, *((name, path, *_stamp(status)) for name, (path, status) in files))

    def _changed(self, name: str, added: AddedSkill) -> Iterator[str]:
        where = f"skills/{name}"
        found = dict(_files(self._skills / name))
        if not found:
            yield f"{where} was added from {added.origin} and is gone."
            return
        for path in sorted({*found, *added.files}):
            if path not in found:
                yield f"{where}/{path} is gone since the skill was added."
            elif path not in added.files:
                yield f"{where}/{path} was not there when the skill was added."
            elif digest_at(self._skills / name / path) != added.files[path]:
                yield f"{where}/{path} was changed since the skill was added."


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def digest_at(path: Path) -> str:
    """The digest of a file; empty if it cannot be read."""
    try:
        return digest(read_file(path, _LARGEST_HASHED))
    except OSError:
        return ""


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All that is in the folder but folders, without following links."""
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield path.relative_to(folder).as_posix(), status

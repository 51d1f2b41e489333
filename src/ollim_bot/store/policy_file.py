"""The owner's tool policy, read from its file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from ollim_bot.domain.tool_patterns import problems
from ollim_bot.domain.tool_policy import ToolPolicy
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import NotAFile, SizeLimit, TooLarge
from ollim_bot.ports import Disk
from ollim_bot.store.document import FIRST_LINE, BadDocument
from ollim_bot.store.files import OsDisk
from ollim_bot.store.yaml_fields import yaml_fields

_PARTS: Mapping[str, tuple[str, ...]] = {
    "main-session": ("additional_allowed",),
    "bg-forks": ("additional_allowed", "override"),
}

_Fingerprint = tuple[int, int, int]


class PolicyFile:
    """Reads the policy at every tool call, cheaply: only a changed file is read again.

    While the file is invalid, its last valid content counts; `tell` gets the problem, once for each
    change. Callable from any thread.
    """

    def __init__(
        self, paths: DataPaths, tell: Callable[[str], None], disk: Disk | None = None
    ) -> None:
        self._path = paths.tool_policy
        self._tell = tell
        self._disk = disk or OsDisk()
        self._known: _Fingerprint | None = None
        self._policy = ToolPolicy()
        # A call that comes while another reads the changed file must not get the policy before it.
        self._lock = threading.Lock()

    def read(self) -> ToolPolicy:
        with self._lock:
            fingerprint = None
            with suppress(OSError):
                status = os.stat(self._path)
                fingerprint = status.st_mtime_ns, status.st_size, status.st_ino
            if fingerprint != self._known:
                self._known = fingerprint
                self._look()
            return self._policy

    def _look(self) -> None:
        try:
            self._policy = _policy(self._text())
        except BadDocument as bad:
            where = "" if bad.line is None else f":{bad.line - FIRST_LINE + 1}"
            kept = "Until it is mended, what was allowed before counts."
            self._tell(f"{self._path.name}{where}: {bad.reason}. {kept}")

    def _text(self) -> str:
        try:
            return self._disk.read(self._path, SizeLimit.POLICY).decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except NotAFile:
            raise BadDocument(None, "it is not a file") from None
        except TooLarge as large:
            raise BadDocument(None, f"it is {large.reason}") from None
        except UnicodeDecodeError:
            raise BadDocument(None, "it is not UTF-8 text") from None
        except OSError as refused:
            raise BadDocument(None, f"it cannot be read: {refused.strerror}") from refused


def _policy(text: str) -> ToolPolicy:
    fields = yaml_fields(text)
    for name, field in fields.items():
        if name not in _PARTS:
            known = " and ".join(part.replace("-", "_") for part in _PARTS)
            raise BadDocument(field.line, f"{name} is not known; it takes {known}")
    lists = {
        (part, key): _patterns(fields[part].value, part, key, fields[part].line)
        for part, keys in _PARTS.items()
        if part in fields
        for key in keys
    }
    return ToolPolicy(
        main_more=lists.get(("main-session", "additional_allowed")) or (),
        background_more=lists.get(("bg-forks", "additional_allowed")) or (),
        background_instead=lists.get(("bg-forks", "override")),
    )


def _patterns(value: object, part: str, key: str, line: int) -> tuple[str, ...] | None:
    name = part.replace("-", "_")
    if not isinstance(value, Mapping):
        raise BadDocument(
            line, f'{name} takes lists, such as {_PARTS[part][0]}: ["Read(./**.txt)"]'
        )
    if unknown := [each for each in value if each not in _PARTS[part]]:
        raise BadDocument(line, f"{name}: {unknown[0]} is not known")
    given = value.get(key)
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BadDocument(line, f"{name}.{key} takes a list of patterns")
    wrong = [error for each in given for error in problems(each).errors]
    if wrong:
        raise BadDocument(line, f"{name}.{key}: {wrong[0].rstrip('.')}")
    return tuple(given)

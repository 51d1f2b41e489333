"""One value in one file, changed as one step across all processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from ollim_bot.kernel.base.errors import NewerFormat, Unreadable
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.kernel.store.files import (
    PRIVATE,
    FileLock,
    remove_durably,
    rename_durably,
    write_atomically,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import Disk

T = TypeVar("T")
R = TypeVar("R")


class Malformed(Exception):
    """The content is not what the file should hold; `str()` says why."""


class FormatIsNewer(Exception):
    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known


class Codec(Protocol[T]):
    """How a value is written in its file."""

    def missing(self) -> T:
        """The value of a file that does not exist."""

    def decode(self, raw: bytes) -> tuple[T, tuple[str, ...]]:
        """The value, and a sentence for each wrong part that could be ignored.

        Raises only `Malformed` or `FormatIsNewer`, for any content of `raw`.
        """

    def encode(self, value: T) -> bytes | None:
        """The content; None if the value is expressed by a missing file."""


class StoreProblem(NamedTuple):
    """What the owner should know about a state file; `kept_as` names the file set aside."""

    path: Path
    reason: str
    kept_as: Path | None = None

    def __str__(self) -> str:
        is_below = self.path.parent.parent.name == "state"
        folder = f"state/{self.path.parent.name}" if is_below else "state"
        where = f"{folder}/{self.path.name}"
        if self.kept_as is None:
            return f"{where}: {self.reason}"
        return (
            f"{where} could not be understood ({self.reason}). It was set aside as "
            f"{folder}/{self.kept_as.name}, and work goes on without it."
        )


def set_aside(disk: Disk, path: Path, reason: str) -> StoreProblem:
    """Rename the file or folder at `path`, of any kind, and describe the problem."""
    # Use the real clock: two files set aside in one moment of a simulated day need two names.
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kept_as = path.with_name(f"{path.name}.corrupt-{stamp}")
    rename_durably(disk, path, kept_as)
    return StoreProblem(path, reason, kept_as)


class FileStore(Generic[T]):
    """One value in one file, changed in one step among all threads and processes.

    A file whose content cannot be understood is set aside and reported; the value is then that of a
    missing file. A file that cannot be read at all raises `Unreadable`. When `transact` returns,
    the new value is durable; when its step or the disk raises, the file holds the old value, or the
    whole new value where only the last sync failed. `report` is called once for each distinct
    problem, with no lock held.
    """

    def __init__(
        self,
        path: Path,
        codec: Codec[T],
        lock: FileLock,
        *,
        disk: Disk,
        report: Callable[[StoreProblem], None],
    ) -> None:
        self._path = path
        self._codec = codec
        self._lock = lock
        self._disk = disk
        self._report = report
        self._reported: set[str] = set()

    def read(self) -> T:
        try:
            value, warnings = self._load()
        except Malformed:
            return self.transact(lambda value: (value, value))
        except FormatIsNewer as newer:
            self._tell(
                StoreProblem(self._path, NewerFormat(self._path, newer.found, newer.known).reason)
            )
            return self._codec.missing()
        self._tell(*warnings)
        return value

    def transact(self, step: Callable[[T], tuple[T, R]]) -> R:
        problems: tuple[StoreProblem, ...] = ()
        try:
            with self._lock.held():
                try:
                    value, problems = self._load()
                except FormatIsNewer as newer:
                    raise NewerFormat(self._path, newer.found, newer.known) from None
                except Malformed as malformed:
                    value = self._codec.missing()
                    problems = (set_aside(self._disk, self._path, str(malformed)),)
                new_value, result = step(value)
                if new_value != value:
                    data = self._codec.encode(new_value)
                    if data is None:
                        remove_durably(self._disk, self._path)
                    else:
                        write_atomically(self._disk, self._path, data, PRIVATE)
                return result
        finally:
            self._tell(*problems)

    def _load(self) -> tuple[T, tuple[StoreProblem, ...]]:
        try:
            raw = self._disk.read(self._path, SizeLimit.STATE)
        except FileNotFoundError:
            return self._codec.missing(), ()
        except UnsuitableFile as unfit:
            raise Malformed(unfit.reason) from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise Unreadable(
                self._path, f"is there but cannot be read: {reason}. Mend its permissions."
            ) from refused
        value, warnings = self._codec.decode(raw)
        return value, tuple(StoreProblem(self._path, warning) for warning in warnings)

    def _tell(self, *problems: StoreProblem) -> None:
        for problem in problems:
            if str(problem) not in self._reported:
                self._reported.add(str(problem))
                self._report(problem)


FORMAT = 1


def parse_json(raw: bytes) -> object:
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise Malformed("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from None


def parse_object(raw: bytes) -> dict[str, object]:
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise Malformed("the entry is not an object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


# Created once: `json.loads` with an option would create one for each line of a log.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def render_json(value: object, *, indent: int | None = None) -> bytes:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8 form, but it can be escaped.
        return json.dumps(value, indent=indent).encode()


def versioned(value: object) -> dict[str, object]:
    """The object without its format version. Raises `Malformed` or `FormatIsNewer`."""
    return version_of(value, FORMAT)[1]


def version_of(value: object, newest: int) -> tuple[int, dict[str, object]]:
    """The version and the object without it; `newest` is the last one that is known.

    Raises `Malformed` or `FormatIsNewer`.
    """
    if not isinstance(value, dict):
        raise Malformed("not an object")
    found = value.pop("version", FORMAT)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise Malformed("version is not a positive whole number")
    if found > newest:
        raise FormatIsNewer(found, newest)
    return found, value


def versioned_list(value: object) -> list[object]:
    """A bare list is format 1; later formats would be objects with a version."""
    if isinstance(value, dict) and "version" in value:
        versioned(value)
    if not isinstance(value, list):
        raise Malformed("not a list")
    return value

"""The places a setting may stand in, and everything that is wrong in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ollim_bot.domain.near_words import nearest
from ollim_bot.environment.env_file import EnvFile, EnvProblem, load_env_file
from ollim_bot.errors import BadSettings

T = TypeVar("T")
D = TypeVar("D")

_HIDDEN = ("_KEY", "_SECRET", "_TOKEN", "_URL")
_ANOTHERS = "belongs to another account. Make it a file of yours, or start in another folder."
_NOT_ONE_LINE = "[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


class WrongValue(Exception):
    """Why a value is not right, and what would be right; the value itself goes in front."""


class _Source(NamedTuple):
    """`is_passing` for the folder that happens to be the one to start in."""

    origin: str
    values: Mapping[str, str]
    lines: Mapping[str, int] = MappingProxyType({})
    is_passing: bool = False

    def where(self, name: str) -> str:
        return f"{self.origin}:{self.lines[name]}" if name in self.lines else self.origin


class EnvSources:
    """The environment, then `.env` files, strongest first; gathers what is wrong in them.

    With `only`, no other name matters, and no file is read that has nothing to add.
    """

    def __init__(self, environ: Mapping[str, str], *, only: Collection[str] = ()) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._only = only
        self._asked: set[str] = set()
        self._files: set[str] = set()
        self._sources = [_Source("environment", environ)]

    def add_file(self, path: Path, *, is_passing: bool = False) -> EnvFile:
        """Put the file behind the sources so far, unless it is one of them.

        One that `is_passing` has to be the caller's own: others may have left one there.
        """
        real_path = os.path.realpath(path)
        if real_path in self._files or (self._only and all(map(self.has, self._only))):
            return EnvFile()
        self._files.add(real_path)
        file = load_env_file(path)
        if is_passing and file.is_anothers:
            file = EnvFile(problems=(EnvProblem(0, _ANOTHERS),))
        self._sources.append(_Source(str(path), file.values, file.lines, is_passing))
        self._gather(file, path)
        return file

    def take(self, name: str, parse: Callable[[str], T], otherwise: D) -> T | D:
        """The value of `name`; `otherwise` if it is not set, or wrong, which is a problem."""
        self._asked.add(name)
        source = self._source_of(name)
        if source is None:
            return otherwise
        value = source.values[name].strip()
        try:
            return parse(_one_line(value))
        except WrongValue as wrong:
            shown = "the value" if name.endswith(_HIDDEN) else repr(value[:60])
            self.complain(name, f"{shown} {wrong}")
            return otherwise

    def has(self, name: str) -> bool:
        return self._source_of(name) is not None

    def keep_together(self, address: str, keys: Collection[str]) -> None:
        """No key may be sent to an address that another source names."""
        home = self._source_of(address)
        for key in keys if home else ():
            source = self._source_of(key)
            if source is not None and source is not home:
                self.complain(
                    address,
                    f"would have {key}, which stands in {source.where(key)}, sent there. "
                    "Right: both in the same place.",
                )

    def keep_from_passing(self, name: str, key: str) -> None:
        """The folder to start in may not say `name` of a `key` that stands elsewhere."""
        home, source = self._source_of(name), self._source_of(key)
        if home is not None and home.is_passing and source is not None and source is not home:
            where = source.where(key)
            self.complain(name, f"is about {key}, which stands in {where}. Right: put it there.")

    def in_environment(self, name: str) -> bool:
        return self._source_of(name) is self._sources[0]

    def complain(self, name: str, sentence: str) -> None:
        source = self._source_of(name)
        where = f"{source.where(name)}: " if source else ""
        self.problems.append(f"{where}{name}: {sentence}")

    def raise_problems(self) -> None:
        if self.problems:
            raise BadSettings(self.problems)

    def unknown(self, prefix: str) -> Iterator[str]:
        """A sentence for each name with this prefix that nobody asked for."""
        for source in self._sources:
            for name in sorted(source.values.keys() - self._asked):
                if name.startswith(prefix):
                    near = nearest(name, self._asked)
                    hint = f" Did you mean {near}?" if near else ""
                    yield f"{source.where(name)}: {name}: there is no such setting.{hint}"

    def _source_of(self, name: str) -> _Source | None:
        return next((s for s in self._sources if s.values.get(name, "").strip()), None)

    def _gather(self, file: EnvFile, path: Path) -> None:
        for line, sentence, name in file.problems:
            if not self._only or line == 0 or name in self._only:
                self.problems.append(
                    f"{path}:{line}: {sentence}" if line else f"{path}: {sentence}"
                )
        if file.open_to_others:
            self.warnings.append(f"{path}: others can read it. Run `chmod 600 {path}`.")


def _one_line(value: str) -> str:
    # A joined emoji is not printable either, hence the pattern; it is slow to compile.
    if not value.isprintable() and re.search(_NOT_ONE_LINE, value):
        raise WrongValue("is more than one line of UTF-8 text. Right: the value alone.")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        raise WrongValue("stands in quotes. Right: the same without them.")
    return value

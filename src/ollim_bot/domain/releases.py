"""Versions of the program: which is newer, and what changed between two of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_VERSION = re.compile(r"v?(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.ASCII)
_SECTION = re.compile(r"^## +(\S+).*$", re.MULTILINE)


class Version(NamedTuple):
    """A released version; what is not a plain `1.2.3`, such as `1.2.3rc1`, is not one."""

    major: int
    minor: int
    patch: int

    @classmethod
    def of(cls, text: str) -> Version | None:
        match = _VERSION.fullmatch(text)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]))

    @property
    def tag(self) -> str:
        return f"v{self}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def newest_tag(tags: Iterable[str]) -> Version | None:
    """The newest version among tags such as `v1.2.3`; other tags do not count."""
    found = (Version.of(tag) for tag in tags if tag.startswith("v"))
    return max((version for version in found if version is not None), default=None)


def changes_between(changelog: str, old: Version, new: Version) -> str:
    """The sections of a changelog later than `old` and not later than `new`."""
    sections = [*_SECTION.finditer(changelog)]
    ends = [section.start() for section in sections[1:]] + [len(changelog)]
    found = []
    for section, end in zip(sections, ends, strict=False):
        version = Version.of(section[1])
        if version is not None and old < version <= new:
            found.append(changelog[section.start() : end].strip())
    return "\n\n".join(found)

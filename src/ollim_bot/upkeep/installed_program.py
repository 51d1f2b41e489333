"""How the program is installed: recognised by the files that installers leave."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ollim_bot.domain.releases import Version
from ollim_bot.domain.text import PROGRAM
from ollim_bot.errors import OllimError
from ollim_bot.plain_files import SizeLimit, read_file

PIPX_RECORD = "pipx_metadata.json"
UV_RECORD = "uv-receipt.toml"

_SITE_PACKAGES = "lib/python*/site-packages"
_DIST_INFO = "ollim_bot-*.dist-info"
_INSTALLERS = frozenset({"pip", "setuptools", "wheel"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MOST_NAMED = 3


class InstallKind(StrEnum):
    GIT = "a git checkout"
    PIPX = "pipx"
    UV_TOOL = "uv tool"
    PIP = "pip"
    UV = "uv"


class NotUpdatable(OllimError):
    """This installation cannot be updated by the program; the sentence says how it can be."""


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """`environment` is the virtual environment; `checkout` is the folder of a git installation."""

    kind: InstallKind
    environment: Path
    version: Version
    checkout: Path | None = None

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def beside(self) -> Path:
        """Where the new version is installed; after the switch, the old one is there."""
        return self.environment.with_name(f"{self.environment.name}.next")

    @property
    def uses_uv(self) -> bool:
        return self.kind in (InstallKind.UV, InstallKind.UV_TOOL)

    def __str__(self) -> str:
        if self.kind is InstallKind.GIT:
            return f"a git checkout in {self.checkout}"
        return f"installed by {self.kind} in {self.environment}"


def find_installation(prefix: str = "", base: str = "") -> InstalledProgram:
    """The installation in the environment `prefix`; by default in the present one.

    Raises `NotUpdatable`.
    """
    prefix, base = prefix or sys.prefix, base or sys.base_prefix
    if prefix == base:
        raise NotUpdatable(
            "ollim-bot is not in an environment of its own, so it cannot put a new version beside "
            f"the old one. Install it with `pipx install {PROGRAM}`, or update it as you installed "
            "it."
        )
    environment = Path(os.path.realpath(prefix))
    record = installed_record(environment)
    version = None if record is None else version_of(record)
    if record is None or version is None:
        raise NotUpdatable(
            f"ollim-bot is not installed in {environment}, so there is nothing to update. "
            "`make run` in a checkout installs it."
        )
    kind = _kind(environment, record)
    checkout = _source(record, kind)
    if not os.access(environment.parent, os.W_OK):
        raise NotUpdatable(
            f"{environment.parent} belongs to another account, so no new version can be put there. "
            "Update it from that account."
        )
    if checkout is not None:
        version = _version_of_sources(record.parent) or version
        return InstalledProgram(InstallKind.GIT, environment, version, checkout)
    if kind in (InstallKind.PIP, InstallKind.UV):
        _refuse_shared(environment)
    return InstalledProgram(kind, environment, version)


def installed_record(environment: Path) -> Path | None:
    """The folder with which an installer records our package in an environment."""
    return next(iter(sorted(environment.glob(f"{_SITE_PACKAGES}/{_DIST_INFO}"))), None)


def version_of(record: Path) -> Version | None:
    return Version.of(record.name.removesuffix(".dist-info").partition("-")[2])


def _version_of_sources(site: Path) -> Version | None:
    """The version that an editable installation runs; its record may be of an older one."""
    for link in site.glob("*ollim_bot*.pth"):
        text = _text(site / _text(link).strip() / "ollim_bot" / "__init__.py")
        if match := re.search(r'^__version__ = "(.+)"', text, re.MULTILINE):
            return Version.of(match[1])
    return None


def _kind(environment: Path, record: Path) -> InstallKind:
    if (environment / UV_RECORD).exists():
        return InstallKind.UV_TOOL
    if (environment / PIPX_RECORD).exists():
        return InstallKind.PIPX
    installer = _text(record / "INSTALLER").strip()
    return InstallKind.UV if installer == "uv" else InstallKind.PIP


def _source(record: Path, kind: InstallKind) -> Path | None:
    """The checkout that an editable installation runs from; None for a package of an index.

    Raises `NotUpdatable` for what came from elsewhere.
    """
    text = _text(record / "direct_url.json")
    if not text:
        return None
    origin = _object(text)
    url = str(origin.get("url", ""))
    folder = _object(origin.get("dir_info"))
    path = Path(unquote(urlsplit(url).path))
    if folder.get("editable"):
        if (path / ".git").exists():
            return path
        raise NotUpdatable(
            f"ollim-bot runs from the folder {path}, which is no git checkout. Put the new version "
            "there by hand."
        )
    again = {
        InstallKind.PIPX: "pipx install --force",
        InstallKind.UV_TOOL: "uv tool install --force",
        InstallKind.UV: "uv pip install --reinstall",
        InstallKind.PIP: "pip install --force-reinstall",
    }[kind]
    if "dir_info" in origin:
        raise NotUpdatable(
            f"ollim-bot was installed from the folder {path}. Bring that up to date, for example "
            f"with `git -C {path} pull --ff-only`, then run `{again} {path}`."
        )
    if "vcs_info" in origin:
        raise NotUpdatable(
            f"ollim-bot was installed from {url}. Update it with `{again} git+{url}`."
        )
    raise NotUpdatable(
        f"ollim-bot was installed from the file {url}. Update it with `{again}` and the newer file."
    )


def _refuse_shared(environment: Path) -> None:
    """A new environment would lack what the owner has put into this one beside our package."""
    found = {
        _normal(each.name): each
        for site in environment.glob(_SITE_PACKAGES)
        for each in distributions(path=[str(site)])
        if each.name
    }
    others = sorted(found.keys() - _needed(PROGRAM, found) - _INSTALLERS)
    if others:
        named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "")
        raise NotUpdatable(
            f"{environment} holds other packages too ({named}), which a new environment would not "
            f"have. Update it with `{environment}/bin/python -m pip install --upgrade {PROGRAM}`."
        )


def _needed(name: str, found: Mapping[str, Distribution]) -> set[str]:
    needed: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each in needed:
            continue
        needed.add(each)
        if each in found:
            waiting += _required(found[each].requires or ())
    return needed


def _required(requirements: Sequence[str]) -> Iterator[str]:
    for requirement in requirements:
        if match := _NAME.match(requirement):
            yield _normal(match[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(path: Path) -> str:
    try:
        return read_file(path, SizeLimit.SETTINGS).decode()
    except (OSError, ValueError):
        return ""


def _object(value: object) -> dict[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}

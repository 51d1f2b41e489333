"""The lock files name all that the program needs, in the versions that these tests run with."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.wheels import ROOT

from ollim_bot.features.install.releases import LOCK_FILE, POSTGRES_LOCK

WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED: list[str] = WHOLE["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = WHOLE["project"]["optional-dependencies"]
GROUPS: dict[str, list[object]] = WHOLE["dependency-groups"]
DEV_LOCK = "requirements-dev.lock"

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: ; .+)? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def pins(name: str) -> dict[str, str]:
    """The version of each package in a lock file."""
    found = map(_PIN.fullmatch, (ROOT / name).read_text().splitlines())
    return {pin["name"]: pin["version"] for pin in found if pin}


def all_needed(wanted: Iterable[str]) -> Mapping[str, set[str]]:
    """The packages that are needed here for these, with the versions that are allowed."""
    needed: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in wanted]
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        needed.setdefault(name, set()).add(str(each.specifier))
        for extra in {"", *each.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            for text in requires(name) or ():
                requirement = Requirement(text)
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    waiting.append(requirement)
    return needed


@pytest.mark.parametrize("name", [LOCK_FILE, POSTGRES_LOCK, DEV_LOCK])
def test_each_package_has_one_version_and_its_hashes(name: str) -> None:
    lines = [
        line for line in (ROOT / name).read_text().splitlines() if not line.lstrip().startswith("#")
    ]
    kinds = "".join(
        "p" if _PIN.fullmatch(line) else "h" * bool(_HASH.fullmatch(line)) for line in lines
    )
    assert len(kinds) == len(lines), "no line of another kind, such as the address of an index"
    assert re.fullmatch("(ph+)+", kinds)
    assert len(pins(name)) == kinds.count("p")


def test_they_name_all_that_is_needed_in_versions_that_fit() -> None:
    assert {"standby": GROUPS["postgres"], "postgres": GROUPS["postgres"]} == EXTRAS
    main, extra = pins(LOCK_FILE), pins(POSTGRES_LOCK)
    build = [str(each) for each in GROUPS["build"]]
    for wanted, locked in (([*NEEDED, *build], main), (EXTRAS["standby"], extra)):
        for name, allowed in all_needed(wanted).items():
            assert name in locked, name
            for each in allowed:
                assert Requirement(f"{name}{each}").specifier.contains(locked[name]), name


def test_they_agree_with_each_other_and_with_what_is_tested() -> None:
    main, extra, dev = pins(LOCK_FILE), pins(POSTGRES_LOCK), pins(DEV_LOCK)
    assert main.items() | extra.items() <= dev.items()
    for name in all_needed([*NEEDED, *EXTRAS["standby"]]):
        assert version(name) == dev[name]

"""What a backup brings that can act, and how it is left off until the owner takes it in.

Only content that is known to be ordinary is restored unasked; a file of any other name or place
belongs to one of the powers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.permissions import Pattern, beyond_main
from ollim_bot.domain.shared_files import JobFile, JobFolder
from ollim_bot.domain.text import counted, shortened
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, open_file, read_file
from ollim_bot.store.file_kinds import Kind, folded, kind_of
from ollim_bot.store.job_checker import JobFileChecker
from ollim_bot.store.owner_files import PolicyFile, shipped_hashes
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.server_file import read_servers
from ollim_bot.store.skill_files import SkillFolder
from ollim_bot.store.snapshot import MIRROR_FILES
from ollim_bot.store.stored_powers import (
    StoredPowers,
    reset_approvals,
    reset_permissions,
    stored_powers,
)
from ollim_bot.tools.registry import MAIN_TOOLS
from ollim_bot.upkeep.backup import DATA, LEFT_OFF, BackedUpFile, Brought, Power

# Returns the powers that the owner takes in.
Choose = Callable[[Sequence[Brought]], Set[Power]]


def take_all(_: Sequence[Brought]) -> Set[Power]:
    return frozenset(Power)


def take_none(_: Sequence[Brought]) -> Set[Power]:
    return frozenset()


_SKILLS, _STATE = "skills", "state"
_JOBS = frozenset(kind.plural for kind in JobKind)
# The undo files are of an older version, and nothing reads them.
_KNOWN_STATE = frozenset(
    (
        *(DATABASE, *MIRROR_FILES),
        *("heartbeat", "sentinel.json", "task_ids.json", "google_revoked.json"),
        *("attachments", "calendars", "last_good", "set-aside", "undo", "unseen_changes"),
    )
)
# What the program has set aside is never read again.
_SET_ASIDE = re.compile(r"[\w.-]+\.(?:corrupt|unapplied)-[\w.-]+")
# The engine reads these in any folder.
_INSTRUCTIONS = ("claude.md", "claude.local.md", "agents.md")
_HIDDEN_AND_ORDINARY = (".gitignore",)
ORDINARY = frozenset(
    f".{ending}"
    for ending in (
        *("md", "txt", "csv", "tsv", "log", "pdf", "ics", "eml"),
        *("png", "jpg", "jpeg", "gif", "webp", "heic", "mp3", "m4a", "ogg", "opus", "wav", "mp4"),
    )
)
_LONGEST = 300


def power_of(relative: PurePosixPath) -> Power | None:
    """What a file with this path can do; None for ordinary content."""
    relative = folded(relative)
    parts, name = relative.parts, relative.name
    if parts[0] == ".claude" and len(parts) > 2 and parts[1] in ("agents", _SKILLS):
        return Power.AGENTS if parts[1] == "agents" else Power.SKILLS
    if parts[0] == ".claude" or name in _INSTRUCTIONS:
        return Power.HOOKS
    if kind_of(relative) is Kind.KEY:
        return Power.SERVERS if name.lstrip(".").startswith("mcp.json") else Power.KEYS
    if parts[0] == _STATE:
        is_known = len(parts) > 1 and (parts[1] in _KNOWN_STATE or _SET_ASIDE.fullmatch(parts[1]))
        return None if is_known else Power.POLICY
    if parts[0] == _SKILLS:
        return Power.SKILLS
    if any(part.startswith(".") for part in parts):
        return None if str(relative) in _HIDDEN_AND_ORDINARY else Power.HOOKS
    if parts[0].startswith("tool-policy"):
        return Power.POLICY
    if parts[0] == "downloads" or relative.suffix in ORDINARY:
        return None
    return Power.SERVERS


def may_use(tool: str) -> bool:
    """Whether the program's own rules let the conversation use the tool unasked."""
    return not any(beyond_main((tool,), _main_patterns()))


@cache
def _main_patterns() -> tuple[Pattern, ...]:
    return tuple(Pattern.of(text) for text in MAIN_TOOLS)


def of_conversation(paths: DataPaths, reminder: Reminder) -> Reminder:
    """The reminder with no tool, of its own or by a skill, that the conversation may not use."""
    skills, spec = SkillFolder(paths.skills).read(), reminder.spec
    kept = (each for each in spec.skills if each in skills.loaded)
    kept = (each for each in kept if all(map(may_use, skills.tools_of((each,)))))
    tools = tuple(filter(may_use, spec.allowed_tools))
    return replace(reminder, spec=replace(spec, allowed_tools=tools, skills=(*kept,)))


def powers_brought(
    files: Iterable[BackedUpFile], restored: DataPaths, present: DataPaths | None
) -> list[Brought]:
    """What the files, extracted to `restored`, can do that `present` cannot. Nothing is changed.

    What equals the present file is left out, and so is a subagent of the package. Raises
    `StorageError`.
    """
    shipped = shipped_hashes()
    units: dict[tuple[Power, str], list[str]] = {}
    changed: set[tuple[Power, str]] = set()
    for entry in files:
        top, _, below = entry.path.partition("/")
        if top != DATA:
            continue
        power = _power_in(restored, PurePosixPath(below))
        if power is None or (power is Power.AGENTS and entry.sha256 in shipped):
            continue
        unit = power, _unit(power, PurePosixPath(below))
        units.setdefault(unit, []).append(below)
        if present is None or _sha256(present.root / below) != entry.sha256:
            changed.add(unit)
    found = [
        Brought(power, name, _detail(restored, power, name, paths), tuple(paths))
        for (power, name), paths in units.items()
        if (power, name) in changed
    ]
    found += _brought_in_database(
        stored_powers(restored.state),
        StoredPowers() if present is None else stored_powers(present.state),
    )
    return sorted(found, key=lambda each: (list(Power).index(each.power), each.name))


def leave_off(denied: Sequence[Brought], restored: DataPaths, present: DataPaths | None) -> None:
    """Move what is denied to `LEFT_OFF`; what the present directory has in its place stays."""
    state = None if present is None else present.state
    for each in denied:
        for name in each.files:
            target = restored.root / LEFT_OFF / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.rename(restored.root / name, target)
    for each in denied:
        if present is not None and each.files:
            _keep_present(present.root, restored.root, each)
    powers = {each.power for each in denied if not each.files}
    if Power.SERVERS in powers:
        reset_approvals(restored.state, state)
    if Power.POLICY in powers:
        reset_permissions(restored.state, state, may_use)


def _keep_present(present: Path, restored: Path, denied: Brought) -> None:
    """Copy the present files: those of the same names, or the whole folder of a skill."""
    names = {*denied.files}
    if (present / denied.name).is_dir():
        below = (
            Path(folder, name)
            for folder, _, found in os.walk(present / denied.name)
            for name in found
        )
        names |= {str(path.relative_to(present)) for path in below}
    for name in sorted(names):
        source, target = present / name, restored / name
        if source.is_file() and not source.is_symlink() and not target.exists():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)
            target.chmod(0o600 | (source.stat().st_mode & 0o100))


def _power_in(restored: DataPaths, relative: PurePosixPath) -> Power | None:
    """The power of a file by its path and, for a job and what becomes one, by its content."""
    power = power_of(relative)
    if power is not None or not (restored.root / relative).is_file():
        return power
    parts = folded(relative).parts
    if parts[:2] == (_STATE, "last_good"):
        parts = parts[2:]
    if len(parts) == 2 and parts[0] in _JOBS:
        return Power.POLICY if _wide_tools(restored, parts, text_of(restored, relative)) else None
    return None


def _wide_tools(restored: DataPaths, parts: Sequence[str], text: str) -> list[str]:
    """The tools of a job that the conversation itself may not use; its path ends in `parts`."""
    folder, name = parts[-2:]
    tools = JobFileChecker(restored).read(JobFile(JobFolder(folder), name), text).tools
    return [tool for tool in tools if not may_use(tool)]


def _unit(power: Power, relative: PurePosixPath) -> str:
    """What is asked about and left off as one: a file, or the folder of a skill."""
    parts = relative.parts
    if power is Power.SKILLS and len(parts) > 2:
        return "/".join(parts[: 3 if parts[0] == ".claude" else 2])
    return str(relative)


def _detail(restored: DataPaths, power: Power, name: str, files: Sequence[str]) -> str:
    path = restored.root / name
    if path.is_dir():
        return counted(len(files), "file")
    parts = PurePosixPath(name).parts
    match power:
        case Power.HOOKS if path.suffix == ".json":
            words = _commands(text_of(restored, name))
        case Power.SERVERS if name == "mcp.json":
            specs = read_servers(restored).specs
            words = [f"{each}: {spec.in_words}" for each, spec in sorted(specs.items())]
        case Power.SERVERS:
            words = ["a file that a program could run or read"]
        case Power.POLICY if name == "tool-policy.yaml":
            policy = PolicyFile(restored, lambda _: None).read()
            lists = (policy.main_more, policy.background_more, policy.background_instead or ())
            words = [f"allows {tool}" for each in lists for tool in each]
        case Power.POLICY if len(parts) > 1 and parts[-2] in _JOBS:
            tools = _wide_tools(restored, parts, text_of(restored, name))
            words = [f"may use {tool}" for tool in tools]
        case Power.KEYS if ".env" in parts[-1]:
            words = _variables(text_of(restored, name))
        case _:
            words = []
    return shortened(", ".join(dict.fromkeys(words)), _LONGEST)


def _commands(text: str) -> list[str]:
    """The command lines that the settings of the engine name, at any depth."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []

    def below(value: object) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, each in value.items():
                if name == "command" and isinstance(each, str):
                    yield f"runs {each}"
                else:
                    yield from below(each)
        elif isinstance(value, list):
            for each in value:
                yield from below(each)

    return list(below(value))


def _variables(text: str) -> list[str]:
    return re.findall(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=", text, re.MULTILINE)


def _brought_in_database(there: StoredPowers, here: StoredPowers) -> Iterator[Brought]:
    if there.mode and there.mode != here.mode:
        later = f"`ollim-bot config set permission_mode {there.mode}`"
        yield Brought(Power.POLICY, "permission_mode", there.mode, later=later)
    if grants := sorted(there.grants - here.grants):
        listed = shortened(", ".join(grants), _LONGEST)
        yield Brought(Power.POLICY, "calls allowed for good", listed, later="the agent asks again")
    if tools := sorted(tool for tool in there.tools - here.tools if not may_use(tool)):
        listed = shortened(", ".join(tools), _LONGEST)
        later = "name them in the reminder's file"
        yield Brought(Power.POLICY, "tools of waiting reminders", listed, later=later)
    if servers := list(there.servers_beyond(here)):
        later = ", ".join(f"`ollim-bot mcp approve {name}`" for name in servers)
        yield Brought(Power.SERVERS, "approved servers", ", ".join(servers), later=later)


def _sha256(path: Path) -> str:
    """The hash of a file; empty if there is none."""
    try:
        with open(open_file(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def text_of(restored: DataPaths, name: str | PurePosixPath) -> str:
    try:
        content = read_file(restored.root / name, SizeLimit.STATE)
        return content.decode("utf-8", "surrogateescape")
    except OSError:
        return ""

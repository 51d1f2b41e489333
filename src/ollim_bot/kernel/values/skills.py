"""Skills: written instructions that the agent loads by name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ollim_bot.kernel.values.shared_files import SKILL_FILE

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LONGEST_DESCRIPTION = 1024

# The engine would act on these fields by itself: run commands, change the model, start a subagent.
ACTING_FIELDS = frozenset(
    {"hooks", "model", "effort", "context", "agent", "shell", "disable-model-invocation"}
)

# What is run in place of the engine, which does not run anything itself.
_COMMAND = re.compile(
    r"^[ \t]*(?:```|~~~)!(?P<block>.*?)^[ \t]*(?:```|~~~)|!`(?P<inline>[^`\n]+)`", re.M | re.S
)
# All that we or the engine could run begins with one of these; the engine looks within lines too.
_MARKS = ("```!", "~~~!", "!`")
_INLINE_MARK = re.compile(r"(?<!!)!++(?=`)")
_SIGNS = re.compile(r"[`~][`~! \t]*")
_FENCE = re.compile(r"`{3}|~{3}")
_PATTERN = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that loads. `version` changes with its text.

    `tools` are the patterns that it adds to a job. `commands` are its command lines, which are run
    when the agent loads it. `warnings` are sentences about fields that have no effect here.
    """

    name: str
    description: str
    version: str
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillSet:
    """All skills of a data directory; `broken` has sentences for each that does not load."""

    loaded: Mapping[str, Skill] = field(default_factory=dict)
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def tools_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The patterns that these skills add to a job."""
        found = (self.loaded[name].tools for name in names if name in self.loaded)
        return tuple(dict.fromkeys(tool for tools in found for tool in tools))

    def unusable(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.loaded]

    def why_unusable(self, name: str) -> str:
        """Completes "it needs the skill mail, which"."""
        if name in self.broken:
            return f"does not load. {self.broken[name][0].removesuffix('.')}."
        return f"is not there. Add skills/{name}/SKILL.md."


@dataclass(frozen=True, slots=True)
class AgentSkills:
    """The skills that the agent, and not the owner, has named in jobs: pairs of job key and skill.

    Through such a skill a job gets no tool that the conversation does not have, also if the skill
    is changed later.
    """

    entries: tuple[tuple[str, str], ...] = ()

    def adding(self, job: str, skills: Iterable[str]) -> AgentSkills:
        return AgentSkills(tuple(dict.fromkeys((*self.entries, *((job, one) for one in skills)))))

    def of_job(self, job: str) -> frozenset[str]:
        return frozenset(skill for key, skill in self.entries if key == job)


def does_not_load(name: str, problem: str) -> str:
    return f"The skill {name} does not load: {problem.removesuffix('.')}."


def required_skills(names: Sequence[str]) -> str:
    """The block of a prompt that names the skills of a job; empty if it names none."""
    return "\n".join(["REQUIRED SKILLS", *(f"- Skill({name})" for name in names)]) if names else ""


def skill_patterns(names: Iterable[str]) -> tuple[str, ...]:
    """The patterns that let a job load its skills."""
    return tuple(f"Skill({name} *)" for name in names)


def command_lines(text: str) -> tuple[str, ...]:
    """The commands of a skill: in !`one` on a line, or each line of a block that begins with !."""
    found = (match["inline"] or match["block"] for match in _COMMAND.finditer(text))
    lines = (line.strip() for part in found if part for line in part.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))


def without_commands(text: str) -> str:
    """The text with its command lines as plain code, which is not run."""
    return _SIGNS.sub(_without_marks, _INLINE_MARK.sub("", text))


def _without_marks(signs: re.Match[str]) -> str:
    """Without each `!` behind a fence: without the first only, the second would be the mark."""
    fence = _FENCE.search(signs[0])
    end = fence.end() if fence else len(signs[0])
    return signs[0][:end] + signs[0][end:].replace("!", "")


def may_run_commands(text: str) -> bool:
    """Whether anything in the text looks like a command line, to us or to the engine."""
    return any(mark in text for mark in _MARKS)


def patterns_in(text: str) -> tuple[str, ...]:
    """The patterns of `Read, Bash(git status)`, as other programs write `allowed-tools`."""
    return tuple(_PATTERN.findall(text))


MOST_FILES = 200
LARGEST_FILE = 1_000_000
LARGEST_PACKAGE = 5_000_000
_LONGEST_PATH = 200
_DEEPEST = 8

_ODD = re.compile(r'[\\:*?"<>|]')
_ADDRESS = re.compile(r"(?i)\b(?:https?|wss?|ftp)://([a-z0-9.-]+)")
_SCRIPT = re.compile(r"(?i)\.(?:sh|bash|zsh|fish|py|js|mjs|ts|rb|pl|php|ps1|bat|cmd|exe|jar|so)\Z")


@dataclass(frozen=True, slots=True)
class PackedFile:
    data: bytes
    is_executable: bool = False


# By their paths below the folder of the skill.
Files = Mapping[str, PackedFile]


def wrong_name(path: str) -> str:
    """Why a file of this path is not unpacked; empty if it is."""
    parts = path.split("/")
    if len(path) > _LONGEST_PATH or len(parts) > _DEEPEST:
        return "is too long"
    if path.startswith("/") or ".." in parts:
        return "leads out of the folder"
    if any(part in ("", ".") or part != part.strip() or part.endswith(".") for part in parts):
        return "is not a plain name"
    if _ODD.search(path) or not path.isprintable():
        return "has characters that not every disk can store"
    return ""


def collision(paths: Iterable[str]) -> str:
    """Two paths that are one on some disks, as `a and A`; empty if there are none."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        name = folded_path(path)
        if name in seen:
            return f"{seen[name]} and {path}"
        seen[name] = path
        for end in (at for at, sign in enumerate(path) if sign == "/"):
            folder = path[:end]
            if folders.setdefault(folded_path(folder), folder) != folder:
                return f"{folders[folded_path(folder)]} and {folder}"
    both = seen.keys() & folders.keys()
    return f"{seen[min(both)]} and {folders[min(both)]}/" if both else ""


def folded_path(path: str) -> str:
    """Normalise a path for case-insensitive, Unicode-folding file systems."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def is_left_out(path: str) -> bool:
    """Whether the file is of another program: hidden, or a by-product of packing."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.split("/"))


def skill_folders(paths: Iterable[str]) -> list[str]:
    """The folders that hold a skill; the top is empty. A skill at the top is the only one."""
    folders = [path.rpartition("/")[0] for path in paths if path.split("/")[-1] == SKILL_FILE]
    return [""] if "" in folders else sorted(folders)


def below(files: Files, folder: str) -> dict[str, PackedFile]:
    """The files in the folder, by their paths below it."""
    start = f"{folder}/" if folder else ""
    return {path[len(start) :]: one for path, one in files.items() if path.startswith(start)}


def scripts_in(files: Files) -> Sequence[str]:
    return [
        path
        for path, one in sorted(files.items())
        if one.is_executable or one.data.startswith(b"#!") or _SCRIPT.search(path)
    ]


def addresses_in(files: Files) -> Sequence[str]:
    """The hosts of all addresses that stand in the files."""
    texts = (one.data.decode("utf-8", "replace") for one in files.values())
    return sorted({host.casefold().strip(".") for text in texts for host in _ADDRESS.findall(text)})

"""Which words of others a call has read: the places that it has touched say it, never the words."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.permissions.path_rules import is_within, job_files, paths_in_word, real_places
from ollim_bot.kernel.store.mark_rows import by_hand
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.task_file import titles_in
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.registry import OWN_TOOLS
from ollim_bot.kernel.values.agent_caller import PROGRAM, shell_words
from ollim_bot.kernel.values.permissions import FILE_ARGUMENTS, SEARCH_ARGUMENTS, relative
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.shared_files import SKILL_FILE, JobFolder
from ollim_bot.kernel.values.skills import folded_path
from ollim_bot.kernel.values.taint import ATTACHMENT, Reading, TaintMark, marked_taint, reading_of
from ollim_bot.kernel.values.tasks import FILE_LIST
from ollim_bot.kernel.values.tool_patterns import text_argument

# All that is in this folder was made by others.
_DOWNLOADS = "downloads"
# A line of a search begins with a path, and a colon ends the path.
_IN_DOWNLOADS = re.compile(rf"^(?:[^:\n]*/)?{_DOWNLOADS}/", re.MULTILINE | re.IGNORECASE)
_JOB_FILE = re.compile(
    rf"^(?:[^:\n]*/)?((?:{'|'.join(kind.plural for kind in JobKind)})/[^/:\n]+?\.md)", re.MULTILINE
)
_JOB_MARK = re.compile(r"^untrusted[ \t]*:[ \t]*['\"]?([^'\"\n]*[^'\"\s])", re.MULTILINE)
# After the name of a file, in a line of a search.
_NAME_ENDS = re.compile("[:-]|$")
_LONGEST_NAME = 255
_NAMING = ("", "content", "files_with_matches")
_READING_WHAT_IS_NAMED = (
    *("cal", "cat", "cksum", "cmp", "comm", "cut", "date", "diff", "du", "echo", "egrep", "false"),
    *("fgrep", "file", "grep", "head", "ls", "md5sum", "nl", "nproc", "od", "printf", "pwd"),
    *("sha256sum", "sort", "stat", "tac", "tail", "test", "true", "uname", "uniq", "uptime"),
    *("wc", "whoami", "zgrep"),
)
# With other options, or modes, a search may print lines without the names of their files.
_KEEPING_NAMES = frozenset(
    {
        *("pattern", "path", "glob", "type", "output_mode", "multiline", "head_limit", "offset"),
        *("-i", "-n", "-A", "-B", "-C", "context"),
    }
)


@dataclass(frozen=True, slots=True)
class Touched:
    """The places that a call may have read, with the `sources` that are known by themselves.

    Of the `folders`, that is each file whose name stands in `shown`; all of them if that is empty.
    `titles` are those of tasks.
    """

    sources: Sequence[str] = ()
    files: Sequence[str] = ()
    folders: Sequence[str] = ()
    shown: str = ""
    titles: Sequence[str] = ()

    def marks(self, tx: Transaction) -> list[TaintMark]:
        """The marks of the places among them that have some."""
        named = partial(_named_in, self.shown) if self.shown else None
        below = (each for folder in self.folders for each in tx.marks.below(folder, named))
        return [*below, *tx.marks.of_files(self.files), *tx.marks.of_tasks(self.titles).values()]


async def reading_in(store: Store, root: Path, call: ToolCall, result: str) -> Reading | None:
    """The words of others in a result; None if there are none."""
    known = reading_of(call.tool, call.arguments, result, OWN_TOOLS)
    touched = await asyncio.to_thread(places_of, root, call, result)
    marks = await store.read(touched.marks) if touched.files or touched.folders else []
    others = await asyncio.to_thread(by_hand, root, marks)
    if others:
        await store.transact(lambda tx: tx.marks.remove(*others))
    left = (each.source for each in marks if each not in others)
    sources = (*([known.source] if known else []), *touched.sources, *left)
    if not sources:
        return None
    return Reading(marked_taint(",".join(sources)).mark, known.found if known else frozenset())


def places_of(root: Path, call: ToolCall, result: str) -> Touched:
    """What the call may have touched in the data directory. It reads files."""
    paths = [*_paths(root, call)]
    if not paths:
        return Touched()
    is_glob, is_search = call.tool == "Glob", call.tool in SEARCH_ARGUMENTS
    places = dict.fromkeys(place for path in paths for place in marked_places(root, path))
    folders = [each for each in places if is_glob or os.path.isdir(root / each)]
    files = [each for each in places if each not in folders]
    shown = folded_path(result) or "\n" if is_glob or _shows_names(call) else ""
    written = [relative(path, str(root)).removeprefix("./") for path in paths]
    glob = text_argument(call.arguments, SEARCH_ARGUMENTS[call.tool]) if is_search else ""
    is_download = (
        any(_is_download(each.partition("/")[0]) for each in (*places, *written))
        or _is_download(glob)
        or (bool(folders) and _IN_DOWNLOADS.search(result) is not None)
    )
    in_folders = _jobs_in(root, folders) if not shown else ()
    in_result = (found[1] for found in _JOB_FILE.finditer(result if folders else ""))
    jobs = dict.fromkeys(
        (*(str(job) for each in paths for job in job_files(root, each)), *in_folders, *in_result)
    )
    in_jobs = (found[1] for job in jobs for found in _JOB_MARK.finditer(_text(root / job)))
    has_tasks = FILE_LIST in map(folded_path, (*files, *written)) or (
        "" in folders and (not shown or bool(_named_in(shown, {FILE_LIST})))
    )
    return Touched(
        (*([ATTACHMENT] if is_download else []), *in_jobs),
        files,
        [""] if is_glob else folders,
        shown,
        titles_in(f"{_text(root / FILE_LIST)}\n{result}", with_done=False) if has_tasks else (),
    )


def marked_places(root: Path, path: str) -> Iterator[str]:
    """The places of a file or folder, links followed: below the data directory, or whole.

    That of the data directory, and of what has it in it, is empty.
    """
    home = os.path.realpath(root)
    for real in real_places(root, path):
        if is_within(home, real):
            yield ""
        else:
            yield os.path.relpath(real, home) if is_within(real, home) else real


def _paths(root: Path, call: ToolCall) -> Iterator[str]:
    if call.tool in FILE_ARGUMENTS:
        # The result of an edit shows the lines around it.
        yield text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
    elif call.tool == "Skill":
        yield _skill_file(text_argument(call.arguments, "skill"))
    elif call.tool in SEARCH_ARGUMENTS:
        yield text_argument(call.arguments, "path") or "."
    elif call.tool == "Bash":
        yield from _paths_in_command(root, text_argument(call.arguments, "command"))


def _paths_in_command(root: Path, command: str) -> Iterator[str]:
    """What the words name; most programs may read other places of the data directory, too."""
    program, *words = shell_words(command) or [""]
    name = os.path.basename(program)
    found = [path for word in words for path in paths_in_word(word)]
    # Our own commands show words of others between marks only, but for a skill.
    yield from filter(_is_download, found) if name == PROGRAM else found
    if name == PROGRAM and words[:2] == ["skill", "show"]:
        yield from map(_skill_file, words[2:])
    reads_here = name == "ls" and not any(os.path.lexists(root / each) for each in found)
    if reads_here or name not in (PROGRAM, *_READING_WHAT_IS_NAMED):
        yield "."


def _skill_file(name: str) -> str:
    return f"{JobFolder.SKILLS}/{name}/{SKILL_FILE}"


def _jobs_in(root: Path, folders: Sequence[str]) -> Iterator[str]:
    """The files of jobs that a search of the folders reaches."""
    for name in (kind.plural for kind in JobKind):
        files = (root / name).glob("*.md") if {"", name}.intersection(folders) else ()
        yield from (f"{name}/{file.name}" for file in files)


def _shows_names(call: ToolCall) -> bool:
    """Whether it is a search that prints, with every line, the name of its file."""
    options = {name for name, value in call.arguments.items() if value not in (None, False)}
    mode = text_argument(call.arguments, "output_mode")
    return call.tool == "Grep" and mode in _NAMING and options <= _KEEPING_NAMES


def _is_download(path: str) -> bool:
    return _DOWNLOADS in path.casefold().split("/")


def _named_in(shown: str, names: Set[str]) -> Set[str]:
    """Those of the names that a search may have shown: each follows a folder or begins a line."""
    # What cannot be printed is shown in some other way.
    found = {each for each in names if not each.isprintable() or len(each) > _LONGEST_NAME}
    for part in re.split(r"[/\n]", shown):
        ends = (end.start() for end in _NAME_ENDS.finditer(part, 0, _LONGEST_NAME + 1))
        found.update(name for end in ends if (name := part[:end]) in names)
    return found


def _text(path: Path) -> str:
    try:
        return read_file(path, SizeLimit.TASKS).decode("utf-8", "replace")
    except OSError:
        return ""

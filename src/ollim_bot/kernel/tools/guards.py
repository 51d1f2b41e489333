"""Refuses calls that no policy may allow, such as those for state files and private addresses."""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ollim_bot.kernel.base.errors import StorageError, WrongInput
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.plain_files import SizeLimit, UnsuitableFile, read_file
from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.permissions.path_rules import (
    LONGEST_PATH,
    MOST_PATHS,
    PathPolicy,
    Resolver,
    TooMuchToJudge,
    address_problem,
    is_within,
    job_files,
    paths_in_arguments,
    paths_in_word,
)
from ollim_bot.kernel.store.files import Stamp, stamp
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.mark_rows import hash_of
from ollim_bot.kernel.store.skill_files import skill_at
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.reading import marked_places
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.values.agent_caller import (
    PROGRAM,
    hidden_owners_command,
    owners_command,
    owners_command_refusal,
    read_command_line,
    shell_words,
)
from ollim_bot.kernel.values.initiative import (
    KEEPS_MARK,
    NOT_ONES_OWN,
    Setter,
    objections,
    objections_after_reading,
)
from ollim_bot.kernel.values.jobs import job_key
from ollim_bot.kernel.values.permissions import (
    FILE_ARGUMENTS,
    SEARCH_ARGUMENTS,
    Pattern,
    beyond_main,
)
from ollim_bot.kernel.values.ports import Refusal, ToolCall
from ollim_bot.kernel.values.runs import NAME_ARGUMENT, STARTING, Subagents
from ollim_bot.kernel.values.shared_files import SKILL_FILE, FileReading, JobFile, JobFolder
from ollim_bot.kernel.values.skills import Skill, does_not_load, folded_path
from ollim_bot.kernel.values.taint import Taint, TaintMark
from ollim_bot.kernel.values.tasks import FILE_LIST
from ollim_bot.kernel.values.tool_patterns import WRITING, server_of, text_argument

_OTHER_FORM = (
    "These arguments are not those of the tool. Give them as texts, and `replace_all` as is."
)
_NOT_EXACT = "`old_string` must stand in {file} exactly so, to the letter. Read it and copy it."
_NOT_ONCE = "`old_string` stands in {file} {times} times. Make it longer, or set `replace_all`."
_NO_FILE = "{file} is not there yet. Use `Write`."
_FRONTMATTER_MARK = "---"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_UNCLEAR = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]|$)")
# Names that unknown tools may give to a path argument.
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "directory", "folder", "cwd")
_CHANGING_FOLDER = frozenset({"cd", "pushd", "popd"})
# These programs search the current folder if no path is given, and any word may be a path.
_RECURSIVE = {
    "rgrep": re.compile(""),
    "ls": re.compile(r"-[A-Za-z0-9]*R|--rec"),
    **dict.fromkeys(
        ("grep", "egrep", "fgrep", "zgrep"), re.compile(r"-[A-Za-z0-9]*[rRd]|--(?:rec|der|dir)")
    ),
}


class UnclearEdit(Exception):
    """The result of the edit cannot be foreseen; `str()` says what to do instead."""


def text_after_edit(
    file: str, before: str | None, tool: str, arguments: Mapping[str, object]
) -> str:
    """The text of the file after the call. Raises `UnclearEdit`, whose message names `file`."""
    if tool == "Write":
        return _text(arguments, "content")
    edits = arguments.get("edits") if tool == "MultiEdit" else [arguments]
    if not isinstance(edits, list) or not edits:
        raise UnclearEdit(_OTHER_FORM)
    text = before
    for edit in edits:
        if not isinstance(edit, Mapping):
            raise UnclearEdit(_OTHER_FORM)
        text = _edited(file, text, edit)
    assert text is not None
    return text


def _edited(file: str, before: str | None, edit: Mapping[str, object]) -> str:
    old, new = _text(edit, "old_string"), _text(edit, "new_string")
    replaces_all = edit.get("replace_all", False)
    if not isinstance(replaces_all, bool):
        raise UnclearEdit(_OTHER_FORM)
    if not old and not (before or "").strip():
        return new
    if before is None:
        raise UnclearEdit(_NO_FILE.format(file=file))
    # The engine normalises line ends and drops the byte order mark.
    text = before.removeprefix("\ufeff").replace("\r\n", "\n")
    times = text.count(old) if old else 0
    if not times:
        # The engine would then try similar text, such as other quotation marks.
        raise UnclearEdit(_NOT_EXACT.format(file=file))
    if times > 1 and not replaces_all:
        raise UnclearEdit(_NOT_ONCE.format(file=file, times=times))
    # When it deletes text, the engine removes the end of the line too.
    takes_line_end = not new and not old.endswith("\n") and f"{old}\n" in text
    return text.replace(f"{old}\n" if takes_line_end else old, new, -1 if replaces_all else 1)


def _text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise UnclearEdit(_OTHER_FORM)
    return value


def skill_guard(call: ToolCall, root: Path) -> str | None:
    """Keeps hooks out of skills: the engine runs their commands without asking.

    A skill is checked before it is written, since the engine remembers earlier content, and before
    it is used, since other programs may have written it. The engine also finds skills in folders
    that we do not check, and runs their hooks when it loads them, so only ours are used.
    """
    if call.tool == "Skill":
        name = text_argument(call.arguments, "skill")
        skill = skill_at(root / JobFolder.SKILLS, name)
        return None if isinstance(skill, Skill) else does_not_load(name, skill[0])
    path = os.path.join(root, str(call.arguments.get(FILE_ARGUMENTS.get(call.tool, ""), "")))
    if call.tool not in WRITING or not _belongs_to_skill(path, root):
        return None
    shown = os.path.relpath(path, root)
    try:
        text = text_after_edit(shown, _content(path), call.tool, call.arguments)
    except UnclearEdit as unclear:
        return str(unclear)
    except UnsuitableFile as unfit:
        return texts.unfit_file(shown, unfit.reason)
    return texts.NO_HOOKS if may_have_hooks(text) else None


def may_have_hooks(text: str) -> bool:
    """Whether a skill has hooks among its fields; True also if that is unclear."""
    first, *others = _LINE_ENDS.split(text.lstrip("\ufeff \t\r\n"))
    if not first.startswith(_FRONTMATTER_MARK):
        return False
    lines = [line.rstrip(" \t") for line in others]
    end = lines.index(_FRONTMATTER_MARK) if _FRONTMATTER_MARK in lines else len(lines)
    fields = [line for line in lines[:end] if line and not line.lstrip(" \t").startswith("#")]
    if first.strip() != _FRONTMATTER_MARK or any(map(_UNCLEAR.search, fields)):
        return True
    # An indented line, or an item of a list, belongs to the field before it.
    top = [line for line in fields if line[0] not in " \t-"]
    if fields and fields[0] not in top:
        return True
    named = [_FIELD.match(line) for line in top]
    return any(name is None or name[1].casefold() == "hooks" for name in named)


def _belongs_to_skill(path: str, root: Path) -> bool:
    real = os.path.realpath(path)
    home = os.path.join(os.path.realpath(root), JobFolder.SKILLS)
    is_named_so = os.path.basename(real).casefold() == SKILL_FILE.casefold()
    return is_named_so or is_within(real.casefold(), home.casefold())


def _content(path: str) -> str | None:
    """None if the file is missing or unreadable; raises `UnsuitableFile` for a special one."""
    try:
        return read_file(path, SizeLimit.SKILL).decode("utf-8", "replace")
    except UnsuitableFile:
        raise
    except OSError:
        return None


def state_dir_guard(call: ToolCall, policy: PathPolicy) -> str | None:
    """Keeps the agent inside the data directory, and out of the program's own files there."""
    return _path_problem(call, policy) or skill_guard(call, policy.root)


def _path_problem(call: ToolCall, policy: PathPolicy) -> str | None:
    if call.tool == "Bash":
        return _command_problem(text_argument(call.arguments, "command"), policy)
    if call.tool in SEARCH_ARGUMENTS:
        where = text_argument(call.arguments, "path")
        looked_for = text_argument(call.arguments, SEARCH_ARGUMENTS[call.tool])
        return policy.to_search(where, looked_for, begins_at_glob=call.tool == "Glob")
    if call.tool in FILE_ARGUMENTS:
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        return policy.to_write(path) if call.tool in WRITING else policy.to_read(path)
    named = (
        text_argument(call.arguments, name) for name in _PATH_ARGUMENTS if name in call.arguments
    )
    reason = next(filter(None, map(policy.to_write, named)), None)
    if reason or not server_of(call.tool):
        return reason
    # Any argument of the owner's tool server may be a path.
    try:
        return policy.to_pass_on(paths_in_arguments(call.arguments))
    except TooMuchToJudge:
        return texts.TOO_MUCH_GIVEN


def address_guard(call: ToolCall, resolver: Resolver) -> str | None:
    """Keeps web fetches to public addresses."""
    if call.tool != "WebFetch":
        return None
    return address_problem(text_argument(call.arguments, "url"), resolver)


@dataclass(frozen=True, slots=True)
class SubagentGuard:
    """Keeps the agent to known subagents, and each of those to the tools in its file.

    `read` gives the subagents as of now; it is called only for calls that concern one.
    """

    read: Callable[[], Subagents] = Subagents
    in_background: bool = False

    def __call__(self, call: ToolCall, policy: PathPolicy) -> str | None:
        if call.subagent:
            if call.tool in STARTING:
                return texts.ONE_BELOW_ANOTHER
            one = self.read().known.get(call.subagent)
            if one is None:
                return texts.unknown_subagent(call.subagent, ())
            if one.tools is None or self.wanted_by(call, policy) is not None:
                return None
            return texts.not_for_subagent(call.tool, one.name, [str(each) for each in one.tools])
        return self._start(call) if call.tool in STARTING else None

    def wanted_by(self, call: ToolCall, policy: PathPolicy) -> Pattern | None:
        """The pattern in the file of the subagent that the call comes from."""
        one = self.read().known.get(call.subagent) if call.subagent else None
        return None if one is None else one.pattern_for(call.tool, call.arguments, *policy.roots)

    def _start(self, call: ToolCall) -> str | None:
        # Git would copy the folder to a place outside the data directory.
        if call.arguments.get("isolation"):
            return texts.SAME_FOLDER
        subagents = self.read()
        one = subagents.known.get(text_argument(call.arguments, NAME_ARGUMENT))
        if one is None:
            names = list(subagents.names(in_background=self.in_background))
            return texts.unknown_subagent(text_argument(call.arguments, NAME_ARGUMENT), names)
        if one.is_for_background_only and not self.in_background:
            return texts.only_in_background(one.name)
        return None


def _command_problem(command: str, policy: PathPolicy) -> str | None:
    words = shell_words(command)
    if not words:
        return texts.UNCLEAR_COMMAND
    program, others = words[0], words[1:]
    if program in _CHANGING_FOLDER:
        return texts.STAYS_HERE
    if program == PROGRAM:
        return _own_command_problem(others, policy)
    if owners := hidden_owners_command(words):
        return owners_command_refusal(owners)
    named = list(dict.fromkeys(path for word in words for path in paths_in_word(word)))
    # A program may shorten a path that is too long to one that it can open.
    if any("/" in path and len(path) > LONGEST_PATH for path in named):
        return texts.TOO_MUCH
    # Some programs take a working folder, and resolve their paths from there.
    starts = ["", *(path for path in named if os.path.isdir(os.path.join(policy.root, path)))]
    if len(starts) * len(named) > MOST_PATHS:
        return texts.TOO_MUCH
    paths = [os.path.join(start, path) for start in starts for path in named]
    handed_over = [path for path in paths if path != program]
    if reason := policy.to_name(paths) or policy.to_hand_over(handed_over):
        return reason
    flag = _RECURSIVE.get(posixpath.basename(program))
    return texts.REACHES_TOO_FAR if flag and any(map(flag.match, words)) else None


def _own_command_problem(words: Sequence[str], policy: PathPolicy) -> str | None:
    """Check a command of ours: its arguments are texts, so only a whole word may be a path."""
    if owners := owners_command(read_command_line(words)):
        return owners_command_refusal(owners)
    whole = (*words, *(word.partition("=")[2] for word in words if word.startswith("-")))
    named = (word for word in whole if "/" in word or word.startswith("."))
    return policy.to_name([word for word in named if len(word) <= LONGEST_PATH])


_LONE_RETURN = re.compile(r"\r(?!\n)")
_UNTAINTED = Taint()


def written_jobs(root: Path, call: ToolCall) -> Sequence[JobFile]:
    """The job and skill files that a call would write."""
    path = call.arguments.get(FILE_ARGUMENTS.get(call.tool, ""))
    return [*job_files(root, path)] if call.tool in WRITING and isinstance(path, str) else []


class JobValidator:
    """Gives a reason to refuse a call, or None; asked after `state_dir_guard`, in a thread.

    `allowed` is what the main session may use now: the agent may allow a job no more than that,
    also through a skill. A pattern or a skill that the file has already may stay. A skill that the
    agent names has to be there, so that it can be judged; `note_skills` gets the key of the job and
    the skills before the file is written.
    """

    def __init__(
        self,
        root: Path,
        checker: JobFileChecker,
        allowed: Callable[[], Sequence[Pattern]],
        note_skills: Callable[[str, Sequence[str]], None] = lambda _, __: None,
    ) -> None:
        self._root = root
        self._checker = checker
        self._allowed = allowed
        self._note_skills = note_skills

    def __call__(
        self, call: ToolCall, setter: Setter | None = None, taint: Taint = _UNTAINTED
    ) -> str | None:
        """`setter` is the background run that calls; None in a turn, which has this `taint`."""
        problems, named = list[str](), dict[str, Sequence[str]]()
        for file in written_jobs(self._root, call):
            try:
                problems += self._wrong(file, call, setter, taint, named)
            except (UnclearEdit, StorageError) as unclear:
                problems.append(str(unclear))
        if problems:
            return "\n".join(["Nothing was changed. Mend this and try it again:", *problems])
        for job, skills in named.items():
            self._note_skills(job, skills)
        return None

    def _wrong(
        self,
        file: JobFile,
        call: ToolCall,
        setter: Setter | None,
        taint: Taint,
        noted: dict[str, Sequence[str]],
    ) -> Iterator[str]:
        """A sentence for each problem; `noted` gets the skills that the call names in a job."""
        before = self._checker.text(file)
        text = text_after_edit(str(file), before, call.tool, call.arguments)
        was = FileReading() if before is None else self._checker.read(file, before)
        will_be = self._checker.read(file, text)
        yield from will_be.problems
        if lone := _LONE_RETURN.search(text):
            line = text.count("\n", 0, lone.start()) + 1
            yield f"{file}:{line}: a carriage return stands in it; lines end with a line feed"
        yield from self._doubled(file, was, will_be)
        yield from (f"{file}: {each}" for each in _not_its_own(was, will_be, setter, taint))
        if was.untrusted and will_be.untrusted != was.untrusted:
            yield f"{file}: untrusted: {KEEPS_MARK}"
        added = [each for each in will_be.tools if each not in was.tools]
        where = str(file) if will_be.tools_line is None else f"{file}:{will_be.tools_line}"
        yield from (f"{where}: allowed-tools: {each}" for each in self._beyond(added))
        if will_be.job is None:
            return
        # The skills that the change names, or takes along to another job.
        is_same = was.job is not None and job_key(was.job) == job_key(will_be.job)
        kept = was.job.spec.skills if was.job is not None and is_same else ()
        named = [skill for skill in will_be.job.spec.skills if skill not in kept]
        unusable = self._checker.unusable_skills(named)
        beyond = self._beyond(self._checker.tools_of_skills(named))
        yield from (f"{file}: skills: {each}" for each in (*unusable, *beyond))
        if named:
            noted[job_key(will_be.job)] = named

    def _doubled(self, file: JobFile, was: FileReading, will_be: FileReading) -> Iterator[str]:
        if will_be.job is None or (was.job and was.job.spec.id == will_be.job.spec.id):
            return
        job_id = will_be.job.spec.id
        for other in self._checker.others_with(file, job_id):
            yield (
                f"{file}: id: {job_id} is that of {other} already. Give it another id, or edit "
                "that file."
            )

    def _beyond(self, patterns: Sequence[str]) -> Iterator[str]:
        return beyond_main(patterns, self._allowed() if patterns else ())


def _not_its_own(
    was: FileReading, will_be: FileReading, setter: Setter | None, taint: Taint
) -> Iterator[str]:
    """A background run marks what it sets, and a turn that has read untrusted text orders nothing.

    The agent removes no such mark.
    """
    if setter is None and will_be.set_by != was.set_by:
        yield f"set-by: {NOT_ONES_OWN}"
    if will_be.job is None:
        return
    if setter is not None:
        yield from objections(was.job, will_be.job, setter)
        return
    # Another id makes another job.
    is_same = was.job is not None and was.job.spec.id == will_be.job.spec.id
    yield from objections_after_reading(was.job if is_same else None, will_be.job, taint)


_LONGEST_PATH = 400
_TOO_LONG = f"The path is longer than {_LONGEST_PATH} characters. Choose a shorter one."


@dataclass(slots=True)
class _Writing:
    """Calls that are writing a file now, and the mark and the file as they were before."""

    mark: TaintMark
    former: TaintMark | None
    stamp: Stamp
    calls: int = 0


class NoteMarks:
    """The marks of the files that one session writes."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._writing: dict[str, _Writing] = {}

    async def begin(self, call: ToolCall) -> Refusal | None:
        """Mark the file that the call, which is allowed, is about to write.

        A job file has its mark in it.
        """
        if call.tool not in WRITING:
            return None
        run, root = self._context.run, self._context.root
        source, path = run.taint.mark, text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        places = await asyncio.to_thread(_places, root, path)
        marked = await self._context.store.read(lambda tx: tx.marks.of_files(places))
        if not places or not (source or marked):
            return None
        if any(len(each) > _LONGEST_PATH for each in places):
            return Refusal(_TOO_LONG)
        found = {each: await asyncio.to_thread(stamp, root / each) for each in places}

        def begin(tx: Transaction, place: str, seen: Stamp) -> _Writing:
            former = next(iter(tx.marks.of_files([place])), None)
            made_by = run.session or "" if seen is None else ""
            path = former.path if former else place
            mark = tx.marks.leave(TaintMark(source, tx.now, path=path, session=made_by))
            return _Writing(mark, former, seen)

        try:
            begun = await self._context.store.transact(
                lambda tx: [begin(tx, *each) for each in found.items()]
            )
        except WrongInput as full:
            return Refusal(str(full))
        for each in begun:
            self._writing.setdefault(each.mark.path, each).calls += 1
        return None

    async def end(self, call: ToolCall) -> None:
        """Withdraw the mark if the file is as it was, else note what is in it now."""
        if call.tool not in WRITING or not self._writing:
            return
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        for place in await asyncio.to_thread(_places, self._context.root, path):
            writing = self._writing.get(place)
            if writing is None:
                continue
            writing.calls -= 1
            if not writing.calls:
                del self._writing[place]
                await self._ended(writing)

    async def _ended(self, one: _Writing) -> None:
        file, after = self._context.root / one.mark.path, one.former
        is_written = await asyncio.to_thread(stamp, file) != one.stamp
        if is_written:
            # Commands and clicks write that of the tasks, too, so that no change shows a hand.
            is_shared = folded_path(one.mark.path) == FILE_LIST
            known = "" if is_shared else await asyncio.to_thread(_hash, file)
            after = replace(one.mark, hash=known)

        def step(tx: Transaction) -> None:
            if not tx.marks.exchange(one.mark, after) and is_written:
                tx.marks.leave(one.mark, is_written=True)

        await self._context.store.transact(step)


def is_own(store: Store, root: Path, path: str, session: SessionId | None) -> bool:
    """Whether this session, careful, made the note that the path leads to. For a thread."""
    marks = store.query(lambda tx: tx.marks.of_files(_places(root, path)))
    return session is not None and {each.session for each in marks} == {session}


def _places(root: Path, path: str) -> list[str]:
    """Where the file lies; nowhere for the file of a job."""
    is_job = any(not file.is_skill for file in job_files(root, path))
    return [] if is_job else [*dict.fromkeys(marked_places(root, path))]


def _hash(file: Path) -> str:
    try:
        return hash_of(read_file(file, SizeLimit.IN_HISTORY))
    except OSError:
        return ""

"""Marks a note before a careful run writes it; whoever reads it later is careful too."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.permissions import FILE_ARGUMENTS
from ollim_bot.domain.skills import folded_path
from ollim_bot.domain.taint import TaintMark
from ollim_bot.domain.tasks import FILE_LIST
from ollim_bot.domain.tool_patterns import WRITING, text_argument
from ollim_bot.errors import WrongInput
from ollim_bot.plain_files import SizeLimit, read_file
from ollim_bot.ports import Refusal, ToolCall
from ollim_bot.store.files import Stamp, stamp
from ollim_bot.store.marks import hash_of
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.path_rules import job_files
from ollim_bot.tools.reading import marked_places

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

        def step(tx: Transaction) -> list[_Writing]:
            return [_begun(tx, each, seen, source, run.session) for each, seen in found.items()]

        try:
            begun = await self._context.store.transact(step)
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


def _begun(
    tx: Transaction, place: str, seen: Stamp, source: str, session: SessionId | None
) -> _Writing:
    former = next(iter(tx.marks.of_files([place])), None)
    made_by = session or "" if seen is None else ""
    mark = TaintMark(source, tx.now, path=former.path if former else place, session=made_by)
    return _Writing(tx.marks.leave(mark), former, seen)


def _places(root: Path, path: str) -> list[str]:
    """Where the file lies; nowhere for the file of a job."""
    return [] if job_files(root, path) else [*dict.fromkeys(marked_places(root, path))]


def _hash(file: Path) -> str:
    try:
        return hash_of(read_file(file, SizeLimit.IN_HISTORY))
    except OSError:
        return ""

"""The jobs as they were last known to be right, whatever happens to their files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.schedule import JobKey
from ollim_bot.ports import Clock, Disk
from ollim_bot.scheduling.contents import Contents
from ollim_bot.scheduling.hand_edits import HandEdits
from ollim_bot.scheduling.job_files import JobFiles
from ollim_bot.scheduling.pages import BookedJob, Mistake
from ollim_bot.scheduling.shared_files import SharedFiles
from ollim_bot.scheduling.watcher import SCAN_SECONDS
from ollim_bot.storage.files import OsDisk

_MOST_TOLD_AT_ONCE = 5
# What looking at files that nobody has changed may take of a core.
_MOST_OF_A_CORE = 0.002
_LONGEST_REST = 60.0


class Teller(Protocol):
    """`Notices`, as far as it matters here: what was told is not told again until forgotten."""

    async def tell(self, sentence: str) -> object: ...

    async def forget(self, key: str) -> None:
        """`key` is the sentence."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look has brought. `problems` are the sentences that were told.

    `look_again_in` says in how many seconds a look finds more, even if no file changes. For
    `rest` seconds none is needed while the system tells of all changes.
    """

    added: Sequence[BookedJob] = ()
    changed: Sequence[BookedJob] = ()
    removed: Sequence[BookedJob] = ()
    problems: Sequence[str] = ()
    look_again_in: float | None = None
    rest: float = SCAN_SECONDS

    @property
    def next_look_in(self) -> float:
        return self.rest if self.look_again_in is None else min(self.rest, self.look_again_in)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.problems)


class JobBook:
    """Knows every job of the data directory. `refresh` it whenever a file may have changed.

    A file that is wrong, or away for a moment, leaves its last good version in the book. What is
    wrong is told when it is no passing state, and again only when it has become something else.
    """

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        teller: Teller,
        hand_edits: HandEdits,
        disk: Disk | None = None,
    ) -> None:
        self._clock = clock
        self._teller = teller
        self._hand_edits = hand_edits
        self._files = JobFiles(paths, disk or OsDisk())
        self._shared = SharedFiles(paths)
        self._contents = Contents()
        self._told: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def jobs(self) -> Mapping[JobKey, BookedJob]:
        return self._contents.jobs

    @property
    def problems(self) -> Sequence[str]:
        """All that is wrong now, told or not."""
        return [mistake.sentence for mistake in self._contents.mistakes]

    async def refresh(self) -> Changes:
        async with self._one_at_a_time:
            now, before = self._clock.monotonic(), self.jobs
            self._contents, waits, took = await asyncio.to_thread(self._looked, now)
            told = await self._tell(self._contents.mistakes, now)
            changes = _changes(before, self._contents.jobs, told, min(waits, default=None))
            return replace(changes, rest=rest_after(took))

    def _looked(self, now: float) -> tuple[Contents, list[float], float]:
        """The contents now, in how many seconds there is more to do, and the CPU seconds that it
        takes to find nothing new."""
        began = time.thread_time()
        before, sight, shared = self._contents, self._files.look(), self._shared.touched()
        took = 0.0 if sight.touched else time.thread_time() - began
        # What changed before the first look has been committed when the bot started.
        if before.sight is not None:
            self._hand_edits.saw((*self._files.touched(sight), *shared))
        contents = before.after(sight, self._files.folders, self._files.last_good, now)
        if contents is not before:
            self._files.keep_last_good(contents, now)
        settled, edits = contents.settles_at, self._hand_edits.settle()
        waits = [] if settled is None else [settled - now]
        return contents, waits if edits is None else [*waits, edits], took

    async def _tell(self, mistakes: Sequence[Mistake], now: float) -> Sequence[str]:
        there = {mistake.key for mistake in mistakes}
        for key in self._told.keys() - there:
            await self._teller.forget(self._told.pop(key))
        new = [m for m in mistakes if now >= m.stands_at and self._told.get(m.key) != m.sentence]
        for mistake in new:
            if mistake.key in self._told:
                await self._teller.forget(self._told[mistake.key])
            self._told[mistake.key] = mistake.sentence
        sentences = _in_short([mistake.sentence for mistake in new])
        for sentence in sentences:
            await self._teller.tell(sentence)
        return sentences


def rest_after(took: float) -> float:
    """How long the next look may wait after one that took so many CPU seconds to find nothing."""
    return min(max(SCAN_SECONDS, took / _MOST_OF_A_CORE), _LONGEST_REST)


def _in_short(sentences: Sequence[str]) -> Sequence[str]:
    """A folder full of wrong files is not a hundred notices."""
    more = len(sentences) - _MOST_TOLD_AT_ONCE
    if more <= 0:
        return sentences
    rest = (
        f"{more} more mistakes are in job files. `ollim-bot routine list` and "
        "`ollim-bot reminder list` show them."
    )
    return [*sentences[:_MOST_TOLD_AT_ONCE], rest]


def _changes(
    before: Mapping[JobKey, BookedJob],
    after: Mapping[JobKey, BookedJob],
    problems: Sequence[str],
    look_again_in: float | None,
) -> Changes:
    if before is after:
        return Changes(problems=problems, look_again_in=look_again_in)
    return Changes(
        added=[job for key, job in after.items() if key not in before],
        changed=[
            job
            for key, job in after.items()
            if key in before and job is not before[key] and job != before[key]
        ],
        removed=[job for key, job in before.items() if key not in after],
        problems=problems,
        look_again_in=look_again_in,
    )

"""Which task of a text is which: ids that follow a task, although the text has none.

A task is known by its title. Where several have one title, their dates, notes and ticks tell them
apart, compared with what was seen last. An id that was given once is not given again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import count
from typing import NamedTuple
from unicodedata import normalize
from zlib import crc32

from ollim_bot.domain.tasks import Task

# A task that is missing for longer was removed. A shorter time is a cut before the paste, or a file
# that was read while another program was writing it.
ABSENT_FOR = timedelta(minutes=10)
_MOST_GONE = 2000


class SeenTask(NamedTuple):
    """A task as last seen; `key` is its normalised title, and `notes` a checksum of its notes."""

    id: str
    key: str
    due: str
    notes: str
    done: bool


class AbsentTask(NamedTuple):
    """A task that was not in the text any more; `since` is in unix seconds."""

    task: SeenTask
    since: float


@dataclass(frozen=True, slots=True)
class TaskIds:
    """The ids that were given: in the text, recently missing from it, and `gone` for good."""

    seen: tuple[SeenTask, ...] = ()
    absent: tuple[AbsentTask, ...] = ()
    gone: tuple[str, ...] = ()

    def identified(self, tasks: Sequence[Task], now: datetime) -> tuple[list[str], TaskIds]:
        """The id of each task of the text, and the ids given from now on."""
        parts = [_parts(task) for task in tasks]
        ids = _matched(self.seen, parts)
        before = self._pruned(now)
        adopted = _adopted(before.absent, parts, ids)
        present = {*ids.values()}
        lost = (AbsentTask(one, now.timestamp()) for one in self.seen if one.id not in present)
        still = (each for each in before.absent if each.task.id not in adopted)
        kept = TaskIds((), (*still, *lost), before.gone)
        new_ids = _NewIds({*kept.gone, *(one.task.id for one in kept.absent), *ids.values()})
        for place, part in enumerate(parts):
            if place not in ids:
                ids[place] = new_ids.of(part.key)
        given = [ids[place] for place in range(len(parts))]
        return given, kept.with_seen(given, tasks)

    def with_seen(self, ids: Sequence[str], tasks: Sequence[Task]) -> TaskIds:
        """The ids after a change by the program, which knows the id of each task."""
        pairs = zip(ids, map(_parts, tasks), strict=True)
        return TaskIds(tuple(part._replace(id=one) for one, part in pairs), self.absent, self.gone)

    def without(self, task_id: str) -> TaskIds:
        """The task was deleted for good, until `restored`."""
        seen = tuple(one for one in self.seen if one.id != task_id)
        return TaskIds(seen, self.absent, (*self.gone, task_id)[-_MOST_GONE:])

    def restored(self, task_id: str) -> TaskIds:
        return TaskIds(self.seen, self.absent, tuple(one for one in self.gone if one != task_id))

    def new_id(self, title: str) -> str:
        """An id that no task has or had."""
        used = {*self.gone, *(one.id for one in self.seen), *(one.task.id for one in self.absent)}
        return _NewIds(used).of(_key(title))

    def _pruned(self, now: datetime) -> TaskIds:
        oldest = now.timestamp() - ABSENT_FOR.total_seconds()
        absent = tuple(one for one in self.absent if one.since > oldest)
        lost = (one.task.id for one in self.absent if one.since <= oldest)
        return TaskIds(self.seen, absent, (*self.gone, *lost)[-_MOST_GONE:])


_Signature = Callable[[SeenTask], object]


def _due_and_notes(one: SeenTask) -> object:
    return one.due, one.notes


def _due(one: SeenTask) -> object:
    return one.due or None


def _notes(one: SeenTask) -> object:
    return one.notes or None


# Whether the task is done now, whether it was, and what has to be equal; the surest first. A done
# line beside an equal open one is the task that was ticked: the open one was written anew.
_ROUNDS: tuple[tuple[bool, bool, _Signature], ...] = (
    (True, True, _due_and_notes),
    (True, False, _due_and_notes),
    (True, False, _due),
    (False, False, _due_and_notes),
    (False, False, _due),
    (False, False, _notes),
    (False, True, _due_and_notes),
)


def _matched(seen: Sequence[SeenTask], parts: Sequence[SeenTask]) -> dict[int, str]:
    """The ids of the tasks that were seen before, by place."""
    known, found = defaultdict[str, list[SeenTask]](list), defaultdict[str, list[int]](list)
    for one in seen:
        known[one.key].append(one)
    for place, part in enumerate(parts):
        found[part.key].append(place)
    ids: dict[int, str] = {}
    for key, places in found.items():
        ids.update(_same_title(known[key], places, parts))
    return ids


def _same_title(
    known: list[SeenTask], places: list[int], parts: Sequence[SeenTask]
) -> Iterator[tuple[int, str]]:
    for is_done, was_done, signature in _ROUNDS:
        waiting = defaultdict[object, deque[SeenTask]](deque)
        for one in known:
            if one.done is was_done:
                waiting[signature(one)].append(one)
        taken = set[int]()
        for place in places:
            part = parts[place]
            like = signature(part)
            if part.done is is_done and like is not None and waiting[like]:
                yield place, waiting[like].popleft().id
                taken.add(place)
        left = {one.id for queue in waiting.values() for one in queue}
        known = [one for one in known if one.done is not was_done or one.id in left]
        places = [place for place in places if place not in taken]
    # With fewer than before, nothing tells which of them was removed.
    if len(known) <= len(places):
        yield from ((place, one.id) for place, one in zip(places, known, strict=False))


def _adopted(
    absent: Sequence[AbsentTask], parts: Sequence[SeenTask], ids: dict[int, str]
) -> set[str]:
    """Give tasks that are back in the text their ids; returns those ids."""
    waiting = defaultdict[tuple[str, str, str], list[str]](list)
    for one in absent:
        waiting[one.task.key, one.task.due, one.task.notes].append(one.task.id)
    adopted = set[str]()
    for place, part in enumerate(parts):
        back = waiting.get((part.key, part.due, part.notes))
        if place not in ids and back:
            ids[place] = back.pop(0)
            adopted.add(ids[place])
    return adopted


def _parts(task: Task) -> SeenTask:
    notes = f"{len(task.notes)} {_checksum(task.notes)}" if task.notes else ""
    return SeenTask("", _key(task.title), _written(task.due), notes, task.done)


def _written(due: date | None) -> str:
    return "" if due is None else due.isoformat()


def _key(title: str) -> str:
    """The same for two spellings of a title: capitals, spaces and forms of letters do not count."""
    return normalize("NFC", " ".join(normalize("NFKC", title).casefold().split()))


def _checksum(text: str) -> str:
    # To import hashlib takes a command half as long as Python itself.
    return f"{crc32(text.encode()):08x}"


class _NewIds:
    """Gives ids that are made of a title and a number, and not `used`."""

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._numbers = defaultdict[str, Iterator[int]](count)

    def of(self, key: str) -> str:
        numbered = (_checksum(f"{key}:{number}") for number in self._numbers[key])
        made = next(one for one in numbered if one not in self._used)
        self._used.add(made)
        return made

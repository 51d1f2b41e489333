"""Reads a line that adds something, by the rules that read a message of the owner.

What a message would be asked about is shown beside the line, so that a single way to read it needs
no question. The line never changes what is there: `cancel the gym` is a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from ollim_bot.kernel.values.phrases.moment import is_moment
from ollim_bot.kernel.values.wishes import without_frame
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.change_intents import task_intent
from ollim_bot.offline.intents import guessed_intent, schedule_intent
from ollim_bot.offline.vocabulary import AddTask, AmbiguousIntent, Change, Remind, RoutineWish

_LONGEST_LINE = 400
# The name of the way that makes a task of the line.
_AS_TASK = "task"
_TASK_MARK = "+"
_TOO_LONG = f"That is too long for one line: {_LONGEST_LINE} characters at most."
_DOUBTFUL = "Is that what you mean? Press it, or write the moment first."

Addition = Remind | RoutineWish | AddTask


class LineReading(NamedTuple):
    """One way to read a line; `name` is empty for the way that is meant."""

    name: str
    intent: Addition


class LineReadings(NamedTuple):
    """All ways to read a line; `problem` says why none of them is meant."""

    ways: tuple[LineReading, ...] = ()
    problem: str = ""


def read_line(line: str, now: datetime) -> LineReadings:
    """The ways to read a line without control characters."""
    if not line.strip(f" {_TASK_MARK}"):
        return LineReadings(problem="Write what to add, as in `call mum tomorrow 9am` or `+ milk`.")
    if len(line) > _LONGEST_LINE:
        return LineReadings(problem=_TOO_LONG)
    if line.startswith(_TASK_MARK):
        return _meant(_as_task(line.lstrip(f"{_TASK_MARK} "), now))
    told = line.rstrip(" ?")
    intent = schedule_intent(told, now)
    if isinstance(intent, Change) or vocabulary.changes_it(told):
        return _meant(AddTask(line))
    if not isinstance(intent, Addition | AmbiguousIntent):
        intent = guessed_intent(told, now)
    if isinstance(intent, AmbiguousIntent):
        return _asked(line, intent, now)
    if isinstance(intent, Addition):
        return _meant(intent)
    return _meant(_with_moment_at_an_end(told, now) or _as_task(line, now))


def _meant(intent: Addition) -> LineReadings:
    return LineReadings((LineReading("", intent),))


def _asked(line: str, asked: AmbiguousIntent, now: datetime) -> LineReadings:
    """The answers that a question about the line may get."""
    found, needs_yes = tuple(_answers(asked, now)), _needs_yes(asked)
    whole = None if found or not needs_yes else _with_moment_at_an_end(line, now)
    if whole is not None or (needs_yes and not _names_another_day(found)):
        return _meant(whole or found[0].intent)
    is_one_thing = asked.reason != texts.ONE_AT_A_TIME
    if is_one_thing and not found and not vocabulary.names_time(line):
        return _meant(_as_task(without_frame(line), now))
    has_task = not vocabulary.tells_time(line.split())
    task = LineReading(_AS_TASK, _as_task(without_frame(line), now))
    ways = (*found, task) if has_task else found
    problem = _DOUBTFUL if needs_yes else asked.reason.replace(f" {texts.NOTHING_DONE}", "")
    return LineReadings(ways, problem)


def _needs_yes(asked: AmbiguousIntent) -> bool:
    """Whether a message would only be asked for a yes."""
    choices = asked.follow_up.choices
    return len(choices) == 1 and asked.reason == texts.confirmed(choices[0][1])


def _answers(asked: AmbiguousIntent, now: datetime) -> Iterator[LineReading]:
    for label, sentence in asked.follow_up.choices:
        intent = schedule_intent(sentence, now)
        if isinstance(intent, Addition):
            yield LineReading(label, intent)


def _names_another_day(found: tuple[LineReading, ...]) -> bool:
    """Whether the words have a date, right or wrong, beside the moment; so has no way at all."""
    for _, intent in found:
        words = (intent.message if isinstance(intent, RoutineWish) else intent.task).split()
        pairs = (words[place : place + 2] for place in range(len(words) - 1))
        if any(map(vocabulary.tells_date, pairs)) or vocabulary.misspelled_day(words) is not None:
            return True
    return not found


def _with_moment_at_an_end(line: str, now: datetime) -> Remind | None:
    """`/clear tomorrow 9am`: the longest moment in front, or else behind."""
    words = line.split()
    fronts = ((words[:end], words[end:], end) for end in range(len(words) - 1, 0, -1))
    backs = ((words[start:], words[:start], start - 1) for start in range(1, len(words)))
    for moment, rest, beside in (*fronts, *backs):
        when, task = " ".join(moment).rstrip(",:"), " ".join(rest).rstrip(",:")
        is_whole = not vocabulary.is_left_of_time(words[beside]) and not vocabulary.names_time(task)
        if is_whole and is_moment(when, now):
            return Remind(task, when)
    return None


def _as_task(words: str, now: datetime) -> AddTask:
    intent = task_intent(f"add a task: {words}", now)
    return intent if isinstance(intent, AddTask) else AddTask(words)

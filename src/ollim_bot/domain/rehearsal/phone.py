"""How many messages a rehearsed schedule would send to the owner's phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.digest import OF_DIGEST
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.push import KEPT_FOR_MUST, PER_DAY, is_pushed
from ollim_bot.domain.rehearsal.fires import Fire, Ping
from ollim_bot.domain.rehearsal.simulation import Rehearsal
from ollim_bot.domain.runtime_config import PushWhat
from ollim_bot.domain.schedule import ScheduledJob, key_of, occurrence_at

_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class PushDay:
    """A day of the phone's server, which counts by the clock of UTC; `first` is its first message.

    `total` counts the messages with those that take a card off the phone again, and `must` those
    that must come. `missing` would not come there: it takes no more of them on that day. `jobs`
    counts the messages of each job.
    """

    day: date
    first: datetime
    total: int = 0
    must: int = 0
    missing: int = 0
    jobs: Counter[JobKey] = field(default_factory=Counter)

    def add(self, job: ScheduledJob, *, is_clear: bool) -> None:
        """Play one message. What takes a card off is left out where there is no room for it."""
        must = job.must and not is_clear
        is_full = self.total - self.missing >= (PER_DAY if must else PER_DAY - KEPT_FOR_MUST)
        if is_clear and is_full:
            return
        self.total += 1
        self.must += must
        self.missing += is_full
        self.jobs[key_of(job)] += 1


class _Pushed(NamedTuple):
    """A message at one moment; a card is taken off again."""

    at: datetime
    job: ScheduledJob
    is_card: bool = False


def push_days(rehearsal: Rehearsal) -> Sequence[PushDay]:
    """The days on which the phone would get something; none if no phone is paired.

    Each card is taken to come as often as it can.
    """
    if rehearsal.pushes is None:
        return ()
    days: dict[date, PushDay] = {}
    pushed = _pushed(rehearsal.fires, rehearsal.pushes, rehearsal.guess.run)
    for at, job, is_card in sorted(pushed, key=lambda each: each.at):
        day = days.setdefault(at.date(), PushDay(at.date(), at))
        day.add(job, is_clear=False)
        if is_card:
            day.add(job, is_clear=True)
    return [*days.values()]


def _pushed(fires: Iterable[Fire], what: PushWhat, length: timedelta) -> Iterator[_Pushed]:
    rules: dict[int, _Rule] = {}
    digests: set[datetime] = set()
    for fire in fires:
        job = fire.job
        rule = rules.get(id(job)) or rules.setdefault(id(job), _Rule.of(job, what))
        if rule.heads_up:
            yield from (_Pushed(at, job) for at in fire.heads_ups)
        if fire.ping is Ping.HELD and fire.quiet_until is not None and not fire.is_held_turn:
            end = fire.quiet_until.astimezone(UTC)
            if rule.digest and end not in digests:
                digests.add(end)
                yield _Pushed(end, job)
            continue
        at, is_sent = fire.starts or fire.at, fire.ping in (Ping.SENT, Ping.ORDERED)
        is_said = fire.starts is not None and (is_sent or not job.spec.background)
        if rule.said and is_said:
            yield _Pushed(at + length, job)
        if rule.card and is_sent:
            yield from (_Pushed(moment, job, is_card=True) for moment in (at, *fire.again))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which messages of a job ring: its cards, its pings or answers, its heads-ups, a digest."""

    card: bool
    said: bool
    heads_up: bool
    digest: bool

    @classmethod
    def of(cls, job: ScheduledJob, what: PushWhat) -> _Rule:
        is_turn = not (job.spec.background or job.spec.plain)
        moment = occurrence_at(job, _SOME_DAY)

        def rings(occurrence: str, author: Author, name: str = "", *, card: bool = False) -> bool:
            sample = ChatMessage(
                MessageId(name),
                _SOME_DAY,
                author,
                "",
                card=Card("") if card else None,
                job=job.spec.short_title,
                occurrence=occurrence,
                must=job.must and bool(occurrence),
            )
            return is_pushed(sample, what)

        author = Author.ASSISTANT if is_turn else Author.BACKGROUND
        return cls(
            card=job.asks and rings(moment.id, Author.BACKGROUND, card=True),
            said=(is_turn or not job.asks) and rings("", author),
            heads_up=rings(moment.before(timedelta(minutes=1)).id, Author.BACKGROUND),
            digest=rings("", Author.BACKGROUND, OF_DIGEST),
        )

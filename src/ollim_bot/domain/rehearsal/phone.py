"""How many messages a rehearsed schedule would send to the owner's phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.digest import OF_DIGEST
from ollim_bot.domain.push import KEPT_FOR_MUST, PER_DAY, is_pushed
from ollim_bot.domain.rehearsal.fires import Fire, Ping
from ollim_bot.domain.rehearsal.simulation import Rehearsal
from ollim_bot.domain.runtime_config import PushWhat
from ollim_bot.domain.schedule import JobKey, ScheduledJob, key_of, occurrence_at

_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class PushDay:
    """A day of the phone's server, which counts by the clock of UTC. `first` is its first message.

    `jobs` counts the messages of each job; `must` and `others` are how many there are.
    """

    day: date
    first: datetime
    must: int = 0
    others: int = 0
    jobs: Counter[JobKey] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.must + self.others

    @property
    def is_too_much(self) -> bool:
        """Whether a message would have to wait for the next day."""
        if self.total > PER_DAY:
            return True
        return self.others > 0 and self.total > PER_DAY - KEPT_FOR_MUST


class _Pushed(NamedTuple):
    """So many messages at one moment, of this job."""

    at: datetime
    job: ScheduledJob
    messages: int


def push_days(rehearsal: Rehearsal) -> Sequence[PushDay]:
    """The days on which the phone would get something; none if no phone is paired.

    Each card is taken to come as often as it can, and to be cleared each time.
    """
    if rehearsal.pushes is None:
        return ()
    days: dict[date, PushDay] = {}
    pushed = _pushed(rehearsal.fires, rehearsal.pushes, rehearsal.guess.run)
    for at, job, messages in sorted(pushed, key=lambda each: each.at):
        day = days.setdefault(at.date(), PushDay(at.date(), at))
        day.must += messages if job.must else 0
        day.others += 0 if job.must else messages
        day.jobs[key_of(job)] += messages
    return [*days.values()]


def _pushed(fires: Iterable[Fire], what: PushWhat, length: timedelta) -> Iterator[_Pushed]:
    rules: dict[int, _Rule] = {}
    digests: set[datetime] = set()
    for fire in fires:
        job = fire.job
        rule = rules.get(id(job)) or rules.setdefault(id(job), _Rule.of(job, what))
        if rule.heads_up:
            yield from (_Pushed(at, job, 1) for at in fire.heads_ups)
        if fire.ping is Ping.HELD and fire.quiet_until is not None and not fire.is_held_turn:
            end = fire.quiet_until.astimezone(UTC)
            # The digest is one message, and shows again what was answered in it.
            messages = rule.card // 2 + (end not in digests)
            digests.add(end)
            if rule.digest:
                yield _Pushed(end, job, messages)
            continue
        if messages := rule.of_fire(fire):
            yield _Pushed((fire.starts or fire.at) + length, job, messages)
        if rule.card and fire.ping is not Ping.NONE:
            yield from (_Pushed(at, job, rule.card) for at in fire.again)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How many messages of a job ring: a card is sent and cleared, an answer or a ping sent."""

    card: int
    said: int
    heads_up: int
    digest: bool

    @classmethod
    def of(cls, job: ScheduledJob, what: PushWhat) -> _Rule:
        now = _SOME_DAY
        is_turn = not (job.spec.background or job.spec.plain)
        moment = occurrence_at(job, now)

        def rings(author: Author, name: str = "", **more: object) -> int:
            title = job.spec.short_title
            sample = ChatMessage(MessageId(name), now, author, "", job=title, **more)  # type: ignore[arg-type]
            return int(is_pushed(sample, what))

        author = Author.ASSISTANT if is_turn else Author.BACKGROUND
        occurrence = "" if is_turn else moment.id
        early = moment.before(timedelta(minutes=1)).id
        is_card = rings(Author.BACKGROUND, card=Card(""), occurrence=moment.id, must=job.must)
        return cls(
            card=2 * is_card if job.asks else 0,
            said=rings(author, occurrence=occurrence) if is_turn or not job.asks else 0,
            heads_up=rings(Author.BACKGROUND, occurrence=early, must=job.must),
            digest=bool(rings(Author.BACKGROUND, OF_DIGEST)),
        )

    def of_fire(self, fire: Fire) -> int:
        """The messages with which the moment itself comes."""
        is_asked = fire.ping in (Ping.SENT, Ping.ORDERED)
        is_said = fire.starts is not None and (is_asked or not fire.job.spec.background)
        return self.card * is_asked + self.said * is_said

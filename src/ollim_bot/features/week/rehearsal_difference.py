"""What a change of one job would do to the coming week, as a value and in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from heapq import merge

from ollim_bot.features.week.rehearsal_findings import Finding, FindingKind, findings
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import clock_time, short_day
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.costs import PastCosts
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of
from ollim_bot.kernel.values.simulation import (
    DAYS,
    MOST_FIRES,
    Assumptions,
    Fire,
    Ping,
    Rehearsal,
    Simulation,
    by_timing,
    coming,
    rehearse,
)
from ollim_bot.kernel.values.usage import dollars

NOTHING_CHANGES = "Changes nothing in the coming week."

# One finding of these kinds is as good as another, whatever its jobs.
_OF_ALL = (FindingKind.BUDGET, FindingKind.PHONE, FindingKind.WAITING, FindingKind.TOGETHER)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many moments of one kind a change adds and removes.

    `in_quiet` is how many more of them come in the quiet, and `held` how many more wait for its
    end.
    """

    added: int
    removed: int
    in_quiet: int
    held: int

    def in_words(self, noun: str) -> Iterator[str]:
        """`adds 7 pings in the coming week`, `2 more in your quiet hours`."""
        net, moved = self.added - self.removed, min(self.added, self.removed)
        if net:
            also = f" and moves {moved}" if moved else ""
            verb, place = ("adds", "in") if net > 0 else ("removes", "from")
            yield f"{verb} {_nouns(abs(net), noun)} {place} the coming week{also}"
        elif moved:
            yield f"moves {_nouns(moved, noun)} in the coming week"
        for number, words in (
            (self.in_quiet, IN_QUIET_HOURS),
            (self.held, "waiting until your quiet hours end"),
        ):
            if number:
                yield f"{_more(number)} {words}"


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes within the coming week, between two rehearsals.

    `turns` are those of the conversation, and `silent` the background runs that cannot ping, or
    are refused it. `again` is how many more times it comes at most while the owner does not answer.
    `micros` is what more it costs, in millionths of a dollar; None if that is not known. `refused`
    is how many more pings of any job are refused. `used_up` are the moments at which the ping
    budget is used up on days on which it was not, and `no_longer_used_up` those of days on which it
    was.
    """

    pings: Traffic
    turns: Traffic
    silent: Traffic
    heads_ups: int
    again: int
    micros: int | None
    is_included: bool
    refused: int
    used_up: tuple[datetime, ...]
    no_longer_used_up: tuple[datetime, ...]
    appeared: tuple[Finding, ...]
    vanished: tuple[Finding, ...]

    def in_words(self) -> str:
        """`Adds 7 pings in the coming week, 2 more in your quiet hours; about $0.40.`"""
        kinds = (self.pings, "ping"), (self.turns, "turn"), (self.silent, "silent run")
        parts = [", ".join(traffic.in_words(noun)) for traffic, noun in kinds]
        first = "; ".join(filter(None, [*parts, *self._further()]))
        sentences = [f"{first[0].upper()}{first[1:]}."] if first else []
        # The budget has its own words.
        found = [*_sentences(self.appeared)]
        found += [f"No longer so: {sentence}" for sentence in _sentences(self.vanished)]
        return " ".join([*sentences, *found[:3]]) or NOTHING_CHANGES

    def _further(self) -> Iterator[str]:
        if self.heads_ups:
            yield _more(self.heads_ups, "heads-up")
        if self.again:
            yield f"comes up to {_more(self.again, 'time')} if you do not answer"
        if self.micros:
            amount = abs(dollars(self.micros))
            words = "under $0.01" if amount < 0.01 else f"about ${amount:.2f}"
            less = " less" if self.micros < 0 else ""
            yield f"{words}{less}{' at list price, included' if self.is_included else ''}"
        yield from self._budget()

    def _budget(self) -> Iterator[str]:
        if self.used_up:
            yield f"the budget is used up {_days(self.used_up)}"
        if self.no_longer_used_up:
            yield f"the budget is no longer used up {_days(self.no_longer_used_up)}"
        if self.refused and not (self.used_up or self.no_longer_used_up):
            yield f"the budget refuses {_more(self.refused, 'ping')}"


@dataclass(frozen=True, slots=True)
class RehearsedSide:
    """A rehearsal with its findings, and the job in question as it is there; None if it is not."""

    rehearsal: Rehearsal
    findings: Sequence[Finding]
    job: ScheduledJob | None


def difference(before: RehearsedSide, after: RehearsedSide, costs: PastCosts) -> Difference:
    """What is other in `after`. Fires that both rehearsals share are known to be the same."""
    keys = {key_of(side.job) for side in (before, after) if side.job is not None}
    old = _unshared(before.rehearsal, after.rehearsal)
    new = _unshared(after.rehearsal, before.rehearsal)
    ids = {key.id for key in keys}
    own_old, own_new = (
        [fire for fire in fires if fire.job.spec.id in ids and key_of(fire.job) in keys]
        for fires in (old, new)
    )

    def more(number: Callable[[Fire], int], fires: Iterable[Fire], others: Iterable[Fire]) -> int:
        return sum(map(number, fires)) - sum(map(number, others))

    def traffic(kind: str) -> Traffic:
        was, is_now = (
            {fire.at: fire for fire in own if _kind(fire) == kind} for own in (own_old, own_new)
        )
        both = is_now.values(), was.values()
        held = more(lambda fire: fire.ping is Ping.HELD, *both)
        in_quiet = more(lambda fire: fire.quiet_until is not None, *both) - held
        return Traffic(len(is_now.keys() - was), len(was.keys() - is_now), in_quiet, held)

    dry_old, dry_new = _dry(before.rehearsal), _dry(after.rehearsal)
    return Difference(
        pings=traffic("ping"),
        turns=traffic("turn"),
        silent=traffic("silent run"),
        heads_ups=more(lambda fire: len(fire.heads_ups), own_new, own_old),
        again=more(lambda fire: len(fire.again), own_new, own_old),
        micros=_cost(old, new, costs),
        is_included=costs.is_included,
        refused=more(lambda fire: fire.ping is Ping.REFUSED, new, old),
        used_up=tuple(at for day, at in dry_new.items() if day not in dry_old),
        no_longer_used_up=tuple(at for day, at in dry_old.items() if day not in dry_new),
        appeared=_missing(after.findings, before.findings, keys),
        vanished=_missing(before.findings, after.findings, keys),
    )


def _unshared(rehearsal: Rehearsal, other: Rehearsal) -> list[Fire]:
    known = {id(fire) for fire in other.fires}
    return [fire for fire in rehearsal.fires if id(fire) not in known]


def _kind(fire: Fire) -> str:
    """`ping`, `turn` or `silent run`; empty if the owner notices nothing and nothing is run."""
    if fire.ping in (Ping.SENT, Ping.ORDERED) or (fire.ping is Ping.HELD and not fire.is_held_turn):
        return "ping"
    if fire.starts is None:
        return ""
    if fire.job.spec.background:
        return "silent run"
    return "" if fire.job.spec.plain or fire.ping is Ping.REFUSED else "turn"


def _dry(rehearsal: Rehearsal) -> dict[date, datetime]:
    """The first moment of each day, in the owner's zone, at which a ping is refused."""
    found: dict[date, datetime] = {}
    for fire in rehearsal.fires:
        if fire.ping is Ping.REFUSED:
            at = fire.due.astimezone(rehearsal.zone)
            found.setdefault(at.date(), at)
    return found


def _cost(before: Sequence[Fire], after: Sequence[Fire], costs: PastCosts) -> int | None:
    """None if something is run more or less often whose cost is not known."""
    runs: Counter[tuple[object, ...]] = Counter()
    jobs: dict[tuple[object, ...], ScheduledJob] = {}
    for sign, fires in ((-1, before), (1, after)):
        for fire in fires:
            if fire.starts is not None and fire.state is OccurrenceState.DONE:
                spec = fire.job.spec
                like = key_of(fire.job), spec.background, spec.model, spec.plain
                runs[like] += sign
                jobs[like] = fire.job
    total = 0
    for kind, times in runs.items():
        usual = costs.usual(jobs[kind]) if times else 0
        if usual is None:
            return None
        total += times * usual
    return total


def _missing(
    these: Sequence[Finding], others: Sequence[Finding], keys: set[JobKey]
) -> tuple[Finding, ...]:
    """The findings that the others lack; jobs that meet count only with the job in question."""

    def topic(finding: Finding) -> tuple[FindingKind, tuple[JobKey, ...]]:
        return finding.kind, () if finding.kind in _OF_ALL else finding.jobs

    def counts(finding: Finding) -> bool:
        return finding.kind is not FindingKind.TOGETHER or bool(keys & {*finding.jobs})

    known = {*map(topic, filter(counts, others))}
    return tuple(each for each in filter(counts, these) if topic(each) not in known)


def _sentences(findings: Sequence[Finding]) -> Iterator[str]:
    return (each.sentence for each in findings if each.kind is not FindingKind.BUDGET)


def _nouns(number: int, noun: str) -> str:
    return f"{counted(number, noun)}{' in the conversation' if noun == 'turn' else ''}"


def _more(number: int, noun: str = "") -> str:
    """`2 more`, `1 ping fewer`."""
    words = counted(abs(number), noun) if noun else str(abs(number))
    return f"{words} {'more' if number > 0 else 'fewer'}"


def _days(moments: Sequence[datetime]) -> str:
    """`on Fri 20 Nov at 15:00`, `on 3 days, first Fri 20 Nov at 15:00`."""
    first = moments[0]
    several = f"{len(moments)} days, first " if len(moments) > 1 else ""
    return f"on {several}{short_day(first)} at {clock_time(first)}"


@dataclass(frozen=True, slots=True)
class RehearsedWeek:
    """The coming week of a bot that runs, and so has missed nothing."""

    jobs: dict[JobKey, ScheduledJob]
    given: Assumptions
    rehearsal: Rehearsal
    findings: Sequence[Finding]

    @property
    def now(self) -> datetime:
        return self.rehearsal.now

    def replanned(self, before: JobKey | None, after: ScheduledJob | None) -> Rehearsal:
        """The week with `after` in place of the job `before`, as `rehearse` would give it.

        It has no `budgets`. A text that is sent as written takes no run and no token: it changes
        nothing of other jobs, and none of them changes it.
        """
        new = [] if after is None else [after]
        keys = {before, *map(key_of, new)}
        gone = [*new, *(job for key, job in self.jobs.items() if key in keys)]
        gone_ids, touches_others = {*map(id, gone)}, not all(job.spec.plain for job in gone)
        kept: list[Fire] = []
        again: list[Fire] = []
        for fire in self.rehearsal.fires:
            if id(fire.job) not in gone_ids:
                is_free = fire.job.spec.plain or not touches_others
                (kept if is_free else again).append(fire)
        start, end = (each.astimezone(UTC) for each in (self.now, self.rehearsal.until))
        alike = by_timing((job for job in new if job.spec.enabled), self.given.zone)
        added = [*coming(alike, start, end, self.given.zone)]
        if not self.rehearsal.is_whole or len(kept) + len(again) + len(added) > MOST_FIRES:
            others = [job for key, job in self.jobs.items() if key not in keys]
            return replace(rehearse([*others, *new], self.given, DAYS), budgets=())
        copies = [Fire(fire.job, fire.due, fire.at) for fire in again]
        played = [*merge(copies, added, key=_order)]
        Simulation(self.given, self.rehearsal.length, end).play(played)
        fires = tuple(merge(kept, played, key=_order))
        return replace(self.rehearsal, fires=fires, budgets=())

    def difference(
        self, before: ScheduledJob | None, after: ScheduledJob | None, costs: PastCosts
    ) -> Difference:
        """What `after` in place of `before` changes; None is a job that is not there."""
        rehearsal = self.replanned(None if before is None else key_of(before), after)
        keys = {key_of(job) for job in (before, after) if job is not None}
        return difference(
            RehearsedSide(self.rehearsal, self.findings, before),
            RehearsedSide(rehearsal, findings(rehearsal, keys), after),
            costs,
        )


def rehearse_week(jobs: Iterable[ScheduledJob], given: Assumptions) -> RehearsedWeek:
    """Rehearse the coming week of a bot that runs."""
    by_key = {key_of(job): job for job in jobs}
    given = replace(given, watched_until=None)
    rehearsal = rehearse(by_key.values(), given, DAYS)
    return RehearsedWeek(by_key, given, rehearsal, findings(rehearsal))


def _order(fire: Fire) -> tuple[datetime, JobKey]:
    return fire.due, key_of(fire.job)

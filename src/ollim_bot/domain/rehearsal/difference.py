"""What a change of one job would do to the coming week, as a value and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ollim_bot.domain.costs import PastCosts
from ollim_bot.domain.job_kinds import JobKey
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.domain.rehearsal.findings import Finding, FindingKind
from ollim_bot.domain.rehearsal.fires import Fire, Ping
from ollim_bot.domain.rehearsal.simulation import Rehearsal
from ollim_bot.domain.schedule import ScheduledJob, key_of, moments_between

_WEEK = timedelta(days=7)
# So many moments of a job show whether every week is like the coming one.
_ENOUGH = 200
# The kinds of which a rehearsal has one finding at most, about all jobs.
_OF_ALL = (FindingKind.BUDGET, FindingKind.PHONE, FindingKind.WAITING)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many moments of one kind a change adds and removes.

    `in_quiet` is how many more of them come in the quiet, and `held` how many more wait for its
    end.
    """

    added: int = 0
    removed: int = 0
    in_quiet: int = 0
    held: int = 0

    @property
    def net(self) -> int:
        return self.added - self.removed


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes within the coming week, between two rehearsals.

    `turns` are those of the conversation, and `silent` the background runs that cannot ping, or
    are refused it. `again` is how many more times it comes at most while the owner does not answer.
    `micros` is what more it costs, in millionths of a dollar; None if that is not known. `refused`
    is how many more pings of any job are refused. `used_up` are the moments at which the ping
    budget is used up on days on which it was not, and `no_longer_used_up` those of days on which it
    was. With `is_weekly`, the week after is like the coming one.
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
    is_weekly: bool


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
    dry_old, dry_new = _dry(before.rehearsal), _dry(after.rehearsal)
    return Difference(
        pings=_traffic(filter(_is_ping, own_old), filter(_is_ping, own_new)),
        turns=_traffic(filter(_is_turn, own_old), filter(_is_turn, own_new)),
        silent=_traffic(filter(_is_silent, own_old), filter(_is_silent, own_new)),
        heads_ups=_total(own_new, "heads_ups") - _total(own_old, "heads_ups"),
        again=_total(own_new, "again") - _total(own_old, "again"),
        micros=_cost(old, new, costs),
        is_included=costs.is_included,
        refused=_refused(new) - _refused(old),
        used_up=tuple(at for day, at in dry_new.items() if day not in dry_old),
        no_longer_used_up=tuple(at for day, at in dry_old.items() if day not in dry_new),
        appeared=_missing(after.findings, before.findings, keys),
        vanished=_missing(before.findings, after.findings, keys),
        is_weekly=all(_is_weekly(side) for side in (before, after)),
    )


def _unshared(rehearsal: Rehearsal, other: Rehearsal) -> list[Fire]:
    known = {id(fire) for fire in other.fires}
    return [fire for fire in rehearsal.fires if id(fire) not in known]


def _is_ping(fire: Fire) -> bool:
    if fire.ping is Ping.HELD:
        return not fire.is_held_turn
    return fire.ping in (Ping.SENT, Ping.ORDERED)


def _is_turn(fire: Fire) -> bool:
    is_turn = fire.starts is not None and not (fire.job.spec.background or fire.job.spec.plain)
    return is_turn and fire.ping in (Ping.NONE, Ping.HELD)


def _is_silent(fire: Fire) -> bool:
    is_silent = fire.ping in (Ping.NONE, Ping.REFUSED)
    return fire.starts is not None and fire.job.spec.background and is_silent


def _traffic(before: Iterable[Fire], after: Iterable[Fire]) -> Traffic:
    old, new = ({fire.at: fire for fire in fires} for fires in (before, after))
    return Traffic(
        added=len(new.keys() - old.keys()),
        removed=len(old.keys() - new.keys()),
        in_quiet=_in_quiet(new) - _in_quiet(old),
        held=_held(new) - _held(old),
    )


def _in_quiet(fires: Mapping[datetime, Fire]) -> int:
    return sum(fire.quiet_until is not None for fire in fires.values()) - _held(fires)


def _held(fires: Mapping[datetime, Fire]) -> int:
    return sum(fire.ping is Ping.HELD for fire in fires.values())


def _total(fires: Sequence[Fire], field: str) -> int:
    return sum(len(getattr(fire, field)) for fire in fires)


def _refused(fires: Sequence[Fire]) -> int:
    return sum(fire.ping is Ping.REFUSED for fire in fires)


def _dry(rehearsal: Rehearsal) -> dict[object, datetime]:
    """The first moment of each day, in the owner's zone, at which a ping is refused."""
    found: dict[object, datetime] = {}
    refused = Ping.REFUSED
    for fire in [fire for fire in rehearsal.fires if fire.ping is refused]:
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
    usual = [(times, costs.usual(jobs[like])) for like, times in runs.items() if times]
    if any(cost is None for _, cost in usual):
        return None
    return sum(times * (cost or 0) for times, cost in usual)


def _missing(
    these: Sequence[Finding], others: Sequence[Finding], keys: set[JobKey]
) -> tuple[Finding, ...]:
    """The findings that the others lack; jobs that meet count only with the job in question."""
    known = {*map(_topic, others)}
    has_met = any(_is_meeting(finding, keys) for finding in others)
    return tuple(
        finding
        for finding in these
        if (
            not has_met and _is_meeting(finding, keys)
            if finding.kind is FindingKind.TOGETHER
            else _topic(finding) not in known
        )
    )


def _topic(finding: Finding) -> tuple[FindingKind, tuple[JobKey, ...]]:
    return finding.kind, () if finding.kind in _OF_ALL else finding.jobs


def _is_meeting(finding: Finding, keys: set[JobKey]) -> bool:
    return finding.kind is FindingKind.TOGETHER and bool(keys & {*finding.jobs})


def _is_weekly(side: RehearsedSide) -> bool:
    """Whether the first moments of the job are a week later the same, by its clock."""
    job, rehearsal = side.job, side.rehearsal
    if job is None or not job.spec.enabled:
        return True
    if job.follows_answers:
        return False
    zone, start = job.spec.zone(rehearsal.zone), rehearsal.now.astimezone(UTC)
    this, following = (_walls(job, begin, zone) for begin in (start, start + _WEEK))
    return [wall + _WEEK for wall in this] == following


def _walls(job: ScheduledJob, start: datetime, zone: tzinfo) -> list[datetime]:
    found = moments_between(job, start, start + _WEEK, zone, limit=_ENOUGH)
    return [moment.astimezone(zone).replace(tzinfo=None) for moment in found]

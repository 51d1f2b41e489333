"""Says in plain words what a change of one job would do to the coming week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.domain.cron import joined
from ollim_bot.domain.moments import MONTHS, WEEKDAYS, clock_time
from ollim_bot.domain.quiet import IN_QUIET_HOURS
from ollim_bot.domain.rehearsal.difference import Difference, Traffic
from ollim_bot.domain.rehearsal.findings import Finding, FindingKind
from ollim_bot.domain.text import counted
from ollim_bot.domain.usage import dollars

NOTHING_CHANGES = "Changes nothing in the coming week."

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WAITING = "waiting until your quiet hours end"
_MOST_TIMES = 2
_MOST_FINDINGS = 3
_ONE_CENT = 0.01


def in_words(difference: Difference) -> str:
    """`Adds 7 pings a week, two of them in your quiet hours; about $0.40.`, and what it causes."""
    told = (_moments, _further, _money, _budget)
    parts = [words for tell in told for words in tell(difference)]
    first = "; ".join(parts)
    sentences = [f"{first[0].upper()}{first[1:]}."] if parts else []
    # What else appears, and what vanishes; the budget has its own words.
    found = [*_others(difference.appeared)]
    found += [f"No longer so: {sentence}" for sentence in _others(difference.vanished)]
    return " ".join([*sentences, *found[:_MOST_FINDINGS]]) or NOTHING_CHANGES


def _moments(difference: Difference) -> Iterator[str]:
    for traffic, noun in (
        (difference.pings, "ping"),
        (difference.turns, "turn"),
        (difference.silent, "silent run"),
    ):
        words = _changed(traffic, noun, difference)
        quiet = [*_quiet(traffic, noun, is_named=not words)] if noun != "silent run" else []
        if words or quiet:
            yield ", ".join(filter(None, [words, *quiet]))


def _changed(traffic: Traffic, noun: str, difference: Difference) -> str:
    """`adds 7 pings a week`, `removes 1 turn in the conversation from the coming week`."""
    place = " in the conversation" if noun == "turn" else ""
    moved = min(traffic.added, traffic.removed)
    number, net = abs(traffic.net) or moved, traffic.net
    if not number:
        return ""
    verb = "adds" if net > 0 else "removes" if net < 0 else "moves"
    when = "from the coming week" if net < 0 else "in the coming week"
    often = "a week" if difference.is_weekly else when
    also = f" and moves {moved}" if net and moved else ""
    return f"{verb} {counted(number, noun)}{place} {often}{also}"


def _quiet(traffic: Traffic, noun: str, *, is_named: bool) -> Iterator[str]:
    """`two of them in your quiet hours`, or `two more pings in your quiet hours`."""
    is_pure = not (traffic.added and traffic.removed) and not is_named
    for number, words in ((traffic.in_quiet, IN_QUIET_HOURS), (traffic.held, _WAITING)):
        if not number:
            continue
        name = f" {noun}{'' if abs(number) == 1 else 's'}" if is_named else ""
        if is_pure and (number > 0) == (traffic.net > 0):
            yield f"{_of_them(abs(number), abs(traffic.net))}{words}"
        else:
            yield f"{_number(number)} {'more' if number > 0 else 'fewer'}{name} {words}"


def _further(difference: Difference) -> Iterator[str]:
    if difference.heads_ups:
        yield f"{counted(abs(difference.heads_ups), 'heads-up')} {_more(difference.heads_ups)}"
    if difference.again:
        yield (
            f"comes up to {counted(abs(difference.again), 'time')} {_more(difference.again)} "
            "if you do not answer"
        )


def _money(difference: Difference) -> Iterator[str]:
    if not difference.micros:
        return
    amount = abs(dollars(difference.micros))
    words = "under $0.01" if amount < _ONE_CENT else f"about ${amount:.2f}"
    less = " less" if difference.micros < 0 else ""
    included = " at list price, included" if difference.is_included else ""
    yield f"{words}{less}{included}"


def _budget(difference: Difference) -> Iterator[str]:
    if difference.used_up:
        yield f"the budget is used up {_days(difference.used_up, difference)}"
    if difference.no_longer_used_up:
        when = _days(difference.no_longer_used_up, difference)
        yield f"the budget is no longer used up {when}"
    if difference.refused and not (difference.used_up or difference.no_longer_used_up):
        pings = counted(abs(difference.refused), "ping")
        yield f"the budget refuses {pings} {_more(difference.refused)}"


def _days(moments: Sequence[datetime], difference: Difference) -> str:
    """`on Fridays at 15:00`, `on Fri 20 Nov at 15:00`, `every day at 15:00`."""
    by_time: dict[str, list[datetime]] = {}
    for moment in moments:
        by_time.setdefault(clock_time(moment), []).append(moment)
    if len(by_time) > _MOST_TIMES:
        days = len({moment.date() for moment in moments})
        return f"on {days} days, first {_day(moments[0])} at {clock_time(moments[0])}"
    return " and ".join(
        f"{_days_at_one_time(found, difference)} at {time}" for time, found in by_time.items()
    )


def _days_at_one_time(moments: Sequence[datetime], difference: Difference) -> str:
    weekdays = sorted({moment.weekday() for moment in moments})
    if len(weekdays) == len(_DAYS):
        return "every day"
    if difference.is_weekly:
        return f"on {joined(f'{_DAYS[day]}s' for day in weekdays)}"
    return f"on {joined(map(_day, moments))}"


def _day(moment: datetime) -> str:
    return f"{WEEKDAYS[moment.weekday()]} {moment.day} {MONTHS[moment.month - 1]}"


def _others(findings: Sequence[Finding]) -> Iterator[str]:
    return (each.sentence for each in findings if each.kind is not FindingKind.BUDGET)


def _of_them(number: int, total: int) -> str:
    if number == total:
        return "" if total == 1 else "all of them "
    return f"{_number(number)} of them "


def _number(number: int) -> str:
    return _NUMBERS[abs(number)] if abs(number) < len(_NUMBERS) else str(abs(number))


def _more(number: int) -> str:
    return "more" if number > 0 else "fewer"

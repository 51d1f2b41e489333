"""Health on the page: what an examination found, and the ways to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Protocol

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.moments import describe, duration_in_words, elapsed
from ollim_bot.kernel.base.settings import channel_label
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.upkeep.findings import DoctorFinding, Repair
from ollim_bot.kernel.values.views import ActingView, HealthLine, HealthReport, ViewAnswer, WayOut
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    fold,
    joined_parts,
    list_section,
    marked,
    section,
    things,
)


class Examiner(Protocol):
    """The doctor of the running bot. Both methods block."""

    def examine(self) -> Sequence[DoctorFinding]: ...

    def mend(self, findings: Sequence[DoctorFinding], /) -> Sequence[Repair]: ...


@dataclass(eq=False)
class HealthPage(ActingView[HealthReport]):
    """An `ActingView`. The actions are `look` and `fix` (`name` of a part).

    An examination runs while `changes` is followed; the first look asks for the first one.
    """

    _store: Store
    _clock: Clock
    _channels: Sequence[str]
    _doctor: Examiner
    _found: Sequence[DoctorFinding] = field(default=(), init=False)
    _looked: datetime | None = field(default=None, init=False)
    _is_wanted: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def look(self, _: Mapping[str, str]) -> HealthReport:
        if self._looked is None:
            self._is_wanted.set()
        ways, pending = await self._store.read(self._read)
        return HealthReport(
            self._clock.now(),
            [
                HealthLine(each.level, each.name, each.detail, each.next, each.mend is not None)
                for each in self._found
            ],
            self._looked,
            self._is_wanted.is_set(),
            ways,
            pending,
        )

    async def changes(self) -> AsyncIterator[None]:
        while True:
            await self._is_wanted.wait()
            yield
            self._found = await asyncio.to_thread(self._doctor.examine)
            self._looked = self._clock.now()
            self._is_wanted.clear()
            yield

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == "look":
            self._is_wanted.set()
            return ViewAnswer("Looking.")
        chosen = [each for each in self._found if each.name == fields.get("name") and each.mend]
        if action != "fix" or not chosen:
            return ViewAnswer("There is nothing to mend there. Look again.", is_error=True)
        repairs = await asyncio.to_thread(self._doctor.mend, chosen)
        self._is_wanted.set()
        told = " ".join(f"{each.name}: {each.what}." for each in repairs)
        return ViewAnswer(told or "There was nothing left to mend.")

    def _read(self, tx: Transaction) -> tuple[list[WayOut], int]:
        ways = [
            WayOut(
                channel_label(name),
                tx.deliveries.newest_confirmed(name),
                tx.deliveries.count_open(name),
            )
            for name in self._channels
            if tx.channels.is_joined(name)
        ]
        return ways, len(tx.updates.get().entries)


# State is never told by colour alone.
_WORDS = {"PASS": "right", "OFF": "off", "WARN": "look at this", "FAIL": "wrong"}


@joined_parts
def health_html(report: HealthReport, _: int) -> Iterator[str]:
    """What is wrong, with the next step or a button that takes it; then what is right."""
    yield f"<h2>Health</h2>{_head(report)}"
    wrong, right = list[str](), list[str]()
    for each in report.lines:
        (right if each.is_right else wrong).append(_line(each))
    yield list_section("health-wrong", "What to do", wrong)
    if 0 < len(right) == len(report.lines):
        yield "<p>All is well.</p>"
    ways = [_way(each, report) for each in report.ways]
    if report.pending_updates:
        told = counted(report.pending_updates, "update")
        ways.append(f"<li>{told} for the agent, told with its next turn</li>")
    if ways:
        yield section("health-ways", "Ways to you", f"<ul>{''.join(ways)}</ul>")
    if right:
        yield fold("right", f"Right · {len(right)}", things(right))


def _head(report: HealthReport) -> str:
    button = '<button type="button" class="plain" data-action="look">Look again</button>'
    if report.is_looking:
        return '<p role="status">Looking at everything. It takes some seconds.</p>'
    if report.looked is None:
        words = "What works and what does not will stand here, each with the next step."
        return f'<p class="empty">{words}</p>{button}'
    age = elapsed(report.looked, report.now)
    ago = "just now" if age.total_seconds() < 60 else f"{duration_in_words(age)} ago"
    return f'<p class="about">Looked {ago}.</p><div class="buttons">{button}</div>'


def _line(line: HealthLine) -> str:
    name = escape(line.name)
    step = f'<p class="about">{marked(line.next)}</p>' if line.next else ""
    fix = ""
    if line.can_fix:
        fix = (
            f'<div class="buttons"><button type="button" class="plain" data-action="fix" '
            f'data-field-name="{name}" aria-label="Fix it: {name}">Fix it</button></div>'
        )
    return (
        f'<li class="thing {line.level.lower()}"><p><strong>{name}</strong> '
        f'<span class="about">{_WORDS.get(line.level, "")}</span><br>{marked(line.detail)}</p>'
        f"{step}{fix}</li>"
    )


def _way(way: WayOut, report: HealthReport) -> str:
    newest = "nothing has arrived there yet"
    if way.newest is not None:
        newest = f"the newest message there is from {describe(way.newest, report.now)}"
    waiting = f"; {counted(way.waiting, 'message')} on the way" if way.waiting else ""
    return f"<li><strong>{escape(way.name)}</strong>: {newest}{waiting}</li>"


PAGES = (ViewPage("health", "Health", health_html, "h"),)

"""The life of an item, in every order of two, and in `make chaos` of three.

It has one card and one answer, and nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.features.quiet import digest_message
from ollim_bot.kernel.base.errors import NotFound
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.changes.file_changes import UndoRefused
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.digest import TURN_PAGE
from ollim_bot.kernel.values.due_items import UNDO, DueItem
from ollim_bot.kernel.values.occurrences import ANSWERED, Answer, Occurrence
from ollim_bot.kernel.values.quiet import QuietChoice

# What happens to one job, and what happens to all of them.
OWN = ("comes", "nags", "answered", "undone", "paused", "cancelled", "run by hand")
SHARED = ("held", "restarted", "asleep", "moved zone")

SLOT = timedelta(minutes=3)
FIRST_SLOT = NOW + timedelta(minutes=2)
# How long it takes until what happens has had its effect; files are looked at every ten seconds.
ACT = timedelta(seconds=12)
# Longer than a pause of the nag, and two of them with a sleep are shorter than the Undo.
SLEEP = timedelta(seconds=200)
NAG = {"plain": "true", "nag": '"2m x 8"'}
KINDS: Mapping[str, tuple[JobKind, Mapping[str, str]]] = {
    "dose": (JobKind.ROUTINE, {**NAG, "kind": "dose"}),
    "tea": (JobKind.ROUTINE, {**NAG, "must": "false"}),
    "call": (JobKind.REMINDER, NAG),
}


def _kinds_for(events: Sequence[str]) -> Iterator[str]:
    """A dose lives every order; the others those in which they differ from it.

    A dose comes in the quiet as it does at any time, so that it lives that only at the start.
    """
    if "held" not in events[1:]:
        yield "dose"
    if "held" in events:
        yield "tea"
    if "comes" in events and {"cancelled", "run by hand"} & {*events}:
        yield "call"


def _shortened(events: Sequence[str]) -> tuple[str, ...]:
    """The order with `nags`, in which only time passes, for all that cannot change anything.

    Those are an answer before the item comes, an Undo without an answer, and a pause or a run of a
    job that was cancelled.
    """
    found: list[str] = []
    for number, event in enumerate(events):
        is_there = "comes" not in events[number:] or "run by hand" in found
        is_idle = (
            (event == "answered" and not is_there)
            or (event == "undone" and "answered" not in found)
            or (event in ("paused", "run by hand") and "cancelled" in found)
        )
        found.append("nags" if is_idle else event)
    return tuple(found)


@dataclass
class Life:
    """A job and what happens to it; it has come before, unless it comes in one of the slots."""

    name: str
    kind: str
    events: Sequence[str]
    messages: int = 0
    is_paused: bool = False
    is_cancelled: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def job_kind(self) -> JobKind:
        return KINDS[self.kind][0]

    @property
    def must(self) -> bool:
        return self.kind != "tea"

    @property
    def moment(self) -> datetime:
        if "comes" not in self.events:
            return FIRST_SLOT - timedelta(minutes=1)
        return FIRST_SLOT + SLOT * self.events.index("comes")

    def write(self, at: ScheduleScene) -> None:
        is_on = str(not self.is_paused).lower()
        more = {**KINDS[self.kind][1], "description": self.name, "enabled": is_on}
        if self.job_kind is JobKind.REMINDER:
            at.remind(self.name, self.moment - at.clock.now(), **more)
        else:
            at.routine(self.name, f"{self.moment:%M %H} * * *", **more)


@dataclass(frozen=True)
class View:
    """The items and messages of all jobs, by the names of the jobs."""

    items: Mapping[str, Sequence[DueItem]]
    messages: Mapping[str, Sequence[ChatMessage]]
    # The messages with a button for an item, by the key of the item.
    asking: Mapping[str, Sequence[ChatMessage]]
    undoing: Mapping[str, Sequence[ChatMessage]]

    # The names of the jobs that have a file.
    files: Set[str]

    @classmethod
    def of(cls, at: ScheduleScene, said: Sequence[ChatMessage]) -> View:
        pages = at.store.query(_pages)
        log = [page for message in said for page in pages.get(message.id, [message])]
        keyed = {key for message in log for key in _keys(message)}

        def step(tx: Transaction) -> tuple[list[DueItem], dict[str, DueItem | None]]:
            return tx.due_items.open() + tx.due_items.answered_since(NOW), {
                key: tx.due_items.get(key) for key in keyed
            }

        known, keys = at.store.query(step)
        items: dict[str, list[DueItem]] = defaultdict(list)
        for item in {each.key: each for each in (*known, *keys.values()) if each}.values():
            items[Occurrence.parse(item.occurrence).job_id].append(item)
        messages: dict[str, list[ChatMessage]] = defaultdict(list)
        asking: dict[str, list[ChatMessage]] = defaultdict(list)
        undoing: dict[str, list[ChatMessage]] = defaultdict(list)
        for message in log:
            if message.occurrence:
                messages[message.occurrence.split(":")[1]].append(message)
            for key, is_undo in _keys(message).items():
                if (meant := keys[key]) is not None:
                    (undoing if is_undo else asking)[meant.key].append(message)
        files = {each.stem for each in at.paths.root.glob("r*/*.md")}
        return cls(items, messages, asking, undoing, files)

    def open(self, life: Life) -> DueItem | None:
        found = [each for each in self.items[life.name] if each.is_open]
        assert len(found) < 2, (life.name, found)
        return found[0] if found else None


def _pages(tx: Transaction) -> dict[str, list[ChatMessage]]:
    """Every page of each digest: a line has its buttons on its own page."""
    found: dict[str, list[ChatMessage]] = {}
    for digest in tx.digests.get().kept:
        keys = {each.item for each in digest.entries if each.item}
        items = {key: item for key in keys if (item := tx.due_items.get(key)) is not None}
        shown = {each.message.id for each in digest.entries if tx.messages.get(each.message.id)}
        found[digest.id] = [
            digest_message(replace(digest, page=page), items, shown, tx.now)
            for page in range(len(digest.pages))
        ]
    return found


def _keys(message: ChatMessage) -> dict[str, bool]:
    """The keys of the items that the message has buttons for, and whether those are an Undo."""
    buttons = message.card.buttons if message.card else ()
    found = {}
    for each in buttons:
        if not each.is_used:
            found[each.data.removeprefix("item:").partition(":")[0]] = each.action == UNDO
    return found


@asynccontextmanager
async def _running(root: Path, clock: ManualClock) -> AsyncIterator[ScheduleScene]:
    async with schedule_scene(ScriptedEngine(), root, clock=clock, runs=False) as at:
        # No surface and no turn of the conversation: a life needs neither.
        talk = at.talk
        parts = (talk.notices, talk.quiet_watch, talk.deliveries, talk.undo_expiry, at.scheduler)
        at.tasks += [asyncio.create_task(each.run()) for each in parts]
        yield at


async def _pass(at: ScheduleScene, time: timedelta) -> None:
    """Let time pass; the clock on the wall is ahead of the timers, which costs less."""
    hop, timers = timedelta(seconds=60), timedelta(seconds=8)
    while time > timers:
        at.clock.jump((min(hop, time) - timers).total_seconds())
        await at.advance(timers.total_seconds(), step=8)
        time -= hop
    await at.advance(max(timedelta(), time).total_seconds(), step=8)


class Table:
    """Lives that share their clock, so that what happens to all of them happens once."""

    def __init__(self, root: Path, lives: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._root = root
        self._shared = _shared(lives[0][1])
        self.lives = [Life(f"{lived[0]}-{number}", *lived) for number, lived in enumerate(lives)]
        self._log: dict[int, ChatMessage] = {}
        self._last_change = 0

    async def run(self) -> None:
        clock = ManualClock(NOW)
        scene = _running(self._root, clock)
        at = await scene.__aenter__()
        try:
            # To know what the day has cost takes a tenth of the time of this test.
            at.store.run(
                lambda tx: tx.config.change(lambda c: c.with_value("daily_cost_cap", "none"))
            )
            for life in self.lives:
                life.write(at)
            await at.advance(ACT.total_seconds(), step=12)
            await _pass(at, FIRST_SLOT - at.clock.now())
            view = self._view(at)
            for number, event in enumerate(self._shared):
                if event == "restarted":
                    await scene.__aexit__(None, None, None)
                    scene = _running(self._root, clock)
                    at = await scene.__aenter__()
                view = await self._pass_slot(at, number, event, view)
            await _pass(at, SLOT)
            self._check_end(at)
        finally:
            await scene.__aexit__(None, None, None)

    def _view(self, at: ScheduleScene) -> View:
        """What there is now; only messages that changed are read, which takes the most time."""
        for each in at.store.query(lambda tx: tx.messages.since_change(self._last_change, -1)):
            self._log[each.seq], self._last_change = each.message, each.change
        return View.of(at, [self._log[seq] for seq in sorted(self._log)])

    async def _pass_slot(
        self, at: ScheduleScene, number: int, event: str | None, before: View
    ) -> View:
        match event:
            case "held":
                until = at.clock.now() + SLOT * 1.5
                at.store.run(lambda tx: tx.quiet.put(QuietChoice(until=until)))
            case "asleep":
                at.clock.jump(SLEEP.total_seconds())
            case "moved zone":
                at.store.run(
                    lambda tx: tx.config.change(lambda c: c.with_value("timezone", "Europe/Berlin"))
                )
        for life in self.lives:
            await _happen(at, life, life.events[number], before)
        await at.advance(ACT.total_seconds(), step=12)
        acted = self._view(at)
        for life in self.lives:
            life.messages = len(acted.messages[life.name])
            _check_act(life, life.events[number], before, acted)
        await _pass(at, SLOT - ACT)
        after = self._view(at)
        for life in self.lives:
            _check_slot(at, life, acted, after)
        return after

    def _check_end(self, at: ScheduleScene) -> None:
        view = self._view(at)
        rows: dict[str, list[object]] = defaultdict(list)
        for row in at.rows:
            if row.state == ANSWERED and row.occurrence is not None:
                rows[row.occurrence.job_id].append(row.facts["answer"])
        for life in self.lives:
            _check_cards(at, life, view, is_quiet=False)
            answers = [each == Answer.UNDONE for each in rows[life.name]]
            if answers != [bool(place % 2) for place in range(len(answers))]:
                life.problems.append(f"answered as {rows[life.name]}")
        assert at.is_right
        problems = [(life.kind, life.events, life.problems) for life in self.lives if life.problems]
        assert problems == []


async def _happen(at: ScheduleScene, life: Life, event: str, before: View) -> None:
    item = before.open(life)
    answers = ItemAnswers(at.store, at.talk.job_file_changes)
    repository = getattr(at.stores.repositories, f"{life.job_kind}s")
    try:
        match event:
            case "answered" if item is not None:
                if asking := before.asking[item.key]:
                    await _click(at, asking[-1], item.key)
                else:
                    await answers.answer(item.key, Answer.DONE, "web")
            case "undone":
                for each in before.items[life.name]:
                    if undoing := before.undoing[each.key]:
                        await _click(at, undoing[-1], each.key)
                    else:
                        with suppress(UndoRefused):
                            await answers.take_back(each.key, "web")
            case "paused" if life.name in before.files:
                life.is_paused = True
                life.write(at)
            case "cancelled":
                repository.remove(life.name)
                life.is_cancelled = True
            case "run by hand":
                assert at.talk.manual_runs.request(repository.get(life.name).item)
    except NotFound:
        assert life.job_kind is JobKind.REMINDER or "cancelled" in life.events


async def _click(at: ScheduleScene, message: ChatMessage, key: str) -> None:
    assert message.card is not None
    own = [each for each in message.card.buttons if key in each.data]
    # The card of a run by hand has the key of the run.
    other = [each for each in message.card.buttons if each.action == "done"]
    button = [*own, *other, *message.card.buttons][0]
    await _turn_to(at, message.id, button)
    answer = await at.chat.click("web", message.id, button.custom_id)
    assert not answer.is_error, answer


async def _turn_to(at: ScheduleScene, message_id: MessageId, button: Button) -> None:
    """Turn the pages of a digest until the button is there; any other message has one page."""
    for _ in at.store.query(_pages).get(message_id, []):
        (shown,) = (each for each in at.log if each.id == message_id)
        assert shown.card is not None
        if button.custom_id in {each.custom_id for each in shown.card.buttons}:
            return
        (turn,) = (each for each in shown.card.buttons if each.action == TURN_PAGE)
        await at.chat.click("web", message_id, turn.custom_id)


def _is_on(view: View, life: Life) -> bool:
    """Whether the file is there and not paused, or was removed because the reminder came."""
    if life.name in view.files:
        return not life.is_paused
    return life.job_kind is JobKind.REMINDER and not life.is_cancelled


def _check_act(life: Life, event: str, before: View, acted: View) -> None:
    came = _by_hand(acted, life) - _by_hand(before, life)
    item, said = acted.open(life), acted.messages[life.name]
    match event:
        case "answered" if item is not None:
            life.problems.append("is open after the answer")
        case "run by hand" if came != (life.name in acted.files):
            life.problems.append(f"run by hand, {came} messages came")
        case "run by hand" if came and said[-1].id not in map(_card, acted.items[life.name]):
            life.problems.append("the message of the run is not the card")
        case "comes" if _is_on(acted, life) and life.must and not said:
            life.problems.append("did not come")


def _by_hand(view: View, life: Life) -> int:
    return sum(each.occurrence.endswith(":manual") for each in view.messages[life.name])


def _card(item: DueItem) -> str:
    return item.card


def _check_slot(at: ScheduleScene, life: Life, acted: View, after: View) -> None:
    came = len(after.messages[life.name]) - life.messages
    item = acted.open(life)
    if item is None and len(acted.items[life.name]) == len(after.items[life.name]) and came:
        life.problems.append("asked although it is answered")
    if item is not None and not _is_on(after, life) and came and not item.waiting:
        life.problems.append("nagged although its job is off")
    if item is not None and _is_on(after, life) and life.must and not came:
        life.problems.append("must come again, and did not")
    is_quiet = at.store.query(lambda tx: tx.quiet.get().until) is not None
    _check_cards(at, life, after, is_quiet=is_quiet)


def _check_cards(at: ScheduleScene, life: Life, view: View, *, is_quiet: bool) -> None:
    for item in view.items[life.name]:
        asking = view.asking[item.key]
        if item.is_open and not (len(asking) == 1 or (is_quiet and item.waiting and not asking)):
            life.problems.append(f"{len(asking)} messages ask")
        if not item.is_open and asking:
            life.problems.append("has a dead button")
        if view.undoing[item.key] and not item.can_undo(at.clock.now()):
            life.problems.append("has a dead Undo")
        if len(view.undoing[item.key]) > 1:
            life.problems.append("has two Undos")


def _shared(events: Sequence[str]) -> list[str | None]:
    return [each if each in SHARED else None for each in events]


def _tables(length: int) -> Mapping[str, Sequence[tuple[str, Sequence[str]]]]:
    """Every order of this length, by what happens to all in it; few lives share a clock."""
    tables: dict[str, dict[tuple[str, Sequence[str]], None]] = defaultdict(dict)
    for order in permutations((*OWN, *SHARED), length):
        events = _shortened(order)
        names = [each or "own" for each in _shared(events)]
        if {*names[1:]} == {"own"} and names[0] in ("own", "held"):
            # Many of these lives, or a long digest of them, cost more than their own clocks.
            place = names.index("own")
            names[place] = events[place]
        name = ", ".join(names)
        tables[name].update({(kind, events): None for kind in _kinds_for(events)})
    return {name: [*lives] for name, lives in tables.items()}


TABLES, LONG_TABLES = _tables(2), _tables(3)


@pytest.mark.parametrize("name", TABLES)
async def test_an_item_has_one_card_and_one_answer(tmp_path: Path, name: str) -> None:
    await Table(tmp_path, TABLES[name]).run()


@pytest.mark.minutes
@pytest.mark.parametrize("name", LONG_TABLES)
async def test_a_long_life_has_one_card_and_one_answer(tmp_path: Path, name: str) -> None:
    await Table(tmp_path, LONG_TABLES[name]).run()

"""Views of the page that are read in one step: money, settings, runs, health, changes, memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from ollim_bot.features.about_me.known_lines import change_lines, known_lines, memory_files
from ollim_bot.features.money.cost_reports import costs_since
from ollim_bot.features.runs.run_reports import CHUNK, FIRST, run_named, said_by, stories_of
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import NotFound, OllimError, WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import channel_label
from ollim_bot.kernel.changes.file_changes import (
    CUT,
    TASKS,
    FileChanges,
    UndoRefused,
    refuse_setting_undo,
    shared_file,
    undo_setting,
)
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.changes.task_undo import TaskUndoer
from ollim_bot.kernel.schedule.day_receipts import TodayReceipts, rows_about_day
from ollim_bot.kernel.store.change_rows import newest_changes
from ollim_bot.kernel.store.heartbeat import ReadHeartbeat
from ollim_bot.kernel.store.job_folder import read_text
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.journal import older_changes
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store, Watches, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.upkeep.findings import DoctorFinding, Repair
from ollim_bot.kernel.values.about_me import AboutMe, KnownLine
from ollim_bot.kernel.values.answers import state_text, state_words
from ollim_bot.kernel.values.changes import (
    ANSWER,
    CHANGERS,
    SETTING,
    TASK,
    ChangeFilter,
    ChangeLine,
    ChangeList,
    Changer,
    ChangeRow,
    KeptChange,
    file_undone,
    setting_undone,
    task_undone,
    why_elsewhere,
)
from ollim_bot.kernel.values.costs import Amount, CostReport, month_start
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.ports import JobRepositories, Journal, TaskList
from ollim_bot.kernel.values.push import PHONE_ACTIONS, PhoneView
from ollim_bot.kernel.values.receipts import RunFilter, RunList, RunPage, Show, usual_cost
from ollim_bot.kernel.values.run_history import History, RunStory
from ollim_bot.kernel.values.run_words import moment_of
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS
from ollim_bot.kernel.values.shared_files import JobFile, ProfileFile
from ollim_bot.kernel.values.view_ports import ActingView, View
from ollim_bot.kernel.values.views import (
    HealthLine,
    HealthReport,
    PresentState,
    SettingGroup,
    SettingsView,
    ViewAnswer,
    WayOut,
    setting_groups,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction
    from ollim_bot.kernel.values.usage import UsageRow

# A list looks through so many runs for each that it may have.
_LOOKED_AT = 5
_USUAL_DAYS = timedelta(days=30)


def run_list(
    tx: Transaction,
    wanted: RunFilter,
    most: int,
    now: datetime,
    watched_until: datetime | None,
    today: TodayReceipts | None = None,
) -> RunList:
    """At most `most` runs that fit, with the receipt of the day, or of today."""
    if wanted.day is None:
        listed = _newest_runs(tx, wanted, most, now, ())
        return replace(listed, receipt=(today or TodayReceipts()).read(tx, now, watched_until))
    about = rows_about_day(tx, wanted.day, now)
    listed = _newest_runs(tx, wanted, most, now, about.rows)
    return replace(listed, receipt=about.receipt(now, watched_until))


def _newest_runs(
    tx: Transaction, wanted: RunFilter, most: int, now: datetime, of_day: Sequence[LedgerRow]
) -> RunList:
    """It looks back through a bounded number of others; `of_day` are the rows about the day."""
    by_run: dict[str, list[UsageRow]] = {}
    for row in tx.usage.since(now - _USUAL_DAYS) if wanted.show is Show.COSTLY else ():
        if row.occurrence:
            by_run.setdefault(row.occurrence, []).append(row)
    usual = usual_cost(Amount.of(each) for each in by_run.values()) if by_run else 0
    found: list[RunStory] = []
    seen, back_to = 0, None
    for ids in _chunks(tx, wanted, now, of_day):
        stories = stories_of(tx, ids)
        found += [each for each in stories if wanted.fits(each, now, usual)]
        seen += len(ids)
        back_to = min((moment_of(each) for each in stories), default=back_to)
        if len(found) > most or seen >= _LOOKED_AT * most:
            break
    else:
        back_to = None
    found.sort(key=lambda each: each.fired.timestamp(), reverse=True)
    has_more = len(found) > most or back_to is not None
    return RunList(now, wanted, found[:most], has_more, back_to, usual)


def _chunks(
    tx: Transaction, wanted: RunFilter, now: datetime, of_day: Sequence[LedgerRow]
) -> Iterator[list[str]]:
    """The ids of the runs that may fit, the newest first."""
    if wanted.day is not None:
        stories = History.of(of_day).newest_first
        yield [each.id for each in stories if RunFilter(day=wanted.day).fits(each, now)]
        return
    ledger, before = tx.ledger, FIRST
    newest = partial(ledger.newest_of_job, wanted.job) if wanted.job else ledger.newest_ids
    while ids := newest(before, CHUNK):
        before = ids[-1][1]
        yield [each for each, _ in ids]


# What a new minute changes in the costs is small: the pace of the month.
_COSTS_KEPT = timedelta(minutes=1)


class MoneyView(View[CostReport]):
    """A `View` of the costs since the first of the month, or for so long as `since` says."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # The report, what it was made of, and when.
        self._kept: tuple[CostReport, tuple[object, ...], datetime] | None = None

    async def look(self, asked: Mapping[str, str]) -> CostReport:
        return await self._store.read(partial(self._read, asked))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "usage", "config")

    def _read(self, asked: Mapping[str, str], tx: Transaction) -> CostReport:
        now, kept = self._clock.now(), self._kept
        since = month_start(now)
        with suppress(WrongInput, OverflowError):
            ago = now.astimezone(UTC) - parse_duration(asked.get("since", ""))
            day = ago.astimezone(now.tzinfo)
            since = day.replace(hour=0, minute=0, second=0, microsecond=0)
        made_of = (since, now.date(), tx.usage.newest_place(), tx.config.get().daily_cost_cap)
        is_kept = kept is not None and kept[1] == made_of
        if kept is None or not is_kept or not timedelta() <= elapsed(kept[2], now) < _COSTS_KEPT:
            kept = self._kept = costs_since(tx, since, now), made_of, now
        return kept[0]


# Sets a key to a value, or to its default for None, and says what has changed.
ChangeSetting = Callable[[Changer, str, str | None], Awaitable[str]]


class PhoneSettings(Protocol):
    """The owner's phone among the settings. `news` are published at each step of a pairing."""

    news: Watches

    async def run(self) -> None:
        """Carry out the attempts that are begun on the page, until cancelled."""

    async def look(self, asked: Mapping[str, str], /) -> PhoneView: ...

    async def act(self, action: str, fields: Mapping[str, str], /) -> ViewAnswer:
        """Do one of `PHONE_ACTIONS`."""


class SettingPage(ActingView[SettingsView]):
    """An `ActingView`. The actions are `set` (`key`, `value`), `default` (`key`), the phone's."""

    def __init__(
        self, store: Store, clock: Clock, change: ChangeSetting, phone: PhoneSettings | None = None
    ) -> None:
        self._phone = phone
        self._store = store
        self._clock = clock
        self._change = change

    async def look(self, asked: Mapping[str, str]) -> SettingsView:
        phone = await self._phone.look(asked) if self._phone else None
        return SettingsView(await self._store.read(self._read), phone)

    def changes(self) -> AsyncIterator[None]:
        news = self._phone.news if self._phone else None
        return changes_of(self._store, "config", "quiet", "zone", "channels", "push", also=news)

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if self._phone is not None and action in PHONE_ACTIONS:
            return await self._phone.act(action, fields)
        key, value = fields.get("key", ""), fields.get("value", "")
        if key not in CONFIG_KEYS or action not in ("set", "default"):
            return ViewAnswer("There is no such setting.", is_error=True)
        try:
            told = await self._change(Changer.PAGE, key, value if action == "set" else None)
        except WrongInput as wrong:
            return ViewAnswer(str(wrong), is_error=True, field="value")
        return ViewAnswer(told)

    def _read(self, tx: Transaction) -> list[SettingGroup]:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = Amount.of(tx.usage.since(midnight))
        at = PresentState(now, quiet_settings(tx, now.tzinfo), spent)
        return setting_groups(tx.config.get(), at)


_MADE_OF = ("ledger", "usage", "due_items")
_USUAL = 100
_LONGEST_ID = 400


def no_heartbeat() -> datetime | None:
    """For a bot whose heartbeat is not kept: the ledger says until when it ran."""
    return None


class RunListView(View[RunList]):
    """A `View` of the newest `most` runs that fit `show`, `job` and `day`, with a receipt."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: ReadHeartbeat = no_heartbeat,
        receipts: TodayReceipts | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._receipts = receipts or TodayReceipts()

    async def look(self, asked: Mapping[str, str]) -> RunList:
        word = asked.get("most", "")
        most = int(word) if word.isascii() and word.isdecimal() and len(word) < 6 else _USUAL
        wanted = RunFilter.read(asked, self._clock.now())
        return await asyncio.to_thread(self._read, wanted, most)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, wanted: RunFilter, most: int) -> RunList:
        # Read before the ledger, which then has everything that was claimed until this moment.
        watched_until, now = self._heartbeat(), self._clock.now()
        return self._store.query(
            lambda tx: run_list(tx, wanted, most, now, watched_until, self._receipts)
        )


class RunView(View[RunPage]):
    """A `View` of the run `id`, which may be short."""

    def __init__(self, store: Store, repositories: JobRepositories, clock: Clock) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock

    async def look(self, asked: Mapping[str, str]) -> RunPage:
        return await asyncio.to_thread(self._read, asked.get("id", ""))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, word: str) -> RunPage:
        now = self._clock.now()

        def question(tx: Transaction) -> RunPage:
            story = run_named(tx, word[:_LONGEST_ID])
            one, job = story.occurrence, ""
            if isinstance(one.kind, JobKind):
                # It is named if it has a file.
                with suppress(NotFound):
                    self._repositories.of(one.kind).text_of(one.job_id)
                    job = f"{one.kind}:{one.job_id}"
            return RunPage(now, story, said_by(tx, story), job)

        return self._store.query(question)


class Examiner(Protocol):
    """The doctor of the running bot. Both methods block."""

    def examine(self) -> Sequence[DoctorFinding]: ...

    def mend(self, findings: Sequence[DoctorFinding], /) -> Sequence[Repair]: ...


class HealthPage(ActingView[HealthReport]):
    """An `ActingView`. The actions are `look` and `fix` (`name` of a part).

    An examination runs while `changes` is followed; the first look asks for the first one.
    """

    def __init__(
        self, store: Store, clock: Clock, channels: Sequence[str], doctor: Examiner
    ) -> None:
        self._store = store
        self._clock = clock
        self._channels = channels
        self._doctor = doctor
        self._found: Sequence[DoctorFinding] = ()
        self._looked: datetime | None = None
        self._is_wanted = asyncio.Event()

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


_NO_LINE = "There is no such line any more; nothing was written."
_ONE_LINE = "Write one line. To have it gone, press Forget."


class AboutMePage(ActingView[AboutMe]):
    """An `ActingView`. The actions are `edit` (with `words`) and `forget`.

    Both name the line by `file` and `line`, with its `text` as it was shown.
    """

    def __init__(
        self, store: Store, clock: Clock, paths: DataPaths, changes: FileChanges, journal: Journal
    ) -> None:
        self._store = store
        self._clock = clock
        self._paths = paths
        self._changes = changes
        self._journal = journal

    async def look(self, _: Mapping[str, str]) -> AboutMe:
        return await asyncio.to_thread(self._read)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "changes")

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        file, number, text = (fields.get(each, "") for each in ("file", "line", "text"))
        if action not in ("edit", "forget") or not (number.isdecimal() and len(number) < 8):
            return ViewAnswer(_NO_LINE, is_error=True)
        words = fields.get("words", "").strip() if action == "edit" else None
        if words is not None and len(words.splitlines()) != 1:
            return ViewAnswer(_ONE_LINE, is_error=True, field="words")
        line = KnownLine(file, int(number), text)
        try:
            is_made = await asyncio.to_thread(self._make, line, words)
        except (OllimError, OSError, UnicodeDecodeError) as refused:
            return ViewAnswer(f"{file} was not changed: {refused}", is_error=True)
        if not is_made:
            typed = f" You had typed: {words}" if words else ""
            sentence = f"Line {number} of {file} has changed since it was shown; nothing was"
            return ViewAnswer(f"{sentence} written.{typed}", is_error=True)
        did = "Forgotten" if words is None else "Saved"
        return ViewAnswer(f"{did}. Changes has a way back.")

    def _read(self) -> AboutMe:
        now, problems = self._clock.now(), list[str]()
        lines = known_lines(self._paths, now.tzinfo or UTC, problems)
        return AboutMe(now.date(), tuple(lines), tuple(problems))

    def _make(self, line: KnownLine, words: str | None) -> bool:
        """Change the line, and return whether it was still as it was shown."""
        if PurePosixPath(line.file) not in memory_files(self._paths) or line.number == 0:
            return False
        if not change_lines(self._paths, line.file, [line], words, self._changes):
            return False
        did = "forget" if words is None else "edit"
        self._journal.note(self._paths.root / line.file, f"{did}: {line.file}")
        return True


_GONE = "This change is not kept any more, so nothing was undone."
# Characters of both texts of a change whose difference is looked for.
_LONGEST_COMPARED = 40_000
_MOST_LINES = 200


class ChangesPage(ActingView[ChangeList]):
    """An `ActingView`. The action is `undo` (`id`), as `ollim-bot undo` does it.

    The words of the address are `who`, `words`, and how many are wanted at `most`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        root: Path,
        files: FileChanges,
        answers: ItemAnswers,
        tasks: Callable[[], TaskList],
    ) -> None:
        self._store = store
        self._clock = clock
        self._root = root
        self._files = files
        self._answers = answers
        self._tasks = tasks

    async def look(self, asked: Mapping[str, str]) -> ChangeList:
        return await asyncio.to_thread(self._read, asked)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "changes")

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        key = fields.get("id", "")
        change = await self._store.read(lambda tx: tx.changes.find(key))
        if action != "undo" or change is None:
            return ViewAnswer(_GONE, is_error=True)
        if why := why_elsewhere(change):
            return ViewAnswer(why, is_error=True)
        try:
            return ViewAnswer(await self._undo(change))
        except OllimError as refused:
            return ViewAnswer(str(refused), is_error=True)

    async def _undo(self, change: ChangeRow) -> str:
        """Undo the change, and return what there is to say. Raises `OllimError`."""
        if change.kind == ANSWER:
            item = await self._answers.undo_change(change, Changer.PAGE)
            words = state_words(state_text(item), self._clock.now())
            return f"Undone. “{item.owner_title}” is {words} again."
        if change.kind == SETTING:
            await self._store.transact(lambda tx: undo_setting(tx, change, Changer.PAGE))
            return setting_undone(change)
        if change.kind == TASK:
            undoer = TaskUndoer(self._tasks(), self._store, self._clock.now)
            return task_undone(change, await asyncio.to_thread(undoer.undo, change, Changer.PAGE))
        after = await asyncio.to_thread(self._files.undo_file, change, Changer.PAGE)
        return file_undone(change, after)

    def _read(self, asked: Mapping[str, str]) -> ChangeList:
        who, words, most = (asked.get(each, "") for each in ("who", "words", "most"))
        meant = ChangeFilter(who if who in CHANGERS else "", words.strip())
        limit = int(most) if most.isdecimal() else 100
        kept = self._store.query(lambda tx: newest_changes(tx.changes, limit + 1, meant))
        shown = kept[:limit]
        rows = [each.change for each in kept]
        older = older_changes(self._root, rows, limit + 1, meant)
        return ChangeList(
            self._clock.now(),
            meant,
            tuple(map(self._line, shown)),
            tuple(older[: limit - len(shown)]),
            len(kept) + len(older) > limit,
        )

    def _line(self, kept: KeptChange) -> ChangeLine:
        """The change with its difference, and with the reason why it cannot be undone now."""
        change, lines = kept.change, tuple[str, ...]()
        is_short = len(change.before or "") + len(change.after or "") <= _LONGEST_COMPARED
        if is_short and not change.is_cut and change.kind not in (SETTING, ANSWER):
            lines = tuple(islice(change.changed_lines(), _MOST_LINES))
        if kept.is_undone:
            return ChangeLine(change, lines, is_undone=True)
        try:
            self._refuse(change, is_short=is_short)
        except UndoRefused as refused:
            return ChangeLine(change, lines, refusal=refused.reason, edit=_place_to_edit(change))
        return ChangeLine(change, lines)

    def _refuse(self, change: ChangeRow, *, is_short: bool) -> None:
        """Raise `UndoRefused` if the change cannot be undone as things are now."""
        if why := CUT if change.is_cut else why_elsewhere(change):
            raise UndoRefused(why)
        if change.kind == ANSWER:
            self._answers.refuse_undo(change, self._clock.now())
        elif change.kind == SETTING and change.name in CONFIG_KEYS:
            self._store.query(lambda tx: refuse_setting_undo(tx, change))
        elif change.kind == TASK:
            # The list itself is asked when it is pressed.
            last = self._store.query(lambda tx: tx.changes.last_of(change.place))
            if last is not None and last.after not in (change.after, change.before):
                raise UndoRefused(f"The task was changed since ({last.key}).")
        elif not change.kind and is_short:
            # The lines of a very long text are only compared when it is undone.
            self._files.refuse_undo(change)


def _place_to_edit(change: ChangeRow) -> str:
    """The address of what was changed, of a job with what it was before; empty if there is none."""
    if change.kind == SETTING:
        return "/settings"
    file = shared_file(change.place)
    if isinstance(file, ProfileFile):
        return "/about-me"
    if not isinstance(file, JobFile) or file.is_skill or change.after is None:
        return "/today" if change.place == TASKS else ""
    kind = next(each for each in JobKind if each.plural == file.folder)
    job = read_text(JOB_TYPES[kind], change.after).job
    return f"{address_of(f'{kind}:{job.spec.id}')}?change={change.key}" if job else ""

"""When the sentinel acts in the place of the bot, and the steps with which it delivers.

A delivery is two steps: `begin_delivery` claims the occurrence and adds the message, before it is
sent; `end_delivery` records by which ways it came. Where the database cannot take them, they are
taken by `RowsInMemory`, and the delivery is kept in `state/sentinel.json`, which the bot takes over
before its next step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple

from ollim_bot.kernel.base.errors import NewerFormat, StorageError
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.base.settings import FIRST_DIRECT_CHANNEL
from ollim_bot.kernel.changes.item_answers import add_item
from ollim_bot.kernel.changes.job_files import remove_reminder
from ollim_bot.kernel.store.backend import Backend
from ollim_bot.kernel.store.codecs.message_codec import MESSAGES
from ollim_bot.kernel.store.codecs.plain import PLAIN, JsonFormat, Layout, ValueCodec
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState
from ollim_bot.kernel.store.file_store import (
    FileStore,
    Malformed,
    StoreProblem,
    parse_json,
    render_json,
    version_of,
)
from ollim_bot.kernel.store.files import FileLock, OsDisk, Stamp, stamp
from ollim_bot.kernel.store.steps import leave_notice, new_notice
from ollim_bot.kernel.store.transaction import JobOp, Transaction
from ollim_bot.kernel.values.catch_up_decision import claim_facts
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.decision import Circumstances, decide, has_to_come
from ollim_bot.kernel.values.definitions import Armed, Definition
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.item_messages import item_message
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.run_history import (
    BY,
    DELIVERED,
    PLAINLY,
    SENTINEL,
    THROUGH,
    claiming_row,
)
from ollim_bot.kernel.values.schedule import (
    ScheduledJob,
    key_of,
    last_due,
    moments_between,
    next_due,
    occurrence_at,
)

# A bot whose heartbeat is older than this counts as dead.
SILENT = timedelta(minutes=5)
# A run ends before the timer starts the next one.
LONGEST_RUN = timedelta(seconds=280)
# After the machine has slept, or after the supervisor was asked, the bot has so long to beat.
PATIENCE = timedelta(seconds=60)


class BotState(StrEnum):
    """What is known of the bot."""

    UNUSED = "never started"
    RUNNING = "running"
    SILENT = "silent"
    STOPPED = "stopped"
    UPDATE = "update"
    RESTORE = "restore"
    CUT_OFF = "without its database"

    @property
    def may_be_started(self) -> bool:
        return self is BotState.SILENT

    @property
    def keeps_database(self) -> bool:
        """Whether the database may be written: an update or a restore may replace it."""
        return self not in (BotState.UPDATE, BotState.RESTORE, BotState.CUT_OFF)

    @property
    def reason(self) -> str:
        """The footer of what the sentinel delivers."""
        return _REASONS.get(self, "The bot does not answer; this came from its watch.")


_REASONS = {
    BotState.STOPPED: "The bot is stopped; this came from its watch.",
    BotState.UPDATE: "The bot is being updated; this came from its watch.",
    BotState.CUT_OFF: "The database cannot be reached; this came from the bot's watch.",
    BotState.RESTORE: "A backup is being restored; this came from the bot's watch.",
}


def acts_from(heartbeat: datetime, now: datetime) -> datetime:
    """The moment from which on the bot counts as dead.

    After the clock was set back, the age of the heartbeat is unknown: a bot that runs beats soon.
    """
    heartbeat, now = heartbeat.astimezone(UTC), now.astimezone(UTC)
    return heartbeat + SILENT if heartbeat <= now else now + PATIENCE


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """An occurrence that must be delivered at `due`."""

    job: ScheduledJob
    occurrence: Occurrence
    due: datetime


def due_deliveries(
    jobs: Iterable[ScheduledJob], heartbeat: datetime, now: datetime, zone: tzinfo
) -> list[DueDelivery]:
    """What must be delivered and is due since the heartbeat, or becomes due during this run.

    Of the missed moments of one routine only the newest counts. Every due reminder counts that
    still has its file.
    """
    end = now.astimezone(UTC) + LONGEST_RUN
    # After the clock was set back, the time of the last run is as good a beginning as any.
    since = min(heartbeat, now - LONGEST_RUN).astimezone(UTC)
    found: list[DueDelivery] = []
    for job in jobs:
        moments: list[datetime | None] = []
        if job.must and isinstance(job, Routine):
            newest = last_due(job, now, zone)
            moments = [newest if newest and newest > since else None]
            moments += moments_between(job, now, end, zone)
        elif job.must:
            moments = [next_due(job, datetime.min.replace(tzinfo=UTC), zone)]
        due = (at for at in moments if at is not None and at <= end)
        found += [DueDelivery(job, occurrence_at(job, at), at) for at in due]
    return sorted(found, key=lambda one: (one.due, one.occurrence.id))


class Outcome(NamedTuple):
    """One delivery: `through` is empty if it did not reach the owner.

    `kept_in` is `ledger`, `sentinel.json`, or empty if it could not be kept. `missed` are the
    channels on which it did not arrive, and `problem` says why.
    """

    title: str
    occurrence: str
    due: datetime
    at: datetime
    through: tuple[str, ...] = ()
    kept_in: str = ""
    problem: str = ""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class SentinelReport:
    """What a run saw and did."""

    state: BotState
    heartbeat: datetime | None = None
    waits_for: list[DueDelivery] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_revived: bool = False
    came_back: bool = False
    is_second: bool = False

    def note(self, outcome: Outcome) -> None:
        """Report the delivery, in the place of an earlier try of this run."""
        others = [each for each in self.outcomes if each.occurrence != outcome.occurrence]
        self.outcomes = [*others, outcome]

    @property
    def has_failed(self) -> bool:
        return any(not each.through for each in self.outcomes)


_REVIVED = "sentinel_revived"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelTry:
    """How far one channel is: `ref` is the id of the message there, empty if it is not known.

    `tried_at` is set while the message may have arrived without it.
    """

    tried_at: datetime | None = None
    ref: str = ""


NOT_TRIED = ChannelTry()


@dataclass(frozen=True, slots=True)
class SentinelDelivery:
    """A message with its item, and how far its delivery came.

    `claim` are the facts of the first row of the occurrence. `removal` removes the file of a
    reminder. `tries` are by the name of the channel. `through` names the ways by which the message
    reached the owner.
    """

    message: ChatMessage
    item: DueItem
    claim: Mapping[str, object]
    removal: JobOp | None = None
    tries: Mapping[str, ChannelTry] = field(default_factory=dict)
    through: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, due: DueDelivery, now: datetime, footer: str = "", channels: Iterable[str] = ()
    ) -> SentinelDelivery:
        job, occurrence = due.job, due.occurrence
        message, item = item_message(job, occurrence, now, footer)
        removal = remove_reminder(job, occurrence.id) if isinstance(job, Reminder) else None
        tries = dict.fromkeys(channels, NOT_TRIED)
        return cls(message, item, claim_facts(job), removal, tries)

    @property
    def missing(self) -> list[str]:
        """The channels on which it has not surely arrived."""
        return [name for name, each in self.tries.items() if not each.ref]

    @property
    def was_tried(self) -> bool:
        return any(each != NOT_TRIED for each in self.tries.values())

    def tried(self, at: datetime) -> SentinelDelivery:
        """The delivery as one that may have been sent on all its channels."""
        return replace(self, tries=dict.fromkeys(self.tries, ChannelTry(at)))

    def outcome(self, at: datetime, kept_in: str, problems: Mapping[str, str]) -> Outcome:
        """`problems` says why it did not arrive on which channels."""
        problem = " ".join(problems.values())
        if not self.through:
            problem = problem or "no channel is set up, and this machine cannot show a notification"
        title, occurrence = self.item.short_title, self.message.occurrence
        due, missed = self.item.due, tuple(problems)
        return Outcome(title, occurrence, due, at, self.through, kept_in, problem, missed)

    def sent(self, tx: Transaction) -> SentinelDelivery:
        """The delivery as its channels are now."""
        tries, through = dict(self.tries), list(self.through)
        for each in tx.deliveries.of_message(self.message.id):
            if each.channel in self.missing:
                tries[each.channel] = _try_of(each)
                through += [each.channel] if tries[each.channel].ref else []
        return replace(self, tries=tries, through=tuple(through))


def _try_of(known: Delivery) -> ChannelTry:
    is_there = known.state is DeliveryState.CONFIRMED
    return ChannelTry(known.tried_at, "".join(known.refs[:1]) if is_there else "")


def is_owed(tx: Transaction, one: DueDelivery, now: datetime, zone: tzinfo) -> bool:
    """Whether it has to be delivered now, and no message of it is in the log."""
    story = tx.ledger.story(one.occurrence)
    if story.delivery is not None or story.is_left_out:
        return False
    if tx.messages.of_occurrence(one.occurrence.id):
        return False
    given = Circumstances(
        one.occurrence.scheduled_at,
        now,
        zone,
        story.progress,
        was_away=True,
        is_skipped=tx.skips.get().has(one.occurrence),
    )
    return has_to_come(decide(one.job, given))


def begin_delivery(
    tx: Transaction, due: DueDelivery, one: SentinelDelivery, heartbeat: datetime, zone: tzinfo
) -> None:
    """Claim the occurrence, and add its message to the log, for all channels that are joined.

    An occurrence that the bot had claimed is left to the bot to end. A definition that the bot has
    not seen is recorded, so that the ledger knows the cause.
    """
    armed, key = tx.ledger.armed(), key_of(due.job)
    if armed.rostered is not None:
        known = {key: armed.jobs[key]} if key in armed.jobs else {}
        wanted = [Definition.of(due.job, zone)]
        since = min(heartbeat.astimezone(UTC), tx.now.astimezone(UTC))
        tx.ledger.append(*Armed(known, tx.now).rows_for(wanted, tx.now, since))
    _enter(tx, one)


def _enter(tx: Transaction, one: SentinelDelivery) -> None:
    occurrence = Occurrence.parse(one.message.occurrence)
    if not tx.ledger.has(occurrence):
        moment = occurrence.scheduled_at or tx.now
        at = max(tx.now.astimezone(UTC), moment.astimezone(UTC))
        done = {"job": one.item.title, **PLAINLY, BY: SENTINEL}
        end = LedgerRow(at, OccurrenceState.DONE.value, occurrence, done)
        tx.ledger.append(claiming_row(occurrence, at, one.claim), end)
    if tx.messages.get(one.message.id) is None:
        tx.messages.add(one.message)
        add_item(tx, one.item)
    for channel, tried in one.tries.items():
        if tried.tried_at is not None:
            tx.deliveries.require(channel, one.message.id, (), tried.tried_at)


def end_delivery(tx: Transaction, one: SentinelDelivery, *, was_met: bool) -> None:
    """Record by which ways it came, and have the bot tell of it when it runs again.

    `was_met` says that a channel had confirmed it before: the sentinel only added another one then,
    which is not told.
    """
    message_id, occurrence = one.message.id, Occurrence.parse(one.message.occurrence)
    if tx.ledger.story(occurrence).delivery is None:
        facts = {BY: SENTINEL, THROUGH: [*one.through]}
        tx.ledger.append(LedgerRow(tx.now, DELIVERED, occurrence, facts))
    if one.removal is not None:
        tx.job_ops.add(one.removal)
    if one.item.shown > 1 or was_met:
        return
    # What has arrived is no longer in doubt.
    title, now = one.item.short_title, tx.now.astimezone(one.message.at.tzinfo)
    name, doubt = f"sentinel-{message_id}", f"sentinel-doubt-{message_id}"
    if one.through:
        when = describe(one.message.at, now)
        sentence = f"While I was away, my watch brought “{title}” {when}."
        tx.notices.change(lambda record: record.withdrawn(doubt))
        tx.updates.change(lambda pending: pending.without({doubt}))
    else:
        due = f"While I was away, “{title}” was due {describe(one.item.due, now)}"
        name, sentence = doubt, f"{due}, and my watch may not have reached you."
    notice = new_notice(sentence, key=name, for_reminder=True)
    leave_notice(tx, replace(notice, id=name), tx.now)


def unfinished_deliveries(tx: Transaction, channels: Collection[str]) -> list[SentinelDelivery]:
    """The messages of open items that must come and have not arrived on each of the channels.

    A crash came between the commit and the sending, or a channel could not be reached.
    """
    found: list[SentinelDelivery] = []
    for item in tx.due_items.open():
        message = tx.messages.get(item.card)
        if message is None or not message.occurrence or not item.as_reminder.must:
            continue
        told = tx.ledger.story(Occurrence.parse(item.occurrence)).delivery
        rows = [each for each in tx.deliveries.of_message(message.id) if each.channel in channels]
        tries = {each.channel: _try_of(each) for each in rows}
        if told is None:
            # What has arrived before a crash counts as arriving now.
            tries = {name: replace(each, ref="") for name, each in tries.items()}
        if told is None or any(each.state is DeliveryState.OPEN for each in rows):
            # What the bot wrote has reached the log.
            ways = told.get(THROUGH) if told and told.get(BY) == SENTINEL else ["log"]
            through = tuple(map(str, ways)) if told and isinstance(ways, list) else ()
            found.append(SentinelDelivery(message, item, {}, tries=tries, through=through))
    return found


def note_revival(tx: Transaction, heartbeat: datetime) -> bool:
    """Note that the supervisor is asked; False if it was asked since this heartbeat."""
    is_new = tx.meta.get(_REVIVED) != heartbeat.isoformat()
    if is_new:
        tx.meta.put(_REVIVED, heartbeat.isoformat())
    return is_new


Deliveries = tuple[SentinelDelivery, ...]


_OF_REMOVAL = {"op", "reminder", "due"}
_VERSION = 2
_FORMAT = JsonFormat(
    {
        SentinelDelivery: Layout(full=True, needed=("tries",)),
        ChannelTry: Layout(full=True),
        JobOp: Layout(rest="what"),
    },
    forms={ChatMessage: MESSAGES.form(ChatMessage), DueItem: PLAIN.form(DueItem)},
)


def _deliveries(raw: bytes) -> Deliveries:
    version, stored = version_of(parse_json(raw), _VERSION)
    entries = stored.get("deliveries", [])
    if version == 1 and isinstance(entries, list):
        entries = [_with_tries(each) for each in entries]
    found = _FORMAT.read_all(SentinelDelivery, entries)
    for one in found:
        try:
            Occurrence.parse(one.message.occurrence)
        except ValueError as wrong:
            raise Malformed(str(wrong)) from None
        if one.removal is not None and not one.removal.what.keys() >= _OF_REMOVAL:
            raise Malformed("removal is not that of a reminder")
    return found


def _with_tries(entry: object) -> object:
    """An entry of the first version, which knew one channel."""
    if not isinstance(entry, dict) or "ref" not in entry:
        return entry
    tried = {"tried_at": entry.get("tried_at"), "ref": entry["ref"]}
    return {**entry, "tries": {FIRST_DIRECT_CHANNEL: tried} if any(tried.values()) else {}}


def _deliveries_json(deliveries: Deliveries) -> bytes | None:
    if not deliveries:
        return None
    entries = [_FORMAT.write(each) for each in deliveries]
    return render_json({"version": _VERSION, "deliveries": entries}, indent=2) + b"\n"


_CODEC: ValueCodec[Deliveries] = ValueCodec(tuple, _deliveries, _deliveries_json)


def deliveries_left(paths: DataPaths) -> Deliveries:
    """What is in the file, which stays as it is. Raises `Malformed` or `FormatIsNewer`."""
    try:
        return _CODEC.decode(OsDisk().read(paths.sentinel, SizeLimit.STATE))[0]
    except FileNotFoundError:
        return ()
    except OSError as refused:
        raise Malformed(refused.strerror or str(refused)) from refused


class SentinelFile:
    """The deliveries that the database could not take, in `state/sentinel.json`.

    A file that cannot be understood is set aside, and one of a newer version is left; `report` gets
    a sentence for both.
    """

    def __init__(
        self, paths: DataPaths, report: Callable[[StoreProblem], None], disk: Disk | None = None
    ) -> None:
        path = paths.sentinel
        self._path = path
        lock = FileLock(paths.lock_of(path))
        self._file = FileStore(path, _CODEC, lock, disk=disk or OsDisk(), report=report)
        self._refused: Stamp = None

    def read(self) -> Deliveries:
        """The deliveries. Raises `Unreadable`."""
        return self._file.read()

    def put(self, one: SentinelDelivery) -> None:
        """Keep a delivery, or how far it came. Raises `StorageError`."""

        def changed(known: Deliveries) -> tuple[Deliveries, None]:
            others = [each for each in known if each.message.id != one.message.id]
            first = next((each for each in known if each not in others), one)
            return (*others, replace(first, tries=one.tries, through=one.through)), None

        self._file.transact(changed)

    def give_to(self, database: Backend) -> bool:
        """Move what is in the file into the database; False if there is nothing, or it failed.

        A failure leaves the file for later.
        """
        mark = stamp(self._path)
        if mark is None or mark == self._refused:
            return False
        try:
            self._file.transact(lambda known: ((), database.run(lambda tx: take_over(tx, known))))
            return True
        except NewerFormat:
            self._refused = mark
            self._file.read()  # reports it
        except StorageError:
            _logger.warning("What the sentinel has delivered waits", exc_info=True)
        return False


def take_over(tx: Transaction, known: Deliveries) -> None:
    """Take the deliveries of the file into the rows."""
    for one in known:
        was_met = tx.deliveries.is_confirmed(one.message.id)
        _enter(tx, one)
        for channel, tried in one.tries.items():
            if tried.ref:
                tx.deliveries.note_received(channel, one.message.id, [tried.ref])
            elif tried.tried_at is None:
                tx.deliveries.note_absent(channel, one.message.id)
        end_delivery(tx, one, was_met=was_met)

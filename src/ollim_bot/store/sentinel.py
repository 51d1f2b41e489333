"""The deliveries that the sentinel makes in the place of the bot.

A delivery is two steps: `begin_delivery` claims the occurrence and adds the message, before it is
sent; `end_delivery` records how far it came. Where the database cannot be written, the delivery is
kept in `state/sentinel.json`, and the bot takes it over before its next step.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from ollim_bot.domain.catch_up import claim_facts
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.decision import Circumstances, decide, has_to_come
from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.item_messages import card_message
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.domain.run_history import BY, DELIVERED, PLAINLY, SENTINEL, THROUGH, claiming_row
from ollim_bot.domain.schedule import ScheduledJob, is_late, key_of
from ollim_bot.domain.sentinel import DueDelivery, brought, not_brought
from ollim_bot.errors import NewerFormat, StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Disk
from ollim_bot.settings import FIRST_DIRECT_CHANNEL
from ollim_bot.store.backend import Backend
from ollim_bot.store.codecs.messages import MESSAGES
from ollim_bot.store.codecs.plain import PLAIN, JsonFormat, Layout, ValueCodec
from ollim_bot.store.deliveries import DeliveryState
from ollim_bot.store.file_store import (
    FileStore,
    Malformed,
    StoreProblem,
    parse_json,
    render_json,
    version_of,
)
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.item_answers import add_item, bring_card, plan_next, planned_time, skip_passed
from ollim_bot.store.job_files import remove_reminder
from ollim_bot.store.steps import leave_notice, new_notice
from ollim_bot.store.transaction import JobOp, Transaction

_REVIVED = "sentinel_revived"
_MOST_OPEN = 200

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
        cls, job: ScheduledJob, occurrence: Occurrence, message: ChatMessage, item: DueItem
    ) -> SentinelDelivery:
        removal = remove_reminder(job, occurrence.id) if isinstance(job, Reminder) else None
        return cls(message, item, claim_facts(job), removal)

    def tried(self, channels: Iterable[str], at: datetime) -> SentinelDelivery:
        """The delivery before it is sent on these channels; an earlier try stays."""
        begun = {name: self.tries.get(name, NOT_TRIED) for name in channels}
        begun = {name: replace(one, tried_at=one.tried_at or at) for name, one in begun.items()}
        return replace(self, tries={**self.tries, **begun})

    def arrived(self, channel: str, ref: str) -> SentinelDelivery:
        through = self.through if channel in self.through else (*self.through, channel)
        return replace(self, tries={**self.tries, channel: ChannelTry(ref=ref)}, through=through)

    def absent(self, channel: str) -> SentinelDelivery:
        """The delivery after a try that certainly did not bring it."""
        return replace(self, tries={**self.tries, channel: NOT_TRIED})

    def missing(self, channels: Iterable[str]) -> list[str]:
        """Those of the channels on which it has not surely arrived."""
        return [name for name in channels if not self.tries.get(name, NOT_TRIED).ref]

    @property
    def occurrence(self) -> Occurrence:
        return Occurrence.parse(self.message.occurrence)


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
    tx: Transaction, one: DueDelivery, wanted: SentinelDelivery, heartbeat: datetime, zone: tzinfo
) -> bool:
    """Claim the occurrence, and add its message to the log; False if it is not owed.

    An occurrence that the bot had claimed is left to the bot to end. A channel with a try looks
    for the message before it sends it.
    """
    if not is_owed(tx, one, tx.now, zone):
        return False
    _arm(tx, one.job, heartbeat, zone)
    _enter(tx, wanted)
    return True


def _arm(tx: Transaction, job: ScheduledJob, heartbeat: datetime, zone: tzinfo) -> None:
    """Record the definition, if the bot has not seen it, so that the ledger knows the cause."""
    armed, key = tx.ledger.armed(), key_of(job)
    if armed.rostered is not None:
        known = {key: armed.jobs[key]} if key in armed.jobs else {}
        wanted = [Definition.of(job, zone)]
        since = min(heartbeat.astimezone(UTC), tx.now.astimezone(UTC))
        tx.ledger.append(*Armed(known, tx.now).rows_for(wanted, tx.now, since))


def _enter(tx: Transaction, one: SentinelDelivery) -> None:
    occurrence = one.occurrence
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


def end_delivery(tx: Transaction, one: SentinelDelivery) -> None:
    """Record how far the delivery came, and have the bot tell of it when it runs again.

    What a channel had confirmed before is not told: the sentinel only added another channel.
    """
    message_id, occurrence = one.message.id, one.occurrence
    was_met = tx.deliveries.is_confirmed(message_id)
    for channel, tried in one.tries.items():
        if tried.ref:
            tx.deliveries.note_received(channel, message_id, [tried.ref])
        elif tried.tried_at is None:
            tx.deliveries.note_absent(channel, message_id)
    if tx.ledger.story(occurrence).delivery is None:
        facts = {BY: SENTINEL, THROUGH: [*one.through]}
        tx.ledger.append(LedgerRow(tx.now, DELIVERED, occurrence, facts))
    if one.removal is not None:
        tx.job_ops.add(one.removal)
    if one.item.shown == 1 and not was_met:
        _tell(tx, one)


def _tell(tx: Transaction, one: SentinelDelivery) -> None:
    """Leave the notice of a delivery; one that has arrived is no longer in doubt."""
    title, now = one.item.short_title, tx.now.astimezone(one.message.at.tzinfo)
    name, doubt = f"sentinel-{one.message.id}", f"sentinel-doubt-{one.message.id}"
    if one.through:
        sentence = brought(title, one.message.at, now)
        tx.notices.change(lambda record: record.withdrawn(doubt))
        tx.updates.change(lambda pending: pending.without({doubt}))
    else:
        name, sentence = doubt, not_brought(title, one.item.due, now)
    notice = new_notice(sentence, key=name, for_reminder=True)
    leave_notice(tx, replace(notice, id=name), tx.now)


def times_to_come(tx: Transaction, until: datetime) -> list[tuple[datetime, DueItem]]:
    """The open items that must come, and when they are shown again, up to that moment."""
    found = [(each.again_at, each) for each in tx.due_items.to_come_again()]
    return [
        (at, item)
        for at, item in found
        if at is not None and at <= until and item.is_open and item.as_reminder.must
    ]


def begin_again(
    tx: Transaction, key: str, footer: str, channels: Iterable[str]
) -> SentinelDelivery | None:
    """Add the message that shows an open item again; None if it is not due or is answered."""
    item = tx.due_items.get(key)
    if item is None or not item.is_open or item.again_at is None or item.again_at > tx.now:
        return None
    item = skip_passed(tx, item, tx.now)
    time = planned_time(tx, item)
    if time is None or item.nag is None or item.again_at is None:
        return None
    shown = replace(item, shown=item.shown + 1)
    message = card_message(shown, time, tx.now.astimezone(item.due.tzinfo), footer)
    tx.messages.add(message)
    tries = {name: ChannelTry(tx.now) for name in channels}
    for name in tries:
        tx.deliveries.require(name, message.id, (), tx.now)
    done = {"job": item.title, **PLAINLY, BY: SENTINEL}
    tx.ledger.append(LedgerRow(tx.now, OccurrenceState.DONE.value, time, done))
    since = tx.now if is_late(item.again_at, tx.now) else item.again_at
    after = plan_next(tx, shown, since + item.nag.pause)
    bring_card(tx, after, message.id)
    return SentinelDelivery(message, after, {}, tries=tries)


def unfinished_deliveries(tx: Transaction, channels: Collection[str]) -> list[SentinelDelivery]:
    """The messages of open items that must come and have not arrived on each of the channels.

    A crash came between the commit and the sending, or a channel could not be reached.
    """
    waiting = {
        name: {each.message.id: each for each in tx.deliveries.open(name, _MOST_OPEN)}
        for name in channels
    }
    found: list[SentinelDelivery] = []
    for item in tx.due_items.open():
        message = tx.messages.get(item.card)
        if message is None or not message.occurrence or not item.as_reminder.must:
            continue
        tries = {
            name: ChannelTry(known[message.id].tried_at)
            for name, known in waiting.items()
            if message.id in known
        }
        told = tx.ledger.story(Occurrence.parse(item.occurrence)).delivery
        is_waiting = bool(tries) if channels else told is None
        if is_waiting:
            found.append(SentinelDelivery(message, item, {}, tries=tries, through=_ways(told)))
    return found


def _ways(told: Mapping[str, object] | None) -> tuple[str, ...]:
    """The ways by which the sentinel has reached the owner, or the log if the bot wrote it."""
    if told is None:
        return ()
    through = told.get(THROUGH) if told.get(BY) == SENTINEL else ["log"]
    return tuple(map(str, through)) if isinstance(through, list) else ()


def may_send(tx: Transaction, channel: str, message_id: MessageId) -> bool:
    """Note a try of a message that waits; False if it has arrived since."""
    known = tx.deliveries.get(channel, message_id)
    if known is None or known.state is not DeliveryState.OPEN:
        return False
    tx.deliveries.require(channel, message_id, (), known.tried_at or tx.now)
    return True


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
        self._refused: tuple[int, int] | None = None

    def read(self) -> Deliveries:
        """The deliveries. Raises `Unreadable`."""
        return self._file.read()

    def put(self, one: SentinelDelivery) -> None:
        """Keep a delivery, or how far it came. Raises `StorageError`."""

        def changed(known: Deliveries) -> tuple[Deliveries, None]:
            others = tuple(each for each in known if each.message.id != one.message.id)
            return (*others, one), None

        self._file.transact(changed)

    def give_to(self, database: Backend) -> bool:
        """Move what is in the file into the database; False if there is nothing, or it failed.

        A failure leaves the file for later.
        """
        mark = self._mark()
        if mark is None or mark == self._refused:
            return False
        try:
            self._file.transact(lambda known: ((), database.run(lambda tx: _take_over(tx, known))))
            return True
        except NewerFormat:
            self._refused = mark
            self._file.read()  # reports it
        except StorageError:
            _logger.warning("What the sentinel has delivered waits", exc_info=True)
        return False

    def _mark(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


def _take_over(tx: Transaction, known: Deliveries) -> None:
    for one in known:
        _enter(tx, one)
        end_delivery(tx, one)

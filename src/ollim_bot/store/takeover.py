"""Imports the facts of an older version's `memory.json` into the records that replace them.

A fact of a wrong type counts as missing. Facts without a record are kept as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.cards import LIVE_FOR
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.due_items import DONE, DueItem, open_card, reminder_from, root_in
from ollim_bot.domain.inbox import Inbox, InboxRow, OwnerMessage
from ollim_bot.domain.initiative import SetByAgent
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.notices import Notice, NoticeRecord
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.outgoing import NotSent, Outbox, OutboxRow, Sending
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.provider import ProviderMemory
from ollim_bot.domain.schedule import GivenNames, Grants, Skips
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.surface_state import DiscordState, WebState, is_ref
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, UnsuitableFile, read_file, unsuitable_file
from ollim_bot.ports import Disk
from ollim_bot.store.codecs.plain import LineCodec
from ollim_bot.store.codecs.records import (
    CHAT_MESSAGES,
    INBOX_ROWS,
    LEDGER_ROWS,
    MEMORY,
    OUTBOX_ROWS,
)
from ollim_bot.store.file_store import FormatIsNewer, Malformed, StoreProblem, set_aside
from ollim_bot.store.files import PRIVATE, rename_durably, write_atomically
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.messages import MAIN, Sender
from ollim_bot.store.records import HISTORY_FILE, MIRRORED
from ollim_bot.store.steps import leave_update
from ollim_bot.store.transaction import Transaction

Facts = Mapping[str, object]

_KNOWN = {
    *("provider", "parked", "untried", "moving", "user_name", "bot_name", "web_read"),
    *("discord_last_seen", "discord_commands", "discord_drafts", "heartbeat"),
    *("running_since", "stopped", "cut_off_at", "told", "last_told_at", "untold"),
    *("skips", "granted", "set_in_background"),
}


def import_facts(tx: Transaction, facts: Facts) -> None:
    """Put each fact into its record, and finish a change of the provider that had begun."""
    tx.presence.put(_presence(facts))
    tx.names.put(GivenNames(_text(facts.get("user_name")), _text(facts.get("bot_name"))))
    tx.grants.put(Grants(tuple(_texts(facts.get("granted")))))
    tx.skips.put(Skips(_moments(facts.get("skips"))))
    tx.initiative.put(_initiative(facts))
    tx.web.put(WebState(_message(facts.get("web_read"))))
    tx.discord.put(_discord(facts))
    _import_provider(tx, facts)
    _import_notices(tx, facts)
    tx.memory.put({name: value for name, value in facts.items() if name not in _KNOWN})


def heartbeat_of(facts: Facts) -> datetime | None:
    """When the bot was last known to run."""
    return _moment(facts.get("heartbeat"))


def _presence(facts: Facts) -> Presence:
    return Presence(
        _moment(facts.get("running_since")),
        facts.get("stopped") == "restart",
        _moment(facts.get("cut_off_at")),
    )


def _discord(facts: Facts) -> DiscordState:
    seen = _text(facts.get("discord_last_seen")) or ""
    drafts = dict.fromkeys(each for each in _texts(facts.get("discord_drafts")) if is_ref(each))
    return DiscordState(
        seen if is_ref(seen) else None, _text(facts.get("discord_commands")), tuple(drafts)
    )


def _initiative(facts: Facts) -> SetByAgent:
    stored = facts.get("set_in_background")
    pairs = (dict(_mapping(each)) for each in (stored if isinstance(stored, list) else ()))
    entries = ((_text(each.get("run")) or "", _day(each.get("day"))) for each in pairs)
    return SetByAgent(tuple((run, day) for run, day in entries if day))


def _import_provider(tx: Transaction, facts: Facts) -> None:
    parked = {kind: _session(value) for kind, value in _mapping(facts.get("parked"))}
    current = _text(facts.get("provider"))
    move = dict(_mapping(facts.get("moving")))
    if to := _text(move.get("to")):
        current = to
        tx.session.put(_session(move.get("next")))
    known = {kind: session for kind, session in parked.items() if session}
    tx.provider.put(ProviderMemory(current, known, facts.get("untried") is True))


def _import_notices(tx: Transaction, facts: Facts) -> None:
    stored = facts.get("untold")
    entries = [dict(_mapping(each)) for each in (stored if isinstance(stored, list) else ())]
    notices = [_notice(each) for each in entries]
    last = _moment(facts.get("last_told_at"))
    tx.notices.put(NoticeRecord(_moments(facts.get("told")), last, tuple(notices)))
    for notice, entry in zip(notices, entries, strict=True):
        if entry.get("is_owed") is True:
            leave_update(tx, PendingUpdate(tx.now, notice.text, notice.id))


def _notice(entry: Mapping[str, object]) -> Notice:
    name, key, text = (str(entry.get(field, "")) for field in ("id", "key", "text"))
    return Notice(name, key, text)


def _mapping(value: object) -> Iterable[tuple[str, object]]:
    return value.items() if isinstance(value, Mapping) else ()


def _moments(value: object) -> Mapping[str, datetime]:
    moments = {key: _moment(each) for key, each in _mapping(value)}
    return {key: moment for key, moment in moments.items() if moment}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> list[str]:
    return [each for each in (value if isinstance(value, list) else ()) if isinstance(each, str)]


def _message(value: object) -> MessageId | None:
    text = _text(value)
    return None if text is None else MessageId(text)


def _session(value: object) -> SessionId | None:
    text = _text(value) or ""
    return SessionId(text) if re.fullmatch(r"[!-~]{1,200}", text) else None


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(_text(value) or "")
    except ValueError:
        return None


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(value) or "")
    except ValueError:
        return None
    return None if moment.utcoffset() is None else moment


BEFORE = "before-0.8"

_DISCORD = "discord"
_MARK = "takeover"
_MOVING, _DONE = "moving", "done"

T = TypeVar("T")


class TakeOverFailed(StorageError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            path, f"could not be taken over into the database: {reason}. Nothing was changed."
        )


class TakeOver:
    """Imports the files of an older version in one transaction, then moves the files away."""

    def __init__(
        self,
        paths: DataPaths,
        disk: Disk,
        report: Callable[[StoreProblem], None],
    ) -> None:
        self._paths = paths
        self._disk = disk
        self._report = report

    def originals(self) -> list[Path]:
        """The existing files that the database replaces."""
        state = self._paths.state
        logs = [*_segments(self._paths.ledger), *_segments(self._paths.messages)]
        others = [self._paths.inbox, self._paths.outbox, self._paths.memory]
        return [path for path in (*logs, *others) if path.parent == state and path.exists()]

    def back_up_mirrors(self) -> None:
        """Keep copies of the files that stay in use, as they were before the import."""
        for name in (*(spec.file for spec in MIRRORED), HISTORY_FILE):
            source = self._paths.state / name
            # A file that must not be read is set aside when the mirrors are reconciled.
            if source.is_file() and not unsuitable_file(source, SizeLimit.LOG):
                self._back_up(source)

    def _back_up(self, source: Path) -> None:
        copy = self._target() / source.name
        if not copy.exists():
            write_atomically(self._disk, copy, read_file(source, SizeLimit.LOG), PRIVATE)

    def run(self, tx: Transaction) -> None:
        """Import everything; raise `TakeOverFailed` unless the database equals the files."""
        ledger = self._lines(self._paths.ledger, LEDGER_ROWS)
        messages = _last_of_each(self._lines(self._paths.messages, CHAT_MESSAGES))
        outbox_rows = self._lines(self._paths.outbox, OUTBOX_ROWS)
        inbox = self._lines(self._paths.inbox, INBOX_ROWS)
        self._import_memory(tx)
        tx.ledger.append(*ledger)
        tx.inbox.append(*inbox)
        self._import_messages(tx, messages, outbox_rows)
        _show_accepted(tx)
        tx.meta.put(_MARK, _MOVING)
        self._compare_ledger(tx, ledger)
        self._compare_inbox(tx, inbox)

    def is_moving(self, tx: Transaction) -> bool:
        """Whether the files are imported and still to be moved away."""
        return tx.meta.get(_MARK) == _MOVING

    def put_away(self) -> None:
        """Move the originals to their folder; repeatable after a crash."""
        for path in self.originals():
            rename_durably(self._disk, path, self._target() / path.name)

    def finish(self, tx: Transaction) -> None:
        tx.meta.put(_MARK, _DONE)

    def report_left_over(self) -> None:
        """Report files that an older version wrote after the import: they are not read."""
        for path in self.originals():
            self._report(
                StoreProblem(
                    path,
                    "was written by an older ollim-bot after its state was taken over. "
                    "It is not read; it stays as it is.",
                )
            )

    def _target(self) -> Path:
        target = self._paths.state / BEFORE
        try:
            target.mkdir(mode=0o700, exist_ok=True)
        except OSError as refused:
            raise WriteFailed(target, f"could not be made: {refused.strerror}.") from refused
        return target

    def _lines(self, path: Path, codec: LineCodec[T]) -> list[T]:
        entries: list[T] = []
        bad = 0
        for segment in _segments(path):
            for line in filter(bytes.strip, self._content(segment).split(b"\n")):
                try:
                    entries.append(codec.decode(line))
                except Malformed:
                    bad += 1
        if bad:
            counted = "1 line" if bad == 1 else f"{bad} lines"
            kept = f"The file is kept in state/{BEFORE}/."
            self._report(StoreProblem(path, f"{counted} could not be read. {kept}"))
        return entries

    def _content(self, path: Path) -> bytes:
        try:
            return read_file(path, SizeLimit.LOG)
        except FileNotFoundError:
            return b""
        except UnsuitableFile as unfit:
            self._report(set_aside(self._disk, path, unfit.reason))
            return b""
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise Unreadable(path, f"is there but cannot be read: {reason}.") from refused

    def _import_memory(self, tx: Transaction) -> None:
        content = self._content(self._paths.memory)
        if not content:
            return
        try:
            facts, _ = MEMORY.decode(content)
        except Malformed as malformed:
            self._report(set_aside(self._disk, self._paths.memory, str(malformed)))
        except FormatIsNewer:
            raise TakeOverFailed(self._paths.memory, "a newer version wrote it") from None
        else:
            import_facts(tx, facts)
            if moment := heartbeat_of(facts):
                HeartbeatFile(self._paths, self._disk).write(moment)

    def _import_messages(
        self, tx: Transaction, messages: dict[MessageId, ChatMessage], rows: Sequence[OutboxRow]
    ) -> None:
        outbox = Outbox.of(rows)
        senders = {each.message.id: _sender(each) for each in outbox.open}
        for message in messages.values():
            tx.messages.add(message, senders.get(message.id, MAIN))
        for message in messages.values():
            for channel, refs in message.refs.items():
                if refs:
                    tx.deliveries.note_received(channel, message.id, refs.split())
        channels = {name for message in messages.values() for name in message.refs}
        if outbox.tries:
            channels.add(_DISCORD)
        for each in outbox.open:
            tx.messages.add(each.message, _sender(each))
            for channel in sorted(channels):
                _require(tx, channel, outbox, each)
        for channel in sorted(channels):
            tx.channels.join(channel, "")
        self._settle_payments(tx, outbox)

    def _settle_payments(self, tx: Transaction, outbox: Outbox) -> None:
        for sending, failure in outbox.unsettled:
            if isinstance(failure, NotSent) and failure.refund:
                tx.budget.put(failure.refunded(sending, tx.budget.get(), tx.now))
            reason = failure.reason if isinstance(failure, NotSent) else "It may not have arrived."
            self._report(StoreProblem(self._paths.outbox, f"a message was not sent: {reason}"))
        for sending in outbox.open:
            if sending.payment:
                tx.budget.put(sending.paid(tx.budget.get(), tx.now))

    def _compare_ledger(self, tx: Transaction, rows: Sequence[LedgerRow]) -> None:
        taken, _ = tx.ledger.page(0, len(rows) + 1)
        if taken != list(rows) or check(taken, tx.now) != check(rows, tx.now):
            raise TakeOverFailed(self._paths.ledger, "the database says something else")

    def _compare_inbox(self, tx: Transaction, rows: Sequence[InboxRow]) -> None:
        taken, wanted = tx.inbox.get(), Inbox.of(rows)
        is_same = taken.accepted == wanted.accepted and taken.running == wanted.running
        if not is_same or taken.tools != wanted.tools:
            raise TakeOverFailed(self._paths.inbox, "the database says something else")


def take_over_cards(tx: Transaction) -> None:
    """Make due items of the reminders that wait for an answer on a card of an older version.

    Behind their buttons was the key of a note among the prompts.
    """
    notes = {each.key: each.prompt for each in tx.inquiries.get().waiting}
    for logged in tx.messages.since(tx.now - timedelta(seconds=LIVE_FOR)):
        message = logged.message
        key = _open_key(message)
        # A note that was edited by hand may be anything.
        with suppress(ValueError, KeyError, TypeError):
            if key in notes:
                _take_over_card(tx, message, notes[key])
                tx.inquiries.change(lambda known, key=key: known.without({key}))  # type: ignore[misc]


def _open_key(message: ChatMessage) -> str:
    """The key behind the button Done, if it can be pressed."""
    buttons = message.card.buttons if message.card is not None else ()
    open_ones = (each.data for each in buttons if each.action == DONE and not each.is_used)
    return next(open_ones, "")


def _take_over_card(tx: Transaction, message: ChatMessage, note: str) -> None:
    due = Occurrence.parse(message.occurrence).scheduled_at or message.at
    reminder = reminder_from(note, root_in(note), due)
    local = due.astimezone(tx.now.tzinfo)
    item = DueItem(message.occurrence, reminder.spec.title, local, note, message.id)
    if message.card is not None and tx.due_items.add(item):
        card = replace(message.card, buttons=open_card(item, tx.now).buttons)
        tx.messages.add(replace(message, card=card, job=message.job or item.short_title))


def _segments(path: Path) -> list[Path]:
    """The files of a log that was rotated by month, oldest first."""
    form = re.compile(rf"{re.escape(path.stem)}-\d{{4}}-\d\d(-\d+)?{re.escape(path.suffix)}")
    found: list[Path] = []
    with suppress(FileNotFoundError):
        found = [each for each in path.parent.iterdir() if form.fullmatch(each.name)]
    length = len(path.stem) + len("-2026-11")
    in_order = sorted(found, key=lambda each: (each.name[:length], len(each.name), each.name))
    return [*in_order, path]


def _last_of_each(messages: Sequence[ChatMessage]) -> dict[MessageId, ChatMessage]:
    """The last version of each message, in the order of the first versions."""
    return {message.id: message for message in messages}


def _show_accepted(tx: Transaction) -> None:
    """Log the owner's messages that a crash left in the inbox alone."""
    joined = {channel.name for channel in tx.channels.all()}
    for each in tx.inbox.get().accepted:
        if isinstance(each, OwnerMessage) and tx.messages.get(MessageId(each.id)) is None:
            tx.messages.add(each.as_message())
            if each.surface in joined:
                tx.deliveries.note_received(each.surface, MessageId(each.id), ())


def _sender(sending: Sending) -> Sender:
    return Sender(sending.charge, sending.fork, sending.parent)


def _require(tx: Transaction, channel: str, outbox: Outbox, sending: Sending) -> None:
    tried = outbox.last_try(sending.message.id) if channel == _DISCORD else None
    if tried is None:
        tx.deliveries.require(channel, sending.message.id)
    else:
        tx.deliveries.require(channel, sending.message.id, tried.refs, tried.at)

"""Steps that several parts of the program use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from uuid import uuid4

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.settings import PHONE
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.store.change_rows import note_settings
from ollim_bot.kernel.store.records import RECORDS
from ollim_bot.kernel.store.search_index import can_index
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.cards import ButtonPrompt
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.definitions import holder_among
from ollim_bot.kernel.values.digest import HeldMessage, HeldMessages
from ollim_bot.kernel.values.due_items import NO_CARD, DueItem, delivery_id
from ollim_bot.kernel.values.forgetting import Passage
from ollim_bot.kernel.values.forks import ForkStory, end_id, entry_id, fork_of
from ollim_bot.kernel.values.initiative import Setter
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.notices import Notice, failing_key, outage_over
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.permissions import Grants
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.run_history import (
    ARMED,
    CUT_SHORT,
    DROPPED,
    EFFECT,
    HELD,
    NEWER_CAME,
    ROSTER,
    RunStory,
)
from ollim_bot.kernel.values.run_words import REACHED_AT
from ollim_bot.kernel.values.runs import Run
from ollim_bot.kernel.values.runtime_config import PushWhat, RuntimeConfig
from ollim_bot.kernel.values.sessions import ClearedConversation
from ollim_bot.kernel.values.taint import CarefulSession, Taint, marked_taint
from ollim_bot.kernel.values.updates import PendingUpdate
from ollim_bot.kernel.values.usage import micros

_LONGEST_SAID = 200
_LOOKED_AT = 10
_ALL = 2**62
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
# What a stop of the bot writes about an attempt, without its cost, which counts once.
_OF_CUT_OFF = (
    *("started", "ended", "session", "pings", "refused_pings", "report", "tools", "subagents"),
    "untrusted",
)

_SCHEDULED = frozenset(kind.value for kind in JobKind if kind.has_moments)


def leave_update(tx: Transaction, update: PendingUpdate) -> None:
    """Leave an update for the main session.

    Updates beyond the cap stay readable in the ledger. An id that is already pending is not left a
    second time.
    """
    pending = tx.updates.get()
    if any(entry.id == update.id for entry in pending.entries):
        return
    after, dropped = pending.appended(update)
    tx.updates.put(after)
    for old in dropped:
        mark = {"untrusted": old.untrusted} if old.untrusted else {}
        facts = {"message": old.message, **mark}
        tx.ledger.append(LedgerRow(update.ts, "update_dropped", facts=facts))


def new_notice(sentence: str, *, key: str | None = None, for_reminder: bool = False) -> Notice:
    """`key` identifies what must not be told again; by default it is the sentence.

    A list in it keeps its lines.
    """
    lines = (" ".join(line.split()) for line in sentence.splitlines())
    text = "\n".join(filter(None, lines))
    return Notice(uuid4().hex, key or sentence, text, for_reminder)


def leave_notice(tx: Transaction, notice: Notice, now: datetime) -> None:
    """Tell the owner and the main session, once for each key."""
    record = tx.notices.get()
    if record.knows(notice.key):
        return
    tx.notices.put(record.with_new(notice))
    # An update is one line of the prompt.
    line = " ".join(notice.text.split())
    leave_update(tx, PendingUpdate(now, line, notice.id, notice.untrusted))


def leave_failure(
    tx: Transaction, notice: Notice, job: str, now: datetime, *, is_outage: bool
) -> None:
    """Have the owner told that a job failed, unless the cause is known to them.

    An outage of the model is told with the first job that meets it; each later one is counted.
    """
    if not is_outage:
        leave_notice(tx, notice, now)
        return
    record = tx.notices.get()
    tx.notices.put(record.with_outage(job))
    if record.outage is None:
        leave_notice(tx, replace(notice, key=notice.id), now)


def note_answer(tx: Transaction, over: Notice, now: datetime) -> None:
    """The model has answered. After an outage, tell what failed; `over` has the id and key."""
    record = tx.notices.get()
    if record.outage is not None:
        tx.notices.put(replace(record, outage=None))
        leave_notice(tx, replace(over, text=outage_over(record.outage)), now)


def note_success(tx: Transaction, job_id: str) -> None:
    """A job has worked: it is told again if it fails, also for a reason that was told before."""
    for key in tx.notices.get().keys(failing_key(job_id)):
        tx.notices.change(lambda record, key=key: record.without(key))  # type: ignore[misc]


def new_prompt(text: str, now: datetime, untrusted: tuple[str, ...] = ()) -> ButtonPrompt:
    """`untrusted` are the sources of untrusted text read by the turn that makes the button."""
    return ButtonPrompt(os.urandom(4).hex(), text, now.timestamp(), untrusted)


def store_prompts(tx: Transaction, prompts: Sequence[ButtonPrompt]) -> None:
    """Keep the prompts behind the buttons of a message that is added in the same step."""
    for prompt in prompts:
        tx.inquiries.change(lambda known, prompt=prompt: known.stored(prompt))  # type: ignore[misc]


def reached_cost_cap(tx: Transaction, more: float = 0.0) -> float | None:
    """The daily cap in dollars, if today has cost as much, with `more` that is not noted yet."""
    midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
    cap = tx.config.get().daily_cost_cap
    is_reached = cap is not None and tx.usage.cost_since(midnight) + micros(more) >= micros(cap)
    return cap if is_reached else None


def cap_facts(tx: Transaction) -> dict[str, object]:
    """The fact of a run that the daily cap keeps from running: when the cap was reached."""
    midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
    cap = tx.config.get().daily_cost_cap
    reached = None if cap is None else tx.usage.reached_at(midnight, micros(cap))
    return {} if reached is None else {REACHED_AT: reached.isoformat()}


def known_deeds(tx: Transaction, story: RunStory) -> dict[str, object]:
    """What is known of the last attempt of an occurrence that was cut off; empty without one.

    The row of an attempt that could still write one has its cost; else that is not known.
    """
    places = [place for place, row in enumerate(story.rows) if row.state == OccurrenceState.RUNNING]
    if not places:
        return {}
    begun, since = story.rows[places[-1]], story.rows[places[-1] :]
    written = next((row.facts for row in since if row.state == OccurrenceState.CUT_OFF), {})
    effects = [row.facts for row in since if row.state == EFFECT]
    logged = (each.message for each in tx.messages.of_occurrence(story.occurrence.id))
    by_program = delivery_id(story.occurrence)
    said = [
        each
        for each in logged
        if each.author is Author.BACKGROUND and each.at >= begun.ts and each.id != by_program
    ]
    waiting = [row.facts.get("message") for row in since if row.state == HELD]
    read = [str(each.get("untrusted") or "") for each in effects]
    read += [each.untrusted.source for each in said if each.untrusted is not None]
    sessions = [*(each.session for each in said), *(each.get("session") for each in effects)]
    due = story.occurrence.scheduled_at
    facts: dict[str, object] = {
        "started": begun.ts.isoformat(),
        "lateness": 0 if due is None else max(0, int((begun.ts - due).total_seconds())),
        "attempts": story.attempts,
        "session": next(filter(None, sessions), None),
        "pings": list(dict.fromkeys([*(each.id for each in said), *waiting])),
        "report": " ".join(str(each["report"]) for each in effects if each.get("report")),
        "tools": list(dict.fromkeys(str(each["tool"]) for each in effects if each.get("tool"))),
        "untrusted": marked_taint(",".join(dict.fromkeys(read))).mark,
    }
    known = {name: value for name, value in facts.items() if value not in (None, "", [], 0)}
    known |= {name: written[name] for name in _OF_CUT_OFF if name in written}
    return known if known.get("pings") else {**known, "silent_because": CUT_SHORT}


def pushed_to_phone(tx: Transaction) -> PushWhat | None:
    """What rings on the owner's phone; None if none is paired."""
    is_paired = any(each.name == PHONE for each in tx.channels.all())
    return PushWhat(tx.config.get().push_what) if is_paired else None


def quiet_settings(tx: Transaction, zone: tzinfo | None = None) -> QuietSettings:
    """When it is quiet, for `is_quiet` and `quiet_until`.

    `zone` is the owner's; the default is the zone of the transaction, which is right in the bot.
    """
    hours = tx.config.get().quiet_hours
    zone = zone or tx.now.tzinfo
    assert zone is not None
    parsed = None if hours is None else QuietHours.parse(hours)
    return QuietSettings(zone, parsed, tx.quiet.get())


def hold(tx: Transaction, held: HeldMessage, until: datetime) -> None:
    """Keep a message for the digest at the end of the quiet."""
    message, before = held.message, tx.held.get()
    after = before.with_new(held)
    tx.held.put(after)
    for each in before.waiting:
        if not after.has(each.message.id):
            note_dropped(tx, each.message, NEWER_CAME)
    if message.occurrence:
        said = shortened(" ".join(message.text.split()), _LONGEST_SAID)
        facts = {"message": message.id, "text": said, "until": until.isoformat()}
        if message.untrusted is not None:
            facts["untrusted"] = message.untrusted.source
        tx.ledger.append(LedgerRow(tx.now, HELD, Occurrence.parse(message.occurrence), facts))


def note_dropped(tx: Transaction, message: ChatMessage, why: str) -> None:
    """Note of a message that waited that it does not come; `why` is for people."""
    if message.occurrence:
        facts = {"message": message.id, "why": why}
        tx.ledger.append(LedgerRow(tx.now, DROPPED, Occurrence.parse(message.occurrence), facts))


def drop_all_waiting(tx: Transaction, why: str) -> tuple[HeldMessage, ...]:
    """Let nothing come of what waits, and return it; an open item stays open, without a card."""
    waiting = tx.held.get().waiting
    tx.held.put(HeldMessages())
    for each in waiting:
        item = tx.due_items.get(each.item) if each.item else None
        if item is not None:
            forget_message(tx, item, each.message.id)
        note_dropped(tx, each.message, why)
    return waiting


def forget_message(tx: Transaction, item: DueItem, message_id: MessageId) -> None:
    """Note in the item that a message which waited does not come."""
    card = NO_CARD if item.card == message_id else item.card
    waiting = None if item.waiting == message_id else item.waiting
    tx.due_items.put(replace(item, card=card, waiting=waiting))


def was_held(tx: Transaction, message: ChatMessage) -> bool:
    """Whether the message waits, or a digest has brought it."""
    if tx.held.get().has(message.id):
        return True
    if not message.occurrence:
        return False
    rows = tx.ledger.story(Occurrence.parse(message.occurrence)).held
    return any(row.facts.get("message") == message.id for row in rows)


def change_provider(tx: Transaction, kind: str) -> None:
    """Make `kind` the current provider, and return to the session that it had last."""
    memory, session = tx.provider.get().moved_to(kind, tx.session.get())
    tx.provider.put(memory)
    tx.session.put(session)


def was_a_job_set(tx: Transaction) -> bool:
    """Whether a job of the clock is known, or was the last job to become known."""
    newest, roster = tx.ledger.newest(ARMED), tx.ledger.newest(ROSTER)
    listed = roster.facts.get("jobs") if roster else None
    known = [newest.facts if newest else {}, *(listed if isinstance(listed, list) else ())]
    return any(each.get("kind") in _SCHEDULED for each in known)


def story_of_fork(tx: Transaction, session: SessionId) -> ForkStory | None:
    """The story of the fork with this session; None if its cards are not known."""
    fork = tx.fork.get()
    is_open = fork is not None and fork.session == session
    own = tx.messages.get(entry_id(fork.id)) if fork is not None and is_open else None
    entry = own or tx.messages.entry_of_fork(session)
    if entry is None or entry.card is None:
        return None
    end = tx.messages.get(end_id(fork_of(entry.id)))
    said = (each.message for each in tx.messages.of_session(session, _LOOKED_AT))
    typed = (each.text for each in said if each.author is Author.OWNER and each.untrusted is None)
    return ForkStory.of(entry.card, end.card if end else None, next(typed, ""), is_open=is_open)


def holder_of_id(tx: Transaction, rivals: Sequence[Job]) -> int:
    """Which of several jobs with one id is in use: the one that is armed, else the first."""
    return holder_among(rivals, tx.ledger.armed().marks)


def count_set(tx: Transaction, setter: Setter, today: date) -> str:
    """Count one more job set by a background run; returns a reason if it is refused.

    `today` is the owner's date. The count holds across processes and restarts.
    """
    return tx.initiative.take(lambda known: known.one_more(setter, today))


def count_in_tainted_turn(tx: Transaction, today: date) -> str:
    """As `count_set`, for a reminder that the running turn sets after reading untrusted text."""
    running = tx.inbox.get().running
    turn = f"turn {running.turn if running else ''}"
    return tx.initiative.take(lambda known: known.one_more_in_turn(turn, today))


def standing_taint(tx: Transaction, called_by: str = CONVERSATION) -> Taint:
    """What the session has read that calls: a run, or that in which the conversation goes on."""
    if called_by != CONVERSATION:
        return Taint(tx.marks.of(SessionId(called_by)))
    careful = careful_session(tx)
    return Taint(careful.sources if careful else ())


def careful_session(tx: Transaction) -> CarefulSession | None:
    """The session in which the conversation goes on, if it has read words of others."""
    fork = tx.fork.get()
    session = tx.session.get() if fork is None else fork.session or fork.parent
    careful = tx.marks.of_session(session)
    if careful is None:
        return None
    return CarefulSession(session, marked_taint(careful.source).sources, careful.since)


def end_careful(tx: Transaction, session: SessionId | None) -> None:
    """The owner has spoken in the session, in words or with the button."""
    tx.marks.end(session)


def note_reading(tx: Transaction, run: Run) -> None:
    """Record what the run has read, for all that goes on from its session.

    In the conversation, the echo of later changes names it too.
    """
    if run.session is not None:
        in_turn = not run.policy.kind.is_background
        # The commands of a run know it by its occurrence only.
        for name in (run.session, *([] if in_turn else [SessionId(run.called_by)])):
            tx.marks.read(name, run.taint.sources, in_turn=in_turn)


def note_agent_skills(tx: Transaction, job: str, skills: Sequence[str]) -> None:
    """Record that the agent names these skills in the job with that key."""
    tx.agent_skills.change(lambda known: known.adding(job, skills))


def carry_agent_skills(tx: Transaction, reminder: str, copy: str) -> None:
    """Let the copy of a reminder, which is made to come later, be judged as the reminder is."""
    known = tx.agent_skills.get()
    if skills := known.of_job(f"{JobKind.REMINDER}:{reminder}"):
        tx.agent_skills.put(known.adding(f"{JobKind.REMINDER}:{copy}", sorted(skills)))


def set_by_owner(tx: Transaction, by: Changer, key: str, value: object) -> RuntimeConfig:
    """Change a setting, and keep who did it. Raises `WrongInput` if the value is invalid."""
    before = tx.config.get()
    after = tx.config.change(lambda config: config.with_value(key, value))
    note_settings(tx.changes, before, after, by, tx.now)
    return after


def end_clear_undo(tx: Transaction) -> None:
    """Take the Undo from the note of the last `/clear`, if it has one."""
    cleared = tx.cleared.get()
    note = tx.messages.get(MessageId(cleared.note)) if cleared.note else None
    if note is not None and note.card is not None:
        tx.messages.add(replace(note, card=note.card._replace(buttons=())))
    tx.cleared.put(ClearedConversation())
    tx.cleared_fork.put(None)
    tx.cleared_grants.put(Grants())


def forget_words(tx: Transaction, passage: Passage) -> None:
    """Replace the words in every row, and make the search index again.

    Raises `Malformed` if the program could not read its own rows afterwards.
    """
    tx.texts.forget(passage)
    tx.marks.forget(passage)
    tx.messages.prepare_search(is_supported=can_index())
    for spec in RECORDS:
        spec.__get__(tx, Transaction).get()
    tx.inbox.get()
    tx.ledger.page(0, _ALL)
    tx.due_items.due_since(_EARLIEST)
    tx.messages.after(0, _ALL)

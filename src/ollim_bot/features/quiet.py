"""Posts the digest after the quiet, keeps its lines up to date, and answers its buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta

from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.moments import describe, duration_in_words, elapsed, later
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.changes.item_answers import ask_by
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, Uses, refusable
from ollim_bot.kernel.conversation.delivery import record_fork_message
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.schedule.day_receipts import receipt_for
from ollim_bot.kernel.store.message_log import Sender
from ollim_bot.kernel.store.steps import forget_message, note_dropped, quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import Argument, CommandAnswer, slash_command
from ollim_bot.kernel.values.digest import (
    SHOW_HELD,
    TURN_PAGE,
    Digest,
    HeldMessage,
    HeldMessages,
    line_of,
)
from ollim_bot.kernel.values.due_items import (
    SNOOZE,
    DueItem,
    passed_card,
    settled_card,
    settling_buttons,
)
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.item_messages import card_message
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import is_moment, parse_moment
from ollim_bot.kernel.values.pings import Charge
from ollim_bot.kernel.values.quiet import QUIET, QuietChoice, ended_now, is_quiet, quiet_until
from ollim_bot.kernel.values.receipts import told_day
from ollim_bot.kernel.values.run_history import NEWER_CAME, RELEASED
from ollim_bot.kernel.values.taint import Untrusted, marked_taint

_HEADLINE = "While it was quiet"
_WITH_OTHERS = "messages that waited, some of them written after reading untrusted text"


def add_digest(tx: Transaction, poster: MessagePoster, now: datetime) -> None:
    """Add everything that waits for the end of the quiet to the log, as one message.

    What was answered meanwhile is left out.
    """
    waited = tx.held.get().waiting
    tx.held.put(HeldMessages())
    held = [each for each in (release_card(tx, one, now) for one in waited) if each is not None]
    if not held:
        return
    digest = Digest.of(held, now)
    # Before the receipt, which counts what comes now as come.
    for message in (each.message for each in held if each.message.occurrence):
        facts = {"message": message.id, "digest": digest.id}
        tx.ledger.append(LedgerRow(now, RELEASED, Occurrence.parse(message.occurrence), facts))
    if tx.config.get().receipt_in_digest:
        digest = replace(digest, receipt=receipt_for(tx, told_day(now), now, None).sentence(now))
    if digest.has_buttons:
        before = tx.digests.get()
        after = before.with_new(digest)
        tx.digests.put(after)
        for each in before.kept:
            # One that is kept no longer loses its buttons.
            old = tx.messages.get(each.id)
            if after.find(each.id) is None and old is not None and old.card is not None:
                poster.add_to_log(tx, replace(old, card=old.card._replace(buttons=())))
    # A reply to the only line leads to the session that said it.
    only = digest.entries[0] if len(digest.entries) == 1 else None
    charge = Charge.TOKEN if digest.pings else Charge.NOTHING
    sender = Sender(charge, only.fork, only.parent) if only is not None else Sender(charge)
    poster.add_to_log(tx, _drawn(tx, digest), sender)
    if len(held) == 1:
        record_fork_message(tx, held[0].message, sender)


def _drawn(tx: Transaction, digest: Digest) -> ChatMessage:
    keys = (each.item for each in digest.entries if each.item)
    items = {key: item for key in keys if (item := tx.due_items.get(key)) is not None}
    messages = (each.message.id for each in digest.entries)
    posted = frozenset(each for each in messages if tx.messages.get(each) is not None)
    return digest_message(digest, items, posted, tx.now)


def redraw_digests(tx: Transaction, poster: MessagePoster) -> None:
    """Show in each digest what has become of its lines."""
    for digest in tx.digests.get().kept:
        _redraw(tx, poster, digest)


def _redraw(tx: Transaction, poster: MessagePoster, digest: Digest) -> None:
    message, drawn = tx.messages.get(digest.id), _drawn(tx, digest)
    if message is not None and (message.card, message.text) != (drawn.card, drawn.text):
        poster.add_to_log(tx, replace(message, text=drawn.text, card=drawn.card))


# The wall clock may be set, or the machine may sleep.
_LONGEST_SLEEP = 30.0
_CAUSES = frozenset({"held", "quiet", "config", "zone"})


class QuietWatch:
    """Shows whether it is quiet. When the quiet ends, posts everything that waited as one digest.

    The digest is posted once, and never during a turn. Its lines follow the answers to them; its
    buttons show a message that a line only names, and turn its pages.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        poster: MessagePoster,
        board: StatusBoard,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._poster = poster
        self._board = board
        self._clock = clock
        self._changed = asyncio.Event()
        self.actions: Mapping[str, Action] = {
            SHOW_HELD: Action(self._show, Uses.NOTHING),
            TURN_PAGE: Action(self._turn, Uses.NOTHING),
        }

    async def run(self) -> None:
        """Watch the clock and the settings, and the items of digests, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_answers())
            with self._store.changes(*_CAUSES, event=self._changed):
                while True:
                    self._changed.clear()
                    await self._post_or_wait()

    async def _follow_answers(self) -> None:
        """Redraw the digests whenever an item may have its answer, as long as one is kept."""
        with (
            self._store.changes("digests") as has_digest,
            self._store.changes("due_items") as has_answer,
        ):
            while True:
                has_digest.clear()
                has_answer.clear()
                digests = await self._store.read(lambda tx: tx.digests.get())
                if digests.kept:
                    await self._store.transact(lambda tx: redraw_digests(tx, self._poster))
                await (has_answer if digests.kept else has_digest).wait()

    async def _post_or_wait(self) -> None:
        now = self._clock.now()
        settings, has_waiting = await self._store.read(
            lambda tx: (quiet_settings(tx), bool(tx.held.get().waiting))
        )
        until = quiet_until(settings, now)
        await self._board.show_quiet(until)
        if until is not None:
            left = elapsed(now, until).total_seconds()
            await wait_until_set(self._changed, self._clock, min(_LONGEST_SLEEP, left))
        elif has_waiting:
            await self._state.until_idle()
            now = self._clock.now()

            def end(tx: Transaction) -> None:
                if not is_quiet(quiet_settings(tx), now):
                    add_digest(tx, self._poster, now)

            await self._store.transact(end)
        elif settings.hours is not None:
            await wait_until_set(self._changed, self._clock, _LONGEST_SLEEP)
        else:
            await self._changed.wait()

    async def _show(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        def step(tx: Transaction) -> bool:
            digest = tx.digests.get().find(message.id)
            held = None if digest is None else digest.find(button.data)
            if digest is None or held is None or tx.messages.get(held.message.id) is not None:
                return False
            # The digest has paid for it.
            sender = Sender(Charge.NOTHING, held.fork, held.parent)
            if waits_for_digest(held, tx.due_items.get(held.item) if held.item else None):
                self._poster.add_to_log(tx, held.message, sender)
            _redraw(tx, self._poster, digest)
            return True

        is_done = await self._store.transact(step)
        return CommandAnswer() if is_done else CommandAnswer(texts.BUTTON_USED, is_error=True)

    async def _turn(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        def step(tx: Transaction) -> bool:
            digest = tx.digests.get().find(MessageId(message.id))
            if digest is None or not button.data.isdecimal():
                return False
            turned = replace(digest, page=int(button.data))
            tx.digests.change(lambda known: known.changed(turned))
            _redraw(tx, self._poster, turned)
            return True

        is_done = await self._store.transact(step)
        return CommandAnswer() if is_done else CommandAnswer(texts.BUTTON_USED, is_error=True)


_LONGEST = timedelta(days=3)
_UNTIL, _FOR = "until ", "for "
_HOW_TO = "`/quiet 2h` or `/quiet until 15:00` makes it quiet for a while."
_HOW_TO_EVERY_NIGHT = "`/config quiet_hours 22:00-07:00` does so every night."
_WHAT_COMES = (
    "Reminders that must come and urgent messages still come. The rest waits, and comes in one "
    "message at the end."
)


class QuietCommands:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.actions: Mapping[str, Action] = {QUIET: refusable(self._press, Uses.ITSELF)}

    async def _press(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        now = self._clock.now()
        until = chosen_end(f"{_UNTIL}{button.data}", now)
        return CommandAnswer(await self._store.transact(lambda tx: _begun(tx, until, now)))

    @slash_command(
        70,
        "quiet",
        "Keep what can wait until later",
        Argument("how_long", "2h, until 15:00, or off", takes_rest=True),
    )
    async def quiet(self, call: CommandCall) -> str:
        """Show when it is quiet, or change it; raises `WrongInput`."""
        words, now = call.arguments.get("how_long", "").strip(), self._clock.now()
        if not words:
            return await self._store.read(lambda tx: _as_it_is(tx, now))
        if words.casefold() == "off":
            return await self._store.transact(lambda tx: _ended(tx, now))
        until = chosen_end(words, now)
        return await self._store.transact(lambda tx: _begun(tx, until, now))


def chosen_end(words: str, now: datetime) -> datetime:
    """The end of the quiet that is wanted: `2h`, `for 2h`, `until 15:00`. Raises `WrongInput`."""
    phrase = words.casefold()
    if phrase.startswith(_UNTIL) or is_moment(words, now):
        end = parse_moment(phrase.removeprefix(_UNTIL), now)
    else:
        end = later(now, parse_duration(phrase.removeprefix(_FOR)), timedelta(minutes=1))
    if elapsed(now, end) > _LONGEST + timedelta(minutes=1):
        raise WrongInput(
            f"It can be quiet for {duration_in_words(_LONGEST)} at most. "
            "`/config quiet_hours` sets hours for every day."
        )
    return end


def _begun(tx: Transaction, until: datetime, now: datetime) -> str:
    tx.quiet.put(QuietChoice(until=until))
    end = quiet_until(quiet_settings(tx), now)
    assert end is not None
    return f"Quiet until {describe(end, now)}. {_WHAT_COMES} `/quiet off` ends it."


def _ended(tx: Transaction, now: datetime) -> str:
    settings = quiet_settings(tx)
    if not is_quiet(settings, now):
        return _as_it_is(tx, now)
    tx.quiet.put(ended_now(settings, now))
    waiting = len(tx.held.get().waiting)
    follows = f" What waited follows now ({counted(waiting, 'message')})." if waiting else ""
    again = "" if settings.hours is None else f" The quiet hours {settings.hours} hold again later."
    return f"It is not quiet any more.{follows}{again}"


def _as_it_is(tx: Transaction, now: datetime) -> str:
    settings = quiet_settings(tx)
    end, waiting = quiet_until(settings, now), len(tx.held.get().waiting)
    if end is not None:
        waits = f" {counted(waiting, 'message')} waiting." if waiting else ""
        return f"Quiet until {describe(end, now)}.{waits} `/quiet off` ends it."
    if settings.hours is None:
        return f"It is not quiet. {_HOW_TO} {_HOW_TO_EVERY_NIGHT}"
    return f"It is not quiet now. The quiet hours are {settings.hours}. {_HOW_TO}"


def waits_for_digest(held: HeldMessage, item: DueItem | None) -> bool:
    """Whether it is still to be told: not if it was answered, or is asked in another place."""
    return not held.item or (item is not None and _is_live(held, item))


def digest_message(
    digest: Digest, items: Mapping[str, DueItem], posted: Set[MessageId], now: datetime
) -> ChatMessage:
    """The digest as it is now. `items` are by their keys; `posted` are the shown messages."""
    pages = digest.pages
    page = min(digest.page, len(pages) - 1)
    drawn = [_drawn_entry(each, digest, items, posted, now) for each in pages[page]]
    left = sum(map(len, pages[page + 1 :]))
    more = [f"+{left} more"] if left else [*filter(None, [digest.receipt])]
    text = "\n".join([f"{_HEADLINE}:", *(f"- {line}" for line, _ in drawn), *more])
    card = None
    if digest.has_buttons:
        lines = [*(CardLine(line) for line, _ in drawn), *map(CardLine, more)]
        numbered = enumerate(drawn, 1)
        buttons = [each._replace(line=at) for at, (_, own) in numbered for each in own]
        if page + 1 < len(pages):
            buttons.append(Button("Show the rest", TURN_PAGE, str(page + 1)))
        elif len(pages) > 1:
            buttons.append(Button("Back to the start", TURN_PAGE, "0"))
        card = Card(_HEADLINE, lines=tuple(lines), buttons=tuple(buttons))
    told = (entry.message.untrusted for entry in digest.entries)
    mark = marked_taint(",".join(each.source for each in told if each is not None)).mark
    return ChatMessage(
        digest.id,
        digest.at,
        Author.BACKGROUND,
        text,
        card=card,
        pings=digest.pings,
        untrusted=Untrusted(mark, _WITH_OTHERS) if mark else None,
    )


def _drawn_entry(
    entry: HeldMessage,
    digest: Digest,
    items: Mapping[str, DueItem],
    posted: Set[MessageId],
    now: datetime,
) -> tuple[str, Sequence[Button]]:
    """The line of the entry and its buttons."""
    item = items.get(entry.item)
    line = line_of(entry, digest.at)
    if item is not None and item.answer is not None:
        settled = settled_card(item, now)
        has_undo = item.card == entry.message.id and entry.message.id not in posted
        return settled.title, settled.buttons if has_undo else ()
    if item is not None and not _is_live(entry, item):
        return passed_card(item, entry.message.at, now).title, ()
    if entry.message.id in posted:
        return f"{line} (below)", ()
    if entry.needs_own_message:
        return line, (Button("Show", SHOW_HELD, entry.message.id),)
    if item is not None:
        return line, (*settling_buttons(item), Button("1 h", SNOOZE, f"{item.key}:1h"))
    return line, ()


def _is_live(entry: HeldMessage, item: DueItem) -> bool:
    """Whether the entry is the newest message that asks for the item."""
    return item.is_open and item.card == entry.message.id


def release_card(tx: Transaction, held: HeldMessage, now: datetime) -> HeldMessage | None:
    """What the digest tells of a message that waited; None if it is not to come.

    What was answered meanwhile, or is asked in another place, is not asked again. A message that
    asks for no item always comes.
    """
    if not held.item:
        return held
    item, message = tx.due_items.get(held.item), held.message
    if item is None or message.id not in (item.waiting, item.card):
        note_dropped(tx, message, NEWER_CAME)
        return None
    if not item.is_open:
        forget_message(tx, item, message.id)
        note_dropped(tx, message, NEWER_CAME if item.answer is None else "you had answered it")
        return None
    ask_by(tx, item, message.id)
    time = Occurrence.parse(message.occurrence)
    if not time.is_again:
        return held
    # Its words tell how long ago it was.
    return replace(held, message=replace(card_message(item, time, now), at=message.at))

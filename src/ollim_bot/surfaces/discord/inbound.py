"""Takes in the owner's messages, with their files, in order."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ollim_bot.kernel.base.clock import Backoff, Clock
from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    OllimError,
    StorageError,
    Unreachable,
    WriteFailed,
)
from ollim_bot.kernel.values.ports import ChatService, IncomingFile, IncomingMessage
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.surfaces.discord.background_tasks import FIRST_PAUSE, RecentValues, finishes_within
from ollim_bot.surfaces.discord.rendering import (
    NAME,
    DmChannel,
    Forwarded,
    OutgoingMessage,
    ReceivedMessage,
    RemoteFile,
    input_of,
    untrusted_of,
)
from ollim_bot.surfaces.discord.split import split_notice
from ollim_bot.surfaces.discord.status_line import PendingReaction
from ollim_bot.surfaces.discord.translation import DiscordFacts

MOST_BYTES = 25 * 1024 * 1024
MOST_FILES = 10
NOTHING_TO_READ = (
    "There is nothing in that message that I can read. Say it in words, or send a file."
)
NOT_TAKEN = "That message could not be taken in. Write it in other words, or on the page."
# A message that follows a command, such as `/clear`, waits this many seconds for it to finish, and
# does not wait for a longer command.
_COMMAND_FIRST = 1.0
_LONGEST_PAUSE = 60.0
_SAID_AFTER = 3
_TRIES_FOR_A_FILE = 4
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class QueuedMessage:
    """A waiting message; `seen` has its newest text."""

    seen: ReceivedMessage
    is_deleted: bool = False


class InboundQueue:
    """The queue of the owner's messages. Each message is queued once, however often it arrives.

    The first one stays in the queue until `done`. While the queue is held, since earlier messages
    are being looked for, new messages wait apart.
    """

    def __init__(self) -> None:
        self._line: list[QueuedMessage] = []
        self._apart: list[QueuedMessage] = []
        # The newest text of each message that has come, by its id.
        self._known: RecentValues[str] = RecentValues(1000)
        # Edits while the queue is held, None for a deletion: found messages may be older.
        self._changed_while_held: dict[str, str | None] = {}
        self._is_held = False
        self._is_filled = asyncio.Event()

    def knows(self, ref: str) -> bool:
        """Whether the message was queued before, among the last thousand."""
        return ref in self._known

    def add(self, seen: ReceivedMessage) -> None:
        if self.knows(seen.ref):
            return
        self._known.put(seen.ref, seen.text)
        (self._apart if self._is_held else self._line).append(QueuedMessage(seen))
        self._is_filled.set()

    def hold(self) -> None:
        self._is_held = True

    def release(self, found: Iterable[ReceivedMessage] = ()) -> None:
        """Queue the messages that were `found` before those that arrived while it was held."""
        new = [
            QueuedMessage(replace(each, text=self._changed_while_held.get(each.ref) or each.text))
            for each in found
            if not self.knows(each.ref)
        ]
        for each in new:
            each.is_deleted = self._changed_while_held.get(each.seen.ref, "") is None
            self._known.put(each.seen.ref, each.seen.text)
        self._line += sorted((*new, *self._apart), key=lambda each: int(each.seen.ref))
        self._apart.clear()
        self._changed_while_held.clear()
        self._is_held = False
        self._is_filled.set()

    def edit(self, ref: str, text: str) -> bool:
        """Change a waiting text; False if it is unchanged, as when Discord only added a preview."""
        if self._known.get(ref) == text:
            return False
        if self._is_held:
            self._changed_while_held[ref] = text
        if self.knows(ref):
            self._known.put(ref, text)
        for each in self._all_of(ref):
            each.seen = replace(each.seen, text=text)
        return True

    def delete(self, ref: str) -> None:
        if self._is_held:
            self._changed_while_held[ref] = None
        for each in self._all_of(ref):
            each.is_deleted = True

    async def first(self) -> QueuedMessage:
        while not self._line:
            self._is_filled.clear()
            await self._is_filled.wait()
        return self._line[0]

    def done(self) -> None:
        self._line.pop(0)

    def __contains__(self, ref: str) -> bool:
        return bool(self._all_of(ref))

    def _all_of(self, ref: str) -> list[QueuedMessage]:
        return [each for each in (*self._line, *self._apart) if each.seen.ref == ref]


# The files, and a line for each that could not be fetched.
FetchedFiles = tuple[tuple[IncomingFile, ...], tuple[str, ...]]


class FileFetcher:
    """Downloads attachments into `folder`, which holds nothing else: `prepare` empties it."""

    def __init__(self, channel: DmChannel, clock: Clock, folder: Path) -> None:
        self._channel = channel
        self._clock = clock
        self._folder = folder

    async def prepare(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    @asynccontextmanager
    async def fetched(self, ref: str, files: Sequence[RemoteFile]) -> AsyncIterator[FetchedFiles]:
        """Download the files; they are removed at the end unless they were moved.

        Raises `WriteFailed` if the disk refuses them.
        """
        if not files:
            yield (), ()
            return
        folder = self._folder / ref
        try:
            try:
                await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
                fetched = await self._fetch_all(files, folder)
            except OSError as refused:
                reason = f"could not be written: {refused.strerror}."
                raise WriteFailed(folder, reason) from refused
            yield fetched
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _fetch_all(self, files: Sequence[RemoteFile], folder: Path) -> FetchedFiles:
        here: list[IncomingFile] = []
        notes: list[str] = []
        for number, file in enumerate(files):
            target = folder / str(number)
            problem = await self._fetch(file, number, target)
            if problem:
                # On one printable line, without brackets, which would end the note.
                plain = (c if c.isprintable() and c not in "[]" else " " for c in file.name)
                name = "".join(plain).strip()[-120:] or "file"
                notes.append(f"[{name} could not be fetched: {problem}]")
            else:
                here.append(IncomingFile(file.name, target))
        return tuple(here), tuple(notes)

    async def _fetch(self, file: RemoteFile, number: int, target: Path) -> str:
        """Return why the file could not be fetched; empty if it was."""
        if number >= MOST_FILES:
            return f"only {MOST_FILES} files can come with a message"
        if not 0 < file.size <= MOST_BYTES:
            return "too large" if file.size else "empty"
        async for failures in Backoff(self._clock, FIRST_PAUSE, _LONGEST_PAUSE):
            try:
                await self._channel.fetch(file, target, MOST_BYTES)
            except DeliveryFailed:
                return "not there any more, or too large"
            except (Unreachable, DeliveryUncertain):
                if failures + 1 == _TRIES_FOR_A_FILE:
                    return "Discord does not answer"
            else:
                break
        return ""


def not_kept_yet(reason: str) -> str:
    return f"Your message waits, since it cannot be written down: {reason} I go on trying."


class Inbound:
    """`message`, `edited` and `deleted` return at once; `run` takes in what is in `arrivals`.

    A message counts as seen only once it is on disk. `folder` is for files of messages and holds
    nothing else.
    """

    def __init__(
        self,
        channel: DmChannel,
        reception: ChatService,
        pending_reaction: PendingReaction,
        facts: DiscordFacts,
        clock: Clock,
        folder: Path,
    ) -> None:
        self._channel = channel
        self._reception = reception
        self._pending_reaction = pending_reaction
        self._facts = facts
        self._clock = clock
        self._fetching = FileFetcher(channel, clock, folder)
        self.arrivals = InboundQueue()
        self._changes: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()
        self._notes: RecentValues[str] = RecentValues()

    def message(self, seen: ReceivedMessage) -> None:
        if seen.is_owners:
            self.arrivals.add(seen)

    def edited(self, ref: str, text: str) -> None:
        if self.arrivals.edit(ref, text) and ref not in self.arrivals:
            self._changes.put_nowait((ref, text))

    def deleted(self, ref: str) -> None:
        self.arrivals.delete(ref)
        self._pending_reaction.forget(ref)
        if ref not in self.arrivals:
            self._changes.put_nowait((ref, None))

    async def run(self) -> None:
        """Run until cancelled; a second run continues where the first stopped."""
        await self._fetching.prepare()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_changes())
            while True:
                await self._take(await self.arrivals.first(), group)
                self.arrivals.done()

    async def _take(self, waiting: QueuedMessage, group: asyncio.TaskGroup) -> None:
        ref = waiting.seen.ref
        try:
            refusal = await self._outcome(waiting, group)
        except OllimError as wrong:
            refusal = str(wrong)
        except Exception:  # a message that cannot be taken in must not block those behind it
            _logger.exception("A message could not be taken in")
            refusal = NOT_TAKEN
        if refusal:
            group.create_task(self._say(ref, refusal))
        self._facts.saw(ref)

    async def _outcome(self, waiting: QueuedMessage, group: asyncio.TaskGroup) -> str:
        """Return what to tell the owner at once; empty if the message was taken in."""
        seen = waiting.seen
        if waiting.is_deleted:
            return ""
        if not seen.text.strip() and not seen.files:
            return NOTHING_TO_READ
        # Whether it is a command: only typed text can be one, never a forwarded message.
        word = seen.text.partition("\n")[0].partition(" ")[0]
        names = [f"/{spec.name}" for spec in self._reception.commands]
        if word in names and not seen.files and seen.forwarded is None:
            # Written before the command runs: unlike a message, a repeated command would run twice.
            self._facts.saw(seen.ref)
            await self._facts.flush()
            command = group.create_task(self._command(seen))
            await finishes_within(command, _COMMAND_FIRST, self._clock)
            return ""
        received = await self._received(waiting, group)
        if waiting.is_deleted:
            self._changes.put_nowait((seen.ref, None))
            return ""
        if waiting.seen.text != received:
            self._changes.put_nowait((seen.ref, waiting.seen.text))
        # Asked after receiving: a quick answer may have ended already.
        if self._reception.status.is_busy:
            self._pending_reaction.open(seen.ref)
        return ""

    async def _received(self, waiting: QueuedMessage, group: asyncio.TaskGroup) -> str:
        """Try until the message is accepted or deleted; return the text that was accepted."""
        async for failures in Backoff(self._clock, FIRST_PAUSE, _LONGEST_PAUSE):
            if waiting.is_deleted:
                break
            try:
                # Files are fetched again for each try: the last try may have moved some of them.
                async with self._fetching.fetched(waiting.seen.ref, waiting.seen.files) as fetched:
                    return await self._receive(waiting, fetched)
            except StorageError as full:
                _logger.warning("A message waits for the disk", exc_info=True)
                if failures + 1 == _SAID_AFTER:
                    words = not_kept_yet(full.reason)
                    group.create_task(self._say(waiting.seen.ref, words))
        return waiting.seen.text

    async def _receive(self, waiting: QueuedMessage, fetched: FetchedFiles) -> str:
        seen = waiting.seen
        if waiting.is_deleted:
            return seen.text
        files, lines = fetched
        notes = "\n".join(lines)
        if notes:
            self._notes.put(seen.ref, notes)
        # The message that it replies to, or the quoted words if the log lacks it.
        known = await self._reception.by_ref(NAME, seen.reply_to) if seen.reply_to else None
        incoming = IncomingMessage(
            input_of(seen.ref),
            NAME,
            _with_notes(seen.text, notes),
            reply_to=known.id if known else None,
            quote=seen.quote if seen.reply_to is not None and known is None else "",
            files=files,
            refs={NAME: seen.ref},
            untrusted=self._untrusted(seen.forwarded),
            untrusted_quote=self._untrusted(seen.quote_forwarded),
        )
        await self._reception.receive(incoming)
        return seen.text

    def _untrusted(self, forwarded: Forwarded | None) -> Untrusted | None:
        return None if forwarded is None else untrusted_of(forwarded, self._clock.now().tzinfo)

    async def _command(self, seen: ReceivedMessage) -> None:
        try:
            text = (await self._reception.command(NAME, seen.text.strip())).text
        except Exception:  # a failed command must not stop the intake of messages
            _logger.exception("A command has failed")
            text = NOT_TAKEN
        await self._say(seen.ref, text)

    async def _take_changes(self) -> None:
        while True:
            ref, text = await self._changes.get()
            async for _ in Backoff(self._clock, FIRST_PAUSE, _LONGEST_PAUSE):
                try:
                    if text is None:
                        await self._reception.withdraw(input_of(ref))
                    else:
                        words = _with_notes(text, self._notes.get(ref) or "")
                        await self._reception.edit(input_of(ref), words)
                except StorageError:
                    _logger.warning("A change of a message waits for the disk", exc_info=True)
                    continue
                except Exception:  # a failed change must not block those behind it
                    _logger.exception("A change of a message could not be taken in")
                break

    async def _say(self, ref: str, text: str) -> None:
        """Try once to tell the owner.

        The nonce prevents a duplicate if the message arrives again.
        """
        for number, part in enumerate(split_notice(text)):
            try:
                await self._channel.send(OutgoingMessage(part), f"{ref}-{number}")
            except (DeliveryFailed, Unreachable, DeliveryUncertain) as lost:
                _logger.warning("The owner could not be told about a message: %s", lost)


def _with_notes(text: str, notes: str) -> str:
    return "\n".join(each for each in (text, notes) if each)

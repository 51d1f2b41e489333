"""Tools that ping the owner and send a file."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.orders import Order
from ollim_bot.domain.outgoing import ON_ITS_WAY
from ollim_bot.domain.pings import Charge, PingBudget, Refused, Verdict, charged, is_ordered
from ollim_bot.domain.runs import RefusedPing, late_label
from ollim_bot.domain.snoozing import note_of, reminder_card
from ollim_bot.errors import NotSent, WrongInput
from ollim_bot.tools.context import Arrival, Payment, ToolContext, arguments, flag, text
from ollim_bot.tools.path_rules import PathPolicy

LARGEST = 25 * 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def sendable(root: Path, given: str) -> Attachment:
    """Raises `WrongInput` with why it cannot be sent."""
    _check(root, given)
    # Unlike `Path.resolve`, this takes a link that leads to itself as it is.
    home = Path(os.path.realpath(root))
    path = Path(os.path.realpath(home / given))
    # Again, since what was given may have led elsewhere a moment ago.
    _check(root, str(path))
    if not path.is_file() or not path.is_relative_to(home):
        raise WrongInput(f"{given} is not a file of the data directory.")
    relative = path.relative_to(home)
    if any(part.startswith(".") for part in relative.parts):
        raise WrongInput(f"{given} is a hidden file, and those are not sent.")
    size = _size(home, relative, given)
    if size > LARGEST:
        raise WrongInput(f"{given} is larger than 25 MB. Send a part of it.")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Attachment(path.name, relative.as_posix(), media_type, size)


def _check(root: Path, path: str) -> None:
    if refusal := PathPolicy(root).to_read(path):
        raise WrongInput(refusal)


def _size(home: Path, relative: Path, given: str) -> int:
    """Of the regular file itself, through no link that was put in its way meanwhile."""
    try:
        place = os.open(home, _FLAGS)
        for part in relative.parts:
            place = _step(part, place)
    except OSError:
        raise WrongInput(f"{given} is not a file of the data directory.") from None
    try:
        found = os.fstat(place)
    finally:
        os.close(place)
    if not stat.S_ISREG(found.st_mode):
        raise WrongInput(f"{given} is not a file of the data directory.")
    return found.st_size


def _step(name: str, folder: int) -> int:
    """Open a name in the folder; the folder itself is closed, even if that fails."""
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


CRITICAL = flag("true only for what cannot wait: skips the budget, once in a run")

# How long what the owner ordered lets the owner finish first, and how often it looks.
_PATIENCE = 120.0
_GLANCE = 1.0

_REMINDED = (
    "The program has delivered this reminder already, because it was time. Leave what else there "
    "is to say with `report_updates`, or end without a message."
)


def message_of(
    bench: ToolContext,
    words: str,
    *,
    card: Card | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> ChatMessage:
    run, now = bench.run, bench.clock.now()
    return ChatMessage(
        _new_id(bench),
        now,
        Author.BACKGROUND if run.policy.kind.is_background else Author.ASSISTANT,
        words,
        attachments=attachments,
        session=run.session,
        card=card,
        footer=_lateness(bench),
        job=run.label,
        occurrence=run.occurrence,
    )


def _lateness(bench: ToolContext) -> str:
    due = bench.run.late_since
    return "" if due is None else late_label(due, bench.clock.now())


def _new_id(bench: ToolContext) -> MessageId:
    return numbered_id(bench.clock.now(), secrets.randbits(20))


async def sent(bench: ToolContext, message: ChatMessage, *, is_critical: bool) -> ToolAnswer:
    """Only what a background run sends is a ping: everything else is part of a conversation."""
    if bench.run.policy.kind.is_background:
        return await _pinged(bench, message, is_critical=is_critical)
    try:
        await bench.poster.send(message, bench.run)
        answer = await _arrived(bench, message)
    except NotSent as failed:
        return _not_sent(failed)
    bench.run.pings.append(message.id)
    return answer


async def _pinged(bench: ToolContext, message: ChatMessage, *, is_critical: bool) -> ToolAnswer:
    config = await asyncio.to_thread(bench.stores.config.read)
    run = bench.run
    if is_ordered(run) and not is_critical and await _waited(bench):
        now, footer = bench.clock.now(), _lateness(bench)
        message = replace(message, id=_new_id(bench), at=now, footer=footer)
    async with bench.pinging:
        order = run.order if is_ordered(run) else None
        pay = _payment(bench, is_critical=is_critical, daily_cap=config.critical_daily_cap)
        try:
            verdict = await _charged(bench, message, order, pay)
        except NotSent as failed:
            return _not_sent(failed)
        if isinstance(verdict, Refused):
            run.refused_pings.append(RefusedPing(verdict.reason, message.text))
            return ToolAnswer(verdict.reason, is_error=True)
        run.pings.append(message.id)
        run.critical_used |= verdict.charge is Charge.CRITICAL
    try:
        return await _arrived(bench, message)
    except NotSent as failed:
        run.pings.remove(message.id)
        run.critical_used &= verdict.charge is not Charge.CRITICAL
        if order is not None:
            order.give_back()
        return _not_sent(failed)


async def _charged(
    bench: ToolContext, message: ChatMessage, order: Order | None, pay: Payment
) -> Verdict:
    """What the owner has ordered is taken first, so that the program does not deliver it too."""
    if order is not None and not order.take():
        return Refused(_REMINDED)
    try:
        return await bench.poster.send(message, bench.run, pay)
    except NotSent:
        if order is not None:
            order.give_back()
        raise


def _payment(bench: ToolContext, *, is_critical: bool, daily_cap: int) -> Payment:
    run, now, is_busy = bench.run, bench.clock.now(), bench.is_busy()

    def pay(budget: PingBudget) -> tuple[PingBudget, Verdict]:
        return charged(
            budget, run, now, wants_critical=is_critical, is_busy=is_busy, daily_cap=daily_cap
        )

    return pay


async def _waited(bench: ToolContext) -> bool:
    """Let the answer to the owner end first, within reason; False if there was none to wait for."""
    clock, has_waited = bench.clock, False
    latest = clock.monotonic() + _PATIENCE
    while bench.is_busy() and clock.monotonic() < latest:
        await clock.sleep(_GLANCE)
        has_waited = True
    return has_waited


def _not_sent(failed: NotSent) -> ToolAnswer:
    return ToolAnswer(f"It could not be sent: {failed}", is_error=True)


async def _arrived(bench: ToolContext, message: ChatMessage) -> ToolAnswer:
    arrival = await bench.poster.arrival(message.id)
    return ToolAnswer(ON_ITS_WAY if arrival is Arrival.ON_ITS_WAY else "Sent.")


_ONLY_IN_BACKGROUND = "Here your answer itself reaches the owner. Say it there."


def ping_user(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        if not bench.run.policy.kind.is_background:
            return ToolAnswer(_ONLY_IN_BACKGROUND, is_error=True)
        words = str(given["message"]).strip()
        if not words:
            return ToolAnswer("A ping needs words.", is_error=True)
        return await _ping_result(bench, words, is_critical=given.get("critical") is True)

    return Tool(
        "ping_user",
        "Send the owner one short message from a background run. One for each run, within the "
        "ping budget.",
        arguments(["message"], message=text("what the owner should know"), critical=CRITICAL),
        run,
    )


def send_file(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        file = await asyncio.to_thread(sendable, bench.root, str(given["file_path"]))
        words = str(given.get("message") or "").strip() or file.name
        message = message_of(bench, words, attachments=(file,))
        return await sent(bench, message, is_critical=given.get("critical") is True)

    return Tool(
        "send_file",
        "Send the owner a file of the data directory, 25 MB at most.",
        arguments(
            ["file_path"],
            file_path=text("below the data directory, such as notes/plan.md"),
            message=text("a line to go with it"),
            critical=CRITICAL,
        ),
        run,
    )


async def _ping_result(bench: ToolContext, words: str, *, is_critical: bool) -> ToolAnswer:
    """With buttons for a reminder, so that it can be ticked off or put off."""
    job = bench.run.job
    if not isinstance(job, Reminder):
        return await sent(bench, message_of(bench, words), is_critical=is_critical)
    key = await asyncio.to_thread(bench.stores.store_inquiry, note_of(job), bench.clock.now())
    message = message_of(bench, words, card=reminder_card(words, key))
    answer = await sent(bench, message, is_critical=is_critical)
    if answer.is_error:
        await asyncio.to_thread(bench.stores.forget_inquiries, {key})
    return answer

"""Tools that ping the owner, send a file or show a card."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ollim_bot.kernel.base.errors import DeliveryFailed, WrongInput
from ollim_bot.kernel.base.moments import clock_time, describe, late_label
from ollim_bot.kernel.permissions.careful import Surroundings
from ollim_bot.kernel.permissions.path_rules import PathPolicy
from ollim_bot.kernel.store.steps import new_prompt
from ollim_bot.kernel.tools.tool_context import (
    BACKGROUND,
    Arguments,
    Arrival,
    BackgroundUse,
    OwnTool,
    Payment,
    ToolContext,
    arguments,
    choice,
    flag,
    listed,
    text,
)
from ollim_bot.kernel.values.agent_caller import MARKED, Does, asks
from ollim_bot.kernel.values.calendar import EVENT_DELETE
from ollim_bot.kernel.values.cards import (
    MOST_BUTTONS,
    MOST_FIELDS,
    Button,
    ButtonPrompt,
    ButtonStyle,
    Card,
    CardField,
    Color,
)
from ollim_bot.kernel.values.chat import ON_ITS_WAY, Attachment, Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.due_items import DueItem, open_card
from ollim_bot.kernel.values.hook_jobs import CalledJob
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.pings import Charge, PingRefused, PingVerdict, charged, is_must_ping
from ollim_bot.kernel.values.ports import ToolAnswer, ToolCall
from ollim_bot.kernel.values.quiet import QUIET
from ollim_bot.kernel.values.runs import DeliveryRight, RefusedPing
from ollim_bot.kernel.values.schedule import late_since
from ollim_bot.kernel.values.taint import Taint, untrusted_label, untrusted_message
from ollim_bot.kernel.values.tasks import TASK_DELETE, TASK_DONE

CRITICAL = flag("true only for what cannot wait: skips the budget, once in a run")

# How many seconds a reminder waits at most for the owner's turn to end, and between two looks.
_LONGEST_WAIT = 120.0
_BETWEEN_LOOKS = 1.0

REMINDED = (
    "The program has delivered this reminder already, because it was time. Leave what else there "
    "is to say with `report_updates`, or end without a message."
)

_HELD = "It is quiet until {}. The message is kept, and the owner gets it then, with the others."

LARGEST = 25 * 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def message_of(
    context: ToolContext,
    words: str,
    *,
    card: Card | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> ChatMessage:
    run, now = context.run, context.clock.now()
    is_background = run.policy.kind.is_background
    return ChatMessage(
        numbered_id(now, secrets.randbits(20)),
        now,
        Author.BACKGROUND if is_background else Author.ASSISTANT,
        words,
        attachments=attachments,
        session=run.session,
        card=card,
        footer=_footer(context, run.taint if is_background else Taint()),
        job=run.label,
        occurrence=run.occurrence,
        untrusted=untrusted_message(run.taint),
        must=is_background and is_must_ping(run),
    )


def _footer(context: ToolContext, taint: Taint) -> str:
    due, is_call = context.run.late_since, isinstance(context.run.job, CalledJob)
    late = "" if due is None else late_label(due, context.clock.now(), is_call=is_call)
    return " ".join(filter(None, (late, untrusted_label(taint))))


async def send(
    context: ToolContext,
    message: ChatMessage,
    *,
    is_critical: bool,
    prompts: Sequence[ButtonPrompt] = (),
) -> ToolAnswer:
    """Send a message of the run. In a background run it is a ping, which the budget may refuse.

    `prompts` are those behind the buttons of its card. The first ping of a job that asks something
    of the owner is a card that stays open until the owner answers it.
    """
    if context.run.policy.kind.is_background:
        outgoing, right = _as_item(context, _Outgoing(message, prompts)), context.run.delivery_right
        with right.ready_ping() if right is not None else nullcontext():
            return await _ping(context, outgoing, is_critical=is_critical)
    try:
        await context.poster.send(message, context.run, prompts=prompts)
        answer = await _arrived(context, message)
    except DeliveryFailed as failed:
        return _not_sent(failed)
    context.run.pings.append(message.id)
    return answer


class _Outgoing(NamedTuple):
    message: ChatMessage
    prompts: Sequence[ButtonPrompt]
    item: DueItem | None = None

    def as_of(self, message: ChatMessage) -> _Outgoing:
        item = None if self.item is None else replace(self.item, card=message.id)
        return _Outgoing(message, self.prompts, item)


def _as_item(context: ToolContext, outgoing: _Outgoing) -> _Outgoing:
    run, message = context.run, outgoing.message
    job = run.job
    if run.has_pinged or not isinstance(job, Reminder | Routine) or not job.asks:
        return outgoing
    now, occurrence = context.clock.now(), Occurrence.parse(run.occurrence)
    item = DueItem.of(job, occurrence, message.id, now)
    card = open_card(item, now, message.text)
    if message.card is not None:
        card = message.card._replace(buttons=(*message.card.buttons, *card.buttons))
    if run.label != " ".join(job.spec.title.split()):
        # The label that names the job is cut off, and its own words have to reach the owner.
        said = (card.description, job.spec.title)
        card = card._replace(description="\n\n".join(part for part in said if part))
    return _Outgoing(replace(message, card=card), outgoing.prompts, item)


async def _ping(context: ToolContext, outgoing: _Outgoing, *, is_critical: bool) -> ToolAnswer:
    config = await context.store.read(lambda tx: tx.config.get())
    run = context.run
    if context.is_busy() and is_must_ping(run) and not is_critical:
        # Wait until the owner is answered, within a limit.
        clock = context.clock
        latest = clock.monotonic() + _LONGEST_WAIT
        while context.is_busy() and clock.monotonic() < latest:
            await clock.sleep(_BETWEEN_LOOKS)
        now = context.clock.now()
        run.late_since = run.late_since or late_since(Occurrence.parse(run.occurrence), now)
        footer = _footer(context, run.taint)
        new_id = numbered_id(now, secrets.randbits(20))
        waited = replace(outgoing.message, id=new_id, at=now, footer=footer)
        outgoing = outgoing.as_of(waited)
    message = outgoing.message
    async with context.pinging:
        right = run.delivery_right if is_must_ping(run) else None
        pay = partial(
            charged,
            run=run,
            now=context.clock.now(),
            wants_critical=is_critical,
            is_busy=context.is_busy(),
            daily_cap=config.critical_daily_cap,
        )
        try:
            verdict = await _charged(context, outgoing, right, pay)
        except DeliveryFailed as failed:
            return _not_sent(failed)
        if isinstance(verdict, PingRefused):
            run.refused_pings.append(RefusedPing(verdict.reason, message.text))
            return ToolAnswer(verdict.reason, is_error=True)
        run.pings.append(message.id)
        run.critical_used |= verdict.charge is Charge.CRITICAL
    if verdict.held_until is not None:
        return ToolAnswer(_HELD.format(clock_time(verdict.held_until)))
    try:
        return await _arrived(context, message)
    except DeliveryFailed as failed:
        run.pings.remove(message.id)
        run.critical_used &= verdict.charge is not Charge.CRITICAL
        if right is not None:
            right.give_back()
        return _not_sent(failed)


async def _charged(
    context: ToolContext, outgoing: _Outgoing, right: DeliveryRight | None, pay: Payment
) -> PingVerdict:
    """Take the right before paying, so that the program does not deliver the reminder too."""
    if right is not None and not right.take():
        return PingRefused(REMINDED)
    try:
        message, prompts, item = outgoing
        return await context.poster.send(message, context.run, pay, prompts, item)
    except DeliveryFailed:
        if right is not None:
            right.give_back()
        raise


def _not_sent(failed: DeliveryFailed) -> ToolAnswer:
    return ToolAnswer(f"It could not be sent: {failed}", is_error=True)


async def _arrived(context: ToolContext, message: ChatMessage) -> ToolAnswer:
    arrival = await context.poster.arrival(message.id)
    return ToolAnswer(ON_ITS_WAY if arrival is Arrival.ON_ITS_WAY else "Sent.")


async def _ping_user(context: ToolContext, given: Arguments) -> ToolAnswer:
    words = str(given["message"]).strip()
    if not words:
        return ToolAnswer("A ping needs words.", is_error=True)
    is_critical = given.get("critical") is True
    return await send(context, message_of(context, words), is_critical=is_critical)


PING_USER = OwnTool(
    "ping_user",
    "Send the owner one short message from a background run. One for each run, within the "
    "ping budget.",
    arguments(["message"], message=text("what the owner should know"), critical=CRITICAL),
    _ping_user,
    careful=MARKED,
    where=BACKGROUND,
    elsewhere="Here your answer itself reaches the owner. Say it there.",
    background=BackgroundUse.NO_PATTERN,
)


async def _send_file(context: ToolContext, given: Arguments) -> ToolAnswer:
    file = await asyncio.to_thread(sendable, context.root, str(given["file_path"]))
    words = str(given.get("message") or "").strip() or file.name
    message = message_of(context, words, attachments=(file,))
    return await send(context, message, is_critical=given.get("critical") is True)


SEND_FILE = OwnTool(
    "send_file",
    "Send the owner a file of the data directory, 25 MB at most.",
    arguments(
        ["file_path"],
        file_path=text("below the data directory, such as notes/plan.md"),
        message=text("a line to go with it"),
        critical=CRITICAL,
    ),
    _send_file,
    careful=asks("send a file"),
    background=BackgroundUse.NO_PATTERN,
)


def sendable(root: Path, given: str) -> Attachment:
    """The file as an attachment; raises `WrongInput` if it may not be sent."""
    _check(root, given)
    # Unlike `Path.resolve`, this does not raise for a link that leads to itself.
    home = Path(os.path.realpath(root))
    path = Path(os.path.realpath(home / given))
    # Checked again: a link may have been changed between the check and its resolution.
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
    """The size of a regular file, opened without following any link."""
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
    """Open a name in the folder, and close the folder in any case."""
    try:
        return os.open(name, _FLAGS | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


_CHANGING = (TASK_DONE, TASK_DELETE, EVENT_DELETE)
# As much as Discord gives back with a click.
_LONGEST_CUSTOM_ID = 100

_FIELD = arguments(
    ["name", "value"],
    name=text("a word or two"),
    value=text("its value"),
    inline=flag("side by side"),
)
_BUTTON = arguments(
    ["label", "action"],
    label=text("a verb"),
    action=text(
        "`agent:<prompt>` (asked on a click), `task_done:<id>`, `task_del:<id>`, "
        "`event_del:<id>`, `quiet:2026-11-19T15:00` or `dismiss`"
    ),
    style=choice("secondary unless said otherwise", list(ButtonStyle)),
)


async def _discord_embed(context: ToolContext, given: Arguments) -> ToolAnswer:
    card = Card(
        title=str(given["title"]).strip(),
        description=str(given.get("description") or "").strip(),
        color=Color(str(given.get("color") or Color.BLUE)),
        fields=tuple(
            CardField(
                str(one["name"]).strip(), str(one["value"]).strip(), one.get("inline") is True
            )
            for one in _objects(given.get("fields"))
        ),
        buttons=tuple(_button(one) for one in _objects(given.get("buttons"))),
        job=str(given.get("job") or ""),
    )
    if problems := [*card.problems(), *_wrong_actions(card)]:
        return ToolAnswer(" ".join(problems), is_error=True)
    card, prompts = _with_prompts(context, card)
    message = message_of(context, card.text, card=card)
    is_critical = given.get("critical") is True
    return await send(context, message, is_critical=is_critical, prompts=prompts)


def _showing(call: ToolCall, _: Surroundings) -> Does:
    """A card may have words of others, but no button that changes what is the owner's."""
    buttons = _objects(call.arguments.get("buttons"))
    if any(str(one.get("action")).partition(":")[0].strip() in _CHANGING for one in buttons):
        return asks("show a button that changes a task or an event")
    return MARKED


DISCORD_EMBED = OwnTool(
    "discord_embed",
    "Show the owner a card, 6000 characters at most.",
    # The schema does not limit the number of fields and buttons: its refusal would not say why.
    arguments(
        ["title"],
        title=text("256 at most"),
        description=text("markdown, 4096 at most"),
        color=choice("blue unless said otherwise", list(Color)),
        fields=listed(f"facts, {MOST_FIELDS} at most", _FIELD),
        buttons=listed(f"{MOST_BUTTONS} at most", _BUTTON),
        job=text("the id of the reminder or routine that it is about"),
        critical=CRITICAL,
    ),
    _discord_embed,
    careful=_showing,
    background=BackgroundUse.NO_PATTERN,
    prompt_line=(
        "`discord_embed`: a card with facts, where a list or a table would be hard to read, with "
        "buttons where one touch can answer; `send_file`: a file."
    ),
)


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _button(given: Arguments) -> Button:
    """Holds the prompt of an `agent:` button in `data`, until `_with_prompts` takes it out."""
    action, _, data = str(given["action"]).partition(":")
    style = ButtonStyle(str(given.get("style") or ButtonStyle.SECONDARY))
    return Button(str(given["label"]).strip(), action.strip(), data.strip(), style)


def _wrong_actions(card: Card) -> Sequence[str]:
    """Refuse all other actions, which belong to the program: a click may approve something."""
    return [
        f"The action of “{one.label}” has to be `agent:<prompt>`, `task_done:<id>`, "
        "`task_del:<id>`, `event_del:<id>`, `quiet:2026-11-19T15:00` or `dismiss`."
        for one in card.buttons
        if not _is_possible(one)
    ]


def _is_possible(button: Button) -> bool:
    if button.action in _CHANGING:
        return bool(button.data) and len(button.custom_id) <= _LONGEST_CUSTOM_ID
    if button.action == QUIET:
        return _moment(button.data) is not None
    return button.action in ("agent", "dismiss") and (button.action == "agent") == bool(button.data)


def _with_prompts(context: ToolContext, card: Card) -> tuple[Card, Sequence[ButtonPrompt]]:
    """Each `agent:` button with a key in `data`, and the prompts behind the keys."""
    taint, buttons = context.run.taint, list(card.buttons)
    prompts: list[ButtonPrompt] = []
    for place, button in enumerate(buttons):
        if button.action == "agent":
            prompts.append(new_prompt(button.data, context.clock.now(), taint.sources))
            buttons[place] = button._replace(data=prompts[-1].key)
        elif button.action == QUIET:
            # Its label says what it does, and nothing that the agent would have it say.
            buttons[place] = button._replace(label=_quiet_label(button, context.clock.now()))
    return card._replace(buttons=tuple(buttons)), prompts


def _quiet_label(button: Button, now: datetime) -> str:
    until = _moment(button.data)
    assert until is not None
    is_today = until.date() == now.date()
    words = clock_time(until) if is_today else describe(until.replace(tzinfo=now.tzinfo), now)
    return f"Quiet until {words}"


def _moment(text: str) -> datetime | None:
    """The wall-clock time, to the minute; None if the text is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M")
    except ValueError:
        return None

"""`discord_embed`, `ping_user`, `send_file`: how the agent reaches the owner beside its answer."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ollim_bot.agent import Tool, ToolAnswer
from ollim_bot.domain.cards import (
    MOST_BUTTONS,
    MOST_FIELDS,
    Button,
    ButtonStyle,
    Card,
    Color,
    Field,
)
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, numbered_id
from ollim_bot.domain.inquiries import Inquiries, Inquiry
from ollim_bot.domain.outgoing import Charge
from ollim_bot.domain.ping_rules import Allowed, Refused, charged
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import RefusedPing
from ollim_bot.errors import NotSent
from ollim_bot.tools.server.bench import Payment, Workbench
from ollim_bot.tools.server.schemas import arguments, choice, flag, listed, text
from ollim_bot.tools.server.sendable import sendable

_ONLY_IN_BACKGROUND = "Here your answer itself reaches the owner. Say it there."
_CRITICAL = flag("true only for what cannot wait: skips the budget, once in a run")


def ping_user(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        if not bench.run.policy.kind.is_background:
            return ToolAnswer(_ONLY_IN_BACKGROUND, is_error=True)
        words = str(given["message"]).strip()
        if not words:
            return ToolAnswer("A ping needs words.", is_error=True)
        return await _sent(bench, _message(bench, words), is_critical=given.get("critical") is True)

    return Tool(
        "ping_user",
        "Send the owner one short message from a background run. One for each run, within the "
        "ping budget.",
        arguments(["message"], message=text("what the owner should know"), critical=_CRITICAL),
        run,
    )


def discord_embed(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        card = _card(given)
        if problems := card.problems():
            return ToolAnswer(" ".join(problems), is_error=True)
        card = await asyncio.to_thread(_with_inquiries, bench, card)
        message = _message(bench, card.text, card=card)
        return await _sent(bench, message, is_critical=given.get("critical") is True)

    return Tool(
        "discord_embed",
        "Show the owner a card: a title, a few lines and some buttons.",
        arguments(
            ["title"],
            title=text("256 characters at most"),
            description=text("4096 characters at most, markdown"),
            color=choice("blue unless said otherwise", list(Color)),
            fields=listed("short facts", _FIELD, MOST_FIELDS),
            buttons=listed("what the owner can do about it", _BUTTON, MOST_BUTTONS),
            critical=_CRITICAL,
        ),
        run,
    )


def send_file(bench: Workbench) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        file = await asyncio.to_thread(sendable, bench.root, str(given["file_path"]))
        words = str(given.get("message") or file.name)
        message = _message(bench, words, attachments=(file,))
        return await _sent(bench, message, is_critical=given.get("critical") is True)

    return Tool(
        "send_file",
        "Send the owner a file of the data directory, 25 MB at most.",
        arguments(
            ["file_path"],
            file_path=text("below the data directory, such as notes/plan.md"),
            message=text("a line to go with it"),
            critical=_CRITICAL,
        ),
        run,
    )


_FIELD = arguments(
    ["name", "value"],
    name=text("a word or two"),
    value=text("its value"),
    inline=flag("side by side"),
)
_BUTTON = arguments(
    ["label", "action"],
    label=text("a verb, 80 characters at most"),
    action=text("`agent:<prompt>` to be asked that prompt on a click, or `dismiss`"),
    style=choice("secondary unless said otherwise", list(ButtonStyle)),
)


def _card(given: Mapping[str, object]) -> Card:
    return Card(
        title=str(given["title"]).strip(),
        description=str(given.get("description") or "").strip(),
        color=Color(str(given.get("color") or Color.BLUE)),
        fields=tuple(
            Field(str(one["name"]), str(one["value"]), one.get("inline") is True)
            for one in _objects(given.get("fields"))
        ),
        buttons=tuple(_button(one) for one in _objects(given.get("buttons"))),
    )


def _button(given: Mapping[str, object]) -> Button:
    """The prompt behind an `agent:` button is still in `data`; it is stored before it is shown."""
    action, _, data = str(given["action"]).partition(":")
    style = ButtonStyle(str(given.get("style") or ButtonStyle.SECONDARY))
    return Button(str(given["label"]).strip(), action.strip(), data.strip(), style)


def _with_inquiries(bench: Workbench, card: Card) -> Card:
    """Prompts are too long for a button, so that it gets a key to where they are stored."""
    buttons = tuple(_with_key(bench, button) for button in card.buttons)
    return replace(card, buttons=buttons)


def _with_key(bench: Workbench, button: Button) -> Button:
    if button.action != "agent":
        return button
    inquiry = Inquiry(os.urandom(4).hex(), button.data, bench.clock.now().timestamp())

    def store(known: Inquiries) -> tuple[Inquiries, None]:
        return known.stored(inquiry), None

    bench.stores.inquiries.transact(store)
    return replace(button, data=inquiry.key)


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _message(
    bench: Workbench,
    words: str,
    *,
    card: Card | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> ChatMessage:
    run, now = bench.run, bench.clock.now()
    return ChatMessage(
        numbered_id(now, secrets.randbits(20)),
        now,
        Author.BACKGROUND if run.policy.kind.is_background else Author.ASSISTANT,
        words,
        attachments=attachments,
        session=run.session,
        card=card,
        job=run.label,
    )


async def _sent(bench: Workbench, message: ChatMessage, *, is_critical: bool) -> ToolAnswer:
    run = bench.run
    refusal: list[Refused] = []
    pay = None if not run.policy.kind.is_background else await _payment(bench, is_critical, refusal)
    try:
        was_sent = await bench.poster.send(message, run, pay)
    except NotSent as failed:
        return ToolAnswer(f"It could not be sent: {failed}", is_error=True)
    if not was_sent:
        run.refused_pings.append(RefusedPing(refusal[0].reason, message.text))
        return ToolAnswer(refusal[0].reason, is_error=True)
    run.pings.append(message.id)
    return ToolAnswer("Sent.")


async def _payment(bench: Workbench, is_critical: bool, refusal: list[Refused]) -> Payment:
    config = await asyncio.to_thread(bench.stores.config.read)
    run = bench.run

    def pay(budget: PingBudget) -> tuple[PingBudget, Charge | None]:
        after, verdict = charged(
            budget,
            run,
            bench.clock.now(),
            wants_critical=is_critical,
            is_busy=bench.is_busy(),
            daily_cap=config.critical_daily_cap,
        )
        if isinstance(verdict, Allowed):
            run.critical_used |= verdict.charge is Charge.CRITICAL
            return after, verdict.charge
        refusal.append(verdict)
        return after, None

    return pay

"""The tool that sends a card."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ollim_bot.domain.cards import (
    MOST_BUTTONS,
    MOST_FIELDS,
    Button,
    ButtonStyle,
    Card,
    CardField,
    Color,
)
from ollim_bot.ports import Tool, ToolAnswer
from ollim_bot.tools.context import ToolContext, arguments, choice, flag, listed, text
from ollim_bot.tools.messages import CRITICAL, message_of, sent

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


def discord_embed(bench: ToolContext) -> Tool:
    async def run(given: Mapping[str, object]) -> ToolAnswer:
        card = _card(given)
        if problems := [*card.problems(), *_wrong_actions(card)]:
            return ToolAnswer(" ".join(problems), is_error=True)
        card = await asyncio.to_thread(_with_inquiries, bench, card)
        message = message_of(bench, card.text, card=card)
        answer = await sent(bench, message, is_critical=given.get("critical") is True)
        if answer.is_error:
            await asyncio.to_thread(bench.stores.forget_inquiries, _keys(card))
        return answer

    # How many fields and buttons is not in the schema, where a refusal would not explain itself.
    return Tool(
        "discord_embed",
        "Show the owner a card: a title, a few lines and some buttons. 6000 characters in all.",
        arguments(
            ["title"],
            title=text("256 characters at most"),
            description=text("4096 characters at most, markdown"),
            color=choice("blue unless said otherwise", list(Color)),
            fields=listed(f"short facts, {MOST_FIELDS} at most", _FIELD),
            buttons=listed(f"what the owner can do about it, {MOST_BUTTONS} at most", _BUTTON),
            critical=CRITICAL,
        ),
        run,
    )


def _card(given: Mapping[str, object]) -> Card:
    return Card(
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
    )


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _button(given: Mapping[str, object]) -> Button:
    """The prompt behind an `agent:` button is still in `data`; it is stored before it is shown."""
    action, _, data = str(given["action"]).partition(":")
    style = ButtonStyle(str(given.get("style") or ButtonStyle.SECONDARY))
    return Button(str(given["label"]).strip(), action.strip(), data.strip(), style)


def _wrong_actions(card: Card) -> Sequence[str]:
    """The other actions are the program's own: a click on one may approve something."""
    return [
        f"The action of “{one.label}” has to be `agent:<prompt>`, with a prompt, or `dismiss`."
        for one in card.buttons
        if one.action not in ("agent", "dismiss") or (one.action == "agent") != bool(one.data)
    ]


def _with_inquiries(bench: ToolContext, card: Card) -> Card:
    return replace(card, buttons=tuple(_with_key(bench, button) for button in card.buttons))


def _with_key(bench: ToolContext, button: Button) -> Button:
    if button.action != "agent":
        return button
    taint = bench.run.taint
    untrusted = taint.sources if taint else ()
    key = bench.stores.store_inquiry(button.data, bench.clock.now(), untrusted)
    return replace(button, data=key)


def _keys(card: Card) -> frozenset[str]:
    return frozenset(button.data for button in card.buttons if button.action == "agent")

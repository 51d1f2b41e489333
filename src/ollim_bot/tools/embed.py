"""The tool that sends a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ollim_bot.domain.agent_caller import MARKED, Does, asks
from ollim_bot.domain.button_prompts import ButtonPrompt
from ollim_bot.domain.cards import (
    MOST_BUTTONS,
    MOST_FIELDS,
    Button,
    ButtonStyle,
    Card,
    CardField,
    Color,
)
from ollim_bot.domain.event_cards import EVENT_DELETE
from ollim_bot.domain.moments import clock_time, describe
from ollim_bot.domain.quiet import QUIET
from ollim_bot.domain.tasks import TASK_DELETE, TASK_DONE
from ollim_bot.ports import ToolAnswer, ToolCall
from ollim_bot.store.steps import new_prompt
from ollim_bot.tools.careful import Surroundings
from ollim_bot.tools.context import (
    Arguments,
    BackgroundUse,
    OwnTool,
    ToolContext,
    arguments,
    choice,
    flag,
    listed,
    text,
)
from ollim_bot.tools.messages import CRITICAL, message_of, send

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

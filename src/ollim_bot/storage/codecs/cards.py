"""How a card stands in the message log; what equals its default is left out."""

from __future__ import annotations

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color, Field
from ollim_bot.storage.json_fields import Fields


def card_json(card: Card) -> dict[str, object]:
    rest: dict[str, object] = {
        "description": card.description,
        "fields": [
            {"name": one.name, "value": one.value, "inline": one.inline} for one in card.fields
        ],
        "buttons": [
            {
                "label": one.label,
                "action": one.action,
                "data": one.data,
                "style": one.style.value,
                "is_used": one.is_used,
            }
            for one in card.buttons
        ],
    }
    head: dict[str, object] = {"title": card.title, "color": card.color.value}
    return head | {name: value for name, value in rest.items() if value}


def card_of(fields: Fields) -> Card:
    return Card(
        title=fields.text("title"),
        description=fields.text_or_none("description") or "",
        color=fields.choice("color", Color),
        fields=tuple(_field(value) for value in fields.items("fields")),
        buttons=tuple(_button(value) for value in fields.items("buttons")),
    )


def _field(value: object) -> Field:
    fields = Fields(value, "a field of a card")
    return Field(fields.text("name"), fields.text("value"), fields.flag("inline"))


def _button(value: object) -> Button:
    fields = Fields(value, "a button of a card")
    return Button(
        fields.text("label"),
        fields.text("action"),
        fields.text_or_none("data") or "",
        fields.choice("style", ButtonStyle),
        fields.flag("is_used"),
    )

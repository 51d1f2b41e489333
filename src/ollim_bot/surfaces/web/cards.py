"""Cards as the JSON objects that go to the page: rendered where markdown may stand, else plain."""

from __future__ import annotations

from ollim_bot.domain.cards import Button, Card, Field
from ollim_bot.surfaces.web.frames import Json
from ollim_bot.surfaces.web.markdown import render


def card_json(card: Card) -> Json:
    return {
        "title": card.title,
        "html": render(card.description),
        "color": card.color.value,
        "fields": [_field(each) for each in card.fields],
        "buttons": [_button(each) for each in card.buttons],
    }


def _field(field: Field) -> Json:
    return {"name": field.name, "html": render(field.value), "inline": field.inline}


def _button(button: Button) -> Json:
    return {
        "label": button.label,
        "custom_id": button.custom_id,
        "style": button.style.value,
        "is_used": button.is_used,
    }

"""Cards cut to what Discord takes, so that none is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ollim_bot.domain.cards import Button, Card, Field
from ollim_bot.surfaces.discord.words.graphemes import shortened

_LONGEST_TITLE = 256
_LONGEST_DESCRIPTION = 4096
_LONGEST_NAME = 256
_LONGEST_VALUE = 1024
_LONGEST_LABEL = 80
_LONGEST_ID = 100
_LONGEST_IN_ALL = 6000
_MOST_FIELDS = 25
_MOST_BUTTONS = 25
_LEFT_OUT = "…"


def fitted(card: Card, footer: str) -> Card:
    """The card as it can be sent with this footer, of some hundred characters.

    What had to be cut ends with `…`.
    """
    title = shortened(card.title, _LONGEST_TITLE)
    left = _LONGEST_IN_ALL - len(title) - len(footer)
    description = shortened(card.description, min(_LONGEST_DESCRIPTION, left))
    fields = tuple(_fields(card.fields, left - len(description)))
    is_blank = not fields and not title.strip() and not description.strip()
    return replace(
        card,
        title=_LEFT_OUT if is_blank else title,
        description=description,
        fields=fields,
        buttons=tuple(_buttons(card.buttons)),
    )


def _fields(fields: Sequence[Field], room: int) -> Iterator[Field]:
    """As many as there is room for; the last one then says how many are missing."""
    for number, field in enumerate(fields):
        missing = len(fields) - number
        rest = Field(_LEFT_OUT, f"{missing} more")
        fitting = _field(field)
        size = len(fitting.name) + len(fitting.value)
        is_last = missing == 1
        kept = 0 if is_last else len(rest.name) + len(rest.value)
        if size + kept > room or (number == _MOST_FIELDS - 1 and not is_last):
            yield rest
            return
        room -= size
        yield fitting


def _field(field: Field) -> Field:
    """A field without a name or a value would be refused."""
    name = shortened(field.name, _LONGEST_NAME) if field.name.strip() else _LEFT_OUT
    value = shortened(field.value, _LONGEST_VALUE) if field.value.strip() else _LEFT_OUT
    return replace(field, name=name, value=value)


def _buttons(buttons: Sequence[Button]) -> Iterator[Button]:
    """One whose id is too long, or the same as another's, is shown but cannot be pressed."""
    known = set[str]()
    for number, button in enumerate(buttons[:_MOST_BUTTONS]):
        label = shortened(button.label, _LONGEST_LABEL) if button.label.strip() else _LEFT_OUT
        shown = replace(button, label=label)
        if len(shown.custom_id) > _LONGEST_ID or shown.custom_id in known:
            shown = replace(shown, action="none", data=str(number), is_used=True)
        known.add(shown.custom_id)
        yield shown

"""Webhooks in words for the owner: their facts on a card, and those that share a secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ollim_bot.domain.jobs import CalledJob, WebhookSpec, list_names
from ollim_bot.domain.text import as_code

_LONGEST_NAME = 60
_MOST_NAMED = 10


def own_secret_name(hook: WebhookSpec) -> str:
    """A name for a secret that opens this webhook alone."""
    return f"{hook.spec.id.upper().replace('-', '_')}_SECRET"


def sharing_secret(
    hook: WebhookSpec, hooks: Iterable[WebhookSpec], value_of: Callable[[str], object]
) -> list[WebhookSpec]:
    """The other webhooks that the secret of this one opens: no signature names its webhook.

    `value_of` gives the value of a setting, None if it is not set; two may have the same value.
    """
    value = value_of(hook.secret_name)
    others = () if value is None else (each for each in hooks if each.spec.id != hook.spec.id)
    return [other for other in others if value_of(other.secret_name) == value]


def facts_of(job: CalledJob, port: int | None) -> Iterator[str]:
    """The facts as lines of a card."""
    for name, fact in job.facts(port, lambda text: as_code(text, _LONGEST_NAME)):
        yield f"{name.capitalize()}: {fact}."


def named(hooks: Sequence[WebhookSpec], most: int = _MOST_NAMED) -> str:
    return list_names([hook.spec.id for hook in hooks], str, "and", most)

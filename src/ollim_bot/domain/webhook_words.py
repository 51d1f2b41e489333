"""What a webhook takes, who may call it, and what it does, in words for the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ollim_bot.domain.jobs import WebhookAuth, WebhookSpec
from ollim_bot.domain.text import as_code

COMMON_SECRET = "WEBHOOK_SECRET"
SWITCHED_OFF = "off until WEBHOOK_PORT and WEBHOOK_SECRET are set"

_LONGEST_NAME = 60
_MOST_NAMED = 10


def hook_address(hook_id: str, port: int) -> str:
    return f"http://127.0.0.1:{port}/hook/{hook_id}"


def secret_name(hook: WebhookSpec) -> str:
    """The name of the setting with the secret that opens the webhook."""
    return hook.secret_env or COMMON_SECRET


def own_secret_name(hook: WebhookSpec) -> str:
    """A name for a secret that opens this webhook alone."""
    return f"{hook.spec.id.upper().replace('-', '_')}_SECRET"


def sharing_secret(
    hook: WebhookSpec, hooks: Iterable[WebhookSpec], value_of: Callable[[str], object]
) -> list[WebhookSpec]:
    """The other webhooks that the secret of this one opens: no signature names its webhook.

    `value_of` gives the value of a setting, None if it is not set; two may have the same value.
    """
    value = value_of(secret_name(hook))
    others = () if value is None else (each for each in hooks if each.spec.id != hook.spec.id)
    return [other for other in others if value_of(secret_name(other)) == value]


def hook_facts(
    hook: WebhookSpec, port: int | None, show: Callable[[str], str] = str
) -> Iterator[tuple[str, str]]:
    """The facts, each with its name; `show` makes names from the file safe to display."""
    path = show(f"/hook/{hook.spec.id}")
    where = f"{path}, {SWITCHED_OFF}" if port is None else show(hook_address(hook.spec.id, port))
    yield "address", where
    is_open_to_all = hook.auth == tuple(WebhookAuth)
    ways = "" if is_open_to_all else f", as {_listed(hook.auth, show, 'or')}"
    yield "opened by", f"the secret {show(secret_name(hook))}{ways}"
    if hook.on:
        yield "only on", _listed(hook.on, show, "or")
    properties = hook.fields.get("properties")
    names = [*properties] if isinstance(properties, Mapping) else []
    yield "takes", _listed(names, show, "and") if names else "no data"
    yield "then", _outcome(hook)


def _outcome(hook: WebhookSpec) -> str:
    if hook.is_plain:
        return "its text comes to you with the data in it, without a model"
    pings = "may write to you" if hook.spec.allow_ping else "cannot write to you"
    return f"a background run reads the data as untrusted text, and {pings}"


def facts_of(hook: WebhookSpec, port: int | None) -> Iterator[str]:
    """The facts as lines of a card."""
    for name, fact in hook_facts(hook, port, lambda text: as_code(text, _LONGEST_NAME)):
        yield f"{name.capitalize()}: {fact}."


def named(hooks: Sequence[WebhookSpec], most: int = _MOST_NAMED) -> str:
    return _listed([hook.spec.id for hook in hooks], str, "and", most)


def _listed(
    names: Sequence[str], show: Callable[[str], str], last: str, most: int = _MOST_NAMED
) -> str:
    shown = [show(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))

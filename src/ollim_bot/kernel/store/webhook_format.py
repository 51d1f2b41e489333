"""The format of webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.job_formats import Fault, JobFormat
from ollim_bot.kernel.values.hook_jobs import WebhookAuth, WebhookSpec, is_hook_secret
from ollim_bot.kernel.values.job_fields import (
    BACKGROUND,
    COMMON,
    ORDERS,
    RESTRICTS,
    Field,
    JobField,
    WrongValue,
    text,
    words,
    wrong,
)
from ollim_bot.kernel.values.jobs import JobSpec
from ollim_bot.kernel.values.webhook_data import pointer_parts, schema_problems, unknown_places

_PLAIN = "plain"
_MOST_EVENTS = 50
_EVENTS = f"one or a list of 1 to {_MOST_EVENTS} events, such as issues.opened"


def schema(field: Field) -> dict[str, object]:
    if not isinstance(field.value, dict) or not field.value:
        raise wrong(field, "a JSON Schema such as {type: object, properties: {...}}")
    if problems := schema_problems(field.value):
        raise WrongValue("; ".join(problems))
    return field.value


def pointers(field: Field) -> dict[str, str]:
    right = "a JSON pointer for each field, such as {title: /issue/title}"
    if not isinstance(field.value, dict) or not field.value:
        raise wrong(field, right)
    for pointer in field.value.values():
        try:
            pointer_parts(pointer if isinstance(pointer, str) else "")
        except ValueError:
            raise wrong(Field(pointer, field.line, None), right) from None
    return field.value


def events(field: Field) -> tuple[str, ...]:
    # A number names no event, so no call would ever count.
    if not isinstance(field.value, str | list):
        raise wrong(field, _EVENTS)
    found = (field.value.strip(),) if isinstance(field.value, str) else words(field)
    if not found or not all(found) or len(found) > _MOST_EVENTS:
        raise wrong(field, _EVENTS)
    return found


def proofs(field: Field) -> tuple[WebhookAuth, ...]:
    found = (text(field),) if field.text is not None else words(field)
    try:
        named = {WebhookAuth(word) for word in found}
    except ValueError:
        named = set()
    if not named:
        raise wrong(field, f"one or a list of {', '.join(WebhookAuth)}")
    return tuple(way for way in WebhookAuth if way in named)


def variable(field: Field) -> str:
    value = text(field)
    if not is_hook_secret(value):
        raise wrong(field, "the name of a variable that ends in SECRET, such as GITHUB_HOOK_SECRET")
    return value


def deliver(field: Field) -> bool:
    if text(field) != _PLAIN:
        raise wrong(field, f"{_PLAIN}, or no such line")
    return True


def _webhook(spec: JobSpec, values: Mapping[str, Any]) -> WebhookSpec:
    return WebhookSpec(
        spec,
        values["fields"],
        values.get("secret-env"),
        values.get("pick", {}),
        values.get("on", ()),
        values.get("auth", tuple(WebhookAuth)),
        values.get("deliver", False),
    )


def _written(hook: WebhookSpec) -> dict[str, object]:
    own = {
        "fields": dict(hook.fields),
        "pick": dict(hook.pick),
        "on": hook.on,
        "auth": hook.auth if hook.auth != tuple(WebhookAuth) else (),
        "secret-env": hook.secret_env,
        "deliver": _PLAIN if hook.is_plain else None,
    }
    return {name: value for name, value in own.items() if value}


def _faults(values: Mapping[str, Any], body: str) -> Iterator[Fault]:
    if values.get("background") is False:
        yield "background", "is always true for a webhook; remove the line"
    for name in ("first-step", *(each.name for each in ORDERS)):
        if name in values:
            instead = "a webhook takes deliver: plain" if name == _PLAIN else "remove the line"
            yield name, f"is for routines and reminders; {instead}"
    if "fields" in values and "pick" in values:
        yield from _faults_of_picks(values["fields"], values["pick"])
    if "deliver" in values:
        yield from _faults_of_plain(values)
    for name in unknown_places(body, values["fields"]) if "fields" in values else ():
        yield None, f"{{{{{name}}}}} in the text is not one of the properties in fields"


def _faults_of_picks(fields: Mapping[str, Any], pick: Mapping[str, str]) -> Iterator[Fault]:
    for name in pick:
        if name not in fields.get("properties", {}):
            yield "pick", f"{name} is not one of the properties in fields"
    for name in fields.get("required", ()):
        if name not in pick:
            yield "pick", f"{name} is required in fields, so it has to be picked"


def _faults_of_plain(values: Mapping[str, Any]) -> Iterator[Fault]:
    for name in ("skills", *(each.name for each in COMMON if each.has(BACKGROUND))):
        if name in values and name != "allow-ping":
            yield name, "cannot be kept with deliver: plain, which asks no model; remove one"
    if values.get("allow-ping") is False:
        yield "deliver", "cannot be kept with allow-ping: false; remove one of the two"


WEBHOOKS = JobFormat(
    JobKind.WEBHOOK,
    own_rules=(
        JobField("fields", schema),
        JobField("pick", pointers),
        JobField("on", events, traits=RESTRICTS),
        JobField("auth", proofs, traits=RESTRICTS),
        JobField("secret-env", variable, traits=RESTRICTS),
        JobField("deliver", deliver, traits=RESTRICTS),
    ),
    required=("id", "fields"),
    background_by_default=True,
    build=_webhook,
    own_fields=_written,
    faults=_faults,
)

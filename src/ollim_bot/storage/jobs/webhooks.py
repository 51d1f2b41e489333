"""Webhooks as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ollim_bot.domain.jobs import JobKind, WebhookSpec
from ollim_bot.storage.documents.document import Field
from ollim_bot.storage.jobs.fields import FieldRule, text, wrong
from ollim_bot.storage.jobs.form import Fault, JobFormat


def schema(field: Field) -> dict[str, object]:
    if not isinstance(field.value, dict) or not field.value:
        raise wrong(field, "a JSON Schema such as {type: object, properties: {...}}")
    return field.value


def variable(field: Field) -> str:
    value = text(field)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise wrong(field, "the name of an environment variable such as GITHUB_SECRET")
    return value


def _own_fields(webhook: WebhookSpec) -> dict[str, object]:
    own: dict[str, object] = {"fields": dict(webhook.fields)}
    return own if webhook.secret_env is None else own | {"secret-env": webhook.secret_env}


def _faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values.get("background") is False:
        yield "background", "is always true for a webhook; remove the line"


WEBHOOKS = JobFormat(
    JobKind.WEBHOOK,
    own_rules=(FieldRule("fields", schema), FieldRule("secret-env", variable)),
    required=("id", "fields"),
    background_by_default=True,
    build=lambda spec, values: WebhookSpec(spec, values["fields"], values.get("secret-env")),
    own_fields=_own_fields,
    faults=_faults,
)

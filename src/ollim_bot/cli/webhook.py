"""`ollim-bot webhook`: what other programs start by a call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import note, open_data
from ollim_bot.cli.framework import JSON, Given, argument, print_json, shown_json
from ollim_bot.cli.jobs.fields import CalledNoun, flag
from ollim_bot.cli.jobs.verbs import job_argument, job_command
from ollim_bot.cli.jobs.views import list_jobs
from ollim_bot.cli.terminal import show
from ollim_bot.domain.jobs import SWITCHED_OFF, WebhookAuth, WebhookSpec, hook_address
from ollim_bot.domain.webhook_data import unknown_places
from ollim_bot.domain.webhook_schema import pointer_parts
from ollim_bot.domain.webhook_words import (
    named,
    own_secret_name,
    sharing_secret,
)
from ollim_bot.errors import BadSettings, WrongInput
from ollim_bot.store.webhook_format import WEBHOOKS

if TYPE_CHECKING:
    from ollim_bot.domain.quiet import QuietHours
    from ollim_bot.settings import Settings

_TYPES = ("string", "integer", "number", "boolean")
_SAMPLES: Mapping[str, object] = {
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "array": (),
}
_EACH = {"action": "append"}
_SEE = f"webhooks are {SWITCHED_OFF}; put both into the data directory's .env."


def _readable_settings(caller: Caller) -> Settings | None:
    """The settings; None if they are wrong, which keeps no file from being changed or listed."""
    try:
        return caller.settings()
    except BadSettings:
        return None


def _json(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except ValueError as wrong:
        raise WrongInput(f"{text[:40]!r} is not JSON: {wrong}.") from None


class WebhookNoun(CalledNoun[WebhookSpec]):
    form = WEBHOOKS
    flags = (
        flag(
            "--field",
            "field",
            "what comes with a call; repeat it for more",
            metavar="NAME[:TYPE|=ONE,TWO]",
            **_EACH,
        ),
        flag("--fields", "fields", "the same as a JSON Schema", metavar="JSON", type=_json),
        flag(
            "--pick",
            "pick",
            "where a field is in what others send; repeat it for more",
            metavar="NAME=/a/b",
            **_EACH,
        ),
        flag("--on", "on", "an event that counts; repeat it for more", metavar="E", **_EACH),
        flag(
            "--auth",
            "auth",
            "how callers prove that they know the secret; repeat it for more",
            metavar="|".join(WebhookAuth),
            **_EACH,
        ),
        flag(
            "--secret-env",
            "secret-env",
            "the setting with its own secret",
            metavar="NAME",
        ),
        flag("--deliver", "deliver", "plain: your text with the data, no model", metavar="plain"),
    )
    main_flags = "[--field NAME] [--deliver plain]"
    add_words = '-m "The wash is done." --id wash --deliver plain'
    edit_words = "wash --field minutes:integer"
    example_id = example_words = "wash"

    def own_fields(
        self,
        given: Given,
        now: datetime,  # noqa: ARG002
        quiet: QuietHours | None,  # noqa: ARG002
    ) -> dict[str, object]:
        own: dict[str, object] = {}
        if "pick" in given:
            own["pick"] = dict(_pick(text) for text in given["pick"])
        if "field" in given:
            if "fields" in given:
                raise WrongInput("--field and --fields both say what comes. Give one of them.")
            own["fields"] = _schema(dict(_field(text) for text in given["field"]))
        return own

    def completed(self, fields: Mapping[str, object], message: str) -> Mapping[str, object]:
        """A webhook without fields takes text for each that is picked, or that its text names."""
        pick = fields.get("pick")
        names = pick if isinstance(pick, Mapping) else unknown_places(message, {})
        return {"fields": _schema({name: {"type": "string"} for name in names}), **fields}

    def promise(self, job: WebhookSpec, now: datetime) -> str:  # noqa: ARG002
        return f"when /hook/{job.spec.id} is called"

    def facts(self, job: WebhookSpec, now: datetime) -> list[tuple[str, str]]:  # noqa: ARG002
        # The command of the agent shows the path alone: only the owner asks for the address.
        (_, *others) = job.facts(None)
        return [("path", f"/hook/{job.spec.id}"), *others]

    def cautions(self, job: WebhookSpec, caller: Caller) -> Iterator[str]:
        settings = _readable_settings(caller)
        if settings and settings.webhook_port is None:
            yield _SEE
        elif settings and settings.hook_secret(job.secret_env) is None:
            home = "the data directory's .env"
            yield f"nothing opens it until {job.secret_env} is set; put it into {home}."


def _pick(text: str) -> tuple[str, str]:
    name, is_split, pointer = text.partition("=")
    if not is_split:
        raise WrongInput(f"--pick: {text!r} names no place. Example: --pick title=/issue/title")
    return name.strip(), pointer.strip()


def _field(text: str) -> tuple[str, object]:
    """A field as given: `name`, `name:integer` or `name=one,two`."""
    found = re.fullmatch(r"([\w-]+)(?:(:|=)(.+))?", text.strip())
    if found is None:
        raise WrongInput(f"--field: {text!r} is not understood. Example: --field minutes:integer")
    name, sign, rest = found.groups()
    if sign == "=":
        return name, {"enum": [choice.strip() for choice in rest.split(",")]}
    kind = rest or "string"
    if kind not in _TYPES:
        raise WrongInput(f"--field: {kind!r} is not a type. It takes {', '.join(_TYPES)}.")
    return name, {"type": kind}


def _schema(properties: Mapping[str, object]) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object"}
    if properties:
        schema |= {"required": [*properties], "properties": dict(properties)}
    return schema


_NOUN = WebhookNoun()
_WEBHOOK, _HOOK = job_command(_NOUN), job_argument(_NOUN)
run = _WEBHOOK.run
_DATA = argument(
    "--data", metavar="JSON", help="what to send; @FILE reads a file, - standard input"
)


@_WEBHOOK.verb(f"all {_NOUN.plural}, {_NOUN.order}", "", JSON)
def _list(given: Given, caller: Caller) -> None:
    list_jobs(_NOUN, given, caller)
    settings = _readable_settings(caller)
    if "json" not in given and settings and settings.webhook_port is None:
        note(_SEE)


@_WEBHOOK.verb("its address, and a line that calls it", "wash", _HOOK, JSON)
def _url(given: Given, caller: Caller) -> None:
    from ollim_bot.cli.webhook_calls import hook_port

    data, noun, settings = open_data(caller), _NOUN, caller.settings()
    hooks = noun.repository(data)
    hook = hooks.get(noun.id_of(given, data)).item
    address = hook_address(hook.spec.id, hook_port(settings))
    secret = hook.secret_name
    line = _curl(hook, address) if WebhookAuth.BEARER in hook.auth else None
    others = sharing_secret(hook, [each.item for each in hooks.all()], settings.hook_secret)
    if "json" in given:
        shared = [other.spec.id for other in others]
        shown = {"address": address, "secret": secret, "auth": list(hook.auth), "curl": line}
        print_json({**shown, "shares_secret_with": shared})
        return
    print(address)
    if line is None:
        ways = " or ".join(hook.auth)
        show(f"Callers sign with the value of {secret}: {ways}.")
    else:
        print(line, flush=True)
        if secret not in caller.environ:
            home = caller.shown(data.paths.root / ".env")
            note(f"${secret} is not set in this shell. Its value is in {home}.")
    if others:
        own = own_secret_name(hook)
        note(f"its secret opens {named(others)} too. `--secret-env {own}` gives it its own.")


def _curl(hook: WebhookSpec, address: str) -> str:
    import json
    import shlex

    body = shlex.quote(shown_json(json.dumps(_sample(hook), ensure_ascii=False)))
    return f'curl {address} -H "Authorization: Bearer ${hook.secret_name}" -d {body}'


def _sample(hook: WebhookSpec) -> dict[str, Any]:
    """A body that the webhook probably accepts, with an event that counts."""
    properties = hook.fields.get("properties")
    body: dict[str, Any] = {}
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        *above, last = pointer_parts(hook.pick[name]) if name in hook.pick else (name,)
        place = body
        for step in above:
            if not isinstance(place.get(step), dict):
                place[step] = {}
            place = place[step]
        place[last] = _sample_value(schema)
    # Without `pick`, a body has no room for more than the fields.
    for event in hook.on[:1] if hook.pick else ():
        body = {"type": event, "action": event.rpartition(".")[2], **body}
    return body


def _sample_value(schema: object) -> object:
    if not isinstance(schema, Mapping):
        return "text"
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    name = str(kind[0] if isinstance(kind, list) else kind)
    return {} if name == "object" else _SAMPLES.get(name, "text")


@_WEBHOOK.verb(
    "run one now, with data of yours or made up; needs the bot running",
    """wash --data '{"minutes": 40}'""",
    _HOOK,
    _DATA,
    JSON,
    name="run",
)
@_WEBHOOK.verb(
    "call it as the service would, or only show what would come",
    "wash --sign github --dry-run",
    _HOOK,
    _DATA,
    JSON,
    argument("--sign", metavar="|".join(WebhookAuth), help="how to show the secret"),
    argument("--event", metavar="NAME", help="the event, as GitHub names it"),
    argument(
        "--dry-run",
        dest="dry_run",
        action="store_true",
        help="show the picked fields and what they lead to; nothing is called",
    ),
)
def _test(given: Given, caller: Caller) -> None:
    from ollim_bot.cli.webhook_calls import body_given, call_hook, rehearse_call

    data, noun = open_data(caller), _NOUN
    hook = noun.repository(data).get(noun.id_of(given, data)).item
    body = body_given(given, caller, _sample(hook))
    if "dry_run" in given:
        rehearse_call(hook, body, given, data)
    else:
        call_hook(hook, body, given, caller, data)

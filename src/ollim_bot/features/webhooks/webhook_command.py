"""`ollim-bot webhook`: what other programs start by a call."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ollim_bot.features.jobs.job_arguments import JobNoun, flag, standard_input
from ollim_bot.features.jobs.job_command import job_argument, job_command, setter
from ollim_bot.features.jobs.job_listing import list_jobs
from ollim_bot.features.webhooks.hook_requests import (
    LARGEST_BODY,
    is_wanted,
    named,
    own_secret_name,
    picked,
    read_object,
    sharing_secret,
    signed_headers,
)
from ollim_bot.kernel.base.errors import BadSettings, OllimError, WrongInput
from ollim_bot.kernel.base.http_exchange import HttpLimits, exchange
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.plain_files import read_file
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.prompts.turn_prompts import (
    Briefing,
    background_prompt,
    build_bg_preamble,
    sent_data,
)
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.values.hook_jobs import SWITCHED_OFF, WebhookAuth, WebhookSpec, hook_address
from ollim_bot.kernel.values.initiative import NO_RUN
from ollim_bot.kernel.values.webhook_data import (
    has_free_text,
    plain_text,
    pointer_parts,
    unknown_places,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    plain,
    print_json,
    shown_json,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, note, open_data

if TYPE_CHECKING:
    from ollim_bot.kernel.values.quiet import QuietHours

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
    try:
        return json.loads(text)
    except ValueError as wrong:
        raise WrongInput(f"{text[:40]!r} is not JSON: {wrong}.") from None


class WebhookNoun(JobNoun[WebhookSpec]):
    form = WEBHOOKS
    order = "by their ids"
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
        flag("--secret-env", "secret-env", "the setting with its own secret", metavar="NAME"),
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


@_WEBHOOK.verb(f"all {_NOUN.form.kind.plural}, {_NOUN.order}", "", JSON)
def _list(given: Given, caller: Caller) -> None:
    list_jobs(_NOUN, given, caller)
    settings = _readable_settings(caller)
    if "json" not in given and settings and settings.webhook_port is None:
        note(_SEE)


@_WEBHOOK.verb("its address, and a line that calls it", "wash", _HOOK, JSON)
def _url(given: Given, caller: Caller) -> None:
    data, noun, settings = open_data(caller), _NOUN, caller.settings()
    hooks = noun.repository(data)
    hook = hooks.get(noun.id_of(given, data)).item
    address = hook_address(hook.spec.id, hook_port(settings))
    secret = hook.secret_name
    line = None
    if WebhookAuth.BEARER in hook.auth:
        sent = shlex.quote(shown_json(json.dumps(_sample(hook), ensure_ascii=False)))
        line = f'curl {address} -H "Authorization: Bearer ${secret}" -d {sent}'
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
    data, noun = open_data(caller), _NOUN
    hook = noun.repository(data).get(noun.id_of(given, data)).item
    body = body_given(given, caller, _sample(hook))
    if "dry_run" in given:
        rehearse_call(hook, body, given, data)
    else:
        call_hook(hook, body, given, caller, data)


_IN_ENV = "into the data directory's .env, and restart the bot"
_LIMITS = HttpLimits(step=30.0)
_PING = "ping"
# More than the server takes, so that its refusal can be tried too.
_LARGEST_FILE = 2 * LARGEST_BODY
# A signature does not tell the secret to another program that has taken the port.
_BEST_FIRST = (WebhookAuth.STANDARD, WebhookAuth.GITHUB, WebhookAuth.STRIPE, WebhookAuth.BEARER)


def hook_port(settings: Settings) -> int:
    """The port of webhooks. Raises `WrongInput` if they are off."""
    if settings.webhook_port is None:
        raise WrongInput(f"Webhooks are {SWITCHED_OFF}. Put both {_IN_ENV}.")
    return settings.webhook_port


def body_given(given: Given, caller: Caller, sample: Mapping[str, object]) -> bytes:
    """What to send: the given text, the content of `@FILE`, or else the sample."""
    text = given.get("data")
    if text is None:
        return json.dumps(sample, ensure_ascii=False).encode()
    if text == "-":
        return standard_input().encode()
    if not text.startswith("@"):
        return str(text).encode("utf-8", "surrogateescape")
    if caller.agent is not None:
        # A dry run prints what it picks, also from a file that the agent must not read.
        raise OllimError("--data: @FILE is for the owner alone. Give the data itself.")
    path = caller.path(text[1:])
    try:
        return read_file(path, _LARGEST_FILE)
    except OSError as refused:
        raise WrongInput(f"--data: {path} cannot be read: {refused.strerror}.") from None


def call_hook(hook: WebhookSpec, body: bytes, given: Given, caller: Caller, data: Data) -> None:
    """Send the body to the running bot, and say in words what became of it.

    Raises `OllimError` if the call was refused.
    """
    if setter(caller, data) is not None:
        raise OllimError(NO_RUN)
    settings = caller.settings()
    port = hook_port(settings)
    way = _way(hook, given)
    secret = settings.hook_secret(hook.secret_env)
    if secret is None:
        raise WrongInput(f"{hook.secret_name} is not set. Put it {_IN_ENV}.")
    key = secret.reveal().encode("utf-8", "surrogateescape")
    proof = signed_headers(way, key, body, caller.now(), f"test_{secrets.token_hex(8)}")
    event = _event(hook, given, way)
    named = {"X-GitHub-Event": event} if event else {}
    headers = {"Content-Type": "application/json", **named, **proof}
    if running_pid(data.paths.bot_pid) is None:
        raise OllimError("The bot is not running, and only it takes calls. Start it: ollim-bot")
    address = f"http://127.0.0.1:{port}/hook/{hook.spec.id}"
    try:
        answer = exchange("POST", address, headers, body, limits=_LIMITS)
        said = json.loads(answer.body)
    except ConnectionRefusedError:
        restart = "If WEBHOOK_PORT was set since it started, restart the bot."
        raise OllimError(f"The bot runs, but nothing answers at port {port}. {restart}") from None
    except (OSError, ValueError) as unclear:
        reason = f"({type(unclear.__cause__ or unclear).__name__})"
        raise OllimError(f"The answer at port {port} was not understood {reason}.") from None
    if "json" in given:
        print_json({"status": answer.status, "answer": said})
    if answer.status >= 300:
        retry = f"Try it again in {answer.headers.get('retry-after', '')} s."
        raise OllimError("\n".join(_refusal(answer.status, said, retry, hook)))
    if "json" not in given:
        outcome = f"Ignored: the event is none of those that count: {', '.join(hook.on)}."
        match said.get("status"):
            case "accepted":
                outcome = (
                    f"Accepted. `ollim-bot runs show {said.get('run')}` tells what comes of it."
                )
            case "duplicate":
                outcome = f"The same call came before, and is not done again: {said.get('run')}."
        show(outcome)


def _way(hook: WebhookSpec, given: Given) -> WebhookAuth:
    if "sign" not in given:
        return next(way for way in _BEST_FIRST if way in hook.auth)
    try:
        return WebhookAuth(given["sign"])
    except ValueError:
        ways = ", ".join(WebhookAuth)
        raise WrongInput(f"--sign: {given['sign']!r} is not a way. It takes {ways}.") from None


def _event(hook: WebhookSpec, given: Given, way: WebhookAuth | None) -> str:
    """The event as GitHub names it; empty for a caller that names none."""
    if "event" in given:
        return str(given["event"])
    if way is not WebhookAuth.GITHUB:
        return ""
    return hook.on[0].partition(".")[0] if hook.on else _PING


def _refusal(status: int, said: Mapping[str, Any], retry: str, hook: WebhookSpec) -> Iterator[str]:
    match status:
        case 400 if "details" in said:
            yield from (f"Refused: {plain(str(each))}." for each in said["details"])
        case 400:
            yield "Refused: the data is not a JSON object. Example: --data '{\"minutes\": 40}'"
        case 401:
            ways = ", ".join(hook.auth)
            yield (
                f"Refused: the running bot knows another {hook.secret_name}, or does not take "
                f"this way. It takes {ways}. Restart the bot after a change of .env."
            )
        case 404 if said.get("error") == "disabled":
            yield f"Refused: it is paused. `ollim-bot webhook resume {hook.spec.id}` resumes it."
        case 404:
            yield "Refused: the running bot does not know it. `ollim-bot doctor` says why."
        case 413:
            yield "Refused: the data is over 1 MB."
        case 429:
            yield f"Refused: too many calls. {retry}"
        case 503:
            yield f"Not kept: no room on disk. {retry}"
        case _:
            yield f"Refused with {status}: {plain(str(said.get('error', '')))}."


def rehearse_call(hook: WebhookSpec, body: bytes, given: Given, data: Data) -> None:
    """Show the picked fields, and the text or the prompt that they lead to. Nothing is called."""
    from ollim_bot.features.webhooks.reception import problems_of

    sent = read_object(body)
    if sent is None:
        raise WrongInput("--data: it is not a JSON object. Example: --data '{\"minutes\": 40}'")
    event = _event(hook, given, _way(hook, given))
    if not is_wanted(hook, event, sent):
        raise OllimError(f"It would be ignored: `on` names only {', '.join(hook.on)}.")
    fields = picked(hook, sent)
    if problems := problems_of(hook, fields):
        raise OllimError("\n".join(f"It would be refused: {plain(each)}." for each in problems))
    effect = plain_text(hook.spec.message, fields) if hook.is_plain else _prompt(hook, fields, data)
    if "json" in given:
        print_json({"fields": fields, "text" if hook.is_plain else "prompt": effect})
        return
    shown = [
        (f"  {plain(name)}", shown_json(json.dumps(each, ensure_ascii=False)))
        for name, each in fields.items()
    ]
    show(f"fields\n{columns(shown) if shown else '  none'}")
    show(f"\n{'text' if hook.is_plain else 'prompt'}\n{plain(effect)}")
    if not hook.is_plain and has_free_text(hook.fields):
        note("it has free text, so a small model looks at it first, and may refuse it.")


def _prompt(hook: WebhookSpec, fields: Mapping[str, object], data: Data) -> str:
    briefing = Briefing(
        hook.spec.update_main_session,
        hook.spec.allow_ping,
        tools=hook.spec.allowed_tools,
        skills=hook.spec.skills,
        data=sent_data(fields),
    )
    return background_prompt(hook, data.now, preamble=build_bg_preamble(briefing), data=fields)

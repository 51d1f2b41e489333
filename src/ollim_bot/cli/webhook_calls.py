"""`ollim-bot webhook test`: calls a webhook of the running bot, or shows what a call would do."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, note
from ollim_bot.cli.framework import Given, columns, plain, print_json, shown_json
from ollim_bot.cli.jobs.changes import setter
from ollim_bot.cli.jobs.fields import standard_input
from ollim_bot.cli.terminal import show
from ollim_bot.domain.initiative import NO_RUN
from ollim_bot.domain.jobs import SWITCHED_OFF, WebhookAuth, WebhookSpec
from ollim_bot.domain.webhook_data import has_free_text, plain_text
from ollim_bot.domain.webhook_proofs import signed_headers
from ollim_bot.domain.webhooks import LARGEST_BODY, is_wanted, picked, read_object
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.http_exchange import HttpLimits, exchange
from ollim_bot.plain_files import read_file
from ollim_bot.prompts.turns import Briefing, background_prompt, build_bg_preamble, sent_data
from ollim_bot.settings import Settings
from ollim_bot.upkeep.instance import running_pid

_IN_ENV = "into the data directory's .env, and restart the bot"
_LIMITS = HttpLimits(step=30.0)
_PING = "ping"
# More than the server takes, so that its refusal can be tried too.
_LARGEST_FILE = 2 * LARGEST_BODY
# A signature does not tell the secret to another program that has taken the port.
_BEST_FIRST = (
    WebhookAuth.STANDARD,
    WebhookAuth.GITHUB,
    WebhookAuth.STRIPE,
    WebhookAuth.BEARER,
)


class _Answer(NamedTuple):
    status: int
    said: Mapping[str, Any]
    retry_after: str


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
    return _content(caller.path(text[1:]))


def _content(path: Path) -> bytes:
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
    headers = _headers(hook, body, given, caller, settings)
    if running_pid(data.paths.bot_pid) is None:
        raise OllimError("The bot is not running, and only it takes calls. Start it: ollim-bot")
    answer = _sent(port, hook.spec.id, body, headers)
    if "json" in given:
        print_json({"status": answer.status, "answer": answer.said})
    if answer.status >= 300:
        raise OllimError("\n".join(_refusal(answer, hook)))
    if "json" not in given:
        show(_outcome(answer, hook))


def _headers(
    hook: WebhookSpec, body: bytes, given: Given, caller: Caller, settings: Settings
) -> dict[str, str]:
    way = _way(hook, given)
    secret = settings.hook_secret(hook.secret_env)
    if secret is None:
        raise WrongInput(f"{hook.secret_name} is not set. Put it {_IN_ENV}.")
    key = secret.reveal().encode("utf-8", "surrogateescape")
    proof = signed_headers(way, key, body, caller.now(), f"test_{secrets.token_hex(8)}")
    event = _event(hook, given, way)
    named = {"X-GitHub-Event": event} if event else {}
    return {"Content-Type": "application/json", **named, **proof}


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


def _sent(port: int, hook_id: str, body: bytes, headers: Mapping[str, str]) -> _Answer:
    address = f"http://127.0.0.1:{port}/hook/{hook_id}"
    try:
        answer = exchange("POST", address, headers, body, limits=_LIMITS)
        said = json.loads(answer.body)
    except ConnectionRefusedError:
        restart = "If WEBHOOK_PORT was set since it started, restart the bot."
        raise OllimError(f"The bot runs, but nothing answers at port {port}. {restart}") from None
    except (OSError, ValueError) as unclear:
        reason = f"({type(unclear.__cause__ or unclear).__name__})"
        raise OllimError(f"The answer at port {port} was not understood {reason}.") from None
    return _Answer(answer.status, said, answer.headers.get("retry-after", ""))


def _outcome(answer: _Answer, hook: WebhookSpec) -> str:
    status, run = answer.said.get("status"), answer.said.get("run")
    if status == "accepted":
        return f"Accepted. `ollim-bot runs show {run}` tells what comes of it."
    if status == "duplicate":
        return f"The same call came before, and is not done again: {run}."
    return f"Ignored: the event is none of those that count: {', '.join(hook.on)}."


def _refusal(answer: _Answer, hook: WebhookSpec) -> Iterator[str]:
    match answer.status:
        case 400 if "details" in answer.said:
            yield from (f"Refused: {plain(str(each))}." for each in answer.said["details"])
        case 400:
            yield "Refused: the data is not a JSON object. Example: --data '{\"minutes\": 40}'"
        case 401:
            ways = ", ".join(hook.auth)
            yield (
                f"Refused: the running bot knows another {hook.secret_name}, or does not take "
                f"this way. It takes {ways}. Restart the bot after a change of .env."
            )
        case 404 if answer.said.get("error") == "disabled":
            yield f"Refused: it is paused. `ollim-bot webhook resume {hook.spec.id}` resumes it."
        case 404:
            yield "Refused: the running bot does not know it. `ollim-bot doctor` says why."
        case 413:
            yield "Refused: the data is over 1 MB."
        case 429:
            yield f"Refused: too many calls. Try it again in {answer.retry_after} s."
        case 503:
            yield f"Not kept: no room on disk. Try it again in {answer.retry_after} s."
        case _:
            yield f"Refused with {answer.status}: {plain(str(answer.said.get('error', '')))}."


def rehearse_call(hook: WebhookSpec, body: bytes, given: Given, data: Data) -> None:
    """Show the picked fields, and the text or the prompt that they lead to. Nothing is called."""
    from ollim_bot.webhooks.validation import problems_of

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

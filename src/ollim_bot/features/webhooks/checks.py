"""Checks the webhooks, their port and their secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ollim_bot.features.webhooks.hook_requests import named, own_secret_name, sharing_secret
from ollim_bot.kernel.base.http_exchange import Ask, ask, why_not_free
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    failed,
    off,
    passed,
    warned,
)
from ollim_bot.kernel.upkeep.looks import job_report, provider_of
from ollim_bot.kernel.values.hook_jobs import COMMON_SECRET, WebhookSpec
from ollim_bot.kernel.values.provider import Provider
from ollim_bot.kernel.values.webhook_data import has_free_text

_SHORTEST_SECRET = 16
_MOST_HOOKS = 3
_SWITCH_ON = (
    "Put `WEBHOOK_PORT=9100` and a long `WEBHOOK_SECRET` into `.env`, and run `ollim-bot` again."
)
_LONGER = "Put a longer random text there, and give it to the callers: `openssl rand -hex 32`."
_SIGN_IN = (
    "`ollim-bot auth login` signs in to a model; or let the fields be fixed lists and numbers, or "
    "write `deliver: plain`."
)
_RESTART = "`/restart` in the chat; if it was set only now, that is all it needs."
_OTHER_PORT = "Stop that program, or set `WEBHOOK_PORT` to another port and run `ollim-bot` again."


_MEND = "Mend the file; `ollim-bot webhook list` shows whether it is right."


def check_webhooks(given: DoctorInput) -> Found:
    report = job_report(given, WEBHOOKS)
    yield from map(failed, report.problems)
    yield from map(warned, report.warnings)
    hooks = [stored.item for stored in report.jobs]
    settings = given.settings
    if given.is_agents:
        yield passed(f"{counted(len(hooks), 'file')}; the owner's doctor sees the secrets")
        return
    if settings is None or settings.webhook_port is None:
        if hooks:
            yield warned(f"off, so nothing calls {named(hooks, _MOST_HOOKS)}", _SWITCH_ON)
        else:
            yield off("not set up; `WEBHOOK_PORT` and `WEBHOOK_SECRET` in `.env` turn them on")
        return
    is_running = running_pid(settings.paths.bot_pid) is not None
    yield port(settings.webhook_port, hooks, ask, is_running=is_running)
    yield from secrets(settings, hooks)
    yield from screening(hooks, lambda: provider_of(given))


def port(
    number: int,
    hooks: Sequence[WebhookSpec],
    ask: Ask,
    *,
    is_running: bool,
    refusal: Callable[[int], str] = why_not_free,
) -> DoctorFinding:
    """Whether the running bot answers there, or else whether a bot could."""
    paused = sum(not hook.spec.enabled for hook in hooks)
    count = f"{counted(len(hooks), 'webhook')}{f', {paused} paused' if paused else ''}"
    if not is_running:
        if reason := refusal(number):
            return failed(f"port {number} cannot be used: {reason}", _OTHER_PORT)
        return passed(f"{count}; port {number} is free, and the bot is not running")
    try:
        answer = ask(f"http://127.0.0.1:{number}/hook/doctor", {})
    except OSError:
        return failed(f"the bot runs, but nothing answers at port {number}", _RESTART)
    if (answer.status, answer.said) != (405, {"error": "method not allowed"}):
        return failed(f"another program has port {number}", _OTHER_PORT)
    return passed(f"{count}; the bot answers at port {number}")


def secrets(settings: Settings, hooks: Sequence[WebhookSpec]) -> Found:
    """Secrets that are not set, those that could be guessed, and those of several webhooks."""
    for name in dict.fromkeys([COMMON_SECRET, *(hook.secret_name for hook in hooks)]):
        secret = settings.hook_secret(name)
        users = [hook for hook in hooks if hook.secret_name == name]
        if secret is None:
            unset = f"{name} is not set, so nothing can call {named(users, _MOST_HOOKS)}"
            yield failed(unset, f"Put `{name}` into `.env`, and run `ollim-bot` again.")
        elif len(secret.reveal()) < _SHORTEST_SECRET:
            short = f"{name} has fewer than {_SHORTEST_SECRET} characters, and could be guessed"
            yield warned(short, _LONGER)
    told: set[str] = set()
    for hook in hooks:
        sharing = [hook, *sharing_secret(hook, hooks, settings.hook_secret)]
        if len(sharing) > 1 and hook.spec.id not in told:
            told |= {each.spec.id for each in sharing}
            names = " and ".join(dict.fromkeys(each.secret_name for each in sharing))
            one, own = sharing[-1].spec.id, own_secret_name(sharing[-1])
            edit = f"`ollim-bot webhook edit {one} --secret-env {own}`"
            shared = f"{named(sharing, _MOST_HOOKS)} share a secret ({names})"
            step = f"Give each its own: put `{own}` into `.env`, then {edit}."
            yield warned(f"{shared}: a call signed for one opens all", step)


def screening(hooks: Sequence[WebhookSpec], provider: Callable[[], Provider]) -> Found:
    """Webhooks whose text no model can screen; `provider` is asked only if there is any text."""
    asking = [hook for hook in hooks if hook.spec.enabled and not hook.is_plain]
    with_text = [hook for hook in asking if has_free_text(hook.fields)]
    if with_text and provider().is_offline:
        calls = f"calls of {named(with_text, _MOST_HOOKS)} are refused"
        yield warned(f"the offline model cannot screen text, so {calls}", _SIGN_IN)


CHECKS = (Check("webhooks", check_webhooks, _MEND, is_of_machine=True, place=100),)

"""Checks of jobs and webhooks, of the skills they name, and of the ledger of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TypeVar

from ollim_bot.features.doctor.data_checks import NoJournal
from ollim_bot.features.doctor.machine_checks import provider_of
from ollim_bot.features.doctor.network_checks import Ask, ask, why_not_free
from ollim_bot.features.webhooks.hook_requests import named, own_secret_name, sharing_secret
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe_with_distance
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.answer_plan_rows import with_known_plan
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import JobFormat
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.skill_files import SkillFolder, SkillLock
from ollim_bot.kernel.store.steps import holder_of_id
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    failed,
    off,
    passed,
    warned,
)
from ollim_bot.kernel.values.hook_jobs import COMMON_SECRET, WebhookSpec
from ollim_bot.kernel.values.jobs import Job, Reminder, RepositoryReport, Routine
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.provider import Provider
from ollim_bot.kernel.values.schedule import key_of, next_due
from ollim_bot.kernel.values.skills import does_not_load
from ollim_bot.kernel.values.tool_patterns import is_open, open_problem
from ollim_bot.kernel.values.webhook_data import has_free_text

J = TypeVar("J", bound=Job)

_MOST_NAMED = 5
_COMPARE = "If it was not you, `ollim-bot skill remove` and `ollim-bot skill add` bring it back."
_NO_EFFECT = "Leave it, it is for another program; `ollim-bot skill list` shows all skills."


def check_jobs(kind: JobKind, given: DoctorInput) -> Iterator[DoctorFinding]:
    report = job_report(given, JOB_TYPES[kind])
    yield from map(failed, report.problems)
    yield from map(warned, report.warnings)
    if report.jobs or not report.problems:
        found = [one.item for one in report.jobs]
        yield passed(_overview(kind, found, given.local_now, given.data.zone))


def check_skills(given: DoctorInput) -> Iterator[DoctorFinding]:
    skills = SkillFolder(given.data.paths.skills).read()
    for name, problems in skills.broken.items():
        yield failed(does_not_load(name, "; ".join(problems)))
    for difference in SkillLock(given.data.paths.skills).differences():
        yield warned(difference, _COMPARE)
    for skill in skills.loaded.values():
        yield from (warned(warning, _NO_EFFECT) for warning in skill.warnings)
        for tool in filter(is_open, skill.tools):
            yield warned(f"the skill {skill.name}: {open_problem(tool)}")
    for job in (one.item for form in JOB_TYPES.values() for one in job_report(given, form).jobs):
        key = key_of(job)
        for name in skills.unusable(job.spec.skills):
            if name not in skills.broken:
                take_out = f"take the name out: `ollim-bot {key.kind} show {key.id}`."
                step = f"Write skills/{name}/SKILL.md, or {take_out}"
                yield warned(f"{key} names the skill {name}, which is not there", step)
    count = len(skills.loaded)
    yield passed(counted(count, "skill") if count else "none")


def check_ledger(given: DoctorInput) -> Iterator[DoctorFinding]:
    # Read first: the ledger, read afterwards, has every occurrence claimed until this heartbeat.
    watched_until = HeartbeatFile(given.data.paths).read()
    if watched_until is None and given.is_shared:
        # When the machine that leads last recorded the time.
        led_until = given.read(lambda tx: tx.meta.get(SHARED_HEARTBEAT))
        watched_until = None if led_until is None else datetime.fromisoformat(led_until)
    # None if the database cannot be read, which is a check of its own.
    rows = given.read(lambda tx: tx.ledger.page(0, 2**62)[0]) or ()
    wrong = check(rows, given.local_now, watched_until)
    yield from map(failed, wrong[:_MOST_NAMED])
    if len(wrong) > _MOST_NAMED:
        step = "`ollim-bot runs check` names them all."
        yield failed(f"{len(wrong) - _MOST_NAMED} more like that", step)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(right if runs else "no runs yet")


def job_report(given: DoctorInput, form: JobFormat[J]) -> RepositoryReport[J]:
    """All jobs of a kind, without any change on disk."""
    paths = given.data.paths
    folder = paths.jobs(form.kind)
    with given.reading() as ask:

        def choose_holder(rivals: Sequence[Job]) -> int:
            return ask(lambda tx: holder_of_id(tx, rivals)) or 0

        def plan(job: Job) -> Job:
            return ask(lambda tx: with_known_plan(tx, job)) or job

        repository = MarkdownRepository(
            JobFileIndex(folder, form, OsDisk()),
            FileLock(paths.lock_of(folder)),
            journal=NoJournal(),
            choose_holder=choose_holder,
            plan=plan,
        )
        return repository.report()


def _overview(kind: JobKind, found: Sequence[Job], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    timed = [job for job in found if isinstance(job, Routine | Reminder)]
    waiting = [job for job in timed if isinstance(job, Reminder) and job.spec.enabled]
    counts = [counted(len(found), str(kind))]
    if paused := sum(not job.spec.enabled for job in found):
        counts.append(f"{paused} paused")
    if overdue := sum(job.due(zone).astimezone(UTC) <= now.astimezone(UTC) for job in waiting):
        counts.append(f"{overdue} overdue")
    coming = [(at, job.spec.short_title) for job in timed if (at := next_due(job, now, zone))]
    moment, title = min(coming, default=(None, ""))
    after = f"; next {describe_with_distance(moment, now)}: {title}" if moment else ""
    return f"{', '.join(counts)}{after}"


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


def check_webhooks(given: DoctorInput) -> Iterator[DoctorFinding]:
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


def secrets(settings: Settings, hooks: Sequence[WebhookSpec]) -> Iterator[DoctorFinding]:
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


def screening(
    hooks: Sequence[WebhookSpec], provider: Callable[[], Provider]
) -> Iterator[DoctorFinding]:
    """Webhooks whose text no model can screen; `provider` is asked only if there is any text."""
    asking = [hook for hook in hooks if hook.spec.enabled and not hook.is_plain]
    with_text = [hook for hook in asking if has_free_text(hook.fields)]
    if with_text and provider().is_offline:
        calls = f"calls of {named(with_text, _MOST_HOOKS)} are refused"
        yield warned(f"the offline model cannot screen text, so {calls}", _SIGN_IN)


def _of_jobs(kind: JobKind) -> Check:
    # Webhooks have more to check than their files.
    look = check_webhooks if kind is JobKind.WEBHOOK else partial(check_jobs, kind)
    step = f"Mend the file; `ollim-bot {kind} list` shows whether it is right."
    is_of_machine = kind is JobKind.WEBHOOK
    return Check(kind.plural, look, step, is_of_machine=is_of_machine, place=100)


_MEND_SKILL = "Mend the file; `ollim-bot skill list` shows whether the agent sees the skill."
_SHOW_RUN = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."

CHECKS = (
    *map(_of_jobs, JobKind),
    Check("ledger", check_ledger, _SHOW_RUN, place=110),
    Check("skills", check_skills, _MEND_SKILL, place=150),
)

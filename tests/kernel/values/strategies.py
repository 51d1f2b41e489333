"""Values of the domain for property tests, all valid in their file formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.cards import ButtonPrompt, ButtonPrompts
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.forks import ForkMessage
from ollim_bot.kernel.values.hook_jobs import WebhookAuth, WebhookSpec
from ollim_bot.kernel.values.jobs import (
    Chain,
    ItemKind,
    JobSpec,
    Late,
    Model,
    Reminder,
    ReportMode,
    Routine,
)
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.runtime_config import ConfigValue, PermissionMode, RuntimeConfig
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

# Half a surrogate pair is no text, and two halves that meet become another character.
texts = st.text(st.characters(exclude_categories=["Cs"]))
prose = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60)
lines = prose.map(lambda text: " ".join(text.split()))
bodies = st.lists(prose, min_size=1, max_size=4).map("\n".join).map(str.strip).filter(bool)
json_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcdefgh"), inner, max_size=3)
    ),
    max_leaves=6,
)

zones = st.sampled_from(
    [
        ZoneInfo(name)
        for name in (
            *("UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Asia/Kolkata"),
            *("Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Africa/Cairo"),
        )
    ]
)
offsets = st.sampled_from(
    [UTC, *(timezone(timedelta(minutes=minutes)) for minutes in (-720, -210, 60, 345, 840))]
)
# With fixed offsets: in an hour that a zone repeats, a time equals no time of another zone.
instants = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=offsets)
dates = st.dates(date(1971, 1, 1), date(9000, 1, 1))
unix_seconds = st.floats(0, 1e10) | st.integers(0, 10**10).map(float)

session_ids = (st.uuids().map(str) | st.text("abc-019", min_size=1)).map(SessionId)
session_events = st.builds(
    SessionEvent, session_ids, st.sampled_from(SessionChange), instants, st.none() | session_ids
)


@st.composite
def pending_updates(draw: st.DrawFn) -> PendingUpdates:
    """As the file may hold it: after appends, and after a claim was returned."""
    ids = draw(st.lists(st.uuids().map(lambda one: one.hex[:8]), unique=True, max_size=26))
    updates = [
        PendingUpdate(draw(instants), draw(texts), update_id, draw(st.sampled_from(["", "mail"])))
        for update_id in ids
    ]
    cut = draw(st.integers(0, len(updates)))
    return _after_appends(updates[cut:]).restored(_after_appends(updates[:cut]))


def _after_appends(updates: Sequence[PendingUpdate]) -> PendingUpdates:
    return reduce(lambda pending, update: pending.appended(update)[0], updates, PendingUpdates())


fork_messages = st.builds(
    ForkMessage,
    message_id=st.integers(0, 2**63 - 1),
    fork_session_id=session_ids,
    parent_session_id=st.none() | session_ids,
    ts=unix_seconds,
)
inquiry_keys = st.text("0123456789abcdef", min_size=8, max_size=8)
inquiry = st.builds(
    ButtonPrompt, inquiry_keys, texts, unix_seconds, st.lists(texts, max_size=2).map(tuple)
)
inquiries = st.lists(inquiry, max_size=5, unique_by=lambda each: each.key).map(
    lambda waiting: ButtonPrompts(tuple(waiting))
)


@st.composite
def ping_budgets(draw: st.DrawFn) -> PingBudget:
    capacity = draw(st.integers(1, 20) | st.integers(1, 1_000_000))
    return PingBudget(
        capacity=capacity,
        available=draw(st.floats(0, capacity) | st.integers(0, capacity).map(float)),
        refill_rate_minutes=draw(st.integers(1, 300) | st.integers(1, 1_000_000)),
        last_refill=draw(instants),
        critical_used=draw(st.integers(0, 20)),
        critical_reset_date=draw(dates),
        daily_used=draw(st.integers(0, 20)),
        daily_used_reset=draw(dates),
    )


PingStep = Callable[[PingBudget, datetime], PingBudget]
_limits = st.integers(1, 1_000_000)
ping_steps: st.SearchStrategy[PingStep] = st.one_of(
    st.sampled_from([PingBudget.refilled, PingBudget.given_back, PingBudget.critical_given_back]),
    st.just(lambda budget, now: budget.spent(now)[0]),
    st.integers(0, 9).map(lambda cap: lambda budget, now: budget.critical_spent(now, cap)[0]),
    st.tuples(_limits, _limits).map(
        lambda limits: (
            lambda budget, now: budget.resized(
                now, capacity=limits[0], refill_rate_minutes=limits[1]
            )
        )
    ),
)

_numbers = st.integers(1, 999_999_999)
_models = st.none() | st.sampled_from(
    ["opus", "sonnet", "haiku", "claude-opus-4-6", "qwen3:8b", "us.anthropic/claude@2025[1m]"]
)
_thinking = st.sampled_from(["off", "adaptive"]) | _numbers
_ids = st.text("abcxyz019@.#_-", min_size=1, max_size=30)
config_values: Mapping[str, st.SearchStrategy[ConfigValue]] = {
    "model.main": _models,
    "model.fork": _models,
    "thinking.main": _thinking,
    "thinking.fork": _thinking,
    "bg_fork_timeout": _numbers,
    "bg_concurrency": st.integers(1, 16),
    "fork_idle_timeout": _numbers,
    "permission_mode": st.sampled_from([mode.value for mode in PermissionMode]),
    "approval_timeout": _numbers,
    "critical_daily_cap": st.integers(0, 999_999_999),
    "daily_cost_cap": st.none() | st.floats(0.01, 1_000_000),
    "nag_default": st.none()
    | st.builds(lambda pause, times: f"{pause}m x {times}", st.integers(2, 59), st.integers(1, 8)),
    "travel_minutes": st.none() | st.integers(1, 600),
    "quiet_hours": st.none()
    | st.lists(st.times(), min_size=2, max_size=2, unique_by=lambda each: f"{each:%H:%M}").map(
        lambda ends: f"{ends[0]:%H:%M}-{ends[1]:%H:%M}"
    ),
    "receipt_in_digest": st.booleans(),
    "push_what": st.sampled_from(["asks", "must", "all"]),
    "push_content": st.sampled_from(["full", "title", "none"]),
    "desktop_notifications": st.sampled_from(["auto", "on", "off"]),
    "page_sound": st.booleans(),
    "timezone": st.none() | st.sampled_from(["Asia/Tokyo", "America/New_York", "UTC"]),
    "webhook_per_minute": _numbers,
    "webhook_total_per_minute": _numbers,
    "auto_update": st.booleans(),
    "auto_backup": st.booleans(),
    "auto_update_hour": st.integers(0, 23),
    "google_calendars": st.lists(_ids, min_size=1, max_size=4).map(tuple),
    "google_task_list": _ids,
}
settled_configs = st.fixed_dictionaries({}, optional=dict(config_values)).map(
    lambda values: reduce(
        lambda config, key: config.with_value(key, values[key]), values, RuntimeConfig()
    )
)


@st.composite
def runtime_configs(draw: st.DrawFn) -> RuntimeConfig:
    """Some have values that this version cannot read."""
    unread = draw(st.dictionaries(st.text("klm.", min_size=1), json_values, max_size=2))
    return replace(draw(settled_configs), unread=unread)


job_ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True)
delivery_keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
timed_kinds = st.sampled_from([JobKind.ROUTINE, JobKind.REMINDER])
_moments = st.builds(Occurrence.scheduled, timed_kinds, job_ids, instants)
_by_hand = st.builds(Occurrence.by_hand, timed_kinds, job_ids, instants)
lengths = st.integers(1, 9999).map(lambda minutes: timedelta(minutes=minutes))
parted = st.builds(Occurrence.again, _moments | _by_hand, st.integers(2, 9)) | st.builds(
    Occurrence.before, _moments, lengths
)
occurrences = (
    _moments
    | parted
    | st.builds(Occurrence.by_hand, st.sampled_from(JobKind), job_ids, instants)
    | st.builds(Occurrence, st.just(JobKind.WEBHOOK), job_ids, delivery_keys)
)
facts = st.dictionaries(st.text("abcdefgh_", min_size=1), json_values, max_size=4)
ledger_rows = st.builds(
    LedgerRow, instants, st.sampled_from([*OccurrenceState]).map(str), occurrences, facts
) | st.builds(
    LedgerRow,
    instants,
    st.sampled_from(["armed", "changed", "removed", "update_dropped"]),
    st.none(),
    facts,
)

crons = st.sampled_from(
    ["30 8 * * 1-5", "*/15 * * * *", "0 9 13 * fri", "@daily", "0 2 29 feb *", "5,35 */2 1-7 * mon"]
).map(Cron.parse)
tool_names = st.sampled_from(["Read", "Bash(git status:*)", "mcp__mail__search", "WebFetch"])
_names = st.text("abcdefgh-", min_size=1, max_size=12)


nags = st.builds(
    Nag, st.integers(2, 1440).map(lambda each: timedelta(minutes=each)), st.integers(1, 8)
)
heads_ups = st.sets(st.integers(1, 7 * 1440), max_size=5).map(
    lambda minutes: tuple(timedelta(minutes=each) for each in sorted(minutes, reverse=True))
)


@st.composite
def job_specs(
    draw: st.DrawFn, *, background: bool | None = None, has_moments: bool = True
) -> JobSpec:
    """With `has_moments`, it may ask for an answer and be announced."""
    if background is None:
        background = draw(st.booleans())
    allow_ping = not background or draw(st.booleans())
    asks = has_moments and allow_ping
    kind = draw(st.none() | st.sampled_from(ItemKind)) if asks else None
    choices = [None, False, True] if asks else [None]
    return JobSpec(
        id=draw(job_ids),
        message=draw(bodies),
        description=draw(lines),
        background=background,
        model=draw(st.none() | st.sampled_from(Model)) if background else None,
        thinking=not background or draw(st.booleans()),
        isolated=background and draw(st.booleans()),
        update_main_session=(
            draw(st.sampled_from(ReportMode)) if background else ReportMode.ON_PING
        ),
        allow_ping=allow_ping,
        allowed_tools=tuple(draw(st.lists(tool_names, max_size=3))) if background else (),
        skills=tuple(draw(st.lists(_names, max_size=3))),
        timezone=draw(st.none() | zones),
        late=draw(st.none() | st.sampled_from(Late)),
        enabled=draw(st.booleans()),
        must=draw(st.sampled_from([each for each in choices if each is not False or not kind])),
        plain=asks and draw(st.booleans()),
        kind=kind,
        nag=draw(st.none() | nags) if asks else None,
        first_step=draw(lines) if has_moments else "",
        before=draw(heads_ups) if asks else (),
        untrusted=draw(st.none() | st.sampled_from(["web page", "web page, picture"])),
    )


chains = st.integers(0, 20).flatmap(
    lambda most: st.builds(Chain, st.just(most), st.integers(0, most), st.none() | job_ids)
)
wall_times = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1))
moments = wall_times | instants
run_ats = moments.map(lambda moment: moment.replace(microsecond=0))
_properties: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [
        {"type": "string", "maxLength": 100},
        {"enum": ["open", "closed"]},
        {"type": "integer", "minimum": 0},
        {"type": "array", "items": {"type": "number"}},
    ]
)
schemas = st.dictionaries(_names, _properties, max_size=20).map(
    lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)}
)

routines = st.builds(Routine, job_specs(), crons)
reminders = st.builds(Reminder, job_specs(), run_ats) | st.builds(
    Reminder, job_specs().map(lambda spec: replace(spec, nag=None, plain=False)), run_ats, chains
)


@st.composite
def _webhooks(draw: st.DrawFn) -> WebhookSpec:
    fields = draw(schemas)
    names = sorted(fields["properties"])
    is_plain = draw(st.booleans())
    spec = draw(job_specs(background=True, has_moments=False))
    if is_plain:
        spec = JobSpec(
            id=spec.id, message=spec.message, background=True, description=spec.description
        )
    return WebhookSpec(
        spec,
        fields,
        draw(st.none() | st.from_regex(r"[A-Z_][A-Z0-9_]{0,20}_SECRET", fullmatch=True)),
        {name: f"/event/{number}" for number, name in enumerate(names)}
        if draw(st.booleans())
        else {},
        tuple(draw(st.lists(_names, max_size=3))),
        draw(st.sampled_from([tuple(WebhookAuth), (WebhookAuth.GITHUB,)])),
        is_plain,
    )


webhooks = _webhooks()

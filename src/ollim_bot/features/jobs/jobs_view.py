"""The jobs on the page: each with its past and what is to come; and the form of one, as markup."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from html import escape
from itertools import islice
from typing import NamedTuple

from ollim_bot.features.today.quick_add_box import LINE_FIELDS, QuickAdds
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe, instant, midnight_after
from ollim_bot.kernel.base.text import counted, shortened, visible
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.costs import PAST, PastCosts
from ollim_bot.kernel.values.job_form import (
    TEXT,
    FormField,
    JobForm,
    address_of,
    dated,
    next_moments,
    when_in_words,
)
from ollim_bot.kernel.values.job_list import (
    DAYS,
    DayState,
    JobDay,
    JobLine,
    JobList,
    JobPast,
    LastRun,
)
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine, list_order
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.receipts import DueThing, Fate, due_things
from ollim_bot.kernel.values.run_history import RunStory
from ollim_bot.kernel.values.run_words import state_in_words, why
from ollim_bot.kernel.values.schedule import Skips, skipped_moment
from ollim_bot.kernel.values.views import ActingView, Preview, ViewAnswer
from ollim_bot.surfaces.web.marked import ViewPage, joined_parts, quick_add, section, show_more

# The ledger has a row for each change of a job; a change by the page or a command has one sooner.
_MADE_OF = ("ledger", "changes", "usage", "zone", "skips")

# How many moments before the last 30 days are looked at to find the last run.
_EARLIER = 5

# Does what a button of a job's form does.
ActOnJob = Callable[[str, str, Mapping[str, str]], Awaitable[ViewAnswer]]

_STATES = {
    Fate.CAME: DayState.ON_TIME,
    Fate.HELD: DayState.WAITING,
    Fate.SKIPPED: DayState.SKIPPED,
    Fate.MISSED: DayState.MISSED,
    Fate.LOST: DayState.MISSED,
    Fate.FAILED: DayState.FAILED,
    Fate.UNDER_WAY: DayState.WAITING,
}
_WORST_FIRST = tuple(DayState)


class _Known(NamedTuple):
    """A job with its next `moment`; `text` has its words in small letters, and its id."""

    job: Job
    moment: datetime | None
    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """All jobs in order, and the past of those that were shown; right until `until`."""

    jobs: Sequence[_Known]
    problems: Sequence[str]
    warnings: Sequence[str]
    skips: Skips
    at: datetime
    until: datetime
    past: dict[str, JobPast] = field(default_factory=dict)

    def by_object(self, now: datetime) -> dict[int, _Known]:
        """The jobs whose next moment is the same at `now`, by the identity of the job."""
        if now.tzinfo != self.at.tzinfo or now < self.at:
            return {}
        utc = now.astimezone(UTC)
        return {
            id(each.job): each
            for each in self.jobs
            if each.moment is None or each.moment.astimezone(UTC) > utc
        }


@dataclass(eq=False)
class JobListing(ActingView[JobList]):
    """An `ActingView` of the jobs that have all `words` and the `kind` of the address.

    Of them, it reads `most`. The actions are `pause` and `resume` of the job `id`, and `add`, which
    adds what a `line` says.
    """

    _store: Store
    _repositories: JobRepositories
    _clock: Clock
    _act_on_job: ActOnJob
    _lines: QuickAdds
    _watches: ExitStack = field(default_factory=ExitStack, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _kept: _Kept | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._has_changed = self._watches.enter_context(self._store.changes(*_MADE_OF))

    async def look(self, asked: Mapping[str, str]) -> JobList:
        async with self._one_at_a_time:
            now, kept = self._clock.now(), self._kept
            is_old = kept is None or now.astimezone(UTC) >= kept.until
            if kept is None or is_old or self._has_changed.is_set():
                self._has_changed.clear()
                kept = self._kept = await asyncio.to_thread(self._read, now)
            return await asyncio.to_thread(self._list, kept, asked, now)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == "add":
            answer = await self._lines.add(*(fields.get(each, "") for each in LINE_FIELDS))
        elif action in ("pause", "resume"):
            answer = await self._act_on_job(surface, action, {"id": fields.get("id", "")})
        else:
            return ViewAnswer("There is no such button here.", is_error=True)
        self._has_changed.set()
        return answer

    async def preview(self, action: str, fields: Mapping[str, str]) -> Preview:
        return await self._lines.preview(fields.get("line", "")) if action == "add" else Preview()

    def _read(self, now: datetime) -> _Kept:
        reports = [each.report() for each in self._repositories.by_kind.values()]
        jobs: list[Job] = [stored.item for each in reports for stored in each.jobs]
        before = {} if self._kept is None else self._kept.by_object(now)
        same, known = Counter(job.spec.id for job in jobs), list[_Known]()
        for job in jobs:
            name, words = job.spec.id, job.spec.words
            key = name if same[name] == 1 else f"{job.kind}:{name}"
            one = before.get(id(job)) or _Known(
                job, _first_moment(job, now), f"{words} {name}".casefold()
            )
            known.append(one._replace(key=key))
        named = sorted(known, key=lambda each: list_order(each.job, each.moment))
        utc, midnight = now.astimezone(UTC), midnight_after(now).astimezone(UTC)
        coming = (each.moment.astimezone(UTC) for each in known if each.moment is not None)
        until = min((each for each in coming if each > utc), default=midnight)
        problems = [problem for each in reports for problem in each.problems]
        warnings = [warning for each in reports for warning in each.warnings]
        skips = self._store.query(lambda tx: tx.skips.get())
        return _Kept(named, problems, warnings, skips, now, min(until, midnight))

    def _list(self, kept: _Kept, asked: Mapping[str, str], now: datetime) -> JobList:
        words, wanted = asked.get("words", ""), asked.get("kind", "")
        kind = JobKind(wanted) if wanted in [*JobKind] else None
        most = int(asked["most"]) if asked.get("most", "").isdecimal() else 100
        terms = words.casefold().split()
        fitting = [each for each in kept.jobs if all(term in each.text for term in terms)]
        found = [each for each in fitting if kind in (None, each.job.kind)]
        shown = found[:most]
        unread = [each for each in shown if each.key not in kept.past]
        if unread:
            read = self._store.query(lambda tx: {k.key: _past(tx, k.job, now) for k in unread})
            kept.past.update(read)
        return JobList(
            now,
            [_line_of(each, kept, now) for each in shown],
            len(found),
            len(kept.jobs),
            words,
            kind,
            kept.problems,
            Counter(each.job.kind for each in fitting),
            kept.warnings,
        )


def _first_moment(job: Job, now: datetime) -> datetime | None:
    """The next moment, or that of a reminder which is overdue; None while it is paused."""
    if not job.spec.enabled:
        return None
    zone = now.tzinfo or UTC
    if isinstance(job, Reminder):
        return job.due(zone)
    return job.next_after(now, zone) if isinstance(job, Routine) else None


def _line_of(known: _Known, kept: _Kept, now: datetime) -> JobLine:
    job, moments, standstill = known.job, next_moments(known.job, now), ""
    is_overdue = is_skipped = False
    if isinstance(job, Reminder) and job.spec.enabled and not moments:
        moments, is_overdue = (job.due(now.tzinfo or UTC),), True
    elif isinstance(job, Routine) and job.spec.enabled:
        is_skipped = skipped_moment(job, kept.skips, now) is not None
        standstill = "" if moments else job.standstill
    return JobLine(
        known.key,
        job.kind,
        job.spec.owner_title or job.spec.id,
        when_in_words(job, now),
        moments,
        job.spec.enabled,
        is_overdue,
        is_skipped,
        standstill,
        not job.is_plain,
        kept.past[known.key],
    )


def _past(tx: Transaction, job: Job, now: datetime) -> JobPast:
    kind, job_id = job.kind, job.spec.id
    # The first day of a strip.
    first = now.date() - timedelta(days=DAYS - 1)
    begin = instant(datetime.combine(first, time.min), now.tzinfo or UTC)
    stories: list[RunStory] = tx.ledger.stories_since(kind, job_id, begin)
    if not stories and kind.has_moments:
        earlier = islice(tx.ledger.moments_of(kind, job_id), _EARLIER)
        stories = [tx.ledger.story(each) for each in earlier]
    cost = None
    if not job.is_plain:
        cost = PastCosts(tx.usage.of_job(kind, job_id, now - PAST)).amount(job)
    return JobPast([*_days(due_things(stories), now)], cost, _last(stories, now))


def _days(things: Iterable[DueThing], now: datetime) -> Iterator[JobDay]:
    found: dict[date, JobDay] = {}
    for thing in things:
        day = thing.due.astimezone(now.tzinfo).date()
        state = DayState.LATE if thing.is_late else _STATES[thing.fate]
        known = found.get(day)
        if known is None or _WORST_FIRST.index(state) < _WORST_FIRST.index(known.state):
            said = ""
            if thing.story is not None and state in (DayState.SKIPPED, DayState.FAILED):
                said = why(thing.story, now).partition(": ")[2]
            found[day] = JobDay(day, state, said)
    for ago in reversed(range(DAYS)):
        day = now.date() - timedelta(days=ago)
        yield found.get(day, JobDay(day))


def _last(stories: Iterable[RunStory], now: datetime) -> LastRun | None:
    begun = [
        each
        for each in stories
        if each.state not in (None, OccurrenceState.PLANNED) and not each.occurrence.part
    ]
    if not begun:
        return None
    newest = max(begun, key=lambda each: each.fired.timestamp())
    return LastRun(newest.fired, why(newest, now) or state_in_words(newest))


_EMPTY = "There are no jobs yet. All that comes again, reminds you or is called will stand here."
_HINT = "Write one line above, such as <code>stretch every weekday at 11</code>."
_NONE_FITS = 'No job fits. <a href="/jobs">Show all jobs</a>'
_LONGEST = 300
_MOST_PROBLEMS = 5
# A day of the strip is so wide and high; the height of its bar tells its state beside its colour.
_STEP, _WIDTH, _HEIGHT = 10, 8, 20
_HEIGHTS = {
    DayState.ON_TIME: 20,
    DayState.LATE: 14,
    DayState.SKIPPED: 8,
    DayState.WAITING: 5,
    DayState.NOTHING: 2,
    DayState.MISSED: 20,
    DayState.FAILED: 20,
}


@joined_parts
def jobs_html(listed: JobList, _: int) -> Iterator[str]:
    """The panel: a line that adds a job, a filter, and a line for each job that was read."""
    yield "<h2>Jobs</h2>"
    yield quick_add("Add a job", "stretch every weekday at 11")
    if listed.all:
        kinds = "".join(
            f'<option value="{kind}"{" selected" if listed.kind is kind else ""}>'
            f"{kind.plural.capitalize()} · {listed.counts.get(kind, 0)}</option>"
            for kind in JobKind
        )
        every = sum(listed.counts.values())
        yield (
            '<form data-filter><label>Find<input name="words" maxlength="200" '
            f'autocomplete="off" value="{escape(listed.words)}"></label>'
            f'<label>Kind<select name="kind"><option value="">All · {every}</option>{kinds}'
            "</select></label></form>"
        )
    yield _sentences("These files are wrong, and do not run", listed.problems)
    yield _sentences("Not all in these files counts", listed.warnings)
    if not listed.lines:
        words = _NONE_FITS if listed.all else f"{_EMPTY}<br>{_HINT}"
        yield f'<p class="empty">{words}</p>'
        return
    lines = "".join(_line(each, listed.now) for each in listed.lines)
    total = counted(listed.found, "job")
    yield section("jobs-all", total, f'<ul class="things jobs">{lines}</ul>')
    yield show_more(listed.found - len(listed.lines))


def _sentences(heading: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    shown = "".join(
        f"<li><bdi>{escape(visible(shortened(each, _LONGEST)))}</bdi></li>"
        for each in found[:_MOST_PROBLEMS]
    )
    more = len(found) - _MOST_PROBLEMS
    rest = f"<li>and {more} more: <code>ollim-bot doctor</code> names them</li>" if more > 0 else ""
    return f'<section class="wrong"><h3>{heading}</h3><ul>{shown}{rest}</ul></section>'


def _line(line: JobLine, now: datetime) -> str:
    title = escape(visible(line.title))
    action, label = ("pause", "Pause") if line.is_enabled else ("resume", "Resume")
    state = "" if line.is_enabled else " is-paused"
    return (
        f'<li class="thing job{state}"><p><a class="what" href="{escape(address_of(line.key))}">'
        f"<bdi>{title}</bdi></a></p>"
        f'<p class="when">{escape(_when(line, now))}</p>{_strip(line.past)}'
        f'<p class="about"><bdi>{escape(visible(_about(line, now)))}</bdi></p>'
        f'<div class="buttons"><button type="button" data-action="{action}" '
        f'data-field-id="{escape(line.key)}" aria-label="{label}: {title}">{label}</button></div>'
        "</li>"
    )


def _when(line: JobLine, now: datetime) -> str:
    """`Routine · On · at 9:00 on Monday · next Mon 2 Mar, 9:00, then …`."""
    kind = line.kind.capitalize()
    if not line.is_enabled:
        return " · ".join(filter(None, (kind, "Paused", _lower(line.rhythm))))
    if line.is_overdue:
        return f"{kind} · On · overdue since {dated(line.next[0], now)}"
    if line.kind is JobKind.REMINDER:
        return f"{kind} · On · {line.rhythm}"
    if not line.kind.has_moments:
        return f"{kind} · On · runs when it is called"
    coming = ", then ".join(dated(each, now) for each in line.next)
    skipped = " · the next time is skipped" if line.is_skipped else ""
    then = f"next {coming}{skipped}" if coming else f"it {line.standstill}"
    return f"{kind} · On · {_lower(line.rhythm)} · {then}"


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _strip(past: JobPast) -> str:
    """A bar for each day, and the same in words; one path has the bars of a state."""
    if not past.days:
        return ""
    bars: dict[DayState, str] = {}
    for place, each in enumerate(past.days):
        bar = f"M{place * _STEP + 1} {_HEIGHT}h{_WIDTH}v-{_HEIGHTS[each.state]}h-{_WIDTH}z"
        bars[each.state] = bars.get(each.state, "") + bar
    paths = "".join(
        f'<path class="{state.replace(" ", "-")}" d="{bar}"/>' for state, bar in bars.items()
    )
    words = escape(visible(shortened(past.sentence, _LONGEST)))
    return (
        f'<figure class="past"><svg viewBox="0 0 {DAYS * _STEP} {_HEIGHT}" aria-hidden="true" '
        f'class="days">{paths}</svg>'
        f"<figcaption>{DAYS} days: <bdi>{words}</bdi></figcaption></figure>"
    )


def _about(line: JobLine, now: datetime) -> str:
    past = line.past
    if past.cost is not None:
        cost = f"usually {past.cost.in_words(4)} a run"
    else:
        cost = "has cost nothing yet" if line.asks_model else "free, no model is asked"
    if past.last is None:
        return (
            f"{cost} · has not come yet" if line.kind.has_moments else f"{cost} · not called lately"
        )
    at = past.last.at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    words = shortened(past.last.words, _LONGEST)
    return f"{cost} · last run {describe(at, now)}: {words}"


_PROBLEM = '<p class="problem" role="alert"></p>'
_MOST_ROWS = 24
_DELETE = "It does not come any more. Changes keeps it, so that you can bring it back."
_OTHERS = (
    "The agent wrote this after reading text of others, so it is treated as theirs: its runs may "
    "do less, and it may be held back. This is the whole file. If all of it is what you want, say "
    "so."
)


@joined_parts
def job_html(form: JobForm, _: int) -> Iterator[str]:
    """The panel: what the job does and when, its buttons, its fields, and its file."""
    yield f'<h2><bdi class="what">{escape(visible(form.title))}</bdi></h2>'
    yield f'<p class="when">{escape(_job_when(form))}</p>'
    if form.set_by:
        yield f'<p class="remark">Set by <bdi>{escape(visible(form.set_by))}</bdi>.</p>'
    if form.problems:
        items = "".join(f"<li><bdi>{escape(visible(each))}</bdi></li>" for each in form.problems)
        yield f'<section class="wrong"><p>The file is not right:</p><ul>{items}</ul></section>'
    else:
        shown = []
        if not form.is_enabled:
            shown.append(_button(form, "resume", "Resume"))
        elif form.can_skip:
            label = "Do not skip" if form.is_skipped else "Skip once"
            shown.append(_button(form, "resume" if form.is_skipped else "skip", label))
        if form.can_run:
            shown.append(_button(form, "run", "Run now"))
        if form.is_enabled:
            shown.append(_button(form, "pause", "Pause"))
        delete = (
            '<details class="more" data-fold="delete"><summary>Delete</summary>'
            f"<p>{_DELETE}</p>{_button(form, 'delete', 'Delete it', 'danger')}</details>"
        )
        yield f'<div class="buttons">{"".join(shown)}{delete}</div>'
    if form.both:
        take = f'<a class="take" href="{escape(address_of(form.key))}">Take the file’s</a>'
        yield f'<section class="conflict"><p>{escape(form.both)}</p>{take}</section>'
    if form.untrusted:
        text = escape(visible(form.file.text))
        yield (
            '<details class="others" data-fold="words"><summary>May be words of others '
            f"(<bdi>{escape(visible(form.untrusted))}</bdi>)</summary><p>{_OTHERS}</p>"
            f"<pre><bdi>{text}</bdi></pre>"
            f'<form data-action="my-words" data-field-id="{escape(form.key)}" '
            f'data-field-version="{form.file.version}">'
            f"<button>These are my words</button>{_PROBLEM}</form></details>"
        )
    if form.fields:
        yield _form(form, "save", "".join(map(_field, form.fields)))
    yield _file_form(form)


def _job_when(form: JobForm) -> str:
    if form.problems:
        return f"{form.kind.capitalize()} · its file has mistakes"
    if not form.is_enabled:
        return f"{form.kind.capitalize()} · paused: it does not come until you resume it"
    coming = " · then ".join(dated(each, form.now) for each in form.next)
    if not form.rhythm:
        return f"{form.kind.capitalize()} · runs when it is called"
    if form.kind.value == "reminder":
        return f"Reminder · {form.rhythm}"
    skipped = " · the next time is skipped" if form.is_skipped else ""
    return f"{form.kind.capitalize()} · {form.rhythm} · next {coming or 'not planned'}{skipped}"


def _button(form: JobForm, action: str, label: str, style: str = "secondary") -> str:
    return (
        f'<button type="button" class="{style}" data-action="{action}" '
        f'data-field-id="{escape(form.key)}">{label}</button>'
    )


def _form(form: JobForm, action: str, content: str) -> str:
    """A form that says which file it was made of; another one is shown after a conflict."""
    conflict = f' data-conflict="{form.file.version}"' if form.both else ""
    label = "Save anyway" if form.both else "Save"
    return (
        f'<form class="job" data-action="{action}" data-previews="1" '
        f'data-field-id="{escape(form.key)}"{conflict}>'
        f'<input type="hidden" name="version" value="{form.file.version}">{content}'
        f'{_PROBLEM}<div class="end"><div class="preview" aria-live="polite"></div>'
        f"<button>{label}</button></div></form>"
    )


def _field(field: FormField) -> str:
    place, hint, theirs = f"job-{field.name}", "", ""
    described = f' aria-describedby="{place}-hint"' if field.hint else ""
    if field.hint:
        examples = re.sub("`([^`]*)`", r"<code>\1</code>", escape(field.hint))
        hint = f'<p class="about" id="{place}-hint">{examples}</p>'
    if field.in_file is not None:
        words = dict(field.choices).get(field.in_file, field.in_file) or "nothing"
        theirs = f'<p class="in-file">In the file now: <bdi>{escape(visible(words))}</bdi></p>'
    return (
        f'<div class="field"><label for="{place}">{escape(field.label)}</label>'
        f"{_control(field, place, described)}{hint}{theirs}</div>"
    )


def _control(field: FormField, place: str, described: str) -> str:
    names = f'id="{place}" name="{field.name}"{described}'
    if field.choices:
        options = "".join(
            f'<option value="{escape(value)}"{" selected" if value == field.value else ""}>'
            f"{escape(words)}</option>"
            for value, words in field.choices
        )
        return f"<select {names}>{options}</select>"
    if field.name == TEXT:
        return _box(names, field.value)
    return f'<input {names} value="{escape(field.value)}" autocomplete="off" dir="auto">'


def _box(names: str, text: str) -> str:
    rows = min(text.count("\n") + 2, _MOST_ROWS)
    # A parser drops the first line end of a box.
    return f'<textarea {names} rows="{rows}" dir="auto">\n{escape(text)}</textarea>'


def _file_form(form: JobForm) -> str:
    is_open = " open" if form.problems or form.typed is not None else ""
    theirs = ""
    if form.typed is not None:
        now = escape(visible(form.file.text))
        theirs = f'<p class="in-file">In the file now:</p><pre><bdi>{now}</bdi></pre>'
    text = form.file.text if form.typed is None else form.typed
    box = _box('id="job-file" name="file" spellcheck="false"', text)
    label = f'<label for="job-file">{escape(form.file.name)}</label>'
    content = _form(form, "save-file", f'<div class="field">{label}{box}{theirs}</div>')
    return (
        f'<details class="whole" data-fold="file"{is_open}><summary>The file itself</summary>'
        f"{content}</details>"
    )


PAGES = (
    ViewPage("jobs", "Jobs", jobs_html, "j", "jobs.css", is_paged=True),
    ViewPage("job", "Change a job", job_html, style="job.css", path="/jobs/"),
)

"""The tool calls and answers of the built-in model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import WEEKDAYS
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.values.answers import ReplyMeaning, meaning_of
from ollim_bot.kernel.values.phrases.durations import normalized, parse_duration
from ollim_bot.kernel.values.phrases.moment import (
    DAYTIME,
    is_moment,
    parse_moment,
    read_time,
    time_of_day,
)
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS
from ollim_bot.kernel.values.wishes import wish_from_words, without_nag
from ollim_bot.offline import texts
from ollim_bot.offline.server import CallTool, FollowUp, Part, Say, ToolResult
from ollim_bot.offline.situation import SHELL, Situation, time_question
from ollim_bot.offline.vocabulary import (
    AddTask,
    AmbiguousIntent,
    Change,
    Remind,
    RoutineWish,
    ScheduleIntent,
    SettleItem,
    SettleTask,
)

_MOST_SHOWN = 15
_REMINDER = re.compile(
    r"- (?P<id>\S+) · (?P<when>[^·\n]+?)(?P<paused> · paused)? · (?P<title>.*) \([^()\n]*\)"
)
_ROUTINE = re.compile(
    r"(?P<id>\S+) {2,}(?P<when>\S+(?: \S+)*) {2,}(?P<title>\S.*?)(?: {2}\([^()]*\))?"
)
_TASK = re.compile(
    r"(?P<id>\S+) {2,}(?P<title>\S.*?)(?: · (?P<when>(?:due |overdue |with notes|\(file\)).*))?"
)
# Joins the things of a task that was added as one.
_AND = re.compile(r"\b(?:and|or)\b|[,;&+]")
_WORD = re.compile(r"[^\W_]+")
_FILLING = frozenset(
    ("the", "my", "a", "an", "to", "about", "of", "for", "at", "on", "in", "and", "that", "me", "i")
) | {"is", "it", "remind", "one", "thing"}
# Words that tell of something that is set, and those that ask or tell of something else.
_NAMING_A_JOB = re.compile(
    r"\b(?:reminders?|routines?|tasks?|one|thing|any ?more|no longer|cancel\w*|delete|remove|drop"
    r"|scrap|ditch|stop|end|pause|skip|move|push|shift|change|postpone|delay|snooze|later|earlier"
    r"|instead|forget|moved|off|done|over|got|bought|paid|sent|did"
    r"|reschedule|sorted|wait)\b",
    re.IGNORECASE,
)
_NO_NAMING = re.compile(
    r"(?:wh\w+|how|did|do you|is|are|was|an?|set|add|new|create)\b"
    r"|.*\b(?:remind|nag|tell|wake|\w+ing) me\b",
    re.IGNORECASE,
)
_LONGEST_NAMING = 100
_SHORT = 3
ADD_REMINDER = "mcp__discord__add_reminder"
LIST_REMINDERS = CallTool("mcp__discord__list_reminders")
CANCEL_REMINDER = "mcp__discord__cancel_reminder"
SETTLE_REMINDER = "mcp__discord__settle_reminder"
# The action for each meaning, and until when, where that is not said.
_SETTLING = {
    "done": ("done", ""),
    "later": ("snooze", "in 1 hour"),
    "not today": ("not_today", ""),
    "let go": ("let_go", ""),
    "undo": ("undo", ""),
}
_SETTLED = re.compile(
    r"shown to the owner: (?:(?P<sign>\S) )?(?P<title>.+?)(?: · (?P<how>.+?)\. One word.*|\.)$"
)
_REMINDER_SET = re.compile(r"Reminder (?P<id>\S+) set: (?P<when>.+)\. File: .*", re.DOTALL)
# A rhythm that the command line refuses, with what may be meant by it.
_REFUSED = re.compile(r"(?P<why>`[^`\n]+` [^`\n]+\.) Write (?P<readings>`[^\n]*)\.")
_QUOTED = re.compile(r"`([^`]+)`")
_NEW_ID = re.compile(r"^id (?P<id>\S+), file ", re.MULTILINE)
# A cron line with one time of day.
_ONE_TIME = re.compile(
    r"\(cron (?P<minute>\d+) (?P<hour>\d+) (?P<days>\S+ \S+ \S+)\)$", re.MULTILINE
)
_COMES_AGAIN = re.compile(r"^It comes again .*$", re.MULTILINE)
_DISTANCE = re.compile(r" \([^()]*\)$")
_WHERE_IT_IS = re.compile(r"id \S+, file .*")


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job of a list; `when` is its next moment in words."""

    id: str
    when: str
    title: str

    def is_about(self, subject: str) -> bool:
        """Whether the title of the job has every significant word of the subject."""
        wanted = _words(subject) - _FILLING or _words(subject)
        return bool(wanted) and wanted <= _words(self.title)


def reminders_in(listed: str) -> tuple[ListedJob, ...]:
    return tuple(_found(_REMINDER, listed.splitlines()))


def routines_in(listed: str) -> tuple[ListedJob, ...]:
    return tuple(_found(_ROUTINE, listed.splitlines()))


def tasks_in(listed: str) -> tuple[ListedJob, ...]:
    """The tasks of a list; `when` says when each is due, and what else is known of it."""
    rows = (_TASK.fullmatch(line) for line in listed.splitlines())
    return tuple(ListedJob(row["id"], row["when"] or "", row["title"]) for row in rows if row)


def other_lines(listed: str) -> tuple[str, ...]:
    """The other lines of a list: that it is empty, or what is wrong with a file."""
    lines = (line for line in listed.splitlines() if line.strip())
    return tuple(
        line for line in lines if not _REMINDER.fullmatch(line) and not _ROUTINE.fullmatch(line)
    )


def matching(jobs: Iterable[ListedJob], subject: str) -> tuple[ListedJob, ...]:
    """The jobs that may be meant: the one with that id or title, else all about the subject."""
    known = tuple(jobs)
    exact = [job for job in known if subject.lower() in (job.id.lower(), job.title.lower())]
    if len(exact) == 1:
        return tuple(exact)
    return tuple(job for job in known if not subject or job.is_about(subject))


def choices_of(
    jobs: Sequence[ListedJob], command: str, situation: Situation
) -> tuple[tuple[str, str], ...]:
    """A button for each job, with the moment where two have the same title, and its command."""
    titles, now = [job.title for job in jobs], situation.prompt.moment
    return tuple(
        (
            job.title if titles.count(job.title) == 1 else f"{job.title} · {_when_of(job, now)}",
            command.replace("{}", job.id),
        )
        for job in jobs
    )


def _when_of(job: ListedJob, now: datetime | None) -> str:
    """`today, Tue, 18:00`, so that `the tuesday one` names it too."""
    near, _, clock = _moment_of(job.when).partition(" ")
    days = {"today": 0, "tomorrow": 1}
    if now is None or near not in days:
        return _moment_of(job.when)
    return f"{near}, {WEEKDAYS[(now.weekday() + days[near]) % 7]}, {clock}"


def shown(jobs: Sequence[ListedJob]) -> str:
    """A line for each job."""
    lines = [f"- {job.when}: {job.title}" for job in jobs[:_MOST_SHOWN]]
    more = len(jobs) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _found(form: re.Pattern[str], lines: Iterable[str]) -> Iterator[ListedJob]:
    for line in lines:
        if row := form.fullmatch(line):
            when = f"{row['when']}, paused" if row.groupdict().get("paused") else row["when"]
            yield ListedJob(row["id"], when, row["title"])


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def shell_call(*words: str) -> CallTool:
    """One of our own commands, with each word quoted, so that a shell expands nothing."""
    return CallTool(SHELL, {"command": shlex.join(["ollim-bot", *words])})


LIST_ROUTINES = shell_call("routine", "list")
LIST_TASKS = shell_call("tasks", "list")


def next_step(intent: ScheduleIntent, situation: Situation) -> Part:
    """The next call or answer for an intent."""
    match intent:
        case AmbiguousIntent():
            return Say(intent.reason, intent.follow_up)
        case Remind():
            return _remind(intent, situation)
        case RoutineWish():
            return _repeat(intent, situation)
        case Change():
            return _change(intent, situation)
        case AddTask():
            due = (f"--due={intent.due}",) if intent.due else ()
            # Behind `--`, the title may begin with a dash.
            to = (f"--list={intent.list}",) if intent.list else ()
            call = shell_call("tasks", "add", *due, *to, "--", intent.task)
            done = _outcome_once(call, situation, texts.MAY_BE_ADDED)
            return Say(done.text.splitlines()[0]) if isinstance(done, ToolResult) else done
        case SettleTask():
            return _settle_task(intent, situation)
        case SettleItem():
            now = situation.prompt.moment
            meant = ReplyMeaning("undo") if intent.words == "undo" else None
            meant = meant or (meaning_of(intent.words, now.replace(tzinfo=UTC)) if now else None)
            return settle(intent.key, meant, situation) if meant else Say(texts.UNTIL_WHEN)


def settle(key: str, meant: ReplyMeaning, situation: Situation) -> Part:
    """Answer the open reminder with this key; its card shows the answer."""
    action, until = _SETTLING.get(meant.kind, ("snooze", meant.phrase))
    more = {"until": until} if until else {}
    call = CallTool(SETTLE_REMINDER, {"item": key, "action": action, **more})
    done = _outcome_once(call, situation)
    if not isinstance(done, ToolResult):
        return done
    found = _SETTLED.search(done.text)
    if found is None:
        return Say(texts.SETTLED)
    if action == "undo":
        return Say(texts.reopened(found["title"]))
    how = "done" if found["sign"] == "✓" else found["how"]
    return Say(texts.settled(found["title"], how), FollowUp(undo=f"answer {key}: undo"))


def show_reminders(situation: Situation) -> Part:
    return _show(_LISTINGS[JobKind.REMINDER], situation)


def show_routines(situation: Situation) -> Part:
    return _show(_LISTINGS[JobKind.ROUTINE], situation)


def moments_within(days: int, situation: Situation) -> ToolResult | CallTool | Say:
    """A line for each moment of so many days; or the call for them, or why that cannot be."""
    call = shell_call("rehearse", "--days", str(days), "--brief")
    return _outcome(call, situation, texts.not_seen)


def listed_jobs(situation: Situation) -> list[ListedJob] | CallTool | Say:
    """All reminders and routines; or the call that lists them, or why that cannot be."""
    found: list[ListedJob] = []
    for listing in _LISTINGS.values():
        listed = _outcome(listing.call, situation, texts.not_seen)
        if not isinstance(listed, ToolResult):
            return listed
        found += listing.jobs_in(listed.text)
    return found


def show_tasks(situation: Situation, name: str = "") -> Part:
    """The open tasks, of one list if it is named."""
    call = shell_call("tasks", "list", "--list", name) if name else LIST_TASKS
    listed = _outcome(call, situation, texts.not_seen)
    if not isinstance(listed, ToolResult):
        return listed
    found = tasks_in(listed.text)
    lines = [f"- {task.title}{f' · {task.when}' if task.when else ''}" for task in found]
    more = [f"and {len(lines) - _MOST_SHOWN} more"] if len(lines) > _MOST_SHOWN else []
    head = f"{name.capitalize()}:" if name else texts.TASKS
    return Say("\n".join([head, *lines[:_MOST_SHOWN], *more]) if found else texts.NO_TASKS)


def _settle_task(intent: SettleTask, situation: Situation) -> Part:
    """List the tasks first, and change only the one that is meant beyond doubt."""
    listed = _outcome(LIST_TASKS, situation, texts.not_seen)
    if not isinstance(listed, ToolResult):
        return listed
    found = matching(tasks_in(listed.text), intent.subject)
    if len(found) > 1:
        verb = "delete the task" if intent.verb == "delete" else "done with"
        choices = choices_of(found, f"{verb} {{}}", situation)
        lines = "\n".join(f"- {label}" for label, _ in choices)
        return Say(texts.several_match(lines), FollowUp(choices))
    if not found:
        due = [ListedJob(each.key, "", each.title) for each in situation.prompt.open_items]
        about = matching(due, intent.subject) if intent.verb == "done" else ()
        if len(about) == 1:
            return settle(about[0].id, ReplyMeaning("done"), situation)
        none = texts.no_such_task if intent.is_sure else texts.nothing_open
        return Say(none(intent.subject))
    task = found[0]
    is_whole = task.id == intent.subject or _words(task.title) - _FILLING <= _words(intent.subject)
    if intent.verb == "done" and _AND.search(task.title) and not is_whole:
        choices = (("All of it", f"done with {task.id}"), ("Not yet", ""))
        return Say(texts.all_of_it(task.title), FollowUp(choices))
    done = _outcome(shell_call("tasks", intent.verb, task.id), situation, texts.not_changed)
    return Say(done.text.strip()) if isinstance(done, ToolResult) else done


def _remind(intent: Remind, situation: Situation) -> Part:
    arguments: dict[str, object] = {"prompt": intent.task}
    try:
        length = parse_duration(intent.when.lower().removesuffix(" from now"))
        minutes = length.total_seconds() / 60
        arguments["delay_minutes"] = int(minutes) if minutes.is_integer() else minutes
    except BadPhrase:
        arguments["run_at"] = intent.when
    arguments["plain"] = not intent.is_run
    if intent.is_timer or intent.task == texts.TIMER_OVER:
        arguments["timer"] = True
    call = CallTool(ADD_REMINDER, arguments)
    done = _outcome_once(call, situation)
    if not isinstance(done, ToolResult):
        return done
    found = _REMINDER_SET.fullmatch(done.text)
    if found is None:
        return Say(done.text)
    name, now = found["id"], situation.prompt.moment
    moves = time_question(f"snooze {name} until {{}}", (), intent.when, now).forms
    news = texts.reminder_set(without_nag(intent.task)[0], _moment_of(found["when"]))
    if IN_QUIET_HOURS in found["when"]:
        news = texts.COMES_IN_THE_QUIET
    news = "\n".join([news, *_COMES_AGAIN.findall(done.text)])
    return Say(news, FollowUp(moves=moves, about=name, undo=f"cancel {name}"))


def _repeat(intent: RoutineWish, situation: Situation) -> Part:
    # Joined to its flag, because the text may begin with a dash.
    when = ("--every", intent.every) if intent.every else ("--cron", intent.cron)
    call = shell_call("routine", "add", f"--message={intent.message}", *when)
    done = _outcome_once(call, situation)
    outcome = situation.outcome(call)
    if outcome is not None and (refused := _REFUSED.search(outcome.text)) and outcome.is_error:
        readings = _QUOTED.findall(refused["readings"])
        choices = tuple((each, f"{each} {intent.message}") for each in readings)
        return Say(texts.unclear_moment(refused["why"]), FollowUp(choices))
    if not isinstance(done, ToolResult):
        return done
    # Its card says what was set, and when it comes.
    _, *more = _without_place(done.text).splitlines()
    comes_as_it_is = "plain" in wish_from_words(intent.message, JobKind.ROUTINE, {}).fields
    waits = texts.WAITS_EACH_TIME if comes_as_it_is else texts.ONLY_ITS_WORDS
    name = "".join(_NEW_ID.findall(done.text)[:1])
    if not name:
        return Say("\n".join([waits, *more]))
    moves = (f"move the routine {name} to {{}}",)
    return Say("\n".join([waits, *more]), FollowUp(moves=moves, about=name, undo=f"cancel {name}"))


def _outcome_once(
    call: CallTool, situation: Situation, unsure: str = texts.MAY_BE_SET
) -> ToolResult | CallTool | Say:
    """As `_outcome`, for a call that must not be made twice."""
    outcome = situation.outcome(call)
    if situation.prompt.may_have_acted and (outcome is None or outcome.is_error):
        return Say(unsure)
    return _outcome(call, situation, texts.not_set)


def _outcome(
    call: CallTool, situation: Situation, failure: Callable[[str], str]
) -> ToolResult | CallTool | Say:
    """The call if it was not made yet, else its result; or what to say instead."""
    outcome = situation.outcome(call)
    if outcome is None:
        return call if call.name in situation.tools else Say(texts.NOT_HERE)
    return Say(failure(outcome.text)) if outcome.is_error else outcome


def _change(intent: Change, situation: Situation) -> Part:
    """List the jobs first, and change only the one that is meant beyond doubt."""
    found: list[tuple[JobKind, ListedJob]] = []
    for kind in [intent.kind] if intent.kind else _LISTINGS:
        listing = _LISTINGS[kind]
        listed = _outcome(listing.call, situation, texts.not_seen)
        if not isinstance(listed, ToolResult):
            return listed
        found += [(kind, job) for job in matching(listing.jobs_in(listed.text), intent.subject)]
    if len(found) == 1:
        return _change_job(intent, *found[0], situation)
    if found:
        return _which_job(intent, [job for _, job in found], situation)
    if intent.verb == "snooze":
        listed = _outcome(LIST_ROUTINES, situation, texts.not_seen)
        if not isinstance(listed, ToolResult):
            return listed
        routines = matching(routines_in(listed.text), intent.subject)
        if len(routines) > 1:
            return _which_job(intent, routines, situation)
        if routines:
            return _retimed(routines[0], intent.until, situation)
    return Say(texts.none_matches(intent.kind or "reminder or routine", intent.subject))


def _which_job(intent: Change, jobs: Sequence[ListedJob], situation: Situation) -> Say:
    choices = choices_of(jobs, intent.command, situation)
    return Say(texts.several_match(shown(jobs)), FollowUp(choices))


def _retimed(job: ListedJob, until: tuple[str, ...], situation: Situation) -> Part:
    """Move a routine that has one time of day to another one; for any other, offer to edit it."""
    shown_job = _outcome(shell_call("routine", "show", job.id), situation, texts.not_seen)
    if not isinstance(shown_job, ToolResult):
        return shown_job
    how, words = until or ("", "")
    found, time = _ONE_TIME.search(shown_job.text), time_of_day(words)
    if found is None or time is None or how != "--until":
        return Say(texts.edit_routine(job.title), FollowUp(about=job.id, edit=job.id))
    before = f"{found['hour']}:{found['minute']:0>2}"
    if len(time.hours) > 1 and (time.is_open or time.hours[0] not in DAYTIME):
        readings = [f"{hour}:{time.minute:02}" for hour in time.hours]
        choices = tuple((each, f"move the routine {job.id} to {each}") for each in readings)
        return Say(texts.which_half(words, readings), FollowUp(choices))
    cron = f"{time.minute} {time.hours[0] % 24} {found['days']}"
    edit = shell_call("routine", "edit", job.id, "--cron", cron)
    done = _outcome(edit, situation, texts.not_changed)
    if not isinstance(done, ToolResult):
        return done
    moves, undo = (f"move the routine {job.id} to {{}}",), f"move the routine {job.id} to {before}"
    return Say(_without_place(done.text), FollowUp(moves=moves, about=job.id, undo=undo))


def ask_about_job(situation: Situation, when: str) -> Part | None:
    """Ask what to do with what the words name; None if they name nothing that is open or set.

    `when` is the moment in the words, if there is one.
    """
    text = situation.prompt.text.strip(" .!")
    if len(text) > _LONGEST_NAMING or "\n" in text or _NO_NAMING.match(text):
        return None
    due = [ListedJob(each.key, "", each.title) for each in situation.prompt.open_items]
    if len(found := _nearest_jobs(due, text)) == 1:
        choices = tuple((each, f"answer {found[0].id}: {each}") for each in ("Done", "Later"))
        return Say(texts.what_of(found[0].title), FollowUp(choices))
    if not _NAMING_A_JOB.search(text):
        return None
    jobs: list[tuple[str, ListedJob]] = []
    listings = [(str(kind), each.call, each.jobs_in) for kind, each in _LISTINGS.items()]
    for kind, call, jobs_in in (*listings, ("task", LIST_TASKS, tasks_in)):
        listed = _outcome(call, situation, texts.not_seen)
        if isinstance(listed, CallTool):
            return listed
        jobs += (
            [(kind, job) for job in jobs_in(listed.text)] if isinstance(listed, ToolResult) else []
        )
    found = _nearest_jobs([job for _, job in jobs], text)
    if len(found) == 1:
        return _what_with(*next(each for each in jobs if each[1] == found[0]), when)
    choices = choices_of(found, "change {}", situation)
    return Say(texts.several_match(shown(found)), FollowUp(choices)) if found else None


def _nearest_jobs(jobs: Sequence[ListedJob], text: str) -> list[ListedJob]:
    """The jobs whose titles share the most significant words with the text, misspelled or not."""
    wanted, titles = _stems(text), {job.id: _stems(job.title) for job in jobs}
    names = [word for title in titles.values() for word in title if len(word) > _SHORT]
    if not any(wanted & title for title in titles.values()):
        wanted = frozenset(nearest(word, names, 1) or word for word in wanted)
    most = max((len(wanted & title) for title in titles.values()), default=0)
    return [job for job in jobs if most and len(wanted & titles[job.id]) == most]


def _what_with(kind: str, job: ListedJob, when: str = "") -> Say:
    name = job.id
    move = (
        (f"Move to {when}", f"snooze {name} until {when}")
        if when
        else ("Move it", f"snooze {name}")
    )
    choices = {
        "reminder": (("Cancel it", f"cancel {name}"), move),
        "routine": (("Pause it", f"pause {name}"), ("Cancel it", f"cancel {name}")),
        "task": (("Done", f"done with {name}"), ("Delete it", f"delete the task {name}")),
    }[kind]
    forms = (f"snooze {name} until {{}}",) if kind == JobKind.REMINDER else ()
    return Say(texts.what_with(job.title), FollowUp((*choices, ("Leave it", "")), forms))


def _change_job(intent: Change, kind: JobKind, job: ListedJob, situation: Situation) -> Part:
    if intent.verb == "change":
        return _what_with(kind, job)
    if intent.verb == "stop":
        choices = (("Pause it", f"pause {job.id}"), ("Cancel it", f"cancel {job.id}"))
        return Say(texts.stop_how(job.title), FollowUp(choices))
    if intent.verb == "snooze" and kind is JobKind.ROUTINE:
        return _retimed(job, intent.until, situation)
    if asked := _which_day(intent, job, situation):
        return asked
    is_tool = kind is JobKind.REMINDER and intent.verb == "cancel"
    call = (
        CallTool(CANCEL_REMINDER, {"reminder_id": job.id})
        if is_tool
        else shell_call(kind, intent.verb, job.id, *intent.until)
    )
    done = _outcome(call, situation, texts.not_changed)
    if not isinstance(done, ToolResult):
        return done
    if intent.verb == "cancel":
        return Say(texts.cancelled(kind, job.title, _moment_of(job.when)))
    answer = _without_place(done.text)
    if intent.verb == "snooze":
        # The card that the change has says what was moved, and to when.
        answer = "\n".join([texts.MOVED, *answer.splitlines()[1:]])
    return Say(answer, FollowUp(about=job.id))


def _which_day(intent: Change, job: ListedJob, situation: Situation) -> Say | None:
    """Ask for the day, where a bare time may be meant for that of the job, or for the next one."""
    how, clock = intent.until or ("", "")
    if situation.prompt.moment is None or how != "--until" or not read_time(normalized(clock)):
        return None
    now = situation.prompt.moment.replace(tzinfo=UTC)
    day = re.sub(r" ?\d{1,2}:\d\d.*$", "", job.when)
    either = (clock, f"{day} {clock}")
    if not all(is_moment(each, now) for each in either):
        return None
    if parse_moment(either[0], now) == parse_moment(either[1], now):
        return None
    first = "today" if parse_moment(clock, now).date() == now.date() else "tomorrow"
    choices = tuple(
        (each, f"snooze {job.id} until {each}") for each in (f"{first} {clock}", either[1])
    )
    return Say(texts.which_day(job.title, [label for label, _ in choices]), FollowUp(choices))


def show_when(subject: str, situation: Situation) -> Part | None:
    """When the jobs come that have the most words of the subject; None if it may be no job."""
    jobs = listed_jobs(situation)
    if not isinstance(jobs, list):
        return jobs
    said = re.sub(r" (?:reminders?|routines?)$", "", subject, flags=re.IGNORECASE)
    found = _nearest_jobs(jobs, said)
    if not found and said == subject:
        return None
    return Say(shown(found) if found else texts.none_matches("reminder or routine", said))


def _stems(text: str) -> frozenset[str]:
    """The significant words without their endings, to compare `calling` with `call`."""
    words = _words(text) - _FILLING
    return frozenset(re.sub(r"(?<=\w{3})(?:ing|ed|s)$", "", word) for word in words)


def _without_place(answer: str) -> str:
    lines = (line for line in answer.splitlines() if not _WHERE_IT_IS.fullmatch(line))
    return "\n".join(lines).strip()


def _moment_of(when: str) -> str:
    """The moment without its distance from now."""
    return _DISTANCE.sub("", when)


@dataclass(frozen=True, slots=True)
class _Listing:
    """How a tool lists the jobs of one kind, and how they are shown to the owner."""

    call: CallTool
    jobs_in: Callable[[str], tuple[ListedJob, ...]]
    head: str
    nothing: str


_LISTINGS = {
    JobKind.REMINDER: _Listing(LIST_REMINDERS, reminders_in, texts.REMINDERS, texts.NO_REMINDERS),
    JobKind.ROUTINE: _Listing(LIST_ROUTINES, routines_in, texts.ROUTINES, texts.NO_ROUTINES),
}


def _show(listing: _Listing, situation: Situation) -> Part:
    listed = _outcome(listing.call, situation, texts.not_seen)
    if not isinstance(listed, ToolResult):
        return listed
    others = other_lines(listed.text)
    if jobs := listing.jobs_in(listed.text):
        return Say("\n".join([listing.head, shown(jobs), *others]))
    problems = [line for line in others if not line.startswith(("There are no", "No "))]
    return Say("\n".join([listing.nothing, *problems]))

"""The cards that tell the owner what the agent has changed.

Most of the text on a card is the agent's, which untrusted text may have manipulated. So invisible
characters are shown, the text is short, and it cannot pass for the program's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import PurePosixPath

from ollim_bot.kernel.base.moments import describe, describe_with_distance
from ollim_bot.kernel.base.text import as_code, difference, fenced, one_line
from ollim_bot.kernel.values.cards import Button, Card, CardField
from ollim_bot.kernel.values.due_items import move_button
from ollim_bot.kernel.values.hook_jobs import CalledJob
from ollim_bot.kernel.values.initiative import MAY_BE_HELD_BACK, may_be_held_back
from ollim_bot.kernel.values.job_list import facts_of
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.overviews import ensure_button
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS, QuietSettings, quiet_until
from ollim_bot.kernel.values.shared_files import JobFile, ProfileFile, SharedFile
from ollim_bot.kernel.values.taint import Taint, marked_taint, untrusted_label

UNDO = "undo"

_LONGEST_TITLE = 200
_LONGEST_LIST = 1000
_SUBJECTS: Mapping[ProfileFile, str] = {
    ProfileFile.IDENTITY: "who I am",
    ProfileFile.USER: "what I know about you",
}


def job_card(
    job: Job,
    now: datetime,
    *,
    verb: str,
    key: str | None,
    quiet: QuietSettings | None = None,
    skill_tools: tuple[str, ...] = (),
    webhook_port: int | None = None,
) -> Card:
    """The card of a job that was `added`, `changed` or `moved`; with a key, it has an Undo button.

    Its skills add `skill_tools`.

    A reminder for a quiet moment has a button that moves it to the end of the quiet, and one that
    may be held back has a button that orders it. A webhook is shown with its address at
    `webhook_port` and with what it may do.
    """
    end = None
    if quiet is not None and isinstance(job, Reminder) and job.spec.enabled:
        due = job.due(now.tzinfo or UTC)
        end = quiet_until(quiet, due) if due > now else None
    buttons = () if end is None else (move_button(job.spec.id, end),)
    if may_be_held_back(job):
        buttons = (ensure_button(job), *buttons)
    title = f"{job.kind.capitalize()} {verb}: {one_line(job.spec.title, _LONGEST_TITLE)}"
    facts = facts_of(job, webhook_port) if isinstance(job, CalledJob) else ()
    lines = [*_lines(job, now, is_quiet=end is not None), *facts]
    lines += [f"Skills: {_codes(job.spec.skills)}"] if job.spec.skills else []
    added = skill_tools if job.spec.background else ()
    lines += _tools(tuple(dict.fromkeys((*job.spec.allowed_tools, *added))))
    return Card(title, "\n".join(lines), buttons=(*buttons, *_undo(key)), job=job.spec.id)


def cancelled_card(kind: str, title: str, key: str | None, *, was_new: bool = False) -> Card:
    """The card of a cancelled job; `was_new` if the agent added it in the same turn."""
    verb = "added and cancelled again" if was_new else "cancelled"
    name = one_line(title, _LONGEST_TITLE)
    return Card(f"{kind.capitalize()} {verb}: {name}", buttons=_undo(key))


def with_sources(card: Card, read: Taint) -> Card:
    """The card with the untrusted sources that the agent had read in the day before the change."""
    if not read.sources:
        return card
    return card._replace(fields=(*card.fields, CardField("Read before", read.in_words)))


def moved_card(job: Job, moment: datetime, now: datetime) -> Card:
    return Card(f"⏱ {one_line(job.spec.title, _LONGEST_TITLE)} · {describe(moment, now)}")


def text_card(
    file: SharedFile,
    before: str,
    after: str,
    *,
    is_new: bool,
    key: str | None,
    tools: tuple[str, ...] = (),
) -> Card:
    """The card that shows what changed in the profile, or in a skill with these allowed `tools`."""
    lines, more = difference(before, after)
    described = ["```diff", fenced("\n".join(lines)), "```"] if lines else ["Only its form."]
    if more:
        described.append(f"{more} more {'line' if more == 1 else 'lines'} with changes.")
    described += _tools(tools)
    title = f"Skill {'added' if is_new else 'changed'}: {PurePosixPath(file.name).parent.name}"
    if isinstance(file, ProfileFile):
        title = f"I {'wrote down' if is_new else 'changed'} {_SUBJECTS[file]}: {file}"
    return Card(one_line(title, _LONGEST_TITLE), "\n".join(described), buttons=_undo(key))


def _undo(key: str | None) -> tuple[Button, ...]:
    return (Button("Undo", UNDO, key),) if key else ()


def is_undo_of_change(button: Button) -> bool:
    """Whether the button undoes a change of a file; that of other things names their kind."""
    return button.action == UNDO and ":" not in button.data and not button.is_used


def _lines(job: Job, now: datetime, *, is_quiet: bool) -> Iterator[str]:
    if not job.spec.enabled:
        yield "It is paused, and does not run."
    elif isinstance(job, Routine):
        zone = f" ({job.spec.timezone})" if job.spec.timezone else ""
        yield f"{job.rhythm.explain()}{zone}."
        here = job.spec.zone(now.tzinfo or UTC)
        coming = islice(job.rhythm.moments_from(now + datetime.resolution, here), 3)
        moments = ", ".join(describe(each, now) for each in coming)
        yield f"Next: {moments}." if moments else f"It {job.standstill}."
    elif isinstance(job, Reminder):
        due = job.due(now.tzinfo or UTC)
        where = f", {IN_QUIET_HOURS}" if is_quiet else ""
        yield f"{'Due' if due > now else 'Was due'}: {describe_with_distance(due, now)}{where}."
    if job.spec.untrusted:
        yield untrusted_label(marked_taint(job.spec.untrusted))
        yield as_code(job.spec.words, 1000)
    if may_be_held_back(job):
        yield f"{MAY_BE_HELD_BACK}."
    if job.spec.set_by:
        yield f"Set by {job.spec.set_by} in the background, within the ping budget."


def _tools(tools: tuple[str, ...]) -> Iterator[str]:
    if tools:
        yield f"It may also use: {_codes(tools)}"


def _codes(words: tuple[str, ...]) -> str:
    listed, room = list[str](), _LONGEST_LIST
    for each in words:
        listed.append(as_code(each, 200))
        room -= len(listed[-1])
        if room < 0:
            listed[-1] = f"and {len(words) - len(listed) + 1} more"
            break
    return ", ".join(listed)


def kind_of_file(file: JobFile) -> str:
    """The kind of the file: `routine` for a file in `routines/`."""
    return file.folder.removesuffix("s")

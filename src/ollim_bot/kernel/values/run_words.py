"""A run in words: why it came out as it did, its decisions in order, and what it used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote

from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.text import comma_parts, counted, joined
from ollim_bot.kernel.values.occurrences import (
    ANSWERED,
    Answer,
    LedgerRow,
    OccurrenceState,
    SkipReason,
)
from ollim_bot.kernel.values.run_history import (
    BY,
    DELIVERED,
    DROPPED,
    EFFECT,
    HELD,
    RELEASED,
    SENTINEL,
    Refused,
    RunStory,
    moment_in,
)

# The facts of a run that ended without its ping: how many were left of how many.
PINGS_LEFT = "pings_left"
PINGS_OF = "pings_of"
# The fact of a run that the daily limit kept from running: when the limit was reached.
REACHED_AT = "reached_at"
# The fact with a word for each thing that a run has looked at.
LOOKED_AT = "looked_at"

_ANSWERS = {Answer.NOT_TAKEN.value: "skipped", Answer.LET_GO.value: "let go"}
_COUNTED = ("mail", "file", "web page")
_SKIPPED: Mapping[str, str] = {
    SkipReason.POLICY: "you wanted it skipped",
    SkipReason.DISABLED: "it was switched off",
    SkipReason.OVERLAP: "the run before it still went on",
    SkipReason.SUPERSEDED: "a later one came in its place",
    SkipReason.COST_CAP: "the daily cost cap was reached",
    SkipReason.BUDGET: "the ping budget was used up",
    SkipReason.QUIET: "it was quiet",
}
_REFUSED: Mapping[str, str] = {
    Refused.OFF: "pings are switched off for this job",
    Refused.ONCE: "one run pings once",
    Refused.BUSY: "you were being answered",
    Refused.EMPTY: "the ping budget was used up",
}
_SILENT, _AWAY = "silent, because", "I was away"
_TRIED = (
    OccurrenceState.ATTEMPT_FAILED,
    OccurrenceState.FAILED,
    OccurrenceState.TIMED_OUT,
    OccurrenceState.INTERRUPTED,
)


class Decision(NamedTuple):
    at: datetime
    what: str


def why(story: RunStory, now: datetime) -> str:
    """Why the run came out as it did, in one sentence; empty while it has no end."""
    said = reason(story, now)
    if story.end is None or not _ended_without_it(story):
        return said
    state = in_words(story.end.state)
    return f"{state}: {said}" if said else state


def reason(story: RunStory, now: datetime) -> str:
    """The sentence without the state in which it ended."""
    facts, end, quiet = story.facts, story.end, _in_quiet(story, now)
    if end is not None and _ended_without_it(story):
        if end.state == OccurrenceState.MISSED:
            return str(facts.get("reason") or _AWAY)
        return _why_skipped(facts, now) if end.state == OccurrenceState.SKIPPED else outcome(facts)
    if quiet:
        reported = "reported" if facts.get("report") else ""
        return "; ".join(filter(None, (_looked_at(facts), quiet, reported)))
    if end is None and not story.is_delivered:
        return ""
    said, refused = outcome(facts, is_delivered=story.is_delivered), _refused_ping(facts)
    if refused and said.startswith(_SILENT):
        said, refused = f"{_SILENT} {refused}", ""
    elif not refused and (left := _pings_left(facts)):
        refused = f"kept its ping: {left}"
    return "; ".join(filter(None, (_looked_at(facts), said, refused)))


def first_sentence(reason: str) -> str:
    """The first sentence of what the agent is told, which has the reason; the others advise it."""
    sentence = reason.partition(". ")[0].removesuffix(".")
    return sentence[:1].lower() + sentence[1:]


def decisions(story: RunStory, now: datetime) -> list[Decision]:
    """What was decided, in order."""
    return [Decision(row.ts, _decision(row, now)) for row in story.rows]


def state_in_words(story: RunStory) -> str:
    if story.delivery is None:
        return in_words(story.last_word)
    is_by_sentinel = story.delivery.get(BY) == SENTINEL
    return "delivered by the sentinel" if is_by_sentinel else "delivered"


def answer_in_words(story: RunStory, put_off: timedelta = timedelta()) -> str:
    """`taken after 4 min`, or `unanswered`; empty for a run that asked for no answer.

    What was put off is counted from its own moment, which was `put_off` earlier.
    """
    if story.answer is None:
        return "unanswered" if story.is_open else ""
    facts = story.answer.facts
    words, seconds = _answered(facts), facts.get("after_s")
    after = timedelta(seconds=seconds) if isinstance(seconds, int | float) else timedelta()
    after += put_off
    words = f"{words} after {duration_in_words(after)}" if after > timedelta() else words
    if story.later is None:
        return words
    due, again = story.occurrence.scheduled_at, story.later.occurrence.scheduled_at
    put_off += again - due if due and again else timedelta()
    return f"{words}, then {answer_in_words(story.later, put_off)}"


def tools_of(story: RunStory) -> Counter[str]:
    """How often it called each tool, by their short names."""
    return Counter(map(_short, listed(story.facts.get("tools"))))


def sources_of(story: RunStory) -> tuple[str, ...]:
    """What it had read from others."""
    return comma_parts(str(story.facts.get("untrusted") or ""))


def listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _looked_at(facts: Mapping[str, object]) -> str:
    """`looked at 3 mails and the calendar`; empty if it looked at nothing."""
    things = Counter(map(str, listed(facts.get(LOOKED_AT))))
    words = [
        counted(times, thing) if thing in _COUNTED else thing for thing, times in things.items()
    ]
    return f"looked at {joined(words)}" if words else ""


def _ended_without_it(story: RunStory) -> bool:
    """Whether the owner got nothing of it, and waits for nothing."""
    is_done = story.end is not None and story.end.state == OccurrenceState.DONE
    return not (is_done or story.is_delivered or story.waiting)


def _in_quiet(story: RunStory, now: datetime) -> str:
    """What waits for the end of the quiet, or did not come after it; empty if neither."""
    if (waiting := story.waiting) is not None:
        until = moment_in(waiting.facts, "until")
        return "waits for the end of the quiet" + (f", {describe(until, now)}" if until else "")
    over = [row for row in story.rows if row.state in (RELEASED, DROPPED)]
    if not over or over[-1].state == RELEASED:
        return ""
    return f"did not come after the quiet: {over[-1].facts.get('why')}"


def _refused_ping(facts: Mapping[str, object]) -> str:
    """Why the last ping that it wanted was refused, or would have been; empty if none was."""
    told = [each for each in listed(facts.get("refused_pings")) if isinstance(each, Mapping)]
    if not told:
        off = str(facts.get("silent_because") or "")
        return off if off == _REFUSED[Refused.OFF] else ""
    said = str(told[-1].get("reason"))
    known = (words for start, words in _REFUSED.items() if said.startswith(start))
    left = _pings_left(facts)
    of = f" ({left})" if left else ""
    which = "a further ping" if facts.get("pings") else "its ping"
    return f"{which} was refused: {next(known, first_sentence(said))}{of}"


def _pings_left(facts: Mapping[str, object]) -> str:
    left, most = facts.get(PINGS_LEFT), facts.get(PINGS_OF)
    return "" if left is None or most is None else f"{left} of {most} left"


def _why_skipped(facts: Mapping[str, object], now: datetime) -> str:
    reason = str(facts.get("reason") or "")
    words = str(facts.get("why") or "") or _SKIPPED.get(reason) or ""
    words = words or str(facts.get("error") or reason)
    reached = moment_in(facts, REACHED_AT)
    if reached is None:
        return words.removesuffix(".")
    local = reached.astimezone(now.tzinfo)
    return f"{words.removesuffix('.')} at {local.hour}:{local:%M}"


def _decision(row: LedgerRow, now: datetime) -> str:
    facts, attempt, tool = row.facts, row.facts.get("attempt"), row.facts.get("tool")
    if row.state == EFFECT:
        words = "reported" if facts.get("report") else in_words(row.state)
        words = f"{words} with {_short(tool)}" if tool and words != "reported" else words
    elif row.state == HELD:
        until = moment_in(facts, "until")
        words = "held" if until is None else f"held until {describe(until, now)}"
    elif row.state == ANSWERED:
        words = f"answered: {_answered(facts)}"
    elif row.state == DELIVERED:
        words = "delivered by the sentinel" if facts.get(BY) == SENTINEL else "delivered"
    else:
        reason = _reason(row, now)
        words = f"{in_words(row.state)}: {reason}" if reason else in_words(row.state)
    return words if attempt in (None, 1) else f"{words} (attempt {attempt})"


def _reason(row: LedgerRow, now: datetime) -> str:
    if row.state == OccurrenceState.SKIPPED:
        return _why_skipped(row.facts, now)
    if row.state == DROPPED:
        return str(row.facts.get("why") or "")
    error = row.facts.get("error") if row.state in _TRIED else None
    return str(error or "").removesuffix(".")


def _answered(facts: Mapping[str, object]) -> str:
    answer = str(facts.get("answer"))
    return _ANSWERS.get(answer, in_words(answer))


def _short(tool: object) -> str:
    return str(tool).rpartition("__")[2]


_IN_WORDS = {
    "timed_out": "timed out",
    "cut_off": "cut off",
    "attempt_failed": "to be tried again",
    "effect": "reached out",
}
_DEEDS = {
    "answered": "spoke in the conversation",
    "pings": "pinged",
    "report": "reported",
    "plain": "sent as written",
}


def in_words(state: str) -> str:
    """A state of the ledger in plain words."""
    return _IN_WORDS.get(state, state)


def outcome(facts: Mapping[str, object], *, is_delivered: bool = False) -> str:
    """Why it failed or was skipped, what it did, or why it was silent; empty if none is known.

    `is_delivered` says that the owner was given the reminder, by its run or by the program.
    """
    if is_delivered and not any(facts.get(name) for name in ("answered", "pings", "report")):
        error = str(facts.get("error") or "").removesuffix(".")
        return f"sent as written: {error}" if error else "sent as written"
    if error := str(facts.get("error") or facts.get("why") or facts.get("reason") or ""):
        said = _SKIPPED[SkipReason.POLICY] if error == SkipReason.POLICY else error
        return said.removesuffix(".")
    did = deeds(facts)
    if facts.get("pings") and facts.get("plain"):
        # The program sent it, but not all of the words are the owner's.
        did.remove(_DEEDS["plain"])
    why = str(facts.get("silent_because") or "")
    return " and ".join(did) if did else f"silent, because {why}" if why else ""


def deeds(facts: Mapping[str, object]) -> list[str]:
    """What a run with these facts has done for the owner to notice: `pinged`, `reported`."""
    return [word for name, word in _DEEDS.items() if facts.get(name)]


def address_of_run(run: str) -> str:
    """Where the page shows a run."""
    return f"/runs/{quote(run, safe=':')}"


def moment_of(story: RunStory) -> datetime:
    """When the run was due, or, if it was started otherwise, when it began."""
    return story.occurrence.scheduled_at or story.fired


def run_object(record: RunStory, now: datetime) -> dict[str, object]:
    """One run of `ollim-bot runs --json`."""
    occurrence = record.occurrence
    return {
        "id": record.id,
        "kind": occurrence.kind.value,
        "job_id": occurrence.job_id,
        "by_hand": occurrence.manual,
        "due": occurrence.scheduled_at,
        "fired": record.fired,
        "state": record.last_word,
        "why": why(record, now),
        "answer": _answer_word(record),
        "facts": dict(record.facts),
    }


def refused_pings(record: RunStory) -> Iterator[tuple[str, str]]:
    """The text and the reason of each ping that was refused."""
    for each in listed(record.facts.get("refused_pings")):
        if isinstance(each, Mapping):
            yield str(each.get("text", "")), str(each.get("reason"))


def _answer_word(record: RunStory) -> object:
    if record.later is not None:
        return _answer_word(record.later)
    if record.answer is not None:
        return record.answer.facts.get("answer")
    return "unanswered" if record.is_open else None

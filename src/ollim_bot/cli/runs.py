"""`ollim-bot runs`: what the bot did by itself, when, and why it spoke or stayed silent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, note, open_data
from ollim_bot.cli.json_output import json_flag, print_json
from ollim_bot.cli.run_stories import Story, listing, page, page_object, run_object, stories
from ollim_bot.cli.verbs import Flags, Given, Verb, run_verb
from ollim_bot.cli.wording import plain
from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.phrases.duration import parse_duration
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.storage.codecs.lines import LEDGER_ROWS
from ollim_bot.storage.codecs.messages import CHAT_MESSAGES
from ollim_bot.storage.files import OsDisk
from ollim_bot.storage.json_lines import JsonLines, LineCodec
from ollim_bot.storage.locks import FileLock
from ollim_bot.upkeep.findings import counted

_USUAL = "7d"
_MOST_NAMED = 3

T = TypeVar("T")


def run(words: Sequence[str], caller: Caller) -> None:
    is_list = not words or (words[0].startswith("-") and words[0] not in ("--help", "-h"))
    run_verb("runs", _VERBS, ["list", *words] if is_list else words, caller)


def _list(given: Given, caller: Caller) -> None:
    length = parse_duration(given.get("since", _USUAL))
    data = open_data(caller)
    job = given.get("job")
    found = [
        story
        for story in _stories(data, data.now.astimezone(UTC) - length)
        if job in (None, story.occurrence.job_id)
    ]
    if "json" in given:
        print_json({"runs": [run_object(story) for story in found]})
    elif found:
        print(listing(found, data.now))
    elif not _has_ledger(data):
        print("No runs yet.")
    else:
        of_job = f" of {job}" if job else ""
        print(plain(f"No runs{of_job} in the last {duration_in_words(length)}."))


def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    story = meant(str(given["run"]), _stories(data))
    if "json" in given:
        print_json(page_object(story))
    else:
        print(page(story, data.now, _said(data, story)))


def _check(given: Given, caller: Caller) -> None:
    from ollim_bot.domain.ledger_check import check

    data = open_data(caller)
    # First: what was claimed until then stands in the ledger when that is read afterwards.
    watched_until = _heartbeat(data)
    rows = _read(data, data.paths.ledger, LEDGER_ROWS, None) if _has_ledger(data) else []
    findings = check(rows, data.now, watched_until)
    runs = len({row.occurrence for row in rows if row.occurrence})
    if "json" in given:
        print_json({"runs": runs, "watched_until": watched_until, "findings": findings})
    elif not findings:
        print(_all_right(runs))
    if findings:
        raise OllimError(plain("\n".join(findings)))


def _all_right(runs: int) -> str:
    if not runs:
        return "No runs yet."
    return f"{counted(runs, 'run')}, and nothing is missing, doubled or made up."


def _heartbeat(data: Data) -> datetime | None:
    """Until when the bot surely ran; None if that is not known."""
    from ollim_bot.domain.facts import Facts
    from ollim_bot.storage.codecs.values import MemoryCodec

    return Facts(data.stored(data.paths.memory, MemoryCodec())).heartbeat


def meant(word: str, known: Sequence[Story]) -> Story:
    """By its id, as the newest of a job, or by the beginning of its id."""
    for story in known:
        if word in (story.id, story.occurrence.job_id):
            return story
    fitting = [story for story in known if story.id.startswith(word)]
    if not fitting:
        raise OllimError(f"There is no run {word}. `ollim-bot runs` shows the newest.")
    if len(fitting) > 1:
        some = ", ".join(story.id for story in fitting[:_MOST_NAMED])
        raise WrongInput(f"{word} fits {len(fitting)} runs. The newest: {some}.")
    return fitting[0]


def _stories(data: Data, since: datetime | None = None) -> list[Story]:
    if not _has_ledger(data):
        return []
    return stories(_read(data, data.paths.ledger, LEDGER_ROWS, since))


def _said(data: Data, story: Story) -> list[str]:
    """What the owner saw of it."""
    sent = story.facts.get("pings")
    if not isinstance(sent, list) or not sent:
        return []
    messages = _read(data, data.paths.messages, CHAT_MESSAGES, story.fired)
    # A message has a line for each of its changes, such as a button that was used.
    return [*{message.id: message.text for message in messages if message.id in sent}.values()]


def _read(data: Data, path: Path, codec: LineCodec[T], since: datetime | None) -> Sequence[T]:
    log = JsonLines(path, codec, FileLock(data.paths.lock_of(path)), disk=OsDisk(), rotate=True)
    view = log.read(since)
    if view.skipped:
        note(f"{path.name}: {counted(view.skipped, 'unreadable line')} left out.")
    return view.entries


def _has_ledger(data: Data) -> bool:
    ledger = data.paths.ledger
    return any(ledger.parent.glob(f"{ledger.stem}*{ledger.suffix}"))


def _list_flags(parser: Flags) -> None:
    parser.add_argument("--job", metavar="ID", help="only the runs of this job")
    parser.add_argument("--since", metavar="7d", help="how far back; a week if not given")
    json_flag(parser)


def _show_flags(parser: Flags) -> None:
    parser.add_argument(
        "run", metavar="ID", help="of the run, or its beginning; of a job, for its newest run"
    )
    json_flag(parser)


_VERBS = {
    "list": Verb(
        "the newest runs",
        "ollim-bot runs list --job morning --since 30d",
        _list_flags,
        _list,
        needs_words=False,
    ),
    "show": Verb("one run, whole", "ollim-bot runs show morning", _show_flags, _show),
    "check": Verb(
        "whether every run that was due has its end",
        "ollim-bot runs check",
        json_flag,
        _check,
        needs_words=False,
    ),
}

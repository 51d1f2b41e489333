"""`ollim-bot changes`: who changed what in jobs, skills, the profile, settings, tasks, events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, shortened
from ollim_bot.kernel.store.change_rows import newest_changes
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import ANSWER, SETTING, ChangeRow, KeptChange, OlderChange
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    command,
    fenced_for,
    number_given,
    only_one,
    plain,
    print_json,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data

_USUAL, _MOST = 20, 1000
_LONGEST_LINE = 60
_NONE = "Nothing was changed yet. What you, the bot or an editor change from now on stands here."


def change_ids(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    for each in _newest(open_data(caller), _USUAL):
        yield Completion(each.change.key, f"{each.change.did} {each.change.what}")


ID = argument("id", metavar="ID", help="as `ollim-bot changes` shows it", completions=change_ids)


@command(
    "changes",
    "what was changed in jobs, skills, profile, policy, settings, tasks and events",
    "",
    argument("id", metavar="ID", nargs="?", help="show this one whole", completions=change_ids),
    argument("--limit", metavar="N", help=f"how many, {_USUAL} if omitted"),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    data, limit = open_data(caller), number_given(given, "limit", _USUAL, _MOST)
    found = [find_change(data, str(given["id"]))] if given.get("id") else _newest(data, limit)
    older = list[OlderChange]()
    if not (given.get("id") or caller.agent or len(found) >= limit):
        from ollim_bot.kernel.store.journal import older_changes

        older = older_changes(data.paths.root, [each.change for each in found], limit)
    if "json" in given:
        rows = [
            row_as_json(_as_seen(each.change, caller), is_undone=each.is_undone) for each in found
        ]
        older_rows = [{"at": at.astimezone(data.now.tzinfo), "what": what} for at, what in older]
        print_json({"changes": rows, "older": older_rows})
        return
    if given.get("id"):
        show("\n".join(_whole(found[0], data, caller)))
        return
    lines = [_line(each, data, caller) for each in found]
    lines += [
        ("", describe(at.astimezone(data.now.tzinfo), data.now), "", plain(what))
        for at, what in older
    ]
    show(columns(lines) if lines else _NONE)
    if found and caller.agent is None:
        show("`ollim-bot changes ID` shows one whole, `ollim-bot undo ID` takes it back.")


def find_change(data: Data, given: str) -> KeptChange:
    """The change whose id is `given`, or the only one whose id begins so."""

    def question(tx: Transaction) -> list[KeptChange]:
        exact = tx.changes.find(given)
        fit = [exact] if exact else tx.changes.beginning(given)
        return [KeptChange(each, tx.changes.is_undone(each.key)) for each in fit]

    found = data.ask_if_used(question) or []
    return only_one(found, "change", given, "`ollim-bot changes` lists them.")


def _newest(data: Data, limit: int) -> list[KeptChange]:
    return data.ask_if_used(lambda tx: newest_changes(tx.changes, limit)) or []


def _as_seen(change: ChangeRow, caller: Caller) -> ChangeRow:
    """The change; for the agent, words of others are data, and the name of the file is none."""
    if caller.agent is None:
        return change
    from ollim_bot.kernel.prompts.prompt_context import fenced, neutralised
    from ollim_bot.kernel.values.taint import Untrusted

    place, shown = neutralised(change.place), neutralised
    if change.untrusted:
        folder = change.place.partition("/")[0] if "/" in change.place else change.kind
        place = f"{folder or 'file'} {FROM_UNTRUSTED}"
        shown = partial(fenced, untrusted=Untrusted(change.untrusted, "what was changed"))
    before, after = (
        text if text is None else shown(text) for text in (change.before, change.after)
    )
    return replace(change, before=before, after=after, place=place)


def _line(kept: KeptChange, data: Data, caller: Caller) -> tuple[str, str, str, str]:
    change = kept.change
    when = describe(change.at.astimezone(data.now.tzinfo), data.now)
    seen = _as_seen(change, caller)
    what = f"{change.did} {seen.place}"
    if change.kind == ANSWER and seen.place == change.place:
        what = f"answered {seen.what}"
    if small := _small(change, caller, data.now):
        what += f": {small}"
    if change.undoes:
        what += f" (undoes {change.undoes})"
    if kept.is_undone:
        what += " (undone)"
    if change.untrusted and caller.agent is None:
        what += f" ({FROM_UNTRUSTED.strip('()')}: {change.untrusted})"
    who = f"{change.by}, {change.cause}" if change.cause else change.by
    return change.key, when, plain(who), plain(what)


def _small(change: ChangeRow, caller: Caller, now: datetime) -> str:
    """The change in a line; nothing of others' words for the agent."""
    if caller.agent is not None and change.untrusted:
        return ""
    if change.kind == SETTING:
        return f"{change.before} → {change.after}"
    if change.kind == ANSWER:
        from ollim_bot.kernel.values.answers import state_words

        return f"{state_words(change.before, now)} → {state_words(change.after, now)}"
    lines = [line for line in change.changed_lines() if line[1:].strip() not in ("", "---")]
    text = shortened(" ".join(lines[:2]), _LONGEST_LINE)
    if caller.agent is None:
        return text
    from ollim_bot.kernel.prompts.prompt_context import neutralised

    return neutralised(text)


def _whole(kept: KeptChange, data: Data, caller: Caller) -> Iterator[str]:
    change = kept.change
    yield "  ".join(_line(kept, data, caller))
    if change.is_cut:
        yield "It was too long to be kept; the history in git has it."
        return
    lines = "\n".join(plain(line) for line in change.difference())
    if change.untrusted or caller.agent is None:
        yield fenced_for(caller.agent, lines, change.untrusted, "what was changed")
    else:
        from ollim_bot.kernel.prompts.prompt_context import neutralised

        yield neutralised(lines)


def row_as_json(change: ChangeRow, *, is_undone: bool = False) -> dict[str, object]:
    """The change as JSON shows it."""
    return {
        "id": change.key,
        "at": change.at,
        "by": change.by,
        "cause": change.cause or None,
        "place": change.place,
        "did": change.did,
        "before": change.before,
        "after": change.after,
        "untrusted": change.untrusted or None,
        "undoes": change.undoes or None,
        "undone": is_undone,
    }

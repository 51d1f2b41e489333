"""`ollim-bot marks`: the notes and tasks that have words of others, and how that ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.mark_rows import by_hand
from ollim_bot.kernel.values.skills import folded_path
from ollim_bot.kernel.values.taint import TaintMark
from ollim_bot.kernel.values.tasks import title_key
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import agrees, show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, writable

_NONE = "No note and no task has words of others."

_MARKS = Noun("marks")
run = _MARKS.run


def _places(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    for mark in _left(open_data(caller)):
        yield Completion(mark.path or title(mark.title), mark.source)


_PLACE = argument(
    "place",
    metavar="PLACE",
    nargs="+",
    help="a note, by its path in the data directory, or the words of a task",
    completions=_places,
)


@_MARKS.verb("the notes and tasks that a careful session has left", "", JSON)
def _list(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    marks = _left(data)
    if "json" in given:
        print_json({"marks": [_object(each, data) for each in marks]})
        return
    rows = [(_named(each), plain(each.source), _since(each, data)) for each in marks]
    show(columns(rows) if rows else _NONE)
    if rows:
        show("`ollim-bot marks show PLACE` shows one, `marks mine PLACE` makes its words yours.")


@_MARKS.verb("one with its whole text", "notes/others/plan.md", _PLACE, JSON)
def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    mark = _meant(given, data)
    if "json" in given:
        print_json({**_object(mark, data), "text": _text(mark, data)})
        return
    _show_whole(mark, data)


@_MARKS.verb(
    "say of one: these are my words",
    "notes/others/plan.md",
    _PLACE,
    argument("--yes", action="store_true", help="do not ask"),
    JSON,
)
def _mine(given: Given, caller: Caller) -> None:
    if "json" in given and "yes" not in given:
        raise WrongInput("`ollim-bot marks mine`: --json asks nothing, so add --yes.")
    if "yes" not in given and not sys.stdin.isatty():
        raise WrongInput("Whether they are yours can only be asked in a terminal. Or say --yes.")
    with writable(open_data(caller)) as data:
        mark = _meant(given, data)
        if "json" not in given:
            _show_whole(mark, data)
        if "yes" not in given and not agrees("Are these your words?"):
            show("Nothing was changed.")
            return
        with data.database() as database:
            is_gone = database.run(lambda tx: tx.marks.exchange(mark, None))
        if not is_gone:
            raise OllimError(f"{_named(mark)} has changed just now. Look at it again.")
        if "json" in given:
            print_json({"mine": _object(mark, data)})
        else:
            show(f"These are your words now: {_named(mark)}. The bot may read them as yours.")


def _left(data: Data) -> Sequence[TaintMark]:
    """The marks in force: what the owner's hand has changed since has none any more."""
    left = data.ask_if_used(lambda tx: tx.marks.left()) or []
    others = by_hand(data.paths.root, left)
    return [each for each in left if each not in others]


def _meant(given: Given, data: Data) -> TaintMark:
    words, left = " ".join(given["place"]), _left(data)
    path, key = folded_path(words), title_key(words)
    exact = [
        each
        for each in left
        if (each.path and folded_path(each.path) == path)
        or (each.title and title_key(each.title) == key)
    ]
    found = exact or [each for each in left if each.title and key in title_key(each.title)]
    if len(found) != 1:
        what = "Several tasks have" if found else "No note and no task that has a mark is"
        raise OllimError(f"{what} “{title(words)}”. `ollim-bot marks` lists them.")
    return found[0]


def _named(mark: TaintMark) -> str:
    return plain(mark.path) if mark.path else f"task “{title(mark.title)}”"


def _show_whole(mark: TaintMark, data: Data) -> None:
    about = f"after reading {plain(mark.source)}, {_since(mark, data)}"
    show(f"{_named(mark)}, {about}:\n\n{plain(_text(mark, data))}\n")


def _since(mark: TaintMark, data: Data) -> str:
    return describe(mark.since.astimezone(data.now.tzinfo), data.now)


def _text(mark: TaintMark, data: Data) -> str:
    if not mark.path:
        return mark.title
    try:
        raw = read_file(data.paths.root / mark.path, SizeLimit.IN_HISTORY)
    except OSError as unread:
        raise OllimError(f"{_named(mark)} cannot be read: {unread.strerror}.") from unread
    return raw.decode("utf-8", "replace")


def _object(mark: TaintMark, data: Data) -> dict[str, object]:
    return {
        "kind": "note" if mark.path else "task",
        "place": mark.path or mark.title,
        "source": mark.source,
        "since": mark.since.astimezone(data.now.tzinfo),
    }

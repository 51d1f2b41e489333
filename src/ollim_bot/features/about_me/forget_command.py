"""`ollim-bot forget`: removes something from the bot's notes, or from everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from shlex import quote
from typing import TYPE_CHECKING

from ollim_bot.features.about_me.known_lines import change_lines, known_lines, text_of
from ollim_bot.kernel.base.errors import OllimError, WriteFailed, WrongInput
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.about_me import KnownLine
from ollim_bot.kernel.values.forgetting import Passage
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    command,
    plain,
    print_json,
    title,
    zone_of,
)
from ollim_bot.surfaces.terminal.printing import agrees, show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, opened_journal

if TYPE_CHECKING:
    from ollim_bot.features.about_me.forgetting_everywhere import Found, Place

_REFERENCE = re.compile(r"(.+\.md):([1-9][0-9]{0,6})", re.IGNORECASE)
_COMMAND = "ollim-bot forget"
_MOST_NAMED = 5


def _lines(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    data = open_data(caller)
    for line in known_lines(data.paths, zone_of(data.now)):
        yield Completion(line.reference, title(line.text))


@command(
    "forget",
    "have the bot forget a line of its notes, or certain words, here or everywhere",
    "USER.md:3",
    argument(
        "what",
        metavar="LINE|TEXT",
        help="a line, as `ollim-bot about-me` names it, or the words to forget",
        completions=_lines,
    ),
    argument(
        "--everywhere",
        action="store_true",
        help="also from the log, runs, search, transcripts, copies and the history; the bot must "
        "be stopped",
    ),
    argument("--yes", action="store_true", help="do not ask, with --everywhere"),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    if "everywhere" in given:
        if "json" in given and "yes" not in given:
            raise WrongInput(f"{_COMMAND}: --json asks nothing, so add --yes.")
        if data.shared is None:
            _forget_everywhere(given, data, caller)
        else:
            # Forget with all rows in a file here, which go back to the server then.
            from ollim_bot.kernel.store.standby_loader import load_standby

            rows_in_file = load_standby("cli").rows_in_file
            say = (lambda _: None) if "json" in given else (lambda line: show(plain(line)))
            with rows_in_file(caller, say):
                _forget_everywhere(given, open_data(caller), caller)
    else:
        _forget_lines(given, data)


def _forget_lines(given: Given, data: Data) -> None:
    meant = _meant(str(given["what"]), data)
    if not meant:
        raise OllimError(
            f"No line of the notes has “{title(str(given['what']))}”. `ollim-bot about-me` shows "
            "them all."
        )
    journal = opened_journal(data.paths)
    for file, lines in groupby(meant, lambda line: line.file):
        path = data.paths.root / file
        if not change_lines(data.paths, file, [*lines]):
            raise WriteFailed(path, "has changed just now. Run the command again.")
        journal.note(path, f"forget: {file}")
    journal.flush()
    if "json" in given:
        gone = [{"file": each.file, "line": each.number, "text": each.text} for each in meant]
        print_json({"forgotten": gone})
        return
    show(f"Forgot {counted(len(meant), 'line')}:")
    show(columns([(f"  {line.reference}", plain(line.text)) for line in meant]))
    show(
        "The log, past runs and the history still have it. `ollim-bot forget --everywhere` with "
        "the words removes it there too."
    )


def _line_reference(typed: str) -> tuple[str, int] | None:
    """The file and the number in `USER.md:3`; None for any other text."""
    found = _REFERENCE.fullmatch(typed.strip())
    return None if found is None else (found[1].removeprefix("./"), int(found[2]))


def _meant(what: str, data: Data) -> list[KnownLine]:
    lines = known_lines(data.paths, zone_of(data.now))
    reference = _line_reference(what)
    if reference is not None:
        found = [line for line in lines if (line.file, line.number) == reference]
        if not found:
            raise OllimError(f"There is no line {what}. `ollim-bot about-me` shows them all.")
        return found
    passage, found = Passage.of(what), []
    for file in dict.fromkeys(line.file for line in lines):
        gone = passage.lines_in(text_of(data.paths, file))
        found += [line for line in lines if line.file == file and line.number in gone]
    return found


def _forget_everywhere(given: Given, data: Data, caller: Caller) -> None:
    from ollim_bot.features.about_me.forgetting_everywhere import Forgetting, cut_off_words
    from ollim_bot.kernel.base.instance import single_instance
    from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance

    if not data.paths.state.is_dir():
        raise OllimError("There is no data directory yet, so there is nothing to forget.")
    what = str(given["what"])
    # No bot, update or restore may work with the data meanwhile.
    with (
        single_instance(data.paths.bot_pid, patience=0.2),
        maintenance(data.paths, MaintenanceKind.FORGETTING, data.now),
    ):
        unfinished = cut_off_words(data.paths)
        if _line_reference(what) is not None:
            # After the cut, the line is perhaps gone, and another one has its number.
            what = unfinished or _meant(what, data)[0].text.lstrip("#>*- ")
        elif unfinished not in ("", what.strip()):
            raise OllimError(
                f"An earlier run was cut off. Complete it first: `{_COMMAND} --everywhere "
                f"{quote(unfinished)}`"
            )
        work = Forgetting(data.paths, caller.environ, data.now, Passage.of(what))
        found = work.find()
        if "json" not in given:
            show("\n".join(_listed(found, what, is_unfinished=bool(unfinished))))
        left, is_there = found, bool(found.places or unfinished)
        if is_there:
            if "yes" not in given and not agrees("Forget it in all these places?"):
                show("Nothing was changed.")
                return
            work.run()
            left = work.find()
    _report(data, found, left if is_there else None, as_json="json" in given)
    # As long as the words are anywhere in the bot's places, it has failed.
    names = [place.name for place in left.places]
    if left.kept:
        raise OllimError(
            f"It is still in: {', '.join((*left.kept, *names))}. The bot cannot change "
            f"{left.kept[0]}. Delete the words there yourself, then run the command again."
        )
    if names:
        raise OllimError(f"It is still in: {', '.join(names)}. Run the command again.")


def _report(data: Data, found: Found, left: Found | None, *, as_json: bool) -> None:
    """Say what was `found`, and what is `left` of it; None if nothing was to be done."""
    from ollim_bot.features.about_me.forgetting_everywhere import OUT_OF_REACH

    out_of_reach: list[str] = []
    if left is not None:
        out_of_reach = [*OUT_OF_REACH, *(f"the git remote “{name}”" for name in left.remotes)]
    if as_json:
        places = {place.name: place.count for place in found.places}
        kept = list((left or found).kept)
        print_json({"places": places, "kept": kept, "out_of_reach": out_of_reach})
    elif left is not None:
        show("\n".join(_ended(data, left, out_of_reach)))


def _listed(found: Found, what: str, *, is_unfinished: bool) -> Iterator[str]:
    if is_unfinished:
        yield "An earlier run was cut off. This one completes what it had begun."
    if not found.places:
        yield f"“{title(what)}” is in none of the bot's places."
    else:
        yield f"“{title(what)}” is in:"
        yield columns([(f"  {place.name}", plain(_counted(place))) for place in found.places])
    for each in found.kept:
        yield plain(f"It stays in {each}, which the bot cannot change.")
    if found.places or is_unfinished:
        yield (
            "In their place it will say `(forgotten)`; lines of notes go, and what ran stays "
            "listed. The git history of your data begins anew, with the files as they are then. "
            "This cannot be undone."
        )


def _counted(place: Place) -> str:
    more = len(place.names) - _MOST_NAMED
    named = ", ".join(place.names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return named or str(place.count)


def _ended(data: Data, left: Found, out_of_reach: Sequence[str]) -> Iterator[str]:
    if not (left.places or left.kept):
        yield "Forgotten."
    yield plain(f"The bot cannot reach: {'; '.join(out_of_reach)}.")
    folder = data.paths.backups()
    if folder.is_dir() and any(folder.iterdir()):
        yield plain(f"Automatic backups are in {folder}. Delete those that are older than today.")

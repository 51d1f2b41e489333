"""`ollim-bot standby`: the same bot on a second machine, through a PostgreSQL database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.framework import JSON, Given, Noun, argument, plain, print_json
from ollim_bot.cli.terminal import show
from ollim_bot.domain.database_address import problem_with_address
from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.standby import FoundServer, Leader
from ollim_bot.domain.text import counted
from ollim_bot.errors import AlreadyRunning, OllimError, WrongInput

if TYPE_CHECKING:
    from ollim_bot.cli.setup import Console
    from ollim_bot.settings import Secret, Settings
    from ollim_bot.upkeep.machine import Machine

_UNFINISHED = (
    "Standby is not finished. So far the rows move: conversation, settings, runs and deliveries. "
    "Jobs, skills, your profile, attachments and the model's own record of the conversation stay "
    "on each machine, and `ollim-bot backup` does not save the rows that are on a server. "
    "To try it all the same: `ollim-bot standby init --unfinished`."
)
_NEEDS_PSYCOPG = (
    "This needs psycopg, which is not installed. Install ollim-bot with its extra `[postgres]`."
)
_NO_ADDRESS = "This installation keeps its data in a file on this machine. No standby is set up."
_HAS_ADDRESS = (
    "DATABASE_URL is set already, so this machine uses a database. `ollim-bot standby status` "
    "shows which."
)
_STRONGER = "DATABASE_URL is set in the environment. Take it out there; this command writes `.env`."
_NO_TERMINAL = "This is no terminal. Name a file with the address: --from FILE."
_NO_QUESTION = "This is no terminal to ask in. Add --yes once you have read what it does."
_ASK_ADDRESS = "The address of the database (it is not shown): "
_OPEN_FILE = "others on this machine can read {file}. Close it: chmod 600 {file}"
_PRIVACY = (
    "The database will hold your conversation, and later also transcripts, files and attachments. "
    "They are not encrypted there. Who can read them: who runs {where}, and who knows the address."
)
_MOVED = "Moved {rows}. From the next start on, your bot uses {place}."
_KEPT = "The file as it was is kept in the folder `state`, with `before-standby` in its name."
_START = "Start the bot again: `ollim-bot`. On the second machine run `ollim-bot standby join`."
_ENDED = "The move had been cut off after the switch. It is complete now."
_JOINED = "This machine stands by for {place}. Start the bot here: `ollim-bot`."
_MISSING = "The other machine uses keys that are not here: {names}. Bring them over by hand."
_STILL_LEADS = "{name} still leads. Stop its bot first; after a crash, wait for 15 seconds."
_NOT_MOVED = "Nothing was changed."

_STANDBY = Noun("standby")
run = _STANDBY.run

_FROM = argument(
    "--from",
    dest="file",
    metavar="FILE",
    help="a file that holds the address, in place of the hidden question",
)
_YES = argument("--yes", action="store_true", help="do it without asking")


@_STANDBY.verb(
    "move this bot's data to a PostgreSQL database (not finished)",
    "--unfinished --from address.txt",
    _FROM,
    _YES,
    argument("--unfinished", action="store_true", help="do it although it is not finished"),
)
def _init(given: Given, caller: Caller) -> None:
    init(given, caller, _console())


def init(given: Given, caller: Caller, console: Console) -> None:
    """Raises `OllimError` if the rows were not moved."""
    if "unfinished" not in given:
        raise OllimError(_UNFINISHED)
    _require_psycopg()
    from ollim_bot.upkeep import standby

    settings = caller.settings()
    here = _stopped_machine(caller, settings)
    if settings.database_url is not None:
        if not standby.end_cut_off_move(here, settings.database_url):
            raise OllimError(_HAS_ADDRESS)
        show(_ENDED)
        return
    url = _given_address(given, caller, console)
    standby.check_target(here, url)
    place = standby.place_of(url)
    console.say(_PRIVACY.format(where=_runner(place)))
    if not _agrees(given, console, f"Move the data of {caller.shown(here.paths.root)} there?"):
        console.say(_NOT_MOVED)
        return
    counts = standby.move_there(here, url, standby.key_names(settings))
    rows = counted(sum(counts.values()), "row")
    show(plain(_MOVED.format(rows=rows, place=place)))
    show(_KEPT)
    show(_START)


@_STANDBY.verb("have this machine stand by for a bot elsewhere", "--from address.txt", _FROM)
def _join(given: Given, caller: Caller) -> None:
    join(given, caller, _console())


def join(given: Given, caller: Caller, console: Console) -> None:
    """Raises `OllimError` if this machine cannot stand by."""
    _require_psycopg()
    from ollim_bot.upkeep import standby

    settings = caller.settings()
    if settings.database_url is not None:
        raise OllimError(_HAS_ADDRESS)
    here = _stopped_machine(caller, settings)
    url = _given_address(given, caller, console)
    found = standby.join(here, url)
    show(plain(_JOINED.format(place=standby.place_of(url))))
    if missing := [each for each in found.key_names if each not in standby.key_names(settings)]:
        show(plain(_MISSING.format(names=", ".join(missing))))
    show(_FILES)


_FILES = (
    "Jobs, skills and your profile are not brought over yet: copy those folders from the other "
    "machine by hand."
)


@_STANDBY.verb("which machine leads, and whether this one stands by", "", JSON)
def _status(given: Given, caller: Caller) -> None:
    settings = caller.settings()
    if settings.database_url is None:
        if "json" in given:
            print_json({"database": "", "role": "alone", "leader": None})
        else:
            show(f"{_NO_ADDRESS} `ollim-bot help standby` tells more.")
        return
    _require_psycopg()
    from ollim_bot.upkeep.standby import look, place_of

    found, place = look(settings.database_url), place_of(settings.database_url)
    role = _role(_machine(caller, settings))
    if "json" in given:
        print_json(_as_json(place, found, role))
        return
    for line in _status_lines(place, found, role):
        show(plain(line))


def _status_lines(place: str, found: FoundServer, role: str) -> Iterator[str]:
    yield f"Database: {place}."
    leader = found.leader
    if not found.is_ours:
        yield "It holds no data of a bot."
    elif found.closed:
        yield "It is closed: the data moved back into a file on one of the machines, or a move "
        yield "was cut off. `ollim-bot standby leave` ends it here."
    elif leader is None:
        yield "No machine has led yet. Start the bot on one."
    elif leader.is_leading:
        yield f"{leader.name} has led for {_words(leader.since)}."
    else:
        yield f"No machine leads. {leader.name} led last, until {_words(leader.renewed)} ago."
    yield _ROLES[role]
    if leader is not None:
        yield f"Last renewal {_words(leader.renewed)} ago, take-over number {leader.epoch}."
        yield f"Version of ollim-bot there {leader.version}, schema {found.schema}."


_ROLES = {
    "leads": "This machine leads.",
    "stands by": "This machine stands by.",
    "stopped": "The bot does not run on this machine.",
}


def _role(here: Machine) -> str:
    """What the bot on this machine does."""
    from ollim_bot.store.bot_rows import rows_beside_bot
    from ollim_bot.upkeep.instance import running_pid

    if running_pid(here.paths.bot_pid) is None:
        return "stopped"
    by_bot = rows_beside_bot(here.paths.commands, here.now)
    return "leads" if by_bot is not None and by_bot.greeting.leads else "stands by"


def _as_json(place: str, found: FoundServer, role: str) -> dict[str, object]:
    leader = found.leader
    return {
        "database": place,
        "role": role,
        "leader": leader.name if leader is not None and leader.is_leading else None,
        "last_leader": leader.name if leader else None,
        "leads_for": round(leader.since) if leader is not None and leader.is_leading else None,
        "renewed_ago": round(leader.renewed, 1) if leader else None,
        "epoch": leader.epoch if leader else 0,
        "schema": found.schema,
        "version": leader.version if leader else "",
        "is_closed": bool(found.closed),
    }


def _words(seconds: float) -> str:
    return duration_in_words(timedelta(seconds=max(round(seconds), 1)))


@_STANDBY.verb("have another machine lead, within seconds", "", name="hand-over")
def _hand_over(_: Given, caller: Caller) -> None:
    _require_psycopg()
    from ollim_bot.upkeep.standby import hand_over

    done = hand_over(_url(_set_up(caller)))
    if done is None:
        raise OllimError("No machine leads now, so there is nothing to hand over. Start the bot.")
    if done.is_done and done.after is not None:
        show(plain(f"{done.after.name} leads now, after {done.seconds:.1f} s."))
        return
    name = plain(done.before.name)
    if done.after is not None:
        raise OllimError(f"{name} still leads: it did not answer. Look at the bot there.")
    raise OllimError(
        f"{name} let go, but no other machine took over. Start the bot on the other one; until "
        "then nothing comes."
    )


@_STANDBY.verb("stop using the database on this machine", "", _YES)
def _leave(given: Given, caller: Caller) -> None:
    leave(given, caller, _console())


def leave(given: Given, caller: Caller, console: Console) -> None:
    """Raises `OllimError` if the address is still used here."""
    settings = _set_up(caller)
    if caller.environ.get("DATABASE_URL", "").strip():
        raise OllimError(_STRONGER)
    _require_psycopg()
    from ollim_bot.upkeep.standby import is_left, leave_as_standby, look

    here = _stopped_machine(caller, settings)
    found = look(_url(settings))
    leader = found.leader
    if found.closed:
        leave_as_standby(here)
        show(_LEFT_AT_LAST if is_left(here, found) else _LEFT)
    elif leader is None or not found.is_ours:
        leave_as_standby(here)
        show(_LEFT)
    elif leader.name != here.name:
        if not leader.is_leading:
            console.say(plain(_AWAY.format(name=leader.name)))
        if not _agrees(given, console, "Take the address out on this machine?"):
            console.say(_NOT_MOVED)
            return
        leave_as_standby(here)
        show(_LEFT)
    else:
        _move_back(given, here, _url(settings), leader, console)


_LEFT = "This machine stands by no more. The data stay in the database."
_LEFT_AT_LAST = "The data are in a file here, and the address is taken out now. Start the bot."
_AWAY = (
    "{name} led last and does not lead now. To move the data back into a file, run this there. "
    "Here it only takes the address out."
)
_BACK = (
    "All data move back into a file on this machine, and the database is closed: other machines "
    "can lead no more."
)
_BACK_DONE = "Moved {rows} back. From the next start on, your bot uses a file on this machine."
_STAY = (
    "Your conversation is still in {place}. Remove it there when you are sure: "
    "`dropdb` with the name of the database."
)
_OTHERS = "On each other machine run `ollim-bot standby leave`."


def _move_back(given: Given, here: Machine, url: Secret, leader: Leader, console: Console) -> None:
    from ollim_bot.upkeep.standby import move_back, place_of

    if leader.is_leading:
        raise OllimError(_STILL_LEADS.format(name=leader.name))
    console.say(_BACK)
    if not _agrees(given, console, "Move the data back?"):
        console.say(_NOT_MOVED)
        return
    counts = move_back(here, url)
    rows = counted(sum(counts.values()), "row")
    show(_BACK_DONE.format(rows=rows))
    show(plain(_STAY.format(place=place_of(url))))
    show(_OTHERS)


def _set_up(caller: Caller) -> Settings:
    settings = caller.settings()
    if settings.database_url is None:
        raise OllimError(_NO_ADDRESS)
    return settings


def _url(settings: Settings) -> Secret:
    assert settings.database_url is not None
    return settings.database_url


def _stopped_machine(caller: Caller, settings: Settings) -> Machine:
    """This machine. Raises `AlreadyRunning` if its bot runs."""
    from ollim_bot.upkeep.instance import running_pid

    here = _machine(caller, settings)
    if pid := running_pid(here.paths.bot_pid):
        raise AlreadyRunning(pid)
    return here


def _machine(caller: Caller, settings: Settings) -> Machine:
    from ollim_bot.upkeep.machine import Machine

    def now() -> datetime:
        return caller.now().astimezone(settings.zone)

    return Machine(settings.paths, caller.environ, now, lambda line: show(plain(line)))


def _given_address(given: Given, caller: Caller, console: Console) -> Secret:
    """The address of the file or of the hidden question. Raises `WrongInput`, without its words."""
    from ollim_bot.settings import Secret

    if "file" in given:
        text, name = _read_address(given["file"], caller), str(given["file"])
    elif sys.stdin.isatty():
        text, name = console.ask_secret(_ASK_ADDRESS).strip(), "The address"
    else:
        raise WrongInput(_NO_TERMINAL)
    if problem := problem_with_address(text):
        raise WrongInput(plain(f"{name}: {problem}" if "file" in given else f"It {problem}"))
    return Secret(text)


def _read_address(typed: str, caller: Caller) -> str:
    from ollim_bot.cli.data import note
    from ollim_bot.plain_files import SizeLimit, read_file

    path = caller.path(typed)
    try:
        text = read_file(path, SizeLimit.SETTINGS).decode("utf-8", "replace").strip()
        if path.stat().st_mode & 0o077:
            note(_OPEN_FILE.format(file=typed))
    except OSError as refused:
        raise WrongInput(f"{typed} cannot be read: {refused.strerror or refused}.") from None
    return text


def _agrees(given: Given, console: Console, question: str) -> bool:
    if "yes" in given:
        return True
    if not sys.stdin.isatty():
        raise WrongInput(_NO_QUESTION)
    try:
        answer = console.ask(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    return answer.strip().casefold() in ("y", "yes")


def _runner(place: str) -> str:
    """Who runs the server, as the address names it."""
    return "this machine" if place.endswith("on this machine") else "that server"


def _require_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise OllimError(_NEEDS_PSYCOPG)


def _console() -> Console:
    from ollim_bot.cli.setup import TerminalConsole

    return TerminalConsole()

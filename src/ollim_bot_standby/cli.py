"""`ollim-bot standby`: the same bot on a second machine, through a PostgreSQL database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.database_address import problem_with_address
from ollim_bot.kernel.base.errors import AlreadyRunning, OllimError, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.text import counted
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, Noun, argument, plain, print_json
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot_standby.keys import (
    Keys,
    key_names,
    keys_of,
    note_shared,
    put_keys,
    read_keys,
    write_keys,
)
from ollim_bot_standby.machines import FoundServer, Leader, Machine, in_words

if TYPE_CHECKING:
    from ollim_bot.kernel.base.settings import Secret, Settings
    from ollim_bot.surfaces.terminal.interview import Console
    from ollim_bot_standby.stored_files import FilesState

_NEEDS_PSYCOPG = (
    "This needs psycopg, which is not installed. Install ollim-bot with its extra `[standby]`."
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
_KEPT = "The file as it was is kept in the folder `state`, with `before-standby` in its name."
_START = "Start the bot again: `ollim-bot`. On the second machine run `ollim-bot standby join`."
_ENDED = "The move had been cut off after the switch. It is complete now."
_JOINED = "This machine stands by for {place}. Start the bot here: `ollim-bot`."
_MISSING = (
    "The other machine uses keys that are not here: {names}. Run `ollim-bot standby keys FILE` "
    "there, carry the file here, and run `ollim-bot standby join --keys FILE`."
)
_WROTE_KEYS = (
    "Keys: {file} has {names}. Whoever has this file is you: carry it to the other machine "
    "yourself, run `ollim-bot standby join --keys FILE` there, and delete it on both."
)
_TOOK_KEYS = "Keys put in place: {names}."
_KEPT_KEYS = "These differ here and stay as they are: {names}. `--replace` takes those of the file."
_DELETE = "Delete {file} now, here and on the other machine."
_DELETE_ADDRESS = "Delete {file} now: it holds the password, and `.env` has the address."
_USE_THEM = "Did you write all of this, and shall it count here?"
_USED = "These count here now: {names}."
_STILL_WAIT = "They wait. What was here before counts. `ollim-bot standby accept` shows them again."
_REFUSED = "What is here stays. Start the bot here again; then it is stored for all machines."
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
    "move this bot's data to a PostgreSQL database",
    "--from address.txt --keys keys.json",
    _FROM,
    _YES,
    argument("--keys", metavar="FILE", help="then write the keys for the other machine"),
)
def init(given: Given, caller: Caller, console: Console | None = None) -> None:
    """Raises `OllimError` if the rows were not moved."""
    console = console or _console()
    _require_psycopg()
    from ollim_bot_standby import moving

    settings = caller.settings()
    here = _stopped_machine(caller, settings)
    target = _new_key_file(given, caller)
    if settings.database_url is not None:
        if not moving.end_cut_off_move(here, settings.database_url):
            raise OllimError(_HAS_ADDRESS)
        show(_ENDED)
        return
    url = _given_address(given, caller, console)
    moving.check_target(here, url)
    place = moving.place_of(url)
    where = "this machine" if place.endswith("on this machine") else "that server"
    console.say(
        "The database will hold your conversation, the model's record of it, jobs, skills, profile "
        f"and attachments. They are not encrypted there. Who can read them: who runs {where}, and "
        "who knows the address."
    )
    if not _agrees(given, console, f"Move the data of {caller.shown(here.paths.root)} there?"):
        console.say(_NOT_MOVED)
        return
    note_shared(settings)
    rows = counted(sum(moving.move_there(here, url, key_names(settings)).values()), "row")
    show(plain(f"Moved {rows}. From the next start on, your bot uses {place}."))
    show(_KEPT)
    _tell_to_delete(given)
    if target is not None:
        _write_keys(target, caller)
    show(_START)


def _tell_to_delete(given: Given) -> None:
    """Say that the file with the address, which is a key, is needed no more."""
    if "file" in given:
        show(plain(_DELETE_ADDRESS.format(file=given["file"])))


def _new_key_file(given: Given, caller: Caller) -> Path | None:
    """Where the keys go. Raises `WrongInput` if something is there."""
    if "keys" not in given:
        return None
    target = caller.path(given["keys"])
    if target.exists():
        raise WrongInput(f"{given['keys']} exists already. Name a new file.")
    return target


def _write_keys(target: Path, caller: Caller) -> None:
    keys = keys_of(caller.settings(), caller.environ, caller.path("."))
    write_keys(keys, target)
    show(plain(_WROTE_KEYS.format(file=caller.shown(target), names=", ".join(keys.names))))


@_STANDBY.verb(
    "write the keys of this machine into a file for another one",
    "keys.json",
    argument("file", metavar="FILE", help="a new file, which only you can read"),
    name="keys",
)
def _keys(given: Given, caller: Caller) -> None:
    target = _new_key_file({**given, "keys": given["file"]}, caller)
    assert target is not None
    _write_keys(target, caller)


@_STANDBY.verb(
    "have this machine stand by for a bot elsewhere",
    "--keys keys.json",
    _FROM,
    argument("--keys", metavar="FILE", help="the file of keys that the other machine wrote"),
    argument("--replace", action="store_true", help="also keys that are here and differ"),
)
def join(given: Given, caller: Caller, console: Console | None = None) -> None:
    """Raises `OllimError` if this machine cannot stand by."""
    console = console or _console()
    settings = caller.settings()
    is_new = settings.database_url is None
    if not (is_new or "keys" in given):
        raise OllimError(_HAS_ADDRESS)
    here = _stopped_machine(caller, settings)
    typed = str(given.get("keys", ""))
    keys = read_keys(caller.path(typed), typed) if typed else Keys()
    own = {**keys.settings}
    address = own.pop("DATABASE_URL", "")
    if is_new:
        _require_psycopg()
        from ollim_bot_standby import moving

        url = _given_address(given, caller, console, address)
        found = moving.join(here, url)
        _take_keys(here, replace(keys, settings=own), given)
        show(plain(_JOINED.format(place=moving.place_of(url))))
        _tell_to_delete(given)
        settings = caller.settings()
        for line in (*_key_lines(found, settings), *_unlike_lines(settings, caller)):
            show(plain(line))
        if sys.stdin.isatty():
            _offer(given, here, url, console)
    else:
        _take_keys(here, replace(keys, settings=own), given)


@_STANDBY.verb(
    "look through what other machines have changed that can act, and take it in",
    "",
    _YES,
    argument("--refuse", action="store_true", help="keep what is here, for all machines"),
)
def accept(given: Given, caller: Caller, console: Console | None = None) -> None:
    """Raises `OllimError` if nothing could be shown or taken in."""
    console = console or _console()
    settings, url = _set_up(caller)
    from ollim_bot_standby.moving import refuse_files

    here = _machine(caller, settings)
    if "refuse" in given:
        refuse_files(here, url)
        show(_REFUSED)
    elif not _offer(given, here, url, console):
        show("Nothing waits: you have seen here all that can act.")


def _offer(given: Given, here: Machine, url: Secret, console: Console) -> bool:
    """Show all of what waits, and take it in if the owner wants that; False if nothing does."""
    from ollim_bot_standby.moving import accept_files, waiting_files

    waiting = waiting_files(here, url)
    if not waiting:
        return False
    console.say(
        "These come from the database, and by them your bot may do more on this machine than "
        "before. Whoever can write to the database could have put them there."
    )
    for path, version, content in waiting:
        if content is None:
            console.say(plain(f"\n{path} is removed."))
            continue
        console.say(plain(f"\n{path}{', a program' * version.is_executable}:"))
        for line in content.decode("utf-8", "backslashreplace").splitlines():
            console.say(plain(f"    {line}"), "    ")
    if _agrees(given, console, f"\n{_USE_THEM}"):
        accept_files(here, url, waiting)
        show(plain(_USED.format(names=", ".join(each.path for each in waiting))))
    else:
        console.say(_STILL_WAIT)
    return True


def _take_keys(here: Machine, keys: Keys, given: Given) -> None:
    if "keys" not in given:
        return
    taken = put_keys(here.paths, keys, replaces="replace" in given)
    show(plain(_TOOK_KEYS.format(names=", ".join(taken.new) or "none was new")))
    if taken.kept:
        show(plain(_KEPT_KEYS.format(names=", ".join(taken.kept))))
    show(plain(_DELETE.format(file=given["keys"])))


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
    from ollim_bot_standby.moving import look, look_at_files, place_of

    url, here = settings.database_url, _machine(caller, settings)
    found, place = look(url), place_of(url)
    role = _role(here)
    files = look_at_files(here, url) if found.is_open else None
    if "json" in given:
        more: dict[str, object] = {"files": None}
        if files is not None:
            aside = [f"{each.folder}/{name}" for each in files.set_aside for name in each.files]
            more = {"files": {**asdict(files), "set_aside": aside}}
        unlike = {"unlike_settings": [*_unlike_lines(settings, caller)]}
        print_json(_as_json(place, found, here, role) | more | unlike)
        return
    lines = [*_status_lines(place, found, here, role)]
    lines += _files_lines(files, role, here.now()) if files else ()
    for line in (*lines, *_key_lines(found, settings), *_unlike_lines(settings, caller)):
        show(plain(line))


def _unlike_lines(settings: Settings, caller: Caller) -> Iterator[str]:
    """What this machine says otherwise, and what counts."""
    from ollim_bot.kernel.base.environment import system_zone
    from ollim_bot.kernel.base.settings import Settings as Reading

    yield from settings.unlike
    is_set = "OLLIM_TIMEZONE" in Reading.values(caller.environ, cwd=caller.path("."))
    machine = None if is_set else system_zone(caller.environ)
    if machine is not None and str(machine) != str(settings.zone):
        yield f"The clock of this machine is on {machine}; the bot keeps {settings.zone}."


def _key_lines(found: FoundServer, settings: Settings) -> Iterator[str]:
    present = key_names(settings)
    if missing := [each for each in found.key_names if each not in present]:
        yield _MISSING.format(names=", ".join(missing))


_WAITING = "{files} changed here and not stored yet, for {length}: {names}."
_BEHIND = "{files} not as stored: {names}."
_NOT_SEEN = (
    "Changed by another machine, can act, and wait until you have looked through them here: "
    "{names}. Run `ollim-bot standby accept`."
)
_SET_ASIDE = "Changed here by hand and never stored, kept in {folder}: {names}."


def _files_lines(files: FilesState, role: str, now: datetime) -> Iterator[str]:
    from ollim_bot_standby.stored_files import named

    names = named(files.unlike)
    if not files.unlike:
        yield "All files are stored." if role == "leads" else "All files are here."
    elif role == "leads" and files.since is not None:
        length = in_words((now - files.since).total_seconds())
        yield _WAITING.format(files=counted(len(files.unlike), "file"), length=length, names=names)
    else:
        yield _BEHIND.format(files=counted(len(files.unlike), "file"), names=names)
    if files.waiting:
        yield _NOT_SEEN.format(names=named(files.waiting))
    for each in files.set_aside:
        yield _SET_ASIDE.format(folder=each.folder, names=named(each.files))


def _status_lines(place: str, found: FoundServer, here: Machine, role: str) -> Iterator[str]:
    yield f"Database: {place}."
    leader = found.leader
    name = "" if leader is None else _name_of(leader, here)
    if not found.is_ours:
        yield "It holds no data of a bot."
    elif found.closed:
        yield "It is closed: the data moved back into a file on one of the machines, or a move "
        yield "was cut off. `ollim-bot standby leave` ends it here."
    elif leader is None:
        yield "No machine has led yet. Start the bot on one."
    elif leader.is_leading:
        yield f"{name} has led for {in_words(leader.since)}."
    else:
        yield f"No machine leads. {name} led last, until {in_words(leader.renewed)} ago."
    if found.is_replica:
        yield from _COPY
    yield _ROLES[role]
    if leader is not None:
        yield f"Last renewal {in_words(leader.renewed)} ago, take-over number {leader.epoch}."
        yield f"Version of ollim-bot there {leader.version}, schema {found.schema}."


_COPY = (
    "Only a copy of the database answers. It cannot be written, so no machine leads.",
    "If the other server is gone and stays away, run on the machine of the copy:",
    "    psql --command='SELECT pg_promote()' DATABASE",
    "A copy may lack the last seconds. What was just being sent is looked up before it is sent.",
)
_ROLES = {
    "leads": "This machine leads.",
    "stands by": "This machine stands by.",
    "stopped": "The bot does not run on this machine.",
}


def _role(here: Machine) -> str:
    """What the bot on this machine does."""
    from ollim_bot_standby.bot_rows import rows_beside_bot

    if running_pid(here.paths.bot_pid) is None:
        return "stopped"
    by_bot = rows_beside_bot(here.paths.commands, here.now)
    return "leads" if by_bot is not None and by_bot.leads else "stands by"


def _name_of(leader: Leader, here: Machine) -> str:
    """The name of the leader's machine, told from this one also if both have the same name."""
    if leader.is_on(here.id):
        return f"{leader.name} (this machine)"
    return f"{leader.name} (another machine)" if leader.name == here.name else leader.name


def _as_json(place: str, found: FoundServer, here: Machine, role: str) -> dict[str, object]:
    # None has led yet if it has no epoch.
    leader = found.leader or Leader("", 0, 0.0, found.schema)
    return {
        "database": place,
        "role": role,
        "leader": leader.name if leader.is_leading else None,
        "last_leader": leader.name if leader.epoch else None,
        "led_here_last": leader.is_on(here.id),
        "leads_for": round(leader.since) if leader.is_leading else None,
        "renewed_ago": round(leader.renewed, 1) if leader.epoch else None,
        "epoch": leader.epoch,
        "schema": found.schema,
        "version": leader.version,
        "is_closed": bool(found.closed),
        "is_copy": found.is_replica,
    }


@_STANDBY.verb("have another machine lead, within seconds", "", name="hand-over")
def _hand_over(_: Given, caller: Caller) -> None:
    from ollim_bot_standby.moving import hand_over

    done = hand_over(_set_up(caller)[1])
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
def leave(given: Given, caller: Caller, console: Console | None = None) -> None:
    """Raises `OllimError` if the address is still used here."""
    console = console or _console()
    settings, url = _set_up(caller)
    _refuse_address_in_environment(caller)
    from ollim_bot_standby.moving import is_left, leave_as_standby, look

    here = _stopped_machine(caller, settings)
    found = look(url)
    leader = found.leader
    if leader is not None and found.is_ours and not found.closed:
        if leader.is_on(here.id):
            _move_back(given, here, url, leader, console)
            return
        if not leader.is_leading:
            console.say(plain(_AWAY.format(name=_name_of(leader, here))))
        if not _agrees(given, console, "Take the address out on this machine?"):
            console.say(_NOT_MOVED)
            return
    leave_as_standby(here)
    show(_LEFT_AT_LAST if is_left(here, found) else _LEFT)


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
_STAY = (
    "Your conversation is still in {place}. Remove it there when you are sure: "
    "`dropdb` with the name of the database."
)
_OTHERS = "On each other machine run `ollim-bot standby leave`."


def _move_back(given: Given, here: Machine, url: Secret, leader: Leader, console: Console) -> None:
    from ollim_bot_standby.moving import move_back, place_of

    if leader.is_leading:
        raise OllimError(_STILL_LEADS.format(name=leader.name))
    console.say(_BACK)
    if not _agrees(given, console, "Move the data back?"):
        console.say(_NOT_MOVED)
        return
    rows = counted(sum(move_back(here, url).values()), "row")
    show(f"Moved {rows} back. From the next start on, your bot uses a file on this machine.")
    show(plain(_STAY.format(place=place_of(url))))
    show(_OTHERS)


@contextmanager
def rows_in_file(caller: Caller, say: Callable[[str], None]) -> Iterator[None]:
    """Have all rows in a file here while entered, and nowhere else. Raises `OllimError`."""
    _refuse_address_in_environment(caller)
    settings, url = _set_up(caller)
    from ollim_bot_standby import moving

    here = Machine(settings.paths, caller.environ, caller.now, say)
    with moving.rows_in_file(here, url, key_names(settings)):
        yield


def _set_up(caller: Caller) -> tuple[Settings, Secret]:
    settings = caller.settings()
    if settings.database_url is None:
        raise OllimError(_NO_ADDRESS)
    _require_psycopg()
    return settings, settings.database_url


def _stopped_machine(caller: Caller, settings: Settings) -> Machine:
    """This machine. Raises `AlreadyRunning` if its bot runs."""
    here = _machine(caller, settings)
    if pid := running_pid(here.paths.bot_pid):
        raise AlreadyRunning(pid)
    return here


def _machine(caller: Caller, settings: Settings) -> Machine:
    def now() -> datetime:
        return caller.now().astimezone(settings.zone)

    return Machine(settings.paths, caller.environ, now, lambda line: show(plain(line)))


def _given_address(given: Given, caller: Caller, console: Console, known: str = "") -> Secret:
    """The address of the file, else the known one, else the answer to the hidden question.

    Raises `WrongInput`, without its words.
    """
    from ollim_bot.kernel.base.settings import Secret

    if "file" in given:
        name = str(given["file"])
        text = _read_address(name, caller)
    elif known:
        text, name = known, "The address in the file of keys"
    elif sys.stdin.isatty():
        text, name = console.ask_secret(_ASK_ADDRESS).strip(), "The address"
    else:
        raise WrongInput(_NO_TERMINAL)
    if problem := problem_with_address(text):
        raise WrongInput(plain(f"{name}: {problem}" if "file" in given else f"It {problem}"))
    return Secret(text)


def _read_address(typed: str, caller: Caller) -> str:
    from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
    from ollim_bot.surfaces.terminal.terminal_data import note

    path = caller.path(typed)
    try:
        text = read_file(path, SizeLimit.SETTINGS).decode("utf-8", "replace").strip()
        if path.stat().st_mode & 0o077:
            note(f"others on this machine can read {typed}. Close it: chmod 600 {typed}")
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


def _refuse_address_in_environment(caller: Caller) -> None:
    """Raises `OllimError` if the address is not in `.env` alone, where commands can change it."""
    if caller.environ.get("DATABASE_URL", "").strip():
        raise OllimError(_STRONGER)


def _require_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise OllimError(_NEEDS_PSYCOPG)


def _console() -> Console:
    from ollim_bot.surfaces.terminal.interview import TerminalConsole

    return TerminalConsole()

"""`ollim-bot service`: lets the machine start the bot, and start it again when it dies."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
)
from ollim_bot.surfaces.terminal.printing import agrees, show, width_of, wrapped
from ollim_bot.surfaces.terminal.terminal_data import note

if TYPE_CHECKING:
    from ollim_bot.features.install.service import ServiceDefinition, ServiceHealth, Supervisor
    from ollim_bot.kernel.base.settings import Settings

_USUAL_LINES, _MOST_LINES = 50, 100_000
_NOT_INSTALLED = "No service is installed. `ollim-bot service install` makes one."
_UNSEEN = "The service would not see these settings, which hold only for this call: {names}."
_MOVE_THEM = "Put them into {file}, one NAME=value in a line, or call this without them."
_OUTSIDE = "The bot runs already (process {pid}), outside the service."
_STOP_IT = "Stop it (Ctrl-C in its terminal, or `kill {pid}`) and do this again, or say --yes."
_EDITED = "{file} was changed by hand. It is kept as {kept}; the new one has none of it."
_INSTALLED = (
    "The bot is running, as process {pid}. It starts with this machine, and again if it dies. "
    "`ollim-bot service logs` shows what it says."
)
_ALREADY = "The service is installed as it should be, and the bot lives, as process {pid}."
_REMOVED = "The service is removed. The bot is stopped; its data stays in {root}."
_FOREIGN = "{file} was not made by `ollim-bot service install`, so it is left alone."

_SERVICE = Noun("service")
run = _SERVICE.run


def install_service(caller: Caller, *, is_agreed: bool) -> None:
    """Install, after a question to the person unless that `is_agreed` or there is no terminal.

    Raises `OllimError` if the bot does not live as a service; everything is put back then.
    """
    from ollim_bot.features.install import service
    from ollim_bot.kernel.upkeep.hand_over import MaintenanceRunning, maintenance_in_progress

    if caller.environ.get("SUDO_USER") and os.geteuid() == 0:
        raise WrongInput("The service is your own, not the machine's: run this without sudo.")
    settings, supervisor = caller.settings(), _supervisor(caller)
    if (running := maintenance_in_progress(settings.paths)) is not None:
        raise MaintenanceRunning(running)
    status = supervisor.status()
    asks = sys.stdin.isatty() and not is_agreed
    definition = _definition(settings, caller, asks=asks)
    health = service.service_health(supervisor, settings.paths, caller.now())
    files = supervisor.files(definition)
    if health.is_alive and all(service.text_of(path) == text for path, text in files.items()):
        _finish(supervisor, supervisor.outlive_logout(), _ALREADY)
        return
    show(f"These files let {supervisor.name} run the bot:\n")
    for path, text in files.items():
        lines = (f"  {line}".rstrip() for line in plain(text).splitlines())
        print(f"{caller.shown(path)}:", *lines, "", sep="\n", flush=True)
    former = health.installed.definition if health.installed else None
    if former is not None and former.data_dir != definition.data_dir:
        there, here = caller.shown(former.data_dir), caller.shown(definition.data_dir)
        note(
            f"The service runs the bot of {there}; this installation replaces it by that of {here}."
        )
    if asks and not _agrees("Write this and start the bot?"):
        raise OllimError("Nothing was changed.")
    outside = service.bot_outside(settings.paths, status)
    if outside is not None and not is_agreed:
        told = _OUTSIDE.format(pid=outside)
        if not asks:
            raise OllimError(f"{told} {_STOP_IT.format(pid=outside)}")
        if not _agrees(f"{told} Stop it, and let the service take over?"):
            raise OllimError("Nothing was changed.")
    _check_and_start(supervisor, definition, caller)


def _definition(settings: Settings, caller: Caller, *, asks: bool) -> ServiceDefinition:
    """What the service is to run; settings that it would not see are moved, or refused."""
    from ollim_bot.features.install.service import (
        installed_command,
        service_definition,
        unseen_settings,
    )
    from ollim_bot.kernel.store.data_directory import prepare_data_directory
    from ollim_bot.kernel.upkeep.env_file import change_env_file

    command = installed_command(sys.argv[0], sys.executable, os.getcwd())
    definition = service_definition(command, settings.paths, caller.environ)
    if unseen := unseen_settings(definition, caller.environ, caller.path("")):
        file = caller.shown(settings.paths.env_file)
        names = ", ".join(f"{name} ({where})" for name, (_, where) in unseen.items())
        told = _UNSEEN.format(names=names)
        if not asks:
            raise WrongInput(f"{told} {_MOVE_THEM.format(file=file)}")
        if not _agrees(f"{told} Write them into {file}?"):
            raise WrongInput("Nothing was changed.")
        prepare_data_directory(settings.paths)
        change_env_file(settings.paths, {name: value for name, (value, _) in unseen.items()})
        show(f"Written into {file}.")
    return definition


def _agrees(question: str) -> bool:
    return agrees(wrapped(question, width_of(sys.stdout)))


def _check_and_start(supervisor: Supervisor, definition: ServiceDefinition, caller: Caller) -> None:
    """Start, unless something works here that would not in the environment of the service."""
    from ollim_bot.features.install.service import PROOF_SECONDS, install_with_proof, worse_inside
    from ollim_bot.kernel.base.paths import DataPaths
    from ollim_bot.kernel.store.data_directory import prepare_data_directory

    prepare_data_directory(DataPaths(definition.data_dir))
    show("Asking the doctor in the environment of the service …")
    if failures := worse_inside(definition, caller.environ, caller.path("")):
        told = [f"{failure.name}: {failure.detail}. {failure.next}" for failure in failures]
        raise OllimError("\n".join(["In the service this would be worse than here:", *told]))
    show(f"Starting, and waiting up to {PROOF_SECONDS:g} s for its heartbeat …")
    try:
        kept, left_to_do = install_with_proof(supervisor, definition)
    except KeyboardInterrupt:
        note("Everything is put back.")
        raise
    for path in kept:
        file = path.with_name(path.name.rpartition(".bak")[0])
        note(_EDITED.format(file=caller.shown(file), kept=path.name))
    _finish(supervisor, left_to_do, _INSTALLED)


def _finish(supervisor: Supervisor, left_to_do: str, sentence: str) -> None:
    show(sentence.format(pid=supervisor.status().pid))
    if left_to_do:
        note(f"The bot still ends when you log out. Run this once: {left_to_do}")
    elif supervisor.name == "launchd":
        show("On a Mac it runs while you are logged in.")


def _supervisor(caller: Caller) -> Supervisor:
    from ollim_bot.features.install.service import find_supervisor

    supervisor = find_supervisor(caller.environ)
    if supervisor is None:
        raise OllimError(
            "This machine has neither systemd nor launchd. Let what starts programs here start "
            "`ollim-bot`, and start it again when it fails."
        )
    return supervisor


@_SERVICE.verb(
    "let the machine start the bot now, at each start, and again when it dies",
    "--yes",
    argument(
        "--yes",
        action="store_true",
        help="ask nothing; a bot that runs outside the service is stopped",
    ),
)
def _install(given: Given, caller: Caller) -> None:
    install_service(caller, is_agreed="yes" in given)


@_SERVICE.verb("take the service away again; the bot's data stays", "")
def _uninstall(_: Given, caller: Caller) -> None:
    supervisor = _supervisor(caller)
    installed = supervisor.installed()
    if installed is not None and not installed.is_ours:
        raise OllimError(_FOREIGN.format(file=caller.shown(installed.file)))
    lingers = supervisor.status().lingers if installed else None
    kept = supervisor.uninstall()
    if installed is None:
        show("No service is installed.")
        return
    for path in kept:
        note(f"{caller.shown(path)} was changed by hand, and is kept under this name.")
    there = installed.definition.data_dir if installed.definition else caller.place().paths.root
    show(_REMOVED.format(root=caller.shown(there)))
    if lingers:
        show(
            "Your services may still run while you are logged out, as others may need it. If not: "
            "loginctl disable-linger"
        )


@_SERVICE.verb(
    "whether the bot is running: what the machine says, and its heartbeat", "--json", JSON
)
def _status(given: Given, caller: Caller) -> None:
    from ollim_bot.features.install.service import service_health

    supervisor = _supervisor(caller)
    health = service_health(supervisor, caller.place().paths, caller.now())
    if "json" in given:
        print_json(_object(supervisor, health))
    elif health.installed is not None:
        show(columns(_rows(supervisor, health, caller)))
        if health.is_alive:
            show("The bot is running.")
    if not health.is_alive:
        raise OllimError("" if "json" in given else _why_dead(health))


def _object(supervisor: Supervisor, health: ServiceHealth) -> dict[str, object]:
    status, installed = health.status, health.installed
    definition = installed.definition if installed else None
    return {
        "alive": health.is_alive,
        "supervisor": supervisor.name,
        "installed": installed is not None,
        "file": installed.file if installed else None,
        "changed_by_hand": installed.is_edited if installed else False,
        "program": definition.program if definition else None,
        "data_directory": definition.data_dir if definition else None,
        "state": status.words if installed else None,
        "running": status.is_running,
        "enabled": status.is_enabled,
        "survives_logout": status.lingers,
        "service_process": status.pid,
        "bot_process": health.pid,
        "heartbeat": health.heartbeat,
        "heartbeat_age": None if health.age is None else round(health.age.total_seconds(), 1),
    }


def _rows(supervisor: Supervisor, health: ServiceHealth, caller: Caller) -> list[tuple[str, str]]:
    from ollim_bot.kernel.base.moments import describe_with_distance

    status, installed = health.status, health.installed
    assert installed is not None
    now, beat = caller.now().astimezone(caller.place().zone), health.heartbeat
    told = [status.words, *([f"process {status.pid}"] if status.pid is not None else [])]
    told.append("starts with the machine" if status.is_enabled else "does not start by itself")
    if status.lingers is not None:
        told.append("stays after log-out" if status.lingers else "ends at log-out")
    by_hand = ", changed by hand" if installed.is_edited else ""
    rows = [
        (supervisor.name, ", ".join(told)),
        ("heartbeat", describe_with_distance(beat, now) if beat else "none yet"),
        ("file", f"{caller.shown(installed.file)}{by_hand}"),
    ]
    if installed.definition is not None:
        rows.append(("program", caller.shown(installed.definition.program)))
        rows.append(("data", caller.shown(installed.definition.data_dir)))
    return [(name, plain(text)) for name, text in rows]


def _why_dead(health: ServiceHealth) -> str:
    outside = f"{_OUTSIDE.format(pid=health.pid)} " * health.runs_outside
    if health.installed is None:
        return f"{outside}{_NOT_INSTALLED}"
    if outside:
        return f"{outside}Stop it, and the service can start."
    if not health.status.is_running:
        return (
            "The bot does not run. `ollim-bot service logs` says why, and "
            "`ollim-bot service install` starts it."
        )
    return (
        "The bot runs, but its heartbeat does not come. `ollim-bot service logs` may say why; "
        "`/restart` lets it begin anew."
    )


@_SERVICE.verb(
    "the last lines of the bot's log",
    "-f -n 100",
    argument("-n", "--lines", metavar="N", help=f"how many ({_USUAL_LINES})"),
    argument("-f", "--follow", action="store_true", help="and what is still to come"),
)
def _logs(given: Given, caller: Caller) -> None:
    supervisor = _supervisor(caller)
    if supervisor.installed() is None:
        raise OllimError(_NOT_INSTALLED)
    text = str(given.get("lines", _USUAL_LINES))
    if not text.isdecimal() or not 0 < int(text) <= _MOST_LINES:
        wrong = f"--lines: {text!r} is not right. It takes a number from 1 on, such as 50."
        raise WrongInput(wrong)
    supervisor.logs(int(text), follow="follow" in given)

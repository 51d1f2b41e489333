"""`ollim-bot setup`: the first questions, one at a time, or all answers by flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ollim_bot.cli.auth import ClaudeLogin, Login
from ollim_bot.cli.caller import Caller
from ollim_bot.cli.completions import Completion, time_zones
from ollim_bot.cli.data import note
from ollim_bot.cli.doctor import print_short_report
from ollim_bot.cli.framework import Given, Syntax, argument
from ollim_bot.cli.setup_changes import CheckedAnswers, GivenAnswers, Installation, check_answers
from ollim_bot.cli.setup_questions import (
    STEPS,
    TAKEN,
    Console,
    Interview,
    MachineStart,
    Step,
    TerminalConsole,
    introduced,
)
from ollim_bot.cli.unknown_words import no_such
from ollim_bot.domain.calendar import added_words
from ollim_bot.domain.text import counted
from ollim_bot.errors import BadSettings, OllimError, WrongInput

if TYPE_CHECKING:
    from ollim_bot.upkeep.service import Supervisor

_COMMAND = "ollim-bot setup"
_KEYS = "Enter keeps what is there, Ctrl-C stops. Each answer is kept as soon as you give it."
_FILES = (
    "It writes {env}, which only you can read. A calendar goes into state/calendars, "
    "a routine into routines."
)
_NO_TERMINAL = (
    "Set-up asks questions, and this is no terminal. `ollim-bot setup --non-interactive` takes the "
    "answers as flags: `ollim-bot setup --help` names them."
)
_PLAIN_SECRET = (
    "{flag}: a secret on the command line can be seen by others and stays in its history. "
    "Give `{flag} -` and the secret on standard input."
)
_NO_SERVICE = "--service: this machine has neither systemd nor launchd for your account."
_LIMIT = (
    "Daily limit: when jobs have cost {limit} US dollars today, they stop using the model until "
    "tomorrow. `ollim-bot config set daily_cost_cap 10` changes it."
)
_START = "Start the bot now: `ollim-bot`."
_START_DISCORD = "Start the bot now, and it writes to you on Discord: `ollim-bot`."
_MEND = "Follow the line below each FAIL, then run `ollim-bot doctor` again."
_RESTART = (
    "The bot is running. Calendars and routines count at once; for the rest, write `/restart` in "
    "the chat."
)
_RUNS = "The bot is running, and nothing needs a restart. `ollim-bot web url` opens its page."
_SECRETS = {"api_key": "--api-key", "discord_token": "--discord-token"}


class SetUpEnvironment(NamedTuple):
    """What set-up talks to. `service` is None on a machine that cannot start the bot by itself.

    `report` prints what the doctor finds, and returns whether a check has failed. `piped` has the
    secrets where there is no terminal.
    """

    console: Console
    login: Login
    service: MachineStart | None
    report: Callable[[Caller], bool]
    is_terminal: bool
    piped: TextIO


def _step_words(*_: object) -> Iterator[Completion]:
    return (Completion(step.word, step.title) for step in STEPS)


_SYNTAX = Syntax(
    _COMMAND,
    "set the bot up by a few questions, or by flags",
    f"{_COMMAND} --non-interactive --user-name Ada --discord-token - <token.txt",
    (
        argument(
            "steps",
            metavar="STEP",
            nargs="*",
            help=f"ask only this: {', '.join(step.word for step in STEPS)}",
            completions=_step_words,
        ),
        argument("--non-interactive", action="store_true", help="ask nothing, take the flags only"),
        argument("--user-name", metavar="NAME", help="your name"),
        argument("--bot-name", metavar="NAME", help="the bot's name"),
        argument(
            "--timezone",
            metavar="ZONE",
            help="yours, such as Europe/Berlin",
            completions=time_zones,
        ),
        argument(
            "--api-key",
            metavar="-",
            help="for Claude; - reads it from standard input, one line for each secret",
        ),
        argument("--discord-token", metavar="-", help="the same for Discord, the next line"),
        argument(
            "--calendar", metavar="URL", help="the secret address of a calendar; - reads it, too"
        ),
        argument(
            "--service",
            "--no-service",
            action="either",
            help="start with the machine, or do not ask",
        ),
    ),
)


def run(words: Sequence[str], caller: Caller) -> None:
    console, is_terminal = TerminalConsole(), sys.stdin.isatty()
    service = _machine_start(caller)
    to = SetUpEnvironment(
        console, ClaudeLogin(), service, print_short_report, is_terminal, sys.stdin
    )
    set_up(words, caller, to)


class ServiceStart:
    """Installs the service, as `ollim-bot service install --yes` does."""

    def __init__(self, caller: Caller, supervisor: Supervisor) -> None:
        self._caller = caller
        self._supervisor = supervisor

    def is_installed(self) -> bool:
        return self._supervisor.installed() is not None

    def install(self) -> None:
        from ollim_bot.cli.service import install_service

        install_service(self._caller, is_agreed=True)


def _machine_start(caller: Caller) -> MachineStart | None:
    from ollim_bot.upkeep.service import find_supervisor

    supervisor = find_supervisor(caller.environ)
    return None if supervisor is None else ServiceStart(caller, supervisor)


def set_up(words: Sequence[str], caller: Caller, to: SetUpEnvironment) -> None:
    """Answer by flags, ask the rest, and end with the doctor. Raises `OllimError` if it fails."""
    given = _SYNTAX.read(words)
    wanted = _wanted_steps(given)
    is_silent = "non_interactive" in given
    if not is_silent and not to.is_terminal:
        raise WrongInput(_NO_TERMINAL)
    of = Installation(caller)
    checked = check_answers(_given_answers(given, to), of, _service_problems(given, to))
    at = Interview(to.console, of, to.login, to.service)
    steps = [] if is_silent else _steps(wanted, given, at)
    for line in _beforehand(checked, steps, of):
        to.console.say(line)
    _apply(checked, of, to.console)
    _ask_all(steps, at, to.console)
    if given.get("service") and to.service is not None:
        to.service.install()
        of.needs_restart = False
    _finish(of, to)


def _wanted_steps(given: Given) -> Sequence[Step]:
    """The steps that the words name; none if they name none."""
    known = {step.word: step for step in STEPS}
    for word in given.get("steps", ()):
        if word not in known:
            sentence = f"`{_COMMAND}` has no step `{word}`."
            raise no_such(sentence, word, known, f"{_COMMAND} --help")
    return [known[word] for word in given.get("steps", ())]


def _given_answers(given: Given, to: SetUpEnvironment) -> GivenAnswers:
    """The answers of the flags. Secrets are read from standard input, in the order of the flags."""
    problems = [
        _PLAIN_SECRET.format(flag=flag)
        for name, flag in _SECRETS.items()
        if given.get(name, "-") != "-"
    ]
    if problems:
        raise BadSettings(problems)
    answers = {name: given.get(name) for name in GivenAnswers._fields}
    for name, flag in {**_SECRETS, "calendar": "--calendar"}.items():
        if answers[name] == "-":
            asked = to.console.ask_secret(f"{flag}: ") if to.is_terminal else to.piped.readline()
            answers[name] = asked
    return GivenAnswers(**answers)


def _service_problems(given: Given, to: SetUpEnvironment) -> Sequence[str]:
    return [_NO_SERVICE] if given.get("service") and to.service is None else []


def _steps(wanted: Sequence[Step], given: Given, at: Interview) -> Sequence[Step]:
    """The steps to ask: those that are named, or all that no flag answers and that are open."""
    if wanted:
        return wanted
    open_steps = [step for step in STEPS if not given.keys() & set(step.flags)]
    return [step for step in open_steps if step.is_worth_asking(at)]


def _beforehand(checked: CheckedAnswers, steps: Sequence[Step], of: Installation) -> Iterator[str]:
    """What set-up is going to do and to write."""
    if steps:
        yield f"Set-up: {counted(len(steps), 'short question')}. {_KEYS}"
    if steps or checked.changes or checked.calendar:
        yield _FILES.format(env=of.caller.shown(of.paths.env_file))
    yield from of.problems


def _apply(checked: CheckedAnswers, of: Installation, console: Console) -> None:
    of.write(checked.changes)
    if checked.calendar is not None:
        of.add_calendar(checked.calendar)
        console.say(added_words(checked.calendar.copy, of.now))
    for line in () if checked.bot is None else introduced(checked.bot):
        console.say(line)
    for sentence in checked.notes:
        note(sentence)
    for name in checked.changes:
        if name in of.written and (place := of.stronger_place(name)):
            note(TAKEN.format(name=name, place=place))


def _ask_all(steps: Sequence[Step], at: Interview, console: Console) -> None:
    for number, step in enumerate(steps, 1):
        at.begin(f"{number}/{len(steps)}")
        try:
            step.ask(at)
        except (KeyboardInterrupt, EOFError):
            console.say("")
            stopped = f"Stopped at {step.title}. What you answered before is kept:"
            console.say(f"{stopped} `ollim-bot setup` goes on.")
            raise KeyboardInterrupt from None
        except WrongInput as wrong:
            at.say(str(wrong))


def _finish(of: Installation, to: SetUpEnvironment) -> None:
    """Print what the doctor finds, and what to do next. Raises `OllimError` for a failure."""
    to.console.say("")
    if to.report(of.caller):
        to.console.say(_MEND)
        raise OllimError("")  # all is said; only the exit code is left
    if limit := of.daily_limit():
        to.console.say(_LIMIT.format(limit=limit))
    if of.is_running:
        to.console.say(_RESTART if of.needs_restart else _RUNS)
    else:
        to.console.say(_START if of.settings.discord_token is None else _START_DISCORD)

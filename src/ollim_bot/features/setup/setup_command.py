"""The questions of set-up, one at a time. Each answer is on disk before the next is asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from ollim_bot.features.doctor.doctor_command import print_short_report
from ollim_bot.features.setup.auth_command import ClaudeLogin, Login
from ollim_bot.kernel.base.errors import (
    BadPhrase,
    BadSettings,
    CalendarFailed,
    EngineError,
    OllimError,
    StorageError,
    WrongInput,
)
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import clock_time, near_zone
from ollim_bot.kernel.base.settings import Secret, problem_with
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.upkeep.env_file import EnvChanges
from ollim_bot.kernel.upkeep.findings import DoctorFinding
from ollim_bot.kernel.values.calendar import added_words
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion, time_zones
from ollim_bot.surfaces.terminal.framework import Given, Syntax, argument
from ollim_bot.surfaces.terminal.interview import (
    TAKEN,
    Console,
    Installation,
    Interview,
    TerminalConsole,
)
from ollim_bot.surfaces.terminal.main import COMMANDS
from ollim_bot.surfaces.terminal.printing import no_such
from ollim_bot.surfaces.terminal.terminal_data import note

if TYPE_CHECKING:
    from ollim_bot.features.calendars.feeds import CalendarFeeds, NewCalendar
    from ollim_bot.features.install.service import Supervisor
    from ollim_bot.kernel.values.provider import LoginStatus, Provider
    from ollim_bot.surfaces.discord.account import DiscordBot

_ADDRESS = "Its address, such as localhost:11434 (Enter: not now)"
_MODELS = """\
1  Claude, with your account; opens your browser
2  Claude, with an API key
3  a model server of your own, such as Ollama
4  the built-in offline model: a few fixed phrases"""
_NOT_A_MODEL = "That is not one of the four. Give its number, or Enter to keep what is there."
_NOT_A_MEMBER = "That is not one of them. Give the number, or Enter for none."
_NO_TOKEN = (
    "Discord: the bot can write to you there, as an application of your own. docs/discord.md shows "
    "how to make one at https://discord.com/developers/applications."
)
_INVITE = "https://discord.com/oauth2/authorize?client_id={id}&scope=bot+applications.commands"
_PROFILE = "https://discord.com/users/{id}"
_CALENDAR = (
    "Calendar: the bot reads yours at its secret address. docs/calendars.md shows where to find "
    "it. For Google's calendar, tasks and mail there is `ollim-bot google login`."
)
_ROUTINE = "A first routine: every morning the bot tells you what is on."
_NO_TIME = "That is not a time of day. Write 8:30 or 7am, or press Enter for none."
_FORGOTTEN = "What do you forget most? For example: take my pills."
_NO_MOMENT = "I do not understand that. Write `every day at 8am` or `tomorrow 9am`."
_QUIET = (
    "Quiet hours: only reminders you asked for and urgent messages come; everything else waits "
    "until they end."
)
_NO_HOURS = "Those are not two times. Write 22-7 or 22:00-07:00, or press Enter for none."
_NOTIFIED_BY_DISCORD = "Reminders reach you through Discord, on your phone and your computer."
_NOTIFIED_BY_PHONE = "Reminders reach you on your phone."
_NOTIFIED_BY_PAGE = (
    "Reminders reach you on the page: its bell turns notifications on. For your phone there is "
    "`ollim-bot push setup`."
)
_NAG = "10m x 4"
_COMES_AGAIN = "A reminder that you do not answer can come again, every 10 minutes, 4 times."
_AGAIN = "Should it come again?"
_SILENT = "Nothing answers at {address} ({reason}). Start the server, or look at the address."
_MORNING = (
    "Tell me in a few lines what is on today, from my calendar, tasks and reminders, and one small "
    "thing to begin with."
)
# The built-in model says the words, and does no more.
_MORNING_OFFLINE = "remind me to look at /today and choose one thing to begin with"


class MachineStart(Protocol):
    """Has the bot start with the machine."""

    def is_installed(self) -> bool: ...

    def install(self) -> None:
        """Raises `OllimError` if it does not work; all is as before then."""


class SetUp(Interview):
    """`service` is None on a machine that cannot start the bot by itself."""

    def __init__(self, of: Installation, to: SetUpEnvironment) -> None:
        super().__init__(to.console, of)
        self.login = to.login
        self.service = to.service

    def model_in_use(self) -> tuple[Provider, LoginStatus | None]:
        """The model that answers after the next start, and the login if that was asked for."""
        from ollim_bot.kernel.upkeep.looks import provider_after_start

        return provider_after_start(self.of.settings, self.of.caller.environ, self.login.status)

    def has_jobs(self, *kinds: JobKind) -> bool:
        return any(any(self.of.paths.jobs(kind).glob("*.md")) for kind in kinds)


def _look_up_discord(of: Installation, token: str) -> DiscordBot | DoctorFinding:
    from ollim_bot.kernel.base.http_exchange import ask
    from ollim_bot.surfaces.discord.account import look_up_bot

    return look_up_bot(Secret(token), of.settings.discord_api_url, ask)


def _why_silent(server: str) -> str:
    """Why no model server answers at the address; empty if one does."""
    from ollim_bot.kernel.base.http_exchange import ask

    try:
        ask(f"{server if '://' in server else f'http://{server}'}/v1/models", {})
    except (OSError, ValueError) as silent:
        return (getattr(silent, "strerror", None) or str(silent)).rstrip(".")
    return ""


def _calendar_files(of: Installation) -> CalendarFiles:
    return CalendarFiles(of.paths, report=lambda problem: note(str(problem)))


def _feeds(of: Installation) -> CalendarFeeds:
    from ollim_bot.features.calendars.feeds import CalendarFeeds

    return CalendarFeeds(of.paths, _calendar_files(of))


def _read_calendar(of: Installation, address: str) -> NewCalendar:
    """Raises `WrongInput` for a wrong address, `CalendarFailed` if it cannot be read."""
    if "://" not in address:
        raise WrongInput("That is not a web address. Right: https://… from your calendar.")
    return _feeds(of).read_new(address, None, of.now)


def _add_calendar(of: Installation, new: NewCalendar) -> None:
    with of.writable():
        _feeds(of).add(new)


def _run(at: SetUp, noun: str, *words: str) -> None:
    """Do what the command does."""
    import_module(COMMANDS[noun][1]).run(words, at.of.caller)


def _ask_setting(at: SetUp, name: str, question: str, present: str) -> None:
    if at.is_taken(name):
        return
    answer = at.ask_right(question, lambda text: problem_with(name, text), present)
    if answer != present or at.of.is_wrong(name):
        at.of.write({name: answer})


def _ask_time_zone(at: SetUp) -> None:
    name = "OLLIM_TIMEZONE"
    if at.is_taken(name):
        return
    present = default = at.of.zone.key
    at.say(f"It is {clock_time(at.of.now.replace(second=0, microsecond=0))} in {present}.")
    while (answer := at.ask("Your time zone", default)) != present or at.of.is_wrong(name):
        problem = problem_with(name, answer)
        if not problem:
            at.of.write({name: answer})
            return
        at.say(problem)
        default = near_zone(answer) or present


def _ask_model(at: SetUp) -> None:
    if at.is_taken(*(name for name in MODEL_SETTINGS if name != "ANTHROPIC_MODEL")):
        return
    try:
        provider, login = at.model_in_use()
        name = "the built-in offline model" if provider.is_offline else provider.name
        answers = f"Now it is {name}."
        if login is not None and not provider.is_offline:
            answers = login.sentence
        answers = provider.problem or answers
    except EngineError as unknown:
        answers = str(unknown)
    at.say(f"Who answers? {answers}")
    at.say(_MODELS)
    ways: Mapping[str, Callable[[SetUp], None]] = {
        "1": _sign_in,
        "2": _ask_key,
        "3": _ask_server,
        "4": lambda at: at.of.write({"OLLIM_MODEL": "offline"}),
    }
    problem = dict.fromkeys(ways, "")
    answer = at.ask_right("1 to 4 (Enter: keep it)", lambda text: problem.get(text, _NOT_A_MODEL))
    if answer:
        ways[answer](at)


def _sign_in(at: SetUp) -> None:
    environ = at.of.caller.environ
    try:
        at.login.log_in(environ)
    except OllimError as refused:
        at.say(f"{refused} `ollim-bot auth login` tries it again.")
        return
    at.of.needs_restart = True
    _write_model(at, {})
    at.say(at.login.status(environ).sentence)


def _ask_key(at: SetUp) -> None:
    name = "ANTHROPIC_API_KEY"
    if key := at.ask_secret("API key", lambda text: problem_with(name, text)):
        _write_model(at, {name: key})


def _ask_server(at: SetUp) -> None:
    base, token, model = "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL"
    while address := at.ask_right(_ADDRESS, lambda text: problem_with(base, text)):
        reason = _why_silent(address)
        if not reason:
            break
        at.say(_SILENT.format(address=address, reason=reason))
        if at.agrees("Keep this address all the same?"):
            break
    if not address:
        return
    key = at.ask_secret("Its key, if it wants one", lambda text: problem_with(token, text))
    named = at.ask_right("Its model, such as qwen3", lambda text: problem_with(model, text))
    # With no key at all, the program of Claude would send the login there.
    _write_model(at, {base: address, token: key or "none", model: named})


def _write_model(at: SetUp, changes: dict[str, str]) -> None:
    """Write the changes, and take out what would count before them."""
    others = [name for name in MODEL_SETTINGS if name not in changes and at.of.is_set(name)]
    if others:
        at.say(f"This takes {' and '.join(others)} out of `.env`.")
    if changes or others:
        at.of.write({**changes, **dict.fromkeys(others)})


def _ask_discord(at: SetUp) -> None:
    if at.is_taken("DISCORD_TOKEN"):
        return
    present = at.of.settings.discord_token
    if present is None:
        at.say(_NO_TOKEN)
    else:
        state = "the token was not checked, since its address is wrong."
        if not at.of.is_wrong("DISCORD_API_URL"):
            found = _look_up_discord(at.of, present.reveal())
            _, wrong, notes = judged_bot(found, at.of.settings.discord_owner_id)
            state = " ".join(wrong or notes or ("the token is right.",))
        at.say(f"Discord: {state}")
    question = "Token" if present is None else "Another token"
    while token := at.ask_secret(question, lambda text: problem_with("DISCORD_TOKEN", text)):
        if _takes_token(at, token):
            return


def _takes_token(at: SetUp, token: str) -> bool:
    """Check the token at Discord, and write it if it is right; say what is found."""
    changes = {"DISCORD_TOKEN": token}
    # Before the token is sent anywhere: the environment may name another address.
    if wrong := at.of.problems_after(changes):
        at.say("\n".join(wrong))
        return False
    found = _look_up_discord(at.of, token)
    owner_id = at.of.settings.discord_owner_id
    if not isinstance(found, DoctorFinding) and (member := _member(at, found, owner_id)):
        owner_id = int(member)
        changes["DISCORD_OWNER_ID"] = member
    bot, wrong, notes = judged_bot(found, owner_id)
    if wrong := wrong or at.of.problems_after(changes):
        at.say("\n".join(wrong))
        return False
    at.say("\n".join(notes))
    if bot is None and not at.agrees("The token could not be checked. Keep it all the same?"):
        return False
    at.of.write(changes)
    at.say("\n".join([] if bot is None else introduced(bot)))
    return True


def _member(at: SetUp, bot: DiscordBot, owner_id: int | None) -> str | None:
    """The id of the member of the team that the bot works for, if that is to be asked."""
    team = bot.team
    if team is None or str(owner_id) in dict(team) or at.is_taken("DISCORD_OWNER_ID"):
        return None
    at.say("The application belongs to a team. Which member are you?")
    at.say("\n".join(f"{number}  {name}" for number, (_, name) in enumerate(team, 1)))
    ids = {str(number): member for number, (member, _) in enumerate(team, 1)}
    right = dict.fromkeys(ids, "")
    answer = at.ask_right("Number", lambda text: right.get(text, _NOT_A_MEMBER))
    return ids.get(answer)


def introduced(bot: DiscordBot) -> Sequence[str]:
    """Who the bot is, and how to reach it."""
    content = "on" if bot.sees_message_content else "off"
    return (
        f"The token is right: it is {bot.name}'s.",
        f"The message content intent is {content}; direct messages do not need it.",
        f"Add it to a server of your own: {_INVITE.format(id=bot.application.get('id'))}",
        f"Then find it here: {_PROFILE.format(id=bot.user.get('id'))}",
    )


def _ask_phone(at: SetUp) -> None:
    from ollim_bot.features.phone.push_setup import ask_for_phone

    try:
        ask_for_phone(at)
    except StorageError:
        raise
    except OllimError as refused:
        at.say(f"{refused} `ollim-bot setup phone` tries it again.")


def _ask_calendar(at: SetUp) -> None:
    at.say(_CALENDAR)
    while address := at.ask_secret("Its address", lambda _: ""):
        try:
            new = _read_calendar(at.of, address)
        except (WrongInput, CalendarFailed) as refused:
            at.say(str(refused))
            continue
        _add_calendar(at.of, new)
        at.say(added_words(new.copy, at.of.now))
        return


def _ask_routine(at: SetUp) -> None:
    at.say(_ROUTINE)
    while when := _with_colon(at.ask("At what time? (Enter: not now)")):
        try:
            is_offline = at.model_in_use()[0].is_offline
        except EngineError:
            is_offline = True
        text = _MORNING_OFFLINE if is_offline else _MORNING
        try:
            named = ("--description", "Morning")
            _run(at, "routine", "add", text, "--every", f"day at {when}", *named)
        except BadPhrase:
            at.say(_NO_TIME)
        else:
            return


def _with_colon(time: str) -> str:
    """`7:30` for `7.30`, as many people write it."""
    return re.sub(r"\b([0-9]{1,2})[.h]([0-5][0-9])\b", r"\1:\2", time)


def _ask_forgotten(at: SetUp) -> None:
    at.say(_FORGOTTEN)
    text = at.ask("What is it? (Enter: nothing now)")
    while text and (when := _with_colon(at.ask("When? (Enter: not now)"))):
        rhythm, problem = re.sub(r"^(?:every|each) ", "", when, flags=re.IGNORECASE), ""
        for noun, words in (
            ("routine", ("--every", rhythm, "--plain", "--must")),
            ("reminder", ("--at", when)),
        ):
            try:
                _run(at, noun, "add", text, *words)
            except BadPhrase as refused:
                problem = str(refused) if noun == "routine" and refused.readings else problem
                continue
            return
        at.say(problem or _NO_MOMENT)


def _ask_quiet_hours(at: SetUp) -> None:
    at.say(_QUIET)
    while hours := at.ask("From when to when? Such as 22-7 (Enter: none)"):
        try:
            at.of.configure("quiet_hours", hours)
        except WrongInput:
            at.say(_NO_HOURS)
        else:
            at.say(f"Quiet from {at.of.config.in_words('quiet_hours').replace('-', ' to ')}.")
            return


def _ask_notifications(at: SetUp) -> None:
    if at.of.settings.discord_token is not None:
        at.say(_NOTIFIED_BY_DISCORD)
    else:
        at.say(_NOTIFIED_BY_PHONE if at.of.paths.push.exists() else _NOTIFIED_BY_PAGE)
    at.say(_COMES_AGAIN)
    if at.agrees(_AGAIN):
        at.of.configure("nag_default", _NAG)


def _ask_service(at: SetUp) -> None:
    if at.service is None:
        at.say("This machine has neither systemd nor launchd for your account.")
        return
    at.say("The bot can start with this machine, and again whenever it dies.")
    if at.of.is_running:
        at.say("This stops the bot that is running now.")
    if at.agrees("Set that up?"):
        try:
            at.service.install()
            at.of.needs_restart = False
        except OllimError as refused:
            at.say(str(refused))


class Step(NamedTuple):
    """`word` names it on the command line, `title` in a sentence. `flags` answer it.

    `is_worth_asking` unless it was settled before.
    """

    word: str
    title: str
    ask: Callable[[SetUp], None]
    flags: Sequence[str] = ()
    is_worth_asking: Callable[[SetUp], bool] = lambda _: True


STEPS = (
    Step(
        "name",
        "your name",
        lambda at: _ask_setting(at, "OLLIM_USER_NAME", "Your name", at.of.user_name),
        ("user_name",),
    ),
    Step(
        "bot-name",
        "the bot's name",
        lambda at: _ask_setting(at, "OLLIM_BOT_NAME", "The bot's name", at.of.bot_name),
        ("bot_name",),
    ),
    Step("timezone", "the time zone", _ask_time_zone, ("timezone",)),
    Step("model", "the model", _ask_model, ("api_key",)),
    Step("discord", "Discord", _ask_discord, ("discord_token",)),
    Step("phone", "the phone", _ask_phone, (), lambda at: not at.of.paths.push.exists()),
    Step(
        "calendar",
        "the calendar",
        _ask_calendar,
        ("calendar",),
        lambda at: not _calendar_files(at.of).sources(),
    ),
    Step("routine", "the routine", _ask_routine, (), lambda at: not at.has_jobs(JobKind.ROUTINE)),
    # Before the first reminder, so that it too comes again.
    Step(
        "notifications",
        "notifications",
        _ask_notifications,
        (),
        lambda at: at.of.config.nag_default is None,
    ),
    Step(
        "reminder",
        "what you forget most",
        _ask_forgotten,
        (),
        lambda at: not at.has_jobs(JobKind.ROUTINE, JobKind.REMINDER),
    ),
    Step(
        "quiet",
        "the quiet hours",
        _ask_quiet_hours,
        (),
        lambda at: at.of.config.quiet_hours is None,
    ),
    Step(
        "service",
        "the start with the machine",
        _ask_service,
        ("service",),
        lambda at: at.service is not None and not at.service.is_installed(),
    ),
)


FLAGS = {
    "OLLIM_USER_NAME": "--user-name",
    "OLLIM_BOT_NAME": "--bot-name",
    "OLLIM_TIMEZONE": "--timezone",
    "ANTHROPIC_API_KEY": "--api-key",
    "DISCORD_TOKEN": "--discord-token",
}
# Each of them decides which model answers.
MODEL_SETTINGS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "OLLIM_MODEL",
)
_NEW = "On the page Bot of your application, Reset Token shows a new one."
_EMPTY = "is empty. Right: a value, or leave the flag out."


class GivenAnswers(NamedTuple):
    """What the flags say, in the order of `FLAGS`; None where they say nothing."""

    user_name: str | None = None
    bot_name: str | None = None
    timezone: str | None = None
    api_key: str | None = None
    discord_token: str | None = None
    calendar: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The given settings, by their names."""
        values = zip(FLAGS, self, strict=False)  # the calendar is no setting
        return {name: value.strip() for name, value in values if value is not None}


class CheckedAnswers(NamedTuple):
    """Right answers, with what was looked up to check them. `notes` are sentences."""

    changes: EnvChanges
    calendar: NewCalendar | None = None
    bot: DiscordBot | None = None
    notes: tuple[str, ...] = ()


def check_answers(
    given: GivenAnswers, of: Installation, others: Sequence[str] = ()
) -> CheckedAnswers:
    """Look all answers over, the token and the calendar live; nothing is written.

    Raises `BadSettings` with all problems at once, `others` included.
    """
    settings = given.settings
    problems = [
        *others,
        *(
            f"{FLAGS[name]}: {reason}"
            for name, value in settings.items()
            if (reason := problem_with(name, value) if value else _EMPTY)
        ),
    ]
    wrong = {problem.partition(":")[0] for problem in problems}
    changes: dict[str, str | None] = dict(settings)
    if given.api_key is not None:
        changes = {**dict.fromkeys(MODEL_SETTINGS), **changes}
    right = {name: value for name, value in changes.items() if FLAGS.get(name) not in wrong}
    # Before the token is sent anywhere: the environment may name another address.
    misplaced = of.problems_after(right)
    bot, notes = None, tuple[str, ...]()
    if given.discord_token and "--discord-token" not in wrong and not misplaced:
        found = _look_up_discord(of, settings["DISCORD_TOKEN"])
        bot, reasons, notes = judged_bot(found, of.settings.discord_owner_id)
        problems += [f"--discord-token: {reason}" for reason in reasons]
    calendar = None
    if given.calendar is not None:
        try:
            calendar = _read_calendar(of, given.calendar.strip())
        except (WrongInput, CalendarFailed) as refused:
            problems.append(f"--calendar: {refused}")
    if problems := [*problems, *misplaced]:
        raise BadSettings(problems)
    return CheckedAnswers(changes, calendar, bot, notes)


def judged_bot(
    found: DiscordBot | DoctorFinding, owner_id: int | None
) -> tuple[DiscordBot | None, list[str], tuple[str, ...]]:
    """The bot, what is wrong with the token, and what could not be checked."""
    from ollim_bot.kernel.upkeep.findings import DoctorFinding, Level
    from ollim_bot.surfaces.discord.account import NO_TOKEN

    bot = None if isinstance(found, DoctorFinding) else found
    finding = found if isinstance(found, DoctorFinding) else found.owned_by(owner_id)
    sentence = f"{finding.detail[:1].upper()}{finding.detail[1:]}."
    if finding.level is Level.FAIL:
        return bot, [f"{sentence} {_NEW if finding.detail == NO_TOKEN else finding.next}"], ()
    if finding.level is Level.WARN:
        return bot, [], (f"{sentence} {finding.next}",)
    return bot, [], ()


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
    from ollim_bot.features.install.service import find_supervisor

    console, is_terminal = TerminalConsole(), sys.stdin.isatty()
    supervisor = find_supervisor(caller.environ)
    service = None if supervisor is None else ServiceStart(caller, supervisor)
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
        from ollim_bot.features.install.service_command import install_service

        install_service(self._caller, is_agreed=True)


def set_up(words: Sequence[str], caller: Caller, to: SetUpEnvironment) -> None:
    """Answer by flags, ask the rest, and end with the doctor. Raises `OllimError` if it fails."""
    given = _SYNTAX.read(words)
    known = {step.word: step for step in STEPS}
    for word in given.get("steps", ()):
        if word not in known:
            sentence = f"`{_COMMAND}` has no step `{word}`."
            raise no_such(sentence, word, known, f"{_COMMAND} --help")
    wanted = [known[word] for word in given.get("steps", ())]
    is_silent = "non_interactive" in given
    if not is_silent and not to.is_terminal:
        raise WrongInput(_NO_TERMINAL)
    of = Installation(caller)
    others = [_NO_SERVICE] if given.get("service") and to.service is None else []
    checked = check_answers(_given_answers(given, to), of, others)
    at = SetUp(of, to)
    steps = [] if is_silent else _steps(wanted, given, at)
    for line in _beforehand(checked, steps, of):
        to.console.say(line)
    _apply(checked, of, to.console)
    for number, step in enumerate(steps, 1):
        at.begin(f"{number}/{len(steps)}")
        try:
            step.ask(at)
        except (KeyboardInterrupt, EOFError):
            to.console.say("")
            stopped = f"Stopped at {step.title}. What you answered before is kept:"
            to.console.say(f"{stopped} `ollim-bot setup` goes on.")
            raise KeyboardInterrupt from None
        except WrongInput as wrong:
            at.say(str(wrong))
    if given.get("service") and to.service is not None:
        to.service.install()
        of.needs_restart = False
    _finish(of, to)


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


def _steps(wanted: Sequence[Step], given: Given, at: SetUp) -> Sequence[Step]:
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
        _add_calendar(of, checked.calendar)
        console.say(added_words(checked.calendar.copy, of.now))
    for line in () if checked.bot is None else introduced(checked.bot):
        console.say(line)
    for sentence in checked.notes:
        note(sentence)
    for name in checked.changes:
        if name in of.written and (place := of.stronger_place(name)):
            note(TAKEN.format(name=name, place=place))


def _finish(of: Installation, to: SetUpEnvironment) -> None:
    """Print what the doctor finds, and what to do next. Raises `OllimError` for a failure."""
    to.console.say("")
    if to.report(of.caller):
        to.console.say(_MEND)
        raise OllimError("")  # all is said; only the exit code is left
    if (config := of.config).daily_cost_cap is not None:
        to.console.say(_LIMIT.format(limit=config.in_words("daily_cost_cap")))
    if of.is_running:
        to.console.say(_RESTART if of.needs_restart else _RUNS)
    else:
        to.console.say(_START if of.settings.discord_token is None else _START_DISCORD)

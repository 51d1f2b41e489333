"""The questions of set-up, one at a time. Each answer is on disk before the next is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ollim_bot.cli import reminder, routine
from ollim_bot.cli.framework import plain
from ollim_bot.cli.setup_changes import MODEL_SETTINGS, Installation, ModelInUse, judged_bot
from ollim_bot.cli.terminal import show
from ollim_bot.domain.calendar import added_words
from ollim_bot.domain.moments import clock_time, near_zone
from ollim_bot.errors import BadPhrase, CalendarFailed, EngineError, OllimError, WrongInput
from ollim_bot.settings import problem_with
from ollim_bot.upkeep.doctor import DoctorFinding

if TYPE_CHECKING:
    from ollim_bot.cli.auth import Login
    from ollim_bot.upkeep.checks.network import DiscordBot

_INDENT = " " * 5
_ADDRESS = "Its address, such as localhost:11434 (Enter: not now)"
_NOT_SHOWN = "not shown as you type; Enter: not now"
TAKEN = "{name} is set in {place}, which counts before what set-up writes: change it there."
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
_NOTIFIED_BY_PAGE = (
    "Reminders reach you on the page: its bell turns notifications on. For your phone, connect "
    "Discord: `ollim-bot setup discord`."
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
_YES = ("y", "yes")


class Console(Protocol):
    """A person at a terminal. A question raises `KeyboardInterrupt` or `EOFError` to stop."""

    def say(self, line: str, indent: str = "") -> None: ...

    def ask(self, question: str) -> str: ...

    def ask_secret(self, question: str) -> str:
        """Ask without showing the answer."""


class TerminalConsole:
    def say(self, line: str, indent: str = "") -> None:
        show(plain(line), indent)

    def ask(self, question: str) -> str:
        return input(question)

    def ask_secret(self, question: str) -> str:
        from getpass import getpass

        return getpass(question)


class MachineStart(Protocol):
    """Has the bot start with the machine."""

    def is_installed(self) -> bool: ...

    def install(self) -> None:
        """Raises `OllimError` if it does not work; all is as before then."""


class Interview:
    """`service` is None on a machine that cannot start the bot by itself."""

    def __init__(
        self,
        console: Console,
        of: Installation,
        login: Login,
        service: MachineStart | None = None,
    ) -> None:
        self.of = of
        self.login = login
        self.service = service
        self._console = console
        self._mark = ""

    def begin(self, mark: str) -> None:
        """Put the mark before the next line."""
        self._mark = mark

    def say(self, text: str) -> None:
        for line in text.splitlines():
            self._console.say(f"{self._margin()}{line}", _INDENT)

    def ask(self, question: str, default: str = "") -> str:
        """The answer; an empty one is the default."""
        shown = f" [{plain(default)}]" if default else ""
        return self._console.ask(f"{self._margin()}{question}{shown}: ").strip() or default

    def ask_right(self, question: str, problem: Callable[[str], str], default: str = "") -> str:
        """As `ask`, again until `problem` is empty; an empty answer and the default are right."""
        while True:
            answer = self.ask(question, default)
            reason = problem(answer) if answer and answer != default else ""
            if not reason:
                return answer
            self.say(f"{reason[:1].upper()}{reason[1:]}")

    def ask_secret(self, question: str, problem: Callable[[str], str]) -> str:
        """As `ask_right`, without showing the answer; empty if the person gives none."""
        while True:
            asked = f"{self._margin()}{question} ({_NOT_SHOWN}): "
            answer = self._console.ask_secret(asked).strip()
            reason = problem(answer) if answer else ""
            if not reason:
                return answer
            self.say(f"{reason[:1].upper()}{reason[1:]}")

    def agrees(self, question: str) -> bool:
        return self.ask(f"{question} y or Enter for no").lower() in _YES

    def is_taken(self, *names: str) -> bool:
        """Whether another place sets one of the names, which is said."""
        places = {name: self.of.stronger_place(name) for name in names}
        for name, place in places.items():
            if place is not None:
                self.say(TAKEN.format(name=name, place=place))
        return any(places.values())

    def _margin(self) -> str:
        margin, self._mark = self._mark.ljust(len(_INDENT)), ""
        return margin


def _ask_user_name(at: Interview) -> None:
    _ask_setting(at, "OLLIM_USER_NAME", "Your name", at.of.user_name)


def _ask_bot_name(at: Interview) -> None:
    _ask_setting(at, "OLLIM_BOT_NAME", "The bot's name", at.of.bot_name)


def _ask_setting(at: Interview, name: str, question: str, present: str) -> None:
    if at.is_taken(name):
        return
    answer = at.ask_right(question, lambda text: problem_with(name, text), present)
    if answer != present or at.of.is_wrong(name):
        at.of.write({name: answer})


def _ask_time_zone(at: Interview) -> None:
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


def _ask_model(at: Interview) -> None:
    if at.is_taken(*(name for name in MODEL_SETTINGS if name != "ANTHROPIC_MODEL")):
        return
    try:
        at.say(f"Who answers? {_answering(at.of.model_in_use(at.login))}")
    except EngineError as unknown:
        at.say(f"Who answers? {unknown}")
    at.say(_MODELS)
    ways = {"1": _sign_in, "2": _ask_key, "3": _ask_server, "4": _stay_offline}
    problem = dict.fromkeys(ways, "")
    answer = at.ask_right("1 to 4 (Enter: keep it)", lambda text: problem.get(text, _NOT_A_MODEL))
    if answer:
        ways[answer](at)


def _answering(in_use: ModelInUse) -> str:
    provider, login = in_use
    if provider.problem:
        return provider.problem
    if provider.is_offline:
        return "Now it is the built-in offline model."
    return login.sentence if login is not None else f"Now it is {provider.name}."


def _sign_in(at: Interview) -> None:
    environ = at.of.caller.environ
    try:
        at.login.log_in(environ)
    except OllimError as refused:
        at.say(f"{refused} `ollim-bot auth login` tries it again.")
        return
    at.of.needs_restart = True
    _write_model(at, {})
    at.say(at.login.status(environ).sentence)


def _ask_key(at: Interview) -> None:
    name = "ANTHROPIC_API_KEY"
    if key := at.ask_secret("API key", lambda text: problem_with(name, text)):
        _write_model(at, {name: key})


def _ask_server(at: Interview) -> None:
    base, token, model = "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL"
    while address := at.ask_right(_ADDRESS, lambda text: problem_with(base, text)):
        reason = at.of.why_silent(address)
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


def _stay_offline(at: Interview) -> None:
    at.of.write({"OLLIM_MODEL": "offline"})


def _write_model(at: Interview, changes: dict[str, str]) -> None:
    """Write the changes, and take out what would count before them."""
    others = [name for name in MODEL_SETTINGS if name not in changes and at.of.is_set(name)]
    if others:
        at.say(f"This takes {' and '.join(others)} out of `.env`.")
    if changes or others:
        at.of.write({**changes, **dict.fromkeys(others)})


def _ask_discord(at: Interview) -> None:
    if at.is_taken("DISCORD_TOKEN"):
        return
    present = at.of.settings.discord_token
    if present is None:
        at.say(_NO_TOKEN)
    else:
        at.say(f"Discord: {_state_of(present.reveal(), at)}")
    question = "Token" if present is None else "Another token"
    while token := at.ask_secret(question, lambda text: problem_with("DISCORD_TOKEN", text)):
        if _takes_token(at, token):
            return


def _state_of(token: str, at: Interview) -> str:
    if at.of.is_wrong("DISCORD_API_URL"):
        return "the token was not checked, since its address is wrong."
    found = at.of.look_up_discord(token)
    _, wrong, notes = judged_bot(found, at.of.settings.discord_owner_id)
    return " ".join(wrong or notes or ("the token is right.",))


def _takes_token(at: Interview, token: str) -> bool:
    """Check the token at Discord, and write it if it is right; say what is found."""
    changes = {"DISCORD_TOKEN": token}
    # Before the token is sent anywhere: the environment may name another address.
    if wrong := at.of.problems_after(changes):
        at.say("\n".join(wrong))
        return False
    found = at.of.look_up_discord(token)
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


def _member(at: Interview, bot: DiscordBot, owner_id: int | None) -> str | None:
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


def _ask_calendar(at: Interview) -> None:
    at.say(_CALENDAR)
    while address := at.ask_secret("Its address", lambda _: ""):
        try:
            new = at.of.read_calendar(address)
        except (WrongInput, CalendarFailed) as refused:
            at.say(str(refused))
            continue
        at.of.add_calendar(new)
        at.say(added_words(new.copy, at.of.now))
        return


def _ask_routine(at: Interview) -> None:
    at.say(_ROUTINE)
    while when := _with_colon(at.ask("At what time? (Enter: not now)")):
        text = _MORNING_OFFLINE if _is_offline(at) else _MORNING
        words = ["add", text, "--every", f"day at {when}", "--description", "Morning"]
        try:
            routine.run(words, at.of.caller)
        except BadPhrase:
            at.say(_NO_TIME)
            continue
        return


def _with_colon(time: str) -> str:
    """`7:30` for `7.30`, as many people write it."""
    return re.sub(r"\b([0-9]{1,2})[.h]([0-5][0-9])\b", r"\1:\2", time)


def _ask_forgotten(at: Interview) -> None:
    at.say(_FORGOTTEN)
    text = at.ask("What is it? (Enter: nothing now)")
    while text and (when := _with_colon(at.ask("When? (Enter: not now)"))):
        rhythm = re.sub(r"^(?:every|each) ", "", when, flags=re.IGNORECASE)
        for run, words in (
            (routine.run, ["add", text, "--every", rhythm, "--plain", "--must"]),
            (reminder.run, ["add", text, "--at", when]),
        ):
            try:
                run(words, at.of.caller)
            except BadPhrase:
                continue
            return
        at.say(_NO_MOMENT)


def _ask_quiet_hours(at: Interview) -> None:
    at.say(_QUIET)
    while hours := at.ask("From when to when? Such as 22-7 (Enter: none)"):
        try:
            at.of.configure("quiet_hours", hours)
        except WrongInput:
            at.say(_NO_HOURS)
            continue
        at.say(f"Quiet from {at.of.config.in_words('quiet_hours').replace('-', ' to ')}.")
        return


def _ask_notifications(at: Interview) -> None:
    has_discord = at.of.settings.discord_token is not None
    at.say(_NOTIFIED_BY_DISCORD if has_discord else _NOTIFIED_BY_PAGE)
    at.say(_COMES_AGAIN)
    if at.agrees(_AGAIN):
        at.of.configure("nag_default", _NAG)


def _is_offline(at: Interview) -> bool:
    try:
        return at.of.model_in_use(at.login).provider.is_offline
    except EngineError:
        return True


def _ask_service(at: Interview) -> None:
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
    ask: Callable[[Interview], None]
    flags: Sequence[str] = ()
    is_worth_asking: Callable[[Interview], bool] = lambda _: True


STEPS = (
    Step("name", "your name", _ask_user_name, ("user_name",)),
    Step("bot-name", "the bot's name", _ask_bot_name, ("bot_name",)),
    Step("timezone", "the time zone", _ask_time_zone, ("timezone",)),
    Step("model", "the model", _ask_model, ("api_key",)),
    Step("discord", "Discord", _ask_discord, ("discord_token",)),
    Step(
        "calendar", "the calendar", _ask_calendar, ("calendar",), lambda at: not at.of.calendars()
    ),
    Step("routine", "the routine", _ask_routine, (), lambda at: not at.of.has_routines()),
    Step(
        "reminder",
        "what you forget most",
        _ask_forgotten,
        (),
        lambda at: not (at.of.has_reminders() or at.of.has_routines()),
    ),
    Step(
        "notifications",
        "notifications",
        _ask_notifications,
        (),
        lambda at: at.of.config.nag_default is None,
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

"""The `ollim-bot` command: imports only what the named group needs, and reports every failure."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from ollim_bot import __version__
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.agent_caller import (
    HELP_WORDS,
    CommandLine,
    owners_command,
    owners_command_refusal,
    read_command_line,
)
from ollim_bot.surfaces.terminal.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

# The description of each group and its module. Groups have verbs.
GROUPS: Mapping[str, tuple[str, str]] = {
    "routine": (JobKind.ROUTINE.about, "ollim_bot.features.jobs.routine_command"),
    "reminder": (JobKind.REMINDER.about, "ollim_bot.features.jobs.reminder_command"),
    "webhook": (JobKind.WEBHOOK.about, "ollim_bot.features.webhooks.webhook_command"),
    "tasks": ("your to-do list", "ollim_bot.features.tasks.tasks_command"),
    "cal": ("your calendars", "ollim_bot.features.calendars.cal_command"),
    "skill": ("instructions the agent loads by name", "ollim_bot.features.skills.skill_command"),
    "runs": ("what the bot did by itself", "ollim_bot.features.runs.runs_command"),
    "cost": (
        "what the model costs, by day, job and model",
        "ollim_bot.features.money.cost_command",
    ),
    "history": ("search and read past conversations", "ollim_bot.features.history.history_command"),
    "gmail": ("read your mail at Google", "ollim_bot.features.google.gmail_command"),
    "messages": ("export every message", "ollim_bot.features.history.messages_command"),
    "marks": ("notes and tasks with words of others", "ollim_bot.features.marks"),
    "google": ("connect your Google account", "ollim_bot.features.google.google_command"),
    "mcp": ("your own tool servers", "ollim_bot.features.tool_servers.mcp_command"),
    "config": (
        "settings you can change while the bot runs",
        "ollim_bot.features.settings.config_command",
    ),
    "auth": ("sign in at Claude", "ollim_bot.features.setup.auth_command"),
    "web": ("print an address that opens the page", "ollim_bot.features.page"),
    "push": ("reminders on your phone", "ollim_bot.features.phone.push_command"),
    "service": ("start the bot with this machine", "ollim_bot.features.install.service_command"),
    "standby": ("the same bot on a second machine", "ollim_bot.features.standby"),
    "completion": (
        "complete commands with Tab in your shell",
        "ollim_bot.surfaces.terminal.completion",
    ),
}
COMMANDS: Mapping[str, tuple[str, str]] = {
    "setup": ("set the bot up by a few questions", "ollim_bot.features.setup.setup_command"),
    "today": (
        "what waits for you, what comes today, what is done",
        "ollim_bot.features.today.today_command",
    ),
    "receipt": (
        "what was due on a day, and what came of it",
        "ollim_bot.features.runs.receipt_command",
    ),
    **GROUPS,
    "doses": (
        "which doses you took, skipped or left unanswered",
        "ollim_bot.features.runs.doses_command",
    ),
    "about-me": (
        "what it knows about you, line by line",
        "ollim_bot.features.about_me.about_me_command",
    ),
    "forget": (
        "have it forget something, here or everywhere",
        "ollim_bot.features.about_me.forget_command",
    ),
    "backup": (
        "save everything the bot knows in one file",
        "ollim_bot.features.keeping.backup_command",
    ),
    "restore": ("put a backup back, or try it out", "ollim_bot.features.keeping.restore_command"),
    "doctor": ("check everything, and say what to do", "ollim_bot.features.doctor.doctor_command"),
    "update": ("install a newer version", "ollim_bot.features.install.update_command"),
    "sentinel": (
        "deliver reminders while the bot is away",
        "ollim_bot.features.sentinel.sentinel_command",
    ),
    "changes": ("what was changed, by whom and why", "ollim_bot.features.changes.changes_command"),
    "undo": ("take a change back", "ollim_bot.features.changes.undo_command"),
    "rehearse": ("preview the coming days", "ollim_bot.features.week.rehearse_command"),
}

# What is answered here.
_PAGES: Mapping[str, str] = {
    "version": "print the version",
    "help": "this page, or `ollim-bot help routine`, or `ollim-bot help routine add`",
}

# Words that people type alone, and the command that does it.
_OF_WHICH_COMMAND: Mapping[str, str] = {
    "add": "reminder add",
    "cancel": "reminder cancel",
    "calendar": "cal",
    "done": "tasks done",
    "list": "reminder list",
    "login": "auth login",
    "logs": "service logs",
    "pause": "routine pause",
    "remind": "reminder add",
    "resume": "routine resume",
    "search": "history search",
    "snooze": "reminder snooze",
    "status": "service status",
    "task": "tasks",
}
_EXAMPLE = "ollim-bot help routine add"
_MOST_NAMES = 2
_ABOUT_VERSION = "usage: ollim-bot version\n\nprint the version"
_HELP = """\
usage: ollim-bot [COMMAND] [...]

Without a command, it starts the bot. Commands:
{commands}

Example:
  ollim-bot reminder add -m "call the dentist" --at "tomorrow 9am"

Exit codes: 0 done, 1 could not be done, 2 wrong input or settings, 3 sign-in needed,
130 interrupted. What is wrong is said on standard error, one line for each problem."""


def run() -> NoReturn:
    """The entry point of the `ollim-bot` program."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # Garbage collection and the shutdown of the interpreter would take a sixth of the run time of a
    # command. `main` has flushed all output when it returns. The bot collects once it is loaded.
    gc.disable()
    if len(sys.argv) == 1:
        sys.exit(main([]))
    os._exit(main(sys.argv[1:]))


def main(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    now: Callable[[], datetime] | None = None,
) -> int:
    """Run one command line, and return its exit code."""
    caller = Caller(environ, cwd, now)
    try:
        code = _dispatched(read_command_line(argv), caller)
        print(end="", flush=True)
        return code
    except OllimError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _failed("", 130)
    except OSError as refused:
        if refused.filename is not None:
            return _failed(f"{refused.filename}: {refused.strerror}.", 1)
        # The output failed. Python must not try again to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(refused, BrokenPipeError):
            return 0
        return _failed(f"The answer could not be written: {refused.strerror}.", 1)
    finally:
        if argv and caller.warnings:  # the bot itself says them when it starts
            from ollim_bot.surfaces.terminal.terminal_data import note

            with suppress(OSError):
                for warning in caller.warnings:
                    note(warning)


def _dispatched(command: CommandLine, caller: Caller) -> int:
    try:
        _dispatch(command, caller)
    except SystemExit as ended:
        # argparse exits after its help; a bot that must not go on, with a sentence or a code.
        return _failed(ended.code, 1) if isinstance(ended.code, str) else ended.code or 0
    return 0


def _dispatch(command: CommandLine, caller: Caller) -> None:
    refused = owners_command(command)
    if refused is not None and caller.agent is not None:
        raise OllimError(owners_command_refusal(refused))
    match command:
        case ("", _, _):
            import_module("ollim_bot.app.start").run(caller)
        case ("--trial", _, ()):
            import_module("ollim_bot.app.start").run(caller, is_trial=True)
        case ("help", _, topic):
            _explain(topic, caller)
        case ("version", _, ("--help" | "-h" | "help", *_)):
            print(_ABOUT_VERSION)
        case ("version", _, _):
            print(f"ollim-bot {__version__}")
        case ("completion", "ask", (shell, *line)):
            from ollim_bot.surfaces.terminal.completion import answer

            commands = {**COMMANDS, **{name: (about, "") for name, about in _PAGES.items()}}
            print(*answer(shell, line, commands, caller), sep="\n")
        case (noun, verb, rest) if noun in COMMANDS:
            import_module(COMMANDS[noun][1]).run([verb, *rest] if verb else rest, caller)
        case (noun, _, _):
            raise _unknown(noun)


def _explain(topic: Sequence[str], caller: Caller) -> None:
    """Print the help about a command or one of its verbs, and run nothing.

    The words are names only: an option among them, such as `--`, could make the request for help
    an argument of the command.
    """
    names = [word for word in topic if word not in HELP_WORDS]
    if len(names) > _MOST_NAMES or any(name.startswith("-") for name in names):
        raise WrongInput(f"`ollim-bot help` takes a command and its verb. Example: {_EXAMPLE}")
    if not names:
        from ollim_bot.surfaces.terminal.printing import show

        rows = {**{name: about for name, (about, _) in COMMANDS.items()}, **_PAGES}
        commands = "\n".join(f"  {name:<11} {about}" for name, about in rows.items())
        show(_HELP.format(commands=commands))
    elif names[0] == "version":
        print(_ABOUT_VERSION)
    elif names[0] in COMMANDS:
        import_module(COMMANDS[names[0]][1]).run([*names[1:], "--help"], caller)
    else:
        raise _unknown(names[0])


def _unknown(word: str) -> OllimError:
    from ollim_bot.surfaces.terminal.printing import no_such

    if word in _OF_WHICH_COMMAND:
        meant = f"Did you mean `ollim-bot {_OF_WHICH_COMMAND[word]}`?"
        return WrongInput(f"There is no command `{word}`. {meant}")
    known = [*COMMANDS, *_PAGES]
    return no_such(f"There is no command `{word}`.", word, known, "ollim-bot help")


def _failed(sentences: str, exit_code: int) -> int:
    from ollim_bot.kernel.base.database_address import IS_KEY, shows_key
    from ollim_bot.surfaces.terminal.framework import plain
    from ollim_bot.surfaces.terminal.printing import show

    with suppress(OSError):
        print(end="", flush=True)
    if shows_key(sentences):  # an argument that is shown again
        sentences = IS_KEY
    for sentence in sentences.splitlines():
        show(plain(sentence), "  ", stream=sys.stderr)
    return exit_code

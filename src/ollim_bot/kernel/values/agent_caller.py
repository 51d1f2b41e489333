"""Which `ollim-bot` commands the agent may run, and what each does after text of others."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

# A variable of every program that the agent starts: `CONVERSATION`, or the id of the occurrence of
# its background run.
CALLED_BY = "OLLIM_CALLED_BY"
CONVERSATION = "conversation"

PROGRAM = "ollim-bot"

HELP_WORDS = frozenset({"help", "--help", "-h"})
_VERSION_WORDS = frozenset({"version", "--version"})


class Effect(Enum):
    """What a call does in a session that has read text of others."""

    LOOKS = auto()
    # It is let through, and what it leaves is marked.
    MARKED = auto()
    # It needs the owner's word, which a background run cannot get.
    ASKS = auto()
    # It is the owner's alone in every session.
    OWNERS = auto()


class Does(NamedTuple):
    """What a tool or a command does in a careful session.

    `wanted` completes "and now want to"; `instead` says how it can be done all the same. A `step`
    is counted; with a `limit`, so many are made in a turn or run.
    """

    effect: Effect
    wanted: str = ""
    instead: str = "Ask the owner to say so in a message of their own."
    step: str = ""
    limit: int = 0


LOOKS, MARKED, OWNERS = Does(Effect.LOOKS), Does(Effect.MARKED), Does(Effect.OWNERS)
NEW_TASK = Does(Effect.MARKED, "add more tasks", step="new task", limit=3)


def asks(wanted: str, instead: str = Does._field_defaults["instead"]) -> Does:
    return Does(Effect.ASKS, wanted, instead)


class NeedsWord(NamedTuple):
    """A call that text of others may have caused: what was read, and what it would do."""

    read: str
    does: Does

    @property
    def refusal(self) -> str:
        return (
            f"You have read {self.read}, so you may not {self.does.wanted} by yourself now. "
            f"{self.does.instead}"
        )


def _verbs(words: str, does: Does) -> dict[str, Does]:
    return dict.fromkeys(words.split(), does)


_UNKNOWN = asks("run a command that is not known")
_OTHER = "*"
_CHANGES_JOB = "add edit cancel pause resume run"
# What each command does, by its verb where it has several. `_OTHER` are all further verbs.
COMMANDS: Mapping[str, Does | Mapping[str, Does]] = {
    **dict.fromkeys(
        (
            *("about-me", "auth", "backup", "forget", "google", "marks", "messages", "push"),
            *("restore", "sentinel", "service", "setup", "standby", "undo", "update", "web"),
        ),
        OWNERS,
    ),
    **dict.fromkeys(
        (
            *("changes", "completion", "cost", "doctor", "doses", "gmail", "help", "history"),
            *("receipt", "rehearse", "runs", "today", "version"),
        ),
        LOOKS,
    ),
    "config": {**_verbs("list get", LOOKS), _OTHER: OWNERS},
    "mcp": {"list": LOOKS, _OTHER: OWNERS},
    "skill": {**_verbs("list show check", LOOKS), _OTHER: OWNERS},
    "routine": {**_verbs("list show", LOOKS), **_verbs(_CHANGES_JOB, asks("change a routine"))},
    "reminder": {
        **_verbs("list show", LOOKS),
        **_verbs(f"{_CHANGES_JOB} snooze", asks("change a reminder")),
    },
    "webhook": {
        **_verbs("list show", LOOKS),
        **_verbs(f"{_CHANGES_JOB} test", asks("change a webhook")),
        "url": OWNERS,
    },
    "tasks": {
        **_verbs("list show lists", LOOKS),
        "add": NEW_TASK,
        **_verbs("done reopen update delete", asks("change a task")),
    },
    "cal": {
        **_verbs("today upcoming show calendars", LOOKS),
        **_verbs("add update delete", asks("add or change an event")),
        **_verbs("subscribe unsubscribe refresh", OWNERS),
    },
}
# They change the installation, or write or read a file of any name, past the rules for paths.
_OWNERS_OPTIONS = {"doctor": "--fix", "runs": "--output", "cost": "--output", "rehearse": "--with"}


class CommandLine(NamedTuple):
    """The words after `ollim-bot`, split at what they run.

    The program dispatches by `noun` and `verb` and by nothing else, so a check of these two is a
    check of what will run. Without a noun the words start the bot. The noun `help` only prints. A
    word that begins with a dash is never a verb, nor is any word behind it; a noun that has verbs
    then lists.
    """

    noun: str
    verb: str
    rest: tuple[str, ...]


def read_command_line(words: Sequence[str]) -> CommandLine:
    noun, others = (words[0], words[1:]) if words else ("", ())
    if noun in HELP_WORDS:
        return CommandLine("help", "", tuple(others))
    if noun in _VERSION_WORDS:
        return CommandLine("version", "", tuple(others))
    verb, rest = split_verb(others)
    return CommandLine(noun, verb, rest)


def split_verb(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The verb behind a noun, empty if there is none, and the words that it takes."""
    if words and words[0] and (not words[0].startswith("-") or words[0] in HELP_WORDS):
        return words[0], tuple(words[1:])
    return "", tuple(words)


def effect_of(command: CommandLine) -> Does:
    """What the command does; a noun that is not in the table is the owner's alone."""
    noun, verb, _ = command
    declared = COMMANDS.get(noun, OWNERS)
    if _owners_option(command):
        return OWNERS
    if isinstance(declared, Does):
        return declared
    if _OTHER in declared:
        return declared.get(verb, declared[_OTHER])
    return LOOKS if verb in HELP_WORDS else declared.get(verb or "list", _UNKNOWN)


def _owners_option(command: CommandLine) -> str:
    option = _OWNERS_OPTIONS.get(command.noun)
    words = (command.verb, *command.rest)
    return option if option and any(word.startswith(option) for word in words) else ""


def owners_command(command: CommandLine) -> str | None:
    """The command in words, if it is one that only the owner may run.

    Such a command changes permissions, shows a key, or starts or stops the bot.
    """
    if effect_of(command).effect is not Effect.OWNERS:
        return None
    return " ".join(filter(None, (PROGRAM, command.noun, command.verb, _owners_option(command))))


def hidden_owners_command(words: Sequence[str]) -> str | None:
    """As `owners_command`, for `env ollim-bot config set …` and the like, where recognisable.

    `ollim-bot` itself refuses all of them when the agent is the caller.
    """
    for at, word in enumerate(words, 1):
        if posixpath.basename(word) == PROGRAM:
            command = read_command_line(words[at:])
            if command.noun in COMMANDS and (owners := owners_command(command)):
                return owners
    return None


def owners_command_refusal(command: str) -> str:
    return f"`{command}` is for the owner alone. Ask them to do it in a terminal."


LONGEST_COMMAND = 100_000
MOST_WORDS = 200

# Outside quotes, only letters, digits and these are plain; nothing in single quotes is expanded.
# Compiled when they are first used: every command loads them, and few use them.
_PART = r"[\w\-./:=@%+,]" + r"|'[^']*'" + r'|"[^"$`\\]*"'
_ONE_COMMAND = rf"(?:{_PART}|[ \t])*+"
_WORD = rf"(?:{_PART})++"
_QUOTED = r"""(?s)(['"])(.*?)\1"""


def shell_words(command: str) -> tuple[str, ...] | None:
    """The words of one simple command; None if it is, or may be, anything else.

    None for chains, substitutions, variables, redirections, assignments, escapes, comments, globs,
    braces, home directories, unclosed quotes, control characters, and anything beyond the limits.
    Each returned word means only itself, in any shell with any settings.
    """
    if len(command) > LONGEST_COMMAND:
        return None
    if any(unicodedata.category(char) == "Cc" and char != "\t" for char in command):
        return None
    if not re.fullmatch(_ONE_COMMAND, command):
        return None
    written = re.findall(_WORD, command)
    if len(written) > MOST_WORDS or any(word.startswith("=") for word in written):
        return None
    words = tuple(re.sub(_QUOTED, r"\2", word) for word in written)
    return None if words and "=" in words[0] else words


def quoted(words: Iterable[str]) -> str:
    """A command line that every shell reads as these words: each in single quotes.

    No shell expands, aliases or otherwise replaces a single-quoted word.
    """
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)
